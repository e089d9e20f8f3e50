"""Displays draw what the estimators found."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

from tunefree import (
    BoostedTreesClassifier,
    BoostedTreesRegressor,
    GLMClassifier,
    GLMRegressor,
    KernelRidgeRegressor,
    OptimisticPerceptron,
    PiSTOLClassifier,
    ReflectronRegressor,
    RidgePathRegressor,
    StreamClassifier,
    TuneFreeRegressor,
)
from tunefree.plots import (
    CalibrationDisplay,
    DriftDisplay,
    ExplanationDisplay,
    IntervalDisplay,
    LeaderboardDisplay,
    LeverageDisplay,
    LiftDisplay,
    PartialResidualDisplay,
    QQDisplay,
    ResidualsDisplay,
    RiskCurveDisplay,
    WeightsDisplay,
)

matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture
def ax():
    matplotlib.use("Agg")
    from matplotlib import pyplot

    yield pyplot.subplots()[1]
    pyplot.close("all")


@pytest.fixture(scope="module")
def classifier():
    X, y = load_breast_cancer(return_X_y=True)
    return PiSTOLClassifier(random_state=0).fit(X, y)


def test_drift_shows_errors_and_the_half_life(ax):
    X = np.random.default_rng(0).normal(size=(300, 2))
    model = StreamClassifier().partial_fit(X, X[:, 0] > 0)
    display = DriftDisplay.from_estimator(model, ax=ax)
    so_far, life = display.lines_[1:]
    assert so_far.get_ydata()[-1] == pytest.approx(model.progressive_error_)
    assert life.get_ydata()[-1] == model.half_life_
    with pytest.raises(ValueError, match="has no drift_"):
        DriftDisplay.from_estimator(OptimisticPerceptron().fit(X, X[:, 0] > 0))


def test_risk_curves_of_a_portfolio_end_at_the_leaderboard(classifier, ax):
    display = RiskCurveDisplay.from_estimator(classifier, ax=ax)
    assert len(display.lines_) == len(classifier.leaderboard_)
    for line in display.lines_:
        assert (line.get_ydata() == display.curves[line.get_label()][1]).all()
        assert line.get_xdata()[-1] == 569


def test_risk_curves_of_a_reflectron_show_both_risks(ax):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 5))
    model = ReflectronRegressor(link="identity", potential="euclidean", random_state=0)
    display = RiskCurveDisplay.from_estimator(model.fit(X, X[:, 0]), ax=ax)
    solid, dashed = display.lines_
    assert (solid.get_linestyle(), dashed.get_linestyle()) == ("-", "--")
    assert solid.get_ydata()[-1] < solid.get_ydata()[0]


def test_the_leaderboard_marks_the_chosen(classifier, ax):
    display = LeaderboardDisplay.from_estimator(classifier, ax=ax)
    widths = [bar.get_width() for bar in display.bars_]
    assert widths == sorted(e["progressive_error"] for e in classifier.leaderboard_)
    assert display.chosen == [e["chosen"] for e in classifier.leaderboard_]


def test_weights_are_drawn_beside_the_truth(classifier, ax):
    display = WeightsDisplay.from_estimator(classifier, truth=np.zeros(30), ax=ax)
    assert (display.weights == classifier.coef_[0]).all()
    assert {t.get_text() for t in ax.get_legend().get_texts()} == {"learned", "true"}


def test_what_cannot_be_drawn_is_refused():
    X, y = np.arange(6.0)[:, None], np.array([0, 1, 2, 0, 1, 2])
    with pytest.raises(ValueError, match="trace_"):
        RiskCurveDisplay.from_estimator(RidgePathRegressor(solver="exact").fit(X, y))
    with pytest.raises(ValueError, match="leaderboard_"):
        LeaderboardDisplay.from_estimator(OptimisticPerceptron().fit(X, y))


def test_the_leaderboard_of_a_stack_tells_the_shares(ax):
    display = LeaderboardDisplay(
        ["a", "b", "c"], np.array([0.3, 0.1, 0.2]), chosen=[True, True, False],
        shares=[0.25, 0.75, 0.0],
    ).plot(ax)  # fmt: skip
    assert [t.get_text() for t in ax.get_yticklabels()] == ["b, 75%", "c", "a, 25%"]
    colours = [bar.get_facecolor() for bar in display.bars_]
    assert colours[0] == colours[2] != colours[1]


def test_how_sure_a_model_is_is_drawn(ax):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = X[:, 0] + rng.normal(size=300)
    model = KernelRidgeRegressor(random_state=0).fit(X[:100], y[:100])
    display = IntervalDisplay.from_estimator(model, X[100:], y[100:], ax=ax)
    low, high = display.intervals.T
    inside, outside = ax.lines[1:]
    assert len(inside.get_xdata()) == np.sum((low <= y[100:]) & (y[100:] <= high))
    assert len(inside.get_xdata()) + len(outside.get_xdata()) == 200


@pytest.mark.parametrize("data", [load_diabetes, load_wine])
def test_explanations_are_drawn_of_one_row_or_in_the_mean(data, ax):
    X, y = data(return_X_y=True)
    made = BoostedTreesRegressor if data is load_diabetes else BoostedTreesClassifier
    model = made(random_state=0).fit(X, y)
    found = model.explain(X[:9])
    display = ExplanationDisplay.from_estimator(model, X[:9], ax=ax, most=4)
    mean = np.abs(found.values.reshape(9, X.shape[1], -1)).mean(axis=(0, 2))
    widths = [bar.get_width() for bar in display.bars_]
    np.testing.assert_allclose(widths, np.sort(mean)[::-1][:4])
    names = [f"x{j}" for j in np.argsort(-mean)[:4]]
    assert [t.get_text() for t in ax.get_yticklabels()] == names
    row = ExplanationDisplay.from_explanation(found, row=3)
    k = int(np.argmax(found.score[3])) if made is BoostedTreesClassifier else 0
    scores, base = np.ravel(found.score[3]), np.ravel(found.base_value)
    assert row.values.sum() == pytest.approx(scores[k] - base[k])
    assert row.ax_ is not ax and f"{scores[k]:.4g}" in row.ax_.get_xlabel()


def test_of_a_stack_columns_are_named_and_candidates_have_error_bars(ax):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = pandas.DataFrame({"income per head, $": rng.normal(size=60), "age": rng.normal(size=60)})
    model = TuneFreeRegressor(random_state=0).fit(X, X["age"] + 0.1 * rng.normal(size=60))
    display = WeightsDisplay.from_estimator(model, ax=ax)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["age", r"income per head, \$"]
    assert display.figure_ is ax.figure and display.weights.sum() == pytest.approx(1.0)
    display = LeaderboardDisplay.from_estimator(model)
    display.figure_.canvas.draw()  # nothing is cut off
    assert display.ax_.has_data() and display.figure_ is display.ax_.figure
    assert min(t.get_window_extent().x0 for t in display.ax_.get_yticklabels()) >= 0


@pytest.fixture(scope="module")
def counts():
    """A frame with a category, counts, exposures and offsets."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=150), "k": rng.choice(["u", "v"], 150)})
    exposure, offset = rng.uniform(0.5, 2.0, 150), 0.1 * rng.normal(size=150)
    return frame, rng.poisson(exposure * np.exp(offset + 0.5 * frame["x"])), exposure, offset


