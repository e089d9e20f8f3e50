"""Whole numbers beyond 2**53 that are equal as floats: never silently one value."""

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tunefree import DataWarning, StreamClassifier, StreamRegressor
from tunefree.core.registry import ESTIMATORS, estimator_class

EVERY = [
    name
    for name in sorted(ESTIMATORS)
    if name.endswith(("Regressor", "Classifier")) and not name.startswith("Dask")
]
RNG = np.random.default_rng(0)
N = 60
IDS = [2**53 + 1 + 2 * int(i) - int(i) % 3 for i in RNG.integers(0, 20, N)]
SIZE = RNG.normal(size=N)
CONTAINERS = {
    "int64": lambda: pd.DataFrame({"id": IDS, "size": SIZE}),
    "uint64": lambda: pd.DataFrame({"id": np.array(IDS, np.uint64), "size": SIZE}),
    "Int64": lambda: pd.DataFrame({"id": pd.array(IDS, dtype="Int64"), "size": SIZE}),
    "objects": lambda: pd.DataFrame({"id": pd.Series(IDS, dtype=object), "size": SIZE}),
    "decimals": lambda: pd.DataFrame({"id": [Decimal(i) for i in IDS], "size": SIZE}),
    "polars": lambda: pl.DataFrame({"id": IDS, "size": SIZE}),
    "Int128": lambda: pl.DataFrame({"id": pl.Series(IDS).cast(pl.Int128), "size": SIZE}),
    "Arrow": lambda: pa.table({"id": IDS, "size": SIZE}),
    "text": lambda: pd.DataFrame({"id": [*map(str, IDS)], "size": SIZE}),
    "dicts": lambda: [{"id": i, "size": s} for i, s in zip(IDS, SIZE.tolist(), strict=True)],
}
ARRAYS = {
    "array": lambda: np.column_stack([IDS, np.arange(N) % 7]),
    "lists": lambda: [[i, k % 7] for k, i in enumerate(IDS)],
    "floats in lists": lambda: [[i, float(k % 7)] for k, i in enumerate(IDS)],
    "objects": lambda: np.array([[i, k % 7] for k, i in enumerate(IDS)], dtype=object),
}


def seeded(name):
    """An estimator, the same at every call."""
    model = estimator_class(name)()
    return model.set_params(random_state=0) if "random_state" in model.get_params() else model


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("containers", [CONTAINERS, ARRAYS], ids=["named", "arrays"])
@pytest.mark.filterwarnings("ignore")
def test_they_are_named_and_alike_in_every_container(name, containers):
    """They are names, or, for estimators of numbers, there is a warning."""
    y = np.arange(N) % 2 if name.endswith("Classifier") else np.exp(SIZE)
    found = []
    makes = [*containers.values()]
    for make in makes[:: 4 if name.startswith("TuneFree") else 1]:
        with pytest.warns(
            DataWarning, match=r"Column ('id'|'x0'|0).*whole numbers such as '?90071"
        ):
            model = seeded(name).fit(make(), y)
        found.append(model.predict(make()))
    assert all(np.array_equal(one, found[0]) for one in found)


@pytest.mark.parametrize("stream", [StreamClassifier, StreamRegressor])
@pytest.mark.parametrize("value", [2**53 + 1, str(2**53 + 1), Decimal(2**53 + 1)])
def test_a_row_of_a_stream_names_them_once(stream, value):
    for x in ({"id": value}, [value]):
        model = stream()
        with pytest.warns(DataWarning, match="whole numbers such as 9007199254740993") as found:
            for _ in range(3):
                model.learn_one(x, 1)
        assert len(found) == 1


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [2**53, 10**18, 2.0**60, 12345, True, None])
def test_what_floats_hold_is_not_doubted(value):
    for x in ({"size": value}, [value]):
        StreamRegressor().learn_one(x, 1.0)


def test_infinity_is_no_whole_number_whose_digits_are_lost(recwarn):
    StreamRegressor().learn_one({"size": float("inf")}, 1.0)
    (found,) = recwarn.list
    assert "'size': 1 cell is no number, the first 'inf'" in str(found.message)


@pytest.mark.parametrize("name", [name for name in EVERY if name.endswith("Regressor")])
def test_targets_that_are_one_float_are_named(name):
    """Whole numbers of 64 bits became a constant."""
    rows = np.column_stack([SIZE, SIZE**2])
    for make in (np.array, pd.Series, pl.Series, pa.array, lambda y: np.array(y, dtype=object)):
        y = make([2**62 + i for i in range(N)])
        with pytest.warns(DataWarning, match="y holds whole numbers such as 4611686018427387963"):
            seeded(name).fit(rows, y)
