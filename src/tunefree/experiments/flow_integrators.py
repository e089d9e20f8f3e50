"""Five integrators follow the same flow."""

from pathlib import Path

import numpy as np

from tunefree.datasets import load_mnist_sample, make_cosine_glm
from tunefree.designs import Dense
from tunefree.estimators.reflectron.trajectory import flow
from tunefree.experiments.stiff import SOLVERS, implicit
from tunefree.experiments.style import curve, finish, logarithmic
from tunefree.learners.reflectron.flow import Flow, Sample
from tunefree.links import Logistic
from tunefree.potentials import PNorm, Power

PAPER = "Boffi and Slotine 2020, Figures 1C, 3D and 4B"
TITLE = "Risk along the flow by five integrators, shifted apart"
NOTES = """
Left: the synthetic data of appendix B.3 (100 rows, 75 cosine features, 400 test rows), horizon
100. The other panels: MNIST, 7,840 parameters, mirror flow of q = 1.1 until 100, natural gradient
of the power 1.1 until 2, T = 20 and .2 in the paper's units (quick: 1,000 images and a tenth of the
time; drawn only with a data folder). Relative tolerance 1e-6. The figure shifts the curves by
factors of 1.5; the table gives the largest distance of the curves themselves. The paper says that
four integrators lie on top of each other, and prints neither a number nor its horizon. On MNIST
SciPy's BDF and Radau would factor matrices of 7,840 unknowns, half a gigabyte: here they know that
these consist of ten blocks (`tunefree.experiments.stiff`).
"""
METHODS = ("DOP853", "RK45", "LSODA", "BDF", "Radau")
DIGITS = ("mnist-train-images-idx3-ubyte.gz", "mnist-train-labels-idx1-ubyte.gz")
PANELS = {"synthetic": 100.0, "MNIST, mirror": 100.0, "MNIST, natural": 2.0}  # and horizons


def cells(quick):
    """Data by integrator."""
    out = []
    for name, horizon in PANELS.items():
        if name == "synthetic":
            more = {"horizon": horizon / 5.0 if quick else horizon}
        else:
            n = 1000 if quick else 5000
            more = {"horizon": horizon / 10.0 if quick else horizon, "n": n}
        out += [{"data": name, "method": method, **more} for method in METHODS]
    return out


def _problem(cell, data):
    """Training and test rows, and the potential; None without the data."""
    if cell["data"] == "synthetic":
        X, X_test, y, y_test, _ = make_cosine_glm(random_state=0)
        return X, y, X_test, y_test, PNorm(1.1)
    files = [Path(data or "") / name for name in DIGITS]
    if not all(file.exists() for file in files):
        return None
    X, X_test, y, y_test = load_mnist_sample(*files, cell["n"], 2 * cell["n"], random_state=0)
    one_hot = [(v[:, None] == np.arange(10)).astype(float) for v in (y, y_test)]
    return X, one_hot[0], X_test, one_hot[1], _potential(cell)


def _natural(cell):
    return cell["data"] == "MNIST, natural"


def _potential(cell):
    return Power(1.1) if _natural(cell) else PNorm(1.1)


def _method(cell, X, y):
    """The integrator's name; on MNIST the implicit ones get the Jacobian in blocks."""
    if cell["data"] == "synthetic" or cell["method"] not in SOLVERS:
        return cell["method"]
    sample = Sample(Dense(X), y, np.ones(len(X)))
    field = Flow(sample, Logistic(), _potential(cell), natural=_natural(cell))
    return implicit(SOLVERS[cell["method"]], field)


def compute(cell, data):
    """Risks at fixed times; nothing without the data."""
    problem = _problem(cell, data)
    if problem is None:
        return {}
    X, y, X_test, y_test, potential = problem
    path = flow(
        X, y, potential=potential, natural=_natural(cell), horizon=cell["horizon"],
        method=_method(cell, X, y), X_val=X_test, y_val=y_test, random_state=0,
    )  # fmt: skip
    times = np.geomspace(cell["horizon"] / 1e3, cell["horizon"], 40)
    return {
        "time": times,
        "risk": path.risk_at(times),
        "test risk": path.risk_at(times, held=True),
        "evaluations": path.n_evaluations,
    }


def _panels(results):
    """The cells of each panel that were computed."""
    for name in PANELS:
        found = [(c, r) for c, r in results if c["data"] == name and r]
        if found:
            yield name, found


def table(results):
    """The largest distance between two integrators' curves."""
    rows = []
    for name, found in _panels(results):
        setting = f"{name}, {len(found)} integrators"
        for key, seen in (("risk", "training"), ("test risk", "test")):
            curves = np.array([r[key] for _, r in found])
            gap = np.abs(curves[:, None] - curves[None]).max()
            rows.append((f"largest distance, {seen} risk", "0 to the eye", f"{gap:.1e}", setting))
        for cell, r in found:
            rows.append(
                ("passes over the rows", "-", r["evaluations"], f"{name}, {cell['method']}")
            )
    return rows


def draw(figure, results):
    """Curves, shifted apart; one panel a data set."""
    panels = list(_panels(results))
    figure.set_size_inches(4.0 * len(panels) + 1.0, 4.0)
    for ax, (name, found) in zip(np.atleast_1d(figure.subplots(1, len(panels))), panels,
                                 strict=True):  # fmt: skip
        for i, (cell, r) in enumerate(found):
            look = {"marker": "", "linewidth": 1.4}
            shift = 1.5**i
            line = curve(ax, r["time"], shift * np.array(r["risk"]), i, cell["method"], **look)
            ax.plot(r["time"], shift * np.array(r["test risk"]), "--", color=line.get_color())
        logarithmic(ax)
        first = name == panels[0][0]
        what = "mean squared error x 1.5^k (dashed: test)" if first else ""
        finish(ax, "time", what, name, legend=first)
