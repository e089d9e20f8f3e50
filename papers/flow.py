"""The Reflectron as a flow: two geometries and the natural gradient, by five integrators."""

from pathlib import Path

import numpy as np

from papers import Experiment, grid, numbers_of
from papers.datasets import load_mnist_sample, make_cosine_glm
from papers.stiff import SOLVERS, implicit
from papers.style import COLOURS, curve, finish
from tunefree.parts.links import Logit
from tunefree.reflectron import flow
from tunefree.reflectron.flow_integrators import Flow, Sample
from tunefree.reflectron.potentials import Euclidean, PNorm, Power
from tunefree.rows.designs import Dense

DIGITS = ("mnist-train-images-idx3-ubyte.gz", "mnist-train-labels-idx1-ubyte.gz")


def _one_hot(y):
    return (y[:, None] == np.arange(10)).astype(float)


def _risks(path, times):
    """The risk on training and test rows at these times."""
    held = path.risk_at(times, held=True)
    return {"time": times, "risk": path.risk_at(times), "test risk": held}


def _both(ax, t, r, key="risk", **look):
    """A quantity on training rows, solid, and on test rows, dashed."""
    ax.plot(t, r[key], **look)
    ax.plot(t, r[f"test {key}"], **(look | {"linestyle": "--", "label": None}))


class Digits(Experiment):
    """MNIST by two geometries of the flow, and by the natural gradient."""

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
    NEEDS = DIGITS
    SETTINGS = {
        "mirror, q = 1.1": (PNorm(1.1), False, 700.0, 73.51),
        "natural gradient, q = 1.1": (Power(1.1), True, 15.0, 54.11),
        "mirror, q = 2 (GLM-tron)": (Euclidean(), False, 5.0, 12.27),
    }
    EDGES = np.linspace(-0.1, 0.1, 82)

    def cells(self, quick):
        """One geometry a cell."""
        n, n_test = (800, 1000) if quick else (5000, 10_000)
        return grid(geometry=self.SETTINGS, n=[n], n_test=[n_test])

    def compute(self, cell, data):
        """Follow the flow; risks and accuracies along it, and the weights at its end."""
        images, labels = (f"{data}/{name}" for name in DIGITS)
        X, X_test, y, y_test = load_mnist_sample(
            images, labels, cell["n"], cell["n_test"], random_state=0
        )
        potential, natural, horizon, _ = self.SETTINGS[cell["geometry"]]
        geometry = {"potential": potential, "natural": natural, "horizon": horizon}
        held_out = {"X_val": X_test, "y_val": _one_hot(y_test)}
        path = flow(X, _one_hot(y), **geometry, **held_out, random_state=0)
        times = np.geomspace(horizon / 200.0, horizon, 25)
        scores = []
        for t in times:
            coef, _ = path.at(t)
            sets = (X, y), (X_test, y_test)
            scores.append([np.mean((A @ coef.T).argmax(axis=1) == labels) for A, labels in sets])
        coef, _ = path.at(horizon)
        return {
            **_risks(path, times),
            "accuracy": [s[0] for s in scores],
            "test accuracy": [s[1] for s in scores],
            "small": float(np.mean(np.abs(coef) < 1e-3)),
            "histogram": np.histogram(np.clip(coef, -0.1, 0.1), self.EDGES)[0],
            "evaluations": path.n_evaluations,
        }

    def table(self, results):
        """Shares of small weights beside the paper's, and the accuracy."""
        rows = []
        for cell, r in results:
            name = cell["geometry"]
            paper = f"{self.SETTINGS[name][3]:.2f} %"
            rows.append(("weights below 1e-3", paper, f"{100 * r['small']:.1f} %", name))
            rows.append(("test accuracy", "similar for all", f"{r['test accuracy'][-1]:.3f}", name))
        return rows

    def draw(self, figure, results):
        """Risks, accuracies and histograms."""
        figure.set_size_inches(11.0, 3.8)
        risk, accuracy, weights = figure.subplots(1, 3)
        for colour, (cell, r) in zip(COLOURS, results, strict=False):
            look = {"color": colour, "linewidth": 1.4, "label": cell["geometry"]}
            t = np.array(r["time"]) / r["time"][-1]
            _both(risk, t, r, **look)
            _both(accuracy, t, r, "accuracy", **look)
            weights.stairs(r["histogram"], self.EDGES, **look)
        time, test = "time / horizon", "(dashed: test)"
        finish(risk, time, f"mean squared error {test}", "(A) risk")
        finish(accuracy, time, f"accuracy {test}", "(B) accuracy", log="x", legend=False)
        finish(
            weights, "weight (cut at 0.1)", "weights", "weights at the end", log="y", legend=False
        )


