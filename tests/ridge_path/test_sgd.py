"""The SGD learners: a ten-line reference, averages from scalars, streams in any chunks."""

import numpy as np
import pytest
from scipy import sparse

from tunefree.engine.run import Rows, run
from tunefree.parts.averaging import (
    Geometric,
    Last,
    PolynomialDecay,
    Suffix,
    Tail,
    Uniform,
    within,
)
from tunefree.ridge_path.coordinates import columns, squared_norms
from tunefree.ridge_path.path import SGD, averages
from tunefree.ridge_path.stream import StreamSGD
from tunefree.rows.order import Visits, given_visits, hashed_visits

PASSES = 3


def problem(n_outputs, seed=0, n=40, d=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5) * np.logspace(-2, 2, d)
    return X, rng.normal(size=(n, n_outputs)) + 3.0, rng.integers(1, 4, n).astype(float)


def reference(Z, targets, visits, step):
    """All iterates of SGD, w_0 = 0 first."""
    w = [np.zeros((Z.shape[1], targets.shape[1]))]
    for epoch in range(PASSES):
        for i, u in zip(*visits.order(epoch), strict=True):
            w.append(w[-1] - step * u * np.outer(Z[i], Z[i] @ w[-1] - targets[i]))
    return np.array(w)


def setting(n_outputs, kind, intercept=True):
    X, y, weights = problem(n_outputs)
    X = X if kind == "dense" else sparse.csr_array(X)
    visits = hashed_visits(X, y, weights, 0)
    view = columns(X, y, weights, intercept=intercept)
    Z, centre = view.show(X), view.middle() if sparse.issparse(X) else np.empty(0)
    return Z, centre, y - view.target, visits, 0.5 / squared_norms(Z, centre).max()


def formed(Z, centre):
    """The rows that the learner means."""
    return Z.toarray() - centre if sparse.issparse(Z) else Z


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("intercept", [True, False])
def test_iterates_and_all_averages_equal_the_reference(n_outputs, kind, intercept):
    Z, centre, y, visits, step = setting(n_outputs, kind, intercept)
    learner = SGD(step, PASSES)
    source = Rows(Z, y, visits)
    state = run(learner.on(Z, centre), learner.init(5, n_outputs), source).state
    iterates = reference(formed(Z, centre), y, visits, step)
    schemes = [Geometric(r) for r in (0.0, 1e-9, 1e-3, 0.3)]
    schemes += [Uniform(), Last(), Tail(0.25), PolynomialDecay(), Suffix(17.0)]
    every = averages(state, schemes, Z, centre)
    t = np.arange(len(iterates), dtype=float)
    for k, scheme in enumerate(schemes):
        masses = within(scheme, len(iterates)).mass(t, t + 1.0)
        direct = np.tensordot(masses / masses.sum(), iterates, axes=1)
        np.testing.assert_allclose(every[:, k], direct, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_outputs_that_leave_a_fold_out_learn_the_other_rows_alone(kind):
    Z, centre, y, visits, step = setting(1, kind)
    fold, absent = np.arange(len(y)) % 2, np.array([-1, 0, 1])
    learner = SGD(step, PASSES)
    every = learner.on(Z, centre, fold, absent)
    source = Rows(Z, np.tile(y, 3), visits)
    state = run(every, learner.init(5, 3), source).state
    for k, f in enumerate(absent):
        kept = Visits(*(field[fold[visits.rows] != f] for field in visits))
        iterates = reference(formed(Z, centre), y, kept, step)
        found = averages(state.only(k, k + 1), [Last()], Z, centre)
        np.testing.assert_allclose(found[:, 0], iterates[-1], atol=1e-12)


def stream_reference(X, y, rates):
    """Iterates, and the averages of tail and rates over all of them, row by row."""
    X = np.column_stack([X, np.ones(len(X))])
    w, m, norm = np.zeros((X.shape[1], y.shape[1])), np.zeros(X.shape[1]), 0.0
    w[-1], m[-1] = y[0], 1.0
    iterates = []
    for x, target in zip(X, y, strict=True):
        grown = np.maximum(m, np.abs(x))
        ratio = np.divide(m, grown, out=np.ones_like(m), where=grown > 0)
        w, m = w * (ratio**2)[:, None], grown
        z = np.divide(x, m, out=np.zeros_like(x), where=m > 0)
        norm = max(norm, z @ z)
        iterates.append(w)
        step = np.divide(z, m, out=np.zeros_like(x), where=m > 0) / (2 * norm)
        w = w + np.outer(step, target - x @ w)
    iterates = np.array(iterates)
    t = np.arange(len(X))
    weights = [(1 + r) ** -t.astype(float) for r in rates]
    start = 2 ** int(np.floor(np.log2(len(X) - 1)))
    means = [iterates[start:].mean(axis=0)]
    means += [np.tensordot(u / u.sum(), iterates, axes=1) for u in weights]
    return w, means


def learned(learner, state, X, y, weights=None):
    """The state after a chunk."""
    visits = given_visits(np.ones(len(y)) if weights is None else weights)
    return run(learner, state, Rows(X, y, visits), max_passes=1).state


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_stream_equals_the_reference(n_outputs, kind):
    X, y, _ = problem(n_outputs, n=100)
    learner = StreamSGD()
    state = learner.init(5, y[0])
    data = X if kind == "dense" else sparse.csr_array(X)
    state = learned(learner, state, data, y)
    last, means = stream_reference(X, y, learner.rates)
    np.testing.assert_allclose(state.weights, last, rtol=1e-10, atol=1e-12)
    n_averages = len(learner.rates) + 1
    # The averages hold the iterates that predicted; the last step came after.
    for k in range(n_averages):
        np.testing.assert_allclose(learner.read(state, k), means[k], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("size", [1, 7, 64])
def test_chunks_of_a_stream_make_no_difference(size):
    X, y, weights = problem(2, n=100)
    learner, states = StreamSGD(), []
    for chunk in (100, size):
        state = learner.init(5, y[0])
        for a in range(0, 100, chunk):
            part = slice(a, a + chunk)
            state = learned(learner, state, X[part], y[part], weights[part])
        states.append(state)
    np.testing.assert_equal(*states)  # the guard's own arrays, too


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_stream_counts_from_its_origin(kind):
    X, y, _ = problem(1, n=100)
    far, learner = X + 1e3, StreamSGD()
    data = far if kind == "dense" else sparse.csr_array(far)
    plain = learned(learner, learner.init(5, y[0]), far - far[0], y)
    state = learner.init(5, y[0], origin=far[0])
    state = learned(learner, state, data, y)
    expected = learner.read(plain)
    np.testing.assert_allclose(learner.read(state)[:-1], expected[:-1], rtol=1e-12)
    predicted = far @ learner.read(state)[:-1] + learner.read(state)[-1]
    shown = (far - far[0]) @ expected[:-1] + expected[-1]
    np.testing.assert_allclose(predicted, shown, rtol=0, atol=1e-9)
