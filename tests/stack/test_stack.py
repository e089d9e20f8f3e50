"""Stacking: the sum is no worse than its parts, useless models stay out."""

import numpy as np
import pytest
from scipy.special import expit

from tunefree.held_out.stacking import Classes, Targets, log_losses


def stack_classes(parts, y, w):
    return Classes(max(parts[0].shape[1], 2)).whole_stack(parts, y, w)


def stack_targets(parts, y, w, spread):
    return Targets(spread).stack(parts, y, w)


@pytest.mark.parametrize("k", [2, 3])
def test_a_stack_loses_no_more_than_its_best_part_alone(k):
    rng = np.random.default_rng(k)
    y, w = rng.integers(0, k, 500), rng.uniform(0.5, 2.0, 500)
    signal = (y == 1)[:, None] * 2.0 - 1.0 if k == 2 else np.eye(k)[y]
    parts = [signal + rng.normal(size=signal.shape) for _ in range(3)]
    whole = stack_classes(parts, y, w)
    alone = [stack_classes([F], y, w).losses for F in parts]
    assert w @ whole.losses < min(w @ losses for losses in alone)
    assert whole.shares.sum() == pytest.approx(1.0) and (whole.weights > 0.0).all()
    np.testing.assert_allclose(whole.losses, log_losses(whole.join(parts), y))


def test_its_log_odds_are_calibrated():
    rng = np.random.default_rng(0)
    f = rng.normal(size=(20_000, 1))
    y = (rng.random(20_000) < expit(2.5 * f[:, 0] - 1.0)).astype(int)
    found = stack_classes([f], y, np.ones(len(y)))
    assert found.weights[0] == pytest.approx(2.5, rel=0.05)
    assert found.offsets[0] == pytest.approx(-1.0, abs=0.05)


def test_separable_classes_stay_finite():
    y = np.arange(100) % 2
    found = stack_classes([2.0 * y[:, None] - 1.0], y, np.ones(100))
    assert 1.0 < found.weights[0] < 20.0


def test_noise_and_copies_stay_out():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(400, 1))
    good = y + 0.3 * rng.normal(size=y.shape)
    found = stack_targets([rng.normal(size=y.shape), good, good], y, np.ones(400), np.ones(1))
    assert found.shares[0] < 0.05 and np.count_nonzero(found.shares[1:]) == 1
    codes = (y[:, 0] > 0).astype(int)
    found = stack_classes([good, rng.normal(size=y.shape)], codes, np.ones(400))
    assert found.shares.tolist() == [1.0, 0.0]


def test_a_tie_makes_one():
    """Of two candidates that gain less than a thousandth together the first is taken."""
    rng = np.random.default_rng(0)
    n = 100_000
    truth = rng.normal(size=(n, 1))
    y = (rng.random(n) < expit(2.0 * truth[:, 0])).astype(int)
    near = [truth + 0.03 * rng.normal(size=(n, 1)) for _ in range(2)]
    real = truth + rng.normal(size=(n, 1))
    assert stack_classes(near, y, np.ones(n)).shares.tolist() == [1.0, 0.0]
    found = stack_targets(near, real, np.ones(n), np.ones(1))
    assert found.shares.tolist() == [1.0, 0.0]


def test_weights_do_not_depend_on_the_targets_origin_and_unit():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(300, 2))
    parts = [y + 0.5 * rng.normal(size=y.shape) for _ in range(2)]
    one = stack_targets(parts, y, np.ones(300), np.ones(2))
    shifted = [1e3 * F + 1e6 for F in parts]
    two = stack_targets(shifted, 1e3 * y + 1e6, np.ones(300), np.full(2, 1e6))
    np.testing.assert_allclose(two.weights, one.weights, rtol=1e-6)
    np.testing.assert_allclose(two.join(shifted), 1e3 * one.join(parts) + 1e6, rtol=1e-6)


def test_weights_are_repetitions():
    rng = np.random.default_rng(0)
    y, w = rng.integers(0, 2, 80), rng.integers(1, 4, 80)
    parts = [(y * 2.0 - 1.0)[:, None] + rng.normal(size=(80, 1)) for _ in range(2)]
    one = stack_classes(parts, y, w.astype(float))
    two = stack_classes([np.repeat(F, w, axis=0) for F in parts], np.repeat(y, w), np.ones(w.sum()))
    np.testing.assert_allclose(one.weights, two.weights, rtol=1e-3)


def test_pure_noise_says_nothing():
    rng = np.random.default_rng(0)
    scores = 5.0 * rng.normal(size=(5000, 3))
    found = stack_classes([scores], rng.integers(0, 3, 5000), np.ones(5000))
    assert found.weights[0] < 0.02


@pytest.mark.parametrize("skew", [2.0, 0.0])
def test_sums_are_kept_where_rows_left_out_say_that_they_were_not(skew):
    rng = np.random.default_rng(0)
    signal = rng.normal(size=(1000, 1))
    y = signal + skew * (rng.lognormal(0, 1, (1000, 1)) - 1.0) + 0.1 * rng.normal(size=(1000, 1))
    w = rng.integers(1, 4, 1000).astype(float)
    found = stack_targets([0.9 * signal], y, w, np.ones(1))
    left = y - found.join([0.9 * signal])
    mean = w @ left / w.sum()
    error = np.sqrt(np.square(w[:, None] * (left - mean)).sum()) / w.sum()
    assert abs(mean) < 1e-12 or abs(mean) <= error
    np.testing.assert_allclose(found.losses, np.square(left[:, 0]))
