"""Limits of inputs and predictions: a named family keeps those of the inferred one."""

import warnings

import numpy as np
import pytest

from tunefree import GLMRegressor, ReflectronRegressor
from tunefree.parts.families import FAMILIES, OF_CLASSES, Quantile
from tunefree.parts.links import LINKS

NAMES = [*(name for name in FAMILIES if name not in OF_CLASSES), "binomial"]


def _rows(name, seed=0, n=200):
    """Columns, and targets that the family has."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 2))
    mean = np.exp(0.8 * X[:, 0])
    draws = {
        "gaussian": lambda: X[:, 0] + rng.normal(size=n),
        "poisson": lambda: rng.poisson(mean) + 1.0 * (np.arange(n) == 0),
        "gamma": lambda: rng.gamma(1.0, mean),
        "binomial": lambda: 1.0 * (rng.random(n) < mean**4 / (1.0 + mean**4)),
    }
    amounts = "inverse_gaussian", "tweedie"
    kind = name if name in draws else "gamma" if name in amounts else "poisson"
    return X, draws[kind]().astype(float)


@pytest.mark.parametrize("name", ["gaussian", "poisson", "gamma", "binomial"])
def test_to_name_the_inferred_family_changes_no_prediction(name):
    """Its limits included. (Where columns matter: an inferred model is also shrunk to the mean.)"""
    X, y = _rows(name)
    inferred = GLMRegressor(random_state=0).fit(X, y)
    assert inferred.family_ == FAMILIES[name]
    far = np.vstack([X, 3.0 * X, [[30.0, 0.0], [-30.0, 30.0]]])
    for named in (GLMRegressor(name), GLMRegressor(name, link=inferred.family_.link)):
        named.set_params(random_state=0).fit(X, y)
        assert np.array_equal(named.predict(far), inferred.predict(far))
        assert np.array_equal(named.input_limits_, inferred.input_limits_)
        assert np.array_equal(named.prediction_limits_, inferred.prediction_limits_)


@pytest.mark.parametrize("name", NAMES)
def test_no_family_predicts_beyond_its_limits(name):
    X, y = _rows(name)
    model = GLMRegressor(name, max_iter=50, random_state=0).fit(X, y)
    low, high = model.prediction_limits_[:, 0]
    fitted = model.predict(X)
    assert low <= fitted.min() and fitted.max() <= high
    assert high - low <= 3.0 * np.ptp(y) + 1e-9
    for size in (2.0, 9.0, 30.0, 1e6, 1e100):
        far = model.predict(size * X)
        assert (low - 1e-9 <= far).all() and (far <= high + 1e-9).all()
    is_missing = np.array([[1e9, 0.0]])
    middle = np.array([[0.5 * model.input_limits_[:, 0].sum(), 0.0]])
    assert np.array_equal(model.predict(is_missing), model.predict(middle))


def test_limits_are_of_rates_and_hold_in_the_range_of_the_validation_rows():
    X, y = _rows("poisson")
    exposure = np.full(len(y), 8.0)
    rates = GLMRegressor("poisson", random_state=0).fit(X, 8.0 * y, exposure=exposure)
    counts = rates.predict(30.0 * X, exposure=exposure)
    assert counts.max() <= 8.0 * rates.prediction_limits_[1, 0] * (1.0 + 1e-12)
    near = np.abs(X[:, 0]) < 0.2
    model = GLMRegressor("poisson", random_state=0).fit(X, y, X_val=X[near], y_val=y[near])
    formula = model.link_.mean(X @ model.coef_ + model.intercept_)
    np.testing.assert_allclose(model.predict(X), formula, rtol=1e-10)


def test_later_rows_and_offsets_have_no_limits():
    X, y = _rows("poisson")
    model = GLMRegressor("poisson", random_state=0).fit(X, y, offset=X[:, 1])
    assert model.prediction_limits_ is None and model.input_limits_ is None
    model = GLMRegressor("poisson", random_state=0).fit(X, y)
    assert model.prediction_limits_ is not None
    model.partial_fit(10.0 * X, y)
    assert model.prediction_limits_ is None and model.input_limits_ is None


def test_the_table_is_the_formula_of_its_coefficients():
    """Limits are of predictions: `summary` has the same numbers for far rows."""
    X, y = _rows("poisson")
    table = GLMRegressor("poisson", random_state=0).fit(X, y).summary(X, y)
    mean = np.exp(X @ table.coef[:2] + table.coef[2])
    np.testing.assert_allclose(np.column_stack([X, np.ones(len(y))]).T @ (mean - y), 0.0, atol=1e-6)


def _models():
    for link in ("log", "exp", "identity", "softplus"):
        yield f"Reflectron {link}", ReflectronRegressor(link), "none"
        for term in ("offset", "exposure"):
            yield f"{link} {term}", GLMRegressor("gaussian", link=link), term
    for name in ("poisson", "gamma", "negative_binomial"):
        for term in ("offset", "exposure"):
            yield f"{name} {term}", GLMRegressor(name), term


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", list(_models()), ids=lambda case: case[0])
def test_no_infinity_without_a_warning(case, dtype):
    _, model, term = case
    X, y = _rows("gamma" if getattr(model, "family", "") == "gamma" else "poisson")
    X, y = X.astype(dtype), y.astype(dtype)
    model.set_params(max_iter=20, random_state=0)
    given = {} if term == "none" else {term: np.ones(len(y))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y, **given)
    far = np.vstack([X[:3], 1e30 * X[:3]]).astype(dtype)
    for size in (1e2, 1e30, 1e300):
        own = {} if term == "none" else {term: np.full(6, size)}
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            predictions = model.predict(far, **own)
        infinite = not np.isfinite(predictions).all()
        assert infinite == any("not finite" in str(w.message) for w in found)
        assert not any(issubclass(w.category, RuntimeWarning) for w in found)


def test_limits_of_quantiles_are_of_their_own_loss():
    X, y = _rows("gaussian")
    model = GLMRegressor(Quantile((0.1, 0.9)), random_state=0).fit(X, y)
    assert model.prediction_limits_.shape == (2, 2)
    far = model.predict(30.0 * X)
    assert (model.prediction_limits_[0] <= far).all() and (far <= model.prediction_limits_[1]).all()
    assert LINKS["identity"] == model.link_
