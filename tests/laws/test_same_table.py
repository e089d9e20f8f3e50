"""The same table gives the same predictions, bit for bit, whatever holds it.

A table is drawn as columns of Python's values, and put into containers of every kind. An estimator
learns it in one and predicts it in others.
"""

import inspect
from datetime import datetime, timedelta
from zlib import crc32

import numpy as np
import pytest

import tunefree
from tunefree import BoostedTreesRegressor, StreamRegressor, TuneFreeRegressor
from tunefree.core.registry import ESTIMATORS, estimator_class
from tunefree.rows.schema import Schema

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

pytestmark = pytest.mark.filterwarnings("ignore")
N = 60
# What a table may have beside numbers, text, truth values and categories.
WITH_GAPS_AND_DATES = ("BoostedTrees", "TuneFree", "TablePreprocessor")
WITH_TEXT = (*WITH_GAPS_AND_DATES, "GLM")
OF_STREAMS = [name for name in ESTIMATORS if name.startswith("Stream")]
OF_TABLES = [name for name in sorted(ESTIMATORS) if name not in OF_STREAMS]


def columns_of(name, seed=0):
    """The columns of a table that an estimator takes."""
    rng = np.random.default_rng(seed)
    start = datetime(2023, 5, 1)
    size = (rng.normal(size=N) * 64).round() / 16.0
    found = {
        "size": size.tolist(),
        "count": rng.integers(0, 50, N).tolist(),
        "new": (rng.random(N) < 0.5).tolist(),
    }
    if "Perceptron" not in name:  # which does not scale columns
        # Days and -999, which are what they are in any container, beside text or alone.
        days = rng.integers(1, [[9, 28]] * N).tolist()
        found["stamp"] = [2019_01_00 + 100 * month + day for month, day in days]
        found["sensor"] = [-999.0] * 5 + (rng.integers(0, 90, N - 5) / 8.0).tolist()
    if name.startswith((*WITH_TEXT, "Stream")):
        found["city"] = rng.choice(["Rome", "Oslo", "Bern"], N).tolist()
        found["grade"] = rng.choice(["a", "b"], N).tolist()
        found["city"][7] = None
        found["price"] = [f"${1000.0 + v:,.2f}" for v in rng.integers(0, 500, N)]
    if name.startswith((*WITH_GAPS_AND_DATES, "Stream")):
        found["size"][3] = found["count"][5] = None
    if name.startswith(WITH_GAPS_AND_DATES):
        days = rng.integers(0, 400, N).tolist()
        found["day"] = [start + timedelta(days=day) for day in days]
        found["day"][9] = None
        found["spent"] = [timedelta(minutes=day * 11) for day in days]
        found["at"] = [(start + timedelta(minutes=day * 3)).time() for day in days]
        found["sent"] = [(start + timedelta(days=day)).strftime("%d.%m.%Y") for day in days]
    return found


def _written(value):
    """A value as a file has it."""
    if value is None:
        return ""
    return value.isoformat(" ") if isinstance(value, datetime) else str(value)


def _rows(columns):
    return [list(row) for row in zip(*columns.values(), strict=True)]


def _objects(columns):
    out = np.empty((N, len(columns)), dtype=object)
    for j, values in enumerate(columns.values()):
        out[:, j] = values
    return out


def _as_text(columns):
    return {name: [_written(value) for value in values] for name, values in columns.items()}


def _object_frame(columns):
    return pd.DataFrame({name: pd.Series(v, dtype=object) for name, v in columns.items()})


def _with_categories(frame):
    names = [name for name in ("city", "grade") if name in frame]
    return frame.astype(dict.fromkeys(names, "category"))


def _with_dictionaries(columns):
    table = pa.table(columns)
    for j, name in enumerate(table.column_names):
        if name in ("city", "grade"):
            table = table.set_column(j, name, table.column(j).dictionary_encode())
    return table


def _chunked(columns):
    table = pa.table(columns)
    return pa.concat_tables([table.slice(0, 11), table.slice(11)])


def _encoded(columns):
    """Text as views, and whole numbers as runs."""
    table = pa.table(columns)
    for j, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            table = table.set_column(j, field.name, table.column(j).cast(pa.string_view()))
        elif pa.types.is_integer(field.type):
            runs = pa.compute.run_end_encode(table.column(j).combine_chunks())
            table = table.set_column(j, field.name, runs)
    return table


