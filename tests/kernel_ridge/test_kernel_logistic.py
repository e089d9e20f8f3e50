"""Kernel logistic regression: the penalized log loss is least, on landmarks and on all rows."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from tunefree import KernelRidgeClassifier
from tunefree.core.process import ALONE, workers
from tunefree.kernel_ridge.logistic import (
    OnLandmarks,
    OnMatrix,
    OnTiles,
    held_out_masks,
    learn,
    minimize,
)
from tunefree.kernels.geometry import Geometry
from tunefree.kernels.kernels import RBF, Laplacian
from tunefree.kernels.nystroem import make_landmarks

PENALTY = 0.3


def problem(k, n=300, kernel=None):
    """Rows, 0 or 1 for the class of each output, weights, offsets: k is 1 for two classes."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(n, 3))
    codes = (np.sin(2 * A[:, :1]) + A @ rng.normal(size=(3, max(k, 2)))
             + rng.normal(size=(n, max(k, 2)))).argmax(axis=1)  # fmt: skip
    Y = (codes[:, None] == (np.ones(1) if k == 1 else np.arange(k))).astype(float)
    geometry = Geometry(kernel or RBF(), np.ones(3), 0.2, 0.1)
    return geometry, A, Y, rng.integers(1, 4, n).astype(float), np.linspace(0.1, 0.4, k)


def chances(scores):
    if scores.shape[1] == 1:
        return 1.0 / (1.0 + np.exp(-scores))
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def spaces(geometry, A, n_marks, team=ALONE, room=1e9):
    def rows(start, stop):
        return A[start:stop]

    yield OnLandmarks(make_landmarks(A[:n_marks], geometry), rows, len(A), room, team)
    yield OnMatrix(geometry.gram(A, A))
    B = A.astype(np.float32)
    yield OnTiles(B[:n_marks], geometry, B, team)


def solved(space, Y, w, b, enough=1e-13):
    precondition = space.preconditioner(0.25 * w, PENALTY)
    start = np.zeros((space.size, Y.shape[1]))
    return minimize(space, PENALTY, Y, w, b, precondition, start, enough)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("kernel", [RBF(), Laplacian()])
def test_the_gradient_is_zero_where_the_loss_is_least(k, kernel):
    geometry, A, Y, w, b = problem(k, kernel=kernel)
    for space, near in zip(spaces(geometry, A, 60), (1e-5, 1e-5, 1e-3), strict=True):
        c, values, _ = solved(space, Y, w, b)
        np.testing.assert_allclose(values, space.evaluate(c), atol=1e-3)
        first, last = (
            space.combine(w[:, None] * (chances(b + f) - Y)) + PENALTY * at
            for f, at in ((0.0 * values, 0.0 * c), (values, c))
        )
        assert np.abs(last).max() <= near * np.abs(first).max()


def test_all_rows_are_newtons_solution():
    """Dense Newton steps (iterated weighted least squares) on 300 rows."""
    geometry, A, Y, w, b = problem(1)
    K, f = geometry.gram(A, A), np.zeros((300, 1))
    for _ in range(30):
        p = chances(b + f)
        h = w[:, None] * p * (1.0 - p)
        target = f - w[:, None] * (p - Y) / h
        f = K @ np.linalg.solve(K + np.diag(PENALTY / h[:, 0]), target)
    for space in spaces(geometry, A, 300):
        np.testing.assert_allclose(solved(space, Y, w, b)[1], f, atol=2e-4)


@pytest.mark.parametrize("k", [1, 3])
def test_on_landmarks_it_is_logistic_regression_on_their_features(k):
    geometry, A, Y, w, b = problem(k)
    space, *_ = spaces(geometry, A, 40)
    theirs = LogisticRegression(C=1.0 / PENALTY, fit_intercept=False, tol=1e-10, max_iter=5000)
    codes = Y[:, 0] if k == 1 else Y.argmax(axis=1)
    F = make_landmarks(A[:40], geometry).features(A).T
    theirs.fit(F, codes, w)
    ours = chances(solved(space, Y, w, 0.0 * b)[1])
    expected = theirs.predict_proba(F)
    np.testing.assert_allclose(ours, expected[:, 1:] if k == 1 else expected, atol=1e-5)


