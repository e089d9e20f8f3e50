"""Every view: folding back undoes what was shown, and scale drops out of what is seen."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits

from tunefree import KernelRidgeClassifier, KernelRidgeRegressor
from tunefree.kernels.coordinates import Components, Coordinates, components
from tunefree.pistol.views import VIEWS, View, ViewSet
from tunefree.rows.moments import moments
from tunefree.rows.outliers import column_caps

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


def test_components_turn_rows_and_change_no_distance():
    """All of them are an isometry but for one factor, and weights are repetitions."""
    view, counts = components(X, np.ones(80), 6), RNG.integers(1, 4, 80)
    Z, apart = view.show(X), np.linalg.norm(X[:40] - X[40:], axis=1)
    ratio = np.linalg.norm(Z[:40] - Z[40:], axis=1) / apart
    np.testing.assert_allclose(ratio, ratio[0])
    np.testing.assert_allclose(Z.var(axis=0)[0], 1.0)
    assert (np.diff(Z.var(axis=0)) <= 1e-12).all()
    often = components(np.repeat(X, counts, axis=0), np.ones(counts.sum()), 3)
    weighted = components(X, counts.astype(float), 3)
    np.testing.assert_allclose(often.center, weighted.center, atol=1e-12)
    squares = [part.axes @ part.axes.T for part in (often, weighted)]
    np.testing.assert_allclose(*squares, atol=1e-12)


def test_constant_columns_have_no_component():
    assert components(np.ones((5, 3)), np.ones(5), 2).show(np.ones((2, 3))).shape == (2, 0)
    wide, y = np.ones((30, 40)), RNG.normal(size=30)
    model = KernelRidgeRegressor(random_state=0).fit(wide, y)
    np.testing.assert_allclose(model.predict(wide), y.mean(), atol=1e-6)


def test_evidence_says_which_view_a_kernel_wants():
    """Components of pixels, readings of columns of which one counts."""
    pixels, digit = load_digits(return_X_y=True)
    model = KernelRidgeClassifier(random_state=0).fit(pixels[:500], digit[:500])
    assert isinstance(model.view_, Components)
    assert model.score(pixels[500:], digit[500:]) > 0.95
    assert model.feature_relevances_.shape == (64,)
    np.testing.assert_allclose(model.feature_relevances_.sum(), 1.0)
    wide = RNG.normal(size=(900, 40))
    model = KernelRidgeRegressor(random_state=0).fit(wide[:700], np.sin(2.0 * wide[:700, 0]))
    assert isinstance(model.view_, Coordinates)
    assert model.score(wide[700:], np.sin(2.0 * wide[700:, 0])) > 0.9
    assert model.feature_relevances_.argmax() == 0
