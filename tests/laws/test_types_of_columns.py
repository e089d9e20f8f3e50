"""A column is the same whatever type of its container holds it: rare types beside usual ones."""

from datetime import datetime, timedelta
from decimal import Decimal

import numpy as np
import pytest
from test_same_table import made

from tunefree import DataWarning, TablePreprocessor
from tunefree.base.base import group_numbers
from tunefree.core.registry import ESTIMATORS
from tunefree.rows.matrices import as_dense

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

N = 60
RNG = np.random.default_rng(0)
SIZE = RNG.normal(size=N).tolist()
PLACES = RNG.integers(0, 6, N)
DAYS = [datetime(2023, 5, 1) + timedelta(hours=int(h)) for h in RNG.integers(0, 9999, N)]
SPANS = [timedelta(days=int(k) // 2, minutes=7 * int(k)) for k in PLACES]
BINS = pd.cut(pd.Series(SIZE), 4).astype(object).tolist()
IDS = [2**53 + int(k) for k in PLACES]
CITIES = [None if k == 0 else f"city {k}" for k in PLACES]
COUNTS = [None if k == 0 else int(k) for k in PLACES]


def gone(value):
    """A cell as pandas writes it."""
    return "<NA>" if value is None else str(value)


def from_pandas(values):
    """A column of pandas as Arrow has it."""
    return pa.Array.from_pandas(pd.Series(values))


# One column in several types, the usual one first.
FORMS = {
    "times": {
        "dates": lambda: pd.Series(DAYS),
        "periods": lambda: pd.Series([pd.Period(day, "h") for day in DAYS]),
        "periods of Arrow": lambda: from_pandas([pd.Period(day, "h") for day in DAYS]),
    },
    "ranges": {
        "text": lambda: pd.Series([*map(str, BINS)]),
        "intervals": lambda: pd.Series(pd.arrays.IntervalArray(BINS)),
        "intervals of Arrow": lambda: from_pandas(pd.arrays.IntervalArray(BINS)),
        "categories of Arrow": lambda: from_pandas(pd.Categorical(BINS)),
    },
    "categories of spans": {
        "pandas": lambda: pd.Series(SPANS).astype("category"),
        "Arrow": lambda: pa.array(SPANS).dictionary_encode(),
        "nanoseconds": lambda: pa.array(SPANS, pa.duration("ns")).dictionary_encode(),
        "text": lambda: pd.Series([*map(str, SPANS)], dtype="category"),
    },
    "spans": {
        "timedelta": lambda: pd.Series([*map(str, SPANS[:30]), *SPANS[30:]], dtype=object),
        "NumPy": lambda: pd.Series(
            [*map(str, SPANS[:30]), *map(np.timedelta64, SPANS[30:])], dtype=object
        ),
        "text": lambda: pd.Series([*map(str, SPANS)]),
    },
    "categories of ids": {
        "numbers": lambda: pd.Series(pd.Categorical(IDS)),
        "text": lambda: pd.Series(pd.Categorical([*map(str, IDS)])),
        "decimals": lambda: pd.Series(pd.Categorical([*map(Decimal, IDS)])),
        "Arrow": lambda: pa.array(IDS).dictionary_encode(),
    },
    "ids among text": {
        "text": lambda: pd.Series(["none yet", *map(str, IDS[1:])]),
        "objects": lambda: pd.Series(["none yet", *IDS[1:]], dtype=object),
        "decimals": lambda: pd.Series(["none yet", *map(Decimal, IDS[1:])], dtype=object),
    },
    "text with gaps": {
        "objects": lambda: pd.Series(CITIES, dtype=object),
        "as pandas writes it": lambda: pd.Series([*map(gone, CITIES)]),
        "categories": lambda: pd.Series([*map(gone, CITIES)], dtype="category"),
    },
    "numbers with gaps": {
        "Int64": lambda: pd.Series(COUNTS, dtype="Int64"),
        "as pandas writes it": lambda: pd.Series([*map(gone, COUNTS)]),
    },
    "nothing": {
        "objects": lambda: pd.Series([None] * N, dtype=object),
        "dates": lambda: pd.Series([None] * N, dtype="datetime64[ns]"),
        "spans": lambda: pd.Series([None] * N, dtype="timedelta64[us]"),
        "dates of Arrow": lambda: pa.nulls(N, pa.date32()),
        "text of Arrow": lambda: pa.nulls(N, pa.string_view()),
        "polars": lambda: pl.Series([None] * N, dtype=pl.Datetime).to_arrow(),
    },
}


def table(column):
    """Two columns, the second of this type."""
    if isinstance(column, pd.Series):
        return pd.DataFrame({"size": SIZE, "c": column})
    return pa.table({"size": SIZE, "c": column})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", FORMS)
def test_a_type_changes_no_number(kind):
    """Of the table that is learned, and of rows to transform."""
    usual, *others = (table(make()) for make in FORMS[kind].values())
    first = TablePreprocessor().fit(usual)
    expected = as_dense(first.transform(usual))
    for name, rows in zip([*FORMS[kind]][1:], others, strict=True):
        np.testing.assert_array_equal(as_dense(first.transform(rows)), expected, err_msg=name)
        again = TablePreprocessor().fit(rows)
        np.testing.assert_array_equal(as_dense(again.transform(rows)), expected, err_msg=name)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", FORMS)
def test_a_type_changes_no_prediction_of_trees(kind):
    rows = [table(make()) for make in FORMS[kind].values()]
    found = [made("BoostedTreesRegressor").fit(X, SIZE).predict(X) for X in rows]
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["BoostedTreesRegressor", "PiSTOLRegressor", "TuneFreeClassifier"])
def test_text_of_any_length_is_text(name):
    text = np.array([[repr(a), str(b)] for a, b in zip(SIZE, PLACES, strict=True)])
    y = SIZE if name.endswith("Regressor") else PLACES > 2
    expected = made(name).fit(text, y).predict(text)
    other = text.astype(np.dtypes.StringDType())
    np.testing.assert_array_equal(made(name).fit(other, y).predict(other), expected)
    with_words = np.where(np.array(PLACES)[:, None] == 1, "much", text)
    if name != "PiSTOLRegressor":
        expected = made(name).fit(with_words, y).predict(with_words)
        other = with_words.astype(np.dtypes.StringDType())
        np.testing.assert_array_equal(made(name).fit(other, y).predict(other), expected)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "name", [n for n in sorted(ESTIMATORS) if n.endswith("Regressor") and "Stream" not in n]
)
def test_sparse_whole_numbers_that_lose_digits_are_named(name):
    rows = pd.DataFrame({"size": SIZE, "id": pd.arrays.SparseArray(IDS, fill_value=0)})
    with pytest.warns(DataWarning, match=r"Column 'id'.*whole numbers such as '?90071"):
        made(name).fit(rows, np.exp(SIZE))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["StreamRegressor", "StreamClassifier"])
