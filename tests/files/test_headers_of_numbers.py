"""Names that are numbers: they name columns, and no number stands for another column."""

import json

import numpy as np
import pandas as pd
import pytest

from tunefree.files import DataError, read
from tunefree.files.mixed import read_mixed
from tunefree.files.records import records

RNG = np.random.default_rng(0)
NAMES = [["1", "2", "3"], ["2", "0", "1"], ["0", "1", "2"], ["2020", "2", "2021"], ["a", "2", "1"]]
VALUES = np.round(RNG.normal(size=(60, 3)), 2)
FORMATS = "csv", "jsonl", "parquet"


def write(folder, names, form):
    path = folder / f"d.{form}"
    if form == "parquet":
        pd.DataFrame(VALUES, columns=names).to_parquet(path)
    elif form == "jsonl":
        rows = (json.dumps(dict(zip(names, row, strict=True))) for row in VALUES.tolist())
        path.write_text("\n".join(rows))
    else:
        pd.DataFrame(VALUES, columns=names).to_csv(path, index=False)
    return str(path)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("header", [None, True])
def test_the_last_column_is_the_target_whatever_its_name_is(tmp_path, form, names, header):
    path = write(tmp_path, names, form)
    header = header if form == "csv" else None
    for reader in (read, read_mixed):
        found = reader(path, header=header)
        assert found.target.position == 2
        np.testing.assert_array_equal(found.y[-60:], VALUES[:, 2])


@pytest.mark.parametrize("names", NAMES)
def test_rows_of_streams_have_the_same_target(tmp_path, names):
    path = write(tmp_path, names, "csv")
    assert [row.y for row in records(path, "csv", header=True)] == VALUES[:, 2].tolist()


@pytest.mark.parametrize("form", FORMATS)
def test_a_number_that_is_a_name_and_a_position_is_refused(tmp_path, form):
    path = write(tmp_path, ["1", "2", "3"], form)
    header = True if form == "csv" else None
    with pytest.raises(DataError, match="2 is the name of one column and the position of another"):
        read(path, header=header, target=2)
    assert read(path, header=header, target="2").target.position == 1
    assert read(path, header=header, target=0).target.position == 0
    with pytest.raises(DataError, match="name of one column"):
        read(path, header=header, drop=[1])


@pytest.mark.parametrize("first", ["0,1,2", "1,2,3", "2020,2021,2022", "-1,-2,y", "1.5,2.5,price"])
def test_a_first_row_that_may_be_names_is_noted(first):
    rows = "".join(f"{i * 3 % 7},{i * 4 % 7},{i * 5 % 11 + 5}\n" for i in range(60))
    found = read([f"{first}\n{rows}".encode()])
    names = ", ".join(first.split(",")[:2])
    assert any(f"if {names}, ... are names of columns, give --header" in n for n in found.notes)


def test_rows_of_numbers_are_no_finding():
    rows = "".join(f"{i * 3 % 7},{i * 4 % 7},{i * 5 % 11 + 5}\n" for i in range(60))
    assert not read([rows.encode()]).notes
    rows = "".join(f"{i % 3},{i % 3 + 1},{i % 3 + 2}\n" for i in range(60))
    assert not read([rows.encode()]).notes
