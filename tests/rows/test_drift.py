"""The test of `column_drift`: its size, and what weights of training rows mean to it."""

import numpy as np
import pandas as pd
import pytest

from tunefree import TuneFreeRegressor
from tunefree.rows.checks import ColumnShares, SourceLayout

WEIGHTS = {
    "equal": lambda rng, n: np.ones(n),
    "of a survey": lambda rng, n: np.exp(rng.normal(size=n)),
    "30 effective rows": lambda rng, n: rng.gamma(0.12, size=n) + 1e-3,
}
NAMES, KINDS = ["number", "ties", "level"], ["number", "number", "category"]
LAYOUT = SourceLayout(NAMES, KINDS, np.array([0, 1, 2, 7]), np.zeros(3, bool), np.zeros(3, bool))


def rows(rng, n):
    """A continuous column, one of counts, and five levels."""
    levels = np.eye(5)[rng.choice(5, n, p=[0.4, 0.3, 0.15, 0.1, 0.05])]
    return np.column_stack([rng.normal(size=n), rng.poisson(1.5, n), levels])


@pytest.mark.parametrize(
    "weights, sizes, n_draws",
    [
        ("equal", (200, 600), 120),
        ("equal", (200, 600), 250),
        ("of a survey", (200, 600), 250),
        ("30 effective rows", (300, 300), 250),
    ],
)
def test_without_drift_one_column_in_twenty_has_a_p_value_below_a_twentieth(
    weights, sizes, n_draws
):
    p = []
    for seed in range(n_draws):
        rng = np.random.default_rng(seed)
        X, new = (rows(rng, n) for n in sizes)
        shares = ColumnShares.of(LAYOUT, X, X, WEIGHTS[weights](rng, len(X)))
        p.append([drift.p_value for drift in shares.drift(LAYOUT, shares.count(LAYOUT, new))])
    below, error = (np.array(p) < 0.05).mean(axis=0), np.sqrt(0.05 * 0.95 / n_draws)
    assert (below < 0.05 + 2.5 * error).all()
    assert (below > 0.01).all(), "the test may be cautious, not blind"


def fitted(weights, times=1, factor=1.0):
    """A model of 60 rows, each of them given so many times."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=60), "city": rng.choice(["a", "b", "c"], 60)})
    again = np.repeat(np.arange(60), times)
    y = frame.x + 0.1 * rng.normal(size=60)
    model = TuneFreeRegressor(("linear",), random_state=0)
    return model.fit(frame.iloc[again], y.iloc[again], sample_weight=factor * weights[again])


def p_values(model):
    """For new rows of another distribution."""
    rng = np.random.default_rng(1)
    new = pd.DataFrame({"x": rng.normal(0.4, 1.0, 80), "city": rng.choice(["a", "b"], 80)})
    return [drift.p_value for drift in model.column_drift(new)]


def test_a_weight_of_3_is_three_rows_and_the_unit_of_other_weights_is_free():
    ones, survey = np.ones(60), np.random.default_rng(2).uniform(0.5, 2.0, 60)
    assert p_values(fitted(3.0 * ones)) == pytest.approx(p_values(fitted(ones, times=3)))
    expected = p_values(fitted(survey))
    assert p_values(fitted(survey, factor=1e-6)) == pytest.approx(expected)
    assert p_values(fitted(survey, factor=2.0**20)) == expected
