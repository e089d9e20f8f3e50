"""Dense and CSR designs: the same rows, entry by entry and as matrices."""

import numpy as np
import pytest
from scipy import sparse

from tunefree.rows.designs import CSR, Categorical, Centred, Dense, Split

RNG = np.random.default_rng(0)
X = RNG.normal(size=(9, 5)) * (RNG.random((9, 5)) < 0.5)
X[4] = 0.0
DESIGNS = {
    "dense": Dense(X),
    **{
        np.dtype(i).name: CSR(s.data, s.indices.astype(i), s.indptr.astype(np.int64), X.shape[1])
        for s in [sparse.csr_array(X)]
        for i in (np.int32, np.uint32, np.int64)
    },
    "from scipy": CSR.from_scipy(sparse.csr_matrix(X)),
}


@pytest.mark.parametrize("name", DESIGNS)
def test_entries_are_those_of_the_matrix(name):
    design, rebuilt = DESIGNS[name], np.zeros_like(X)
    assert design.shape == X.shape
    for i in range(len(X)):
        assert design.count(i) <= design.longest()
        for p in range(design.count(i)):
            rebuilt[i, design.index(i, p)] += design.entry(i, p)
    np.testing.assert_array_equal(rebuilt, X)


@pytest.mark.parametrize("name", DESIGNS)
def test_products_are_those_of_the_matrix(name):
    design = DESIGNS[name]
    theta, r = RNG.normal(size=(5, 2)), RNG.normal(size=(9, 2))
    np.testing.assert_allclose(design.apply(theta), X @ theta, atol=1e-14)
    np.testing.assert_allclose(design.adjoint(r), X.T @ r, atol=1e-14)
    # <X theta, r> = <theta, X' r>
    assert np.sum(design.apply(theta) * r) == pytest.approx(np.sum(theta * design.adjoint(r)))
    np.testing.assert_array_equal(design.ranges(), [X.min(axis=0), X.max(axis=0)])
    np.testing.assert_allclose(design.squares(), (X**2).sum(axis=1), rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_products_without_the_lock_have_the_bits_of_scipy(dtype, monkeypatch):
    monkeypatch.setattr("tunefree.rows.designs._MANY", 0)
    A = sparse.csr_array(X.astype(dtype))
    design = CSR.from_scipy(A)
    for shape in ((), (1,), (3,)):
        theta, r = (RNG.normal(size=(n, *shape)).astype(dtype) for n in (5, 9))
        for ours, theirs in ((design.apply(theta), A @ theta), (design.adjoint(r), A.T @ r)):
            np.testing.assert_array_equal(ours, theirs, strict=True)


CODES = np.array([2, 0, -1, 1, 1, 0, 2, -1, 0])
LEVELS = (CODES[:, None] == np.arange(3)) * 1.0
JOINED = {
    "categories": (Categorical(CODES, 3), LEVELS),
    "split": (Split((Dense(X), Categorical(CODES, 3), DESIGNS["from scipy"])),
              np.hstack([X, LEVELS, X])),
    "two categories": (Split((Categorical(CODES, 3), Categorical(CODES[::-1], 3))),
                       np.hstack([LEVELS, LEVELS[::-1]])),
    "csr": (DESIGNS["from scipy"], X),
    "centred": (Centred(Split((Dense(X), Categorical(CODES, 3))), np.arange(8.0)),
                np.hstack([X, LEVELS]) - np.arange(8.0)),
}  # fmt: skip


@pytest.mark.parametrize("name", JOINED)
def test_joined_designs_are_the_matrix_side_by_side(name):
    design, matrix = JOINED[name]
    d, w = matrix.shape[1], RNG.random(9)
    assert design.shape == matrix.shape
    for shape in ((), (2,)):
        theta, r = RNG.normal(size=(d, *shape)), RNG.normal(size=(9, *shape))
        np.testing.assert_allclose(design.apply(theta), matrix @ theta, atol=1e-12)
        np.testing.assert_allclose(design.adjoint(r), matrix.T @ r, atol=1e-12)
    np.testing.assert_allclose(design.gram(w), (matrix.T * w) @ matrix, atol=1e-12)
    some = slice(3, 7)
    np.testing.assert_allclose(design.rows(some).apply(np.eye(d)), matrix[some], atol=1e-12)
