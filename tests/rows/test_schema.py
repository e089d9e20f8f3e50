"""What columns are: learned from all cells in any order, and kept for new rows."""

import json
import warnings
from datetime import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tunefree import DataWarning, TablePreprocessor, load_model, save_model
from tunefree.rows.columns import of_array
from tunefree.rows.schema import BadCells, Schema, numeric_targets, read_columns, typed

RNG = np.random.default_rng(0)
NUMBERS = RNG.normal(size=200).round(3)


def column(cells):
    return np.array([*cells, None], dtype=object)[:-1, None]


def kind_of(cells, **given):
    return Schema.of(column(cells), given=given or None).columns[0]


def values_of(schema, cells):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BadCells)
        return read_columns(schema, column(cells))[0]


COLUMNS = {
    "numbers": [str(v) for v in NUMBERS],
    "numbers and a few words": [*map(str, NUMBERS[:190]), *["none at all"] * 10],
    "numbers and a marker": [*map(str, NUMBERS[:150]), *["Unknown"] * 50],
    "objects": [*NUMBERS[:100].tolist(), *map(str, NUMBERS[100:])],
    "money": [f"${v:,.2f}" for v in 1e4 * NUMBERS],
    "dates": [f"{1 + k % 28}/{1 + k % 12}/20{10 + k % 12}" for k in range(200)],
    "eight digits": [20190100 + d for d in range(1, 29)] + [20190200 + d for d in range(1, 29)],
    "digits, the day first": [
        f"{1 + k % 28:02d}{1 + k % 12:02d}20{10 + k % 12}" for k in range(99)
    ],
    "digits, the month first": [
        10**6 * (1 + k % 12) + 10**4 * (13 + k % 15) + 2019 for k in range(99)
    ],
    "codes with a power": [
        *[str(89_000 + k) for k in range(150)],
        *[f"8{k}6e1" for k in range(10)],
    ],
    "large names": [2**60 + k % 20 for k in range(100)],
    "large names as text": [str(2**60 + k % 20) for k in range(100)],
    "nanoseconds": [1_500_000_000_123_456_789 + 10**6 * k**2 for k in range(100)],
    "codes": [*[str(k) for k in range(22400, 22580)], *[f"84{k:03d}E" for k in range(20)]],
    "truth": ["TRUE", "false", None] * 20,
    "levels": ["1", "2", "3", "other"] * 10,
    "nothing": [None, "", "NA"],
}
KINDS = {
    "dates": "date", "eight digits": "date", "codes": "text", "truth": "truth", "levels": "text",
    "nothing": "nothing", "digits, the day first": "date", "digits, the month first": "date",
    "codes with a power": "text", "large names": "text", "large names as text": "text",
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
def test_all_cells_decide_and_their_order_never_does(name):
    cells = COLUMNS[name]
    found = kind_of(cells)
    assert found.kind == KINDS.get(name, "number")
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(cells))
        assert kind_of([cells[k] for k in order]) == found


@pytest.mark.parametrize("name", COLUMNS)
def test_new_rows_are_read_cell_by_cell_as_the_whole(name):
    schema = Schema.of(column(COLUMNS[name]))
    whole = values_of(schema, COLUMNS[name])
    for k in range(0, len(COLUMNS[name]), 17):
        one = values_of(schema, [COLUMNS[name][k]])
        assert one.missing[0] == whole.missing[k]
        if whole.values is not None:
            assert one.values[0] == whole.values[k]


@pytest.mark.parametrize("name", COLUMNS)
def test_a_schema_goes_through_json_and_a_model_file(name, tmp_path):
    X = column(COLUMNS[name])
    schema = Schema.of(X)
    given = json.loads(json.dumps(schema.as_dict()))
    again = Schema.of(X, given=given)
    first, second = values_of(schema, COLUMNS[name]), values_of(again, COLUMNS[name])
    assert first.kind == second.kind and (first.missing == second.missing).all()
    if first.values is not None:
        assert (first.values == second.values).all()
    X = np.column_stack([X, RNG.normal(size=len(X))]).astype(object)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = TablePreprocessor().fit(X)
        save_model(table, tmp_path / "table")
        assert load_model(tmp_path / "table").schema_ == table.schema_


