"""Offsets of classes on a cluster: the fit on one machine, in every container."""

import re

import numpy as np
import pytest
from scipy.special import softmax

import tunefree

pd = pytest.importorskip("pandas")
pytest.importorskip("dask")
pytest.importorskip("distributed")
dd = pytest.importorskip("dask.dataframe")

import dask.array as da  # noqa: E402

from tunefree import dask as tfd  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning",
    "ignore::DeprecationWarning",
    "ignore::sklearn.exceptions.ConvergenceWarning",
)
N = 240
RNG = np.random.default_rng(0)
ROWS = pd.DataFrame({"age": RNG.normal(size=N), "city": RNG.choice(["Rome", "Oslo"], N)})
NUMBERS = ROWS[["age"]]
KNOWN = pd.DataFrame(RNG.normal(size=(N, 3)), columns=["bus", "car", "train"])
COSTS = {name: f"cost_{name}" for name in KNOWN}
WITH_COSTS = pd.concat([NUMBERS, KNOWN.rename(columns=COSTS)], axis=1)
CHANCE = softmax(np.outer(ROWS.age, [0.5, -0.5, 0.0]) + KNOWN.to_numpy(), axis=1).cumsum(axis=1)
WAY = pd.Series(KNOWN.columns.to_numpy()[(RNG.random((N, 1)) > CHANCE).sum(axis=1)])
INDEX = ROWS.age + KNOWN.bus + RNG.logistic(size=N)
SEPARATE = {"family": "binomial"}  # a logistic regression for each class
TARGETS = {
    "two": (pd.Series(np.where(INDEX > 0.0, "yes", "no")), KNOWN.bus, {}),
    "ordered": (pd.Series(np.digitize(INDEX, [-1.0, 1.0])), KNOWN.bus, {"family": "ordinal"}),
    "several": (WAY, KNOWN, {}),
    "separate": (WAY, KNOWN, SEPARATE),
}
PLAIN = {"validation_fraction": 0.0, "potential": "euclidean", "max_iter": 40, "random_state": 0}
EXACT = {"potential": "none"}


def parts(values, n=2):
    return dd.from_pandas(values, npartitions=n)


def assert_same(there, local, offset, rtol):
    """Coefficients and probabilities are those of one machine, and so are lazy ones."""
    np.testing.assert_allclose(there.coef_, local.coef_, atol=rtol)
    np.testing.assert_allclose(there.intercept_, local.intercept_, atol=rtol)
    expected = local.predict_proba(ROWS, offset)
    np.testing.assert_allclose(there.to_local().predict_proba(ROWS, offset), expected, atol=rtol)
    lazy = there.predict_proba(parts(ROWS), parts(offset)).compute()
    np.testing.assert_allclose(lazy, expected, atol=rtol)


@pytest.mark.parametrize(
    "name, potential",
    [(name, "none") for name in TARGETS] + [("two", "euclidean")],  # others are below
)
def test_offsets_are_those_of_the_fit_on_one_machine(client, name, potential):
    y, offset, options = TARGETS[name]
    options = options | (EXACT if potential == "none" else PLAIN)
    local = tunefree.GLMClassifier(**options).fit(ROWS, y, offset=offset)
    there = tfd.DaskGLMClassifier(**options).fit(parts(ROWS), parts(y), offset=parts(offset))
    assert there.row_terms_ == local.row_terms_ == ("offset",)
    assert_same(there, local, offset, 1e-7 if potential == "none" else 1e-5)
    if potential == "none":
        ours, own = there.to_local().summary(), local.summary()
        np.testing.assert_allclose(ours.standard_error, own.standard_error, rtol=1e-5)
        assert (ours.statistics is None) == (name == "separate")
        for one, other in zip(ours.statistics or (), own.statistics or (), strict=True):
            assert one == pytest.approx(other, rel=1e-6)
    scored = there.score(parts(ROWS), parts(y), offset=parts(offset))
    assert scored == local.score(ROWS, y, offset=offset)


def test_containers_and_names_give_one_fit(client):
    """Columns in any order by their names, without names in the order of the classes."""
    options = PLAIN | {"max_iter": 20}
    local = tunefree.GLMClassifier(**options).fit(WITH_COSTS, WAY, offset=COSTS)
    expected = local.predict_proba(WITH_COSTS)
    near, far, y = parts(NUMBERS), parts(WITH_COSTS), parts(WAY)
    array = da.from_array(KNOWN.to_numpy(), chunks=(70, 2))
    shuffled = parts(KNOWN[["train", "bus", "car"]])
    by_frame = tfd.DaskGLMClassifier(**options).fit(near, y, offset=shuffled)
    by_name = tfd.DaskGLMClassifier(**options).fit(far, y, offset=list(COSTS.values()))
    assert by_name.feature_names_in_.tolist() == list(NUMBERS)
    for there, rows, offset in [
        (by_frame, near, shuffled),
        (by_frame, near, array),
        (by_frame, far, COSTS),
        (by_name, far, None),  # the names are known
        (by_name, far, COSTS),
        (by_name, near, array),
    ]:
        lazy = there.predict_proba(rows, offset)
        assert lazy.columns.tolist() == list(KNOWN)
        np.testing.assert_allclose(lazy.compute(), expected, atol=1e-5)
    found = by_name.to_local().predict_proba(WITH_COSTS)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    X, codes = NUMBERS.to_numpy(), np.unique(WAY, return_inverse=True)[1]
    rows = da.from_array(X, chunks=(100, 1))
    there.fit(rows, da.from_array(codes, chunks=100), offset=array)
    np.testing.assert_allclose(there.predict_proba(rows, array).compute(), expected, atol=1e-5)


