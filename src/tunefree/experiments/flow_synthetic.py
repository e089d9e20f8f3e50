"""Two geometries on the synthetic data: the same risk, other weights."""

import numpy as np

from tunefree.datasets import make_cosine_glm
from tunefree.estimators.reflectron.trajectory import flow
from tunefree.experiments.style import COLOURS, finish, logarithmic
from tunefree.potentials import Euclidean, PNorm

PAPER = "Boffi and Slotine 2020, Figures 4A and 5"
TITLE = "Synthetic data: similar risks, and weights of different shapes"
NOTES = """
The data of appendix B.3. The p-norm's time is divided by p - 1, as in the paper (which prints
1 / (1 - q) for the rate; it must read 1 / (q - 1)). The paper shows histograms and no numbers: the
table counts small weights, and how much of the l1 norm the ten largest carry.
"""
SETTINGS = {"q = 1.1": (PNorm(1.1), 0.1), "q = 2 (GLM-tron)": (Euclidean(), 1.0)}


def cells(quick):
    """Geometry by draw."""
    return [{"geometry": g, "seed": s} for g in SETTINGS for s in range(2 if quick else 10)]


def compute(cell, data):
    """Follow the flow to the horizon."""
    X, X_test, y, y_test, theta = make_cosine_glm(random_state=cell["seed"])
    potential, pace = SETTINGS[cell["geometry"]]
    horizon = 20.0 / pace
    path = flow(X, y, potential=potential, horizon=horizon, X_val=X_test, y_val=y_test)
    times = np.geomspace(horizon / 1e3, horizon, 60)
    coef, size = path.at(horizon)[0][0], np.abs(theta).max()
    largest = np.sort(np.abs(coef))[::-1]
    return {
        "time": times * pace,
        "risk": path.risk_at(times),
        "test risk": path.risk_at(times, held=True),
        "weights": coef,
        "truth": theta,
        "small": float(np.mean(np.abs(coef) < 1e-2 * size)),
        "ten": float(largest[:10].sum() / largest.sum()),
    }


def table(results):
    """Medians over draws."""
    rows = []
    for name in SETTINGS:
        found = [r for c, r in results if c["geometry"] == name]
        draws = f"{name}, {len(found)} draws"
        for key, what, paper in (
            ("small", "weights below 1 % of the largest true one", "more for q = 1.1"),
            ("ten", "share of the l1 norm in ten weights", "more for q = 1.1"),
        ):
            rows.append((what, paper, f"{np.median([r[key] for r in found]):.3f}", draws))
        last = np.median([r["test risk"][-1] for r in found])
        rows.append(("test risk at the end", "similar", f"{last:.4f}", draws))
    return rows


def draw(figure, results):
    """Risks of the first draw, and its weights."""
    figure.set_size_inches(10.0, 3.8)
    risk, weights = figure.subplots(1, 2)
    shown = [(c, r) for c, r in results if c["seed"] == 0]
    edges = np.linspace(-3.0, 3.0, 41)
    for colour, (cell, r) in zip(COLOURS, shown, strict=False):
        risk.plot(r["time"], r["risk"], color=colour, label=cell["geometry"])
        risk.plot(r["time"], r["test risk"], "--", color=colour)
        counts, _ = np.histogram(np.clip(r["weights"], -3.0, 3.0), edges)
        weights.stairs(counts, edges, color=colour, label=cell["geometry"])
    counts, _ = np.histogram(np.clip(shown[0][1]["truth"], -3.0, 3.0), edges)
    weights.stairs(counts, edges, color="black", linestyle=":", label="truth")
    logarithmic(risk)
    finish(risk, "time (rescaled)", "mean squared error (dashed: test)", "risk")
    finish(weights, "weight", "weights", "weights at the end")
