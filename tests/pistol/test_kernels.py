"""The compiled learners equal references that store every iterate and average directly."""

import numpy as np
import pytest
from scipy import sparse

import reference
from tunefree.parts.averaging import AVERAGES
from tunefree.parts.losses import Logistic, Multinomial, SmoothedHinge
from tunefree.pistol.linear import Diagonal, Isotropic
from tunefree.pistol.rules import DoWG, PiSTOL
from tunefree.pistol.views import View
from tunefree.rows.designs import Dense

RULES = {
    "paper": PiSTOL(a=4.5, b=2.0, root=False),
    "root": PiSTOL(a=2.0, b=1.0),
    "squares": PiSTOL(a=1.0, b=0.1, squares=True),
    "squares, no root": PiSTOL(a=2.0, b=0.1, squares=True, root=False),
    "capped": PiSTOL(a=0.25, b=0.1, cap=0.5),
}
LEARNERS = {
    **{f"global {k}": (Isotropic(r, SmoothedHinge()), reference.pistol) for k, r in RULES.items()},
    **{
        f"diagonal {k}": (Diagonal(r, Logistic()), reference.pistol_coordinates)
        for k, r in RULES.items()
    },
    "global softmax": (Isotropic(RULES["root"], Multinomial()), reference.pistol),
    "diagonal softmax": (Diagonal(RULES["squares"], Multinomial()), reference.pistol_coordinates),
    "dowg": (Isotropic(DoWG(first=0.1), SmoothedHinge()), reference.dowg),
}
CLOSE = {"rtol": 1e-10, "atol": 1e-10}
BOTH = ["global root", "diagonal squares"]