@pytest.mark.parametrize("terms", [(), ("exposure",), ("offset",), ("exposure", "offset")])
def test_intervals_of_rows_with_terms_are_drawn(counts, ax, terms):
    frame, y, *values = counts
    given = {n: v for n, v in zip(("exposure", "offset"), values, strict=True) if n in terms}
    model = GLMRegressor(family="poisson", random_state=0).fit(frame, y, **given)
    weights = np.where(np.arange(150) < 10, 1.0, 0.0)
    shown = IntervalDisplay.from_estimator(model, frame, y, **given, sample_weight=weights, ax=ax)
    ends = model.predict_interval(frame, **given)[1][:10, :, 0]
    share = np.mean((ends[:, 0] <= y[:10]) & (y[:10] <= ends[:, 1]))
    labels = [text.get_text() for text in shown.ax_.get_legend().get_texts()]
    assert f"{share:.1%} of targets inside" in labels


@pytest.mark.parametrize("kind", ["two classes", "three classes", "numbers", "formula"])
def test_weights_of_categories_are_named_by_level(counts, ax, kind):
    frame, y = counts[:2]
    if kind == "formula":
        model = GLMRegressor(formula="y ~ x + C(k)", random_state=0).fit(frame.assign(y=y), None)
    elif kind == "numbers":
        model = GLMRegressor(family="poisson", random_state=0).fit(frame[["k", "x"]], y)
    else:
        cuts = [0.5] if kind == "two classes" else [0.5, 1.5]
        model = GLMClassifier(random_state=0).fit(frame, np.digitize(y, cuts))
    shown = WeightsDisplay.from_estimator(model, output=0, ax=ax)
    names = [text.get_text() for text in shown.ax_.get_yticklabels()]
    reference = frame["k"].value_counts().idxmax()
    other = "C(k)[T.v]" if reference == "u" else "C(k)[T.u]"
    levels = {other} if kind == "formula" else {"k[u]", "k[v]"}
    assert set(names) == {"x", *levels} and list(shown.names) == list(model.coef_names_)
    if kind == "numbers":
        u, v = (model.coef_[list(model.coef_names_).index(f"k[{level}]")] for level in "uv")
        one = pd.DataFrame({"k": ["u", "v"], "x": [0.0, 0.0]})
        assert np.isclose(np.diff(np.log(model.predict(one)))[0], v - u)


