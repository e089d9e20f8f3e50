"""`summary` of several and of ordered classes is that of statsmodels."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats

from tunefree import GLMClassifier, load_model, save_model
from tunefree.parts.families import Binomial, MultinomialLogit, Ordinal
from tunefree.parts.links import LINKS
from tunefree.uncertainty import classes
from tunefree.uncertainty.inference import inferred
from tunefree.uncertainty.laws import Law
from tunefree.uncertainty.samples import CovarianceOptions

sm = pytest.importorskip("statsmodels.api")
from statsmodels.miscmodels.ordinal_model import OrderedModel  # noqa: E402

FAMILY_NAMES = ("multinomial", "ordinal")


def _voters():
    """Party identification, 0 to 6, of 944 voters."""
    data = sm.datasets.anes96.load_pandas()
    return data.exog, data.endog.astype(int)


def _statistics(table):
    return [table.llf, table.aic, table.bic, table.d2, table.df_model, table.df_resid, table.nobs]


def _statistics_of(peer):
    parts = [peer.llf, peer.aic, peer.bic, peer.prsquared, peer.df_model, peer.df_resid]
    return [*parts, peer.nobs]


@pytest.mark.parametrize("cov_type", ["nonrobust", "HC0"])
def test_several_classes_are_those_of_mnlogit(cov_type):
    X, y = _voters()
    table = GLMClassifier(random_state=0).fit(X, y).summary(X, y, cov_type=cov_type, use_t=False)
    model = sm.MNLogit(y, np.column_stack([X, np.ones(len(X))]))
    peer = model.fit(method="newton", disp=0, tol=1e-14, cov_type=cov_type)
    for ours, theirs in (
        (table.coef, peer.params),
        (table.standard_error, peer.bse),
        (table.p_value, peer.pvalues),
    ):
        np.testing.assert_allclose(ours, np.asarray(theirs).T.ravel(), rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(_statistics(table), _statistics_of(peer), rtol=1e-6)
    assert table.names[:2] == ["1: logpopul", "1: selfLR"] and table.names[-1] == "6: intercept"
    assert "log-odds of a class against the class 0." in table.note


def test_rows_are_differences_of_indices_to_the_first_class():
    """exp of a row's index is the ratio of the probabilities: so are differences of `coef_`."""
    X, y = _voters()
    model = GLMClassifier(random_state=0).fit(X, y)
    p = model.predict_proba(X)
    B = np.column_stack([model.coef_ - model.coef_[0], model.intercept_ - model.intercept_[0]])
    s = np.column_stack([X, np.ones(len(X))]) @ B[1:].T
    np.testing.assert_allclose(np.log(p[:, 1:] / p[:, :1]), s, atol=1e-8)
    coef = model.summary(X, y).coef.reshape(6, 6)
    assert np.corrcoef(coef[:, :5].ravel(), B[1:, :5].ravel())[0, 1] > 0.9


@pytest.mark.filterwarnings("ignore")  # of statsmodels
def test_ordered_classes_are_those_of_ordered_model():
    X, y = _voters()
    model = GLMClassifier(family="ordinal", random_state=0).fit(X, y)
    table = model.summary(X, y, cov_type="nonrobust", use_t=False)
    ordered = OrderedModel(pd.Series(pd.Categorical(y, ordered=True)), X, distr="logit")
    peer = ordered.fit(method="bfgs", disp=0, maxiter=1000, gtol=1e-8)
    params, V, d = peer.params.to_numpy(), peer.cov_params().to_numpy(), X.shape[1]
    thresholds = ordered.transform_threshold_params(params)[1:-1]
    np.testing.assert_allclose(table.coef, [*params[:d], *thresholds], rtol=1e-6)
    # Theirs are the first threshold and the logarithms of the steps after it: the delta method.
    J = np.eye(len(params))
    steps = np.append(1.0, np.exp(params[d + 1 :]))
    J[d:, d:] = np.tril(np.ones((6, 6))) * steps
    np.testing.assert_allclose(table.standard_error, np.sqrt(np.diag(J @ V @ J.T)), rtol=1e-5)
    np.testing.assert_allclose(_statistics(table), _statistics_of(peer), rtol=1e-6)
    assert table.names[5:7] == ["threshold 0|1", "threshold 1|2"] and "AIC" in str(table)


