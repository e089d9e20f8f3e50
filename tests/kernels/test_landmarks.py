"""Landmarks: projections in the feature space, against direct least squares there."""

import numpy as np
import pytest

from tunefree.kernels.compression import choose
from tunefree.kernels.kernels import RBF, Laplacian, Polynomial

KERNELS = [RBF(0.3), Laplacian(0.2), Polynomial(0.5, 2, 1.0)]


@pytest.fixture(params=KERNELS, ids=lambda k: type(k).__name__)
def problem(request):
    rng = np.random.default_rng(0)
    X, coef = rng.normal(size=(60, 4)), rng.normal(size=(60, 2))
    return request.param.gram(X, X), coef


def squared(K, c):
    """The squared norm of the functions in the feature space."""
    return float(np.einsum("ij,ij->", c, K @ c))


@pytest.mark.parametrize("count", [1, 5, 14])
def test_coefficients_are_those_of_least_squares(problem, count):
    """The minimiser of the norm of f - projection solves K_LL a = K_LS c."""
    K, c = problem
    found = choose([K], [K @ c], 14)
    L = found.indices[:count]
    (a,) = found.coefs(count)
    direct = np.linalg.lstsq(K[np.ix_(L, L)], K[L] @ c, rcond=None)[0]
    np.testing.assert_allclose(K[:, L] @ a, K[:, L] @ direct, rtol=1e-6, atol=1e-6)
    (again,) = choose([K], [K @ c], count).project([K[L] @ c])
    np.testing.assert_allclose(again, a, rtol=1e-9, atol=1e-9 * np.abs(a).max())


def test_the_error_falls_by_the_squared_weights_and_each_is_the_largest_gain(problem):
    K, c = problem
    found = choose([K], [K @ c], 12)
    left = squared(K, c)
    for step, x in enumerate(found.indices):
        errors = []
        for candidate in range(len(K)):
            L = [*found.indices[:step], candidate]
            a = np.linalg.lstsq(K[np.ix_(L, L)], K[L] @ c, rcond=None)[0]
            errors.append(squared(K, c) - np.einsum("ij,ij->", a, K[L] @ c))
        left -= float((found.weights[0][step] ** 2).sum())
        assert errors[x] == pytest.approx(left, abs=1e-7 * squared(K, c))
        assert errors[x] <= min(errors) + 1e-7 * squared(K, c)


def test_all_rows_as_landmarks_lose_nothing(problem):
    K, c = problem
    found = choose([K], [K @ c], len(K))
    (a,) = found.coefs(len(found.indices))
    np.testing.assert_allclose(K[:, found.indices] @ a, K @ c, rtol=1e-6, atol=1e-6)


def test_the_basis_is_orthonormal(problem):
    K, c = problem
    found = choose([K], [K @ c], 10)
    (V,) = found.basis([K[found.indices]])
    np.testing.assert_allclose(V @ np.linalg.solve(K + 1e-12 * np.eye(60), V.T), np.eye(10),
                               atol=1e-5)  # fmt: skip
    (a,) = found.coefs(7)
    np.testing.assert_allclose(V[:7].T @ found.weights[0][:7], K[:, found.indices[:7]] @ a,
                               atol=1e-8)  # fmt: skip


def test_kernels_share_landmarks():
    rng = np.random.default_rng(1)
    X, c = rng.normal(size=(40, 3)), rng.normal(size=(2, 40, 1))
    grams = [RBF(0.2).gram(X, X), RBF(1.6).gram(X, X)]
    found = choose(grams, [K @ a for K, a in zip(grams, c, strict=True)], 15)
    for K, a, projected in zip(grams, c, found.coefs(15), strict=True):
        L = found.indices
        np.testing.assert_allclose(K[np.ix_(L, L)] @ projected, K[L] @ a, atol=1e-6)


def test_repeated_rows_are_one_landmark():
    """A function of few distinct rows is written exactly by as many landmarks."""
    X = np.repeat(np.arange(5.0)[:, None], 6, axis=0)
    K = RBF(1.0).gram(X, X)
    f = K @ np.random.default_rng(0).normal(size=(30, 2))
    found = choose([K], [f], 30)
    assert len(set(X[found.indices[:5], 0])) == 5
    (a,) = found.coefs(5)
    np.testing.assert_allclose(K[:, found.indices[:5]] @ a, f, atol=1e-6)


def test_nothing_to_describe_needs_no_landmark():
    assert len(choose([np.eye(3)], [np.zeros((3, 1))], 3).indices) == 0
