"""Left-out rows mend a candidate's certainty by one number, which changes no decision."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import log_loss

from tunefree import TuneFreeClassifier
from tunefree.choose.race import Mistakes, raised


def drawn(n, k, seed):
    """True probabilities, and classes drawn from them."""
    rng = np.random.default_rng(seed)
    p = softmax(2.0 * rng.normal(size=(n, k)), axis=1)
    return p, (rng.random(n)[:, None] > np.cumsum(p, axis=1)).sum(axis=1), rng.uniform(0.5, 2.0, n)


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("power", [0.4, 1.0, 3.0])
def test_the_power_undoes_one_that_was_wrong(k, power):
    p, y, weights = drawn(40_000, k, seed=0)
    wrong = raised(p, 1.0 / power)
    losses, found = Mistakes(k).proper(np.log(wrong), y, weights)
    assert found == pytest.approx(power, rel=0.05)
    np.testing.assert_allclose(losses, -np.log(wrong[np.arange(len(y)), y]))


@pytest.mark.parametrize("power", [0.3, 2.5])
def test_a_power_changes_no_decision_and_powers_multiply(power):
    p, _, _ = drawn(500, 4, seed=1)
    once = raised(p, power)
    np.testing.assert_allclose(once.sum(axis=1), 1.0)
    np.testing.assert_array_equal(once.argmax(axis=1), p.argmax(axis=1))
    np.testing.assert_allclose(raised(once, 1.0 / power), p)


def test_a_power_that_gains_next_to_nothing_is_not_taken():
    taken = [Mistakes(3).proper(np.log(p), y, w)[1] != 1.0
             for p, y, w in (drawn(300, 3, seed) for seed in range(40))]  # fmt: skip
    assert sum(taken) <= 6  # beyond two standard errors of the power: about one in twenty


def test_probabilities_of_pure_noise_say_nothing():
    rng = np.random.default_rng(0)
    logs = np.log(softmax(5.0 * rng.normal(size=(5000, 3)), axis=1))
    _, power = Mistakes(3).proper(logs, rng.integers(0, 3, 5000), np.ones(5000))
    assert power < 0.02


def test_many_classes_after_few_rows_are_as_likely_as_the_model_says():
    rng = np.random.default_rng(0)
    centers = 1.5 * rng.normal(size=(12, 10))
    y = rng.integers(0, 12, 3200)
    X = centers[y] + rng.normal(size=(3200, 10))
    model = TuneFreeClassifier("linear", random_state=0).fit(X[:200], y[:200])
    X, y = X[200:], y[200:]
    p = model.predict_proba(X)
    bare = raised(p, 1.0 / model.power_)
    # Progressive predictions, on which the model was calibrated, knew less than it does now.
    assert model.power_ > 1.5 and log_loss(y, p) < log_loss(y, bare) - 0.1
    assert p.max(axis=1).mean() == pytest.approx(model.score(X, y), abs=0.06)
    assert bare.max(axis=1).mean() < model.score(X, y) - 0.15
    np.testing.assert_array_equal(model.predict(X), p.argmax(axis=1))
    decisions = model.decision_function(X)
    np.testing.assert_allclose(softmax(decisions, axis=1), p, rtol=1e-6, atol=1e-12)
