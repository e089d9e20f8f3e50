"""The paper's baselines in a feature space: their guarantees and their definitions."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from papers.baselines import (
    KernelAveragedSGDClassifier,
    KernelAveragedSGDRegressor,
    KernelPerceptron,
)
from tunefree import bounds
from tunefree.core.process import workers
from tunefree.kernels.bandwidths import Facts
from tunefree.kernels.kernels import RBF
from tunefree.parts.averaging import AVERAGES, Geometric, survival
from tunefree.parts.losses import Logistic, SmoothedHinge
from tunefree.pistol.kernel_blocked import KernelBlock, Member, Memory, MemoryEngine
from tunefree.pistol.linear import Isotropic
from tunefree.pistol.rules import PiSTOL

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 2))
NOISY = np.where(RNG.random(300) < 0.15, -1, 1)
LABELS = {
    "ring": np.where(np.hypot(*X.T) > 1.2, 1, -1),
    "noisy ring": np.where(np.hypot(*X.T) > 1.2, 1, -1) * NOISY,
    "coin": RNG.choice([-1, 1], 300),
    "flips": np.where(np.arange(300) % 2, 1, -1),
}


def sgd(K, y, step, n_passes=1):
    """All iterates as coefficients, (1 - y p)^2."""
    a, out, wrong = np.zeros(len(y)), [], []
    for _ in range(n_passes):
        for t in range(len(y)):
            out.append(a.copy())
            wrong.append((1 - y[t] * (K[t] @ a)) ** 2)
            a[t] -= step * 2.0 * (K[t] @ a - y[t])
    return np.array(out), np.array(wrong)


def options(**more):
    return {"gamma": 0.7, "shuffle": False, "precision": "double"} | more


@pytest.mark.parametrize("average", [*AVERAGES, Geometric(0.02)], ids=str)
def test_averaged_sgd_is_algorithm_1(average):
    y, K = LABELS["noisy ring"], rbf_kernel(X, X, gamma=0.7)
    model = KernelAveragedSGDClassifier(average=average, max_iter=2, step=0.2, **options()).fit(
        X, y
    )
    iterates, _ = sgd(K, y, 0.2, n_passes=2)
    scheme = AVERAGES.get(average, average)
    share = np.append(1.0, survival(scheme, len(iterates)))
    mean = iterates[0] + share[1:] @ np.diff(iterates, axis=0)
    np.testing.assert_allclose(model.decision_function(X), K @ mean, atol=1e-10)


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("step", [0.05, 0.25])
def test_the_inequality_behind_averaged_sgd(labels, step):
    """Inequality 3 before expectations: (1 - 2 step) loss <= loss of h + |h|^2 / (2 step T)."""
    y, K = LABELS[labels], rbf_kernel(X, X, gamma=0.7)
    iterates, wrong = sgd(K, y, step)
    T = len(y)
    for h in (np.zeros(T), iterates[-1], iterates.mean(axis=0), np.linalg.solve(K + np.eye(T), y)):
        regret = (1 - 2 * step) * wrong.mean() - np.mean((1 - y * (K @ h)) ** 2)
        assert regret <= h @ K @ h / (2 * step * T) + 1e-9
        # As printed, since the loss of 0 is 1: the excess is at most |h|^2 / (step T) + 4 step.
        excess = wrong.mean() - np.mean((1 - y * (K @ h)) ** 2)
        assert excess <= h @ K @ h / (step * T) + 4 * step * max(1.0, wrong.mean())


@pytest.mark.parametrize("labels", LABELS)
def test_the_mistakes_of_the_kernel_perceptron_obey_bound_5(labels):
    y, K = LABELS[labels], rbf_kernel(X, X, gamma=0.7)
    model = KernelPerceptron(average="last", **options()).fit(X, y)
    assert model.n_mistakes_[0] == np.abs(model.dual_coef_).sum()
    found = np.zeros(len(y))
    found[model.support_] = model.dual_coef_[0, 0]
    competitors = [np.zeros(len(y)), found, np.linalg.solve(K + 0.1 * np.eye(len(y)), y)]
    for h in (c * h for h in competitors for c in (0.3, 1.0, 3.0)):
        hinge, square = np.maximum(0.0, 1.0 - y * (K @ h)).sum(), h @ K @ h
        assert model.n_mistakes_[0] <= hinge + square + np.sqrt(square * hinge) + 1e-9


@pytest.mark.parametrize("n_passes", [1, 3])
def test_averages_and_votes_of_the_perceptron(n_passes):
    y, K = LABELS["noisy ring"], rbf_kernel(X, X, gamma=0.7)
    a, iterates = np.zeros(len(y)), []
    for _ in range(n_passes):
        for t in range(len(y)):
            iterates.append(a.copy())
            if y[t] * (K[t] @ a) <= 0:
                a[t] += y[t]
    fit = {m: KernelPerceptron(average=m, max_iter=n_passes, **options()).fit(X, y)
           for m in ("uniform", "voted", "last")}  # fmt: skip
    np.testing.assert_allclose(
        fit["uniform"].decision_function(X), K @ np.mean(iterates, axis=0), atol=1e-10
    )
    np.testing.assert_allclose(fit["last"].decision_function(X), K @ a, atol=1e-10)
    # The iterate 0 does not vote, and each other one from the round of its birth on.
    voters = fit["voted"].lives_.sum()
    assert voters == len(iterates)
    np.testing.assert_allclose(
        fit["voted"].decision_function(X) * voters,
        np.sign(K @ np.array([*iterates[1:], a]).T).sum(axis=1),
        atol=1e-9,
    )


def test_regression_by_averaged_sgd_does_not_depend_on_units():
    y = np.sin(2 * X[:, 0])
    one = KernelAveragedSGDRegressor(max_iter=5, **options()).fit(X, y)
    other = KernelAveragedSGDRegressor(max_iter=5, **options()).fit(X, 3.0 - 100.0 * y)
    assert one.score(X, y) > 0.7
    np.testing.assert_allclose(other.predict(X), 3.0 - 100.0 * one.predict(X), rtol=1e-9, atol=1e-7)
    for unit in (1e-100, 1e100):  # columns in any unit, also where a square is no single number
        scaled = KernelAveragedSGDRegressor(random_state=0).fit(X * unit, y).predict(X * unit)
        plain = KernelAveragedSGDRegressor(random_state=0).fit(X, y).predict(X)
        assert np.mean((scaled - plain) ** 2) < 0.05 * np.var(plain)


@pytest.mark.parametrize("loss", [SmoothedHinge(), Logistic()], ids=["hinge", "logistic"])
@pytest.mark.parametrize("labels", LABELS)
def test_theorem_1_in_feature_space(labels, loss):
    y, K = LABELS[labels].astype(float), RBF(0.7).gram(X, X)
    a, T = 3.0 * loss.bound(), len(y)
    learner = Isotropic(PiSTOL(a, 1.0, root=False), loss)
    memory = Memory(T, np.arange(T), Facts.of(RBF(), X))
    engine, at = MemoryEngine(RBF(), [Member(0.7, learner)], 1, memory), []
    with workers(1) as team:
        for start in range(0, T, 64):
            r = np.arange(start, min(T, start + 64))
            block = KernelBlock(None, r, np.ones(len(r)), y[r, None], np.ones(len(r)))
            at.append(engine.learn(team, block, scored=True)[0][1])
    p = np.vstack(at)[:, 0]
    lost = sum(loss.value(*v) for v in zip(p, y, strict=True))
    slopes = np.array([abs(loss.slope(*v)) for v in zip(p, y, strict=True)])
    found = engine.mean(0)[:, 0]
    for h in (np.zeros(T), found, 10 * found, np.linalg.solve(K + np.eye(T), y)):
        regret = lost - sum(loss.value(*v) for v in zip(K @ h, y, strict=True))
        size, constants = np.sqrt(h @ K @ h), {"a": a, "b": 1.0, "lipschitz": loss.bound()}
        assert regret < bounds.pistol_regret(size, slopes[:-1].sum(), T, **constants)


@pytest.mark.parametrize(
    "model, words",
    [
        (KernelAveragedSGDClassifier(step=0.0), "step=0"),
        (KernelAveragedSGDClassifier(average="best"), "average='best'"),
        (KernelAveragedSGDClassifier(loss="absolute_error"), "loss='absolute_error'"),
        (KernelAveragedSGDRegressor(step="bogus"), "step='bogus'"),
        (KernelAveragedSGDRegressor(loss="bogus"), "loss='bogus'"),
        (KernelAveragedSGDClassifier(gamma=-1.0), "gamma=-1"),
        (KernelPerceptron(average="mean"), "average='mean'"),
        (KernelPerceptron("precomputed", average="voted"), "voted"),
        (KernelPerceptron(max_iter=0), "max_iter=0"),
    ],
)
def test_what_is_refused(model, words):
    with pytest.raises(ValueError, match=words):
        model.fit(X, LABELS["ring"])