class Integrators(Experiment):
    """Five integrators follow the same flow."""

    PAPER = "Boffi and Slotine 2020, Figures 1C, 3D and 4B"
    TITLE = "Risk along the flow by five integrators, shifted apart"
    NOTES = """
Left: the synthetic data of appendix B.3 (100 rows, 75 cosine features, 400 test rows), horizon
100. The other panels: MNIST, 7,840 parameters, mirror flow of q = 1.1 until 100, natural gradient
of the power 1.1 until 2, T = 20 and .2 in the paper's units (quick: 1,000 images and a tenth of the
time; drawn only with a data folder). Relative tolerance 1e-6. The figure shifts the curves by
factors of 1.5; the table gives the largest distance of the curves themselves. In the paper four
integrators lie on top of each other; it prints neither a number nor its horizon. On MNIST
SciPy's BDF and Radau would factor matrices of 7,840 unknowns, half a gigabyte: here they know that
these consist of ten blocks (`papers.stiff`).
"""
    METHODS = ("DOP853", "RK45", "LSODA", "BDF", "Radau")
    PANELS = {"synthetic": 100.0, "MNIST, mirror": 100.0, "MNIST, natural": 2.0}  # and horizons

    def cells(self, quick):
        """Data by integrator."""
        out = []
        for name, horizon in self.PANELS.items():
            rows = {} if name == "synthetic" else {"n": 1000 if quick else 5000}
            shorter = 5.0 if name == "synthetic" else 10.0
            more = {"horizon": horizon / shorter if quick else horizon, **rows}
            out += [{"data": name, "method": method, **more} for method in self.METHODS]
        return out

    def compute(self, cell, data):
        """Risks at fixed times; nothing without the data."""
        method, natural = cell["method"], cell["data"] == "MNIST, natural"
        potential = Power(1.1) if natural else PNorm(1.1)
        if cell["data"] == "synthetic":
            X, X_test, y, y_test, _ = make_cosine_glm(random_state=0)
        else:
            files = [Path(data or "") / name for name in DIGITS]
            if not all(file.exists() for file in files):
                return {}
            n = cell["n"]
            X, X_test, y, y_test = load_mnist_sample(files[0], files[1], n, 2 * n, random_state=0)
            y, y_test = _one_hot(y), _one_hot(y_test)
            if method in SOLVERS:  # the implicit ones get the Jacobian in blocks
                sample = Sample(Dense(X), y, np.ones(len(X)))
                method = implicit(
                    SOLVERS[method], Flow(sample, Logit(), potential, natural=natural)
                )
        geometry = {"potential": potential, "natural": natural, "horizon": cell["horizon"]}
        held_out = {"X_val": X_test, "y_val": y_test}
        path = flow(X, y, **geometry, **held_out, method=method, random_state=0)
        times = np.geomspace(cell["horizon"] / 1e3, cell["horizon"], 40)
        return {**_risks(path, times), "evaluations": path.n_evaluations}

    def _panels(self, results):
        """The cells of each panel that were computed."""
        for name in self.PANELS:
            found = [(c, r) for c, r in results if c["data"] == name and r]
            if found:
                yield name, found

    def table(self, results):
        """The largest distance between two integrators' curves."""
        rows = []
        for name, found in self._panels(results):
            setting = f"{name}, {len(found)} integrators"
            for key, seen in (("risk", "training"), ("test risk", "test")):
                curves = np.array([r[key] for _, r in found])
                gap = f"{np.abs(curves[:, None] - curves[None]).max():.1e}"
                rows.append((f"largest distance, {seen} risk", "0 to the eye", gap, setting))
            for cell, r in found:
                setting = f"{name}, {cell['method']}"
                rows.append(("passes over the rows", "-", r["evaluations"], setting))
        return rows

    def draw(self, figure, results):
        """Curves, shifted apart; one panel a data set."""
        panels = list(self._panels(results))
        figure.set_size_inches(4.0 * len(panels) + 1.0, 4.0)
        axes = np.atleast_1d(figure.subplots(1, len(panels)))
        for ax, (name, found) in zip(axes, panels, strict=True):
            for i, (cell, r) in enumerate(found):
                look = {"marker": "", "linewidth": 1.4}
                shift = 1.5**i
                line = curve(ax, r["time"], shift * np.array(r["risk"]), i, cell["method"], **look)
                ax.plot(r["time"], shift * np.array(r["test risk"]), "--", color=line.get_color())
            first = name == panels[0][0]
            what = "mean squared error x 1.5^k (dashed: test)" if first else ""
            finish(ax, "time", what, name, legend=first)


