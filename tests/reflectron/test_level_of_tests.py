"""Tests reject as often as they should, and bands hold the mean: few draws of true models.

`benchmarks/diagnostics.py` has 1,000 draws of every family.
"""

import numpy as np
import pytest

from tunefree.parts.families import Gamma, Poisson
from tunefree.rows.levels import TableColumns
from tunefree.uncertainty.inference import inferred
from tunefree.uncertainty.laws import Law
from tunefree.uncertainty.mean_bands import mean_band
from tunefree.uncertainty.nested import nested_test
from tunefree.uncertainty.samples import CovarianceOptions
from tunefree.uncertainty.terms import terms_tested

NAMES, N = list("abc"), 150
DRAWN = {
    Poisson(): lambda mean, rng: rng.poisson(mean),
    Gamma(): lambda mean, rng: rng.gamma(3.0, mean / 3.0),
}


def _of_one_draw(family, seed):
    """The p-values of columns without an effect, and the share of bands that hold the mean."""
    rng = np.random.default_rng(seed)
    X, ones, law = rng.normal(size=(N, 3)), np.ones(N), Law(family, family.link)
    y = DRAWN[family](np.exp(0.5 * X[:, 0] + 0.5), rng).astype(float)
    options = CovarianceOptions("nonrobust")
    large = inferred(X, y, ones, law, True, NAMES, options)
    small = inferred(X[:, :1], y, ones, law, True, NAMES[:1], options)
    both = terms_tested(large, NAMES, groups=[["b", "c"]])
    nested = nested_test(large, small)
    assert nested.statistic == pytest.approx(both.lr_statistic[0], rel=1e-6)
    new = np.diag([1.0, -2.0, 1.0])
    ends = mean_band(large, TableColumns(NAMES, NAMES, []), new, np.array([0.05]))[1][:, :, 0]
    truth = np.exp(0.5 * new[:, 0] + 0.5)
    holds = np.mean((ends[:, 0] < truth) & (truth < ends[:, 1]))
    added = terms_tested(large, NAMES, typ=1, groups=["c"]).lr_p_value[0]
    return both.lr_p_value[0], both.wald_p_value[0], added, holds


@pytest.mark.parametrize("n_draws", [50, 200])
@pytest.mark.parametrize("family", DRAWN, ids=str)
def test_a_test_at_5_percent_rejects_5_percent(family, n_draws):
    found = np.array([_of_one_draw(family, seed) for seed in range(n_draws)])
    two_errors = 2.0 * np.sqrt(0.05 * 0.95 / n_draws)
    assert (np.abs((found[:, :3] < 0.05).mean(axis=0) - 0.05) < two_errors).all()
    assert abs(found[:, 3].mean() - 0.95) < two_errors
