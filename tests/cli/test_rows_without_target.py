"""Rows without a target: skipped and counted where a model learns, ignored where it predicts."""

import json
import re
import warnings

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet
from typer.testing import CliRunner

from tunefree import DataWarning, PiSTOLClassifier, PiSTOLRegressor, load_model, open_source
from tunefree.cli import app
from tunefree.files import DataError

N = 60
GAPS = [5, 17, 30, 44]
RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(2, N)).round(3)
NUMBERS = (3.0 * A + 0.1 * B).round(3).tolist()
CLASSES = np.where(A > 0.0, "yes", "no").tolist()
# Cells that are no target, for numbers and for classes; "none" and "-" may be names of classes.
MARKERS = ["", "NA", "NaN", "null", "None", "?", "n/a"]
FORMATS = ["csv", "bare csv", "tsv", "parquet", "arrow", "feather", "jsonl", "npy"]


def run(*arguments, stdin=None, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments], input=stdin)
    assert result.exit_code == code, (result.exit_code, result.output, result.exception)
    return result


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def store(folder, name, kind, y, gap=None):
    """Write rows with these targets; None is a gap, which text formats write as the text `gap`."""
    rows = [A.tolist(), B.tolist(), y]
    path = folder / f"{name}.{kind.split()[-1]}"
    if kind == "npy":
        np.save(path, np.array(rows, dtype=float).T)
    elif kind in ("csv", "bare csv", "tsv"):
        mark = "\t" if kind == "tsv" else ","
        cells = [
            [*map(str, row[:2]), gap if row[2] is None else str(row[2])]
            for row in zip(*rows, strict=True)
        ]
        head = [] if kind == "bare csv" else [["a", "b", "y"]]
        path.write_text("".join(mark.join(row) + "\n" for row in head + cells))
    elif kind == "jsonl":
        dicts = [dict(zip("aby", row, strict=True)) for row in zip(*rows, strict=True)]
        for row in dicts:
            row["y"] = gap if row["y"] is None and gap != "" else row["y"]
        path.write_text("".join(json.dumps(row) + "\n" for row in dicts))
    else:
        table = pa.table(dict(zip("aby", rows, strict=True)))
        if kind == "parquet":
            parquet.write_table(table, path)
        elif kind == "feather":
            feather.write_feather(table, path)
        else:
            with pa.ipc.new_file(path, table.schema) as file:
                file.write_table(table)
    return path.name


def with_gaps(y):
    return [None if i in GAPS else value for i, value in enumerate(y)]


def without_gaps(kind, y):
    """The row of a gap, as it is counted in messages."""
    return GAPS[0] + {"csv": 2, "tsv": 2}.get(kind, 1)


CASES = [
    (estimator, kind)
    for estimator in ("pistol", "glm", "ridge", "trees", "auto", "kernel", "separator")
    for kind in FORMATS
]
CASES = [CASES[i] for i in np.random.default_rng(3).permutation(len(CASES))[:16]]


@pytest.mark.parametrize("estimator, kind", CASES)
def test_training_rows_without_a_target_are_skipped_and_counted(here, estimator, kind):
    """The model is that of the other rows, to the last bit."""
    of_classes = estimator == "separator" or (kind != "npy" and estimator != "ridge")
    y = CLASSES if of_classes else NUMBERS
    if estimator == "separator" and kind == "npy":
        y = [float(value == "yes") for value in CLASSES]
    gap = MARKERS[len(estimator) % len(MARKERS)]
    gapped = store(here, "gaps", kind, with_gaps(y), gap)
    kept = [i for i in range(N) if i not in GAPS]
    options = ["--estimator", estimator]
    seen = run("train", gapped, "m", *options).stderr
    found = re.findall(
        r"skipped 4 rows without a target, the first: gaps\.\w+:(?: row )?(\d+)", seen
    )
    assert seen.count("without a target") == 1 and found == [str(without_gaps(kind, y))], seen
    assert json.loads(run("train", gapped, "m", *options, "--json").stdout)["without_target"] == 4
    global A, B
    whole = A, B
    A, B = A[kept], B[kept]
    try:
        sound = store(here, "sound", kind, [y[i] for i in kept])
    finally:
        A, B = whole
    assert "without a target" not in run("train", sound, "n", *options).stderr
    new = store(here, "new", kind, y)
    assert run("predict", "m", new).stdout == run("predict", "n", new).stdout
    scores = run("eval", "m", gapped, "--json")
    assert "skipped 4 rows without a target" in scores.stderr
    assert json.loads(scores.stdout) == json.loads(run("eval", "m", sound, "--json").stdout)


