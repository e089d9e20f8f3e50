"""MNIST by two geometries of the flow, and by the natural gradient."""

import numpy as np

from tunefree.datasets import load_mnist_sample
from tunefree.estimators.reflectron.trajectory import flow
from tunefree.experiments.style import COLOURS, finish, logarithmic
from tunefree.potentials import Euclidean, PNorm, Power

PAPER = "Boffi and Slotine 2020, Figures 1A-B, 2 and 3A-C"
TITLE = "MNIST, 7,840 parameters: risk, accuracy and how many weights are small"
NOTES = """
5,000 training and 10,000 test images (quick: 800 and 1,000), each pixel standardised over the
whole file, sigmoid means of one-hot targets, no intercept. The paper does not publish its horizon,
its initial scale or its statistics: the horizons 5 (q = 2), 700 (q = 1.1) and 15 (natural gradient)
end at the same training risk, about 1.67; shares of small weights fall slowly along the flow. The
natural gradient cannot leave 0, so it starts from normal numbers of deviation 1e-3, whose scale
decides its share. What reproduces is the order, and that accuracies are similar.
"""
NEEDS = ("mnist-train-images-idx3-ubyte.gz", "mnist-train-labels-idx1-ubyte.gz")
SETTINGS = {
    "mirror, q = 1.1": (PNorm(1.1), False, 700.0, 73.51),
    "natural gradient, q = 1.1": (Power(1.1), True, 15.0, 54.11),
    "mirror, q = 2 (GLM-tron)": (Euclidean(), False, 5.0, 12.27),
}


def cells(quick):
    """One geometry a cell."""
    size = {"n": 800, "n_test": 1000} if quick else {"n": 5000, "n_test": 10_000}
    return [{"geometry": name, **size} for name in SETTINGS]


def _one_hot(y):
    return (y[:, None] == np.arange(10)).astype(float)


def compute(cell, data):
    """Follow the flow; risks and accuracies along it, and the weights at its end."""
    X, X_test, y, y_test = load_mnist_sample(
        *(f"{data}/{name}" for name in NEEDS), cell["n"], cell["n_test"], random_state=0
    )
    potential, natural, horizon, _ = SETTINGS[cell["geometry"]]
    path = flow(
        X, _one_hot(y), potential=potential, natural=natural, horizon=horizon,
        X_val=X_test, y_val=_one_hot(y_test), random_state=0,
    )  # fmt: skip
    times = np.geomspace(horizon / 200.0, horizon, 25)
    scores = []
    for t in times:
        coef, _ = path.at(t)
        scores.append([np.mean((A @ coef.T).argmax(axis=1) == labels)
                       for A, labels in ((X, y), (X_test, y_test))])  # fmt: skip
    coef, _ = path.at(horizon)
    shown = np.clip(coef, -0.1, 0.1)
    counts, _ = np.histogram(shown, np.linspace(-0.1, 0.1, 82))
    return {
        "time": times,
        "risk": path.risk_at(times),
        "test risk": path.risk_at(times, held=True),
        "accuracy": [s[0] for s in scores],
        "test accuracy": [s[1] for s in scores],
        "small": float(np.mean(np.abs(coef) < 1e-3)),
        "histogram": counts,
        "evaluations": path.n_evaluations,
    }


def table(results):
    """Shares of small weights beside the paper's, and the accuracy."""
    rows = []
    for cell, r in results:
        name = cell["geometry"]
        paper = f"{SETTINGS[name][3]:.2f} %"
        rows.append(("weights below 1e-3", paper, f"{100 * r['small']:.1f} %", name))
        rows.append(("test accuracy", "similar for all", f"{r['test accuracy'][-1]:.3f}", name))
    return rows


def draw(figure, results):
    """Risks, accuracies and histograms."""
    figure.set_size_inches(11.0, 3.8)
    risk, accuracy, weights = figure.subplots(1, 3)
    edges = np.linspace(-0.1, 0.1, 82)
    for colour, (cell, r) in zip(COLOURS, results, strict=False):
        look = {"color": colour, "linewidth": 1.4}
        t = np.array(r["time"]) / r["time"][-1]
        risk.plot(t, r["risk"], label=cell["geometry"], **look)
        risk.plot(t, r["test risk"], linestyle="--", **look)
        accuracy.plot(t, r["accuracy"], **look)
        accuracy.plot(t, r["test accuracy"], linestyle="--", **look)
        weights.stairs(r["histogram"], edges, label=cell["geometry"], **look)
    logarithmic(risk)
    logarithmic(accuracy, y=False)
    logarithmic(weights, x=False)
    finish(risk, "time / horizon", "mean squared error (dashed: test)", "(A) risk")
    finish(accuracy, "time / horizon", "accuracy (dashed: test)", "(B) accuracy", legend=False)
    finish(weights, "weight (cut at 0.1)", "weights", "weights at the end", legend=False)
