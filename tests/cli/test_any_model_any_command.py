"""Every saved model is used by every command: of `train`, of `stream`, and of Python."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import tunefree
from tunefree.cli import app
from tunefree.core.registry import estimator_class

pytestmark = pytest.mark.filterwarnings("ignore")
N = 90
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "key": [f"r{i}" for i in range(N)],
        "a": RNG.normal(size=N).round(3),
        "b": RNG.integers(0, 9, N),
        "city": RNG.choice(["Rome", "Oslo"], N),
    }
)
NUMBERS = (2.0 * TABLE.a + (TABLE.city == "Rome")).round(3)
CLASSES = pd.Series(np.where(NUMBERS > 0.4, "hi", "lo"))


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, (result.exit_code, result.output, result.exception)
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name, y in (("numbers", NUMBERS), ("classes", CLASSES)):
        TABLE.assign(y=y).to_csv(folder / f"{name}.csv", index=False)
        TABLE.iloc[:, ::-1].assign(more="new").to_csv(folder / f"new {name}.csv", index=False)
    return folder


def _of_python(name, y):
    """A model that Python saved; of numbers alone where it takes no text."""
    takes_text = name.startswith(("TuneFree", "BoostedTrees", "GLM", "Stream"))
    rows = TABLE[["a", "b", "city"] if takes_text else ["a", "b"]]
    kind = estimator_class(name)
    if name.startswith("Stream"):
        return kind().partial_fit(rows, y)
    options = {"candidates": ("linear",)} if name.startswith("TuneFree") else {}
    return kind(random_state=0, **options).fit(rows, y)


MODELS = [
    *(("python", name) for name in ("TuneFreeClassifier", "BoostedTreesRegressor")),
    *(("python", name) for name in ("GLMClassifier", "RidgePathRegressor", "PiSTOLClassifier")),
    *(("python", name) for name in ("StreamClassifier", "StreamRegressor")),
    *(("train", estimator) for estimator in ("auto", "glm")),
    *(("stream", task) for task in ("classes", "numbers")),
]


@pytest.mark.parametrize("origin, name", MODELS)
def test_every_command_takes_the_model(folder, origin, name):
    """New data may lack the target, have other columns, and these in another order."""
    is_number = name.endswith(("Regressor", "numbers"))
    kind, y = ("numbers", NUMBERS) if is_number else ("classes", CLASSES)
    model, data = folder / f"{origin} {name}.model", folder / f"{kind}.csv"
    if origin == "python":
        tunefree.save_model(_of_python(name, y), model)
    elif origin == "train":
        run("train", data, model, "--estimator", name, "--id", "key")
    else:
        run("stream", data, "--target", "y", "--id", "key", "--model", model)
    lines = [run("predict", model, folder / f"{part}{kind}.csv").stdout for part in ("", "new ")]
    assert lines[0] == lines[1] and len(lines[0].splitlines()) == N
    scores = json.loads(run("eval", model, data, "--target", "y", "--json").stdout)
    assert scores["n"] == N and (scores["r2"] > 0.5 if is_number else scores["error"] < 0.2)
    run("report", model, data, "--target", "y", "-o", folder / "page.html")
    facts = json.loads(run("inspect", model, "--json").stdout)
    names = [row["column"] for row in facts["columns"]]
    assert names[:2] == ["a", "b"] and set(names) <= {"a", "b", "city"}
    # The reverse: Python uses what commands saved.
    loaded = tunefree.load_model(model)
    rows = TABLE[names] if hasattr(loaded, "feature_names_in_") or "city" in names else None
    found = loaded.predict(TABLE[names].to_numpy() if rows is None else rows)
    assert [*map(str, found.tolist())][:5] == lines[0].splitlines()[:5]


def test_classes_that_the_model_does_not_know_end_with_a_sentence(folder):
    model, data = folder / "m.model", folder / "other.csv"
    tunefree.save_model(_of_python("GLMClassifier", CLASSES), model)
    TABLE.assign(y=CLASSES + ".").to_csv(data, index=False)
    for command in (("eval",), ("report", "-o", folder / "page.html")):
        name, *more = command
        out = " ".join(run(name, model, data, "--target", "y", *more, code=3).output.split())
        assert "no row has a class that the model knows ('hi', 'lo'), but 'lo.'" in out
        assert "(did you mean 'hi'?)" in out
    some = TABLE.assign(y=CLASSES.where(np.arange(N) > 8, "new"))
    some.to_csv(data, index=False)
    out = " ".join(run("eval", model, data, "--target", "y").output.split())
    assert "9 rows have a class that the model does not know, such as 'new'" in out


@pytest.fixture(scope="module")
def sparse_stream(tmp_path_factory):
    """A stream of libsvm whose features first occur in another order than their numbers."""
    folder = tmp_path_factory.mktemp("sparse")
    X = RNG.normal(size=(300, 6)) * (RNG.random((300, 6)) < 0.5)
    X[0, :2], X[0, 4] = 0.0, 1.0
    y = (X[:, 2] > X[:, 4]).astype(int)
    for name, rows in (("old", slice(0, 240)), ("new", slice(240, 300))):
        lines = [
            " ".join([str(label), *(f"{j + 3}:{v}" for j, v in enumerate(row) if v)])
            for row, label in zip(X[rows], y[rows], strict=True)
        ]
        (folder / f"{name}.svm").write_text("\n".join(lines) + "\n")
    run("stream", folder / "old.svm", "--model", folder / "model")
    return folder


@pytest.mark.parametrize("is_large", [False, True])
def test_a_stream_of_libsvm_knows_features_by_their_index(sparse_stream, is_large, monkeypatch):
    """As `predict_proba` of rows by name; from a file, a large file, and a pipe."""
    from tunefree.cli import rows

    if is_large:
        monkeypatch.setattr(rows, "_LARGE_FILE", 100)
        monkeypatch.setattr(rows, "_LARGE_INPUT", 100)
    model, data = sparse_stream / "model", sparse_stream / "new.svm"
    pairs = [line.split() for line in data.read_text().splitlines()]
    given = [{k: float(v) for k, _, v in (c.partition(":") for c in cells)} for _, *cells in pairs]
    expected = tunefree.load_model(model).predict_proba(given)
    out = sparse_stream / f"{is_large}.csv"
    run("predict", model, data, "-o", out)
    np.testing.assert_allclose(pd.read_csv(out)[["0", "1"]], expected, rtol=1e-12)
    piped = CliRunner().invoke(app, ["predict", str(model), "-"], input=data.read_text())
    assert piped.stdout.split() == expected.argmax(axis=1).astype(str).tolist()
    found = json.loads(run("eval", model, data, "--json").stdout)
    labels = np.array([int(first) for first, *_ in pairs])
    assert found["error"] == pytest.approx(np.mean(expected.argmax(axis=1) != labels))


def test_rows_without_a_column_of_a_stream_are_bad_data(folder, sparse_stream):
    """They would all have the same prediction."""
    by_name = folder / "named.model"
    run("stream", folder / "classes.csv", "--target", "y", "--model", by_name)
    for model, data in (
        (sparse_stream / "model", folder / "classes.csv"),
        (by_name, sparse_stream / "new.svm"),
    ):
        assert "no column is one of those learned" in run("predict", model, data, code=3).stderr


def test_a_column_that_the_data_of_a_stream_lack_is_named(folder):
    """It counts as missing, in a file and in a pipe."""
    model, data = folder / "lacks.model", folder / "lacks.csv"
    run("stream", folder / "numbers.csv", "--target", "y", "--id", "key", "--model", model)
    TABLE[["b", "city"]].to_csv(data, index=False)
    told = "note: no row has a, which the stream has learned"
    assert told in run("predict", model, data).stderr
    piped = CliRunner().invoke(app, ["predict", str(model), "-"], input=data.read_text())
    assert told in piped.stderr
    TABLE[["a", "b", "city"]].to_csv(data, index=False)
    assert "no row has" not in run("predict", model, data).stderr


def _with_commas(table, path):
    """Numbers with a decimal comma, between semicolons."""
    table.map(lambda value: str(value).replace(".", ",")).to_csv(path, sep=";", index=False)


FORMATS = {
    "csv": lambda table, path: table.to_csv(path, index=False),
    "commas.csv": _with_commas,
    "jsonl": lambda table, path: table.to_json(path, orient="records", lines=True),
    "parquet": lambda table, path: table.to_parquet(path),
}


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("estimator", ["glm", "trees"])
def test_a_model_with_an_exposure_reads_every_format(estimator, ending, tmp_path):
    table = TABLE[["a", "b"]].assign(time=RNG.uniform(0.2, 2.0, N).round(2))
    table["y"] = RNG.poisson(table.time * np.exp(table.a))
    for name, save in FORMATS.items():
        save(table, tmp_path / f"new.{name}")
    model = tmp_path / "a.model"
    options = "--exposure", "time", "--weight-column", "b", "--task", "regression"
    options += "--estimator", estimator, "--target", "y"
    run("train", tmp_path / f"new.{ending}", model, *options)
    first, *others = (run("predict", model, tmp_path / f"new.{name}").stdout for name in FORMATS)
    assert len(first.split()) == N
    assert others == [first] * len(others)


@pytest.mark.parametrize("at", [0, 1, 3])
@pytest.mark.parametrize("needs", ["exposure", "offset"])
def test_new_rows_need_no_groups_beside_what_they_need(needs, at, tmp_path):
    """Wherever the column of groups stands in the file, and whether new rows have it or not."""
    table = TABLE[["a", "b", "city"]].assign(time=RNG.uniform(0.2, 2.0, N).round(2))
    table["y"] = RNG.poisson(table.time * np.exp(table.a))
    new, model = table.drop(columns="y"), tmp_path / "a.model"
    new.to_csv(tmp_path / "without.csv", index=False)
    table.insert(at, "group", np.arange(N) // 3)
    table.to_csv(tmp_path / "with.csv", index=False)
    new[["time", "city", "a", "b"]].to_parquet(tmp_path / "other.parquet")
    options = f"--{needs} time --groups group --loss poisson --target y --estimator trees".split()
    run("train", tmp_path / "with.csv", model, *options)
    names = "with.csv", "without.csv", "other.parquet"
    first, *others = (run("predict", model, tmp_path / name).stdout for name in names)
    assert len(first.split()) == N
    assert others == [first] * len(others)
    for command in ("eval", "drift", "report"):
        run(command, model, tmp_path / "with.csv")
