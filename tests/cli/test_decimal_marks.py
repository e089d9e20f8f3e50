"""Three decimals behind a comma are no thousands, where the file shows decimal commas."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tunefree.cli import app
from tunefree.files.mixed import read_mixed
from tunefree.rows.schema import learn_columns

N = 80
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "three": [f"{v:.3f}" for v in RNG.uniform(1, 99, N)],
        "more": [f"{v:.4f}" for v in RNG.uniform(0, 9, N)],
        "whole": RNG.integers(0, 900, N).astype(str),
        "word": RNG.choice(["red", "blue"], N),
    }
)
TABLE["y"] = [f"{float(a) + float(b):.2f}" for a, b in zip(TABLE.three, TABLE.more, strict=True)]


def run(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == 0, (result.exit_code, result.output, result.exception)
    return result.stdout


def save(table, path, mark):
    table.map(lambda cell: cell.replace(".", mark)).to_csv(
        path, sep=";" if mark == "," else ",", index=False
    )
    return path


def test_columns_are_read_as_the_file_shows(tmp_path):
    path = save(TABLE, tmp_path / "a.csv", ",")
    table = read_mixed(str(path), cells=True, target="y")
    schema, columns = learn_columns(table.X, table.X.column_names)
    for name, column, kind in zip(schema.names, columns, schema.columns, strict=True):
        if kind.kind == "number":
            np.testing.assert_array_equal(column.values, TABLE[name].astype(float))
    np.testing.assert_array_equal(table.y, TABLE.y.astype(float))
    notes = {name: kind.note for name, kind in zip(schema.names, schema.columns, strict=True)}
    assert "commas are decimal marks, as in other columns of the file" in notes["three"]
    assert notes["more"] is notes["whole"] is None
    other = {"three": {"written": {"point": ".", "styles": "groups"}}}
    values = learn_columns(table.X, table.X.column_names, given=other)[1][0].values
    np.testing.assert_allclose(values, 1000.0 * TABLE.three.astype(float))


@pytest.mark.parametrize("estimator", ["trees", "glm", "ridge"])
@pytest.mark.parametrize("learned", [".", ","])
def test_a_model_reads_both_marks(estimator, learned, tmp_path):
    table = TABLE.drop(columns="word") if estimator == "ridge" else TABLE
    paths = {mark: save(table, tmp_path / f"{ord(mark)}.csv", mark) for mark in ".,"}
    model = tmp_path / "a.model"
    run("train", paths[learned], model, "--target", "y", "--estimator", estimator)
    together = run("predict", model, paths[learned]).split()
    assert run("predict", model, paths["," if learned == "." else "."]).split() == together
    first = save(table[:1], tmp_path / "one.csv", learned)
    assert run("predict", model, first).split() == together[:1]


def test_thousands_with_commas_between_semicolons_are_thousands(tmp_path):
    people = RNG.integers(100, 99999, N)
    path = tmp_path / "a.csv"
    rows = "".join(f"{n:,};{n % 7}\n" for n in [*people, 1250, 410])
    path.write_text("people;y\n" + rows)
    table = read_mixed(str(path), cells=True, target="y")
    values = learn_columns(table.X, table.X.column_names)[1][0].values
    assert values.tolist() == [*people.tolist(), 1250.0, 410.0]


def test_a_file_with_both_marks_is_read_as_it_was_learned(tmp_path):
    table = TABLE.assign(three=TABLE.three.str.replace(".", ","), thousands="1.250")
    table.loc[::2, "thousands"] = "410"
    path, model = tmp_path / "a.csv", tmp_path / "a.model"
    table.to_csv(path, index=False)
    run("train", path, model, "--target", "y", "--estimator", "trees")
    together = run("predict", model, path).split()
    for i in range(0, N, 9):
        table[i : i + 1].to_csv(path, index=False)
        assert run("predict", model, path).split() == together[i : i + 1]