def test_grades_have_the_order_that_was_given(client):
    grades = np.array(["low", "mid", "high"])
    numbers, offset, options = TARGETS["ordered"]
    text = pd.Series(grades[numbers])
    ordered = pd.Series(pd.Categorical(text, grades, ordered=True))
    local = tunefree.GLMClassifier(**PLAIN, **options).fit(ROWS, ordered, offset=offset)
    there = tfd.DaskGLMClassifier(**PLAIN, **options)
    there.fit(parts(ROWS), parts(ordered), offset=parts(offset))
    assert_same(there, local, offset, 1e-5)
    with pytest.raises(ValueError, match="text without an order"):
        there.fit(parts(NUMBERS), parts(text))
    there.set_params(categories=grades, max_iter=1).fit(parts(NUMBERS), parts(text))
    assert there.classes_.tolist() == local.classes_.tolist() == grades.tolist()


def test_predictions_need_the_offset_of_the_fit(client):
    y, far = parts(WAY), parts(NUMBERS)
    model = tfd.DaskGLMClassifier(**PLAIN | {"max_iter": 1})
    without = model.fit(far, y).to_local()
    model.fit(far, y, offset=parts(KNOWN))
    neutral = model.predict_proba(far, offset=0).compute()
    np.testing.assert_allclose(neutral, model.to_local().predict_proba(NUMBERS, 0.0))
    for method in ("predict", "predict_log_proba", "decision_function"):
        with pytest.raises(ValueError, match="fitted without offset=: do not give it"):
            getattr(without, method)(NUMBERS, KNOWN)
        for there, rows in ((model, far), (model, NUMBERS), (model.to_local(), NUMBERS)):
            with pytest.raises(ValueError, match="fitted with offset=: give offset="):
                getattr(there, method)(rows)
    for rows, targets in ((far, y), (NUMBERS, WAY)):
        with pytest.raises(ValueError, match="fitted with offset=: give offset="):
            model.score(rows, targets)


def hole(row, column):
    """The offsets, of which one is missing."""
    found = KNOWN.copy()
    found.iloc[row, column] = np.nan
    return found


@pytest.mark.parametrize(
    "rows, offset, words",
    [
        (NUMBERS, KNOWN.bus, "offset has one number a row, which changes nothing for 3 classes"),
        (NUMBERS, KNOWN[["bus", "car"]], "offset has the columns bus, car: give one for each"),
        (NUMBERS, hole(200, 1), "partition 1: Input offset contains NaN. The first is offset[80"),
        (NUMBERS, KNOWN.replace(KNOWN.iat[5, 2], np.inf), "0: offset must be finite, and holds"),
        (WITH_COSTS, [*list(COSTS.values())[:2], "cost"], "offset: 'cost' is no column of X"),
        (WITH_COSTS.rename(columns=dict(zip(COSTS.values(), KNOWN, strict=True))),
         ["train", "car", "bus"], "names of the classes in another order"),
        (WITH_COSTS, list(COSTS.values())[:2], "offset has 2 columns, but there are 3 classes"),
    ],
)  # fmt: skip
def test_wrong_offsets_are_named(client, rows, offset, words):
    far = parts(offset) if hasattr(offset, "index") and not isinstance(offset, list) else offset
    with pytest.raises(ValueError, match=re.escape(words)):
        tfd.DaskGLMClassifier(**PLAIN).fit(parts(rows), parts(WAY), offset=far)


def test_other_wrong_offsets_are_named(client):
    model, y = tfd.DaskGLMClassifier(**PLAIN), parts(TARGETS["two"][0])
    with pytest.raises(ValueError, match="offset has 3 columns: give one number a row"):
        model.fit(parts(NUMBERS), y, offset=parts(KNOWN))
    with pytest.raises(TypeError, match="offset is a ndarray, not a Dask array or frame"):
        model.fit(parts(NUMBERS), y, offset=KNOWN.bus.to_numpy())
    short = da.from_array(KNOWN.bus.to_numpy()[:-1], chunks=120)
    with pytest.raises(ValueError, match="partition 1: offset has 119 numbers, but X has 120 rows"):
        model.fit(parts(NUMBERS), y, offset=short)
