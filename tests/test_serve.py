"""`tunefree.serve` predicts with NumPy alone what the library predicts, from the same cells."""

import json
import os
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import tunefree
from tunefree.cli import app
from tunefree.files.model import ModelError
from tunefree.onnx import to_onnx, to_scorer
from tunefree.rows.columns import of_array
from tunefree.rows.phrases import Phrases
from tunefree.rows.schema import Schema
from tunefree.serve import Scorer, _column_of, _of_sentences, as_values

pytestmark = pytest.mark.filterwarnings("ignore")
# A process in which of the libraries only NumPy can be imported.
ALONE = """
import sys
class Refuses:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in ("numpy", "tunefree") and top not in sys.stdlib_module_names:
            raise ImportError(name)
sys.meta_path.insert(0, Refuses())
"""
RNG = np.random.default_rng(0)
N = 240
WORDS = "the quick brown fox jumps over a lazy dog ÉTÉ straße no 7".split()
TABLE = pd.DataFrame(
    {
        "a": [f"{v:.3f}" for v in RNG.normal(size=N)],
        "price": [f"${v:,.2f}" for v in RNG.uniform(500, 9000, N)],
        "size": [f"{v} GB" for v in RNG.integers(1, 90, N)],
        "city": RNG.choice(["Rome", "Oslo", "Ürümqi", " Bonn"], N),
        "day": pd.date_range("2020-01-30", periods=N).strftime("%d.%m.%Y"),
        "at": pd.date_range("2020-01-30", periods=N, freq="7h").astype(str),
        "words": [" ".join(RNG.choice(WORDS, 7)) for _ in range(N)],
        "last": RNG.choice(["1:30:00", "0:05:10", "25:00:00"], N),
    }
)
Y = TABLE.a.astype(float) + (TABLE.city == "Rome") + RNG.normal(size=N) * 0.5
MESS = TABLE.iloc[:60].copy()
MESS.iloc[3, :] = ""
MESS.iloc[5, :] = ["n.a.", "oops", "3 TB", "Atlantis", "31.02.2020", "?", "", "NA"]
MESS.iloc[7, :] = ["-inf", "($1,000.00)", "512 MB", "rome", "1.2.2021", "2020-02-29 7:30", "x", "-"]
MESS.iloc[8, 0] = "\uff11\uff0e\uff15"
MESS.iloc[9, 0] = "1e3"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve")
    MESS[MESS.columns[::-1]].assign(more=1).to_csv(folder / "rows.csv", index=False)
    MESS.to_json(folder / "rows.jsonl", orient="records", lines=True)
    return folder


def alone(*arguments, code=0):
    """What the module prints in a process that has NumPy alone."""
    program = f"{ALONE}\nfrom tunefree.serve import main\nsys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done


@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_cells_of_all_kinds_are_predicted_as_by_the_library(folder, kind):
    y = Y if kind == "regressor" else np.digitize(Y, [0.0, 1.0]).astype(str)
    name = "BoostedTreesRegressor" if kind == "regressor" else "TuneFreeClassifier"
    more = {} if kind == "regressor" else {"candidates": ["linear", "trees"]}
    model = getattr(tunefree, name)(random_state=0, **more).fit(TABLE, y)
    kinds = set(model.table_.kinds_)
    assert {"number", "category", "date", "text"} <= kinds
    to_scorer(model, folder / "scorer")
    for rows in ("rows.csv", "rows.jsonl"):
        proba = ["--proba"] if kind == "classifier" else []
        done = alone(folder / "scorer", folder / rows, *proba)
        lines = done.stdout.splitlines()
        if kind == "classifier":
            assert lines.pop(0).split(",") == model.classes_.tolist()
        found = np.array([line.split(",") for line in lines], dtype=float)
        expected = model.predict_proba(MESS) if proba else model.predict(MESS)[:, None]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
        assert "Cells that count as missing" in done.stderr
        assert "column 'price': 1, such as 'oops'" in done.stderr
    predicted = Scorer(folder / "scorer").predict(MESS.to_dict("list"))
    if kind == "classifier":
        assert predicted.tolist() == model.predict(MESS).tolist()
    else:
        np.testing.assert_allclose(predicted, model.predict(MESS), rtol=0, atol=1e-9)


