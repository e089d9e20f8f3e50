"""Residuals, influence and bands of the mean are those of statsmodels on its data sets."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from test_summary_statistics import SETS, _fitted, _peer, sm

from tunefree import GLMClassifier, GLMRegressor
from tunefree.parts.families import NegativeBinomial, Quantile, Tweedie

# Families whose link is not their own: statsmodels mixes two kinds of information in their dfbetas.
OTHER_LINKS = {"scotland", "scotland, inverse Gaussian", "fair", "cpunish, negative binomial"}
OF = ["likelihood", "predictions"]


def _near(ours, theirs, to=1e-6):
    theirs = np.asarray(theirs)
    np.testing.assert_allclose(ours, theirs, rtol=to, atol=to * np.abs(theirs).max())


@pytest.fixture(scope="module", params=SETS)
def pair(request):
    made, family, theirs = SETS[request.param]
    X, y, terms = made()
    model = GLMRegressor(family=family, random_state=0).fit(X, y, **terms)
    with warnings.catch_warnings(action="ignore"):  # of statsmodels
        peer = _fitted(_peer(X, y, theirs, **terms))
    return request.param, model, (X, y), terms, peer


@pytest.mark.filterwarnings("ignore")  # of statsmodels
@pytest.mark.parametrize("kind", ["deviance", "pearson", "response", "working"])
def test_residuals_are_those_of_statsmodels(pair, kind):
    name, model, rows, terms, peer = pair
    theirs = getattr(peer, f"resid_{kind}")
    if name == "star98" and kind == "working":  # it is times the trials, twice; in R it is not
        theirs = theirs / terms["exposure"] ** 2
    _near(model.residuals(*rows, kind, **terms), theirs)


@pytest.mark.filterwarnings("ignore")
def test_influence_is_that_of_statsmodels(pair):
    name, model, rows, terms, peer = pair
    for observed in (True, False):
        table = model.influence(*rows, observed=observed, **terms)
        theirs = peer.get_influence(observed=observed)
        _near(table.leverage, theirs.hat_matrix_diag)
        _near(table.resid_studentized, theirs.resid_studentized)
        _near(table.cooks_distance, theirs.cooks_distance[0])
        assert table.leverage.sum() == pytest.approx(table.dfbetas.shape[1])
        if name in OTHER_LINKS and observed:
            continue
        frame = theirs.summary_frame()
        _near(table.dfbetas, theirs.dfbetas)
        if name != "cancer":  # it forgets the exposure
            _near(table.dffits, frame["dffits_internal"])
            assert list(table.to_frame().columns[-4:]) == [
                "cooks_d", "standard_resid", "hat_diag", "dffits_internal",
            ]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_bands_of_the_mean_are_those_of_statsmodels(pair):
    name, model, (X, y), terms, peer = pair
    mean, ends = model.predict_mean_interval(
        X, [0.05, 0.2], cov_type="nonrobust", use_t=False, **terms
    )
    assert ends.shape == (len(y), 2, 2)
    # Its means are per trial, and per person: an exposure is not among its rows.
    factor = np.asarray(terms.get("exposure", 1.0))
    for k, alpha in enumerate([0.05, 0.2]):
        theirs = peer.get_prediction().summary_frame(alpha=alpha)
        _near(mean, theirs["mean"] * factor)
        _near(ends[:, 0, k], theirs["mean_ci_lower"] * factor)
        _near(ends[:, 1, k], theirs["mean_ci_upper"] * factor)


def _counts(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"x": rng.normal(size=n), "k": rng.choice(["u", "v", "w"], n)})
    exposure = rng.uniform(0.5, 2.0, n)
    mean = exposure * np.exp(0.5 * X["x"].to_numpy() + 0.3 * (X["k"] == "v").to_numpy())
    return X, rng.poisson(mean), exposure


def _drawn(family, mean, rng):
    """Targets of a family with these means."""
    if family == "poisson":
        return rng.poisson(mean).astype(float)
    if family == "gaussian":
        return mean + rng.normal(size=mean.shape)
    if family == "gamma":
        return rng.gamma(3.0, mean / 3.0)
    if family == "inverse_gaussian":
        return rng.wald(mean, 2.0)
    if family == "binomial":
        return rng.binomial(1, mean / (1.0 + mean)).astype(float)
    if isinstance(family, NegativeBinomial):
        return rng.negative_binomial(2.0, 2.0 / (2.0 + mean)).astype(float)
    number = rng.poisson(2.0 * np.sqrt(mean))  # Tweedie of power 1.5 and dispersion 1
    return np.array([rng.gamma(k, np.sqrt(m) / 2.0) for k, m in zip(number, mean, strict=True)])


FAMILIES = [
    "gaussian", "poisson", "gamma", "inverse_gaussian", "binomial", NegativeBinomial(0.5),
    Tweedie(1.5),
]  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_quantile_residuals_of_a_true_model_are_normal(family):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2000, 2))
    y = _drawn(family, np.exp(0.5 * X[:, 0] + 0.5), rng)
    model = GLMRegressor(family=family, random_state=0).fit(X, y)
    r = model.residuals(X, y, "quantile", random_state=0)
    assert stats.kstest(r, "norm").pvalue > 0.01
    assert (r == model.residuals(X, y, "quantile", random_state=0)).all()
    # The squares of the others are the statistics of the model.
    table = model.summary()
    assert np.sum(model.residuals(X, y, "pearson") ** 2) == pytest.approx(table.pearson_chi2)
    assert np.sum(model.residuals(X, y) ** 2) == pytest.approx(table.deviance)


def test_quantile_residuals_are_exact_far_in_the_tails():
    X = np.linspace(-1.0, 1.0, 40)[:, None]
    y = np.r_[np.ones(39), 60.0]
    model = GLMRegressor(family="poisson", random_state=0).fit(X, np.r_[np.ones(39), 2.0])
    r = model.residuals(X, y, "quantile", random_state=0)
    assert np.isfinite(r).all() and 15.0 < r[-1] < 30.0  # a probability below 1e-60


def test_a_row_of_weight_two_is_that_row_twice():
    X, y, exposure = _counts(60)
    weights = np.arange(60) % 3.0  # 0, 1, 2
    model = GLMRegressor(family="poisson", random_state=0)
    model.fit(X, y, sample_weight=weights, exposure=exposure)
    table = model.influence(X, y, weights, exposure=exposure)
    again = np.repeat(np.arange(60), weights.astype(int))
    own = model.influence(X.iloc[again], y[again], exposure=exposure[again])
    assert np.isnan(table.leverage[weights == 0.0]).all()
    for ours, theirs in zip(table[1:], own[1:], strict=True):
        np.testing.assert_allclose(ours[again], theirs, atol=1e-9)
    r = model.residuals(X, y, "pearson", weights, exposure=exposure)
    assert np.sum(weights * r**2) == pytest.approx(model.summary().pearson_chi2)
    precise = model.residuals(X, y, "pearson", weights, exposure=exposure, weight_type="precision")
    np.testing.assert_allclose(precise, np.sqrt(weights) * r)


@pytest.mark.parametrize("of", OF)
def test_residuals_of_new_rows_are_of_the_model_that_was_fitted(of):
    X, y, exposure = _counts()
    half = np.arange(400) < 200
    model = GLMRegressor(family="poisson", random_state=0)
    model.fit(X[half], y[half], exposure=exposure[half])
    new, known = X[~half], {"exposure": exposure[~half]}
    r = model.residuals(new, y[~half], "response", of=of, **known)
    mean = model.predict(new, **known) if of == "predictions" else None
    mean = model.predict_mean_interval(new, **known)[0] if mean is None else mean
    np.testing.assert_allclose(r, y[~half] - mean, atol=1e-9)
    assert model.residuals(new, y[~half], "quantile", of=of, **known).std() < 1.3


def test_two_classes_have_residuals_and_bands():
    made, _, _ = SETS["spector"]
    X, y, _ = made()
    labels = np.where(y == 1.0, "yes", "no")
    model = GLMClassifier(random_state=0).fit(X, labels)
    shares = GLMRegressor(family="binomial", random_state=0).fit(X, y)
    for kind in ("deviance", "pearson", "response", "working"):
        np.testing.assert_allclose(model.residuals(X, labels, kind), shares.residuals(X, y, kind))
    np.testing.assert_allclose(model.influence(X, labels)[1], shares.influence(X, y)[1])
    for ours, theirs in zip(
        model.predict_mean_interval(X), shares.predict_mean_interval(X), strict=True
    ):
        np.testing.assert_allclose(ours, theirs)
    r = model.residuals(X, labels, "response", of="predictions")
    np.testing.assert_allclose(r, (labels == "yes") - model.predict_proba(X)[:, 1])


def test_two_classes_have_an_offset():
    made, _, _ = SETS["spector"]
    X, y, _ = made()
    offset = np.linspace(-0.5, 0.5, len(y))
    model = GLMClassifier(potential="none").fit(X, y, offset=offset)
    peer = _fitted(_peer(X, y, sm.families.Binomial(), offset=offset))
    for of in OF:
        _near(model.residuals(X, y, offset=offset, of=of), peer.resid_deviance)
    _near(model.influence(X, y, offset=offset).leverage, peer.get_hat_matrix_diag())
    ends = model.predict_mean_interval(X, offset=offset, cov_type="nonrobust", use_t=False)[1]
    theirs = peer.get_prediction(peer.model.exog, offset=offset).summary_frame()
    _near(ends[:, 0, 0], theirs["mean_ci_lower"])
    for call in (model.predict_mean_interval, lambda X: model.residuals(X, y, of="predictions")):
        with pytest.raises(ValueError, match="was fitted with offset="):
            call(X)
    with pytest.raises(ValueError, match="takes no exposure="):
        model.predict_mean_interval(X, exposure=1.0, offset=offset)


@pytest.mark.filterwarnings("ignore:Levels that fit has not seen")
def test_bands_are_wider_far_from_the_rows_and_unknown_levels_have_none():
    X, y, exposure = _counts()
    model = GLMRegressor(family="poisson", random_state=0).fit(X, y, exposure=exposure)
    new = pd.DataFrame({"x": [0.0, 3.0, 0.0], "k": ["v", "v", "z"]})
    with pytest.warns(UserWarning, match="1 rows have a level"):
        mean, ends = model.predict_mean_interval(new, exposure=1.0)
    for kind in ("deviance", "quantile"):
        with pytest.warns(UserWarning, match="1 rows have a level"):
            r = model.residuals(new, [1, 2, 3], kind, exposure=np.ones(3))
        assert np.isnan(r).tolist() == [False, False, True]
    width = (ends[:, 1] / ends[:, 0]).ravel()
    assert width[1] > width[0] and np.isnan(mean[2]) and np.isnan(ends[2]).all()
    new_targets = model.predict_interval(new[:2], 0.05, exposure=1.0)[1]
    assert (new_targets[:, 1] > ends[:2, 1]).all()


def test_several_targets_and_quantiles_have_a_column_each():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = X @ [[1.0, 0.0], [0.0, 2.0]] + rng.normal(size=(80, 2))
    model = GLMRegressor(family="gaussian", random_state=0).fit(X, y)
    assert model.residuals(X, y).shape == (80, 2)
    mean, ends = model.predict_mean_interval(X)
    assert mean.shape == (80, 2) and ends.shape == (80, 2, 2, 1)
    np.testing.assert_allclose(model.residuals(X, y, "response"), y - mean)
    with pytest.raises(ValueError, match="fit each target by itself"):
        model.influence(X, y)
    model = GLMRegressor(family=Quantile((0.1, 0.9)), random_state=0).fit(X, y[:, 0])
    assert model.residuals(X, y[:, 0], "response").shape == (80, 2)
    assert model.predict_mean_interval(X)[1].shape == (80, 2, 2, 1)


def test_rows_of_a_stream_forget_the_table():
    X, y = np.arange(60.0)[:, None] % 7, np.arange(60) % 5
    model = GLMRegressor(family="poisson", random_state=0).fit(X, y)
    model.partial_fit(X[:30], y[:30])
    with pytest.raises(ValueError, match="kept no table of its rows"):
        model.predict_mean_interval(X)
    r = model.residuals(X, y, "response", of="predictions")
    np.testing.assert_allclose(r, y - model.predict(X))


def test_maximum_likelihood_has_one_set_of_residuals():
    X, y, exposure = _counts()
    model = GLMRegressor(family="poisson", potential="none").fit(X, y, exposure=exposure)
    for kind in ("deviance", "pearson", "response", "working"):
        r = [model.residuals(X, y, kind, exposure=exposure, of=of) for of in OF]
        np.testing.assert_allclose(*r, atol=1e-8)


@pytest.mark.parametrize("form", ["frame", "array", "formula"])
def test_partial_residuals_are_the_effect_and_working_residuals(form):
    X, y, exposure = _counts()
    term = {"exposure": exposure}
    model = GLMRegressor(family="poisson", random_state=0)
    if form == "formula":
        model.set_params(formula="y ~ x + C(k)")
        X = X.assign(y=y)
    rows = X[["x"]].to_numpy() if form == "array" else X
    model.fit(rows, None if form == "formula" else y, **term)
    found = model.partial_residuals(rows, y, 0 if form == "array" else "x", **term)
    table = model.summary()
    slope = table.coef[table.names.index("x0" if form == "array" else "x")]
    x = np.asarray(X["x"])
    np.testing.assert_allclose(found.effect, slope * (x - x.mean()), atol=1e-9)
    working = model.residuals(rows, y, "working", **term)
    np.testing.assert_allclose(found.residuals - found.effect, working, atol=1e-9)
    # Their weighted regression on the column has its coefficient.
    fitted = np.polynomial.polynomial.polyfit(x, found.residuals, 1, w=np.sqrt(found.weights))
    if form == "array":
        assert fitted[1] == pytest.approx(slope)
    else:
        levels = model.partial_residuals(rows, y, "k", **term)
        assert set(levels.values) == {"u", "v", "w"}
        assert len(np.unique(levels.effect.round(9))) == 3
    with pytest.raises(ValueError, match="column='nothing' is none of"):
        model.partial_residuals(rows, y, "nothing", **term)


@pytest.mark.parametrize("potential", ["auto", "none"])
def test_terms_of_rows_may_be_columns_or_in_the_formula(potential):
    X, y, exposure = _counts()
    frame = X.assign(y=y, months=exposure, known=0.1 * X["x"])
    given = {"exposure": exposure, "offset": np.asarray(frame["known"])}
    made = {"family": "poisson", "potential": potential, "random_state": 0}
    plain = GLMRegressor(**made).fit(X, y, **given)
    named = GLMRegressor(**made).fit(frame.drop(columns="y"), y, exposure="months", offset="known")
    formula = "y ~ x + C(k, contr.treatment(base='w')) + offset(known)"
    written = GLMRegressor(formula=formula, **made).fit(frame, exposure="months")
    rows = {
        plain: (X, y, given),
        named: (frame.drop(columns="y"), y, {}),
        written: (frame, None, {}),
    }
    for of in OF if potential == "none" else OF[:1]:
        wanted = plain.residuals(X, y, of=of, **given)
        for model, (table, targets, own) in rows.items():
            np.testing.assert_allclose(
                model.residuals(table, targets, of=of, **own), wanted, atol=1e-7
            )
    wanted = plain.influence(X, y, **given), plain.predict_mean_interval(X, **given)[1]
    for model, (table, targets, own) in rows.items():
        found = model.influence(table, targets, **own), model.predict_mean_interval(table, **own)[1]
        np.testing.assert_allclose(found[0].cooks_distance, wanted[0].cooks_distance, atol=1e-7)
        np.testing.assert_allclose(found[1], wanted[1], rtol=1e-7)
        partial = model.partial_residuals(table, targets, "x", **own)
        again = plain.partial_residuals(X, y, "x", **given)
        np.testing.assert_allclose(partial.residuals, again.residuals, atol=1e-7)


def test_what_is_not_defined_is_a_sentence():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    y = X[:, 0] + rng.normal(size=90)
    huber = GLMRegressor(family="huber", random_state=0).fit(X, y)
    assert np.abs(huber.residuals(X, y, "response").mean()) < 0.2
    for kind in ("deviance", "pearson", "quantile"):
        with pytest.raises(ValueError, match="not defined for the family HuberT, which has no d"):
            huber.residuals(X, y, kind)
    with pytest.raises(ValueError, match="not defined for the family HuberT"):
        huber.influence(X, y)
    counts = GLMRegressor(family="poisson", random_state=0).fit(X, rng.poisson(1.0, 90))
    with pytest.raises(ValueError, match="need counts, and y holds 0.5"):
        counts.residuals(X, np.full(90, 0.5), "quantile")
    with pytest.raises(ValueError, match="kind='devience' is none of .*did you mean 'deviance'"):
        counts.residuals(X, y, "devience")
    with pytest.raises(ValueError, match="of='predict' is none of likelihood, predictions"):
        counts.residuals(X, y, of="predict")
    with pytest.raises(ValueError, match="y has 90 rows, and X has 4"):
        counts.residuals(X[:4], np.ones(90))


@pytest.mark.parametrize("potential", ["auto", "none"])
@pytest.mark.parametrize("kind", [GLMRegressor, GLMClassifier])
def test_ranges_that_were_read_as_numbers_are_named_in_the_table(kind, potential):
    """R would have levels of them; here a category dtype has."""
    X, y, _ = _counts(120)
    X["age"] = np.array(["<25", "25-29", "30-35", ">35"])[np.arange(120) % 4]
    y = y > 1 if kind is GLMClassifier else y
    family = {} if kind is GLMClassifier else {"family": "poisson"}
    model = kind(**family, potential=potential, random_state=0).fit(X, y)
    for table in (model.summary(), model.summary(X, y)):
        assert "age" in table.names and "Ranges of age are their middles" in table.note
    model.fit(X.astype({"age": "category"}), y)
    assert "age[<25]" in model.summary().names and "Ranges" not in model.summary().note
    model.fit(X.drop(columns="age"), y)
    assert "Ranges" not in model.summary().note


@pytest.mark.filterwarnings("ignore:Levels that fit has not seen")
@pytest.mark.parametrize("kind", [GLMRegressor, GLMClassifier])
def test_maximum_likelihood_warns_of_levels_that_it_has_no_coefficient_of(kind):
    X, y, _ = _counts()
    y = y > 1 if kind is GLMClassifier else y
    family = {} if kind is GLMClassifier else {"family": "poisson"}
    model = kind(**family, potential="none").fit(X, y)
    told = model.predict if kind is GLMRegressor else model.predict_proba
    base = model.summary().reference["k"]
    new, known = (pd.DataFrame({"x": [0.0, 1.0], "k": [level, "u"]}) for level in ("z", base))
    with pytest.warns(UserWarning, match="1 rows have a level of which the fit has no coef"):
        found = told(new)
    np.testing.assert_array_equal(found, told(known))