@pytest.mark.parametrize("cov_type", ["nonrobust", "HC0", "HC1", "HC2", "HC3", "cluster"])
@pytest.mark.parametrize("kind", ["frequency", "precision"])
@pytest.mark.parametrize("family", [MultinomialLogit(), Ordinal()])
def test_two_classes_are_a_logistic_regression(family, kind, cov_type):
    X, y = _voters()
    codes, weights = (y.to_numpy() > 3).astype(int), 1.0 + np.arange(len(y)) % 3
    groups = np.arange(len(y)) % 50 if cov_type == "cluster" else None
    options = CovarianceOptions(cov_type, groups, kind)
    rest = True, list(X), options
    law = Law(Binomial(), LINKS["logit"])
    binary = inferred(X.to_numpy(), codes.astype(float), weights, law, *rest)
    law, Y = Law(family, LINKS["logit"]), family.codes(codes, 2)
    both = inferred(X.to_numpy(), Y, weights, law, *rest, labels=["a", "b"])
    sign = np.array([1.0] * 5 + [-1.0 if family.tied else 1.0])
    np.testing.assert_allclose(both.coef, sign * binary.coef, rtol=1e-8)
    errors = [np.sqrt(np.diag(fit.covariance)) for fit in (both, binary)]
    np.testing.assert_allclose(*errors, rtol=1e-6)
    np.testing.assert_allclose(both.statistics, binary.statistics, rtol=1e-7)


def test_slopes_of_hc2_have_the_covariance_of_errors():
    random = np.random.default_rng(0)
    p = random.dirichlet(np.ones(4), 50)
    H = p[:, :, None] * (np.eye(4) - p[:, None])  # of a softmax: singular
    B = random.normal(size=(50, 4, 2))
    Q = 0.1 * B @ B.transpose(0, 2, 1)
    G = np.stack([classes.studentized(H, Q, np.tile(e, (50, 1))) for e in np.eye(4)], axis=2)
    residuals = H - H @ Q @ H  # their covariance
    np.testing.assert_allclose(G @ residuals @ G.transpose(0, 2, 1), H, atol=1e-12)
    np.testing.assert_allclose(
        G @ G @ (np.eye(4) - H @ Q), np.tile(np.eye(4), (50, 1, 1)), atol=1e-9
    )


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_a_row_of_weight_two_is_that_row_twice(family):
    X, y = _voters()
    model = GLMClassifier(family=family, random_state=0).fit(X, y)
    weights = 1.0 + np.arange(len(y)) % 2
    again = np.repeat(np.arange(len(y)), weights.astype(int))
    for cov_type in ("nonrobust", "HC1", "HC2", "HC3", "cluster"):
        groups = np.arange(len(y)) % 40 if cov_type == "cluster" else None
        one = model.summary(X, y, sample_weight=weights, cov_type=cov_type, groups=groups)
        groups = None if groups is None else groups[again]
        other = model.summary(X.iloc[again], y.iloc[again], cov_type=cov_type, groups=groups)
        np.testing.assert_allclose(one.coef, other.coef, rtol=1e-7)
        np.testing.assert_allclose(one.standard_error, other.standard_error, rtol=1e-7)
        np.testing.assert_allclose(one.statistics, other.statistics, rtol=1e-9)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_terms_have_likelihood_ratios(family):
    X, y = _voters()
    tests = GLMClassifier(family=family, random_state=0).fit(X, y).anova(X, y, use_t=False)

    def llf(columns):
        if family == "ordinal":
            ordered = pd.Series(pd.Categorical(y, ordered=True))
            return OrderedModel(ordered, columns, distr="logit").fit(method="bfgs", disp=0).llf
        return sm.MNLogit(y, sm.add_constant(columns)).fit(method="newton", disp=0).llf

    wanted = 2.0 * (llf(X) - llf(X.drop(columns="age")))
    assert tests.lr_statistic[2] == pytest.approx(wanted, rel=1e-4)
    assert tests.df.tolist() == [1 if family == "ordinal" else 6] * 5
    # Wald's and the likelihood-ratio test agree in large samples.
    np.testing.assert_allclose(tests.wald_statistic[2:], tests.lr_statistic[2:], rtol=0.15)


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_intervals_and_rows_of_other_types(family):
    X, y = _voters()
    model = GLMClassifier(family=family, random_state=0).fit(X.to_numpy(), y)
    table, (center, ends) = model.summary(X.to_numpy(), y), model.coef_interval(X.to_numpy(), y)
    own = np.arange(len(table.coef))
    own = own[:5] if family == "ordinal" else own.reshape(6, 6)[:, :5]
    np.testing.assert_array_equal(center, table.coef[own])
    np.testing.assert_array_equal(ends, np.stack([table.low, table.high], axis=1)[own])
    again = model.summary(sparse.csr_array(X.to_numpy()), y)
    np.testing.assert_allclose(again.coef, table.coef, rtol=1e-9)
    narrow = model.summary(X.to_numpy().astype(np.float32), y)
    np.testing.assert_allclose(narrow.coef, table.coef, rtol=1e-3)


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_aliased_columns_and_a_model_without_intercept(family):
    X, y = _voters()
    plain = GLMClassifier(family=family, random_state=0).fit(X, y).summary(X, y)
    wide = X.assign(total=X["age"] + X["educ"])
    table = GLMClassifier(family=family, random_state=0).fit(wide, y).summary(wide, y)
    missing = np.array(["total" in name for name in table.names])
    assert list(table.aliased) == ["total"] and np.isnan(table.coef[missing]).all()
    np.testing.assert_allclose(table.coef[~missing], plain.coef, rtol=1e-6)
    np.testing.assert_allclose(table.standard_error[~missing], plain.standard_error, rtol=1e-6)
    if family == "multinomial":
        bare = GLMClassifier(fit_intercept=False, random_state=0).fit(X, y)
        peer = sm.MNLogit(y, X).fit(method="newton", disp=0, tol=1e-14)
        ours = bare.summary(X, y, cov_type="nonrobust")
        np.testing.assert_allclose(ours.coef, peer.params.to_numpy().T.ravel(), rtol=1e-6)
        np.testing.assert_allclose(ours.aic, peer.aic, rtol=1e-8)


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_separated_classes_are_named(family):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.normal(size=300), "kind": np.tile(["a", "b", "c"], 100)})
    y = rng.integers(0, 3, 300)
    y[X["kind"] == "c"] = 0
    model = GLMClassifier(family=family, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"y = 1 for class .*every row with kind\[c\] = 1 has y ="):
        model.summary(X, y)
    apart = np.digitize(X["size"], [-0.5, 0.5])
    with pytest.raises(ValueError, match=r"separable.*size separates"):
        model.fit(X, apart).summary(X, apart)