@pytest.mark.parametrize("name", [name for name in COLUMNS if name != "nothing"])
def test_values_with_types_are_the_cells(name):
    """A table that was read, with the types of its kinds, is read as the same by the schema."""
    schema = Schema.of(column(COLUMNS[name]))
    first = values_of(schema, COLUMNS[name])
    second = read_columns(schema, typed(schema, [first]))[0]
    assert (first.missing == second.missing).all()
    if first.values is not None:
        assert (first.values == second.values).all()
    else:
        assert (first.filled("")[0][first.filled("")[1]] == second.levels[second.codes]).all()


def test_cells_that_do_not_fit_are_missing_and_counted_in_one_warning():
    schema = Schema.of(np.column_stack([column(NUMBERS), column(COLUMNS["dates"])]))
    new = np.array([["1", "1/2/2012"], ["one", "2/2/2012"], ["2", "never"], ["two", "3/3/2012"]])
    with pytest.warns(BadCells, match="'x0': 2 cells are no number, the first 'one' in row 1") as w:
        read = read_columns(schema, new.astype(object))
    words = "'x1': 1 cell is no date, the first 'never' in row 2"
    assert len(w) == 1 and words in str(w[0].message)
    assert read[0].missing.tolist() == [False, True, False, True]
    with pytest.raises(ValueError, match="on_bad_cell='error'"):
        read_columns(schema, new.astype(object), "error")


@pytest.mark.parametrize("share", [0.0, 0.1, 0.19, 0.3])
def test_up_to_a_fifth_of_strays_leaves_numbers(share):
    n = int(share * 200)
    cells = [*map(str, NUMBERS[n:]), *["closed"] * n]
    found = kind_of(cells)
    assert found.kind == ("number" if share < 0.2 else "text")
    if share == 0.3:
        assert "70 % of its cells are numbers, but 'closed'" in found.note
        assert kind_of(cells, x0="number").kind == "number"


@pytest.mark.parametrize("value", [-999.0, -200.0, -99.0])
@pytest.mark.parametrize("as_text", [False, True])
def test_numbers_that_stand_apart_several_times_are_missing(value, as_text):
    numbers = np.abs(NUMBERS)
    numbers[::20] = value
    cells = [str(v) for v in numbers] if as_text else numbers.tolist()
    found = kind_of(cells)
    assert found.sentinels == (value,) and "stands apart" in found.note
    assert values_of(Schema(("x0",), (found,)), cells).missing.sum() == 10
    assert kind_of(cells, x0={"markers": []}).sentinels == ()
    assert kind_of([*numbers[numbers != value].tolist(), value]).sentinels == ()  # once
    wide = np.concatenate([1e4 * NUMBERS, [value] * 5])
    assert kind_of(wide.tolist()).sentinels == ()  # among others


@pytest.mark.parametrize("value", [999.0, 9999.0, 99999.0, 999.9, 9999.99])
@pytest.mark.parametrize("as_text", [False, True])
def test_high_numbers_that_stand_apart_are_told_and_stay(value, as_text):
    numbers = np.abs(NUMBERS)
    numbers[::20] = value

    def cells_of(numbers):
        return [str(v) for v in numbers] if as_text else numbers.tolist()

    found = kind_of(cells_of(numbers))
    assert found.sentinels == () and f"{value:.10g} stands apart" in found.note
    assert "in 10 rows" in found.note
    assert values_of(Schema(("x0",), (found,)), cells_of(numbers)).missing.sum() == 0
    marked = kind_of(cells_of(numbers), x0={"markers": [value]})
    assert values_of(Schema(("x0",), (marked,)), cells_of(numbers)).missing.sum() == 10
    assert kind_of(cells_of(numbers), x0={"markers": []}).note is None
    once = np.append(numbers[numbers != value], value)
    among = np.append(np.abs(NUMBERS) * value / np.abs(NUMBERS).max(), [value] * 5)
    for others in (once, among):
        assert kind_of(cells_of(others)).note is None