@pytest.mark.parametrize("kind", ["csv", "bare csv", "jsonl"])
@pytest.mark.parametrize("gap", MARKERS)
@pytest.mark.parametrize("y", [NUMBERS, CLASSES], ids=["numbers", "classes"])
def test_markers_in_the_target_are_no_classes(here, kind, gap, y):
    path = store(here, "t", kind, with_gaps(y), gap)
    run("train", path, "m", "--estimator", "pistol")
    model = load_model("m")
    if y is NUMBERS:
        assert isinstance(model, PiSTOLRegressor)
    else:
        assert model.classes_.tolist() == ["no", "yes"]


def test_names_of_classes_stay_classes(here):
    for names in ("-+", ("none", "mild")):
        y = [names[value == "yes"] for value in CLASSES]
        run("train", store(here, "t", "csv", y), "m", "--estimator", "pistol")
        assert sorted(load_model("m").classes_.tolist()) == sorted(names)
        text = (here / "t.csv").read_text()
        (here / "s.csv").write_text(text)
        run("stream", "s.csv", "--model", "s", "--target", "y")
        assert sorted(load_model("s").classes_.tolist()) == sorted(names)


@pytest.mark.parametrize("more", [["--checkpoint", "c"], ["--window", "16"], ["--hash", "64"]])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_rows_learned_as_they_are_read_need_a_target_too(here, more, kind):
    if more[0] != "--hash" or kind == "parquet":
        y = CLASSES
    else:
        y = NUMBERS
    path = store(here, "t", kind, with_gaps(y), "NA")
    seen = run("train", path, "m", *more)
    assert seen.stderr.count("skipped 4 rows without a target, the first: ") == 1, seen.stderr
    model = load_model("m")
    assert not hasattr(model, "classes_") or model.classes_.tolist() == ["no", "yes"]


