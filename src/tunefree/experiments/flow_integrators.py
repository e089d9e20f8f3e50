"""Five integrators follow the same flow."""

import numpy as np

from tunefree.datasets import make_cosine_glm
from tunefree.estimators.trajectory import flow
from tunefree.experiments.style import curve, finish, logarithmic
from tunefree.potentials import PNorm

PAPER = "Boffi and Slotine 2020, Figures 1C, 3D and 4B"
TITLE = "Risk along the flow by five integrators, shifted apart"
NOTES = """
The synthetic data of appendix B.3 (100 rows, 75 cosine features, 400 test rows), q = 1.1, horizon
100, relative tolerance 1e-6. The figure shifts the curves by factors of 1.5; the table gives the
largest distance of the curves themselves. The paper says that four integrators lie on top of each
other, and prints no number; the benchmark of the flow repeats it on MNIST.
"""
METHODS = ("DOP853", "RK45", "LSODA", "BDF", "Radau")


def cells(quick):
    """One integrator a cell."""
    return [{"method": m, "horizon": 20.0 if quick else 100.0} for m in METHODS]


def compute(cell, data):
    """Risks at fixed times."""
    X, X_test, y, y_test, _ = make_cosine_glm(random_state=0)
    path = flow(
        X, y, potential=PNorm(1.1), horizon=cell["horizon"], method=cell["method"],
        X_val=X_test, y_val=y_test,
    )  # fmt: skip
    times = np.geomspace(cell["horizon"] / 1e3, cell["horizon"], 60)
    return {
        "time": times,
        "risk": path.risk_at(times),
        "test risk": path.risk_at(times, held=True),
        "evaluations": path.n_evaluations,
    }


def table(results):
    """The largest distance from the first integrator's curve."""
    rows = []
    for key, seen in (("risk", "training"), ("test risk", "test")):
        curves = np.array([r[key] for _, r in results])
        gap = np.abs(curves[:, None] - curves[None]).max()
        rows.append((f"largest distance, {seen} risk", "0 to the eye", f"{gap:.1e}",
                     f"{len(results)} integrators"))  # fmt: skip
    for cell, r in results:
        rows.append(("passes over the rows", "-", r["evaluations"], cell["method"]))
    return rows


def draw(figure, results):
    """Curves, shifted apart."""
    ax = figure.subplots()
    for i, (cell, r) in enumerate(results):
        look = {"marker": "", "linewidth": 1.4}
        shift = 1.5**i
        line = curve(ax, r["time"], shift * np.array(r["risk"]), i, cell["method"], **look)
        ax.plot(r["time"], shift * np.array(r["test risk"]), "--", color=line.get_color())
    logarithmic(ax)
    finish(ax, "time", "mean squared error x 1.5^k (dashed: test)", TITLE)