class Synthetic(Experiment):
    """Two geometries on the synthetic data: the same risk, other weights."""

    PAPER = "Boffi and Slotine 2020, Figures 4A and 5"
    TITLE = "Synthetic data: similar risks, and weights of different shapes"
    NOTES = """
The data of appendix B.3. The p-norm's time is divided by p - 1, as in the paper (which prints
1 / (1 - q) for the rate; it must read 1 / (q - 1)). The paper shows histograms and no numbers: the
table counts small weights, and how much of the l1 norm the ten largest carry.
"""
    SETTINGS = {"q = 1.1": (PNorm(1.1), 0.1), "q = 2 (GLM-tron)": (Euclidean(), 1.0)}

    def cells(self, quick):
        """Geometry by draw."""
        return grid(geometry=self.SETTINGS, seed=range(2 if quick else 10))

    def compute(self, cell, data):
        """Follow the flow to the horizon."""
        X, X_test, y, y_test, theta = make_cosine_glm(random_state=cell["seed"])
        potential, pace = self.SETTINGS[cell["geometry"]]
        horizon = 20.0 / pace
        path = flow(X, y, potential=potential, horizon=horizon, X_val=X_test, y_val=y_test)
        times = np.geomspace(horizon / 1e3, horizon, 60)
        coef, size = path.at(horizon)[0][0], np.abs(theta).max()
        largest = np.sort(np.abs(coef))[::-1]
        return {
            **_risks(path, times),
            "time": times * pace,
            "weights": coef,
            "truth": theta,
            "small": float(np.mean(np.abs(coef) < 1e-2 * size)),
            "ten": float(largest[:10].sum() / largest.sum()),
        }

    def table(self, results):
        """Medians over draws."""
        rows = []
        for name in self.SETTINGS:
            found = numbers_of(results, geometry=name)
            draws, paper = f"{name}, {len(found)} draws", "more for q = 1.1"
            for key, what in (
                ("small", "weights below 1 % of the largest true one"),
                ("ten", "share of the l1 norm in ten weights"),
            ):
                rows.append((what, paper, f"{np.median([r[key] for r in found]):.3f}", draws))
            last = np.median([r["test risk"][-1] for r in found])
            rows.append(("test risk at the end", "similar", f"{last:.4f}", draws))
        return rows

    def draw(self, figure, results):
        """Risks of the first draw, and its weights."""
        figure.set_size_inches(10.0, 3.8)
        risk, weights = figure.subplots(1, 2)
        shown = [(c["geometry"], r) for c, r in results if c["seed"] == 0]
        bars = [
            (name, r["weights"], {"color": colour})
            for colour, (name, r) in zip(COLOURS, shown, strict=False)
        ]
        bars.append(("truth", shown[0][1]["truth"], {"color": "black", "linestyle": ":"}))
        for (name, _, look), (_, r) in zip(bars, shown, strict=False):
            _both(risk, r["time"], r, label=name, **look)
        edges = np.linspace(-3.0, 3.0, 41)
        for name, values, look in bars:
            counts, _ = np.histogram(np.clip(values, -3.0, 3.0), edges)
            weights.stairs(counts, edges, label=name, **look)
        finish(risk, "time (rescaled)", "mean squared error (dashed: test)", "risk")
        finish(weights, "weight", "weights", "weights at the end", log="")