NAMED = {
    "pandas": pd.DataFrame,
    "pandas of objects": _object_frame,
    "nullable types of pandas": lambda c: pd.DataFrame(c).convert_dtypes(),
    "Arrow's types in pandas": lambda c: pd.DataFrame(c).convert_dtypes(dtype_backend="pyarrow"),
    "categories of pandas": lambda c: _with_categories(pd.DataFrame(c)),
    "another index": lambda c: pd.DataFrame(c).set_index(np.arange(N)[::-1]),
    "polars": pl.DataFrame,
    "categories of polars": lambda c: pl.DataFrame(c).with_columns(
        pl.col(name).cast(pl.Categorical) for name in ("city", "grade") if name in c
    ),
    "Arrow": pa.table,
    "dictionaries of Arrow": _with_dictionaries,
    "chunks of Arrow": _chunked,
    "a batch of Arrow": lambda c: pa.table(c).combine_chunks().to_batches()[0],
    "views and runs of Arrow": _encoded,
    "dicts": lambda c: [dict(zip(c, row, strict=True)) for row in _rows(c)],
    "text in pandas": lambda c: pd.DataFrame(_as_text(c)),
    "text in polars": lambda c: pl.DataFrame(_as_text(c)),
    "text in Arrow": lambda c: pa.table(_as_text(c)),
    "text in dicts": lambda c: pd.DataFrame(_as_text(c)).to_dict("records"),
}
UNNAMED = {
    "array of objects": _objects,
    "lists": _rows,
    "text in lists": lambda c: _rows(_as_text(c)),
    "array of text": lambda c: np.array(_rows(_as_text(c))),
}
CONTAINERS = NAMED | UNNAMED


def drawn(name, containers, n):
    """Some containers, other ones for every estimator."""
    rng = np.random.default_rng(crc32(name.encode()))
    return [list(containers)[j] for j in rng.choice(len(containers), n, replace=False)]


def made(name):
    """An estimator that learns quickly."""
    kind = estimator_class(name)
    quick = {
        "random_state": 0, "candidates": ("linear",), "max_iter": 20, "n_landmarks": 10,
    }  # fmt: skip
    known = inspect.signature(kind).parameters
    return kind(**{option: value for option, value in quick.items() if option in known})


def targets(name, columns):
    """Targets of an estimator, that depend on the columns."""
    size = np.array([0.0 if v is None else v for v in columns["size"]])
    y = size + 2.0 * np.array(columns["new"]) + 0.5 * np.random.default_rng(1).normal(size=N)
    if name.endswith("Regressor"):
        return np.exp(0.1 * y) if "GLM" in name or "Reflectron" in name else y
    return (y > np.median(y)).astype(int)


def answers(model, X):
    """All that a model makes of rows."""
    if not hasattr(model, "predict"):
        rows = model.transform(X)
        return [rows.toarray() if hasattr(rows, "toarray") else rows]
    found = [np.asarray(model.predict(X))]
    if callable(getattr(model, "predict_proba", None)):
        found.append(np.asarray(model.predict_proba(X)))
    return found


def assert_same(one, other, words):
    for a, b in zip(one, other, strict=True):
        assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), words


# --- the law --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OF_TABLES)
def test_no_container_changes_a_bit(name, tmp_path):
    """Learned in one container and predicted in another, of all kinds."""
    columns = columns_of(name)
    y, containers = targets(name, columns), drawn(name, CONTAINERS, 5)
    first = made(name).fit(CONTAINERS["pandas"](columns), y)
    expected = answers(first, CONTAINERS["pandas"](columns))
    assert len(np.unique(expected[0].round(6))) > 1
    for container in containers:
        assert_same(expected, answers(first, CONTAINERS[container](columns)), container)
    for container, other in zip(containers[:2], containers[2:4], strict=True):
        model = made(name).fit(CONTAINERS[container](columns), y)
        assert_same(expected, answers(model, CONTAINERS[other](columns)), (container, other))
    tunefree.save_model(first, tmp_path / "model")
    from_file = tunefree.load_model(tmp_path / "model")
    assert_same(expected, answers(from_file, CONTAINERS[containers[4]](columns)), "file")


