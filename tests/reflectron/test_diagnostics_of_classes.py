"""Residuals, influence and bands of three and more classes: statsmodels, and their laws."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit

from tunefree import GLMClassifier, GLMRegressor, load_model, save_model
from tunefree.parts.families import Binomial, MultinomialLogit, Ordinal
from tunefree.parts.links import LINKS
from tunefree.rows.levels import TableColumns
from tunefree.uncertainty.class_rows import ClassRows, probability_band, working
from tunefree.uncertainty.inference import inferred
from tunefree.uncertainty.influence import influence_of
from tunefree.uncertainty.laws import Law
from tunefree.uncertainty.mean_bands import mean_band
from tunefree.uncertainty.residuals import FittedRows
from tunefree.uncertainty.samples import CovarianceOptions

sm = pytest.importorskip("statsmodels.api")
from statsmodels.miscmodels.ordinal_model import OrderedModel  # noqa: E402

NAMES = ("multinomial", "ordinal")
KINDS = ("deviance", "pearson", "response", "working", "quantile", "probability")
OF = ("likelihood", "predictions")
FAMILIES = [
    MultinomialLogit(), Ordinal(), Ordinal(LINKS["probit"]), Ordinal(LINKS["cloglog"]),
]  # fmt: skip


def _voters():
    """Party identification, 0 to 6, of 944 voters."""
    data = sm.datasets.anes96.load_pandas()
    return data.exog, data.endog.astype(int)


def _drawn(family, n=400, seed=0):
    """Rows of two columns, three classes of a true model, and the probabilities."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    if family == "ordinal":
        below = expit(np.array([-0.7, 1.0]) - X @ [[1.0], [-0.5]])
        p = np.diff(below, axis=1, prepend=0.0, append=1.0)
    else:
        s = np.column_stack([np.zeros(n), X[:, 0] + 0.3, 0.5 * X[:, 1]])
        p = MultinomialLogit().probabilities(s)
    return X, (p.cumsum(axis=1) < rng.uniform(size=(n, 1))).sum(axis=1), p


def _fit(family, **options):
    return GLMClassifier(family, potential="none", **options)


@pytest.mark.filterwarnings("ignore")  # of statsmodels
def test_residuals_and_tests_are_those_of_statsmodels():
    X, y = _voters()
    A = np.column_stack([X, np.ones(len(X))])
    model, peer = _fit("multinomial").fit(X, y), sm.MNLogit(y, A).fit(method="newton", disp=0)
    for kind in ("response", "pearson"):
        r, theirs = model.residuals(X, y, kind), getattr(peer, f"resid_{kind}")
        np.testing.assert_allclose(r, theirs, atol=1e-6)
    missed = model.predict(X) != y
    np.testing.assert_array_equal(missed, peer.resid_misclassified == 1.0)
    fewer = ["logpopul", "selfLR", "income"]
    small = _fit("multinomial").fit(X[fewer], y)
    theirs = sm.MNLogit(y, A[:, [0, 1, 4, 5]]).fit(method="newton", disp=0)
    test = model.compare_lr_test(small)
    assert test.statistic == pytest.approx(2.0 * (peer.llf - theirs.llf), rel=1e-6)
    assert test.df_num == 12
    together = model.anova(X, y, terms=[["age", "educ"]])
    assert together.lr_statistic[0] == pytest.approx(test.statistic, rel=1e-8)
    # Ordered.
    ordered = _fit("ordinal").fit(X, y)
    peer = OrderedModel(y, X, distr="logit").fit(method="bfgs", disp=0, gtol=1e-8)
    theirs = OrderedModel(y, X[fewer], distr="logit").fit(method="bfgs", disp=0, gtol=1e-8)
    np.testing.assert_allclose(ordered.residuals(X, y, "probability"), peer.resid_prob, atol=1e-5)
    test = ordered.compare_lr_test(_fit("ordinal").fit(X[fewer], y))
    assert test.statistic == pytest.approx(2.0 * (peer.llf - theirs.llf), rel=1e-6)


@pytest.mark.parametrize("family", NAMES)
def test_squares_of_residuals_are_the_statistics_of_the_table(family):
    X, y = _voters()
    model = _fit(family).fit(X, y)
    table, p = model.summary(), model.predict_proba(X)
    assert np.sum(model.residuals(X, y) ** 2) == pytest.approx(table.deviance)
    pearson = model.residuals(X, y, "pearson") ** 2 * (1.0 - p)
    assert np.sum(pearson) == pytest.approx(table.pearson_chi2)
    for kind in KINDS[:-1]:
        r = [model.residuals(X, y, kind, of=of, random_state=0) for of in OF]
        np.testing.assert_allclose(*r, atol=1e-5)
    weights = 1.0 + np.arange(len(y)) % 3
    r = model.residuals(X, y, "deviance", weights, weight_type="precision")
    np.testing.assert_allclose(r, np.sqrt(weights) * model.residuals(X, y, "deviance", weights))