X = RNG.normal(size=(120, 3))
MODELS = {
    "ridge": lambda: tunefree.RidgePathRegressor().fit(X, X[:, 0]),
    "glm": lambda: tunefree.GLMRegressor("poisson").fit(X, np.exp(X[:, 0]).round()),
    "glm of classes": lambda: tunefree.GLMClassifier().fit(X, X[:, 0] > 0.3),
    "probit": lambda: tunefree.GLMClassifier(link="probit").fit(X, X[:, 0] + X[:, 1] ** 2 > 0.3),
    "ordinal": lambda: tunefree.GLMClassifier("ordinal").fit(X, np.digitize(X[:, 0], [-0.5, 0.5])),
    "pistol": lambda: tunefree.PiSTOLClassifier(random_state=0).fit(X, X[:, 0] > 0.3),
    "trees": lambda: tunefree.BoostedTreesClassifier(random_state=0).fit(
        np.where(X > 1, np.nan, X), X[:, 1] > 0
    ),
    "quantiles": lambda: tunefree.BoostedTreesRegressor(
        loss="quantile", quantile=(0.1, 0.9), random_state=0
    ).fit(X, X[:, 0]),
} | {
    f"kernel {name}": lambda name=name: tunefree.KernelRidgeRegressor(
        kernel=name, random_state=0
    ).fit(X, X[:, 0])
    for name in ("rbf", "laplacian")
}  # fmt: skip