@pytest.mark.parametrize("name", ["BoostedTreesRegressor", "TuneFreeRegressor", "GLMClassifier"])
def test_every_container_is_read(name):
    """All of them, for one estimator of each way to read columns."""
    columns = columns_of(name)
    model = made(name).fit(pd.DataFrame(columns), targets(name, columns))
    expected = answers(model, pd.DataFrame(columns))
    for container, make in CONTAINERS.items():
        assert_same(expected, answers(model, make(columns)), container)


@pytest.mark.parametrize("name", OF_STREAMS)
def test_no_container_changes_a_bit_of_a_stream(name, tmp_path):
    """A chunk of any container, its dicts, its rows one by one, and numbers as a file has them."""
    columns = columns_of(name)
    y = targets(name, columns).tolist()
    one = made(name)
    dicts = NAMED["dicts"](columns)
    for x, label in zip(dicts, y, strict=True):
        one.learn_one(x, label)
    expected = answers(one, dicts)
    by_text = made(name)
    for x, label in zip(NAMED["text in dicts"](columns), y, strict=True):
        by_text.learn_one(x, label)
    assert_same(expected, answers(by_text, dicts), "rows of text")
    containers = drawn(name, NAMED, 8)
    for container, other in zip(containers, containers[1:], strict=False):
        model = made(name).partial_fit(NAMED[container](columns), y)
        assert model.columns_ == one.columns_, container
        assert_same(expected, answers(model, NAMED[other](columns)), (container, other))
    tunefree.save_model(one, tmp_path / "model")
    from_file = tunefree.load_model(tmp_path / "model")
    assert_same(expected, answers(from_file, NAMED[containers[0]](columns)), "file")


@pytest.mark.parametrize("name", OF_STREAMS)
def test_no_container_of_numbers_changes_a_bit_of_a_stream(name):
    columns = columns_of("PiSTOL")
    y = targets(name, columns)
    expected = answers(made(name).partial_fit(_objects(columns).astype(float), y), _rows(columns))
    for container, make in CONTAINERS.items():
        model = made(name).partial_fit(make(columns), y)
        assert_same(expected, answers(model, make(columns)), container)


# --- what follows ---------------------------------------------------------------------------------


MESSY = {
    "numbers with markers": lambda r: [*map(str, r.integers(0, 90, 55)), *["n.a.", "*"] * 2, ""],
    "codes": lambda r: [*map(str, r.integers(2000, 9999, 50)), *["2014A", "77B", "C12"] * 3, "1"],
    "few numbers": lambda r: r.choice(["1", "2", "3", "unknown"], N).tolist(),
    "money": lambda r: [f"${v:,.2f}" for v in r.uniform(0, 9999, N)],
    "decimal commas": lambda r: [f"{v:.2f}".replace(".", ",") for v in r.uniform(0, 9, N)],
    "days first": lambda r: [f"{d}/{m}/2024" for d, m in r.integers(1, [[28, 13]] * N)],
    "eight digits": lambda r: [2024_01_00 + 100 * m + d for m, d in r.integers(1, [[9, 28]] * N)],
    "mixed objects": lambda r: [*r.integers(0, 9, 40).tolist(), *["x"] * 10, *[None] * 10],
    "sentinels": lambda r: [*[-999] * 8, *r.uniform(0, 9, N - 8).tolist()],
    "truth": lambda r: r.choice(["TRUE", "false", ""], N).tolist(),
}


@pytest.mark.parametrize("kind", MESSY)
def test_the_order_of_rows_decides_no_kind(kind):
    """Nor do weights of one value, and a missing row is no row."""
    rng = np.random.default_rng(crc32(kind.encode()))
    for _ in range(5):
        values = MESSY[kind](rng)
        table = np.array([*values, None], dtype=object)[:-1, None]
        schema = Schema.of(table)
        for _ in range(3):
            order = rng.permutation(N)
            assert Schema.of(table[order]) == schema
        assert Schema.of(table, weights=np.full(N, 0.125)) == schema
        twice = np.concatenate([table, table[rng.permutation(N)]])
        assert Schema.of(twice, weights=np.repeat([1.0, 0.0], N)) == schema


