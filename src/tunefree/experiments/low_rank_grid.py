"""The paper's grid of fixed steps on low-rank systems, beside the automatic step."""

import numpy as np

from tunefree.engine.run import run
from tunefree.experiments.low_rank import ALGORITHMS, System, parameters
from tunefree.experiments.style import COLOURS, MARKERS, finish, logarithmic

PAPER = "Boffi, Tu and Slotine 2021, Figures 1e-1f, the grid of appendix A.2"
TITLE = "Low-rank systems, n = d: the paper's grid and the automatic step"
NOTES = """
Seven steps from 1e-4 to 0.1, five p from 1.1 to 1.5 and five beta from 1e-4 to 1, each for 5,000
iterations as in the paper, at d = 50, 100 and 200 (quick: d = 50, three steps, two p and beta, 300
iterations); a fixed step ends early when 1,000 iterations bring no progress, an automatic one when
200 bring none. Both choose p or beta, and the iterate, by the risk on 100 held-out trajectories;
the grid its step, too. One draw; Theta = A B' / sqrt(d), whose scale the paper does not state.
"""
STEPS = (0.1, 0.05, 0.01, 0.005, 0.001, 0.0005, 0.0001)
PS, BETAS = (1.1, 1.2, 1.3, 1.4, 1.5), (1.0, 1e-1, 1e-2, 1e-3, 1e-4)


def cells(quick):
    """Size by algorithm by p or beta, by kind of step."""
    few = slice(0, None, 3) if quick else slice(None)
    sizes = ((50, 300),) if quick else ((50, 5000), (100, 5000), (200, 5000))
    return [
        {"d": d, "algorithm": a, "parameter": p, "steps": steps, "most": most}
        for d, most in sizes
        for a in ALGORITHMS
        for p in parameters(a, PS[few], BETAS[few])
        for steps in (list(STEPS[few]), [None])
    ]


def compute(cell, data):
    """The lowest held-out risk of the steps, its step and pass, and the excess risk there."""
    d = cell["d"]
    system = System(d, d // 50, d, seed=0)
    automatic = cell["steps"] == [None]
    patience = 200 if automatic else 1000
    learner = system.learner(cell["algorithm"], cell["parameter"], cell["steps"], patience)
    with np.errstate(all="ignore"):  # steps that are too large
        state = run(learner, learner.init(d, d), system.source, max_passes=cell["most"]).state
    best = learner.chosen(state)
    return {
        "held risk": 0.5 * float(state.score[best]),
        "excess": system.excess(learner.read(state)[0]),
        "step": cell["steps"][best] or "auto",
        "at": int(state.best_at[best]),
        "passes": int(state.passes) * (1 if automatic else len(cell["steps"])),
    }


def _best(results, d, algorithm, automatic):
    """The cell of the lowest held-out risk, and the passes of all of them."""
    found = [
        (c, n)
        for c, n in results
        if (c["d"], c["algorithm"], c["steps"] == [None]) == (d, algorithm, automatic)
    ]
    chosen = min(found, key=lambda pair: pair[1]["held risk"])
    return (*chosen, sum(n["passes"] for _, n in found))


def table(results):
    """Excess risks and passes of both, and what they chose."""
    rows = []
    for d in sorted({c["d"] for c, _ in results}):
        for algorithm in ALGORITHMS:
            for automatic in (False, True):
                cell, numbers, passes = _best(results, d, algorithm, automatic)
                chosen = "" if cell["parameter"] is None else f" at {cell['parameter']:g}"
                rows.append((
                    f"{algorithm}{chosen}, step {numbers['step']}",
                    "at most GLM-tron's" if algorithm != "GLM-tron" else "-",
                    f"excess {numbers['excess']:.4f} after {numbers['at']}; passes {passes:,}",
                    f"d = {d}, {'automatic' if automatic else 'grid'}",
                ))  # fmt: skip
    return rows


def draw(figure, results):
    """Excess risks against d: the grid dashed and hollow, the automatic step solid."""
    ax = figure.subplots()
    x = sorted({c["d"] for c, _ in results})
    for i, algorithm in enumerate(ALGORITHMS):
        for automatic, line in ((False, "--"), (True, "-")):
            y = [_best(results, d, algorithm, automatic)[1]["excess"] for d in x]
            label = f"{algorithm}, {'automatic' if automatic else 'grid'}"
            fill = COLOURS[i] if automatic else "none"
            ax.plot(x, y, line, marker=MARKERS[i], color=COLOURS[i], markersize=6, label=label,
                    markerfacecolor=fill)  # fmt: skip
    logarithmic(ax)
    finish(ax, "d = n", "excess test risk (half squared error)", TITLE)