def test_a_stream_reads_gaps_as_pandas_writes_them(name):
    y = np.array(SIZE) if name.endswith("Regressor") else PLACES > 2
    found = []
    for cells in (COUNTS, [*map(gone, COUNTS)], [None if v is None else str(v) for v in COUNTS]):
        rows = [{"size": a, "c": b} for a, b in zip(SIZE, cells, strict=True)]
        model = made(name).partial_fit(rows, y)
        assert model.columns_ == ["size", "c"]
        found.append(model.predict(rows))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_a_class_that_pandas_writes_for_a_gap_is_named():
    labels = [gone(v) for v in COUNTS]
    with pytest.warns(DataWarning, match="y has the class '<NA>': if it stands for a missing"):
        made("PiSTOLClassifier").fit(np.c_[SIZE, SIZE], labels)


def test_groups_are_apart_where_floats_are_equal():
    """Groups of several types are compared as text, which has all digits."""
    X, every = np.c_[SIZE, SIZE], np.ones(N, dtype=bool)
    groups = [f"{k}" if k == 3 else 2**53 + int(k) for k in PLACES]
    found = group_numbers(groups, X, every)
    assert len(np.unique(found)) == len(np.unique(PLACES))
    np.testing.assert_array_equal(found, group_numbers([*map(str, groups)], X, every))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["BoostedTreesRegressor", "StreamRegressor"])
def test_dates_come_as_periods_of_arrow(name):
    usual, _, arrow = (table(make()) for make in FORMS["times"].values())
    model = made(name).fit(usual, SIZE)
    np.testing.assert_array_equal(model.predict(arrow), model.predict(usual))