def test_what_cannot_be_answered_is_refused():
    X, y = _voters()
    model = GLMClassifier(random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="The class 6 has no rows"):
        model.summary(X[y < 6], y[y < 6])
    with pytest.raises(ValueError, match="36 coefficients are too many for 30 rows"):
        rows = y.groupby(y).head(5).index[:30]
        rows = rows.union(y.groupby(y).head(1).index)[:30]
        model.summary(X.loc[rows], y[rows])


@pytest.mark.filterwarnings("ignore")  # of statsmodels
@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_ordered_classes_have_the_link_that_is_named(link):
    """Coefficients, thresholds, errors and likelihood are those of OrderedModel."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = np.digitize(X[:, 0] - 0.5 * X[:, 1] + rng.gumbel(size=400), [-1.0, 0.5, 1.5])
    model = GLMClassifier("ordinal", link=link, random_state=0).fit(X, y)
    table = model.summary(X, y, cov_type="nonrobust")
    law = {"cloglog": stats.gumbel_l}.get(link, link)
    peer = OrderedModel(y, X, distr=law).fit(method="bfgs", gtol=1e-9, maxiter=500, disp=0)
    thresholds = peer.model.transform_threshold_params(peer.params)[1:-1]
    np.testing.assert_allclose(table.coef, [*peer.params[:2], *thresholds], atol=1e-6)
    np.testing.assert_allclose(table.llf, peer.llf, rtol=1e-9)
    np.testing.assert_allclose(table.standard_error[:2], peer.bse[:2], rtol=1e-5)
    assert table.link == LINKS[link] and model.family_ == Ordinal(LINKS[link])
    # The learned model is near it, and its probabilities are those of its thresholds.
    assert np.abs(model.predict_proba(X) - peer.predict()).max() < 0.1
    below = LINKS[link].mean(-model.intercept_ - (X @ model.coef_.T))
    np.testing.assert_allclose(model.predict_proba(X).cumsum(axis=1)[:, :-1], below, atol=1e-12)


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_slopes_of_ordered_classes_are_derivatives(link):
    family, rng = Ordinal(LINKS[link]), np.random.default_rng(0)
    s = -np.sort(-rng.normal(size=(20, 3)), axis=1)
    y = family.codes(rng.integers(0, 4, 20), 4)
    score, H = family.residuals(None, s, y)[0], family.hessian(s, y)
    for j in range(3):
        step = 1e-6 * np.eye(3)[j]
        up, down = (family.residuals(None, s + sign * step, y) for sign in (1.0, -1.0))
        rise = 0.5 * (up[1] - down[1]).sum(axis=1) / 2e-6
        np.testing.assert_allclose(score[:, j], rise, atol=1e-7)
        np.testing.assert_allclose(H[:, :, j], (up[0] - down[0]) / 2e-6, atol=1e-6)
    shares = np.array([0.7, 0.4, 0.2])
    start = family.start(np.tile(shares, (5, 1)), np.ones(5))
    np.testing.assert_allclose(family.probabilities(start[None])[0], [0.3, 0.3, 0.2, 0.2])


@pytest.mark.parametrize(
    ("family", "link"),
    [(f, link) for f in ("ordinal", "multinomial") for link in LINKS if link != "logit"],
)
def test_links_that_classes_do_not_have_are_refused(family, link):
    if family == "ordinal" and link in ("probit", "cloglog"):
        return
    X, y = np.arange(12.0)[:, None], np.arange(12) % 3
    with pytest.raises(ValueError, match="link=.* is not for (family='multi|ordered)"):
        GLMClassifier(family, link=link).fit(X, y)


@pytest.mark.parametrize("link", ["probit", "cloglog"])
def test_ordered_classes_of_another_link_are_saved(link, tmp_path):
    X = np.random.default_rng(0).normal(size=(90, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5]) * (np.arange(90) % 7 > 0)
    model = GLMClassifier("ordinal", link=link, max_iter=20, random_state=0).fit(X, y)
    save_model(model, tmp_path / "m.tunefree")
    again = load_model(tmp_path / "m.tunefree")
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.family_ == model.family_


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_an_offset_of_ordered_classes_is_that_of_statsmodels(link):
    """It is added to the index: the table, predictions, and the test of the constant."""
    ordinal_model = pytest.importorskip("statsmodels.miscmodels.ordinal_model")
    rng = np.random.default_rng(0)
    X, offset = rng.normal(size=(500, 2)), 2.0 + rng.normal(size=500)
    noise = rng.logistic(size=500) if link == "logit" else rng.normal(size=500)
    y = np.digitize(X @ [1.0, -0.5] + offset + noise, [1.0, 2.5, 3.5])
    model = GLMClassifier("ordinal", link, potential="none").fit(X, y, offset=offset)
    peer = ordinal_model.OrderedModel(y, X, distr=link, offset=offset)
    peer = peer.fit(method="bfgs", disp=0, gtol=1e-8)
    table = model.summary(cov_type="nonrobust")
    np.testing.assert_allclose(table.coef[:2], peer.params[:2], rtol=1e-6)
    np.testing.assert_allclose(table.standard_error[:2], peer.bse[:2], rtol=1e-5)
    np.testing.assert_allclose(table.llf, peer.llf, rtol=1e-9)
    p = model.predict_proba(X, offset=offset)
    np.testing.assert_allclose(p, peer.predict(X, offset=offset), atol=1e-6)
    alone = GLMClassifier("ordinal", link, potential="none").fit(X[:, :1], y, offset=offset)
    assert alone.summary().null_deviance == pytest.approx(table.null_deviance)
    near = GLMClassifier("ordinal", link, random_state=0).fit(X, y, offset=offset)
    assert np.abs(near.predict_proba(X, offset=offset) - p).mean() < 0.02
    zero = GLMClassifier("ordinal", link, potential="none").fit(X, y, offset=np.zeros(500))
    plain = GLMClassifier("ordinal", link, potential="none").fit(X, y)
    np.testing.assert_allclose(zero.coef_, plain.coef_)
    with pytest.raises(ValueError, match="give offset= for these rows"):
        model.predict(X)
    with pytest.raises(ValueError, match="changes nothing for 4 classes"):
        GLMClassifier().fit(X, y, offset=offset)
