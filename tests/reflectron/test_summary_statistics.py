"""`summary` and `anova` are those of statsmodels on the data sets that come with it."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from tunefree import GLMClassifier, GLMRegressor, RidgePathRegressor
from tunefree.parts.families import HuberT, InverseGaussian, NegativeBinomial, Tweedie
from tunefree.parts.links import LINKS
from tunefree.uncertainty.inference import inferred
from tunefree.uncertainty.laws import Law
from tunefree.uncertainty.terms import terms_tested

sm = pytest.importorskip("statsmodels.api")
FAMILIES = sm.families


def _frame(name, target, columns=None):
    data = getattr(sm.datasets, name).load_pandas().data
    X = data.drop(columns=target) if columns is None else data[columns]
    return X.astype(float), data[target].astype(float)


def _shares():
    data = sm.datasets.star98.load_pandas()
    trials = data.endog.sum(axis=1)
    return data.exog.iloc[:, :8], data.endog.iloc[:, 0], {"exposure": trials}


def _killed():
    X, y = _frame("cancer", "cancer")
    return np.log(X), y, {"exposure": X["population"]}


# Rows, our family, theirs.
SETS = {
    "longley": (lambda: (*_frame("longley", "TOTEMP"), {}), "gaussian", FAMILIES.Gaussian()),
    "stackloss": (lambda: (*_frame("stackloss", "STACKLOSS"), {}), "gaussian", FAMILIES.Gaussian()),
    "cpunish": (
        lambda: (*_frame("cpunish", "EXECUTIONS", ["VC100k96", "SOUTH", "DEGREE"]), {}),
        "poisson",
        FAMILIES.Poisson(),
    ),
    "cancer": (_killed, "poisson", FAMILIES.Poisson()),
    "spector": (lambda: (*_frame("spector", "GRADE"), {}), "binomial", FAMILIES.Binomial()),
    "star98": (_shares, "binomial", FAMILIES.Binomial()),
    "scotland": (
        lambda: (*_frame("scotland", "YES"), {}),
        "gamma",
        FAMILIES.Gamma(FAMILIES.links.Log()),
    ),
    "scotland, inverse Gaussian": (
        lambda: (*_frame("scotland", "YES"), {}),
        "inverse_gaussian",
        FAMILIES.InverseGaussian(FAMILIES.links.Log()),
    ),
    "fair": (
        lambda: (*_frame("fair", "affairs"), {}),
        Tweedie(1.5),
        FAMILIES.Tweedie(FAMILIES.links.Log(), var_power=1.5),
    ),
    "cpunish, negative binomial": (
        lambda: (*_frame("cpunish", "EXECUTIONS", ["VC100k96", "SOUTH", "DEGREE"]), {}),
        NegativeBinomial(0.3),
        FAMILIES.NegativeBinomial(alpha=0.3),
    ),
}


LINK_NAMES = {"gaussian": "identity", "binomial": "logit"}


def _with_intercept(X):
    return np.column_stack([X, np.ones(len(X))])


def _peer(X, y, family, exposure=None, **weights):
    """The model of statsmodels."""
    design, more = _with_intercept(X), dict(weights)
    if exposure is not None and isinstance(family, FAMILIES.Binomial):
        y = np.column_stack([y, exposure - y])
    elif exposure is not None:
        more["exposure"] = np.asarray(exposure)
    return sm.GLM(np.asarray(y), design, family, **more)


def _fitted(model, **options):
    return model.fit(tol=1e-14, maxiter=300, tol_criterion="params", **options)


def _same(table, theirs):
    np.testing.assert_allclose(table.coef, theirs.params, rtol=1e-6)
    np.testing.assert_allclose(table.standard_error, theirs.bse, rtol=1e-6)


@pytest.mark.filterwarnings("ignore")  # of statsmodels
@pytest.mark.parametrize("name", SETS)
def test_statistics_and_errors_are_those_of_statsmodels(name):
    made, family, theirs = SETS[name]
    X, y, terms = made()
    model = GLMRegressor(family=family, random_state=0).fit(X, y, **terms)
    peer = _peer(X, y, theirs, **terms)
    groups = np.arange(len(y)) % 7
    # Its GLM has HC0 under all four names.
    options = {
        "nonrobust": {},
        "HC0": {"cov_type": "HC0"},
        "cluster": {"cov_type": "cluster", "cov_kwds": {"groups": groups}},
    }
    for cov_type, given in options.items():
        fitted = _fitted(peer, **given)
        own = groups if cov_type == "cluster" else None
        table = model.summary(X, y, cov_type=cov_type, groups=own, use_t=False, **terms)
        _same(table, fitted)
        np.testing.assert_allclose(table.p_value, fitted.pvalues, rtol=1e-5, atol=1e-12)
    ours = [table.deviance, table.null_deviance, table.scale, table.pearson_chi2]
    wanted = [fitted.deviance, fitted.null_deviance, fitted.scale, fitted.pearson_chi2]
    np.testing.assert_allclose(ours, wanted, rtol=1e-6)
    ours = [table.llf, table.aic, table.bic, table.d2, table.nobs, table.df_model]
    wanted = [fitted.llf, fitted.aic, fitted.bic_llf, 1.0 - fitted.deviance / fitted.null_deviance]
    np.testing.assert_allclose(ours, [*wanted, fitted.nobs, fitted.df_model], rtol=1e-6)
    text = str(table)
    assert "AIC" in text and "dispersion" in text and repr(table.family) in text
    assert f"link {LINK_NAMES.get(family, 'log')}" in text


@pytest.mark.parametrize("cov_type", ["HC0", "HC1", "HC2", "HC3"])
@pytest.mark.parametrize("name", ["longley", "stackloss", "engel", "ccard"])
def test_least_squares_has_the_errors_of_statsmodels(name, cov_type):
    target = {"engel": "foodexp", "ccard": "AVGEXP", "longley": "TOTEMP", "stackloss": "STACKLOSS"}
    X, y = _frame(name, target[name])
    for estimator in (GLMRegressor(family="gaussian", random_state=0), RidgePathRegressor()):
        table = estimator.fit(X, y).summary(X, y, cov_type=cov_type)
        _same(table, sm.OLS(y, _with_intercept(X)).fit(cov_type=cov_type))


@pytest.mark.parametrize("kind", ["frequency", "precision"])
@pytest.mark.parametrize("name", ["stackloss", "scotland", "cpunish"])
def test_scores_are_divided_by_what_leverages_lack_to_one(name, kind):
    """HC2 and HC3 by their definition, with leverages of statsmodels, whose GLM has HC0 instead."""
    made, family, theirs = SETS[name]
    X, y, _ = made()
    weights = 1.0 + np.arange(len(y)) % 3
    key = "freq_weights" if kind == "frequency" else "var_weights"
    peer = _peer(X, y, theirs, **{key: weights})
    fitted = _fitted(peer)
    repeats = weights if kind == "frequency" else np.ones(len(y))
    bread = np.linalg.inv(peer.hessian(fitted.params, scale=1.0))
    leverage = fitted.get_hat_matrix_diag() / repeats
    scores = peer.score_obs(fitted.params, scale=1.0) / np.sqrt(repeats)[:, None]
    model = GLMRegressor(family=family, potential="none").fit(X, y, sample_weight=weights)
    for power, cov_type in enumerate(["HC0", "HC2", "HC3"]):
        own = scores / np.sqrt(1.0 - leverage)[:, None] ** power
        wanted = np.sqrt(np.diag(bread @ own.T @ own @ bread))
        table = model.summary(X, y, sample_weight=weights, weight_type=kind, cov_type=cov_type)
        np.testing.assert_allclose(table.standard_error, wanted, rtol=1e-6)
        hc0 = _fitted(peer, cov_type=cov_type).bse
        assert (cov_type == "HC0") == bool(np.allclose(hc0, wanted, rtol=1e-4))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["frequency", "precision"])
@pytest.mark.parametrize("name", ["stackloss", "scotland", "cpunish"])
def test_weights_are_frequencies_or_precisions(name, kind):
    made, family, theirs = SETS[name]
    X, y, _ = made()
    weights = 1.0 + np.arange(len(y)) % 3
    model = GLMRegressor(family=family, random_state=0).fit(X, y)
    key = "freq_weights" if kind == "frequency" else "var_weights"
    for cov_type in ("nonrobust", "HC0"):
        fitted = _fitted(_peer(X, y, theirs, **{key: weights}), cov_type=cov_type)
        table = model.summary(X, y, sample_weight=weights, weight_type=kind, cov_type=cov_type)
        _same(table, fitted)
    ours = [table.llf, table.aic, table.bic, table.deviance, table.scale, table.df_resid]
    wanted = [fitted.llf, fitted.aic, fitted.bic_llf, fitted.deviance, fitted.scale]
    np.testing.assert_allclose(ours, [*wanted, fitted.df_resid], rtol=1e-6)
    assert ("repetitions" if kind == "frequency" else "precisions") in table.note


def test_a_row_of_weight_two_is_that_row_twice():
    X, y, _ = SETS["scotland"][0]()
    model = GLMRegressor(family="gamma", random_state=0).fit(X, y)
    weights = 1.0 + np.arange(len(y)) % 2
    again = np.repeat(np.arange(len(y)), weights.astype(int))
    for cov_type in ("nonrobust", "HC1", "HC3", "cluster"):
        groups = np.arange(len(y)) % 5 if cov_type == "cluster" else None
        one = model.summary(X, y, sample_weight=weights, cov_type=cov_type, groups=groups)
        rows = X.iloc[again], y.iloc[again]
        groups = None if groups is None else groups[again]
        other = model.summary(*rows, cov_type=cov_type, groups=groups)
        np.testing.assert_allclose(one.standard_error, other.standard_error, rtol=1e-7)
        np.testing.assert_allclose(one.statistics, other.statistics, rtol=1e-9)


@pytest.mark.filterwarnings("ignore")
def test_a_learned_dispersion_is_that_of_maximum_likelihood():
    data = sm.datasets.randhie.load_pandas().data.iloc[:2000]
    X, y = data[["lncoins", "idp", "physlm", "disea"]], data["mdvis"]
    table = GLMRegressor(family="negative_binomial", random_state=0).fit(X, y).summary(X, y)
    peer = sm.NegativeBinomial(y, _with_intercept(X)).fit(disp=0, maxiter=500, gtol=1e-9)
    np.testing.assert_allclose(table.family.dispersion, peer.params.iloc[-1], rtol=1e-4)
    np.testing.assert_allclose(table.coef, peer.params.iloc[:-1], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose([table.llf, table.aic], [peer.llf, peer.aic], rtol=1e-7)


def test_a_learned_power_counts_and_is_the_most_likely():
    X, y = _frame("fair", "affairs", ["age", "yrs_married", "religious"])
    X, y = X.iloc[::20], y.iloc[::20]
    table = GLMRegressor(family="tweedie", random_state=0).fit(X, y).summary(X, y)
    for change in (-0.01, 0.0, 0.01):
        power = Tweedie(table.family.power + change)
        other = GLMRegressor(family=power, random_state=0).fit(X, y).summary(X, y)
        assert other.llf <= table.llf + 1e-9
        if change == 0.0:
            np.testing.assert_allclose(other.aic + 2.0, table.aic)


def test_the_likelihood_of_a_bent_link_is_at_pearsons_dispersion():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = 2.0 * X[:, 0] + rng.normal(size=60)
    model = GLMRegressor(family="gaussian", link="leaky_relu", random_state=0).fit(X, y)
    table = model.summary(X, y)
    expected = -0.5 * (table.deviance / table.scale + 60 * np.log(2.0 * np.pi * table.scale))
    assert table.llf == pytest.approx(expected, rel=1e-12)


def test_terms_and_contrasts_are_those_of_statsmodels():
    X, y, _ = SETS["stackloss"][0]()
    X["kind"] = np.array(["a", "b", "c"])[np.arange(len(y)) % 3]
    model = GLMRegressor(family="gaussian", random_state=0).fit(X, y)
    tests = model.anova(X, y, cov_type="nonrobust")
    peer = sm.OLS.from_formula("y ~ AIRFLOW + WATERTEMP + ACIDCONC + kind", X.assign(y=y)).fit()
    theirs = sm.stats.anova_lm(peer, typ=2).loc[tests.terms]
    np.testing.assert_allclose(tests.df, theirs["df"])
    for statistic, p_value in ((1, 2), (3, 4)):
        np.testing.assert_allclose(np.array(tests[statistic + 1]), theirs["F"], rtol=1e-7)
        np.testing.assert_allclose(np.array(tests[p_value + 1]), theirs["PR(>F)"], rtol=1e-6)
    assert "kind" in str(tests) and tests.to_frame().shape == (4, 5)
    table = model.summary(X, y, cov_type="HC1")
    found = table.wald_test([{"AIRFLOW": 1, "WATERTEMP": -1}, {"ACIDCONC": 2}], [0.5, 0.1])
    robust = peer.get_robustcov_results("HC1")
    wanted = robust.f_test("AIRFLOW - WATERTEMP = 0.5, 2 * ACIDCONC = 0.1")
    np.testing.assert_allclose(found.statistic, wanted.fvalue, rtol=1e-6)
    np.testing.assert_allclose(found.p_value, wanted.pvalue, rtol=1e-6)
    assert found[2:] == (2, len(y) - 6)


def test_terms_of_counts_have_likelihood_ratios():
    X, y, _ = SETS["cpunish"][0]()
    model = GLMRegressor(family="poisson", random_state=0).fit(X, y)
    tests = model.anova(X, y)
    full = _fitted(_peer(X, y, FAMILIES.Poisson()))
    for j, name in enumerate(tests.terms):
        smaller = _fitted(_peer(X.drop(columns=name), y, FAMILIES.Poisson()))
        wanted = 2.0 * (full.llf - smaller.llf)
        np.testing.assert_allclose(tests.lr_statistic[j], wanted, rtol=1e-6, atol=1e-8)
    X, y = _frame("engel", "foodexp")
    with pytest.raises(ValueError, match="HuberT has no likelihood"):
        GLMRegressor(family="huber", random_state=0).fit(X, y).anova(X, y)


def test_aliased_columns_are_named_and_have_no_coefficient():
    X, y, _ = SETS["stackloss"][0]()
    wide = X.assign(one=1.0, total=X["AIRFLOW"] + X["WATERTEMP"])
    model = GLMRegressor(family="gaussian", random_state=0).fit(wide, y)
    table, plain = model.summary(wide, y), model.fit(X, y).summary(X, y)
    assert list(table.aliased) == ["one", "total"]
    assert "one, which is constant" in table.note and "AIRFLOW" in table.aliased["total"]
    kept = [table.names.index(name) for name in plain.names]
    np.testing.assert_allclose(table.coef[kept], plain.coef, rtol=1e-8)
    np.testing.assert_allclose(table.standard_error[kept], plain.standard_error, rtol=1e-8)
    assert np.isnan(table.coef[[3, 4]]).all() and table.aic == pytest.approx(plain.aic)
    with pytest.raises(ValueError, match="one is aliased"):
        table.wald_test({"one": 1})


def test_the_columns_of_a_formula_are_those_of_statsmodels():
    formulaic = pytest.importorskip("formulaic")
    X, y, _ = SETS["stackloss"][0]()
    X["kind"] = np.array(["a", "b", "c"])[np.arange(len(y)) % 3]
    columns = formulaic.model_matrix("AIRFLOW * C(kind) - 1", X)
    model = GLMRegressor(family="gaussian", random_state=0).fit(columns, y)
    table = model.summary(columns, y, cov_type="nonrobust")
    peer = sm.OLS.from_formula("y ~ AIRFLOW * C(kind)", X.assign(y=y)).fit()
    ours = [table.llf, table.aic, table.deviance, table.df_resid]
    np.testing.assert_allclose(ours, [peer.llf, peer.aic, peer.ssr, peer.df_resid], rtol=1e-6)


def test_sparse_and_single_precision_rows_have_the_same_table():
    X, y, _ = SETS["cpunish"][0]()
    model = GLMRegressor(family="poisson", random_state=0).fit(X.to_numpy(), y)
    table = model.summary(X.to_numpy(), y)
    again = model.summary(sparse.csr_array(X.to_numpy()), y)
    np.testing.assert_allclose(again.coef, table.coef, rtol=1e-9)
    narrow = model.summary(X.to_numpy().astype(np.float32), y)
    np.testing.assert_allclose(narrow.coef, table.coef, rtol=1e-4)


def test_what_separates_is_named():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.normal(size=90), "kind": np.tile(["a", "b", "c"], 30)})
    y = np.where(X["kind"] == "c", 0, rng.random(90) < 0.5).astype(int)
    model = GLMClassifier(random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"every row with kind\[c\] = 1 has y = 0"):
        model.summary(X, y)
    apart = X["size"] > 0.2
    X.loc[apart, "size"] += 1.0
    with pytest.raises(ValueError, match="size separates"):
        model.fit(X, apart).summary(X, apart)


def test_a_reference_level_can_be_chosen():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"kind": np.array(["a", "b", "c"])[rng.integers(0, 3, 200)]})
    X["size"] = rng.normal(size=200)
    y = X["size"] + (X["kind"] == "c") + rng.normal(size=200)
    model = GLMRegressor(family="gaussian", random_state=0).fit(X, y)
    table = model.summary(X, y, reference={"kind": "c"}, cov_type="nonrobust")
    assert table.names == ["size", "kind[a]", "kind[b]", "intercept"]
    formula = "y ~ size + C(kind, Treatment('c'))"
    peer = sm.OLS.from_formula(formula, X.assign(y=y)).fit()
    np.testing.assert_allclose(sorted(table.coef), sorted(peer.params), rtol=1e-7)
    np.testing.assert_allclose(sorted(table.standard_error), sorted(peer.bse), rtol=1e-7)
    for reference, words in (
        ({"color": "a"}, "'color', which is no column of categories .these: kind"),
        ({"kind": "z"}, "the level 'z' of kind, whose levels are a, b, c"),
    ):
        with pytest.raises(ValueError, match=words):
            model.summary(X, y, reference=reference)


def test_unknown_options_are_refused():
    X, y, _ = SETS["stackloss"][0]()
    model = GLMRegressor(family="gaussian", random_state=0).fit(X, y)
    for options, words in (
        ({"cov_type": "HC4"}, "cov_type='HC4' is none of nonrobust"),
        ({"weight_type": "importance"}, "weight_type='importance' is none of auto"),
        ({"cov_type": "cluster"}, "needs groups="),
        ({"groups": np.ones(len(y))}, "needs it"),
        ({"cov_type": "cluster", "groups": np.ones(len(y))}, "two groups"),
        ({"cov_type": "cluster", "groups": np.ones(3)}, "groups has the shape"),
    ):
        with pytest.raises(ValueError, match=words):
            model.summary(X, y, **options)


def test_huber_on_few_rows_is_that_of_rlm():
    """Newton's steps alone do not end here; at the scale of RLM the coefficients are the same."""
    X, y, _ = SETS["stackloss"][0]()
    peer = sm.RLM(y, _with_intercept(X), M=sm.robust.norms.HuberT(1.345))
    peer = peer.fit(tol=1e-12, maxiter=500)
    model = GLMRegressor(family=HuberT(1.345, float(peer.scale)), random_state=0).fit(X, y)
    np.testing.assert_allclose(model.summary(X, y).coef, peer.params, rtol=1e-6)