@pytest.mark.parametrize("name", ["BoostedTreesRegressor", "TuneFreeRegressor"])
def test_numbers_alone_are_what_they_are_beside_text(name):
    """20190103 is a day, and -999 a missing value, in an array of floats as in a mixed table."""
    columns = columns_of(name) | {"size": columns_of("GLM")["size"]}
    y, numbers = targets(name, columns), {c: columns[c] for c in ("size", "stamp", "sensor")}
    frame, mixed = pd.DataFrame(numbers), {"city": columns["city"]} | numbers
    found = dict(made(name).fit(pd.DataFrame(mixed), y).schema_.as_dict())
    assert found.pop("city") and found["stamp"]["kind"] == "date"
    assert found["sensor"]["markers"] == [-999.0]
    containers = {
        "pandas": frame,
        "text": frame.astype(str),
        "floats": frame.to_numpy(),
        "lists": frame.to_numpy().tolist(),
        "polars": pl.DataFrame(numbers),
        "dicts": frame.to_dict("records"),
    }
    expected = answers(made(name).fit(frame, y), frame)
    for container, rows in containers.items():
        model = made(name).fit(rows, y)
        kinds = [column.kind for column in model.schema_.columns]
        assert kinds == ["number", "date", "number"], container
        assert_same(expected, answers(model, rows), container)


CHANGED = {
    "size": ("numbers", "text", "city"),
    "count": ("numbers", "dates", "day"),
    "city": ("text", "dates", "day"),
    "day": ("dates", "text", "city"),
}


@pytest.mark.parametrize("name", [n for n in OF_TABLES if n.startswith(WITH_GAPS_AND_DATES)])
@pytest.mark.parametrize("column", CHANGED)
def test_a_column_that_changes_its_kind_is_an_error_that_names_both(name, column):
    columns = columns_of(name)
    model = made(name).fit(pd.DataFrame(columns), targets(name, columns))
    was, now, other = CHANGED[column]
    # As a category, or in a file, a date is a text such as others.
    typed = [c for c in NAMED if not c.startswith(("text", "categories", "dictionaries"))]
    for container in drawn(name + column, typed, 3):
        rows = NAMED[container](columns | {column: columns[other]})
        with pytest.raises(ValueError, match=f"'{column}' held {was} in fit, but now holds {now}"):
            answers(model, rows)


@pytest.mark.parametrize("name", [n for n in OF_TABLES if not n.startswith(WITH_TEXT)])
def test_text_in_a_column_of_numbers_is_an_error_that_names_both(name):
    columns = columns_of(name)
    model = made(name).fit(pd.DataFrame(columns), targets(name, columns))
    wrong = columns | {"size": ["Rome"] * N}
    for container in drawn(name, CONTAINERS, 3):
        with pytest.raises(ValueError, match=r"held numbers in fit, but now holds (text|categ)"):
            model.predict(CONTAINERS[container](wrong))


@pytest.mark.parametrize("name", [n for n in OF_TABLES if n.startswith(WITH_TEXT)])
def test_the_unit_of_weights_changes_no_bit_of_a_table(name):
    columns = columns_of(name)
    y, weights = targets(name, columns), 1.0 + np.arange(N) % 3
    rows = CONTAINERS[drawn(name, CONTAINERS, 1)[0]](columns)
    found = [
        answers(made(name).fit(rows, y, sample_weight=unit * weights), rows)
        for unit in (1.0, 1e-3, 4e6)
    ]
    assert_same(found[0], found[1], "1e-3")
    assert_same(found[0], found[2], "4e6")


def test_trees_speak_of_the_columns_of_the_user():
    """Relevances, explanations, pairs and signs are those of columns, not of their levels."""
    columns = columns_of("TuneFree")
    del columns["stamp"], columns["sensor"]
    rows, y = pd.DataFrame(columns), targets("TuneFreeRegressor", columns)
    model = BoostedTreesRegressor(random_state=0, monotonic_cst={"size": 1}).fit(rows, y)
    assert model.feature_relevances_.shape == (len(columns),)
    assert model.n_features_in_ == len(columns) == len(model.feature_importances_)
    np.testing.assert_allclose(model.feature_relevances_.sum(), 1.0)
    explained = model.explain(rows)
    assert explained.feature_names == list(columns)
    total = explained.base_value + explained.values.sum(axis=1)
    np.testing.assert_allclose(total, model.predict(rows), rtol=1e-9)
    names = {name for pair in model.interactions(50) for name in pair.columns}
    assert names <= {*columns}
    low = pd.concat([rows.head(1)] * 20, ignore_index=True)
    assert np.all(np.diff(model.predict(low.assign(size=np.linspace(-9, 9, 20)))) >= 0.0)
    with pytest.raises(ValueError, match="'city' is a category column"):
        BoostedTreesRegressor(monotonic_cst={"city": 1}).fit(rows, y)


