"""Families of GLMs: what they learn, exposures, offsets, links, categories, limits."""

import json

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from scipy.optimize import minimize_scalar
from sklearn import metrics
from sklearn.utils.estimator_checks import estimator_checks_generator

from hidden import with_settings
from tunefree import (
    GLMClassifier,
    GLMRegressor,
    TuneFreeRegressor,
    load_model,
    save_model,
)
from tunefree.base.from_source import SourceSample
from tunefree.parts.families import (
    FAMILIES,
    MultinomialLogit,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Quantile,
    Tweedie,
    family_of,
)
from tunefree.parts.links import LINKS, Learned, Softplus
from tunefree.parts.losses import Pinball
from tunefree.reflectron import choice as families
from tunefree.reflectron import mirror
from tunefree.reflectron.constraints import Bounds, Monotone
from tunefree.reflectron.potentials import Grouped, Hypentropy

RNG = np.random.default_rng(0)
THETA = np.array([0.5, -0.3, 0.0, 0.2])
X = RNG.normal(size=(1500, 4))
ETA = X @ THETA + 0.4
MU = np.exp(ETA)
Y = {
    "gaussian": ETA + 0.5 * RNG.normal(size=1500),
    "poisson": RNG.poisson(MU) * 1.0,
    "negative_binomial": RNG.poisson(RNG.gamma(2.0, MU / 2.0)) * 1.0,
    "gamma": RNG.gamma(2.0, MU / 2.0),
    "inverse_gaussian": np.random.default_rng(1).wald(MU, 4.0 * MU),
    "tweedie": np.array([RNG.gamma(2.0, 0.5, k).sum() for k in RNG.poisson(MU)]),
    "binomial": (RNG.random(1500) < 1.0 / (1.0 + np.exp(-ETA))) * 1.0,
    "huber": ETA + 0.3 * RNG.standard_t(2, size=1500),
    "quantile": ETA + 0.5 * RNG.normal(size=1500),
}


def glm(family="auto", link=None, **parameters):
    return GLMRegressor(link=link, family=family, random_state=0, **parameters)


