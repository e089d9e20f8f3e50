"""What cells show counts wherever it stands: in the first rows, or far below them."""

import numpy as np
import pytest

from tunefree.cli.rows import read_table
from tunefree.files.files import Skipped
from tunefree.files.mixed import read_mixed
from tunefree.rows.schema import learn_columns

FEW, MANY = 300, 3000  # the first rows show the dialect: a few hundred


def lines(n, cells, target=lambda i, late: f"{i % 9}.5", late=0.7):
    """Rows of a file; cells and targets are functions of the row, and whether it is late."""
    rows = ["a,b,c,y"]
    for i in range(n):
        is_late = i >= late * n
        b, c = cells(i, is_late)
        rows.append(f"{i * 37 % 101},{b},{c},{target(i, is_late)}")
    return [("\n".join(rows) + "\n").encode()]


def read(source):
    table = read_table(source, None, {"skipped": Skipped(), "format": "csv"})
    return table, {name: kind for name, kind in zip(*table.schema, strict=True)}


def grouped(i, late):
    return (f"{i % 9 + 1}.{10 + i % 89}0" if late and i % 3 else f"{i % 900}"), i % 7


def zeros(i, late):
    return (f"0{1000 + i % 8999}" if late else f"{10000 + i}"), i % 7


def commas(i, late):
    return f'"{i % 9 + 1},{100 + i % 899}"', (f'"{i % 7},{i % 10}"' if late else f"{i % 7}")


@pytest.mark.parametrize("n", [FEW, MANY])
@pytest.mark.parametrize("cells", [grouped, zeros, commas])
def test_what_a_column_is_does_not_depend_on_where_its_forms_begin(cells, n):
    _, late = read(lines(n, cells))
    _, throughout = read(lines(n, cells, late=0.0))
    assert late["b"].words() == throughout["b"].words()
    assert (late["b"].note is None) == (throughout["b"].note is None)


def test_points_between_thousands_that_begin_late_are_thousands():
    table, _ = read(lines(MANY, grouped))
    b = learn_columns(table.X)[1][1].values
    assert b[: MANY // 2].max() == 899.0
    assert b[-1] == 1000.0 * float(grouped(MANY - 1, True)[0])


def test_decimals_are_read_as_plain_numbers():
    table = read_mixed(lines(MANY, lambda i, late: (f"{i % 9 + 1}.{10 + i % 89}0", f"0.{i % 7}")))
    assert isinstance(table.X, np.ndarray)


@pytest.mark.parametrize("n", [FEW, MANY])
def test_labels_with_zeros_in_front_may_begin_late(n):
    source = lines(n, lambda i, late: (i, i), lambda i, late: "007" if late else f"1{i % 2}0")
    assert sorted(set(read_mixed(source).y.tolist())) == ["007", "100", "110"]


@pytest.mark.parametrize("first", [2**53 + 1, 2**60 + 1, 10**18 + 1])
@pytest.mark.parametrize("text", [False, True])
def test_classes_beyond_the_whole_numbers_of_floats_keep_their_digits(first, text):
    b = "red" if text else 3

    def target(i, late):
        return first + i % 2 - 1

    y = read_mixed(lines(60, lambda i, late: (b, i), target)).y
    assert sorted(set(y.tolist())) == [f"{first - 1}", f"{first}"]
    # Many such numbers are amounts.
    assert read_mixed(lines(60, lambda i, late: (b, i), lambda i, late: first + i)).y.dtype == float


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_numbers_that_count_above_other_numbers_are_noted(delimiter):
    rows = [
        ["2020", "2021", "2022"],
        *([f"{i % 5}", f"{i % 7}", f"{i * i % 9}"] for i in range(40)),
    ]
    text = "\n".join(map(delimiter.join, rows)).encode() + b"\n"
    assert "line 1 is read as a row" in " ".join(read_mixed([text], format="csv").notes)
    for header in (True, False):
        assert not read_mixed([text], format="csv", header=header).notes
    text = text[text.index(b"\n") + 1 :]
    assert not read_mixed([text], format="csv").notes
