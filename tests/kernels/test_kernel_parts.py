"""Every kernel: symmetric, positive semidefinite, its own diagonal, scikit-learn's values."""

import numpy as np
import pytest
from numba.core.errors import TypingError
from scipy import sparse
from sklearn.metrics import pairwise
from sklearn.metrics.pairwise import pairwise_kernels

from tunefree.core.jit import fast_exp2, fast_exp2_32, fast_exp32
from tunefree.kernels.kernels import (
    KERNELS,
    RBF,
    Function,
    Laplacian,
    Pairwise,
    Precomputed,
    _manhattan,
    check_gram,
    decay,
    make_kernel,
    median_gamma,
)

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(30, 4)) + 5.0, RNG.normal(size=(20, 4)) + 5.0
A[3], A[4] = 0.0, A[5]  # a row of zeros and a row twice


def kernels():
    return {
        **{name: make_kernel(name, gamma=0.3, degree=2) for name in KERNELS},
        "chi2": Pairwise("chi2", 0.3),
        "matrix function": Function(lambda X, Y: np.tanh(X) @ np.tanh(Y).T),
        "row function": Function(lambda x, y: float(np.exp(-0.1 * np.linalg.norm(x - y)))),
    }


@pytest.mark.parametrize("name", kernels())
def test_symmetric_positive_and_its_own_diagonal(name):
    k, X = kernels()[name], np.abs(A) if name == "chi2" else A
    K = k.gram(X, X)
    check_gram(K)
    np.testing.assert_allclose(K, K.T, rtol=1e-12)
    np.testing.assert_allclose(k.diag(X), np.diag(K), rtol=1e-12, atol=1e-12)
    assert np.linalg.eigvalsh(K).min() > -1e-9 * np.abs(K).max()


@pytest.mark.parametrize("dtype, tolerance", [(np.float64, 1e-12), (np.float32, 2e-5)])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("name", [k for k in KERNELS if k in pairwise.PAIRWISE_KERNEL_FUNCTIONS])
def test_the_values_of_scikit_learn(name, storage, dtype, tolerance):
    options = {"gamma": 0.3, "degree": 2, "coef0": 1.0}
    expected = pairwise_kernels(A, B, metric=name, filter_params=True, **options)
    X, Y = storage(A.astype(dtype)), storage(B.astype(dtype))
    found = make_kernel(name, gamma=0.3, degree=2).gram(X, Y)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype, tolerance", [(np.float64, 1e-13), (np.float32, 1e-6)])
@pytest.mark.parametrize("name", ["rbf", "laplacian"])
def test_twice_the_bandwidth_is_the_square(name, dtype, tolerance):
    D = KERNELS[name].distances(A.astype(dtype), B.astype(dtype))
    once, twice = decay(D, 0.02), decay(D, 0.04)
    np.testing.assert_allclose(once * once, twice, rtol=tolerance, atol=tolerance)


def test_the_fast_exponential_has_single_precision():
    x = np.linspace(-87.0, 88.0, 20_001).astype(np.float32)
    found = np.array([fast_exp32(v) for v in x])
    np.testing.assert_allclose(found, np.exp(x.astype(np.float64)), rtol=3e-7)


def test_the_fast_powers_of_two_have_their_precision():
    x = np.linspace(-120.0, 0.0, 4001)
    np.testing.assert_allclose([fast_exp2(v) for v in x], np.exp2(x), rtol=3e-14)
    x = x.astype(np.float32)
    found = [fast_exp2_32(v) for v in x]
    np.testing.assert_allclose(found, np.exp2(x.astype(np.float64)), rtol=2e-7)
    assert 0.0 <= fast_exp2(-1e300) < 1e-300
    assert 0.0 <= fast_exp2_32(np.float32(-1e30)) < 1e-37


def test_distances_far_from_the_origin_keep_their_digits():
    X = A.astype(np.float32)
    near, far = RBF(0.3).gram(X, X), RBF(0.3).gram(X + np.float32(4096.0), X + np.float32(4096.0))
    np.testing.assert_allclose(far, near, atol=5e-3)  # the inputs themselves are rounded to 5e-4


def test_precomputed_values_are_looked_up():
    K = A @ A.T
    for storage in (np.asarray, sparse.csr_array):
        np.testing.assert_array_equal(
            Precomputed().gram(storage(K)[:5], np.array([7, 2])), K[:5, [7, 2]]
        )
        np.testing.assert_array_equal(Precomputed().diag(storage(K)), np.diag(K))


@pytest.mark.parametrize("name", ["rbf", "laplacian"])
def test_the_median_heuristic_follows_the_scale(name):
    k, power = KERNELS[name], {"rbf": 2, "laplacian": 1}[name]
    gamma = median_gamma(k, A)
    assert median_gamma(k, 10.0 * A) == pytest.approx(gamma / 10.0**power, rel=1e-9)
    # Half of the pairs of different rows are farther apart than the unit of the bandwidth.
    apart = k.distances(A, A)[~np.eye(len(A), dtype=bool)]
    assert 0.4 < np.mean(apart[apart > 0] * gamma > 1.0) < 0.6
    assert median_gamma(k, np.ones((5, 2))) == 1.0


@pytest.mark.parametrize(
    "K, words",
    [
        (np.array([[1.0, 0.5], [0.4, 1.0]]), "not symmetric"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), "NaN"),
        (np.array([[-1.0, 0.0], [0.0, 1.0]]), "with itself"),
    ],
)
def test_what_is_no_kernel_is_refused(K, words):
    with pytest.raises(ValueError, match=words):
        check_gram(K)


def test_bad_names_and_bandwidths_are_refused():
    with pytest.raises(ValueError, match="gamma=0"):
        make_kernel("rbf", gamma=0)
    with pytest.raises(ValueError, match="kernel='gauss'"):
        make_kernel("gauss")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 4, 11])
def test_a_distance_of_two_rows_has_the_same_bits_among_any_others(dtype, d):
    rng = np.random.default_rng(0)
    A, B = (rng.normal(size=(n, d)).astype(dtype) for n in (9, 37))
    found = Laplacian().distances(A, B)
    gaps = np.abs(A[:, None] - B)
    expected = np.zeros((9, 37), dtype)
    for j in range(0, d - 3, 4):
        first, *others = np.moveaxis(gaps[..., j : j + 4], -1, 0)
        expected = ((others[0] + others[1]) + others[2]) + (expected + first)
    for j in range(d - d % 4, d):
        expected = expected + gaps[..., j]
    np.testing.assert_array_equal(found, expected)
    for rows, others in ((slice(2, 3), slice(None)), (slice(None), slice(5, 8))):
        part = Laplacian().distances(A[rows], B[others])
        np.testing.assert_array_equal(part, found[rows, others])


def test_vectors_are_not_read_from_arrays_with_gaps():
    A, B = np.ones((8, 2)), np.ones((2, 40))
    with pytest.raises(TypingError, match="contiguous"):
        _manhattan(A, B, np.empty((8, 80))[:, ::2], False)
