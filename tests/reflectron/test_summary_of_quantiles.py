"""`summary` of quantile regression is that of statsmodels, at the exact minimum."""

import numpy as np
import pytest
from scipy import sparse

from tunefree import GLMRegressor
from tunefree.parts.families import Quantile
from tunefree.parts.links import LINKS
from tunefree.uncertainty.inference import inferred
from tunefree.uncertainty.laws import Law
from tunefree.uncertainty.quantiles import least_pinball, plane
from tunefree.uncertainty.samples import CovarianceOptions

sm = pytest.importorskip("statsmodels.api")


def _expenses():
    """Food expenditure by household income, of 235 Belgian families."""
    data = sm.datasets.engel.load_pandas().data
    return data[["income"]], data["foodexp"]


def _cards():
    data = sm.datasets.ccard.load_pandas()
    return data.exog, data.endog


def _peer(X, y, q, vcov):
    model = sm.QuantReg(y, np.column_stack([X, np.ones(len(X))]))
    return model.fit(q=q, vcov=vcov, max_iter=5000, p_tol=1e-10)


@pytest.mark.filterwarnings("ignore")  # of statsmodels
@pytest.mark.parametrize("q", [0.25, 0.5, 0.9])
@pytest.mark.parametrize("made", [_expenses, _cards])
def test_quantiles_are_those_of_statsmodels(made, q):
    X, y = made()
    model = GLMRegressor(family=Quantile(q), random_state=0).fit(X, y)
    A = np.column_stack([X, np.ones(len(X))])
    inverse = np.linalg.inv(A.T @ A)
    for cov_type, vcov in (("HC0", "robust"), ("nonrobust", "iid")):
        table, peer = model.summary(X, y, cov_type=cov_type), _peer(X, y, q, vcov)
        np.testing.assert_allclose(table.coef, peer.params, rtol=1e-6)
        error = peer.bse
        if vcov == "robust" and q != 0.5:
            # Its rows on the plane are above or below by rounding; here they have the larger score.
            above = peer.resid > (1e-4 if q < 0.5 else -1e-4)
            size = np.where(above, q, 1.0 - q) * peer.sparsity
            error = np.sqrt(np.diag(inverse @ (A.T * size**2) @ A @ inverse))
        np.testing.assert_allclose(table.standard_error, error, rtol=1e-6)
        ours = [table.d2, table.df_resid, table.df_model, table.nobs]
        wanted = [peer.prsquared, peer.df_resid, peer.df_model, peer.nobs]
        np.testing.assert_allclose(ours, wanted, rtol=1e-3)
    assert table.aic is None and "Quantile has no density" in table.note


def test_no_coefficients_have_a_lower_pinball_loss():
    """At the minimum as many rows as coefficients lie on the plane, and no step lowers the loss."""
    rng = np.random.default_rng(0)
    A = np.column_stack([rng.normal(size=(60, 2)), np.ones(60)])
    y, weights = rng.standard_t(2, 60), rng.uniform(0.5, 2.0, 60)
    beta = least_pinball(A, y, weights, 0.3)

    def loss(beta):
        return weights @ Quantile(0.3).deviance(y, A @ beta)

    assert (np.abs(y - A @ beta) < 1e-9).sum() == 3
    for step in rng.normal(size=(200, 3)):
        assert loss(beta + 1e-4 * step) > loss(beta)


@pytest.mark.parametrize("n", [20, 60])
def test_intervals_hold_the_median_line_where_variances_differ(n):
    held = []
    for seed in range(n):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1.0, 1.0, (200, 1))
        y = X[:, 0] + rng.standard_t(3, 200)
        model = GLMRegressor(family="quantile", max_iter=5, random_state=0).fit(X, y)
        low, high = model.coef_interval(X, y, alpha=0.1)[1][0]
        held.append(low < 1.0 < high)
    assert abs(np.mean(held) - 0.9) <= 2.5 * np.sqrt(0.9 * 0.1 / n)


@pytest.mark.parametrize("cov_type", ["nonrobust", "HC1", "HC3", "cluster"])
def test_a_row_of_weight_two_is_that_row_twice(cov_type):
    X, y = _expenses()
    model = GLMRegressor(family=Quantile(0.3), random_state=0).fit(X, y)
    weights = 1.0 + np.arange(len(y)) % 2
    again = np.repeat(np.arange(len(y)), weights.astype(int))
    groups = np.arange(len(y)) % 20 if cov_type == "cluster" else None
    one = model.summary(X, y, sample_weight=weights, cov_type=cov_type, groups=groups)
    groups = None if groups is None else groups[again]
    other = model.summary(X.iloc[again], y.iloc[again], cov_type=cov_type, groups=groups)
    np.testing.assert_allclose(one.coef, other.coef, rtol=1e-8)
    np.testing.assert_allclose(one.standard_error, other.standard_error, rtol=1e-8)
    np.testing.assert_allclose(one.deviance, other.deviance, rtol=1e-9)


