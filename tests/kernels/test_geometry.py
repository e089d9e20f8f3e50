"""Learned geometry: slopes are true, left-out predictions are exact, columns are found out."""

import tracemalloc
from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize

from tunefree.kernels.coordinates import coordinates
from tunefree.kernels.evidence import _Evidence, best_view
from tunefree.kernels.exact import exact
from tunefree.kernels.factors import inverse, inverted
from tunefree.kernels.geometry import Geometry
from tunefree.kernels.kernels import RBF, Laplacian
from tunefree.kernels.permutations import permutation_effects

KERNELS = [RBF(), Laplacian()]


def rows(n=120, d=4, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, d)).astype(np.float32)
    y = (np.sin(2 * Z[:, :1]) + 0.1 * rng.normal(size=(n, 1))).astype(np.float32)
    return Z, y - y.mean(), rng.integers(1, 4, n).astype(float)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_slopes_of_the_evidence_are_finite_differences(kernel):
    Z, y, w = rows()
    shared = np.array([0, 1, 1, 2])
    evidence = _Evidence(kernel, Z, np.hstack([y, y**2 - np.mean(y**2)]), w, shared)
    theta = np.array([-1.0, -2.0, -1.5, -2.0, -1.2])
    _, slope = evidence(theta)
    for i, step in enumerate(1e-2 * np.eye(len(theta))):
        between = (evidence(theta + step)[0] - evidence(theta - step)[0]) / 2e-2
        assert slope[i] == pytest.approx(between, rel=1e-2, abs=2e-2)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_evidence_is_that_of_a_gaussian_process_of_free_scale(kernel):
    """-2 log p(y) of N(0, s (K + penalty / w)) at its best s, but for constants and the priors."""
    Z, y, w = rows(40)
    evidence = _Evidence(kernel, Z, y, w, np.arange(4))

    def density(theta):
        g = evidence.geometry(theta)
        A = g.show(Z).astype(float)
        K = g.gram(A, A) + np.diag(g.penalty / w)
        scale = float(y[:, 0] @ np.linalg.solve(K, y[:, 0])) / len(y)
        return 0.5 * (np.linalg.slogdet(scale * K)[1] + len(y))

    one = np.append(np.full(4, -1.5), [-2.0, -2.3])
    two = np.append(np.full(4, -0.5), [-2.0, -2.3])  # the priors are the same
    assert evidence(two)[0] - evidence(one)[0] == pytest.approx(
        density(two) - density(one), rel=1e-3
    )


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_kernel_is_positive_definite(kernel):
    Z = rows(80)[0].astype(float)
    values = Geometry(kernel, np.full(4, 0.3), 5.0, 0.1).gram(Z, Z)
    assert np.linalg.eigvalsh(values).min() > -1e-10 * np.trace(values)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("held", [1, 17, 60])
def test_what_is_said_of_rows_left_out_is_what_the_others_say(kernel, held):
    Z, y, w = rows(60)
    g = Geometry(kernel, np.full(4, 0.5), 0.2, 0.3)
    A, y = g.show(Z.astype(float)), y.astype(float)
    coef, held_out, _, _ = exact(g, A, y, w, held)
    K = g.gram(A, A)
    np.testing.assert_allclose((K + np.diag(0.3 / w)) @ coef, y, atol=1e-8)
    for i in {60 - held, 59}:
        others = np.arange(60) != i
        B = K[np.ix_(others, others)] + np.diag(0.3 / w[others])
        alone = K[i, others] @ np.linalg.solve(B, y[others])
        np.testing.assert_allclose(held_out[i - 60], alone, atol=1e-8)


def test_weights_are_repetitions_of_one_row_together():
    """A row of weight 3 is three rows in the solution."""
    Z, y, w = rows(30)
    g = Geometry(RBF(), np.full(4, 0.5), 0.2, 0.3)
    A, y = g.show(Z.astype(float)), y.astype(float)
    many = np.repeat(np.arange(30), w.astype(int))
    one, _, _, _ = exact(g, A, y, w, 30)
    two, _, _, _ = exact(g, A[many], y[many], np.ones(len(many)), 1)
    new = rows(20, seed=1)[0].astype(float)
    np.testing.assert_allclose(g.gram(new, A) @ one, g.gram(new, A[many]) @ two, atol=1e-7)


