"""Left-out rows mend a candidate's certainty by one number, which changes no decision."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import log_loss

from tunefree import TuneFreeClassifier
from tunefree.estimators.scores import Mistakes, raised


def drawn(n, k, seed):
    """True probabilities, and classes drawn from them."""
    rng = np.random.default_rng(seed)
    p = softmax(2.0 * rng.normal(size=(n, k)), axis=1)
    return p, (rng.random(n)[:, None] > np.cumsum(p, axis=1)).sum(axis=1), rng.uniform(0.5, 2.0, n)


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("power", [0.4, 1.0, 3.0])
def test_the_power_undoes_one_that_was_wrong(k, power):
    p, y, weights = drawn(40_000, k, seed=0)
    losses, found = Mistakes(k).proper(np.log(p) / power, y, weights)
    assert found == pytest.approx(power, rel=0.05)
    true = -np.log(p[np.arange(len(y)), y])
    assert np.average(losses, weights=weights) <= np.average(true, weights=weights) + 1e-6


@pytest.mark.parametrize("power", [0.3, 2.5])
def test_log_losses_are_those_of_raised_probabilities_and_no_decision_changes(power):
    p, y, weights = drawn(500, 4, seed=1)
    losses, found = Mistakes(4).proper(np.log(p) / power, y, weights)
    mended = raised(raised(p, 1.0 / power), found)
    np.testing.assert_allclose(mended.sum(axis=1), 1.0)
    np.testing.assert_allclose(losses, -np.log(mended[np.arange(len(y)), y]))
    assert (mended.argmax(axis=1) == p.argmax(axis=1)).all()


def test_probabilities_of_pure_noise_say_nothing():
    rng = np.random.default_rng(0)
    logs = np.log(softmax(5.0 * rng.normal(size=(5000, 3)), axis=1))
    losses, power = Mistakes(3).proper(logs, rng.integers(0, 3, 5000), np.ones(5000))
    assert power < 0.02 and losses.mean() == pytest.approx(np.log(3.0), abs=1e-3)


def test_many_classes_after_few_rows_are_as_likely_as_the_model_says():
    rng = np.random.default_rng(0)
    centers = 1.5 * rng.normal(size=(12, 10))
    y = rng.integers(0, 12, 3200)
    X = centers[y] + rng.normal(size=(3200, 10))
    model = TuneFreeClassifier("linear", random_state=0).fit(X[:200], y[:200])
    X, y = X[200:], y[200:]
    p, bare = model.predict_proba(X), model.model_.predict_proba(X)
    # Progressive predictions, on which the model was calibrated, knew less than it does now.
    assert model.power_ > 1.5 and log_loss(y, p) < log_loss(y, bare) - 0.1
    assert p.max(axis=1).mean() == pytest.approx(model.score(X, y), abs=0.06)
    assert bare.max(axis=1).mean() < model.score(X, y) - 0.15
    np.testing.assert_array_equal(model.predict(X), p.argmax(axis=1))
    decisions = model.decision_function(X)
    np.testing.assert_allclose(softmax(decisions, axis=1), p, rtol=1e-6, atol=1e-12)
