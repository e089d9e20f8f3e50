"""`score` takes the targets and weights that `fit` takes, and names what is wrong with others."""

from inspect import signature

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tunefree import DataWarning
from tunefree.core.registry import ESTIMATORS, estimator_class

EVERY = [
    name
    for name in sorted(ESTIMATORS)
    if name.endswith(("Regressor", "Classifier")) and not name.startswith("Dask")
]
RNG = np.random.default_rng(0)
N = 40
X = RNG.normal(size=(N, 2))
TABLE = pd.DataFrame(X, columns=["a", "b"])
_models: dict = {}


def fitted(name):
    """A model and its targets, fitted once."""
    if name not in _models:
        model = estimator_class(name)()
        if "random_state" in model.get_params():
            model.set_params(random_state=0)
        y = np.arange(N) % 2 if name.endswith("Classifier") else np.exp(X[:, 0]) + X[:, 1]
        _models[name] = model.fit(TABLE, y), y
    return _models[name]


@pytest.mark.parametrize("name", EVERY)
def test_every_container_has_the_same_score(name):
    model, y = fitted(name)
    score = model.score(TABLE, y)
    makes = [list, pd.Series, pl.Series, pa.array, lambda y: y[:, None], lambda y: y.astype(object)]
    for make in [*makes, lambda y: pd.DataFrame({"y": y}), lambda y: pl.DataFrame({"y": y})]:
        assert model.score(TABLE, make(y)) == score
    if name.endswith("Regressor"):
        assert model.score(TABLE, [repr(v) for v in y.tolist()]) == score


def first(y, value):
    """Targets of which the first is another value."""
    y = y.astype(object)
    y[0] = value
    return y


WRONG = {
    "y is None": lambda y: None,
    "y has 39 rows, but X has 40": lambda y: y[1:],
    "y has 2 targets a row, but this model predicts 1": lambda y: np.column_stack([y, y]),
    r"Input y contains NaN. The first is y\[0\]": lambda y: first(y, np.nan),
    r"Input y contains infinity. The first is y\[0": lambda y: first(y, np.inf).astype(float),
    "y holds .*'red'": lambda y: ["red"] * N,
    "y holds ": lambda y: pd.date_range("2020-01-01", periods=N),
}
WRONG_WEIGHTS = {
    "sample_weight has 39 numbers, but X has 40 rows": np.ones(N - 1),
    "[Nn]egative .*sample_weight": np.append(-1.0, np.ones(N - 1)),
    "(S|s)ample(_| )weight.* zero|non-zero": np.zeros(N),
    r"sample_weight contains NaN. The first is sample_weight\[0\]": np.full(N, np.nan),
    "sample_weight contains infinity": np.full(N, np.inf),
    "sample_weight holds text such as 'much'": ["much"] * N,
    "sample_weight has the shape": np.ones((N, 2)),
}


@pytest.mark.parametrize("name", EVERY)
def test_what_is_wrong_is_named(name):
    """A GLM scored two targets of one predicted, and negative weights, without a word."""
    model, y = fitted(name)
    for words, make in WRONG.items():
        with pytest.raises(ValueError, match=words):
            model.score(TABLE, make(y))
    for words, weights in WRONG_WEIGHTS.items():
        with pytest.raises(ValueError, match=words):
            model.score(TABLE, y, sample_weight=weights)


NO_TABLES = {
    "X is None": None,
    "X is 'rows.csv'": "rows.csv",
    "X is an empty list": [],
    "got 1D array instead": np.array([1.0, "u"], dtype=object),
}


@pytest.mark.parametrize("name", [name for name in EVERY if not name.startswith("Stream")])
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_what_is_no_table_is_called_so(name):
    model, y = fitted(name)
    for words, rows in NO_TABLES.items():
        with pytest.raises(ValueError, match=words):
            model.predict(rows)
        with pytest.raises(ValueError, match=words):
            estimator_class(name)().fit(rows, y)


@pytest.mark.parametrize("name", [name for name in EVERY if "Trees" in name or "Free" in name])
def test_a_column_that_no_dict_has_is_named(name):
    """A frame without it is refused."""
    model, _ = fitted(name)
    rows = TABLE.to_dict("records")
    with pytest.warns(DataWarning, match="No row of X has a value of 'b': they count as missing"):
        model.predict([{"a": row["a"], "B": row["b"]} for row in rows])


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("make", [np.asarray, np.ndarray.tolist, pd.DataFrame, pl.DataFrame])
def test_another_number_of_targets_than_rows_is_named(name, make):
    with pytest.raises(ValueError, match="X has 40 rows, and y has 39"):
        estimator_class(name)().fit(make(X), np.arange(N - 1) % 2)


VALIDATED = [name for name in EVERY if "X_val" in signature(estimator_class(name).fit).parameters]
WRONG_VALIDATION = {
    "X_val is given without y_val": lambda y: (TABLE, None),
    "y_val is given without X_val": lambda y: (None, y),
    "y_val has 39 rows, but X_val has 40 rows": lambda y: (TABLE, y[1:]),
    "y_val has 1 rows, but X_val has 40 rows": lambda y: (TABLE, y[:1]),
    "y_val has 2 targets a row": lambda y: (TABLE, np.column_stack([y, y])),
    "y_val holds text such as 'red'|y_val has classes that y": lambda y: (TABLE, ["red"] * N),
    r"Input y_val contains None. The first is y_val\[0\]": lambda y: (TABLE, first(y, None)),
}


@pytest.mark.parametrize("name", VALIDATED)
def test_validation_targets_are_checked_as_those_of_the_fit(name):
    """One target was that of every row, and targets without rows were ignored."""
    _, y = fitted(name)
    for words, make in WRONG_VALIDATION.items():
        X_val, y_val = make(y)
        with pytest.raises(ValueError, match=words):
            estimator_class(name)().fit(TABLE, y, X_val=X_val, y_val=y_val)
    found = []
    for make in (np.asarray, list, pd.Series, lambda y: y[:, None], lambda y: pl.DataFrame(y)):
        model = estimator_class(name)(random_state=0).fit(TABLE, y, X_val=TABLE, y_val=make(y))
        found.append(model.predict(TABLE))
    assert all(np.array_equal(one, found[0]) for one in found)


@pytest.mark.parametrize("name", EVERY)
def test_a_rate_of_misses_is_a_number(name):
    model, _ = fitted(name)
    predict = getattr(model, "predict_interval", getattr(model, "predict_set", None))
    for alpha in ("x", None, -1, 2, np.nan, [[0.1], [0.1, 0.2]]):
        with pytest.raises(ValueError, match="alpha="):
            predict(TABLE, alpha=alpha)


def test_groups_and_weights_of_classes_are_named():
    y = np.array(["no", "yes"])[np.arange(N) % 2]
    for name in [name for name in EVERY if name.endswith("Classifier")]:
        parameters = signature(estimator_class(name)).parameters
        if "class_weight" in parameters:
            with pytest.raises(
                ValueError, match="class_weight= gives the class 'no' the weight 'a'"
            ):
                estimator_class(name)(class_weight={"no": "a", "yes": 1}).fit(TABLE, y)
        if "groups" in signature(estimator_class(name).fit).parameters:
            with pytest.raises(ValueError, match="groups has 39 values, but X has 40 rows"):
                estimator_class(name)().fit(TABLE, y, groups=np.arange(N - 1))
