"""Digits with zeros in front, which may be names, are noted whatever else a file holds."""

import numpy as np
import pytest
from typer.testing import CliRunner

from tunefree.cli import app
from tunefree.files.mixed import read_mixed, read_numbers
from tunefree.rows.schema import Schema, read_columns

FILES = {
    "numbers alone": "zip,y\n00601,1.5\n90210,2.5\n01137,3.5\n",
    "beside text": "zip,c,y\n00601,a,1.5\n90210,b,2.5\n01137,a,3.5\n",
    "as a spreadsheet keeps them": 'zip,y\n="00601",1.5\n="90210",2.5\n="01137",3.5\n',
    "quoted": 'zip,y\n"=""00601""",1.5\n"=""90210""",2.5\n"=""01137""",3.5\n',
    "between semicolons": "zip;y\n00601;1,5\n90210;2,5\n01137;3,5\n",
}


@pytest.mark.parametrize("kind", sorted(FILES))
def test_digits_behind_zeros_are_noted(kind):
    table = read_mixed([FILES[kind].encode()], format="csv")
    column = Schema.of(table.X, table.X.column_names).columns[0]
    assert "digits such as '00601' are read as numbers, without the zeros" in column.note


def test_other_numbers_are_read_as_an_array():
    table = read_mixed([b"a,b,y\n0,0.5,1\n10,0.25,2\n"], format="csv")
    assert table.X.tolist() == [[0.0, 0.5], [10.0, 0.25]]


LABELS = ["007", "010", "100"]
ROWS = "".join(f"{i % 7},{LABELS[i % 3]}\n" for i in range(40))


def run(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


@pytest.mark.parametrize("estimator", ["auto", "glm", "pistol", "stream"])
@pytest.mark.parametrize("text", ["n,y\n" + ROWS, "n;y\n" + ROWS.replace(",", ";")])
def test_labels_keep_their_zeros(estimator, text, tmp_path):
    data, model = tmp_path / "a.csv", tmp_path / "a.model"
    data.write_text(text)
    if estimator == "stream":
        run("stream", data, "--target", "y", "--model", model)
    else:
        run("train", data, model, "--target", "y", "--estimator", estimator)
    predicted = run("predict", model, data).stdout.split()
    assert len(predicted) == 40 and set(predicted) <= set(LABELS)
    assert "error" in run("eval", model, data).stdout


def test_padded_numbers_of_a_regression_are_numbers():
    y = "".join(f"{i},{i:04d}\n" for i in range(50))
    table = read_mixed([f"n,y\n{y}".encode()], format="csv")
    assert table.y.tolist() == [*range(50)]
    few = read_mixed([b"n,y\n1,007\n2,010\n"], format="csv", target_type=float)
    assert few.y.tolist() == [7.0, 10.0]


@pytest.mark.parametrize("number", ["-999", "20190103", "9999"])
def test_estimators_of_numbers_take_the_same_numbers_between_any_marks(number):
    rows = [(f"{i}.5", number if i % 3 else str(i), f"{i}.25") for i in range(30)]
    plain = "a,b,y\n" + "".join(",".join(row) + "\n" for row in rows)
    with_commas = plain.replace(",", ";").replace(".", ",")
    found = [read_numbers([text.encode()], format="csv") for text in (plain, with_commas)]
    np.testing.assert_array_equal(found[0].y, found[1].y)
    columns = read_columns(Schema.of(found[1].X, "ab", sentinels=False), found[1].X)
    np.testing.assert_array_equal(found[0].X, np.column_stack([c.values for c in columns]))