def checks():
    """Scikit-learn's, in turns: every check is of a fifth of the families, and so of any check."""
    models = [glm(family, max_iter=30) for family in Y if family != "binomial"]
    models += [GLMClassifier(family=family, max_iter=30, random_state=0)
               for family in ("binomial", "multinomial", "ordinal")]  # fmt: skip
    for j, model in enumerate(models):
        for i, (estimator, check) in enumerate(estimator_checks_generator(model)):
            name = getattr(check, "func", check).__name__
            # It gives names without an order.
            if model.family == "ordinal" and name == "check_classifiers_classes":
                continue
            if i % 5 == j % 5:
                yield pytest.param(estimator, check, id=f"{model.family}-{name}-{i}")


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("estimator, check", list(checks()))
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", sorted(set(FAMILIES) - {"matching"}))
def test_the_score_is_half_the_slope_of_the_deviance(name):
    family, h = FAMILIES[name], 1e-5
    s = np.linspace(-1.5, 1.5, 12).reshape(4, 1, 3)[..., ::-1].copy()
    y = np.abs(np.random.default_rng(1).normal(size=(4, 1, 3))) + 0.1
    if name == "binomial":
        y = y / 4.0
    if hasattr(family, "codes"):
        y = family.codes(np.arange(4) % 3, 3 + (name == "ordinal"))[:, None]
    half = 1.0 if name == "quantile" else 0.5
    if name == "quantile":  # the deviance is not smoothed: in a narrow one it is the same
        family = Quantile((0.2, 0.5, 0.8), width=1e-4)
    r, _ = family.residuals(family.link, s, y)
    for k in range(3):
        up, down = s.copy(), s.copy()
        up[..., k] += h
        down[..., k] -= h
        change = (a := family.residuals(family.link, up, y)[1]) - (
            b := family.residuals(family.link, down, y)[1]
        )
        assert a.shape == b.shape == s.shape
        slope = half * change.sum(axis=-1) / (2 * h)
        assert np.allclose(slope, r[..., k], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", Y)
def test_every_family_finds_its_coefficients(name):
    model = glm(name).fit(X, Y[name])
    assert np.abs(model.coef_ - THETA).max() < 0.16
    assert type(model.family_) is type(FAMILIES[name])
    assert 0.03 < model.score(X, Y[name]) < 1.0
    rows = sparse.csr_array(X)
    again = glm(name).fit(rows, Y[name])
    assert np.allclose(again.predict(rows), model.predict(X), rtol=1e-5, atol=1e-6)
    narrow = glm(name, max_iter=20).fit(X.astype(np.float32), Y[name])
    assert narrow.coef_.dtype == narrow.predict(X.astype(np.float32)).dtype == np.float32


def test_the_family_is_inferred_from_the_targets():
    for name in ("gaussian", "poisson", "gamma", "tweedie", "binomial"):
        assert family_of(Y[name]) == FAMILIES[name]
    assert type(glm(max_iter=2).fit(X, Y["tweedie"]).family_) is Tweedie
    assert family_of(np.full(9, 3.0)) == FAMILIES["gaussian"]
    with pytest.raises(AttributeError, match="need family="):
        glm().partial_fit  # noqa: B018
    with pytest.raises(ValueError, match="need family="):
        glm().fit_source([(X, Y["poisson"])])


def test_scores_are_those_of_scikit_learn():
    y, w = Y["poisson"], 1.0 + np.arange(1500) % 3
    model = glm("poisson").fit(X, y, sample_weight=w)
    expected = metrics.d2_tweedie_score(y, model.predict(X), power=1, sample_weight=w)
    assert model.score(X, y, sample_weight=w) == pytest.approx(expected)
    model = glm(Quantile(0.8)).fit(X, Y["quantile"])
    expected = metrics.d2_pinball_score(Y["quantile"], model.predict(X), alpha=0.8)
    assert model.score(X, Y["quantile"]) == pytest.approx(expected, abs=1e-3)


def test_what_a_family_does_not_know_is_learned():
    dispersion = glm("negative_binomial").fit(X, Y["negative_binomial"]).family_.dispersion
    assert 0.4 < dispersion < 0.62  # a half
    assert glm(NegativeBinomial(0.3)).fit(X, Y["poisson"]).family_ == NegativeBinomial(0.3)
    p, rng = 1.5, np.random.default_rng(3)  # mu ** 1.5 by compound Poisson sums
    mean = np.exp(1.5 * X[:, 0])
    y = np.array([rng.gamma((2 - p) / (p - 1), 0.5 * 0.8 * m**0.5, k).sum()
                  for m, k in zip(mean, rng.poisson(mean**0.5 / 0.4), strict=True)])  # fmt: skip
    assert 1.3 < glm("tweedie").fit(X, y).family_.power < 1.7


def test_an_exposure_is_an_offset_of_counts():
    e = np.random.default_rng(1).uniform(0.2, 5.0, 1500)
    y = np.random.default_rng(2).poisson(e * MU)
    one = glm().fit(X, y, exposure=e)
    other = glm("poisson").fit(X, y, offset=np.log(e))
    assert one.family_ == Poisson()
    assert np.abs(one.coef_ - THETA).max() < 0.05 and np.abs(one.coef_ - other.coef_).max() < 0.05
    assert np.allclose(one.predict(X, exposure=e), e * one.predict(X, exposure=1))
    assert np.allclose(other.predict(X, offset=np.log(e)), e * other.predict(X, offset=0))
    assert one.score(X, y, exposure=e) == pytest.approx(
        metrics.d2_tweedie_score(y / e, one.predict(X, exposure=1), power=1, sample_weight=e)
    )
    tries = np.full(1500, 20.0)
    wins = np.random.default_rng(4).binomial(20, 1.0 / (1.0 + np.exp(-ETA)))
    of_trials = glm("binomial").fit(X, wins, exposure=tries)
    assert np.abs(of_trials.coef_ - THETA).max() < 0.1
    wide = glm("negative_binomial").fit(X, y, exposure=e)
    assert np.abs(wide.coef_ - THETA).max() < 0.06


def test_the_score_of_overdispersed_counts_compares_the_best_constant_rate():
    rng = np.random.default_rng(3)
    e, w = np.exp(rng.uniform(-2.0, 2.0, 1500)), rng.integers(1, 3, 1500)
    y = rng.poisson(e * MU * rng.gamma(1.0, 1.0, 1500))
    model = glm("negative_binomial").fit(X, y, sample_weight=w, exposure=e)

    def deviance(mean):
        return w @ model.family_.deviance(y, mean)

    least = minimize_scalar(lambda log_rate: deviance(e * np.exp(log_rate)), (-5.0, 5.0)).fun
    expected = 1.0 - deviance(model.predict(X, exposure=e)) / least
    assert model.score(X, y, sample_weight=w, exposure=e) == pytest.approx(expected, rel=1e-6)


def test_weights_are_repetitions_and_the_order_makes_no_difference():
    y, w = Y["poisson"][:200], np.random.default_rng(1).integers(0, 3, 200)
    rows = np.random.default_rng(2).permutation(np.repeat(np.arange(200), w))
    one = glm("poisson").fit(X[:200], y, sample_weight=w)
    other = glm("poisson").fit(X[rows], y[rows])
    assert np.abs(one.coef_ - other.coef_).max() <= 1e-10


def test_quantiles_do_not_cross_and_cover():
    rng = np.random.default_rng(0)
    y = ETA + (0.2 + 0.5 * np.abs(X[:, 0])) * rng.normal(size=1500)
    model = glm(Quantile((0.1, 0.5, 0.9))).fit(X, y)
    q = model.predict(X)
    assert q.shape == (1500, 3) and (np.diff(q, axis=1) >= 0.0).all()
    assert np.abs(np.mean(y[:, None] <= q, axis=0) - [0.1, 0.5, 0.9]).max() < 0.012
    assert Pinball(0.9).slope(0.0, 1.0) == -0.9


def test_a_link_is_learned_and_kept(tmp_path):
    rng = np.random.default_rng(5)
    s = 2.0 * X[:, 0] - X[:, 1]
    y = np.tanh(s) + 0.5 * np.tanh(4.0 * s - 4.0) + 0.2 * rng.normal(size=1500)
    straight, learned = glm("gaussian").fit(X, y), glm("gaussian", "learned").fit(X, y)
    assert learned.score(X, y) > straight.score(X, y) + 0.05
    assert isinstance(learned.link_, Learned)
    assert glm("gaussian", "auto").fit(X[:500], y[:500]).link_ != LINKS["identity"]
    direction = learned.coef_ / np.abs(learned.coef_).max()
    assert np.abs(direction - [1.0, -0.5, 0.0, 0.0]).max() < 0.08
    save_model(learned, tmp_path / "m")
    assert np.array_equal(load_model(tmp_path / "m").predict(X), learned.predict(X))
    counts = rng.poisson(np.logaddexp(0.0, 4.0 * s)).astype(float)
    auto = glm("poisson", "auto").fit(X, counts)
    true = glm("poisson", Softplus()).fit(X, counts)
    assert auto.score(X, counts) > true.score(X, counts) - 0.01


SHAPES = {  # of the mean, and the share of its variance that may be missed
    "one step": (lambda s: 1.0 * (s > 0.0), 0.06),
    "two steps": (lambda s: 0.5 * (s > -0.5) + 0.5 * (s > 0.8) + 0.05 * s, 0.03),
    "cube": (lambda s: s**3, 0.01),
    "kink": (lambda s: np.where(s > 0.3, 3.0 * (s - 0.3), 0.2 * (s - 0.3)), 5e-4),
    "tanh": (lambda s: np.tanh(2.0 * s), 3e-4),
}


@pytest.mark.parametrize("name, n_draws", [("one step", 1), *((name, 2) for name in SHAPES)])
def test_links_that_jump_or_are_smooth_are_learned(name, n_draws):
    shape, missed = SHAPES[name]
    risks = []
    for seed in range(n_draws):
        rng = np.random.default_rng(seed)
        rows, theta = rng.normal(size=(6000, 8)), rng.normal(size=8)
        mean = shape(rows @ theta / np.linalg.norm(theta))
        y = mean[:2000] + 0.05 * mean.std() * rng.normal(size=2000)
        found = glm("gaussian", "learned").fit(rows[:2000], y).predict(rows[2000:])
        risks.append(np.mean((found - mean[2000:]) ** 2) / mean.var())
    assert np.mean(risks) < missed


def test_no_correction_is_tried_beyond_one_that_held_out_rows_do_not_confirm(monkeypatch):
    few = X[:600]
    y = 1.0 * (few[:, 0] > 0.0) + 0.05 * np.random.default_rng(0).normal(size=600)
    tried, most = families._Selection._tried, []

    def watched(self, *arguments):
        found = tried(self, *arguments)
        assert (np.diff([risk for risk, *_ in found]) < 0.0).all()
        most.append(len(found))
        return found

    monkeypatch.setattr(families._Selection, "_tried", watched)
    monkeypatch.setattr(families, "_LINKS", 20)
    model = glm("gaussian", "learned").fit(few, y)
    assert np.mean((model.predict(few) - (few[:, 0] > 0.0)) ** 2) < 0.02
    assert 1 < max(most) < 20


def test_onnx_has_learned_links_and_classes():
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    from tunefree.onnx import to_onnx

    def run(model):
        graph = onnxruntime.InferenceSession(to_onnx(model).SerializeToString())
        return graph.run(None, {"X": X})

    learned = glm("poisson", "learned", max_iter=30).fit(X, np.round(3.0 * MU))
    assert isinstance(learned.link_, Learned)
    assert np.allclose(run(learned)[0], learned.predict(X), rtol=1e-9)
    for family in ("ordinal", "multinomial"):
        model = GLMClassifier(family=family, max_iter=20, random_state=0)
        model.fit(X, np.digitize(ETA, [0.0, 0.8]))
        label, p = run(model)
        assert np.allclose(p, model.predict_proba(X)) and np.array_equal(label, model.predict(X))


def test_ordered_classes_and_a_softmax():
    rng = np.random.default_rng(7)
    cuts = np.array([-1.0, 0.5, 2.0])
    grades = np.array(["a", "b", "c", "d"])[np.digitize(3.0 * ETA + rng.logistic(size=1500), cuts)]
    ordinal = GLMClassifier(family="ordinal", categories=list("abcd"), random_state=0)
    ordinal.fit(X, grades)
    assert ordinal.family_ == Ordinal() and ordinal.coef_.shape == (1, 4)
    assert np.abs(ordinal.coef_[0] - 3.0 * THETA).max() < 0.25
    assert np.abs(np.sort(1.2 - ordinal.intercept_) - cuts).max() < 0.3
    softmax = GLMClassifier(random_state=0).fit(X, grades)
    assert softmax.family_ == MultinomialLogit() and softmax.coef_.shape == (4, 4)
    one_hot = GLMClassifier(family="matching", random_state=0).fit(X, grades)
    loss = [metrics.log_loss(grades, m.predict_proba(X)) for m in (ordinal, softmax, one_hot)]
    assert loss[0] < 1.01 * loss[1] < 1.02 * loss[2]
    for model in (ordinal, softmax):
        assert np.allclose(model.predict_proba(X).sum(axis=1), 1.0)
        assert np.array_equal(model.classes_[model.decision_function(X).argmax(1)],
                              model.predict(X))  # fmt: skip
    two = GLMClassifier(family="ordinal", random_state=0).fit(X, grades > "b")
    assert two.family_ == FAMILIES["binomial"] and two.decision_function(X).shape == (1500,)


GRADES = ["low", "mid", "high"]


def _graded():
    """Grades of rows, and the same as numbers."""
    codes = np.digitize(3.0 * ETA + np.random.default_rng(9).logistic(size=1500), [0.0, 2.0])
    return np.array(GRADES)[codes], codes


@pytest.mark.parametrize("form", ["categories", "pandas", "series", "polars", "source"])
def test_ordered_grades_keep_their_order(form, tmp_path):
    grades, codes = _graded()
    kind = pd.CategoricalDtype([*GRADES, "never"], ordered=True)
    model = GLMClassifier(family="ordinal", random_state=0, max_iter=60)
    if form in ("categories", "source"):
        model.set_params(categories=[*GRADES, "never"])
    if form == "source":
        numbers = sklearn.clone(model).set_params(categories=None).fit_source((X, codes))
        model = sklearn.clone(model).fit_source((X, grades))
    else:
        y = {
            "categories": grades,
            "pandas": pd.Categorical(grades, dtype=kind),
            "series": pd.Series(grades, dtype=kind),
        }
        if form == "polars":
            polars = pytest.importorskip("polars")
            y["polars"] = polars.Series(grades, dtype=polars.Enum([*GRADES, "never"]))
        numbers = GLMClassifier(family="ordinal", random_state=0, max_iter=60).fit(X, codes)
        model.fit(X, y[form], X_val=None)
    assert model.classes_.tolist() == GRADES
    np.testing.assert_array_equal(model.predict_proba(X), numbers.predict_proba(X))
    np.testing.assert_array_equal(model.predict(X), np.array(GRADES)[numbers.predict(X)])
    assert model.score(X, grades) == numbers.score(X, codes)
    save_model(model, tmp_path / "m")
    again = load_model(tmp_path / "m")
    assert again.classes_.tolist() == GRADES and again.categories == model.categories
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    if form == "categories":
        held = sklearn.clone(model).fit(
            X[:1000], grades[:1000], X_val=X[1000:], y_val=grades[1000:]
        )
        same = sklearn.clone(numbers).fit(
            X[:1000], codes[:1000], X_val=X[1000:], y_val=codes[1000:]
        )
        np.testing.assert_array_equal(held.coef_, same.coef_)


@pytest.mark.parametrize(
    "options, change, message",
    [
        ({}, lambda y: y, "text without an order .*categories="),
        ({}, lambda y: pd.Categorical(y), "text without an order"),
        ({"categories": ["low", "high"]}, lambda y: y, "lacks 'mid', which y has"),
        ({"categories": [*GRADES, "low"]}, lambda y: y, "names a grade twice"),
        ({"categories": GRADES, "family": "auto"}, lambda y: y, "needs family='ordinal'"),
    ],
)
def test_grades_without_an_order_are_refused(options, change, message):
    grades, _ = _graded()
    model = GLMClassifier(**{"family": "ordinal", **options})
    with pytest.raises(ValueError, match=message):
        model.fit(X, change(grades))


@pytest.mark.filterwarnings("ignore:Levels that fit has not seen")
def test_categories_are_columns_of_no_ones():
    rng = np.random.default_rng(8)
    level, effect = rng.integers(0, 12, 1500), np.linspace(-1.0, 1.0, 12)
    y = rng.poisson(np.exp(0.5 * X[:, 0] + effect[level]))
    frame = pd.DataFrame({"x": X[:, 0], "level": pd.Categorical([f"v{i:02}" for i in level])})
    one = glm("poisson", n_splits=1).fit(frame, y)
    assert (
        one.coef_.shape == (13,)
        and np.abs(one.coef_[1:] - one.coef_[1:].mean() - effect).max() < 0.35
    )
    expanded = pd.get_dummies(frame, dtype=float)
    other = glm("poisson", n_splits=1).fit(expanded, y)
    assert abs(one.score(frame, y) - other.score(expanded, y)) < 2e-3
    strange = frame.assign(level="never seen")
    assert np.allclose(one.predict(strange), np.exp(one.coef_[0] * X[:, 0] + one.intercept_))
    few = glm("poisson", potential=Grouped(Hypentropy(1e-4)), max_iter=40).fit(
        frame.assign(noise=pd.Categorical(rng.integers(0, 6, 1500).astype(str))), y
    )
    assert np.abs(few.coef_[13:]).max() < 0.1 < np.abs(few.coef_[1:13]).max()


def test_candidates_are_evaluated_by_the_familys_deviance():
    rows, y = X[:150], Y["poisson"][:150]
    model = TuneFreeRegressor(loss="poisson", random_state=0).fit(rows, y)
    assert {r["loss"] for r in model.leaderboard_} == {"Poisson deviance"}
    assert "held-out Poisson deviance" in repr(model.report_)
    assert "GLM, Poisson" in {r["candidate"] for r in model.leaderboard_}
    p = model.predict(rows)
    assert p.min() > 0.0 and model.score(rows, y) == pytest.approx(
        metrics.d2_tweedie_score(y, p, power=1)
    )
    for loss in ("gaussian", "hinge"):
        with pytest.raises(ValueError, match="loss|family"):
            TuneFreeRegressor(loss=loss).fit(rows, y)


def test_bounds_hold_in_the_users_units():
    units = np.array([1e-3, 1.0, 10.0, 1.0])
    low, high = (0.0, -0.1, -np.inf, 0.0), (np.inf, np.inf, 0.0, 0.1)
    bounds = Bounds(tuple(low / units), tuple(high / units))
    model = glm("poisson", constraint=bounds).fit(X * units, Y["poisson"])
    coef = model.coef_ * units
    assert np.allclose(coef[[1, 3]], [-0.1, 0.1]) and coef[0] > 0.4 and coef[2] <= 0.0
    signs = glm("gamma", constraint=Monotone((-1, 1, 0, 0))).fit(X, Y["gamma"])
    assert signs.coef_[0] == signs.coef_[1] == 0.0 and signs.coef_[3] > 0.1


@pytest.mark.parametrize(
    "family, y, more, message",
    [
        ("poisson", np.zeros(1500), {}, "zeros only"),
        ("poisson", -MU, {}, "first -"),
        ("gamma", Y["tweedie"], {}, "above 0"),
        ("binomial", 2.0 * MU, {}, "numbers of trials"),
        ("poisson", MU, {"exposure": np.full(1500, np.inf)}, "positive and finite"),
        ("poisson", MU, {"exposure": np.ones(3)}, "3 numbers, but X has"),
        ("huber", MU, {"exposure": MU}, "no exposure"),
        ("poisson", MU, {"offset": np.full(1500, np.nan)}, "offset contains NaN"),
        ("ordinal", MU, {}, "GLMClassifier"),
        ("poison", MU, {}, "is none of auto, matching"),
        (Quantile((0.1, 0.9)), np.c_[MU, MU], {}, "one target"),
    ],
)
def test_limits_are_named_in_a_sentence(family, y, more, message):
    with pytest.raises(ValueError, match=message):
        glm(family).fit(X, y, **more)


def test_separable_rows_are_reported():
    kept = np.abs(ETA) > 0.1
    with pytest.warns(UserWarning, match="separable"):
        model = glm("binomial").fit(X[kept], (ETA[kept] > 0.0) * 1.0)
    assert model.score(X[kept], (ETA[kept] > 0.0) * 1.0) > 0.99


def test_pieces_of_rows_and_their_order_make_no_difference(monkeypatch):
    """Many rows: pieces, some rows first, then all in the metric of these."""
    rng = np.random.default_rng(9)
    level = rng.integers(0, 9, 1500)
    frame = pd.DataFrame({"x": X[:, 0], "z": X[:, 1], "level": level.astype(str)})
    y = rng.poisson(np.exp(0.5 * X[:, 0] + 0.1 * level))
    whole = glm("poisson", n_splits=1).fit(frame, y)
    monkeypatch.setattr(mirror, "_PIECE", 100)
    pieces = glm("poisson", n_splits=1).fit(frame, y)
    assert np.allclose(pieces.coef_, whole.coef_, rtol=1e-9, atol=1e-9)
    for name, few in (("_LARGE", 100), ("_PILOT", 300), ("_PILOT_A_COLUMN", 20)):
        monkeypatch.setattr(families, name, few)
    order = rng.permutation(1500)
    piloted = glm("poisson", n_splits=1).fit(frame, y)
    again = glm("poisson", n_splits=1).fit(frame.iloc[order], y[order])
    assert np.array_equal(piloted.coef_, again.coef_)
    assert np.isclose(piloted.score(frame, y), whole.score(frame, y), atol=6e-3)


def test_a_source_tells_links_and_numbers_by_an_even_sample():
    y = Y["poisson"]
    chunks = [(X[i : i + 400], y[i : i + 400]) for i in range(0, 1500, 400)]
    learned = glm("poisson", "learned").fit_source(chunks)
    assert isinstance(learned.link_, Learned) and np.abs(learned.coef_ - THETA).max() < 0.1
    y = Y["quantile"]
    chunks = [(X[i : i + 400], y[i : i + 400]) for i in range(0, 1500, 400)]
    q = glm(Quantile((0.1, 0.9))).fit_source(chunks).predict(X)
    assert np.abs(np.mean(y[:, None] <= q, axis=0) - [0.1, 0.9]).max() < 0.03
    with pytest.raises(ValueError, match="outside the range of Gamma"):
        glm("gamma").fit_source([(X, y)])
    a, b = (SourceSample.of(X[i], y[i], np.ones(750), 0) for i in (slice(750), slice(750, 1500)))
    one, other = a.join(b), b.join(a)
    assert np.array_equal(one.X, other.X) and len(one.y) == 1500


def test_stochastic_steps_learn_families_that_are_weights():
    some, y = X[:300], Y["gamma"][:300]
    settings = {"family": "gamma", "solver": "stochastic", "potential": "euclidean", "max_iter": 12}
    model = with_settings(GLMRegressor, **settings, random_state=0).fit(some, y)
    assert np.abs(model.coef_ - THETA).max() < 0.2
    stream = glm("gamma", potential="euclidean").partial_fit(some, y)
    assert stream.score(some, y) > 0.1 and json.dumps(stream.leaderboard_)
    assert not hasattr(glm("quantile"), "partial_fit")


@pytest.mark.parametrize(("family", "link"), [("poisson", "softplus"), ("gaussian", "identity")])
@pytest.mark.parametrize("shift", [0.0, -50.0, 50.0])
def test_a_constant_in_the_offset_is_in_the_intercept_alone(family, link, shift):
    """Also where the offset, as a mean, is near 0."""
    rng = np.random.default_rng(0)
    rows, offset = rng.normal(size=(2000, 2)), rng.normal(size=2000)
    mean = np.log1p(np.exp(rows[:, 0] + offset))
    y = rng.poisson(mean) if family == "poisson" else rows[:, 0] + offset + rng.normal(size=2000)
    model = GLMRegressor(family, link, random_state=0).fit(rows, y, offset=offset + shift)
    assert np.abs(model.coef_ - [1.0, 0.0]).max() < 0.15
    assert abs(model.intercept_ + shift) < 0.15