@pytest.mark.parametrize("family", NAMES)
def test_residuals_of_a_true_model_have_their_distribution(family):
    X, y, _ = _drawn(family, 4000)
    model = _fit(family).fit(X, y)
    r = model.residuals(X, y, "quantile", random_state=0)
    assert r.shape == ((4000,) if family == "ordinal" else (4000, 3))
    for column in np.atleast_2d(r.T):
        assert stats.kstest(column, "norm").pvalue > 0.01
    pearson = model.residuals(X, y, "pearson")
    np.testing.assert_allclose(pearson.mean(axis=0), 0.0, atol=0.05)
    np.testing.assert_allclose(pearson.std(axis=0), 1.0, atol=0.1)
    if family == "ordinal":
        assert abs(model.residuals(X, y, "probability").mean()) < 0.02


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_working_residuals_are_the_inverse_information_times_the_score(family):
    """The slopes of the probabilities are derivatives, and Fisher's information is theirs."""
    rng = np.random.default_rng(0)
    s = -np.sort(-rng.normal(size=(40, 3)), axis=1)
    if not family.tied:
        s[:, 0] = 0.0
    p, slopes = family.probabilities(s), family.slopes(s)
    codes = rng.integers(0, p.shape[1], 40)
    for j in range(3):
        step = 1e-6 * np.eye(3)[j]
        rise = (family.probabilities(s + step) - family.probabilities(s - step)) / 2e-6
        np.testing.assert_allclose(slopes[:, :, j], rise, atol=1e-8)
    information = np.einsum("nci,nc,ncj->nij", slopes, 1.0 / p, slopes)
    score = -family.residuals(None, s, family.codes(codes, p.shape[1]))[0]
    free = slice(0, None) if family.tied else slice(1, None)  # of a softmax less the first
    solved = np.linalg.solve(information[:, free, free], score[:, free, None])[:, :, 0]
    np.testing.assert_allclose(working(family, codes, p), solved, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("family", [MultinomialLogit(), Ordinal()], ids=str)
@pytest.mark.parametrize("kind", ["frequency", "precision"])
def test_two_classes_are_a_logistic_regression(family, kind):
    """Residuals, influence and the band of two classes are those of the binomial family."""
    X, y = _voters()
    X, codes = X.to_numpy(), (y.to_numpy() > 3).astype(int)
    weights, options = 1.0 + np.arange(len(y)) % 3, CovarianceOptions("HC3", None, kind)
    law, names = Law(Binomial(), LINKS["logit"]), list("abcde")
    binary = inferred(X, codes.astype(float), weights, law, True, names, options)
    law, Y = Law(family, LINKS["logit"]), family.codes(codes, 2)
    both = inferred(X, Y, weights, law, True, names, options, labels=["a", "b"])
    for observed in (True, False):
        ours, theirs = influence_of(both, observed), influence_of(binary, observed)
        assert ours.names[:2] == (["a", "b"] if family.tied else ["b: a", "b: b"])
        for name in ("leverage", "cooks_distance"):
            np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-6)
        for name in ("resid_studentized", "dffits"):
            np.testing.assert_allclose(
                getattr(ours, name), np.abs(getattr(theirs, name)), rtol=1e-6
            )
        np.testing.assert_allclose(ours.dfbetas[:, :5], theirs.dfbetas[:, :5], atol=1e-8)
    columns, alphas = TableColumns(names, names, []), np.array([0.05, 0.2])
    p, ends = probability_band(both, columns, X, alphas)
    mean, expected = mean_band(binary, columns, X, alphas)
    np.testing.assert_allclose(p[:, 1], mean, rtol=1e-7)
    np.testing.assert_allclose(ends[:, 1], expected, rtol=1e-5)
    np.testing.assert_allclose(ends[:, 0], 1.0 - ends[:, 1, ::-1], rtol=1e-6)
    rows = ClassRows(family, codes, p)
    index = np.log(p[:, 1] / p[:, 0])[:, None]
    one = FittedRows(Binomial(), LINKS["logit"], codes[:, None], mean[:, None], index, 1.0, 1.0)
    np.testing.assert_allclose(rows.residuals("working"), one.residuals("working"), rtol=1e-6)
    for kind in ("pearson", "response"):
        np.testing.assert_allclose(rows.residuals(kind)[:, 1:], one.residuals(kind), rtol=1e-6)
    size = np.abs(one.residuals("deviance")[:, 0])
    np.testing.assert_allclose(np.abs(rows.residuals("deviance")), size, rtol=1e-6)
    if family.tied:
        for kind in ("deviance", "probability", "quantile"):
            found = rows.residuals(kind, random_state=0)
            expected = one.residuals(kind, random_state=0)[:, 0]
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("family", NAMES)
def test_influence_is_what_a_row_changes(family):
    X, y, p = _drawn(family, 150)
    outlier = np.argmin(p[:, 0])
    y[outlier] = 0
    model = _fit(family).fit(X, y)
    table, coef = model.influence(X, y), model.summary().coef
    plain = model.summary(cov_type="nonrobust")
    error = plain.standard_error
    assert table.leverage.sum() == pytest.approx(len(coef))
    assert table.names == model.summary().names
    for i in [0, *table.largest(3).tolist()]:
        left = np.arange(150) != i
        change = coef - _fit(family).fit(X[left], y[left]).summary().coef
        np.testing.assert_allclose(table.dfbetas[i], change / error, rtol=0.2, atol=0.02)
        distance = change @ np.linalg.solve(plain.covariance, change) / len(coef)
        assert table.cooks_distance[i] == pytest.approx(distance, rel=0.2)
        assert table.dffits[i] ** 2 == pytest.approx(len(coef) * table.cooks_distance[i])
    assert outlier in table.largest(2)
    expected = model.influence(X, y, observed=False)
    assert expected.leverage.sum() == pytest.approx(len(coef))
    if family == "multinomial":
        np.testing.assert_allclose(table.cooks_distance, expected.cooks_distance, rtol=1e-8)
    # A row of weight 2 is that row twice.
    weights = np.arange(150) % 3.0
    again = np.repeat(np.arange(150), weights.astype(int))
    heavy = _fit(family).fit(X, y, weights).influence(X, y, weights)
    twice = _fit(family).fit(X[again], y[again]).influence(X[again], y[again])
    assert np.isnan(heavy.leverage[weights == 0.0]).all()
    for ours, theirs in zip(heavy[1:], twice[1:], strict=True):
        np.testing.assert_allclose(ours[again], theirs, atol=1e-7)


