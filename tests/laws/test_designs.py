"""Dense and CSR designs: the same rows, entry by entry and as matrices."""

import numpy as np
import pytest
from scipy import sparse

from tunefree.designs import CSR, Dense

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
    np.testing.assert_array_equal(design.largest(), abs(X).max(axis=0))