def test_an_indefinite_matrix_has_no_inverse_and_the_penalty_grows():
    K = np.array([[1.0, 2.0], [2.0, 1.0]])
    assert inverse(K.copy(), 0.5, np.ones(2), 2) is None
    got, _ = inverse(K.copy(), 2.0, np.ones(2), 2)
    np.testing.assert_allclose(got, np.linalg.inv(K + 2.0 * np.eye(2)))


def test_all_rows_are_solved_in_the_memory_of_their_matrix():
    n, held = 1200, 100
    A = np.random.default_rng(0).normal(size=(n, 2))
    solve = partial(exact, Geometry(RBF(), np.ones(2), 1.0, 1e-3), A, A[:, :1], np.ones(n), held)
    solve()  # compiles
    tracemalloc.start()
    solve()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5 * 8 * n**2


def test_an_inverse_by_halves_is_the_inverse():
    A = np.random.default_rng(0).normal(size=(403, 403))
    A = A @ A.T / 403 + 0.1 * np.eye(403)
    inv, logdet = inverted(A)
    np.testing.assert_allclose(inv @ A, np.eye(403), atol=1e-10)
    assert logdet == pytest.approx(np.linalg.slogdet(A)[1], rel=1e-12)
    A[300, 300] = -1.0
    assert inverted(A) is None


@pytest.mark.parametrize("labels", [False, True])
def test_the_search_finds_what_a_long_one_of_scipy_finds(labels):
    Z, y, w = rows()
    evidence, counted = _Evidence(RBF(), Z, y, w, np.arange(4), labels), []
    start = np.array([-1.0, -1.0, -1.0, -1.0, -2.0, -2.0])
    low, high = evidence.bounds()
    theta, value = evidence.minimize(start, 60)
    least = minimize(
        lambda t: evidence(t)[0], theta, method="Powell", bounds=np.column_stack([low, high])
    ).fun
    assert least > value - 0.5 and (low <= theta).all() and (theta <= high).all()
    one = _Evidence(RBF(), Z, y, w, np.arange(4), labels)
    one.geometry = lambda t: (counted.append(t), evidence.geometry(t))[1]
    one.minimize(start, 3)
    assert len(counted) == 3


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_parity_of_some_columns_is_found(kernel):
    """No column alone tells anything of it, and no smooth function."""
    bits = np.random.default_rng(0).integers(0, 2, (600, 8)).astype(np.float32)
    y = 2.0 * (bits[:, :3].sum(axis=1) % 2) - 1.0
    g = best_view(kernel, [(2 * bits - 1, np.arange(8))], y[:, None] - y.mean(), np.ones(600))[1]
    assert set(np.argsort(-g.rates)[:3]) == {0, 1, 2} and g.rates[:3].min() > 20 * g.rates[3:].max()


def test_for_labels_the_slope_stays_at_its_end():
    Z, y, _ = rows(200)
    found = [
        best_view(RBF(), [(Z, np.arange(4))], y, np.ones(200), labels)[1]
        for labels in (False, True)
    ]
    assert found[1].slope == pytest.approx(1e-3) and found[0].slope > 1e-3


