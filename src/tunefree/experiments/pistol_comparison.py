"""A small excess risk in the loss means few excess mistakes, also with noise near the border."""

import numpy as np

from tunefree.experiments.style import curve, finish, logarithmic
from tunefree.experiments.synthetic import GRID, Cosines, averages, risks
from tunefree.learners.pistol.rules import PiSTOL
from tunefree.losses import SmoothedHinge

PAPER = "Orabona 2014, Lemma 1 and equations 7-8"
TITLE = "Excess mistakes against excess smoothed-hinge risk, and Lemma 1's bound"
NOTES = """
The chance of the label 1 is (1 + r(x)) / 2 with a known r that crosses zero with a slope, so the
noise exponent is q = 1 and alpha = 1/2; c_q is the largest share of |r| <= s, divided by s. The
smoothed hinge has -l'(0) = 2 and l''(0) = 2, so C = 2. All risks are integrals over a grid. The
paper states the lemma without an experiment. The bound holds with room: its constant 32 is crude.
"""
ALPHA, C = 0.5, 2.0


def cells(quick):
    """One seed a cell."""
    return [{"seed": s, "rows": 2**12 if quick else 2**16} for s in range(3 if quick else 10)]


def _pointwise_best(loss, chance):
    """The smallest risk that any function has, point by point."""
    candidates = np.linspace(-1.0, 1.0, 2001)
    up = np.array([loss.value(p, 1.0) for p in candidates])
    down = np.array([loss.value(p, -1.0) for p in candidates])
    return float(np.mean([np.min(c * up + (1.0 - c) * down) for c in chance]))


def compute(cell, data):
    """Both excess risks of the average at powers of two, and the bound."""
    space, rng = Cosines(beta=0.5, size=0.9, terms=100), np.random.default_rng(cell["seed"])
    x = rng.uniform(size=cell["rows"])
    y = np.where(rng.uniform(size=len(x)) < (1.0 + space.target(x)) / 2.0, 1.0, -1.0)
    r = space.target(GRID)
    chance, loss = (1.0 + r) / 2.0, SmoothedHinge()
    levels = np.linspace(0.01, 1.0, 100)
    c_alpha = max(float(np.mean(np.abs(r) <= s)) / s for s in levels) + 1.0
    marks = [2**k for k in range(5, 40) if 2**k <= len(x)]
    features, best = space.features(GRID), _pointwise_best(loss, chance)
    excess, mistakes = [], []
    for w in averages(PiSTOL(), loss, space.features(x), y, marks):
        f = features @ w
        excess.append(risks(loss, f, chance) - best)
        mistakes.append(float(np.mean(np.abs(r) * (f * r <= 0.0))))
    bound = (32.0 * c_alpha / C * np.array(excess)) ** (1.0 / (2.0 - ALPHA))
    return {"T": marks, "excess": excess, "mistakes": mistakes, "bound": bound}


def table(results):
    """The largest ratio of the two sides, and the exponent that relates them."""
    ratio = max(np.max(np.array(n["mistakes"]) / n["bound"]) for _, n in results)
    x = np.log(np.concatenate([n["excess"] for _, n in results]))
    y = np.concatenate([n["mistakes"] for _, n in results])
    slope = np.polyfit(x[y > 0], np.log(y[y > 0]), 1)[0]
    return [
        ("mistakes / bound, largest", "at most 1", f"{ratio:.3f}", f"{len(results)} seeds"),
        ("exponent relating the two", f"{1 / (2 - ALPHA):.2f} or above", f"{slope:.2f}", "fit"),
    ]


def draw(figure, results):
    """Draw the pairs and the bound."""
    ax = figure.subplots()
    excess = np.concatenate([n["excess"] for _, n in results])
    mistakes = np.concatenate([n["mistakes"] for _, n in results])
    bound = np.concatenate([n["bound"] for _, n in results])
    order = np.argsort(excess)
    curve(ax, excess, mistakes, 0, "PiSTOL's averages", linestyle="none")
    curve(ax, excess[order], bound[order], 1, "Lemma 1's bound", marker="")
    logarithmic(ax)
    finish(ax, "excess smoothed-hinge risk", "excess probability of a mistake", TITLE)