@pytest.mark.parametrize("kind", [k for k in FORMATS if k != "npy"])
@pytest.mark.parametrize("estimator", ["pistol", "auto"])
def test_predict_does_not_look_at_the_target(here, kind, estimator):
    """It may be empty, odd, of another type or class, or absent: predictions are the same."""
    y = CLASSES if estimator == "pistol" else NUMBERS
    run("train", store(here, "t", kind, y), "m", "--estimator", estimator)
    expected = run("predict", "m", store(here, "t", kind, y)).stdout
    odd = ["odd", "1e999", "inf", "-", "unheard of"] * (N // 5)
    targets = [[None] * N, odd, with_gaps(odd), [1.5] * N, ["x" * 300] * N]
    if kind == "jsonl":
        targets += [
            [None if i % 2 else i for i in range(N)],
            ["a" if i % 3 else 2 for i in range(N)],
        ]
    for other in targets:
        seen = run("predict", "m", store(here, "new", kind, other, ""))
        assert seen.stdout == expected and "without a target" not in seen.stderr
    if kind in ("csv", "tsv", "bare csv"):
        mark = "\t" if kind == "tsv" else ","
        text = (here / f"t.{kind.split()[-1]}").read_text().splitlines()
        bare = "".join(mark.join(line.split(mark)[:2]) + "\n" for line in text)
        (here / f"bare.{kind.split()[-1]}").write_text(bare)
        assert run("predict", "m", f"bare.{kind.split()[-1]}").stdout == expected


def test_predict_does_not_look_at_weights_and_copies_any_id(here):
    rows = list(zip(A.tolist(), B.tolist(), [1, 2] * (N // 2), NUMBERS, strict=True))
    text = "".join(f"{a},{b},{w},k{i},{y}\n" for i, (a, b, w, y) in enumerate(rows))
    (here / "t.csv").write_text("a,b,w,k,y\n" + text)
    options = ["--weight-column", "w", "--id", "k", "--estimator", "ridge"]
    run("train", "t.csv", "m", "--target", "y", *options)
    (here / "new.csv").write_text("a,b,w,k,y\n1,2,,,\n1,2,-3,NA,odd\n1,2,odd,7,\n")
    lines = run("predict", "m", "new.csv", "--id", "k").stdout.splitlines()
    assert [line.split(",")[0] for line in lines] == ["k", "", "NA", "7"]
    lines = run("predict", "m", "new.csv", "--id", "y").stdout.splitlines()
    assert [line.split(",")[0] for line in lines] == ["y", "", "odd", ""]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("more", [[], ["--estimator", "pistol", "--window", "16"]])
def test_a_table_with_few_targets_ends_with_the_reasons(here, kind, more):
    y = [value if i % 3 else None for i, value in enumerate(NUMBERS)]
    path = store(here, "t", kind, y, "")
    if kind in ("csv", "tsv", "bare csv"):
        (here / path).write_text((here / path).read_text() + "1\n")
        more = [*more, "--on-bad-row", "skip"]
    error = run("train", path, "m", *more, code=3).stderr
    assert "rows cannot be learned: 20 without a target (the first: " in error
    assert ("and 1 malformed (the first: " in error) == (kind in ("csv", "tsv", "bare csv"))
    assert "is another column the target?" in error and not (here / "m").exists()
    none = store(here, "none", kind, [None] * N, "")
    assert "60 of 60 rows cannot be learned" in run("train", none, "m", code=3).stderr


@pytest.mark.parametrize("kind", ["csv", "bare csv", "jsonl"])
@pytest.mark.parametrize("task", ["numbers", "classes", "whole numbers"])
def test_a_row_without_a_label_is_predicted_and_not_learned(here, kind, task):
    """The stream is that of the labelled rows; every row has a prediction."""
    y = {"numbers": NUMBERS, "classes": CLASSES}.get(task, [int(v == "yes") for v in CLASSES])
    kept = [i for i in range(N) if i not in GAPS]
    for gap in ["", "NA", "nan", "?", *(["-", "none", "."] if task != "classes" else [])]:
        path = store(here, "t", kind, with_gaps(y), gap)
        more = ["--model", "m", "--output", "p.csv", "--restart", "--json"]
        if kind != "bare csv":
            more += ["--target", "y"]
        found = json.loads(run("stream", path, *more).stdout)
        assert found["rows"] == N and found["labelled"] == len(kept)
        assert len((here / "p.csv").read_text().splitlines()) == N + 1
        model = load_model("m")
        if task == "numbers":
            assert "classes_" not in vars(model)
        else:
            assert model.classes_.tolist() == (["no", "yes"] if task == "classes" else [0, 1])


SOURCES = ["csv", "bare csv", "parquet", "arrow", "jsonl", "npy", "arrays", "pieces"]


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("kind", SOURCES)
def test_sources_skip_rows_without_a_target_and_warn_once(here, kind):
    y, X = with_gaps(NUMBERS), np.column_stack([A, B])
    if kind == "arrays":
        data = X, np.array(y, dtype=float)
    elif kind == "pieces":
        data = lambda: ((X[i : i + 16], y[i : i + 16]) for i in range(0, N, 16))  # noqa: E731
    else:
        data = store(here, "t", kind, y, "")
    kept = np.setdiff1d(np.arange(N), GAPS)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        source = open_source(data)
        model = PiSTOLRegressor(random_state=0, max_iter=2).fit_source(source)
    (warned,) = [w for w in seen if issubclass(w.category, DataWarning)]
    assert "skipped 4 rows without a target, the first: " in str(warned.message)
    assert source.skipped.n_unlabelled == 4 and source.skipped.count == 0
    sound = X[kept], np.array(NUMBERS)[kept]
    same = PiSTOLRegressor(random_state=0, max_iter=2).fit_source(open_source(sound))
    np.testing.assert_array_equal(model.predict(X), same.predict(X))


def test_pieces_of_labels_with_gaps_keep_their_types():
    X, y = np.column_stack([A, B]), [int(v == "yes") for v in CLASSES]
    pieces = [(X[:30], [None, *y[1:30]]), (X[30:], y[30:])]
    with pytest.warns(DataWarning, match="skipped 1 row without a target, the first: .*row 1"):
        model = PiSTOLClassifier(random_state=0).fit_source(lambda: iter(pieces))
    assert model.classes_.dtype.kind == "i"
    few = [(X, with_gaps(y) if i else [None] * N) for i in range(2)]
    model = PiSTOLClassifier(random_state=0)
    with pytest.raises(DataError, match="64 of 120 rows cannot be learned: 64 without a target"):
        model.fit_source(lambda: iter(few))
    assert not hasattr(model, "classes_")


AMONG = ["n.a.", "#DIV/0!", "missing", "*", "<NA>", "-999"]
ESTIMATORS = ["auto", "trees", "glm", "reflectron", "pistol", "kernel", "ridge"]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_any_marker_of_a_missing_number_is_no_target(here, estimator):
    """The model is that of the other rows; -999 is one where it stands apart, with a note."""
    for gap in np.random.default_rng(len(estimator)).choice(AMONG[:-1], 1).tolist() + ["-999"]:
        y = [abs(value) for value in NUMBERS]
        data = store(here, "data", "csv", with_gaps(y), gap)
        out = run("train", data, "m", "--estimator", estimator).output
        assert "skipped 4 rows" in out and "without a target" in out
        kept = [i for i in range(N) if i not in GAPS]
        rows = "".join(f"{A[i]},{B[i]},{y[i]}\n" for i in kept)
        (here / "rest.csv").write_text("a,b,y\n" + rows)
        run("train", "rest.csv", "other", "--estimator", estimator)
        one, other = (run("predict", model, data).stdout for model in ("m", "other"))
        assert one == other and len(one.splitlines()) == N
        one, other = (run("eval", "m", name, "--json").stdout for name in (data, "rest.csv"))
        assert one == other


def test_more_than_a_fifth_of_markers_is_an_error(here):
    y = [None if i % 3 else abs(value) for i, value in enumerate(NUMBERS)]
    data = store(here, "data", "csv", y, "-999")
    out = run("train", data, "m", "--task", "regression", code=3).output
    assert "40 of 60 rows cannot be learned: 40 without a target" in re.sub(r"\s+", " ", out)
