"""Tests of nested models: types of `anova`, several terms at once, two fitted models."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from test_summary_statistics import SETS, _fitted, _peer

from tunefree import GLMClassifier, GLMRegressor, load_model, save_model
from tunefree.parts.families import NegativeBinomial

sm = pytest.importorskip("statsmodels.api")

# A column of categories, made of the values of a column, and one of numbers.
FACTORS = {
    "stackloss": ("ACIDCONC", "AIRFLOW", 3),
    "longley": ("YEAR", "GNPDEFL", 2),
    "ccard": ("AGE", "INCOME", 3),
    "scotland": ("UNEMPF", "COUTAX", 2),
    "fair": ("age", "yrs_married", 3),
}
TARGETS = {"ccard": "AVGEXP"}


def _with_factor(name):
    column, number, n_levels = FACTORS[name]
    if name == "ccard":
        data = sm.datasets.ccard.load_pandas().data
        X, y = data[["AGE", "INCOME"]], data["AVGEXP"]
    else:
        X, y, _ = SETS[name][0]()
    cuts = np.quantile(X[column], np.arange(1, n_levels) / n_levels)
    kind = np.array(list("abc"))[np.digitize(X[column], cuts)]
    return pd.DataFrame({"y": np.asarray(y, float), "x": np.asarray(X[number], float), "k": kind})


@pytest.mark.parametrize("typ", [1, 2, 3])
@pytest.mark.parametrize("name", FACTORS)
def test_types_of_tests_are_those_of_statsmodels(name, typ):
    frame = _with_factor(name)
    model = GLMRegressor("gaussian", formula="y ~ C(k, contr.sum) * x", random_state=0).fit(frame)
    tests = model.anova(frame, typ=typ, cov_type="nonrobust")
    peer = sm.OLS.from_formula("y ~ C(k, Sum) * x", frame).fit()
    theirs = sm.stats.anova_lm(peer, typ=typ)
    names = {"x": "x", "C(k, contr.sum)": "C(k, Sum)", "C(k, contr.sum):x": "C(k, Sum):x"}
    theirs = theirs.loc[[names[term] for term in tests.terms]]
    np.testing.assert_allclose(tests.df, theirs["df"])
    for found in (tests.lr_statistic, tests.wald_statistic):
        np.testing.assert_allclose(found, theirs["F"], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(tests.lr_p_value, theirs["PR(>F)"], rtol=1e-6, atol=1e-12)
    assert {1: "(type I)", 2: "(type II)", 3: "(type III)"}[typ] in tests.note


@pytest.mark.parametrize("name", ["cpunish", "cancer", "star98", "scotland", "longley"])
def test_several_terms_are_tested_at_once(name):
    made, family, theirs = SETS[name]
    X, y, terms = made()
    X = pd.DataFrame(X)
    names = list(map(str, X.columns))
    X.columns = names
    model = GLMRegressor(family=family, random_state=0).fit(X, y, **terms)
    groups = [names] if len(names) < 3 else [names[0], names[1:3]]
    peer = _fitted(_peer(X, y, theirs, **terms))
    for typ in (1, 2):
        tests = model.anova(X, y, typ=typ, terms=groups, cov_type="nonrobust", **terms)
        assert tests.terms == [g if isinstance(g, str) else " + ".join(g) for g in groups]
        group = groups[-1]  # the last is dropped from the whole model by every type
        small = _fitted(_peer(X.drop(columns=group), y, theirs, **terms))
        rise = (small.deviance - peer.deviance) / peer.scale
        df = len(group)
        if model.family_.unit_scale:
            p_value = stats.chi2.sf(rise, df)
        else:
            rise /= df
            p_value = stats.f.sf(rise, df, peer.df_resid)
        np.testing.assert_allclose(tests.lr_statistic[-1], rise, rtol=1e-6)
        np.testing.assert_allclose(tests.lr_p_value[-1], p_value, rtol=1e-5, atol=1e-300)
        # The same by two models that were fitted.
        if len(names) > df:
            smaller = GLMRegressor(family=family, random_state=0)
            smaller.fit(X.drop(columns=group), y, **terms)
            test = model.compare_lr_test(smaller)
            np.testing.assert_allclose(test.statistic, rise, rtol=1e-6)
            np.testing.assert_allclose(test.p_value, p_value, rtol=1e-5, atol=1e-300)
            assert test.df_num == df and group[0] in test.note


def test_terms_are_added_one_after_the_other():
    X, y, _ = SETS["cpunish"][0]()
    model = GLMRegressor(family="poisson", random_state=0).fit(X, y)
    order = ["SOUTH", "DEGREE", "VC100k96"]
    tests = model.anova(X, y, typ=1, terms=order)
    deviance = [_fitted(_peer(X[order[:k]], y, sm.families.Poisson())).deviance for k in range(4)]
    np.testing.assert_allclose(tests.lr_statistic, -np.diff(deviance), rtol=1e-6)
    assert tests.lr_statistic.sum() == pytest.approx(deviance[0] - deviance[-1])
    kept = model.anova(typ=3)
    np.testing.assert_allclose(kept.lr_statistic, model.anova(X, y, typ=3).lr_statistic)


@pytest.mark.parametrize("weights", ["frequency", "precision"])
def test_nested_models_with_weights_and_an_offset(weights, tmp_path):
    X, y, _ = SETS["stackloss"][0]()
    w = np.arange(len(y)) % 3 + (1.0 if weights == "frequency" else 0.5)
    offset = np.linspace(-1.0, 1.0, len(y))
    given = {"sample_weight": w, "offset": offset}
    large = GLMRegressor(family="gaussian", random_state=0).fit(X, y, **given)
    small = GLMRegressor(family="gaussian", random_state=0).fit(X[["AIRFLOW"]], y, **given)
    test = large.compare_lr_test(small)
    if weights == "frequency":
        again = np.repeat(np.arange(len(y)), w.astype(int))
        A, b = X.iloc[again], (y - offset).iloc[again]
        peer = [sm.OLS(b, sm.add_constant(part)).fit() for part in (A, A[["AIRFLOW"]])]
    else:
        peer = [sm.WLS(y - offset, sm.add_constant(A), w).fit() for A in (X, X[["AIRFLOW"]])]
    wanted = peer[0].compare_f_test(peer[1])
    np.testing.assert_allclose([*test[:3], test.df_denom], [*wanted, peer[0].df_resid], rtol=1e-6)
    tests = large.anova(X, y, terms=[["WATERTEMP", "ACIDCONC"]], **given)
    np.testing.assert_allclose(tests.lr_p_value[0], test.p_value)
    save_model(large, tmp_path / "large")
    assert load_model(tmp_path / "large").compare_lr_test(small) == test
    assert f"F(2, {peer[0].df_resid:g}) = " in str(test)


def test_a_learned_dispersion_is_compared_by_likelihood():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = rng.negative_binomial(2.0, 2.0 / (2.0 + np.exp(0.5 * X[:, 0])))
    models = [GLMRegressor("negative_binomial", random_state=0).fit(A, y) for A in (X, X[:, :1])]
    test = models[0].compare_lr_test(models[1])
    peers = [sm.NegativeBinomial(y, sm.add_constant(A)).fit(disp=0) for A in (X, X[:, :1])]
    assert test.statistic == pytest.approx(2.0 * (peers[0].llf - peers[1].llf), rel=1e-3)
    assert "log-likelihood" in test.note
    fixed = GLMRegressor(NegativeBinomial(0.5), random_state=0).fit(X, y)
    small = GLMRegressor(NegativeBinomial(0.5), random_state=0).fit(X[:, :1], y)
    assert "deviance" in fixed.compare_lr_test(small).note


def test_models_of_classes_are_compared():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.digitize(X[:, 0] + rng.logistic(size=200), [-1.0, 1.0])
    models = [GLMClassifier(random_state=0).fit(A, y) for A in (X, X[:, :1])]
    test = models[0].compare_lr_test(models[1])
    peers = [sm.MNLogit(y, sm.add_constant(A)).fit(disp=0) for A in (X, X[:, :1])]
    assert test.statistic == pytest.approx(2.0 * (peers[0].llf - peers[1].llf), rel=1e-6)
    assert test.df_num == 4


def test_what_is_not_nested_is_a_sentence():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(80, 3)), columns=list("abc"))
    y = rng.poisson(np.exp(0.3 * X["a"]))

    def fitted(columns, targets=y, family="poisson", rows=80):
        model = GLMRegressor(family=family, random_state=0)
        return model.fit(X[list(columns)][:rows], targets[:rows])

    large = fitted("ab")
    for small, message in [
        (fitted("ab"), "no further coefficient"),
        (fitted("abc"), "not nested in this model: it lacks c"),
        (fitted("c"), "not nested in this model: it lacks c"),
        (fitted("a", rows=70), r"other rows \(80 and 70"),
        (fitted("a", y + 1), "null deviances"),
        (fitted("a", family="gaussian"), "differ in family or link"),
        (3, "restricted= is a int"),
    ]:
        with pytest.raises(ValueError, match=message):
            large.compare_lr_test(small)
    with pytest.raises(ValueError, match="HuberT has no likelihood to compare"):
        fitted("ab", family="huber").compare_lr_test(fitted("a", family="huber"))
    for options, message in [
        ({"typ": 4}, "typ=4 is none of 1, 2, 3"),
        ({"terms": ["a", "d"]}, "terms='d' is none of a, b"),
        ({"terms": ["a", ["b", "a"]]}, "terms= names 'a' twice"),
        ({"terms": [[]]}, "terms= has no term"),
    ]:
        with pytest.raises(ValueError, match=message):
            large.anova(X[["a", "b"]], y, **options)
    with pytest.raises(ValueError, match="typ=1 needs the rows"):
        large.anova(typ=1)
    with pytest.raises(ValueError, match="terms= needs the rows"):
        large.anova(terms=["a"])