def test_trees_of_a_stack_read_no_table_of_their_own():
    columns = {name: values * 3 for name, values in columns_of("TuneFree").items()}
    columns["size"] = np.random.default_rng(2).normal(size=3 * N)
    model = TuneFreeRegressor(("trees",), random_state=0)
    model.fit(pd.DataFrame(columns), columns["size"])
    assert not any(hasattr(member, "table_") for member in model.models_)


def test_cells_of_streams_are_numbers_as_they_are_written():
    """Money, percent, groups of thousands and truth values; what is ambiguous is a level."""
    numbers = {"3.5": 3.5, "$944.00": 944.0, "7%": 0.07, "1,234.5": 1234.5, "TRUE": 1.0, " 2 ": 2.0}
    for text, value in numbers.items():
        written, plain = StreamRegressor(), StreamRegressor()
        for t in range(5):
            written.learn_one({"a": text, "b": float(t)}, float(t))
            plain.learn_one({"a": value, "b": float(t)}, float(t))
        assert written.columns_ == ["a", "b"]
        assert written.predict_one({"a": text, "b": 1.0}) == plain.predict_one({"a": value, "b": 1})
    levels = StreamRegressor()
    levels.learn_one({"a": "1,5", "b": "01/02/2024", "c": "red", "d": "n/a"}, 1.0)
    assert levels.columns_ == ["a=1,5", "b=01/02/2024", "c=red", "d"]


def test_a_bad_cell_is_counted_or_refused_by_trees():
    columns = columns_of("GLM")
    rows, y = pd.DataFrame(_as_text(columns)), targets("TuneFreeRegressor", columns)
    rows.loc[4, "size"] = "broken"
    for kept in (list(rows), ["size", "count"]):  # with a table, and of numbers alone
        with pytest.warns(tunefree.DataWarning, match="'size': 1 cell is no number.*'broken'"):
            BoostedTreesRegressor(random_state=0).fit(rows[kept], y)
        with pytest.raises(ValueError, match="'broken' in row 4, but on_bad_cell='error'"):
            BoostedTreesRegressor(random_state=0, on_bad_cell="error").fit(rows[kept], y)


@pytest.mark.parametrize("name", ["BoostedTreesRegressor", "TuneFreeRegressor"])
def test_intervals_of_targets_with_an_atom_are_those_of_any_container(name):
    """Rows of the atom are predicted once more after a fit, in the container that was given."""
    columns = columns_of("GLM")
    y = np.where(np.arange(N) % 2, 0.0, targets(name, columns))
    found = [
        made(name).fit(CONTAINERS[container](columns), y).predict_interval(pd.DataFrame(columns))
        for container in ("pandas", "dicts", "lists")
    ]
    assert_same(found[0], found[1], "dicts")
    assert_same(found[0], found[2], "lists")


NAMES = {
    "whole numbers": lambda d: list(range(d)),
    "pairs": lambda d: pd.MultiIndex.from_tuples([("a", j) for j in range(d)]),
    "days": lambda d: pd.date_range("2024-01-01", periods=d),
}


@pytest.mark.parametrize("name", OF_TABLES)
def test_names_that_are_no_text_name_nothing(name):
    """As those of a file that pandas reads without a header, of numbers by type and as text."""
    columns = {key: columns_of(name)[key] for key in ("count", "new")}
    columns["size"] = columns_of("GLM")["size"]
    columns["count"] = [0 if v is None else v for v in columns["count"]]
    y, frame = targets(name, columns), pd.DataFrame(columns).astype(float)
    expected = answers(made(name).fit(frame.to_numpy(), y), frame.to_numpy())
    names = NAMES[drawn(name, NAMES, 1)[0]](3)
    for rows in (frame.set_axis(names, axis=1), frame.astype(str).set_axis(names, axis=1)):
        model = made(name).fit(rows, y)
        assert_same(expected, answers(model, rows), names)
        assert_same(expected, answers(model, frame.to_numpy()), names)