@pytest.mark.parametrize("family", NAMES)
@pytest.mark.parametrize("form", ["frame", "formula"])
def test_bands_are_the_delta_method(family, form, tmp_path):
    """Their log-odds have the error of all coefficients' slopes; saved models have the same."""
    rng = np.random.default_rng(0)
    X, y, _ = _drawn(family)
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(k=rng.choice(["u", "v", "w"], 400))
    frame["y"] = y
    rows = frame if form == "formula" else frame.drop(columns="y")
    made = {"formula": "y ~ a + b + C(k)"} if form == "formula" else {}
    model = _fit(family, **made).fit(rows, None if made else y)
    p, ends = model.predict_mean_interval(rows[:6], [0.05, 0.5], cov_type="nonrobust", use_t=False)
    np.testing.assert_allclose(p, model.predict_proba(rows[:6]), atol=1e-6)
    assert ends.shape == (6, 3, 2, 2)
    table = model.summary(cov_type="nonrobust", use_t=False)

    def log_odds(coef):
        """Of the probabilities, written out."""
        k = [name for name in table.names if "k" in name and not name.startswith("2")]
        A = [frame.a[:6], frame.b[:6]]
        A += [frame.k[:6] == level for level in "uvw" if any(f"{level}]" in name for name in k)]
        A = np.column_stack(A).astype(float)
        if family == "ordinal":
            below = expit(coef[4:] - A @ coef[:4, None])
            q = np.diff(below, axis=1, prepend=0.0, append=1.0)
        else:
            B = coef.reshape(2, 5)
            q = MultinomialLogit().probabilities(
                np.column_stack([np.zeros(6), A @ B[:, :4].T + B[:, 4]])
            )
        return np.log(q / (1.0 - q))

    np.testing.assert_allclose(log_odds(table.coef), np.log(p / (1.0 - p)), atol=1e-7)
    steps = 1e-5 * np.eye(len(table.coef))
    rises = [(log_odds(table.coef + h) - log_odds(table.coef - h)) / 2e-5 for h in steps]
    error = np.sqrt(np.einsum("inc,ij,jnc->nc", rises, table.covariance, rises))
    reach = stats.norm.ppf([0.975, 0.75]) * error[:, :, None]
    middle = log_odds(table.coef)[:, :, None]
    np.testing.assert_allclose(ends[:, :, 0], expit(middle - reach), atol=1e-6)
    np.testing.assert_allclose(ends[:, :, 1], expit(middle + reach), atol=1e-6)
    save_model(model, tmp_path / "m.tunefree")
    again = load_model(tmp_path / "m.tunefree").predict_mean_interval(rows[:6])
    np.testing.assert_array_equal(again[1], model.predict_mean_interval(rows[:6])[1])


