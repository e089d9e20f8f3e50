"""Blocked scoring: the values of an expansion are the sums they stand for."""

import numpy as np
import pytest
from scipy import sparse

from tunefree.kernels import expansion
from tunefree.kernels.expansion import Expansion
from tunefree.kernels.kernels import RBF, Cosine, Laplacian, Linear, Polynomial, Precomputed
from tunefree.pistol import kernel_blocked as blocked

KERNELS = [RBF(0.3), Laplacian(0.2), Polynomial(0.1, 3, 1.0), Linear(), Cosine()]


def rows(n, d, seed, share=1.0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) * (rng.random((n, d)) < share)


def direct(kernels, X, support, coefs):
    return sum(k.gram(X, support) @ c for k, c in zip(kernels, coefs, strict=True))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Several blocks of rows and of support, the last ones not full."""
    monkeypatch.setattr(expansion, "ROWS", 16)
    monkeypatch.setattr(blocked, "TILE", 32)


@pytest.mark.parametrize("share", [1.0, 0.3, 0.02], ids=["full", "some", "few"])
@pytest.mark.parametrize("k", KERNELS, ids=lambda k: type(k).__name__)
def test_values_are_sums_over_the_support(k, share):
    X, S, c = rows(45, 9, 0, share), rows(70, 9, 1, share), rows(70, 3, 2)
    expected = direct((k,), X, S, (c,))
    forms = [np.asarray, sparse.csr_array]
    for of_rows in forms:
        for of_support in forms:
            values = Expansion((k,), of_support(S), (c,))(of_rows(X))
            assert values.dtype == np.float64
            np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("family", [RBF, Laplacian])
def test_bandwidths_share_the_support(family):
    X, S = rows(45, 5, 0), rows(70, 5, 1)
    kernels, coefs = (
        (family(0.1), family(0.2), family(1.7)),
        tuple(rows(70, 2, s) for s in (2, 3, 4)),
    )
    values = Expansion(kernels, S, coefs)(X)
    np.testing.assert_allclose(values, direct(kernels, X, S, coefs), rtol=1e-12)


def test_precomputed_values_are_taken_as_they_are():
    X, S, c = rows(45, 5, 0), rows(70, 5, 1), rows(4, 2, 2)
    K, kept = RBF().gram(X, S), np.array([3, 10, 44, 69])
    for form in (np.asarray, sparse.csr_array):
        values = Expansion((Precomputed(),), kept, (c,))(form(K))
        np.testing.assert_allclose(values, K[:, kept] @ c, rtol=1e-13)


@pytest.mark.parametrize("k", [RBF(0.3), Linear()], ids=lambda k: type(k).__name__)
def test_single_precision_is_exact_to_a_millionth(k):
    X, S, c = rows(45, 9, 0), rows(70, 9, 1), rows(70, 3, 2)
    expected, size = direct((k,), X, S, (c,)), np.abs(c).sum()
    values = Expansion((k,), S.astype(np.float32), (c.astype(np.float32),))(X)
    assert np.abs(values - expected).max() <= 1e-6 * size


@pytest.mark.parametrize("dtype, tolerance", [(np.float64, 1e-9), (np.float32, 1e-4)])
def test_rows_far_from_the_origin_lose_little(dtype, tolerance):
    X, S, c = rows(45, 3, 0), rows(70, 3, 1), rows(70, 1, 2)
    values = Expansion((RBF(0.5),), (S + 100.0).astype(dtype), (c,))((X + 100.0).astype(dtype))
    np.testing.assert_allclose(values, direct((RBF(0.5),), X, S, (c,)), atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_threads_change_no_bit(dtype):
    X, S, c = rows(90, 9, 0).astype(dtype), rows(70, 9, 1).astype(dtype), rows(70, 3, 2)
    f = Expansion((RBF(0.1), RBF(0.2)), S, (c, c))
    one = f(X, n_jobs=1)
    for n_jobs in (None, 2, 8, -1):
        np.testing.assert_array_equal(f(X, n_jobs=n_jobs), one)


def test_no_rows_have_no_values_and_no_support_gives_zeros():
    S, c = rows(5, 3, 0), rows(5, 2, 1)
    assert Expansion((RBF(),), S, (c,))(S[:0]).shape == (0, 2)
    np.testing.assert_array_equal(Expansion((RBF(),), S[:0], (c[:0],))(S), np.zeros((5, 2)))