def test_new_levels_are_named_as_by_the_library(tmp_path):
    n = 120
    cities = [f"village {i}" if i < 7 else ("Rome", "Oslo")[i % 2] for i in range(n)]
    X = pd.DataFrame({"city": cities, "a": np.arange(n), "size": np.tile(["S", "M", "L"], n // 3)})
    y = (X["size"] == "M") + RNG.normal(size=n)
    model = tunefree.TuneFreeRegressor(candidates=("linear",), random_state=0).fit(X, y)
    to_scorer(model, tmp_path / "m")
    scorer, new = Scorer(tmp_path / "m"), X.iloc[7:15].copy()
    new.iloc[2, 0], new.iloc[4, 2], new.iloc[5, 2], new.iloc[6, 2] = "Lima", "XL", None, "XXL"

    def words(predict, rows):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            predict(rows)
        return [str(one.message) for one in found]

    found = words(scorer.predict, new.to_dict("list"))
    assert found == words(model.predict, new)
    assert len(found) == 1 and "column 'size' in 2 cells, the first 'XL' in row 4" in found[0]
    assert not words(scorer.predict, X.to_dict("list"))


@pytest.mark.parametrize("name", MODELS)
def test_every_predictor_of_numbers_gives_the_same(name, tmp_path):
    model = MODELS[name]()
    to_scorer(model, tmp_path / "scorer")
    scorer = Scorer(tmp_path / "scorer")
    rows = 1.5 * X
    size = np.abs(np.asarray(model.predict(rows), float)).max()
    found, expected = scorer.predict(rows), model.predict(rows)
    assert np.abs(np.asarray(found, float) - expected).max() <= 1e-6 * size
    if hasattr(model, "predict_proba"):
        np.testing.assert_allclose(scorer.predict_proba(rows), model.predict_proba(rows), atol=1e-6)


COLUMNS = [
    ["8GB", "512 MB", "2100 - 2850 MB", "1.5TB"],
    ["$1,234.50", "($5)", "-$3.0M", "€7", "1,5"],
    ["1.234,5", "12,75", "3,5", "1.000.000,25"],
    ["7%", "12.5 %", "100%", "x"],
    ["5'11\"", "6 ft 2 in", "5 feet"],
    ["1/2", "2 3/4", "7"],
    ["\uff11\uff12", "٣", "4.5", "½", "2½"],
    ["8/10", "9.5 out of 10", "7/10"],
    ["> 5", "<=7", "10+", "approx. 3"],
    ["1.5×10^3", "2e5", "3.5D+02"],
    ["2h 50m", "1 day 3 hours", "45 min"],
    ["1,234", "5,678", "9,876,543"],
    ["'5", '="7"', "8*", "9[a]", "5,-"],
    ["2024-01-31", "2024-02-30", "2024-02-29 12:30:15.5", "2024-03-01T07:00"],
    ["31.01.2024", "1.2.24", "29.02.2024"],
    ["5/13/18 4:01 PM", "1/2/2024 12:00 am"],
    ["3rd of January 2024", "Jan 5, 2023", "le 5 janvier 2020", "5 März 2021"],
    ["2020年2月8日", "2020년 2월 8일", "2020. 2. 8."],
    ["2024-W05-3", "2024-Q2", "2024-07"],
    ["2024-01-31T10:00:00Z", "2024-01-31 10:00:00+02:00"],
    ["1:30:00", "29:30:00", "1 day, 5:30:00", "PT1H30M"],
    ["true", "FALSE", "maybe"],
    ["İstanbul", "istanbul", "ΟΔΟΣ", "  x "],
    ["20190103", "20191231"],
]


def test_cells_are_read_without_pyarrow_as_with_it():
    program = f"""{ALONE}
import json
import numpy as np
from tunefree.rows.columns import of_array
from tunefree.serve import _column_of
for kind, cells in json.loads(sys.stdin.read()):
    read = _column_of(kind).read(of_array(np.array([*cells, None], object)), "x", False)
    values = None if read.values is None else np.where(read.missing, None, read.values).tolist()
    texts = None if read.levels is None else [[*read.levels, None][k] for k in read.codes]
    print(json.dumps([values, texts, read.missing.tolist()]))
"""
    every = [cell for cells in COLUMNS for cell in cells]
    given = []
    for cells in COLUMNS:
        kind = Schema.of(np.array(cells * 3, object)[:, None]).columns[0]
        given += [(kind, cells), (kind, every)]
    text = json.dumps([[as_values(kind), cells] for kind, cells in given])
    done = subprocess.run(
        [sys.executable, "-c", program], input=text, capture_output=True, text=True
    )
    lines = done.stdout.splitlines()
    assert len(lines) == len(given), done.stderr
    for (kind, cells), line in zip(given, lines, strict=True):
        raw = of_array(np.array([*cells, None], object))
        read = kind.read(raw, "x", False)
        values, texts, missing = json.loads(line)
        assert missing == read.missing.tolist(), (kind, cells)
        if read.values is not None:
            assert values == np.where(read.missing, None, read.values).tolist(), (kind, cells)
        else:
            assert texts == [[*read.levels, None][k] for k in read.codes]


def test_columns_are_stored_as_they_are():
    for cells in COLUMNS:
        column = Schema.of(np.array(cells * 3, object)[:, None]).columns[0]
        assert _column_of(json.loads(json.dumps(as_values(column)))) == column


def test_sentences_have_the_bits_of_the_library():
    texts = np.array([*TABLE.words, "a", "", "ab  cd", "ÉTÉ été", "\tx\n"], dtype=object)
    phrases = Phrases.of(texts, np.ones(len(texts)))
    expected = phrases.numbers(texts, np.zeros(len(texts), bool))
    assert np.array_equal(_of_sentences(texts, *phrases), expected)


def test_a_damaged_file_is_refused_and_rows_that_do_not_fit_name_what_is_wrong(folder, tmp_path):
    model = MODELS["ridge"]()
    path = tmp_path / "scorer"
    to_scorer(model, path, ["p", "q", "r"])
    content = path.read_bytes()
    for damaged in (b"", content[:200], content[:-40], content[:300] + b"x" + content[301:]):
        (tmp_path / "bad").write_bytes(damaged)
        with pytest.raises(ValueError, match="no scorer of tunefree, or damaged"):
            Scorer(tmp_path / "bad")
    scorer = Scorer(path)
    row = {"r": 1.0, "p": 2.0, "q": "3", "more": 0}
    assert scorer.predict([row]).tolist() == pytest.approx(model.predict([[2.0, 3.0, 1.0]]))
    for rows, words in {
        "p,q\n1,2\n": "columns are missing: 'r'",
        "p,q,r\n1,2,3\n1,2\n": ":3: 2 cells, not 3",
        "p,q,r\n1,2,\n": "column 'r' has a missing value",
        '{"p": 1}\n{"p":\n': ":2: not one JSON object",
        "": "has no rows",
    }.items():
        (tmp_path / "rows").write_text(rows)
        assert words in alone(path, tmp_path / "rows", code=3).stderr


@pytest.mark.parametrize("has_gaps", [False, True])
def test_missing_numbers_are_taken_where_the_model_takes_them(tmp_path, has_gaps):
    X = RNG.normal(size=(N, 2))
    y, gaps = X.sum(axis=1), np.where(RNG.random(X.shape) < 0.2, np.nan, X)
    model = tunefree.BoostedTreesRegressor(random_state=0).fit(gaps if has_gaps else X, y)
    to_scorer(model, tmp_path / "model")
    found = Scorer(tmp_path / "model").predict(gaps)
    np.testing.assert_allclose(found, model.predict(gaps), rtol=1e-9)


def test_the_shell_exports_models_of_the_shell(folder, tmp_path):
    def run(*arguments, code=0):
        result = CliRunner().invoke(app, [str(a) for a in arguments])
        assert result.exit_code == code, (result.output, result.exception)
        return result

    TABLE[["a", "city"]].assign(y=Y).to_csv(tmp_path / "train.csv", index=False)
    model, rows = tmp_path / "model", folder / "rows.csv"
    run("train", tmp_path / "train.csv", model, "--estimator", "trees", "--seed", "0")
    expected = np.array(run("predict", model, rows).stdout.split(), dtype=float)
    run("export", model, tmp_path / "scorer")
    found = np.array(alone(tmp_path / "scorer", rows).stdout.split(), dtype=float)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    assert "is not a tunefree model" in run("export", rows, tmp_path / "s", code=4).stderr


def test_a_reader_that_has_seen_enough_is_no_error_message_and_a_full_disk_is_a_sentence(tmp_path):
    model = tunefree.BoostedTreesRegressor(random_state=0).fit(TABLE[["a"]], Y)
    to_scorer(model, tmp_path / "scorer")
    (tmp_path / "rows.csv").write_text("a\n" + "1.5\n" * 50_000)
    command = [sys.executable, "-m", "tunefree.serve", tmp_path / "scorer", tmp_path / "rows.csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as serving:
        serving.stdout.readline()
        serving.stdout.close()
        assert serving.stderr.read() == b""
    assert serving.returncode == 1
    if os.path.exists("/dev/full"):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE)
        assert done.returncode == 1
        assert done.stderr == b"error: standard output: No space left on device\n"


def test_sentences_are_for_the_scorer_alone():
    model = tunefree.BoostedTreesRegressor(random_state=0).fit(TABLE[["a", "words"]], Y)
    with pytest.raises(ModelError, match="column 'words' holds sentences"):
        to_onnx(model)


def test_blanks_around_names_do_not_matter(tmp_path):
    """A file has "price " where `predict` and the training have "price"."""
    X = pd.DataFrame({"a": np.arange(40.0), "b": np.arange(40.0) % 7})
    model = tunefree.RidgePathRegressor(random_state=0).fit(X, X["a"] - X["b"])
    to_scorer(model, tmp_path / "scorer")
    X.rename(columns={"a": " a", "b": "b "}).to_csv(tmp_path / "rows.csv", index=False)
    printed = alone(tmp_path / "scorer", tmp_path / "rows.csv").stdout
    np.testing.assert_allclose([float(line) for line in printed.split()], model.predict(X))
