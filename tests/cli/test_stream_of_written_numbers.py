"""``tunefree stream`` reads numbers as people write them, as ``train`` does."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tunefree.cli import app
from tunefree.files.dialect import decimal_commas, sniffed
from tunefree.files.records import records

N = 120
RNG = np.random.default_rng(5)
SIZES, WORDS = RNG.normal(50.0, 10.0, N).round(2), RNG.choice(["red", "blue"], N)
Y = (3.0 * SIZES + 10.0 * (WORDS == "red")).round(2)


def run(*arguments):
    found = CliRunner().invoke(app, arguments)
    return found.exit_code, found.stdout, found.stderr


def german(value, decimals=2):
    return f"{value:,.{decimals}f}".translate(str.maketrans(",.", ".,"))


WRITERS = {
    "commas": german,
    "groups and commas": lambda v: german(1000.0 * v),
    "three decimals": lambda v: german(v, 3),
    "euros": lambda v: f"{german(v)} €",
    "dollars": lambda v: f"${v:,.2f}",
    "percent": lambda v: f"{v}%",
    "percent with commas": lambda v: f"{german(v)} %",
}
SCALES = {"groups and commas": 1000.0, "percent": 0.01, "percent with commas": 0.01}


def text(write, mark=";", wrap="{}"):
    rows = zip(map(write, SIZES), WORDS, map(write, Y), strict=True)
    return f"size{mark}word{mark}y\n" + "".join(
        mark.join([wrap.format(a), w, wrap.format(y)]) + "\n" for a, w, y in rows
    )


def plain(path):
    path.write_text(text(str))
    return path


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize(("mark", "wrap"), [(";", "{}"), ("\t", "{}"), (",", '"{}"')])
def test_numbers_as_they_are_written(tmp_path, name, mark, wrap):
    if name == "three decimals" and mark != ";":
        return  # these may be groups of thousands
    path, model = tmp_path / "t.csv", tmp_path / "m"
    path.write_text(text(WRITERS[name], mark, wrap), encoding="utf-8")
    _, out, err = run("stream", str(path), "--json", "--model", str(model))
    found = json.loads(out)
    wanted = json.loads(run("stream", str(plain(tmp_path / "u.csv")), "--json")[1])
    scale = SCALES.get(name, 1.0)
    assert found["task"] == "regression" and "target: y" in err
    assert found["error"] / scale**2 == pytest.approx(wanted["error"], rel=1e-6)
    # The model reads new rows of that file as it read those it has learned.
    _, predicted, err = run("predict", str(model), str(path))
    assert len(predicted.split()) == N and "no number" not in err


@pytest.mark.parametrize("task", ["auto", "regression"])
def test_a_given_task_reads_the_same_targets(tmp_path, task):
    path = tmp_path / "t.csv"
    path.write_text(text(WRITERS["dollars"], "\t"))
    code, out, _ = run("stream", str(path), "--json", "--task", task)
    assert code == 0 and json.loads(out)["task"] == "regression"


def test_a_target_by_default_is_named(tmp_path):
    """The last name of the first JSON line may be another column than people think."""
    path = tmp_path / "t.jsonl"
    rows = [{"size": a, "word": w} for a, w in zip(SIZES.tolist(), WORDS.tolist(), strict=True)]
    rows = [row | ({"price": 1.0} if k else {}) for k, row in enumerate(rows)]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert "target: word" in run("stream", str(path), "--json")[2]
    assert "target:" not in run("stream", str(path), "--json", "--target", "price")[2]


@pytest.mark.parametrize(
    ("cells", "mark", "found"),
    [
        (["1,5", "2"], ",", True),
        (["1,250", "2"], ",", False),  # a thousand or one and a quarter
        (["1,250", "2,125"], ";", True),
        (["1,250", "2"], ";", False),  # decimals would be 1,25 or 2,000
        (["1.250,5", "2"], ",", True),
        (["1,5", "a"], ";", False),
        (["1,5,2", "2"], ";", False),
        (["1.5", "2"], ";", False),
        (["01.02.2024", "02.02.2024"], ";", False),
    ],
)
def test_what_shows_a_decimal_comma(cells, mark, found):
    assert bool(decimal_commas([[cell] for cell in cells], 1, mark)) is found


def test_a_checkpoint_keeps_the_commas():
    content = text(german).encode()
    layout: list = []
    whole = list(records([content], "csv", layout=layout))
    rest = list(records([content], "csv", layout=layout, place=whole[9].place))
    assert [(row.x, row.y) for row in rest] == [(row.x, row.y) for row in whole[10:]]
    assert whole[10].x["size"] == SIZES[10] and sniffed(content.decode()).commas


@pytest.mark.parametrize("command", ["stream", "train"])
@pytest.mark.parametrize("write", ["2024-{m:02d}-{d:02d}", "{d:02d}.{m:02d}.2024", "{d} May 20{m}"])
def test_a_target_of_dates_is_no_class(tmp_path, command, write):
    """The last column of a table is often a date, and is the target by default."""
    path = tmp_path / "t.csv"
    rows = (f"{a},{write.format(m=k % 2 + 11, d=k % 27 + 1)}\n" for k, a in enumerate(SIZES))
    path.write_text("size,when\n" + "".join(rows))
    more = [] if command == "stream" else [str(tmp_path / "m")]
    code, _, err = run(command, str(path), *more)
    assert code == 3 and "the target holds dates such as" in err


@pytest.mark.parametrize("target", ["y", "word"])
def test_cells_of_another_kind_are_counted_by_rows(tmp_path, target):
    """They were all in row 0, once for each text."""
    path = tmp_path / "t.csv"
    words = {70: "late", 80: "later", 90: "latest"}  # once learned, a text is a level
    sizes = [words.get(k, str(a)) for k, a in enumerate(SIZES)]
    rows = zip(sizes, WORDS, Y, strict=True)
    path.write_text("size,word,y\n" + "".join(f"{a},{w},{y}\n" for a, w, y in rows))
    code, _, err = run("stream", str(path), "--json", "--target", target)
    first = f"cell is no number, the first 'late' in row 71 of {path}"
    assert code == 0 and f"1 {first}" in err and f"3 cells are no number{first[17:]}" in err


ALONE = {
    "decimal commas": lambda v: f"{v / 10:.2f}".replace(".", ","),
    "thousands with points": lambda v: f"{v:,}".replace(",", "."),
    "both": lambda v: f"{v / 10:,.2f}".replace(",", "_").replace(".", ",").replace("_", "."),
    "plain": lambda v: f"{v / 1000:.3f}",
}


@pytest.mark.parametrize("written", sorted(ALONE))
@pytest.mark.parametrize("delimiter", [",", ";"])
def test_a_row_alone_is_predicted_as_among_all(written, delimiter, tmp_path):
    rng = np.random.default_rng(0)
    values = rng.integers(1, 9999, 80)
    table = pd.DataFrame({"x": rng.normal(size=80).round(3), "n": [*map(ALONE[written], values)]})
    table["y"] = values % 7
    model, path = tmp_path / "a.model", tmp_path / "a.csv"
    table.to_csv(path, sep=delimiter, index=False)
    run("stream", str(path), "--target", "y", "--task", "regression", "--model", str(model))
    together = run("predict", str(model), str(path))[1].split()
    assert len(together) == 80
    for i in range(0, 80, 8):
        table.iloc[i : i + 1].to_csv(path, sep=delimiter, index=False)
        assert run("predict", str(model), str(path))[1].split() == together[i : i + 1]