@pytest.mark.parametrize("value", [-999, 9999])
def test_arrays_of_numbers_have_the_sentinels_of_objects(value):
    X = np.abs(RNG.normal(size=(60, 2)))
    X[::10, 1] = value
    with pytest.warns(DataWarning, match=f"'x1': {value} stands apart"):
        plain = TablePreprocessor().fit(X)
    with pytest.warns(DataWarning, match=f"'x1': {value} stands apart"):
        objects = TablePreprocessor().fit(X.astype(object))
    assert plain.schema_ == objects.schema_
    assert (plain.transform(X) == objects.transform(X)).all()


@pytest.mark.parametrize("name", ["digits, the day first", "digits, the month first"])
def test_days_of_digits_are_the_days_that_they_write(name):
    cells = COLUMNS[name]
    form = "%d%m%Y" if name.endswith("day first") else "%m%d%Y"
    days = [datetime.strptime(f"{int(cell):08d}", form) for cell in cells]
    expected = np.array(days, "M8[D]").astype(float)
    for of in (str, int):  # 01022019 is 1022019 as a number
        given = [of(cell) for cell in cells]
        assert (values_of(Schema.of(column(given)), given).values == expected).all()
    numbers = np.array(cells, dtype=np.int64)[:, None]
    assert Schema.of(numbers).columns[0].kind == "date"
    assert Schema.of(numbers + 50 * 10**4).columns[0].kind == "number"  # no such months


def test_whole_numbers_that_are_equal_as_floats_are_names_in_every_container():
    """Twenty accounts were one number."""
    names = np.array(COLUMNS["large names"])
    containers = [
        names[:, None], column(names.tolist()), pd.DataFrame({"x0": names}),
        pd.DataFrame({"x0": pd.Series(names, dtype="Int64")}), pa.table({"x0": names}),
        pl.DataFrame({"x0": names}), pl.DataFrame({"x0": names}).cast(pl.Int128),
        pd.DataFrame({"x0": names.astype(str)}), [{"x0": int(name)} for name in names],
    ]  # fmt: skip
    for X in containers:
        with pytest.warns(
            DataWarning, match=r"'x0': whole numbers such as '1\d*' are read as names"
        ):
            model = TablePreprocessor(min_share=0.0).fit(X)
        assert model.transform(X).shape[1] == 20
        with warnings.catch_warnings(action="error"):
            model = TablePreprocessor(min_share=0.0, schema={"x0": "category"}).fit(X)
        assert model.transform(X).shape[1] == 20


def test_a_number_that_may_be_a_name_is_named():
    cells = [*map(str, range(89_000, 89_150)), "896e1"]
    found = kind_of(cells)
    assert found.kind == "number" and found.note.startswith("'896e1' is read as 8960. schema={")
    assert kind_of([*map(str, range(150)), "1e5", "2.5e+04"]).note is None


def test_day_and_month_are_decided_by_all_cells_or_named():
    cells = [f"{d}/{m}/2021" for d in range(1, 13) for m in range(1, 13)]
    found = kind_of(cells)
    assert "could be either way round" in found.note
    assert kind_of(cells, x0={"day_first": True}).written.day_first
    assert kind_of([*cells, "13/1/2021"]).written.day_first
    assert kind_of([*cells, "13/1/2021"]).note is None


CHANGES = [
    (NUMBERS.tolist(), ["a", "b", "c"], "held numbers in fit, but now holds text such as 'a'"),
    (NUMBERS.tolist(), [np.datetime64("2024-05-01")] * 3, "held numbers .* now holds dates"),
    (["u", "v"] * 20, [1.5, 2.5], "held text in fit, but now holds numbers such as '1.5'"),
    (COLUMNS["dates"], [1.5, 2.5], "held dates in fit, but now holds numbers such as '1.5'"),
]