def test_columns_are_numbers_ranks_and_levels():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=90), np.exp(3 * rng.normal(size=90)),
                         rng.integers(0, 4, 90), rng.integers(0, 20, 90), np.ones(90),
                         rng.integers(0, 2, 90)])  # fmt: skip
    v = coordinates(X, np.ones(90))
    count = {j: np.bincount(v.kind[v.source == j], minlength=3).tolist() for j in range(6)}
    assert count[0] == [1, 0, 0] and count[1] == [1, 1, 0]  # heavy tails have ranks
    assert count[2] == [1, 0, 4] and count[3][2] == len(np.unique(X[:, 3]))
    assert count[4] == [0, 0, 0] and count[5] == [1, 0, 0]
    # Few levels have rates of their own, many share one.
    assert len(np.unique(v.rate[(v.source == 2) & (v.kind == 2)])) == 4
    assert len(np.unique(v.rate[(v.source == 3) & (v.kind == 2)])) == 1
    Z = v.show(X)
    np.testing.assert_allclose(Z[:, v.kind < 2].mean(axis=0), 0.0, atol=0.2)
    # New values lie between or beyond those seen.
    far = v.show(np.array([[1e9, 1e9, 7.0, 7.5, 1.0, 0.0]]))[0]
    assert (
        np.isfinite(far).all() and far[0] == 6.0 and not far[(v.source == 2) & (v.kind == 2)].any()
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_units_and_weights_of_rows_change_no_coordinate(dtype):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=60), rng.integers(0, 30, 60)]).astype(dtype)
    w = rng.integers(1, 4, 60)
    one = coordinates(X, w.astype(float))
    two = coordinates(np.repeat(X, w, axis=0), np.ones(w.sum()))
    np.testing.assert_allclose(one.show(X), two.show(X), atol=1e-5)
    scaled = coordinates(X * dtype(1024.0) ** np.arange(2), w.astype(float))
    np.testing.assert_allclose(
        scaled.show(X * dtype(1024.0) ** np.arange(2))[:, 0], one.show(X)[:, 0], atol=1e-5
    )
    assert one.show(X).dtype == dtype


def weighted_rows(kernel, n=60, d=3):
    rng = np.random.default_rng(0)
    geometry = Geometry(kernel, np.array([0.5, 0.2, 0.1]), 0.3, 0.05)
    A = np.ascontiguousarray(geometry.show(rng.normal(size=(n, d))))
    return geometry, A, rng.normal(size=(n, 2)), rng.integers(1, 4, n).astype(float), rng


@pytest.mark.parametrize("kernel", [RBF(), Laplacian()], ids=["rbf", "laplacian"])
@pytest.mark.parametrize("grouped", [False, True])
def test_rows_and_whole_groups_are_left_out_as_if_never_learned(kernel, grouped):
    geometry, A, Y, weights, rng = weighted_rows(kernel)
    held = 40
    groups = rng.integers(0, 7, held) if grouped else np.arange(held)
    told = exact(geometry, A, Y, weights, held, groups if grouped else None)[1]
    for group in np.unique(groups):
        out = np.r_[np.zeros(len(A) - held, bool), groups == group]
        rest = ~out
        coef, _, penalty, _ = exact(geometry, A[rest], Y[rest], weights[rest], 1)
        assert penalty == geometry.penalty
        expected = geometry.gram(A[out], A[rest]) @ coef
        np.testing.assert_allclose(told[groups == group], expected, atol=1e-3)


@pytest.mark.parametrize("kernel", KERNELS)
def test_left_out_rows_move_as_models_without_them_say(kernel):
    """Of a row whose columns come from the next row: what the fit without that row predicts."""
    geometry, A, Y, weights, _ = weighted_rows(kernel)
    few, held = np.array([len(A) - 3, len(A) - 7, len(A) - 1]), 10
    source = np.array([0, 2, 0])  # two coordinates of one column, and a column without any
    columns = [np.array([0]), np.array([1]), np.array([0, 2])]
    coef, held_out, _, inverse_rows = exact(geometry, A, Y, weights, held, inverse_of=few)
    gaps = (Y[-held:] - held_out)[few - len(A) + held]
    found = permutation_effects(geometry, A[few], A, coef, source, columns, (inverse_rows, gaps))
    whole = permutation_effects(geometry, A[few], A, coef, source, columns)
    for m, together in enumerate(columns):
        B, own = A[few].copy(), np.isin(source, together)
        B[:, own] = np.roll(B[:, own], 1, axis=0)
        change = (geometry.gram(B, A) - geometry.gram(A[few], A)) @ coef
        np.testing.assert_allclose(whole[m], change, atol=1e-4)  # single precision
        for i, row in enumerate(few):
            rest = np.arange(len(A)) != row
            alpha = exact(geometry, A[rest], Y[rest], weights[rest], 1)[0]
            change = geometry.gram(B[i : i + 1], A[rest]) - geometry.gram(A[[row]], A[rest])
            np.testing.assert_allclose(found[m, i], (change @ alpha)[0], atol=1e-3)
