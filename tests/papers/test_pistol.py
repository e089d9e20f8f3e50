"""The guarantees of Orabona 2014 hold for the compiled learners, on sequences made to break them.

The theorems know that every norm is at most 1. Our learners track the largest norm instead, so each
sequence starts with a row of norm 1 (and the per-coordinate learner is told of columns of size 1):
from then on X = 1 and the learner is Algorithm 3 itself.
"""

from functools import cache

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.datasets import load_svmlight_file
from sklearn.metrics.pairwise import rbf_kernel

import reference
from tunefree import (
    KernelPiSTOLClassifier,
    PiSTOLClassifier,
    PiSTOLRegressor,
    bounds,
    load_model,
    save_model,
)
from tunefree.base import base
from tunefree.parts.averaging import Uniform
from tunefree.parts.losses import Absolute, Hinge, Logistic, SmoothedHinge
from tunefree.pistol import bounds as pistol_bounds
from tunefree.pistol.linear import Diagonal, Isotropic
from tunefree.pistol.rules import PiSTOL
from tunefree.rows.designs import Dense

LOSSES = {
    "smoothed hinge": SmoothedHinge(),
    "hinge": Hinge(),
    "logistic": Logistic(),
    "absolute_error": Absolute(),
}
SMOOTHNESS = {"smoothed hinge": 2.0, "logistic": 0.25}
T, D = 1000, 4


def unit(X):
    """The longest row has norm 1 and comes first."""
    X = X / np.linalg.norm(X, axis=1).max()
    return np.roll(X, -np.linalg.norm(X, axis=1).argmax(), axis=0)