@pytest.mark.parametrize("then, now, words", CHANGES)
def test_a_column_that_changes_its_kind_is_an_error(then, now, words):
    schema = Schema.of(column(then))
    with pytest.raises(ValueError, match=f"Column 'x0' {words}"):
        read_columns(schema, column(now))


def test_exact_conversions_are_none():
    numbers = Schema.of(np.arange(30.0)[:, None])
    for new in ([1, 2], ["1", "2"], [True, False], [1.0, None]):
        assert values_of(numbers, new).values[0] == 1.0
    levels = Schema.of(pa.table({"x0": pa.array(["1", "2"] * 9).dictionary_encode()}))
    for new in ([1, 2], [1.0, 2.0], ["1", "2"]):
        found = values_of(levels, new)
        assert found.levels[found.codes].tolist() == ["1", "2"]


@pytest.mark.parametrize(
    "given, words",
    [
        ({"sise": "number"}, "names 'sise', which is no column. Did you mean 'size'"),
        ({"size": "numbr"}, "has the kind 'numbr'"),
        ({"size": {"kinds": "number"}}, "has 'kinds' for 'size'"),
        (["size"], "is no dict"),
    ],
)
def test_what_is_given_is_checked(given, words):
    with pytest.raises(ValueError, match=words):
        Schema.of(column(["1"]), ["size"], given=given)


def test_targets_of_text_are_numbers_or_classes():
    def targets(cells):
        return numeric_targets(of_array(np.array([*cells, None], dtype=object)[:-1]))[0]

    assert targets(["1", "2", "NaN"]).tolist()[:2] == [1.0, 2.0]
    assert targets(["4 stars", "5 stars"] * 9) is None
    assert targets(["<=50K", ">50K"] * 9) is None
    assert targets(["yes", "no"]) is None
    assert targets([f"${v:.2f}" for v in NUMBERS])[0] == NUMBERS[0].round(2)
    found = targets([*map(str, NUMBERS), "oops", "n.a."])
    assert np.isinf(found[-2]) and np.isnan(found[-1])


def test_one_note_for_a_marker_of_many_columns():
    """It lists the columns, and counts the rows of all."""
    rng = np.random.default_rng(0)
    frame = {name: rng.uniform(0.0, 9.0, 60).round(2) for name in "abcd"}
    for values in list(frame.values())[:3]:
        values[:5] = -200.0
    texts = {name: rng.integers(0, 900, 60).astype(str) for name in "ef"}
    texts["e"][:3] = texts["f"][:4] = "missing"
    table = pa.table({**frame, **texts})
    with pytest.warns(DataWarning) as found:
        TablePreprocessor().fit(table)
    apart, marked = sorted(str(one.message) for one in found)
    assert apart.startswith("Columns 'a', 'b', 'c': -200 stands apart and counts as missing.")
    assert "schema={column: {'markers': []}}" in apart
    assert marked.startswith("Columns 'e', 'f': 'missing' counts as missing, in 7 rows.")


def test_types_of_polars_that_are_none_of_arrow_are_read():
    """Of objects the values count, and not their places in memory."""
    pl = pytest.importorskip("polars")
    texts, numbers = ["u", "v", "u"] * 5, list(range(15))
    X = pl.DataFrame(
        {
            "texts": pl.Series(texts, dtype=pl.Object),
            "objects": pl.Series([float(k) for k in numbers], dtype=pl.Object),
            "large": pl.Series(numbers).cast(pl.Int128),
        }
    )
    found = read_columns(Schema.of(X, X.columns), X)
    assert found[0].levels[found[0].codes].tolist() == texts
    assert found[1].values.tolist() == found[2].values.tolist() == numbers
