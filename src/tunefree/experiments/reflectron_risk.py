"""Training and held-out risk along the iterations, at the paper's fixed steps."""

import numpy as np

from tunefree.experiments.sparse_glm import ALGORITHMS, Problem
from tunefree.experiments.style import COLOURS, finish, logarithmic

PAPER = "Boffi, Tu and Slotine 2021, Figure 1a"
TITLE = "Risk over 5,000 iterations: every algorithm overfits in the end"
NOTES = """
n = 1000 rows, d = 10,000 columns of which 100 matter (quick: 200 and 1000). Fixed steps 1, 0.1,
0.01 and 0.001 and the paper's betas; each curve is the configuration of the lowest held-out risk.
The paper prints no numbers for this figure. Risks are mean squared errors, noise included (its
variance is 0.0033). The dashed curves turn upwards: rows held out are needed to stop.
"""
STEPS = (1.0, 0.1, 0.01, 0.001)
BETAS = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)


def cells(quick):
    """One algorithm a cell."""
    size = {"d": 1000, "n": 200, "most": 3000} if quick else {"d": 10_000, "n": 1000, "most": 5000}
    return [{"algorithm": a, **size, "steps": 1 if quick else 4} for a in ALGORITHMS]


def compute(cell, data):
    """The risk curves of the best configuration."""
    problem = Problem(cell["d"], cell["n"], seed=0)
    betas = BETAS if cell["steps"] > 1 else BETAS[2:]
    pairs = problem.geometry(cell["algorithm"], ps=(1.1,), betas=betas)
    model = problem.fit(
        [p for p, _ in pairs], pairs[0][1], step=list(STEPS[: cell["steps"]]),
        max_iter=cell["most"],
    )  # fmt: skip
    risk, held = model.trace_["risk"], model.trace_["held_risk"]
    best = int(np.nanargmin(np.nanmin(held, axis=0)))
    at = int(np.nanargmin(held[:, best]))
    shown = np.unique(np.geomspace(1, len(risk), 200).astype(int)) - 1
    top = model.leaderboard_[0]
    return {
        "iteration": shown,
        "training": risk[shown, best],
        "held out": held[shown, best],
        "at": at,
        "lowest": held[at, best],
        "last": held[-1, best],
        "test error": problem.test_error(model),
        "potential": top["potential"],
        "step": top["step"],
    }


def table(results):
    """Where the held-out risk is lowest, and what it is at the end."""
    rows = []
    for cell, r in results:
        setting = f"{cell['algorithm']}, {r['potential']}, step {r['step']}"
        rows.append(("held-out risk, lowest at iteration", "before the end", r["at"], setting))
        ours = f"{r['lowest']:.4f} -> {r['last']:.4f}"
        rows.append(("held-out risk, lowest -> last", "rises", ours, setting))
    return rows


def draw(figure, results):
    """Training solid, held-out dashed."""
    ax = figure.subplots()
    for colour, (cell, r) in zip(COLOURS, results, strict=False):
        x = np.array(r["iteration"]) + 1
        ax.plot(x, r["training"], color=colour, label=f"{cell['algorithm']}: training")
        ax.plot(x, r["held out"], "--", color=colour, label=f"{cell['algorithm']}: held out")
    logarithmic(ax)
    finish(ax, "iteration", "mean squared error", TITLE)
