"""Every view: folding back undoes what was shown, and scale drops out of what is seen."""

import numpy as np
import pytest
from scipy import sparse

from tunefree.columns import VIEWS, View, ViewSet, moments
from tunefree.robust import column_caps

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 6)) @ RNG.normal(size=(6, 6)) + RNG.normal(size=6)
X[:, 2] = 3.0  # a constant column
X[:, 4] *= RNG.random(80) < 0.3
ROWS = np.arange(80)
WEIGHTS = RNG.choice([0.5, 1.0, 3.0], 80)


def view_of(name, X=X, intercept=True, caps=None):
    centred = intercept and name not in ("raw", "scaled")
    m = moments(X, ROWS, WEIGHTS, centred=centred, products="whitened" in name, caps=caps)
    return ViewSet((name,), intercept).make(m, caps)[name]


def seen(view, X=X, rows=ROWS):
    return view.show(X, rows).apply(np.eye(view.show(X, rows).shape[1]))


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("name", VIEWS)
def test_folding_back_undoes_the_view(name, intercept):
    """show(rows) @ w = rows @ coef + intercept, for any w."""
    view = view_of(name, intercept=intercept)
    w = RNG.normal(size=(X.shape[1] + (view.bias != 0.0), 2))
    coef, b = view.fold(w)
    np.testing.assert_allclose(view.show(X, ROWS).apply(w), X @ coef + b, rtol=1e-9, atol=1e-9)
    assert intercept or not b.any()


@pytest.mark.parametrize("name", VIEWS)
def test_clipping_comes_first(name):
    caps = column_caps(X, ROWS, reach=0.5)
    view, clipped = view_of(name, caps=caps), np.clip(X, *caps)
    assert np.any(clipped != X)
    w = RNG.normal(size=(X.shape[1] + 1, 1))
    coef, b = view.fold(w)
    np.testing.assert_allclose(view.show(X, ROWS).apply(w), clipped @ coef + b, atol=1e-9)


@pytest.mark.parametrize("name", VIEWS)
def test_dense_and_sparse_rows_look_the_same(name):
    view = view_of(name)
    dense, csr = seen(view), seen(view, sparse.csr_array(X))
    np.testing.assert_array_equal(dense, csr)
    np.testing.assert_array_equal(seen(view, rows=ROWS[[7, 3, 7]]), dense[[7, 3, 7]])


@pytest.mark.parametrize("name", ["raw", "scaled"])
def test_views_of_sparse_data_stay_sparse(name):
    csr = sparse.csr_array(X)
    design = view_of(name, csr).show(csr, ROWS)
    assert len(design.data) == csr.nnz + len(X)


@pytest.mark.parametrize("name", [n for n in VIEWS if n != "raw"])
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_units_of_columns_drop_out(name, scale):
    units = scale ** np.array([1.0, 0.3, -1.0, 0.7, 1.0, -0.2])
    rescaled = seen(view_of(name, X * units), X * units)
    np.testing.assert_allclose(rescaled, seen(view_of(name)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_raw_view_scales_as_a_whole(scale):
    """Its constant has the size of the entries."""
    rescaled = seen(view_of("raw", X * scale), X * scale)
    np.testing.assert_allclose(rescaled, scale * seen(view_of("raw")), rtol=1e-12)


@pytest.mark.parametrize("name", ["standardised", "whitened", "strongly_whitened"])
def test_centred_views_have_mean_zero_and_no_constant_columns(name):
    z = seen(view_of(name))
    np.testing.assert_allclose(WEIGHTS @ z[:, :-1] / WEIGHTS.sum(), 0.0, atol=1e-9)
    np.testing.assert_array_equal(z[:, -1], 1.0)
    varying = np.delete(z[:, :-1], 2, axis=1)
    assert np.all(varying.std(axis=0) > 0.1)
    np.testing.assert_allclose(z[:, 2], 0.0, atol=1e-6)


def test_whitening_decorrelates_the_more_the_smaller_the_ridge():
    def correlation(name):
        z = np.delete(seen(view_of(name))[:, :-1], 2, axis=1)
        c = np.cov(z, rowvar=False, aweights=WEIGHTS)
        c /= np.sqrt(np.outer(np.diag(c), np.diag(c)))
        return abs(c - np.eye(len(c))).max()

    standardised, whitened, strongly = map(
        correlation, ("standardised", "whitened", "strongly_whitened")
    )
    assert strongly < 0.5 * whitened < 0.5 * standardised


def test_the_empty_view_shows_the_rows():
    np.testing.assert_array_equal(seen(View()), X)
