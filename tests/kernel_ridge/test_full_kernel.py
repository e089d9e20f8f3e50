"""Kernel ridge regression on all rows by steps: it is the direct solution, for any threads."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tunefree import KernelRidgeRegressor
from tunefree.core.process import ALONE, workers
from tunefree.kernel_ridge.full import Preconditioner, full, neighbours, reliable_preconditioner
from tunefree.kernel_ridge.solvers import KernelOptions, KernelProblem, KernelTransform
from tunefree.kernels.factors import inverse, inverted
from tunefree.kernels.geometry import Geometry
from tunefree.kernels.kernels import RBF, Laplacian
from tunefree.kernels.nystroem import accumulate, make_landmarks, pivots, solve
from tunefree.kernels.tiles import matrix, symmetric, times


def problem(kernel, n=1300, k=2):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(n, 3)).astype(np.float32)
    Y = np.sin(A[:, :k]) + 0.1 * rng.normal(size=(n, k))
    return Geometry(kernel, np.ones(3), 0.3, 0.1), A, Y, rng.integers(1, 4, n).astype(float)


@pytest.mark.parametrize("kernel", [RBF(), Laplacian()])
def test_steps_end_at_the_direct_solution(kernel, monkeypatch):
    """With a free intercept: [K + p / w, 1; 1', 0] [coef; b] = [Y; 0]."""
    monkeypatch.setattr("tunefree.kernel_ridge.full._FALL", -1.0)
    monkeypatch.setattr("tunefree.kernel_ridge.full._DONE", 0.0)
    monkeypatch.setattr("tunefree.kernel_ridge.full._MOST", 24)
    geometry, A, Y, w = problem(kernel)
    options, transform = KernelOptions("rbf", "all", False, 0), KernelTransform(None, geometry)
    rows = KernelProblem(
        A, Y, Y[0], Y[0], (), w, 100, np.arange(100), None, options, ALONE, transform, A
    )
    coef, b, said = full(rows, 300)

    def direct(rows):
        B = A[rows].astype(float)
        n = len(B)
        system = np.ones((n + 1, n + 1))
        system[:n, :n] = geometry.gram(B, B) + np.diag(0.1 / w[rows])
        system[n, n] = 0.0
        found = np.linalg.solve(system, np.vstack([Y[rows], np.zeros((1, Y.shape[1]))]))
        return geometry.gram(A.astype(float), B) @ found[:n] + found[n]

    np.testing.assert_allclose(times(geometry, A, A, coef, ALONE) + b, direct(slice(None)),
                               atol=1e-3)  # fmt: skip
    np.testing.assert_allclose(said, direct(slice(1200))[1200:], atol=1e-3)
    np.testing.assert_allclose(coef.sum(axis=0), 0.0, atol=1e-9)


@pytest.mark.parametrize("kernel", [RBF(), Laplacian()])
@pytest.mark.parametrize("most", [60, 512])
def test_leaders_and_neighbours_stand_for_the_matrix(kernel, most, monkeypatch):
    """Within blocks it is the weighted kernel matrix, between them what landmarks say of it.

    One block is the matrix itself; rows that come later make blocks of their own.
    """
    monkeypatch.setattr("tunefree.kernel_ridge.full.NEAR", most)
    geometry, A, _, w = problem(kernel, 300)
    lead = Preconditioner.of(A[:200], geometry, A[:260], w[:260], 0.5, ALONE).plus(A, w)
    K = geometry.gram(*[A.astype(float)] * 2)
    u = np.sqrt(w)[:, None] * np.sqrt(w)
    m = lead.landmarks.size
    W = K[:m, :m] + 0.1 * 0.5 * m / 260 * np.eye(m)
    near = u * (K[:, :m] @ np.linalg.solve(W, K[:m]))
    sizes = [len(rows) for rows, _ in lead.near]
    assert max(sizes) <= most and sorted(np.concatenate([r for r, _ in lead.near])) == [*range(300)]
    for rows, _ in lead.near:
        near[np.ix_(rows, rows)] = (u * K)[np.ix_(rows, rows)]
    near[np.diag_indices(300)] += 0.5
    R = np.random.default_rng(1).normal(size=(300, 2))
    np.testing.assert_allclose(near @ lead.solve(R), R, atol=2e-3)


@pytest.mark.parametrize("n", [1200, 4000])
def test_landmarks_have_as_many_digits_as_rounding_allows(n, monkeypatch):
    """With few digits the landmarks' solution for a smooth kernel reproduces itself."""
    monkeypatch.setattr("tunefree.kernel_ridge.full._UNRELIABLE", 1e-3)
    _, A, Y, w = problem(RBF(), n, 1)
    A *= 0.3
    rows = A[: n // 4], Geometry(RBF(), np.ones(3), 1.0, 1e-5), A, w, 1e-5, ALONE
    R = np.sqrt(w)[:, None] * (Y - np.average(Y, axis=0, weights=w))
    assert Preconditioner.of(*rows).rounding_error(R) > 1e-3
    assert reliable_preconditioner(R, *rows).rounding_error(R) <= 1e-3


def test_neighbours_are_near():
    A = np.random.default_rng(0).uniform(size=(4000, 2)).astype(np.float32)
    blocks = neighbours(A, np.arange(4000), 70)
    assert max(len(rows) for rows in blocks) <= 70
    assert np.mean([A[rows].std(axis=0) for rows in blocks]) < 0.2 * A.std()


@pytest.mark.parametrize("kernel", [RBF(), Laplacian()])
def test_threads_change_no_bit(kernel):
    geometry, A, Y, w = problem(kernel, 3000)
    marks = make_landmarks(A[:60], geometry)

    def found(team):
        values = solve(marks, lambda a, b: A[a:b], Y, w, team=team)
        return symmetric(geometry, A, Y, team), times(geometry, A, A, Y, team), *values[:-1]

    with workers(3) as team:
        for one, three in zip(found(ALONE), found(team), strict=True):
            np.testing.assert_array_equal(one, three)
    np.testing.assert_allclose(found(ALONE)[0], found(ALONE)[1], rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("levels", [0, 2, 3])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("kernel", [RBF(), Laplacian()])
def test_products_by_tiles_are_those_of_the_matrix(kernel, k, levels):
    rng = np.random.default_rng(0)
    A, V = rng.normal(size=(1300, 3)).astype(np.float32), rng.normal(size=(1300, k))
    A[:, :levels] = rng.random((1300, levels)) > 0.8
    geometry = Geometry(kernel, np.ones(3), 0.1, 0.1)
    K = geometry.gram(A.astype(float), A.astype(float))
    np.testing.assert_allclose(matrix(geometry, A[:300], A, ALONE), K[:300], atol=1e-5)
    np.testing.assert_allclose(symmetric(geometry, A, V, ALONE), K @ V, atol=2e-4)
    found = times(geometry, A[:300], A, V, ALONE, tiles=1)
    np.testing.assert_allclose(found, K[:300] @ V, atol=2e-4)


@pytest.mark.parametrize("kernel", [RBF(), Laplacian()])
def test_products_are_those_of_the_rounded_matrix(kernel):
    """The preconditioner's values and the steps' have the same rounding, that of single precision.

    Distant rows and steep lines would show it if lines lost digits.
    """
    rng = np.random.default_rng(0)
    A, V = (3.0 + rng.normal(size=(500, 4))).astype(np.float32), rng.normal(size=(500, 1))
    geometry = Geometry(kernel, np.ones(4), 5.0, 0.1)
    K = matrix(geometry, A, A, ALONE)
    scale = np.abs(K) @ np.abs(V)
    np.testing.assert_allclose(times(geometry, A, A, V, ALONE) / scale, K @ V / scale, atol=1e-13)
    np.testing.assert_allclose(symmetric(geometry, A, V, ALONE) / scale, K @ V / scale, atol=1e-8)
    exact = geometry.gram(A.astype(float), A.astype(float))
    np.testing.assert_allclose(K, exact, atol=1e-5 if kernel.power == 2 else 2e-4)


def test_sums_of_parts_are_those_of_all():
    geometry, A, Y, w = problem(RBF())
    marks, A = make_landmarks(A[:40], geometry), A.astype(float)

    def over(start, stop):
        rows = slice(start, stop)
        return accumulate(marks, lambda a, b: A[rows][a:b], Y[rows], w[rows], Y[0])

    for whole, parts in zip(over(0, 1300), over(0, 500).plus(over(500, 1300)), strict=True):
        np.testing.assert_allclose(whole, parts, rtol=1e-9, atol=1e-7)


def test_all_rows_beyond_those_solved_exactly(monkeypatch):
    """What landmarks cannot say all rows do; it is chosen where the left-out risk asks for it."""
    at = "tunefree.kernel_ridge.choice"
    monkeypatch.setattr("tunefree.kernel_ridge.solvers.EXACT_ROWS", 1000)
    monkeypatch.setattr(f"{at}._START", 50)
    monkeypatch.setattr(f"{at}.affordable", lambda n: 200)
    monkeypatch.setattr("tunefree.kernel_ridge.full._ASKED", 600)
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (3000, 2))
    y = np.sin(3 * X[:, 0]) * np.sin(3 * X[:, 1])
    auto = KernelRidgeRegressor(random_state=0).fit(X[:2400], y[:2400])
    few = KernelRidgeRegressor(n_landmarks=100, random_state=0).fit(X[:2400], y[:2400])
    assert len(auto.dual_coef_) == 2400
    gap, of_few = (np.mean((m.predict(X[2400:]) - y[2400:]) ** 2) for m in (auto, few))
    assert gap < 0.2 * of_few
    line = X @ [1.0, 2.0] + 0.5 * rng.normal(size=3000)
    assert len(KernelRidgeRegressor(random_state=0).fit(X[:2400], line[:2400]).dual_coef_) <= 100


@pytest.mark.parametrize("single", [True, False])
def test_blocks_and_threads_change_no_factor_or_inverse(single, monkeypatch):
    monkeypatch.setattr("tunefree.kernels.factors._WHOLE", 64)
    geometry, A, Y, w = problem(RBF(), 600)
    A = A.astype(np.float32 if single else np.float64)
    K = geometry.gram(A, A)
    ridge = np.diag(0.3 / w)
    found = []
    for n_jobs in (1, 2):
        with workers(n_jobs) as team:
            found.append(
                (inverse(K.copy(), 0.3, w, 50, team), inverted(K + ridge.astype(K.dtype), team))
            )
    (one, other), (two, same) = found
    for a, b in ((one[0], two[0]), (one[1], two[1]), (other[0], same[0])):
        np.testing.assert_array_equal(a, b)
    whole = np.linalg.inv(K.astype(float) + ridge)
    near = 1e-2 if single else 1e-9
    np.testing.assert_allclose(one[0], whole[-50:, -50:], atol=near)
    np.testing.assert_allclose(other[0], whole, atol=near)
    assert other[1] == pytest.approx(-np.linalg.slogdet(whole)[1], rel=1e-4)


def _clusters():
    """Many rows in a heap and few far from it: the kernel's values of all pairs, too."""
    rng = np.random.default_rng(0)
    A = np.concatenate([0.1 * rng.normal(size=(250, 2)), 3.0 + 2.0 * rng.normal(size=(50, 2))])
    geometry = Geometry(RBF(), np.ones(2), 1e-3, 0.1)
    return geometry, A, geometry.gram(A, A)


def _trace_left(K, chosen):
    C = K[:, chosen]
    return np.trace(K - C @ np.linalg.lstsq(K[np.ix_(chosen, chosen)], C.T, rcond=None)[0])


def test_pivots_are_those_of_the_residual_matrix():
    """One by one, each by the odds of the diagonal that Schur complements of the others leave."""
    geometry, A, K = _clusters()
    rng, expected = np.random.default_rng(3), []
    for _ in range(20):
        diagonal = np.maximum(np.diagonal(K), 0.0)
        diagonal[expected] = 0.0
        i = int(rng.choice(len(A), 1, p=diagonal / diagonal.sum())[0])
        rng.random(1)
        expected.append(i)
        K = K - np.outer(K[:, i], K[i] / K[i, i])
    assert pivots(geometry, A, 20, 3, block=1).tolist() == expected


@pytest.mark.parametrize("block", [1, 16])
def test_pivots_keep_the_bound_of_the_paper(block):
    """E tr(K - K_k) <= 2 tail for k = r + r log(1 / share), with the tail beyond rank r.

    Chen, Epperly, Tropp and Webber 2025, theorem 2.3 with epsilon 1. As many rows at random leave
    several times as much here.
    """
    geometry, A, K = _clusters()
    tail = np.linalg.eigvalsh(K)[::-1][5:].sum()
    k = int(np.ceil(5 * (1.0 + np.log(np.trace(K) / tail))))
    left = [_trace_left(K, pivots(geometry, A, k, seed, block)) for seed in range(20)]
    assert np.mean(left) <= 2.0 * tail
    rng = np.random.default_rng(0)
    even = [_trace_left(K, rng.choice(len(A), k, replace=False)) for _ in range(20)]
    assert np.mean(left) < 0.7 * np.mean(even)


def test_pivots_end_where_the_rank_does():
    geometry, A, _ = _clusters()
    assert len(pivots(geometry, np.repeat(A[:7], 20, axis=0), 50, 0)) == 7


def test_landmarks_are_pivots_where_they_say_more(monkeypatch):
    """Rows in a heap, and targets that rows far from it tell: even landmarks hardly see these."""
    monkeypatch.setattr("tunefree.kernel_ridge.solvers.EXACT_ROWS", 1000)
    monkeypatch.setattr("tunefree.kernel_ridge.choice._TRIED", 60)
    rng = np.random.default_rng(0)
    far = rng.random(4000) < 0.1
    X = np.where(far[:, None], rng.uniform(-4.0, 4.0, (4000, 2)), 0.05 * rng.normal(size=(4000, 2)))
    y = np.sin(3.0 * X[:, 0]) * np.cos(2.0 * X[:, 1])
    model = KernelRidgeRegressor(n_landmarks=60, random_state=0).fit(X[:3000], y[:3000])
    monkeypatch.setattr("tunefree.kernel_ridge.choice.pivots_pay", lambda _: False)
    even = KernelRidgeRegressor(n_landmarks=60, random_state=0).fit(X[:3000], y[:3000])
    risks = [np.mean(np.square(m.predict(X[3000:]) - y[3000:])) for m in (model, even)]
    assert risks[0] < 0.7 * risks[1]


@pytest.mark.parametrize("n_items", [0, 1, 15, 36, 1000])
def test_threads_map_many_items_in_order_in_few_tasks(monkeypatch, n_items):
    tasks, submit = [], ThreadPoolExecutor.submit
    monkeypatch.setattr(
        ThreadPoolExecutor, "submit", lambda *task: tasks.append(task) or submit(*task)
    )
    with workers(2) as team:
        assert team.map(np.square, range(n_items)) == [i * i for i in range(n_items)]
    assert len(tasks) < 16
