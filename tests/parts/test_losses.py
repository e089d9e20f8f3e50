"""Every loss: convex, not negative, as steep as its slope says and no steeper than its bound."""

import numba
import numpy as np
import pytest
from scipy.special import logsumexp

from tunefree.parts.losses import LOSSES, Multinomial, make_loss, slopes, within

P = np.linspace(-7.3, 7.1, 401)
LABELS = {"classification": [-1.0, 1.0], "regression": [-2.5, 0.0, 1.7], "both": [-1.0, 1.7]}
PAIRS = [(name, y) for name, loss in LOSSES.items() for y in LABELS[loss.task]]


def values(loss, p, y):
    return np.array([loss.value(v, y) for v in p])


def derivative(loss, p, y):
    return np.array([loss.slope(v, y) for v in p])


@pytest.mark.parametrize("name, y", PAIRS)
def test_the_slope_is_the_derivative(name, y):
    """The difference quotient lies between the slopes at the ends, which are close but at kinks."""
    loss, step = LOSSES[name], 1e-5
    difference = (values(loss, P + step, y) - values(loss, P - step, y)) / (2 * step)
    low, high = derivative(loss, P - step, y), derivative(loss, P + step, y)
    for quotient in (difference, derivative(loss, P, y)):
        assert np.all(quotient >= low - 1e-9)
        assert np.all(quotient <= high + 1e-9)
    assert np.mean(high - low > 1e-4) < 0.01


@pytest.mark.parametrize("name, y", PAIRS)
def test_losses_are_convex(name, y):
    """The tangents lie below the loss, from every point to every point."""
    loss = LOSSES[name]
    value, slope = values(loss, P, y), derivative(loss, P, y)
    tangents = value[:, None] + slope[:, None] * (P - P[:, None])
    assert np.all(tangents <= value + 1e-12 * (1 + abs(tangents)))


@pytest.mark.parametrize("name, y", PAIRS)
def test_the_bound_bounds_the_slope_and_is_reached(name, y):
    loss = LOSSES[name]
    far = np.array([-1e300, -1e3, *P, 1e3, 1e300])
    steepest = abs(derivative(loss, far, y)).max()
    assert steepest <= loss.bound()
    if loss.bound() == np.inf:
        assert steepest >= 1e300
        loss, steepest = within(loss, 4.0), abs(derivative(within(loss, 4.0), far, y)).max()
        assert steepest <= loss.bound() < np.inf
    assert steepest >= loss.bound() * (1 - 1e-12)


@pytest.mark.parametrize("name, y", PAIRS)
def test_losses_are_not_negative_and_finite(name, y):
    end = 1e300 if np.isfinite(LOSSES[name].bound()) else 1e150
    value = values(LOSSES[name], np.array([-end, -745.0, *P, 745.0, end]), y)
    assert np.all(value >= 0.0)
    assert np.all(np.isfinite(value))


@pytest.mark.parametrize("name", LOSSES)
def test_the_right_prediction_costs_least(name):
    """Classification: less the larger the margin. Regression: least at the target."""
    loss = LOSSES[name]
    for y in LABELS[loss.task]:
        if loss.task == "classification":
            assert np.all(np.diff(values(loss, P * y, y)) <= 0)
        else:
            assert loss.value(y, y) == 0.0
            np.testing.assert_allclose(values(loss, y + P, y), values(loss, y - P, y))


@numba.njit
def _slopes(loss, predictions, targets, out):
    slopes(loss, predictions, targets, out)


@pytest.mark.parametrize("name", ["smoothed_hinge", "multinomial", "absolute_error"])
@pytest.mark.parametrize("k", [1, 3])
def test_slopes_of_a_row_are_those_of_its_outputs(name, k):
    """Compiled or not; a single output has the slope of the loss itself."""
    loss, rng = LOSSES[name], np.random.default_rng(0)
    for _ in range(20):
        p, python, compiled = 5 * rng.normal(size=k), np.empty(k), np.empty(k)
        y = np.where(np.arange(k) == rng.integers(-1, k), 1.0, -1.0)
        slopes(loss, p, y, python)
        _slopes(loss, p, y, compiled)
        np.testing.assert_allclose(compiled, python, rtol=1e-14)
        if k == 1 or not hasattr(loss, "slopes"):
            each = [loss.slope(*pair) for pair in zip(p, y, strict=True)]
            np.testing.assert_allclose(python, each, rtol=1e-14)


def test_the_softmax_couples_outputs():
    """Its slopes are the gradient of log sum exp p - p_y, and add up to 0."""
    rng, step, out = np.random.default_rng(0), 1e-6, np.empty(4)
    for true in range(4):
        p, y = 3 * rng.normal(size=4), np.where(np.arange(4) == true, 1.0, -1.0)
        Multinomial().slopes(p, y, out)
        ends = [p + sign * step * np.eye(4) for sign in (1, -1)]
        up, down = (logsumexp(e, axis=1) - e[:, true] for e in ends)
        np.testing.assert_allclose(out, (up - down) / (2 * step), atol=1e-8)
        assert out.sum() == pytest.approx(0.0, abs=1e-12)
        assert abs(out).max() <= Multinomial().bound()
    Multinomial().slopes(np.array([1e300, 0.0, -1e300, 1.0]), y, out)
    np.testing.assert_allclose(out, [1.0, 0.0, 0.0, -1.0])


@pytest.mark.parametrize("name", LOSSES)
def test_a_name_is_its_part(name):
    loss = LOSSES[name]
    for task in ("classification", "regression"):
        if loss.task in (task, "both"):
            assert make_loss(name, task) is make_loss(loss, task) is loss
        else:
            with pytest.raises(ValueError, match="is one for"):
                make_loss(name, task)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("limit, residual", [(4.0, None), (4.0, 0.1), (0.5, 1.0)])
def test_within_limits_the_slopes_are_those_of_the_loss_up_to_a_factor(name, limit, residual):
    """Where residuals are small; and no slope grows beyond the limit."""
    loss = LOSSES[name]
    bounded = within(loss, limit, residual)
    if bounded is loss:
        return
    assert bounded.bound() <= limit
    p = np.linspace(-1.0, 1.0, 21) * bounded.bound()
    ratio = derivative(loss, p[p != 0], 0.0) / derivative(bounded, p[p != 0], 0.0)
    np.testing.assert_allclose(ratio, ratio[0])
