"""Levels of new rows that `fit` has not seen: one warning, which counts them by column."""

import warnings

import numpy as np
import pytest

import tunefree
from tunefree.rows.schema import UnknownLevels

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

RNG = np.random.default_rng(0)
TABLE = {
    "city": RNG.choice(["Rome", "Oslo", "Bern"], 90).tolist(),
    "grade": RNG.choice(["a", "b"], 90).tolist(),
    "size": RNG.normal(size=90).tolist(),
}
Y = np.array(TABLE["size"]) + (np.array(TABLE["city"]) == "Rome") + RNG.normal(size=90)
NEW = {"city": ["Paris", "Rome", "Lima"], "grade": ["a", "z", "b"], "size": [0.1, 0.2, 0.3]}
CONTAINERS = {
    "pandas": pd.DataFrame,
    "categories": lambda t: pd.DataFrame(t).astype({"city": "category"}),
    "polars": pl.DataFrame,
    "Arrow": pa.table,
    "dicts": lambda t: pd.DataFrame(t).to_dict("records"),
    "lists": lambda t: [list(row) for row in zip(*t.values(), strict=True)],
}
MODELS = {
    "GLMRegressor": {"family": "gaussian"},
    "BoostedTreesRegressor": {},
    "BoostedTreesClassifier": {},
    "TuneFreeRegressor": {"candidates": ("linear",)},
    "GLMClassifier": {},
    "TablePreprocessor": {},
}


def warned(model, X):
    """The warnings of a prediction that are of new levels."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        (model.transform if hasattr(model, "transform") else model.predict)(X)
    return [one.message for one in found if isinstance(one.message, UnknownLevels)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_levels_that_fit_has_not_seen_are_counted_once(name):
    y = (Y > 0).astype(int) if name.endswith("Classifier") else Y
    for make in CONTAINERS.values():
        model = getattr(tunefree, name)(**MODELS[name])
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            model.fit(make(TABLE), y)
        assert not [one for one in found if isinstance(one.message, UnknownLevels)]
        assert not warned(model, make(TABLE))
        (one,) = warned(model, make(NEW))
        assert [(u.count, u.row, u.level) for u in one.found] == [(2, 0, "Paris"), (1, 1, "z")]


@pytest.mark.parametrize("name", ["StreamClassifier", "StreamRegressor"])
@pytest.mark.parametrize("container", [name for name in CONTAINERS if name != "lists"])
def test_a_stream_names_text_that_is_written_in_another_way(name, container):
    """A new level is no news for a stream, but several in place of the known ones are."""
    y = (Y > 0).astype(int) if name.endswith("Classifier") else Y
    make = CONTAINERS[container]
    model = getattr(tunefree, name)().partial_fit(make(TABLE), y)
    assert not warned(model, make(TABLE))
    assert not warned(model, make(TABLE | {"city": ["Paris", "Lima"] * 9 + TABLE["city"][18:]}))
    assert not warned(model, make(TABLE | {"city": ["Paris"] * 90}))
    upper = [city.upper() for city in TABLE["city"]]
    for cells in (upper, [1.0] * 90, [True] * 90):
        (one,) = warned(model, make(TABLE | {"city": cells}))
        assert [(u.column, u.count, u.row) for u in one.found] == [("city", 90, 0)]