@pytest.fixture(scope="module")
def rates(counts):
    """A model of counts with an exposure, and its rows."""
    frame, y, exposure, _ = counts
    model = GLMRegressor(family="poisson", random_state=0).fit(frame, y, exposure=exposure)
    return model, (frame, y), {"exposure": exposure}


def test_residuals_are_drawn_over_the_fitted_means(rates, ax):
    model, rows, term = rates
    shown = ResidualsDisplay.from_estimator(model, *rows, kind="pearson", **term, ax=ax)
    np.testing.assert_allclose(shown.fitted, model.predict_mean_interval(rows[0], **term)[0])
    np.testing.assert_allclose(shown.residuals, model.residuals(*rows, "pearson", **term))
    assert ax.get_ylabel() == "pearson residual" and ax.get_xlabel() == "fitted mean"


def test_a_true_model_is_in_the_band_of_quantiles(rates, ax):
    model, rows, term = rates
    shown = QQDisplay.from_estimator(model, *rows, **term, random_state=0, ax=ax)
    assert shown.outside_ == 0.0
    rng = np.random.default_rng(0)
    _, low, high = QQDisplay(np.zeros(100)).band()
    drawn = np.sort(rng.normal(size=(2000, 100)), axis=1)
    inside = ((low <= drawn) & (drawn <= high)).all(axis=1).mean()
    assert abs(inside - 0.95) < 0.02
    wrong = QQDisplay(2.0 * rng.normal(size=300)).plot(ax)
    assert wrong.outside_ > 0.2 and "outside" in ax.get_legend().get_texts()[-1].get_text()


def test_leverage_names_the_rows_of_the_largest_distance(rates, ax):
    model, rows, term = rates
    shown = LeverageDisplay.from_estimator(model, *rows, **term, most=3, ax=ax)
    table = model.influence(*rows, **term)
    assert [text.get_text() for text in ax.texts] == [str(i) for i in table.largest(3)]
    assert shown.n_coefs == 3


def test_partial_residuals_of_numbers_and_levels(rates, ax):
    model, rows, term = rates
    shown = PartialResidualDisplay.from_estimator(model, *rows, column="x", **term, ax=ax)
    slope = np.polyfit(shown.values, shown.effect, 1)[0]
    assert slope == pytest.approx(model.summary().coef[0])
    shown = PartialResidualDisplay.from_estimator(model, *rows, column="k", **term)
    assert [text.get_text() for text in shown.ax_.get_xticklabels()] == ["u", "v"]


@pytest.mark.parametrize("kind", ["glm", "trees", "classes"])
def test_calibration_and_lift_are_per_exposure(rates, ax, kind):
    model, (frame, y), term = rates
    if kind == "trees":
        model = BoostedTreesRegressor(loss="poisson", random_state=0)
        frame = frame[["x"]]
        model.fit(frame, y, **term)
    elif kind == "classes":
        y, term = np.where(y > 0, "some", "none"), {}
        model = GLMClassifier(random_state=0).fit(frame, y)
    shown = CalibrationDisplay.from_estimator(model, frame, y, **term, ax=ax, n_bins=5)
    target = (y == "some") if kind == "classes" else y
    mean = model.predict_proba(frame)[:, 1] if kind == "classes" else model.predict(frame, **term)
    assert shown.ratio_ == pytest.approx(target.sum() / mean.sum())
    predicted, observed, error = shown.groups(5)
    assert (np.diff(predicted) > 0.0).all() and (error >= 0.0).all() and len(predicted) <= 5
    lift = LiftDisplay.from_estimator(model, frame, y, **term, n_bins=5)
    np.testing.assert_allclose(lift.lift_ * target.sum() / shown.weights.sum(), observed)
    # A row of weight 2 is that row twice.
    weights = np.arange(150) % 3.0
    again = np.repeat(np.arange(150), weights.astype(int))
    exposure = term.get("exposure")
    one = CalibrationDisplay.from_predictions(
        target, mean, exposure=exposure, sample_weight=weights
    )
    two = CalibrationDisplay.from_predictions(
        target[again], mean[again], exposure=None if exposure is None else exposure[again]
    )
    assert one.ratio_ == pytest.approx(two.ratio_)
    with pytest.raises(ValueError, match="give one target and one mean a row"):
        LiftDisplay.from_predictions(target, mean[:4])