def test_several_levels_have_a_table_each():
    X, y = _expenses()
    both = GLMRegressor(family=Quantile((0.1, 0.5)), random_state=0).fit(X, y)
    table, (center, ends) = both.summary(X, y), both.coef_interval(X, y)
    assert table.names[:2] == ["quantile 0.1: income", "quantile 0.1: intercept"]
    assert center.shape == (2, 1) and ends.shape == (2, 1, 2)
    one = GLMRegressor(family=Quantile(0.5), random_state=0).fit(X, y).summary(X, y)
    np.testing.assert_array_equal(table.coef[2:], one.coef)
    np.testing.assert_array_equal(table.standard_error[2:], one.standard_error)


def test_rows_of_other_types_an_offset_and_aliased_columns():
    X, y = _expenses()
    model = GLMRegressor(family="quantile", random_state=0).fit(X.to_numpy(), y)
    table = model.summary(X.to_numpy(), y)
    again = model.summary(sparse.csr_array(X.to_numpy()), y)
    np.testing.assert_allclose(again.coef, table.coef, rtol=1e-9)
    narrow = model.summary(X.to_numpy().astype(np.float32), y)
    np.testing.assert_allclose(narrow.coef, table.coef, rtol=1e-4)
    known = 0.2 * X["income"].to_numpy()
    moved = model.fit(X.to_numpy(), y, offset=known).summary(X.to_numpy(), y, offset=known)
    np.testing.assert_allclose(moved.coef[0], table.coef[0] - 0.2, rtol=1e-8)
    np.testing.assert_allclose(moved.standard_error, table.standard_error, rtol=1e-8)
    wide = X.assign(twice=2.0 * X["income"])
    doubled = model.fit(wide, y).summary(wide, y)
    assert list(doubled.aliased) == ["twice"]
    np.testing.assert_allclose(doubled.coef[[0, 2]], table.coef, rtol=1e-8)


def test_what_cannot_be_answered_is_refused():
    X, y = _expenses()
    model = GLMRegressor(family="quantile", random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="Quantile has no likelihood"):
        model.anova(X, y)
    with pytest.raises(ValueError, match="Half of the errors are equal"):
        model.summary(X, np.where(np.arange(len(y)) % 10, 1.0, y))
    with pytest.raises(ValueError, match="2 coefficients are too many for 2 rows"):
        model.summary(X[:2], y[:2])


@pytest.mark.parametrize("cov_type", ["nonrobust", "HC0", "HC1", "HC2", "HC3", "cluster"])
@pytest.mark.parametrize("q", [0.1, 0.25, 0.5])
def test_errors_do_not_depend_on_the_sign_of_y(q, cov_type):
    """The q-quantile of -y is less the (1 - q)-quantile of y, and so are its standard errors."""
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(100, 3)), rng.integers(1, 4, 100)
    y = X[:, 0] + rng.standard_t(3, 100)
    how = {"cov_type": cov_type, "groups": np.arange(100) // 4 if cov_type == "cluster" else None}
    for given in (None, weights):
        low, high = (
            GLMRegressor(Quantile(p), max_iter=3, random_state=0)
            .fit(X, y)
            .summary(X, sign * y, sample_weight=given, **how)
            for p, sign in ((q, -1.0), (1.0 - q, 1.0))
        )
        np.testing.assert_allclose(low.coef, -high.coef, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(low.standard_error, high.standard_error, rtol=1e-8)


@pytest.mark.parametrize("q", [0.1, 0.9])
def test_the_size_of_tests_is_right_in_both_tails(q):
    """A test of 5 % of a column without an effect: at most .1 in the tails, as in statsmodels."""
    rejected = {"HC0": [], "HC3": []}
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(100, 3))
        y = X[:, 0] + rng.normal(size=100)
        law = Law(Quantile(q), LINKS["identity"])
        for cov_type, found in rejected.items():
            how = CovarianceOptions(cov_type)
            fit = inferred(X, y, np.ones(100), law, True, ["a", "b", "c"], how)
            found.append(fit.summary(0.05).p_value[1:3] < 0.05)
    n = 2 * 40
    most = 0.1 + 2.0 * np.sqrt(0.1 * 0.9 / n)
    assert max(map(np.mean, rejected.values())) < most
    assert np.mean(rejected["HC3"]) <= np.mean(rejected["HC0"])


def test_the_parts_of_rows_above_the_plane_balance_the_columns():
    """The scores add up to 0 in every column; of equal targets every one has the same part."""
    rng = np.random.default_rng(0)
    A = np.column_stack([rng.normal(size=(60, 2)), np.ones(60)])
    y, weights = rng.standard_t(2, 60), rng.uniform(0.5, 2.0, 60)
    beta, above = plane(A, y, weights, 0.3)
    np.testing.assert_allclose(A.T @ (weights * ((1.0 - 0.3) - above)), 0.0, atol=1e-9)
    assert np.array_equal(above[y > A @ beta + 1e-9], np.ones((y > A @ beta + 1e-9).sum()))
    ties = plane(np.ones((10, 1)), np.repeat([0.0, 1.0], 5), np.ones(10), 0.7)[1]
    np.testing.assert_allclose(ties, np.repeat([0.0, 0.6], 5))
