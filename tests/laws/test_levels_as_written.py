"""Levels are the same in whatever order a container has them, and as 3 or as 3.0."""

import numpy as np
import pytest
from test_same_table import made

from tunefree import GLMRegressor
from tunefree.rows.schema import Schema, read_columns

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

pytestmark = pytest.mark.filterwarnings("ignore")
N = 120
RNG = np.random.default_rng(0)
CITY = RNG.choice(["Rome", "Oslo", "Bern", "Kiel"], N)
CODE = RNG.choice([1, 2, 3, 10, 20, 100], N)
SIZE = RNG.normal(size=N).round(2)
Y = SIZE + (CITY == "Oslo") + 2.0 * (CODE == 10) + 0.1 * RNG.normal(size=N)
# Orders of declared levels, some of which no row has.
CITIES = ["Oslo", "none", "Rome", "Kiel", "Bern"]
CODES = [20, 3, 1, 99, 10, 2, 100]


def _dictionary(values, levels):
    codes = [levels.index(value) for value in values.tolist()]
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(levels))


IN_CITIES = {
    "text": CITY,
    "categories": pd.Categorical(CITY),
    "categories in another order": pd.Categorical(CITY, CITIES),
    "dictionary": _dictionary(CITY, CITIES),
    "Enum": pl.Series(CITY, dtype=pl.Enum(CITIES)),
    "Categorical of polars": pl.Series(CITY, dtype=pl.Categorical),
}
IN_CODES = {
    "whole": CODE,
    "floats": CODE.astype(float),
    "nullable": pd.Series(CODE, dtype="Int64"),
    "objects": CODE.astype(object),
    "text": CODE.astype(str),
    "text of floats": CODE.astype(float).astype(str),
    "text with commas": np.char.replace(CODE.astype(float).astype(str), ".", ","),
    "categories": pd.Categorical(CODE),
    "categories in another order": pd.Categorical(CODE, CODES),
    "categories of floats": pd.Categorical(CODE.astype(float)),
    "dictionary": _dictionary(CODE, CODES),
}


def frame(city, code):
    """A frame of the container of a column, or of pandas."""
    columns = {"city": city, "code": code, "size": SIZE}
    for kind, make in ((pl.Series, pl.DataFrame), (pa.Array, pa.table)):
        if isinstance(city, kind) or isinstance(code, kind):
            return make({name: np.asarray(v) if isinstance(v, pd.Categorical) else v
                         for name, v in columns.items()})  # fmt: skip
    return pd.DataFrame(columns)


TABLES = {f"cities: {name}": frame(city, CODE) for name, city in IN_CITIES.items()}
TABLES |= {f"codes: {name}": frame(CITY, code) for name, code in IN_CODES.items()}


@pytest.mark.parametrize("name", ["TuneFreeRegressor", "BoostedTreesRegressor"])
def test_levels_are_the_same_in_every_container(name):
    if name == "TuneFreeRegressor":
        model = made(name).set_params(schema={"city": "category", "code": "category"})
    else:
        model = made(name).set_params(categorical_features=["city", "code"])
    expected = model.fit(TABLES["cities: text"], Y).predict(TABLES["cities: text"])
    for kind, table in TABLES.items():
        np.testing.assert_array_equal(model.predict(table), expected, kind)
    for kind, table in TABLES.items():
        np.testing.assert_array_equal(model.fit(table, Y).predict(table), expected, kind)


def test_levels_of_a_glm_are_the_same_in_every_container():
    tables = {kind: table for kind, table in TABLES.items() if kind.startswith("cities")}
    model = GLMRegressor(max_iter=20, random_state=0)
    expected = model.fit(tables["cities: text"], Y).predict(tables["cities: text"])
    for kind, table in tables.items():
        np.testing.assert_array_equal(model.predict(table), expected, kind)
        np.testing.assert_array_equal(model.fit(table, Y).predict(table), expected, kind)


def test_digits_that_are_names_keep_their_zeros():
    """A version 1.10 is none of 1.1, and 007 is not 7."""
    texts = np.array(["007", "7", "1.10", "1.1", "1.0", "x"] * 20, dtype=object)[:, None]
    (column,) = Schema.of(texts, given={"x0": "category"}).columns
    assert column.whole_ending is None  # 7 and 1.0: in two ways
    for learned, new, known in (
        (["7", "8"], ["007", "7.0", "1.10"], ["007", "1.10", "7"]),
        (["1.1", "2.0"], ["1.10", "2"], ["1.10", "2"]),
        (["007", "010"], ["7", "7.0"], ["7", "7.0"]),
    ):
        rows = np.array(learned * 20, dtype=object)[:, None]
        schema = Schema.of(rows, given={"x0": "category"})
        new = np.array(new, dtype=object)[:, None]
        (column,) = schema.columns
        assert read_columns(schema, new)[0].levels.tolist() == sorted(known), learned
