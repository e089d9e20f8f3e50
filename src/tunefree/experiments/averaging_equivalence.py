"""Geometric averages of plain SGD are, in expectation, regularized SGD."""

import numpy as np

from tunefree.averaging import Geometric, chunk_mean
from tunefree.experiments.stored_iterates import additive_noise_sgd, plain_sgd, regularized_sgd
from tunefree.experiments.style import curve, finish, logarithmic

PAPER = "Neu and Rosasco 2018, Propositions 1 and 2"
TITLE = "Averaging that regularizes: equal to Tikhonov in expectation, not path by path"
NOTES = """
The expected iterates follow the recursion with known covariance and no noise, so the equalities
are checked to rounding. By simulation, the mean over many runs agrees within its standard error,
while single runs of the two methods differ: the equality holds in expectation only, also after
many passes over the same rows.
"""
D, STEP, PENALTY, HORIZON = 10, 0.05, 0.3, 40


def cells(quick):
    """The exact recursion, then simulations of growing number."""
    runs = (100, 400, 1600) if quick else (100, 400, 1600, 6400, 25600)
    return [{"runs": 0}] + [{"runs": n} for n in runs]


def _population():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(D, D)) / np.sqrt(D)
    return root @ root.T, root, rng.normal(size=D)


def _combination(w):
    """The right side of Proposition 2, gamma lambda sum q^k w_k + q^t w_t."""
    q, gamma = 1 / (1 + STEP * PENALTY), STEP / (1 + STEP * PENALTY)
    t = len(w) - 1
    return gamma * PENALTY * (q ** np.arange(t) @ w[:t]) + q**t * w[t]


def compute(cell, data):
    """Compare both sides exactly (no runs), or as means over simulated runs."""
    covariance, root, solution = _population()
    product, gamma = covariance @ solution, STEP / (1 + STEP * PENALTY)

    def expected(step, steps, penalty=0.0):
        return additive_noise_sgd(
            covariance, product, np.zeros((steps, D)), step, np.zeros(D), penalty
        )

    if not cell["runs"]:
        ridge = np.linalg.solve(covariance + PENALTY * np.eye(D), product)
        average, _ = chunk_mean(Geometric(STEP * PENALTY), expected(STEP, 20_000))
        finite = max(
            np.abs(_combination(expected(STEP, t)) - expected(gamma, t, PENALTY)[-1]).max()
            for t in (0, 1, 2, 17, 300)
        )
        return {"limit": np.abs(average - ridge).max(), "finite": finite}
    rng, gaps, apart = np.random.default_rng(cell["runs"]), [], []
    for _ in range(cell["runs"]):
        X = rng.choice([-1.0, 1.0], size=(HORIZON, D)) @ root.T
        y = X @ solution + 0.5 * rng.normal(size=HORIZON)
        averaged = _combination(plain_sgd(X, y, STEP, np.zeros(D)))
        regularized = regularized_sgd(X, y, gamma, PENALTY, np.zeros(D))[-1]
        gaps.append(averaged - regularized)
        apart.append(np.linalg.norm(gaps[-1]) / np.linalg.norm(regularized))
    gaps = np.array(gaps)
    error = np.linalg.norm(gaps.std(axis=0)) / np.sqrt(len(gaps))
    return {
        "gap": np.linalg.norm(gaps.mean(axis=0)),
        "standard error": error,
        "single run": np.median(apart),
    }


def table(results):
    """Say how closely the two sides agree, exactly and by simulation."""
    exact, most = results[0][1], results[-1][1]
    runs = results[-1][0]["runs"]
    return [
        ("limit: average minus ridge", "0", f"{exact['limit']:.1e}", "Proposition 1, exact"),
        ("every finite t: two sides", "0", f"{exact['finite']:.1e}", "Proposition 2, exact"),
        ("mean gap / its standard error", "about 1 or less",
         f"{most['gap'] / most['standard error']:.2f}", f"{runs} simulated runs"),
        ("single run: relative distance", "not 0", f"{most['single run']:.2f}", "median"),
    ]  # fmt: skip


def draw(figure, results):
    """Draw the gap of the means, its standard error, and single runs."""
    ax = figure.subplots()
    runs = [cell["runs"] for cell, _ in results[1:]]
    for i, (key, label) in enumerate(
        (
            ("gap", "distance of the two means"),
            ("standard error", "its standard error"),
            ("single run", "relative distance of two single runs (median)"),
        )
    ):
        curve(ax, runs, [numbers[key] for _, numbers in results[1:]], i, label)
    logarithmic(ax)
    finish(ax, "simulated runs", "distance of coefficient vectors", TITLE)
