"""Merged private columns: the same products of rows, the same weights for the user."""

import numpy as np
import pytest
from scipy import sparse

from tunefree.ridge_path.coordinates import columns, shown, squared_norms


def rows(seed):
    """Rows of which most columns are held by one row, some by none and some by all."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((12, 60)) < 0.06, rng.normal(size=(12, 60)), 0.0)
    X[:, :3] = rng.normal(size=(12, 3)) + 2.0
    X[:, 3] = 5.0
    X[4] = 0.0
    X[7, 10:] = 0.0
    return X, rng.normal(size=(12, 2)), rng.integers(1, 4, 12).astype(float)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("scaling", [True, False])
@pytest.mark.parametrize("intercept", [True, False])
def test_products_of_rows_and_weights_of_columns_stay(seed, scaling, intercept):
    X, targets, weights = rows(seed)
    view = columns(sparse.csr_array(X), targets, weights, intercept=intercept)
    view = view if scaling else view.unscaled()
    factor = view.factor
    full = (X - view.mean) * factor
    Z, centre, view = shown(sparse.csr_array(X), view)
    assert Z.shape[1] == view.width < (X != 0.0).any(axis=0).sum()
    formed = Z.toarray() - centre
    np.testing.assert_allclose(formed @ formed.T, full @ full.T, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(squared_norms(Z, centre), (full**2).sum(axis=1), atol=1e-12)
    # A combination of the rows is the same weights on the user's columns ...
    a, mix = np.random.default_rng(seed).normal(size=(12, 3, 2)), np.array([[1.0], [2.0], [-1.0]])
    found = view.back(np.tensordot(formed.T, a, axes=1), mix)
    expected = np.tensordot(full.T, a, axes=1) * factor[:, None, None]
    expected = np.einsum("jro,rk->ojk", expected, mix)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    # ... and predicts the same on other rows.
    other = np.random.default_rng(seed + 1).normal(size=(5, 60))
    shown_other = view.show(sparse.csr_array(other)).toarray() - centre
    predicted = shown_other @ np.tensordot(formed.T, a, axes=1)[:, :, 0] @ mix
    direct = (other - view.mean) @ expected[0]
    np.testing.assert_allclose(predicted, direct, rtol=1e-10, atol=1e-10)


def test_columns_are_scaled_by_their_largest_deviation():
    X, targets, weights = rows(0)
    X[:, 3] = 5.0
    for data in (X, sparse.csr_array(X)):
        view = columns(data, targets, weights)
        mean = np.average(X, axis=0, weights=weights)
        np.testing.assert_allclose(view.mean, mean, rtol=1e-12)
        largest = np.abs(X - mean).max(axis=0)
        assert view.factor[3] == 0.0  # constant: left out
        kept = view.factor > 0.0
        np.testing.assert_allclose(view.factor[kept], 1.0 / largest[kept], rtol=1e-12)
        assert kept.sum() == (np.ptp(X, axis=0) > 0.0).sum()
        formed = view.show(data)
        formed = formed.toarray() - view.middle() if sparse.issparse(data) else formed
        assert np.abs(np.delete(formed, 3, axis=1)).max() <= 1.0 + 1e-12