@cache
def sequence(name):
    """Rows and targets of a sequence."""
    rng, t = np.random.default_rng(0), np.arange(T)
    X = unit(rng.normal(size=(T, D)))
    y = np.where(X @ rng.normal(size=D) + 0.2 * rng.normal(size=T) > 0, 1.0, -1.0)
    same = np.tile(np.eye(D)[0], (T, 1))
    if name == "sign flips":
        return same, np.where(t % 2, 1.0, -1.0)
    if name == "sorted":
        return same, np.where(t < T // 2, 1.0, -1.0)
    if name == "lacunary":
        return same, np.where(np.log2(t + 1).astype(int) % 2, 1.0, -1.0)
    if name == "separable":
        return same, np.ones(T)
    if name == "late giant":
        X[1:] *= 1e-3
        X[-2] = -X[0]
        return X, y
    if name == "wrong labels":
        return X, rng.choice([-1.0, 1.0], T)
    return X, y


SEQUENCES = [
    "sign flips", "sorted", "lacunary", "separable", "late giant", "wrong labels", "random"
]  # fmt: skip


class Run:
    """A learner's predictions on a sequence, its losses and slopes."""

    def __init__(self, learner, X, y):
        self.loss, self.X, self.y = learner.loss, X, y
        state = learner.init(X.shape[1], 1)
        learner.expect(state, np.ones(X.shape[1]))
        scores = np.empty((2, len(y), 1))
        targets = np.ascontiguousarray(y[:, None])
        learner.scan(state, Dense(np.ascontiguousarray(X)), targets, np.ones(len(y)), scores)
        p = scores[1, :, 0]
        self.lost = self.loss_of(p)
        self.slopes = np.array([abs(self.loss.slope(*v)) for v in zip(p, y, strict=True)])
        self.gradient = state[0][:, 0 if isinstance(learner, Isotropic) else 2, 0]
        self.found = [learner.mean(state)[:, 0], learner.last(state)[:, 0]]

    def loss_of(self, predictions):
        return sum(self.loss.value(*v) for v in zip(predictions, self.y, strict=True))

    def competitors(self):
        """0, what was found and the gradients' direction at several lengths, random directions."""
        rng, d = np.random.default_rng(1), self.X.shape[1]
        yield np.zeros(d)
        for h in (*self.found, self.gradient, rng.normal(size=d)):
            size = np.linalg.norm(h)
            for norm in (0.1, 1.0, 10.0) if size > 0 else ():
                yield norm * h / size

    def regrets(self):
        """Competitors, and the learner's loss minus theirs."""
        for h in self.competitors():
            yield h, self.lost - self.loss_of(self.X @ h)

    def norms(self):
        return self.slopes * np.linalg.norm(self.X, axis=1)

    def columns(self):
        return self.slopes[:, None] * abs(self.X)


def theorem_1(run, a, b):
    """Regret over bound, as stated and with the sharp constant, for each competitor."""
    loss, norms, n = run.loss, run.norms(), len(run.y)
    for h, regret in run.regrets():
        size, constants = np.linalg.norm(h), {"a": a, "b": b, "lipschitz": loss.bound()}
        yield regret / bounds.pistol_regret(size, norms[:-1].sum(), n, **constants)
        yield regret / bounds.pistol_regret(size, norms.sum(), n, **constants, sharp=True)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("order", SEQUENCES)
def test_theorem_1(order, name):
    loss = LOSSES[name]
    for multiple, b in ((2.25, 1.0), (3.0, 1.0), (3.0, 30.0), (5.0, 0.1)):
        a = multiple * loss.bound()
        run = Run(Isotropic(PiSTOL(a, b, root=False), loss), *sequence(order))
        assert max(theorem_1(run, a, b)) < 1.0


@pytest.mark.parametrize("name", ["hinge", "absolute_error"])
def test_theorem_1_against_an_adversary_who_watches(name):
    """Each target contradicts the prediction."""
    loss, a = LOSSES[name], 3.0
    learner = Isotropic(PiSTOL(a, 1.0, root=False), loss)
    state, X, y = learner.init(1, 1), np.ones((400, 1)), np.empty(400)
    for t in range(len(y)):
        y[t] = -1.0 if learner.last(state)[0, 0] > 0 else 1.0
        learner.scan(state, Dense(X[:1]), y[t : t + 1, None].copy(), np.ones(1))
    ratios = list(theorem_1(Run(learner, X, y), a, 1.0))
    assert 0.1 < max(ratios) < 1.0


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("order", SEQUENCES)
def test_corollary_3_per_coordinate(order, name):
    loss = LOSSES[name]
    for multiple in (2.25, 3.0, 5.0):
        a = multiple * loss.bound()
        run = Run(Diagonal(PiSTOL(a, 1.0 / D, root=False), loss), *sequence(order))
        columns, constants = run.columns(), {"a": a, "lipschitz": loss.bound()}
        for u, regret in run.regrets():
            size = abs(u).max()
            stated = columns[:-1].sum(axis=0)
            assert regret < bounds.pistol_regret_coordinates(size, stated, T, **constants)
            sharp = columns.sum(axis=0)
            assert regret < bounds.pistol_regret_coordinates(
                size, sharp, T, **constants, sharp=True
            )


@pytest.mark.parametrize("name", SMOOTHNESS)
@pytest.mark.parametrize("order", SEQUENCES)
def test_corollary_1_for_smooth_losses(order, name):
    loss = LOSSES[name]
    a = 3.0 * loss.bound()
    constants = {"a": a, "b": 1.0, "lipschitz": loss.bound(), "smoothness": SMOOTHNESS[name]}
    run = Run(Isotropic(PiSTOL(a, 1.0, root=False), loss), *sequence(order))
    for h, regret in run.regrets():
        loss_of_h = run.lost - regret
        bound = bounds.pistol_regret_smooth(np.linalg.norm(h), loss_of_h, T, **constants)
        assert regret < bound


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("order", SEQUENCES)
def test_the_bound_without_a_logarithm_of_time(order, name):
    """b sqrt(alpha) in place of b."""
    loss = LOSSES[name]
    for multiple, b in ((2.25, 1.0), (2.5, 0.1), (3.0, 1.0), (4.0, 10.0)):
        a = multiple * loss.bound()
        run = Run(Isotropic(PiSTOL(a, b), loss), *sequence(order))
        for h, regret in run.regrets():
            constants = {"a": a, "b": b, "lipschitz": loss.bound()}
            bound = bounds.pistol_regret_root(np.linalg.norm(h), run.norms().sum(), **constants)
            assert regret < bound


@pytest.mark.parametrize("a", [2.25, 2.5, 3.0, 4.0])
def test_the_potentials_grow_no_faster_than_the_proofs_need(a):
    """Inequality 19 with the sharp phi, and its counterpart with k, on a grid (L = X = 1).

    S is the sum of the slopes so far, g = share S the gradient along the step z.
    """
    S = np.concatenate([np.linspace(0, 20, 501), np.geomspace(20, 1e4, 50)])
    z = np.concatenate([-np.geomspace(1e-2, 1, 31), np.geomspace(1e-2, 1, 31)])
    S, share, z = np.meshgrid(S, np.linspace(0, 1, 61), z, indexing="ij")
    g, before = share * S, a * (1 + S)
    after = before + a * abs(z)
    level = g**2 / (2 * before)
    # Everything is divided by exp(level), which may overflow.
    ratio, rest = np.exp((g + z) ** 2 / (2 * after) - level), np.exp(-level)
    constant, k = pistol_bounds._sharp(a, 1.0)
    assert np.all(ratio - 1 - g / before * z <= a * constant * z**2 / after * rest + 1e-12)
    root, new = np.sqrt(before), np.sqrt(after)
    assert np.all(new * ratio - root - g / root * z <= k * (new - root) * rest + 1e-12)
    # A tenth less would not do.
    assert np.any(ratio - 1 - g / before * z > 0.9 * a * constant * z**2 / after * rest)
    assert np.any(new * ratio - root - g / root * z > 0.9 * k * (new - root) * rest)


def test_too_small_an_a_has_no_guarantee():
    with pytest.raises(ValueError, match="below 2.25"):
        bounds.pistol_regret(1.0, 1.0, 10, a=2.0, b=1.0, lipschitz=1.0)


# --- Fitted models print their own bounds --------------------------------------------------------

PROVED = ("theorem-1", "guaranteed")


def scaled_sequence(name):
    """A sequence whose largest norm grows in mid-stream, in two leaps."""
    X, y = sequence(name)
    size = np.repeat([1e-3, 1.0, 30.0, 0.1], [50, 100, 100, 50])
    return X[: len(size)] * size[:, None], y[: len(size)]


def lost_on_the_way(rows, targets, learner, weights, visits=1):
    """Losses of the iterates of a naive learner, and of a fixed predictor, summed over visits."""
    rows, targets = np.tile(rows, (visits, 1)), np.tile(targets, (visits, 1))
    weights, loss = np.tile(weights, visits), learner.loss
    iterates, _ = reference.pistol(rows, targets, learner.rule, loss, weights, Uniform())

    def summed(predictions):
        if hasattr(loss, "slopes"):  # a joint loss of all outputs: the softmax's
            wrong = logsumexp(predictions, axis=1) - predictions[targets > 0.0]
            return float(weights @ wrong)
        values = np.vectorize(loss.value)(predictions, targets)
        return float(weights @ values.sum(axis=1))

    own = np.einsum("td,tdk->tk", rows, iterates[:-1])
    return summed(own), lambda h: summed(rows @ h), iterates


def checked(model, rows, targets, learner, weights, bound_of, visits=1):
    """Largest regret over bound, over competitors of all lengths."""
    own, loss_of, iterates = lost_on_the_way(rows, targets, learner, weights, visits)
    rng, shape, ratios = np.random.default_rng(1), iterates[-1].shape, []
    largest = np.linalg.norm(rows, axis=1).max()
    for h in (iterates[-1], iterates.mean(axis=0), rng.normal(size=shape), np.zeros(shape)):
        size = np.linalg.norm(h)
        for length in (0.1, 1.0, 10.0, 100.0) if size > 0.0 else (1.0,):
            u = length / (size or 1.0) / largest * h
            ratios.append((own - loss_of(u)) / bound_of(u))
    return max(ratios)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", ["smoothed_hinge", "hinge", "log_loss", "multinomial"])
@pytest.mark.parametrize("setting", PROVED)
def test_a_fitted_classifiers_bound_is_above_its_regret(setting, name, intercept):
    for order in SEQUENCES:
        X, y = scaled_sequence(order)
        if name == "multinomial":
            y = np.where(np.arange(len(y)) % 7 == 3, 0.0, y)  # three classes
        if len(np.unique(y)) < 2:
            y[-1] = -y[-1]
        weights = np.where(np.arange(len(y)) % 5, 1.0, 0.25)
        model = PiSTOLClassifier(
            setting, loss=name, fit_intercept=intercept, shuffle=False, max_iter=2
        ).fit(X, y, sample_weight=weights)
        portfolio, state, _ = model._run
        (view,), learner = state.views.values(), portfolio.members[0].learner
        rows = view.show(X, np.arange(len(y))).values
        codes = np.searchsorted(model.classes_, y)
        signs = base.signs(codes, len(model.classes_))

        def bound(h, model=model, view=view):
            return model.regret_bound(*(part.T for part in view.fold(h)))

        assert checked(model, rows, signs, learner, weights, bound, visits=2) < 1.0


@pytest.mark.parametrize("name", ["squared_error", "absolute_error"])
@pytest.mark.parametrize("setting", PROVED)
def test_a_fitted_regressors_bound_is_above_its_regret(setting, name):
    rng = np.random.default_rng(3)
    for order in SEQUENCES:
        X, y = scaled_sequence(order)
        X = np.column_stack([X, rng.standard_t(2, len(y))])
        targets = np.column_stack([5e4 + 1e3 * y * X[:, -1], y])
        model = PiSTOLRegressor(setting, loss=name, shuffle=False, max_iter=1).fit(X, targets)
        portfolio, state, scale = model._run
        (view,), learner = state.views.values(), portfolio.members[0].learner
        rows = view.show(X, np.arange(len(y))).values
        standard = scale.standardise(targets)

        def bound(h, model=model, view=view, scale=scale):
            coef, intercept = view.fold(h)
            return model.regret_bound((coef * scale.s).T, intercept * scale.s + scale.m)

        assert checked(model, rows, standard, learner, np.ones(len(y)), bound) < 1.0


@pytest.mark.parametrize("kernel, gamma", [("linear", "scale"), ("rbf", 0.7)])
@pytest.mark.parametrize("setting", PROVED)
def test_a_fitted_kernel_machines_bound_is_above_its_regret(setting, kernel, gamma):
    """Rows of a root of the kernel matrix are features: the naive learner is linear in them."""
    for order in SEQUENCES:
        X, y = scaled_sequence(order)
        X = X + 1e-2 * np.random.default_rng(0).normal(size=X.shape)
        if len(np.unique(y)) < 2:
            y[-1] = -y[-1]
        model = KernelPiSTOLClassifier(
            kernel, gamma, setting=setting, average="uniform", max_iter=1, shuffle=False,
            precision="double", standardize=False, calibrate=False,
        ).fit(X, y)  # fmt: skip
        K = X @ X.T if kernel == "linear" else rbf_kernel(X, gamma=gamma)
        values, vectors = np.linalg.eigh(K)
        rows = vectors * np.sqrt(np.maximum(values, 0.0))
        learner, targets = model._learner(len(y)), y[:, None].astype(float)

        def bound(h, model=model):
            (value,) = model.regret_bound(np.linalg.norm(h)).values()
            return value

        assert checked(model, rows, targets, learner, np.ones(len(y)), bound) < 1.0
        # Not calibrated, the decisions are those of the average of Algorithm 3.
        _, _, iterates = lost_on_the_way(rows, targets, learner, np.ones(len(y)))
        average = (rows @ iterates[:-1].mean(axis=0))[:, 0]
        assert np.allclose(model.decision_function(X), average, rtol=1e-6, atol=1e-9)


def test_bounds_on_the_data_at_hand_tell_something():
    """The bound per row falls, and is close to what the stated theorem gives where X = 1."""
    rng = np.random.default_rng(0)
    h, found = rng.normal(size=5), []
    for n in (300, 3000, 30_000):
        X = unit(rng.normal(size=(n, 5)))
        y = np.where(X @ h > 0, 1, -1)
        model = PiSTOLClassifier("guaranteed", fit_intercept=False, shuffle=False).fit(X, y)
        found.append(model.regret_bound(h) / n)
        _, S = model.regret_[0].alpha, model.regret_[0].alpha / 6.0 - 2.0
        stated = bounds.pistol_regret_root(
            np.linalg.norm(h), float(S[0]), a=6.0, b=1.0, lipschitz=2.0
        )
        assert model.regret_bound(h) == pytest.approx(stated, rel=1e-9)
    assert found[2] < 0.3 * found[1] < 0.3 * 0.6 * found[0]


@pytest.mark.parametrize("learner", [False, True])
def test_a_saved_model_still_has_its_bound(learner, tmp_path):
    X, y = scaled_sequence("random")
    for model, h in (
        (PiSTOLClassifier("guaranteed"), np.ones(D)),
        (PiSTOLRegressor("theorem-1"), np.ones(D)),
        (KernelPiSTOLClassifier(setting="guaranteed"), 2.0),
    ):
        save_model(model.fit(X, y), tmp_path / "model", learner=learner)
        assert load_model(tmp_path / "model").regret_bound(h) == model.regret_bound(h)


def test_where_nothing_is_proved_a_sentence_says_so():
    X, y = scaled_sequence("random")
    for model in (
        PiSTOLClassifier(),
        PiSTOLClassifier("global"),
        PiSTOLClassifier("paper"),
        PiSTOLClassifier("per-coordinate"),
        PiSTOLRegressor("dowg"),
    ):
        with pytest.raises(ValueError, match="Nothing is proved about the rules of setting="):
            model.fit(X, y).regret_bound(np.ones(D))
    stream = PiSTOLClassifier("guaranteed").partial_fit(X, y)
    with pytest.raises(ValueError, match="fit_intercept=False"):
        stream.regret_bound(np.ones(D))
    stream = PiSTOLClassifier("guaranteed", fit_intercept=False).partial_fit(X, y)
    whole = PiSTOLClassifier("guaranteed", fit_intercept=False, shuffle=False).fit(X, y)
    assert stream.regret_bound(np.ones(D)) == whole.regret_bound(np.ones(D))
    with pytest.raises(ValueError, match="no intercept"):
        whole.regret_bound(np.ones(D), 1.0)
    heavy = PiSTOLClassifier("guaranteed", fit_intercept=False, shuffle=False)
    heavy.fit(X, y, sample_weight=np.where(np.arange(len(y)) == 9, 1e4, 1.5))
    with pytest.raises(ValueError, match="weighed more than 1"):
        heavy.regret_bound(np.ones(D))
    with pytest.raises(ValueError, match="stream"):
        KernelPiSTOLClassifier(setting="guaranteed").partial_fit(X, y).regret_bound(1.0)


@pytest.mark.parametrize("setting", ["paper", "paper-per-coordinate"])
def test_streams_under_the_papers_constants_know_their_length(setting):
    """b = sqrt(2 a L T) needs T: given, a stream's b is that of a fit on as many rows."""
    X, y = sequence("random")
    for model in (PiSTOLClassifier(setting), PiSTOLRegressor(setting)):
        with pytest.raises(ValueError, match="horizon="):
            model.partial_fit(X, y)
        with pytest.raises(ValueError, match="horizon="):
            clone(model).fit_source([(X, y)])
        with pytest.raises(ValueError, match="horizon=0 is neither"):
            clone(model).set_params(horizon=0).fit(X, y)
    stream = PiSTOLClassifier(setting, fit_intercept=False, horizon=T, average="uniform")
    whole = clone(stream).set_params(horizon=None, shuffle=False, max_iter=1).fit(X, y)
    stream.partial_fit(X[:300], y[:300]).partial_fit(X[300:], y[300:])
    assert np.allclose(stream.coef_, whole.coef_, rtol=1e-12)
    if setting == "paper":
        machine = KernelPiSTOLClassifier(setting=setting)
        with pytest.raises(ValueError, match="horizon="):
            machine.partial_fit(X, y)
        rules = [
            machine.set_params(horizon=h).partial_fit(X, y)._stream.learner.rule
            if h else machine._learner(T).rule
            for h in (None, T)
        ]  # fmt: skip
        assert rules[0] == rules[1]


@pytest.mark.parametrize("exponent", [-150, -100, 100, 140])
def test_dowg_is_free_of_scale_as_far_as_squares_reach(exponent):
    X, y = sequence("random")
    plain = PiSTOLClassifier("dowg", random_state=0).fit(X, y)
    scaled = PiSTOLClassifier("dowg", random_state=0).fit(10.0**exponent * X, y)
    assert abs(scaled.score(10.0**exponent * X, y) - plain.score(X, y)) < 0.01


@pytest.fixture(scope="module")
def a9a(data):
    return [*load_svmlight_file(str(data / "a9a.gz"), n_features=123),
            *load_svmlight_file(str(data / "a9a.t.gz"), n_features=123)]  # fmt: skip


@pytest.mark.parametrize("n", [500, 2000])
def test_the_bounds_on_census_data(a9a, n):
    X, y = a9a[0][:n].toarray(), a9a[1][:n]
    longest = np.linalg.norm(X, axis=1).argmax()
    X, y = unit(X), np.roll(y, -longest)
    for name in ("smoothed hinge", "logistic"):
        a = 3.0 * LOSSES[name].bound()
        run = Run(Isotropic(PiSTOL(a, 1.0, root=False), LOSSES[name]), X, y)
        assert max(theorem_1(run, a, 1.0)) < 1.0


@pytest.mark.parametrize(
    "setting, error", [("paper", 0.158), ("global", 0.149), ("per-coordinate", 0.149)]
)
def test_published_errors_on_census_data(a9a, setting, error):
    """One pass, averaged: 15.8 % with the paper's constants, 14.9 % with ours."""
    X, y, X_test, y_test = a9a
    model = PiSTOLClassifier(setting, max_iter=1, random_state=0).fit(X, y)
    found = 1 - model.score(X_test, y_test)
    assert found == pytest.approx(error, abs=0.006 if setting == "paper" else 0.003)