@pytest.mark.filterwarnings("ignore:Levels that fit has not seen")
def test_bands_with_an_offset_and_of_unknown_levels():
    X, y, _ = _drawn("ordinal")
    offset = np.linspace(-1.0, 1.0, 400)
    model = _fit("ordinal").fit(X, y, offset=offset)
    p, _ = model.predict_mean_interval(X, offset=offset)
    np.testing.assert_allclose(p, model.predict_proba(X, offset=offset), atol=1e-8)
    r = model.residuals(X, y, "response", offset=offset)
    np.testing.assert_allclose(r, np.eye(3)[y] - p, atol=1e-8)
    assert model.influence(X, y, offset=offset).leverage.sum() == pytest.approx(4.0)
    with pytest.raises(ValueError, match="was fitted with offset="):
        model.predict_mean_interval(X)
    frame = pd.DataFrame({"x": X[:, 0], "k": np.where(X[:, 1] > 0.0, "u", "v")})
    model = _fit("multinomial").fit(frame, y)
    new = pd.DataFrame({"x": [0.0, 0.0], "k": ["u", "z"]})
    with pytest.warns(UserWarning, match="1 rows have a level"):
        p, ends = model.predict_mean_interval(new)
    assert np.isnan(p[1]).all() and np.isnan(ends[1]).all() and np.isfinite(ends[0]).all()
    with pytest.warns(UserWarning, match="1 rows have a level"):
        r = model.residuals(new, [0, 2], "quantile", random_state=0)
    assert np.isnan(r[1]).all() and np.isfinite(r[0]).all()


def test_probability_residuals_of_numbers():
    """P(Y < y) - P(Y > y), of counts and of continuous targets."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 1))
    y = rng.poisson(np.exp(0.5 * X[:, 0]))
    model = GLMRegressor("poisson", potential="none").fit(X, y)
    mean = model.predict(X)
    expected = stats.poisson.cdf(y - 1, mean) - stats.poisson.sf(y, mean)
    np.testing.assert_allclose(model.residuals(X, y, "probability"), expected, atol=1e-9)


def test_displays_are_of_a_class_or_of_grades():
    plots = pytest.importorskip("tunefree.plots")
    pytest.importorskip("matplotlib").use("Agg")
    X, y, _ = _drawn("multinomial")
    names = np.array(["x", "y", "z"])
    model, rows = _fit("multinomial").fit(X, names[y]), (X, names[y])
    shown = plots.ResidualsDisplay.from_estimator(model, *rows, label="y", random_state=0)
    np.testing.assert_allclose(shown.fitted, model.predict_proba(X)[:, 1], atol=1e-6)
    r = model.residuals(*rows, "quantile", random_state=0)
    np.testing.assert_array_equal(shown.residuals, r[:, 1])
    shown = plots.QQDisplay.from_estimator(model, *rows, label="z", random_state=0)
    np.testing.assert_array_equal(shown.residuals, r[:, 2])
    lines = plots.LeverageDisplay.from_estimator(model, *rows).ax_.lines
    assert len(lines) == 2  # of zero, and dots: no curves
    for display in (plots.ResidualsDisplay, plots.QQDisplay):
        with pytest.raises(ValueError, match="label=None is none of x, y, z"):
            display.from_estimator(model, *rows)
    with pytest.raises(ValueError, match="kind='working' has no column for every class"):
        plots.ResidualsDisplay.from_estimator(model, *rows, kind="working", label="x")
    graded = _fit("ordinal", categories=names).fit(*rows)
    shown = plots.ResidualsDisplay.from_estimator(graded, *rows, random_state=0)
    np.testing.assert_allclose(shown.fitted, graded.predict_proba(X) @ np.arange(3), atol=1e-6)
    with pytest.raises(ValueError, match="label='x': kind='quantile' has one residual a row"):
        plots.QQDisplay.from_estimator(graded, *rows, label="x")


def test_what_classes_do_not_have_is_a_sentence():
    X, y, _ = _drawn("multinomial")
    model = _fit("multinomial").fit(X, y)
    with pytest.raises(ValueError, match="kind='probability' is not defined for classes without"):
        model.residuals(X, y, "probability")
    with pytest.raises(ValueError, match="Partial residuals are not defined for the 3 classes"):
        model.partial_residuals(X, y, 0)
    with pytest.raises(ValueError, match="kind='devience' is none of"):
        model.residuals(X, y, "devience")
    with pytest.raises(ValueError, match="y has 400 rows, and X has 4"):
        model.residuals(X[:4], y)
    apart = GLMClassifier(link="probit", random_state=0).fit(X, y)
    for call in (apart.residuals, apart.influence):
        with pytest.raises(ValueError, match="not defined for 3 classes with an output each"):
            call(X, y)
    with pytest.raises(ValueError, match="not defined for 3 classes with an output each"):
        apart.predict_mean_interval(X)
