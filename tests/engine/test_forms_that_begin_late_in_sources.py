"""A file that is learned while it is read: what its later rows show of a column is not lost."""

import json
import warnings

import numpy as np
import pytest

from tunefree import DataWarning, PiSTOLRegressor, open_source
from tunefree.files import DataError
from tunefree.files.files import Skipped
from tunefree.files.mixed import read_mixed
from tunefree.rows.schema import learn_columns

SHORT, LONG = 300, 40_000  # of the latter the first part shows no late row
FORMS = {
    "whole": lambda i: f"{i * 37 % 101}",
    "decimal": lambda i: f"{i % 9}.5",
    "three decimals": lambda i: f"{i % 9 + 1}.{10 + i % 89}0",
    "zeros": lambda i: f"0{10 + i % 89}",
    "many zeros": lambda i: f"0{1000 + i % 899}",
    "large": lambda i: str(2**53 + i),
    "thousands": lambda i: f'"{i % 9 + 1},{100 + i % 899}"',
    "decimal comma": lambda i: f'"{i % 7},{i % 10}"',
    "percent": lambda i: f"{i % 7}%",
    "money": lambda i: f"${i % 7}",
    "accounts": lambda i: f"({i % 9 + 1})",
    "missing": lambda i: "",
    "text": lambda i: ["red", "blue", "green"][i % 3],
    "truth": lambda i: ["true", "false"][i % 2],
    "duration": lambda i: f"PT{1 + i % 9}H",
}
WRITTEN = "thousands", "decimal comma", "percent", "money", "accounts"


@pytest.fixture(autouse=True)
def many_parts(monkeypatch):
    monkeypatch.setattr("tunefree.files.files.CHUNK", 1 << 16)


def write(folder, n, first, then, role):
    path = folder / "d.csv"
    with open(path, "w") as file:
        file.write("a,b,y\n")
        for i in range(n):
            cell = FORMS[then if i >= 0.8 * n else first](i)
            file.write(
                f"{i % 11},{cell},{i % 9}.5\n" if role == "b" else f"{i % 11},{i % 7},{cell}\n"
            )
    return str(path)


def of_source(path):
    """The rows of a source with the words of warnings; an error is its words."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        try:
            chunks = [*open_source(path).chunks()]
        except DataError as error:
            return None, str(error)
    X, y = (np.concatenate([chunk[k] for chunk in chunks]) for k in (0, 1))
    return (X, y), " ".join(str(one.message) for one in found)


def of_table(path):
    """The rows of the whole table."""
    table = read_mixed(path, skipped=Skipped(False, True))
    if isinstance(table.X, np.ndarray):
        return table.X, table.y
    _, columns = learn_columns(table.X)
    values = [np.where(c.missing, np.nan, c.values) if len(c.values) else None for c in columns]
    is_numeric = all(value is not None for value in values)
    return (np.column_stack(values) if is_numeric else None), table.y


@pytest.mark.parametrize("role", ["b", "y"])
@pytest.mark.parametrize("then", FORMS)
def test_a_source_is_the_table_or_names_where_it_is_not(tmp_path, role, then):
    for first in ("whole", "decimal", "zeros", "text"):
        path = write(tmp_path, SHORT, first, then, role)
        found, words = of_source(path)
        if found is None or "d.csv:" in words:
            continue
        X, y = of_table(path)
        np.testing.assert_array_equal(found[0], X)
        assert found[1].dtype.kind == y.dtype.kind and found[1].tolist() == y.tolist()


@pytest.mark.parametrize("role", ["b", "y"])
@pytest.mark.parametrize("n", [SHORT, LONG])
def test_points_between_thousands_that_begin_late_are_refused(tmp_path, role, n):
    path = write(tmp_path, n, "whole", "three decimals", role)
    place = "d.csv:.*" if n == SHORT else f"d.csv:{int(0.8 * n) + 2}:.*"
    with pytest.raises(DataError, match=f"{place}column '{role}': points stand between thousands"):
        PiSTOLRegressor().fit_source(path)


def test_thousandths_are_decimals(tmp_path, recwarn):
    path = write(tmp_path, LONG, "decimal", "three decimals", "b")
    assert of_source(path)[0] is not None and not recwarn.list


@pytest.mark.parametrize("form", ["large", "many zeros"])
def test_digits_that_floats_lack_are_named(tmp_path, form):
    path = write(tmp_path, LONG, "whole", form, "b")
    with pytest.warns(DataWarning, match=rf"d.csv:{int(0.8 * LONG) + 2}:.*column 'b'"):
        [*open_source(path).chunks()]


@pytest.mark.parametrize("form", WRITTEN)
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_targets_that_are_no_plain_numbers_are_no_classes(tmp_path, form, kind):
    path = write(tmp_path, SHORT, form, form, "y")
    if kind == "jsonl":
        cells = [FORMS[form](i).strip('"') for i in range(SHORT)]
        path = str(tmp_path / "d.jsonl")
        rows = (json.dumps({"a": i % 11, "y": y}) for i, y in enumerate(cells))
        (tmp_path / "d.jsonl").write_text("\n".join(rows))
    with pytest.raises(DataError, match="'y' has targets such as .*, which are num|thousands, as"):
        open_source(path)
    if form == "decimal comma" and kind == "csv":
        return
    (chunk,) = open_source(path, target_type=str).chunks()
    assert chunk.y.dtype.kind == "U"


def test_names_with_zeros_in_front_are_names_or_refused(tmp_path):
    path = write(tmp_path, SHORT, "zeros", "zeros", "y")
    assert open_source(path).reader.target_type is float  # more of them than names
    path = tmp_path / "names.csv"
    path.write_text("a,y\n" + "".join(f"{i},00{i % 3}\n" for i in range(SHORT)))
    (chunk,) = open_source(str(path)).chunks()
    assert set(chunk.y.tolist()) == {"000", "001", "002"}
    late = ("007" if i > 0.9 * LONG else f"1{i % 2}0" for i in range(LONG))
    path.write_text("a,y\n" + "".join(f"{i},{y}\n" for i, y in enumerate(late)))
    with pytest.raises(DataError, match="zeros in front.*target_type=str"):
        [*open_source(str(path)).chunks()]
    assert [*open_source(str(path), target_type=float).chunks()]