def rows(n=60, d=6, seed=0):
    """Rows with zeros, a first row of zeros, growing columns, and fractional weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6) * np.linspace(0.2, 2.0, n)[:, None]
    X[0] = 0.0
    X[:, 1] *= 30.0
    Y = np.where(X @ rng.normal(size=(d, 3)) + 0.3 * rng.normal(size=(n, 3)) > 0, 1.0, -1.0)
    return X, Y, rng.choice([1.0, 0.25, 2.0], n)


def as_design(X, kind):
    if kind == "dense":
        return Dense(X)
    return View().show(sparse.csr_array(X), np.arange(len(X)))


def learn(learner, X, Y, weights, kind="dense", chunks=None, state=None):
    """The state after the rows, and what average and iterate predicted before each."""
    state = learner.init(X.shape[1], Y.shape[1]) if state is None else state
    seen = np.empty((2, *Y.shape))
    start = 0
    for size in chunks or [len(X)]:
        part = slice(start, start + size)
        scores = np.empty((2, *Y[part].shape))
        state = learner.scan(state, as_design(X[part], kind), Y[part], weights[part], scores)
        seen[:, part] = scores
        start += size
    return state, seen


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("name", LEARNERS)
def test_equals_the_reference(name, kind, n_outputs):
    learner, naive = LEARNERS[name]
    X, Y, weights = rows()
    Y = Y[:, :n_outputs].copy()
    state, (average, current) = learn(learner, X, Y, weights, kind)
    iterates, mean = naive(X, Y, learner.rule, learner.loss, weights, learner.average)
    np.testing.assert_allclose(learner.last(state), iterates[-1], **CLOSE)
    np.testing.assert_allclose(learner.mean(state), mean, **CLOSE)
    predicted = np.einsum("td,tdk->tk", X, iterates[:-1])
    np.testing.assert_allclose(current, predicted, **CLOSE)
    for t in (1, 20, len(X) - 1):
        _, mean = naive(X[: t + 1], Y, learner.rule, learner.loss, weights, learner.average)
        np.testing.assert_allclose(average[t], X[t] @ mean, **CLOSE)


@pytest.mark.parametrize("scheme", ["uniform", "polynomial", "geometric"])
@pytest.mark.parametrize("name", BOTH)
def test_every_average_is_the_mean_by_its_masses(name, scheme):
    learner, naive = LEARNERS[name]
    learner = learner._replace(average=AVERAGES[scheme])
    X, Y, weights = rows()
    state, _ = learn(learner, X, Y[:, :1].copy(), weights)
    _, mean = naive(X, Y[:, :1], learner.rule, learner.loss, weights, learner.average)
    np.testing.assert_allclose(learner.mean(state), mean, **CLOSE)


@pytest.mark.parametrize("scheme", ["uniform", "polynomial", "geometric"])
@pytest.mark.parametrize("name", BOTH)
def test_a_restart_averages_the_suffix(name, scheme):
    learner, naive = LEARNERS[name]
    learner = learner._replace(average=AVERAGES[scheme])
    X, Y, weights = rows()
    Y, cut = Y[:, :1].copy(), 23
    state, _ = learn(learner, X[:cut], Y[:cut], weights[:cut])
    before = learner.last(state)
    state = learner.restart(state)
    np.testing.assert_array_equal(learner.last(state), before)
    state, _ = learn(learner, X[cut:], Y[cut:], weights[cut:], state=state)
    iterates, _ = naive(X, Y, learner.rule, learner.loss, weights, learner.average)
    # The isotropic learner counts on, the diagonal one counts from the restart.
    first = cut if isinstance(learner, Isotropic) else 0
    mass = [learner.average.mass(first + t, first + t + 1.0) for t in range(len(X) - cut)]
    mean = np.average(iterates[cut:-1], axis=0, weights=mass)
    np.testing.assert_allclose(learner.mean(state), mean, **CLOSE)


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("name", LEARNERS)
def test_chunks_change_nothing(name, kind):
    learner, _ = LEARNERS[name]
    X, Y, weights = rows()
    whole, seen = learn(learner, X, Y, weights, kind)
    parts, seen_in_parts = learn(learner, X, Y, weights, kind, [1, 7, 0, 20, 32])
    for a, b in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(seen, seen_in_parts)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
@pytest.mark.parametrize("name", LEARNERS)
def test_the_scale_of_the_data_changes_no_prediction(name, scale):
    learner, _ = LEARNERS[name]
    X, Y, weights = rows(300)
    _, seen = learn(learner, X, Y, weights)
    _, scaled = learn(learner, scale * X, Y, weights)
    np.testing.assert_array_equal(np.sign(scaled), np.sign(seen))
    np.testing.assert_allclose(scaled, seen, rtol=1e-6, atol=1e-9)


def test_the_scale_of_a_column_changes_no_prediction_per_coordinate():
    X, Y, weights = rows(300)
    for name in ("diagonal squares", "diagonal root"):
        learner, _ = LEARNERS[name]
        _, seen = learn(learner, X, Y, weights)
        _, scaled = learn(learner, X * np.logspace(-6, 6, X.shape[1]), Y, weights)
        np.testing.assert_allclose(scaled, seen, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", BOTH)
def test_negligible_slopes_and_weights_of_zero_teach_nothing(name):
    learner, _ = LEARNERS[name]
    X, Y, weights = rows()
    state, _ = learn(learner._replace(negligible=2.0), X, Y, weights)
    assert not learner.last(state).any()
    state, _ = learn(learner, X, Y, np.zeros(len(X)))
    assert not learner.last(state).any()


@pytest.mark.parametrize("tiny", [1e-300, 5e-324])
@pytest.mark.parametrize("name", LEARNERS)
def test_entries_whose_squares_vanish_are_zeros(name, tiny):
    learner, _ = LEARNERS[name]
    X, Y, weights = rows()
    _, seen = learn(learner, X, Y, weights)
    X[:3] = 0.0
    _, without = learn(learner, X, Y, weights)
    X[:3] = tiny
    _, with_tiny = learn(learner, X, Y, weights)
    assert not np.array_equal(seen, without)
    np.testing.assert_allclose(with_tiny, without, rtol=1e-12, atol=1e-290)


@pytest.mark.parametrize("name", BOTH)
def test_outputs_can_be_rearranged(name):
    """Learning -y gives minus the predictor, so outputs may be copied and turned round."""
    learner, _ = LEARNERS[name]
    X, Y, weights = rows()
    state, _ = learn(learner, X, Y, weights)
    turned = learner.outputs(state, [2, 0, 0], np.array([-1.0, 1.0, -1.0]))
    expected, _ = learn(learner, X, np.stack([-Y[:, 2], Y[:, 0], -Y[:, 0]], 1), weights)
    np.testing.assert_array_equal(learner.mean(turned), learner.mean(expected))
    np.testing.assert_array_equal(learner.last(turned), learner.last(expected))
