"""PiSTOL's excess risk falls at the rate of the unknown smoothness, with nothing tuned."""

import numpy as np
from scipy.special import expit

from tunefree.experiments.style import curve, finish, logarithmic
from tunefree.experiments.synthetic import GRID, Cosines, averages, risks
from tunefree.learners.pistol.rules import PiSTOL
from tunefree.losses import Logistic

PAPER = "Orabona 2014, Theorem 2 and Corollary 2"
TITLE = "Excess logistic risk against rows, for three smoothnesses beta"
NOTES = """
A reproducing kernel space with eigenvalues i^-1.1 and a target in L_K^beta of the square-integrable
functions, known exactly, so that risks are integrals and not estimates. The labels are drawn from
the logistic model, whose optimal risk is positive: the theorem promises T^(-2 beta / (2 beta + 1))
up to logarithms, whatever beta is. The paper has no experiment for it. Exponents are least-squares
slopes over the last half of the marks, medians over seeds; smaller than promised means faster. The
theorem covers a >= 2.25 L and is about large T: where its rule has not come to the promised rate
yet, the table says so. Of the rule without constants (a = 1/4, b = sqrt(A / X)) nothing is proved;
it is shown beside.
"""
BETAS = (0.5, 0.25, 0.125)
RULES = {
    "theorem": PiSTOL(a=2.25, b=1.0, root=False),
    "ours": PiSTOL(a=0.25, b=1.0, root=True),
}


def cells(quick):
    """Smoothness by rule by seed."""
    rows, seeds = (2**12, 3) if quick else (2**16, 10)
    return [
        {"beta": beta, "rule": rule, "rows": rows, "seed": seed}
        for beta in BETAS
        for rule in RULES
        for seed in range(seeds)
    ]


def compute(cell, data):
    """Measure the excess risk of the average at powers of two."""
    space, rng = (
        Cosines(beta=cell["beta"], size=3.0, terms=200),
        np.random.default_rng(cell["seed"]),
    )
    x = rng.uniform(size=cell["rows"])
    y = np.where(rng.uniform(size=len(x)) < expit(space.target(x)), 1.0, -1.0)
    marks = [2**k for k in range(5, 40) if 2**k <= len(x)]
    loss, chance = Logistic(), expit(space.target(GRID))
    best = risks(loss, space.target(GRID), chance)
    features = space.features(GRID)
    means = averages(RULES[cell["rule"]], loss, space.features(x), y, marks)
    return {"T": marks, "excess": [risks(loss, features @ w, chance) - best for w in means]}


def _groups(results):
    for beta in BETAS:
        for rule in RULES:
            chosen = [n for c, n in results if c["beta"] == beta and c["rule"] == rule]
            yield beta, rule, chosen[0]["T"], np.median([n["excess"] for n in chosen], axis=0)


def table(results):
    """Fit exponents, with a verdict beside the theorem's."""
    rows = []
    for beta, rule, marks, excess in _groups(results):
        half, promised = len(marks) // 2, -2 * beta / (2 * beta + 1)
        slope = np.polyfit(np.log(marks[half:]), np.log(excess[half:]), 1)[0]
        paper = f"{promised:.2f} or below" if rule == "theorem" else "nothing proved"
        verdict = "at the rate" if slope <= promised else f"not at the rate by T = {marks[-1]}"
        rows.append(
            ("exponent of T", paper, f"{slope:.2f}: {verdict}",
             f"beta = {beta:g}, {rule}, T = {marks[half]} ... {marks[-1]}")
        )  # fmt: skip
    return rows


def draw(figure, results):
    """Draw the excess risks, and the promised slopes as dotted lines."""
    axes = dict(zip(RULES, figure.subplots(1, 2, sharey=True), strict=True))
    for i, (beta, rule, marks, excess) in enumerate(_groups(results)):
        ax, colour = axes[rule], i // len(RULES)
        line = curve(ax, marks, excess, colour, f"beta = {beta:g}")
        rate = excess[0] * (np.array(marks) / marks[0]) ** (-2 * beta / (2 * beta + 1))
        ax.plot(marks, rate, ":", color=line.get_color(), linewidth=1.0)
    for rule, ax in axes.items():
        logarithmic(ax)
        title = "a = 2.25, b = 1 (theorem)" if rule == "theorem" else "b = sqrt(A / X) (ours)"
        finish(ax, "T, rows", "excess risk (nats)" if rule == "theorem" else "", title)