def test_weights_are_repetitions_and_threads_or_room_change_no_bit():
    geometry, A, Y, w, b = problem(3, n=2600)
    few, times = slice(300), w[:300].astype(int)
    one = solved(next(spaces(geometry, A[few], 40)), Y[few], w[few], b)[0]
    again = next(spaces(geometry, np.repeat(A[few], times, axis=0), 40))
    repeated = np.repeat(A[few], times, axis=0)
    landmarks = make_landmarks(A[:40], geometry)
    again.__init__(landmarks, lambda a, b: repeated[a:b], times.sum(), 0)
    two = solved(again, np.repeat(Y[few], times, axis=0), np.ones(times.sum()), b)[0]
    np.testing.assert_allclose(one, two, atol=1e-5)
    with workers(3) as team:
        for alone, many in zip(
            spaces(geometry, A, 40), spaces(geometry, A, 40, team, room=0), strict=True
        ):
            if not isinstance(alone, OnMatrix):
                for x, y in zip(*(solved(s, Y, w, b, 1e-4) for s in (alone, many)), strict=True):
                    np.testing.assert_array_equal(x, y)


def test_rows_left_out_have_no_influence_on_what_is_said_of_them():
    geometry, A, Y, w, b = problem(3)
    space = OnMatrix(geometry.gram(A, A))
    other = Y.copy()
    other[-50:] = np.roll(Y[-50:], 1, axis=1)
    (_, one, first), (_, two, second) = (
        learn(space, 1.0, Z, w, b, held_out_masks(Z, 50)) for Z in (Y, other)
    )
    if first == second:  # the penalty follows them
        np.testing.assert_allclose(one, two, atol=0.02)
    assert one.shape == (50, 3)
    masks = held_out_masks(Y, 300)
    assert np.sum(masks, axis=0).tolist() == [1] * 300
    groups = np.arange(300) // 7
    for out in held_out_masks(Y, 300, groups):
        assert not set(groups[out]) & set(groups[~out])


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "linear"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_are_near_the_true_ones(kernel, n_classes):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3500, 2))  # of 700 test rows the two differ by .008 either way, by chance
    scores = 3.0 * np.column_stack([X[:, 0], X[:, 1], -X.sum(axis=1)])[:, :n_classes]
    p = chances(scores)
    y = (p.cumsum(axis=1) < rng.random((3500, 1))).sum(axis=1)
    found = {}
    for loss in ("squared_error", "log_loss"):
        model = KernelRidgeClassifier(kernel, loss=loss, random_state=0).fit(X[:500], y[:500])
        found[loss] = log_loss(y[500:], model.predict_proba(X[500:]))
        assert model.predict(X).shape == (3500,)
    assert found["log_loss"] < found["squared_error"]
    assert found["log_loss"] < log_loss(y[500:], p[500:]) + 0.04
    low, high = model.risk_interval_
    assert low < high


def test_many_rows_have_landmarks_or_all(monkeypatch):
    monkeypatch.setattr("tunefree.kernel_ridge.solvers.EXACT_ROWS", 1000)
    monkeypatch.setattr("tunefree.kernel_ridge.full._ASKED", 400)
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (3000, 2))
    y = rng.random(3000) < 1 / (1 + np.exp(-4 * np.sin(2 * X[:, 0]) * X[:, 1]))
    risks = []
    for n_landmarks in (300, "all"):
        model = KernelRidgeClassifier(loss="log_loss", n_landmarks=n_landmarks, random_state=0)
        model.fit(X[:2200], y[:2200])
        assert len(model.dual_coef_) == (300 if n_landmarks == 300 else 2200)
        risks.append(log_loss(y[2200:], model.predict_proba(X[2200:])))
        assert model.leave_one_out_risk_ == pytest.approx(risks[-1], abs=0.08)
    assert abs(risks[0] - risks[1]) < 0.02


def test_what_it_refuses():
    X, y = np.arange(40.0)[:, None], np.arange(40) % 2
    with pytest.raises(ValueError, match="loss='hinge' is neither"):
        KernelRidgeClassifier(loss="hinge").fit(X, y)


def test_sums_over_a_source_do_not_tell_it(monkeypatch):
    monkeypatch.setattr("tunefree.kernel_ridge.solvers.EXACT_ROWS", 100)
    X = np.random.default_rng(0).normal(size=(200, 2))
    with pytest.raises(ValueError, match="loss='log_loss' needs all rows in memory"):
        KernelRidgeClassifier(loss="log_loss", random_state=0).fit_source((X, X[:, 0] > 0))
