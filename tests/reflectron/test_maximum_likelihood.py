"""A fit keeps its table; with ``potential="none"`` the model is the table."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import sparse

from tunefree import GLMClassifier, GLMRegressor, RidgePathRegressor, load_model, save_model
from tunefree.parts.families import NegativeBinomial, Quantile, Tweedie

RNG = np.random.default_rng(0)
N = 120
X = pd.DataFrame({
    "x": RNG.normal(size=N),
    "z": RNG.uniform(-1.0, 1.0, N),
    "city": RNG.choice(["a", "b", "c"], N, p=[0.2, 0.5, 0.3]),
})  # fmt: skip
X.loc[:7, "city"] = None
INDEX = 0.4 * X["x"].to_numpy() - 0.3 * X["z"].to_numpy() + 0.5 * (X["city"] == "c").to_numpy()
EXPOSURE = RNG.uniform(0.5, 3.0, N)
COUNTS = RNG.poisson(EXPOSURE * np.exp(INDEX + 0.5))
AMOUNTS = RNG.gamma(3.0, np.exp(INDEX))
SHARES = 1.0 / (1.0 + np.exp(-INDEX))
CODES = np.digitize(INDEX + RNG.logistic(size=N), [-0.7, 0.8])

# (family, link, y, what `fit` is given)
NUMBERS = [
    ("gaussian", None, INDEX + RNG.normal(size=N), {}),
    ("gaussian", "log", AMOUNTS, {"offset": 0.1 * EXPOSURE}),
    ("poisson", None, COUNTS, {"exposure": EXPOSURE}),
    ("poisson", "softplus", COUNTS, {"sample_weight": np.arange(N) % 3}),
    (NegativeBinomial(0.5), None, COUNTS, {"exposure": EXPOSURE}),
    ("negative_binomial", None, RNG.negative_binomial(2, 2 / (2 + np.exp(INDEX + 1))), {}),
    ("gamma", None, AMOUNTS, {"exposure": EXPOSURE}),
    ("inverse_gaussian", None, AMOUNTS, {"sample_weight": EXPOSURE}),
    (Tweedie(1.5), None, AMOUNTS * (np.arange(N) % 4 > 0), {}),
    ("tweedie", None, AMOUNTS * (np.arange(N) % 4 > 0), {"exposure": EXPOSURE}),
    ("binomial", "probit", RNG.binomial(5, SHARES), {"exposure": np.full(N, 5.0)}),
    ("binomial", "cloglog", RNG.binomial(1, SHARES), {}),
    ("huber", None, INDEX + RNG.standard_t(2, N), {}),
    (Quantile(0.7), None, INDEX + RNG.normal(size=N), {}),
    ("gaussian", None, np.column_stack([INDEX, -INDEX]) + RNG.normal(size=(N, 2)), {}),
]
CLASSES = [
    ("auto", None, CODES > 0),
    ("auto", "probit", CODES > 0),
    ("auto", None, np.array(["u", "v", "w"])[CODES]),
    ("auto", "probit", CODES),  # each class is one output
    ("ordinal", "cloglog", CODES),
]
OPTIONS = [
    {},
    {"cov_type": "HC1", "use_t": False},
    {"cov_type": "HC2", "reference": {"city": "c"}},
]


def named(case):
    return f"{case[0]}-{case[1]}-{np.shape(case[2])[1:]}"


def same(one, other):
    """Whether two tables are equal but for rounding."""
    assert one.names == other.names and one.note == other.note
    assert one.reference == other.reference
    for name in ("coef", "standard_error", "p_value", "low", "high"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-6, atol=1e-9)
    if one.statistics is not None:
        numbers = [[np.nan if v is None else v for v in each.statistics] for each in (one, other)]
        np.testing.assert_allclose(*numbers, rtol=1e-7)


def check_kept(model, y, given, tmp_path):
    """The tables of a fit are those of its rows; those of its file have the same bits."""
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    options = list(OPTIONS)
    if model.summary().statistics and model.summary().llf is not None:
        options.append({"cov_type": "nonrobust"})
    for kind in options:
        same(model.summary(**kind), model.summary(X, y, **given, **kind))
        assert str(model.summary(**kind)) == str(again.summary(**kind))
    own, theirs = model.coef_interval(alpha=0.2), model.coef_interval(X, y, 0.2, **given)
    for a, b in zip(own, theirs, strict=True):
        np.testing.assert_allclose(a, b)
    if len(options) > len(OPTIONS):
        for kind in ({}, {"cov_type": "HC1", "use_t": False}):
            one, other = model.anova(**kind), model.anova(X, y, **given, **kind)
            for a, b in zip(one, other, strict=True):
                np.testing.assert_equal(a, b) if isinstance(a, (str, list)) else (
                    np.testing.assert_allclose(a, b, rtol=1e-6)
                )
            assert str(one) == str(again.anova(**kind))


@pytest.mark.parametrize("case", NUMBERS, ids=named)
def test_the_model_of_numbers_is_its_table(case, tmp_path):
    family, link, y, given = case
    model = GLMRegressor(family, link, potential="none").fit(X, y, **given)
    check_kept(model, y, given, tmp_path)
    fits = model._inferred(X, y, *(given.get(k) for k in ("sample_weight", "exposure", "offset")))
    used = np.asarray(given.get("sample_weight", np.ones(N))) > 0.0
    mean = np.column_stack([fit.sample.law.mean(fit.minimum.s) for fit in fits[0]])
    mean = mean * np.reshape(given.get("exposure", np.ones(N)), (-1, 1))[used]
    if isinstance(family, NegativeBinomial) or family == "negative_binomial":  # in the index
        mean = mean / np.reshape(given.get("exposure", np.ones(N)), (-1, 1))[used]
    if family in ("tweedie", "negative_binomial"):
        assert model.family_ == fits[0][0].family == model.summary().family
        assert None not in vars(model.family_).values()
    terms = {name: given[name] for name in ("exposure", "offset") if name in given}
    found = model.predict(X, **terms).reshape(N, -1)[used]
    np.testing.assert_allclose(found, mean, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("case", CLASSES, ids=named)
def test_the_model_of_classes_is_its_table(case, tmp_path):
    family, link, y = case
    model = GLMClassifier(family, link, potential="none").fit(X, y)
    check_kept(model, y, {}, tmp_path)
    fits, *_ = model._inferred(X, y, None, None, None)
    p = model.predict_proba(X)
    if hasattr(model.family_, "probabilities"):
        own = fits[0].sample.law.family.probabilities(fits[0].minimum.s)
    else:
        own = np.column_stack([fit.sample.law.mean(fit.minimum.s) for fit in fits])
        own = np.hstack([1.0 - own, own]) if len(fits) == 1 else own / own.sum(1, keepdims=True)
    np.testing.assert_allclose(p, own, atol=1e-9)
    assert model.score(X, y) == np.mean(model.predict(X) == y)


def test_predictions_are_those_of_statsmodels():
    A = sm.add_constant(pd.get_dummies(X.fillna("missing"), dtype=float).drop(columns="city_b"))
    fit = sm.GLM(COUNTS, A, sm.families.Poisson(), exposure=EXPOSURE).fit(tol=1e-13)
    model = GLMRegressor("poisson", potential="none").fit(X, COUNTS, exposure=EXPOSURE)
    np.testing.assert_allclose(model.predict(X, exposure=EXPOSURE), fit.mu, rtol=1e-9)
    np.testing.assert_allclose(model.summary().llf, fit.llf)
    logit = sm.Logit(CODES > 0, A).fit(disp=0, tol=1e-13)
    model = GLMClassifier(potential="none").fit(X, CODES > 0)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], logit.predict(), rtol=1e-8)


@pytest.mark.parametrize("made", [sparse.csr_array, np.asarray, np.float32])
def test_containers_make_no_difference(made):
    A = X[["x", "z"]].to_numpy()
    whole = GLMRegressor("poisson", potential="none").fit(A, COUNTS)
    one = GLMRegressor("poisson", potential="none").fit(made(A), COUNTS)
    tol = 1e-5 if made is np.float32 else 1e-10
    np.testing.assert_allclose(one.coef_, whole.coef_, rtol=tol)
    assert one.coef_.dtype == made(A).dtype
    bare = GLMRegressor("poisson", potential="none", fit_intercept=False).fit(A, COUNTS)
    assert bare.intercept_ == 0.0 and bare.summary().names == ["x0", "x1"]


def test_a_default_table_says_how_far_predictions_are():
    model = GLMRegressor("poisson", random_state=0).fit(X, COUNTS, exposure=EXPOSURE)
    table = model.summary()
    exact = GLMRegressor("poisson", potential="none").fit(X, COUNTS, exposure=EXPOSURE)
    gap = 100.0 * np.abs(model.predict(X, exposure=EXPOSURE) / exact.predict(X, exposure=EXPOSURE))
    most = f"{np.abs(gap - 100.0).max():.3g} % at most"
    assert most in table.note and "regularised" in table.note
    assert "regularised" not in exact.summary().note
    same(table, model.summary(X, COUNTS, exposure=EXPOSURE))
    classes = GLMClassifier(random_state=0).fit(X, CODES)
    assert "its probabilities differ" in classes.summary().note


def test_what_is_aliased_or_separable_is_named():
    A = X[["x", "z"]].assign(twice=2.0 * X["x"])
    with pytest.warns(UserWarning, match="twice has no coefficient, linear combination"):
        model = GLMRegressor("poisson", potential="none").fit(A, COUNTS)
    assert model.coef_[2] == 0.0 and np.isnan(model.summary().coef[2])
    for made in (GLMClassifier(potential="none"), GLMClassifier("ordinal", potential="none")):
        with pytest.raises(ValueError, match="separable, and no coefficient is finite.*x"):
            made.fit(A[["x", "z"]], np.digitize(A["x"], [-0.5, 0.5][: 1 + (made.family != "auto")]))
    with pytest.warns(UserWarning, match="separable"):  # the default has a model, and no table
        model = GLMRegressor("binomial", random_state=0).fit(A[["x", "z"]], A["x"] > 0.0)
    with pytest.raises(ValueError, match="separable, and no coefficient is finite.*x"):
        model.summary()


@pytest.mark.parametrize(
    ("setting", "fit", "words"),
    [
        ({"constraint": "non_negative"}, {}, "has no constraint="),
        ({"link": "auto"}, {}, "name a link"),
        ({}, {"X_val": X, "y_val": COUNTS}, "nothing to choose by X_val="),
    ],
)
def test_what_maximum_likelihood_does_not_have_is_refused(setting, fit, words):
    with pytest.raises(ValueError, match=words):
        GLMRegressor("poisson", **({"potential": "none"} | setting)).fit(X, COUNTS, **fit)


def test_maximum_likelihood_needs_all_rows():
    A, model = X[["x", "z"]].to_numpy(), GLMRegressor("poisson", potential="none")
    with pytest.raises(ValueError, match="needs all rows in memory"):
        model.fit_source(lambda: iter([(A, COUNTS)]))
    assert not hasattr(model, "partial_fit")
    with pytest.raises(ValueError, match="give sample_weight"):
        GLMClassifier(potential="none", class_weight="balanced").fit(A, CODES)
    two = np.column_stack([COUNTS, COUNTS * (np.arange(N) % 7)])
    with pytest.raises(ValueError, match="another parameter"):
        GLMRegressor("negative_binomial", potential="none").fit(A, two)


def test_what_a_fit_does_not_keep_is_named():
    model = GLMRegressor("poisson", random_state=0).fit(X, COUNTS)
    with pytest.raises(ValueError, match="cluster' needs the rows"):
        model.summary(cov_type="cluster", groups=np.arange(N) % 9)
    with pytest.raises(ValueError, match="y is given without X"):
        model.summary(y=COUNTS)
    with pytest.raises(ValueError, match="kept no table of its rows"):
        RidgePathRegressor().fit(X[["x"]], COUNTS).summary()
    with pytest.raises(ValueError, match="these: city"):
        model.summary(reference={"x": "1"})
    wide = GLMRegressor("gaussian", random_state=0).fit(RNG.normal(size=(20, 40)), np.arange(20.0))
    with pytest.raises(ValueError, match="20 coefficients are too many for 20 rows"):
        wide.summary()


def test_the_reference_is_the_level_of_most_rows_whatever_else_is_in_the_model():
    y, kind = np.arange(N) % 5, np.array(["t", "s"])[np.arange(N) % 2]  # as many rows of each
    given = [{}, {"sample_weight": 1.0 + 9.0 * (X["city"] == "a")}, {"exposure": EXPOSURE}]
    for columns in (["city"], ["x", "city", "kind"], ["kind", "city"]):
        for more in given:
            A = X.assign(kind=kind)[columns]
            table = GLMRegressor("poisson", potential="none").fit(A, y, **more).summary()
            assert table.reference["city"] == "b" and table.reference.get("kind", "s") == "s"


@pytest.mark.parametrize("link", [None, "probit"])
def test_an_offset_of_two_classes_is_that_of_statsmodels(link, tmp_path):
    y, offset = CODES > 0, 0.7 * X["z"].to_numpy()
    A = sm.add_constant(X[["x"]])
    family = sm.families.Binomial(None if link is None else sm.families.links.Probit())
    peer = sm.GLM(1.0 * y, A, family, offset=offset).fit(tol=1e-13)
    exact = GLMClassifier(link=link, potential="none").fit(X[["x"]], y, offset=offset)
    p = exact.predict_proba(X[["x"]], offset=offset)[:, 1]
    np.testing.assert_allclose(p, peer.mu, rtol=1e-7)
    table = exact.summary(cov_type="nonrobust", use_t=False)
    np.testing.assert_allclose(table.coef, peer.params[["x", "const"]], rtol=1e-6)
    if link is None:
        np.testing.assert_allclose(table.standard_error, peer.bse[["x", "const"]], rtol=1e-6)
    features, named = X[["x", "z"]], X[["x", "z"]].assign(known=offset)
    model = GLMClassifier(link=link, random_state=0).fit(named, y, offset="known")
    again = GLMClassifier(link=link, random_state=0).fit(features, y, offset=offset)
    assert np.array_equal(model.predict_proba(named), again.predict_proba(features, offset))
    assert np.abs(again.predict_proba(features, offset)[:, 1] - p).max() < 0.3
    save_model(exact, tmp_path / "model")
    for one in (exact, load_model(tmp_path / "model")):
        for ask in (one.predict, one.predict_proba, one.decision_function):
            with pytest.raises(ValueError, match="fitted with offset=: give offset="):
                ask(X[["x"]])
        with pytest.raises(ValueError, match="fitted with offset=: give offset="):
            one.score(X[["x"]], y)
        assert one.score(X[["x"]], y, offset=offset) == np.mean((p > 0.5) == y)
    with pytest.raises(ValueError, match="changes nothing for 3 classes: give one column"):
        GLMClassifier().fit(X[["x"]], CODES, offset=offset)
    with pytest.raises(ValueError, match="fitted without offset="):
        GLMClassifier().fit(X[["x"]], y).predict(X[["x"]], offset=offset)


def amounts(rng, mean, power):
    """Poisson numbers of gamma amounts: Tweedie's distribution of dispersion 1."""
    number = rng.poisson(mean ** (2.0 - power) / (2.0 - power))
    shape, scale = (2.0 - power) / (power - 1.0), (power - 1.0) * mean ** (power - 1.0)
    return np.where(number > 0, rng.gamma(np.maximum(number, 1) * shape, scale), 0.0)


@pytest.mark.parametrize("seed", [0, 1])
def test_an_unknown_parameter_is_that_of_maximum_likelihood_at_every_call(seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(1500, 1))
    mean = np.exp(0.5 * A[:, 0] + 1.0)
    y = amounts(rng, mean, 4.0 / 3.0)
    models = [GLMRegressor("tweedie").fit(A, y) for _ in range(2)]  # without a seed
    assert models[0].family_ == models[1].family_ == models[0].summary().family
    assert abs(models[0].family_.power - 4.0 / 3.0) < 0.05
    assert "np.float64" not in repr(models[0].family_)
    counts = rng.negative_binomial(1.0 / 0.7, 1.0 / (1.0 + 0.7 * mean))
    model = GLMRegressor("negative_binomial").fit(A, counts)
    peer = sm.NegativeBinomial(counts, sm.add_constant(A)).fit(disp=0, maxiter=200)
    assert model.family_.dispersion == pytest.approx(peer.params[-1], rel=1e-3)
    assert GLMRegressor("negative_binomial").fit(A, counts).family_ == model.family_