def test_a_finite_minimum_of_an_inverse_gaussian_is_found():
    """Its loss is not convex: Newton's steps are halved until it falls."""
    link = LINKS["log"]
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(50, 3))
        y = rng.wald(np.exp(0.5 * X[:, 0] + 1.0), 1.0)
        fit = inferred(X, y, np.ones(50), Law(InverseGaussian(), link), True, list("abc"))
        score = fit.sample.law.score(fit.minimum.s, y)
        np.testing.assert_allclose(fit.minimum.A.T @ score, 0.0, atol=1e-6 * np.abs(score).sum())
        tests = terms_tested(fit, list("abc"))
        assert np.isfinite(tests.lr_p_value).all() and (tests.lr_statistic >= 0.0).all()


def test_only_classes_are_sent_to_the_perceptron():
    X, y = np.column_stack([np.arange(9.0), np.arange(9) > 3]), np.where(np.arange(9) > 3, 0.0, 2.0)
    model = GLMRegressor("poisson", max_iter=3, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="lies at infinity.*Drop columns, or give more rows"):
        model.summary(X, y)


@pytest.mark.parametrize("family", ["gaussian", "gamma", "binomial"])
@pytest.mark.parametrize("cov_type", ["nonrobust", "HC3"])
def test_an_aliased_term_has_no_degree_of_freedom(family, cov_type):
    """Of three columns that determine each other none is tested, whichever comes first."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    X[:, 2] = X[:, 0] + X[:, 1] + 10.0
    y = rng.gamma(2.0, size=80)
    y = np.where(y > 2.0, 1.0, 0.0) if family == "binomial" else y
    link = "logit" if family == "binomial" else "log"
    model = GLMRegressor(family, link, max_iter=5, random_state=0).fit(X, y)
    tests = model.anova(X, y, cov_type=cov_type)
    assert tests.df.tolist() == [0, 0, 0, 1] and str(tests).count("aliased") == 12
    for values in tests[2:6]:
        assert np.isnan(values[:3]).all() and np.isfinite(values[3])
    independent = model.fit(X[:, 1:], y).anova(X[:, 1:], y, cov_type=cov_type)
    for ours, theirs in zip(tests[2:6], independent[2:6], strict=True):
        np.testing.assert_allclose(ours[3], theirs[2], rtol=1e-6)


CONTRASTS = {
    "AIRFLOW - WATERTEMP = 0": ([[1, -1, 0, 0]], [0]),
    "AIRFLOW = WATERTEMP": ([[1, -1, 0, 0]], [0]),
    "AIRFLOW - WATERTEMP": ([[1, -1, 0, 0]], [0]),
    "2*AIRFLOW + 3 * (ACIDCONC - 1) / 2 = .5": ([[2, 0, 1.5, 0]], [2]),
    "AIRFLOW = .5, ACIDCONC=WATERTEMP": ([[1, 0, 0, 0], [0, -1, 1, 0]], [0.5, 0]),
    "-AIRFLOW + 1e-1 = -(+WATERTEMP)": ([[-1, 1, 0, 0]], [-0.1]),
    "AIRFLOW = WATERTEMP = 0.5": ([[1, -1, 0, 0], [0, 1, 0, 0]], [0, 0.5]),
    "intercept = -40, AIRFLOW*2 = 1": ([[0, 0, 0, 1], [2, 0, 0, 0]], [-40, 1]),
}


@pytest.mark.parametrize("text", CONTRASTS)
def test_contrasts_as_text_are_those_of_statsmodels(text):
    X, y, _ = SETS["stackloss"][0]()
    model = GLMRegressor(family="gaussian", random_state=0).fit(X, y)
    table, (R, q) = model.summary(X, y, cov_type="nonrobust"), CONTRASTS[text]
    found, same = table.wald_test(text), table.wald_test(R, q)
    np.testing.assert_allclose([found.statistic, found.p_value], [same.statistic, same.p_value])
    peer = sm.OLS(y, X.assign(intercept=1.0)).fit()
    wanted = peer.f_test((np.array(R, dtype=float), np.array(q, dtype=float)))
    np.testing.assert_allclose([found.statistic, found.p_value], [wanted.fvalue, wanted.pvalue])
    np.testing.assert_allclose(float(peer.f_test(text).fvalue), found.statistic)
    assert found.df_num == len(R)


def test_contrasts_name_any_coefficient():
    """Names with blanks, brackets, colons and operators are those of the table."""
    rng = np.random.default_rng(0)
    names = ["net - tax", "net", "a b", "2", "C(k)[T.v]", "x:y"]
    X = pd.DataFrame(rng.normal(size=(60, 6)), columns=names)
    table = GLMRegressor("gaussian", random_state=0).fit(X, X.net).summary(X, rng.normal(size=60))
    for text, wanted in {
        "net - tax = a b": {"net - tax": 1, "a b": -1},
        "net - a b = 0": {"net": 1, "a b": -1},
        "C(k)[T.v] + 2 * x:y": {"C(k)[T.v]": 1, "x:y": 2},
    }.items():
        assert table.wald_test(text) == table.wald_test(wanted)
    several = ["net = 0", "x:y - a b = 0"]
    assert table.wald_test(several) == table.wald_test(", ".join(several))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("net = nothing", "'nothing'.*choose of"),
        ("net * gross = 0", "not linear"),
        ("1 / net = 0", "not linear"),
        ("net = gross = ", "ends too early"),
        ("net +* gross = 0", r"before '\* gross"),
        ("(net = 0", r"'\)' is missing|before '= 0'"),
        ("3 = 3", "no coefficient"),
        ("net - net = 0", "no coefficient"),
        ("net = 0, 2 * net = 0", "linearly dependent"),
        ("", "ends too early"),
        ("net / 0 = 1", "division by 0"),
    ],
)
def test_contrasts_that_mean_nothing_are_refused(text, words):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 2)), columns=["net", "gross"])
    table = RidgePathRegressor(random_state=0).fit(X, X.net).summary(X, rng.normal(size=60))
    with pytest.raises(ValueError, match=words):
        table.wald_test(text)
    with pytest.raises(ValueError, match="q= is for arrays"):
        table.wald_test("net = 0", 1.0)
