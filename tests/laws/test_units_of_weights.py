"""The unit of weights is free: weights times any number are the same weights."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import is_classifier

import tunefree
from tunefree import TablePreprocessor, TuneFreeRegressor
from tunefree.rows.matrices import as_dense

N = 80
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
TARGETS = X[:, 0] + np.sin(2.0 * X[:, 1]) + 0.3 * RNG.normal(size=N)
FRAME = pd.DataFrame(
    {
        "city": RNG.choice(["Bonn", "Kiel", "Ulm"], N),
        "rare": np.where(np.arange(N) < 9, [f"once {i}" for i in range(N)], "often"),
        "number": X[:, 0],
    }
)
WEIGHTS = {
    "equal": np.ones(N),
    "repetitions": RNG.integers(0, 4, N).astype(float),
    "twos and threes": RNG.choice([0.0, 2.0, 3.0], N),
    "of a survey": RNG.uniform(0.5, 2.0, N),
}
POWERS, OTHERS = (2.0**-20, 8.0), (1.0 / N, 1e-6, 3.0, 1e6)
NAMES = [
    name
    for name in tunefree.__all__
    if hasattr(getattr(tunefree, name), "predict") and not name.startswith("Stream")
]


def scores(name, weights):
    """What an estimator predicts after a fit with these weights."""
    model = getattr(tunefree, name)()
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    if name.startswith("TuneFree"):
        model.set_params(candidates=("linear",))
    y = (TARGETS > 0.0).astype(int) if is_classifier(model) else TARGETS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of margins of rows that are not separable
        model.fit(X, y, sample_weight=weights)
    read = model.decision_function if is_classifier(model) else model.predict
    return np.asarray(read(X))


@pytest.mark.parametrize("kind", ["twos and threes", "of a survey"])
@pytest.mark.parametrize("name", NAMES)
def test_the_unit_of_weights_is_free(name, kind):
    weights = WEIGHTS[kind]
    expected = scores(name, weights)
    power, other = POWERS[len(name) % 2], OTHERS[len(name) % 4]
    np.testing.assert_array_equal(scores(name, power * weights), expected)
    spread = np.ptp(expected) + 1e-9
    np.testing.assert_allclose(scores(name, other * weights), expected, atol=1e-7 * spread)


@pytest.mark.filterwarnings("ignore:Levels that fit has not seen")
@pytest.mark.parametrize("factor", POWERS + OTHERS)
@pytest.mark.parametrize("kind", WEIGHTS)
def test_columns_of_text_are_encoded_alike_in_every_unit_of_weights(kind, factor):
    weights = WEIGHTS[kind]
    expected, other = (
        TablePreprocessor().fit(FRAME, sample_weight=w) for w in (weights, factor * weights)
    )
    assert expected.levels_ == other.levels_
    rows = [as_dense(each.transform(FRAME)) for each in (expected, other)]
    np.testing.assert_array_equal(*rows)


def test_weights_that_sum_to_one_keep_every_column_of_a_frame():
    y = 5.0 * (FRAME.city == "Bonn") + FRAME.number
    fits = [
        TuneFreeRegressor(("linear",), random_state=0).fit(FRAME, y, sample_weight=w)
        for w in (np.ones(N), np.full(N, 1.0 / N))
    ]
    expected, found = (fit.predict(FRAME) for fit in fits)
    np.testing.assert_array_equal(found, expected)
    assert fits[1].score(FRAME, y) > 0.95


def test_rows_of_weight_0_are_as_if_absent_in_every_unit():
    weights = WEIGHTS["of a survey"] * (np.arange(N) % 3 > 0)
    kept = weights > 0.0
    expected = TablePreprocessor().fit(FRAME[kept], sample_weight=weights[kept])
    found = TablePreprocessor().fit(FRAME, sample_weight=1e-6 * weights)
    assert found.levels_ == expected.levels_
    np.testing.assert_array_equal(found.medians_, expected.medians_)


OF_LEVELS = "TuneFreeRegressor", "TuneFreeClassifier", "BoostedTreesRegressor"


@pytest.mark.parametrize("of_rare", ["light", "mostly absent"])
@pytest.mark.parametrize("name", OF_LEVELS)
def test_whole_weights_are_repetitions_beside_rare_levels(name, of_rare):
    """Weights decide on the share of rare levels, by which their mean targets become a column."""
    rng, is_rare = np.random.default_rng(1), np.arange(N) < 12
    code = np.where(is_rare, N + np.arange(N), rng.integers(0, 12, N))
    frame = pd.DataFrame({"city": [f"city {c}" for c in code], "number": X[:, 0]})
    weights = np.where(is_rare, 1, 3 if of_rare == "light" else rng.integers(1, 4, N))
    if of_rare == "mostly absent":
        weights[:10] = 0
    effects = rng.normal(size=2 * N)[code] + TARGETS
    y = (effects > 0.0).astype(int) if name.endswith("Classifier") else effects
    model = getattr(tunefree, name)(random_state=0)
    if name.startswith("TuneFree"):
        model.set_params(candidates=("linear", "trees"))
    rows = np.repeat(np.arange(N), weights)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = model.fit(frame, y, sample_weight=weights).predict(frame)
        expected = model.fit(frame.iloc[rows], y[rows]).predict(frame)
    np.testing.assert_array_equal(found, expected)
