"""Calibration: the slope of maximum likelihood, never worse than none."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from tunefree.base.base import temperature


def decisions(k, slope=0.4, n=4000, seed=0):
    """Decisions whose true log-odds are `slope` times as large."""
    rng = np.random.default_rng(seed)
    f = 3 * rng.normal(size=(n, k))
    logits = slope * (np.hstack([f, np.zeros((n, 1))]) if k == 1 else f)
    gumbel = -np.log(-np.log(rng.random(logits.shape)))
    hit = (logits + gumbel).argmax(axis=1)
    y = np.where(hit == 0, 1.0, -1.0)[:, None] if k == 1 else 2.0 * np.eye(k)[hit] - 1
    return f, y, rng.choice([1.0, 2.0], n)


def log_loss(f, y, weights, a=1.0):
    if f.shape[1] == 1:
        return np.average(np.logaddexp(0.0, -y[:, 0] * a * f[:, 0]), weights=weights)
    return np.average(-log_softmax(a * f, axis=1)[y > 0], weights=weights)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("slope", [0.05, 0.4, 3.0])
def test_finds_the_true_slope(k, slope):
    assert temperature(*decisions(k, slope)) == pytest.approx(slope, rel=0.2, abs=0.03)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("slope", [0.05, 0.4, 3.0])
def test_the_log_loss_is_least_at_the_slope_found(k, slope):
    """Up to the certainty that each row gives up, which fades like 1/n."""
    f, y, weights = decisions(k, slope)
    a = temperature(f, y, weights)
    best = minimize_scalar(lambda s: log_loss(f, y, weights, s), bounds=(0, 10), method="bounded")
    assert a == pytest.approx(best.x, rel=0.05)
    assert log_loss(f, y, weights, a) <= best.fun + 1e-4


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("slope", [0.0, 0.05, 1.0, 4.0])
@pytest.mark.parametrize("n", [20, 500])
def test_never_worse_than_leaving_decisions_alone(k, slope, n):
    """Measured on the rows it learned from, up to the certainty given up."""
    for seed in range(10):
        f, y, weights = decisions(k, slope, n, seed)
        a = temperature(f, y, weights)
        assert log_loss(f, y, weights, a) <= log_loss(f, y, weights) + 3.0 / n


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("slope", [-2.0, 0.0, 0.4, 1e6])
def test_the_slope_is_positive_and_finite(k, slope):
    """The order of decisions stays, even if they are all wrong, or all right."""
    a = temperature(*decisions(k, slope))
    assert 0.0 < a < np.inf
    assert (a > 1.0) == (slope == 1e6)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_the_unit_of_decisions_drops_out(k, scale):
    f, y, weights = decisions(k)
    rescaled = temperature(scale * f, y, weights)
    assert rescaled * scale == pytest.approx(temperature(f, y, weights), rel=1e-6)


def test_without_decisions_or_weights_there_is_nothing_to_fit():
    f, y, weights = decisions(1)
    assert temperature(0 * f, y, weights) == temperature(f, y, 0 * weights) == 1.0


@pytest.mark.parametrize("k", [2, 10, 100])
def test_the_certainty_given_up_does_not_grow_with_the_classes(k):
    """Forty rows decided alike, and all rightly: two rows more, of any class."""
    y = 2.0 * np.eye(k)[np.arange(40) % k] - 1.0
    a = temperature(y, y, np.ones(40))
    right = 1.0 / (1.0 + (k - 1) * np.exp(-2.0 * a))
    assert right == pytest.approx(1.0 - 2.0 / 42 * (1.0 - 1.0 / k), rel=1e-6)


@pytest.mark.parametrize("k", [1, 3])
def test_small_decisions_do_not_tell_what_large_ones_are_worth(k):
    f, y, weights = decisions(k, slope=1.0, n=12)
    tiny = 1e-6 * np.where(y > 0.0, 1.0, -1.0)
    assert temperature(tiny, y, np.ones(12)) > 1e5
    a = temperature(tiny, y, np.ones(12), margin=1.0)
    assert 1.0 < a < np.log(14.0 * 2 * k)
    # Where decisions are of the size of the margin, and many, it makes no difference.
    f, y, weights = decisions(k, slope=2.0)
    assert temperature(f, y, weights, margin=1.0) == pytest.approx(
        temperature(f, y, weights), rel=0.01
    )
