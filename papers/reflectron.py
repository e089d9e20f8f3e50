"""Sparse generalized linear models: three geometries of the Reflectron, and why rows grow."""

from typing import Any

import numpy as np
from scipy.special import expit

from papers import Experiment, grid, numbers_of
from papers.style import COLOURS, curve, finish, ranges
from tunefree import ReflectronRegressor
from tunefree.reflectron.constraints import L1Ball, LpBall
from tunefree.reflectron.potentials import Euclidean, Hypentropy, PNorm

ALGORITHMS = ("GLM-tron", "p-norm", "hypentropy")
# The automatic step's counterparts of the paper's grids.
PS, BETAS = (1.1, 1.2, 1.3), (1e-2, 1e-4)


class SparseProblem:
    """x uniform in [-1, 1]^d, y = sigmoid(<theta, x>) + 0.1 uniform, theta s-sparse and normal."""

    def __init__(self, d, n, seed, s=None, n_held=500, n_test=1000):
        rng = np.random.default_rng(seed)
        self.theta = np.zeros(d)
        s = d // 100 if s is None else s
        self.theta[rng.choice(d, s, replace=False)] = rng.standard_normal(s)
        self.X, self.y = self._rows(rng, n)
        self.X_held, self.y_held = self._rows(rng, n_held)
        self.X_test, self.y_test = self._rows(rng, n_test)

    def _rows(self, rng, n):
        X = rng.uniform(-1.0, 1.0, (n, len(self.theta)))
        return X, expit(X @ self.theta) + 0.1 * rng.uniform(-1.0, 1.0, n)

    def geometry(self, algorithm, ps=PS, betas=BETAS):
        """Potentials and constraint of an algorithm: radii twice the truth's norms."""
        if algorithm == "p-norm":
            return [(PNorm(p), LpBall(p, 2.0 * float(np.linalg.norm(self.theta, p)))) for p in ps]
        ball = L1Ball(2.0 * np.abs(self.theta).sum())
        potentials = [Euclidean()] if algorithm == "GLM-tron" else [Hypentropy(b) for b in betas]
        return [(potential, ball) for potential in potentials]

    def fit(self, potential, constraint, *, step: Any = "auto", max_iter=1000, patience=None):
        """Learn with the iterate, and the step if there are several, chosen on the held-out rows.

        The automatic step's patience is long: the Euclidean risk has an early false minimum.
        """
        model: Any = ReflectronRegressor(
            link="logit",
            potential=potential,
            constraint=constraint,
            step=step,
            fit_intercept=False,
            standardize=False,
            max_iter=max_iter,
            random_state=0,
        )
        model.patience = patience or max_iter
        return model.fit(self.X, self.y, X_val=self.X_held, y_val=self.y_held)

    def test_error(self, model):
        """Mean squared error on test rows, noise included."""
        return float(np.mean((model.predict(self.X_test) - self.y_test) ** 2))


class Risk(Experiment):
    """Training and held-out risk along the iterations, at the paper's fixed steps."""

    PAPER = "Boffi, Tu and Slotine 2021, Figure 1a"
    TITLE = "Risk over 5,000 iterations: every algorithm overfits in the end"
    NOTES = """
n = 1000 rows, d = 10,000 columns of which 100 matter (quick: 200 and 1000). Fixed steps 1, 0.1,
0.01 and 0.001 and the paper's betas; each curve is the configuration of the lowest held-out risk.
The paper prints no numbers for this figure. Risks are mean squared errors, noise included (its
variance is 0.0033). The dashed curves turn upwards: rows held out are needed to stop.
"""
    STEPS, BETAS = (1.0, 0.1, 0.01, 0.001), (1.0, 1e-1, 1e-2, 1e-3, 1e-4)

    def cells(self, quick):
        """One algorithm a cell."""
        d, n, most, steps = (1000, 200, 3000, 1) if quick else (10_000, 1000, 5000, 4)
        return grid(algorithm=ALGORITHMS, d=[d], n=[n], most=[most], steps=[steps])

    def compute(self, cell, data):
        """The risk curves of the best configuration."""
        problem = SparseProblem(cell["d"], cell["n"], seed=0)
        steps = list(self.STEPS[: cell["steps"]])
        betas = self.BETAS if cell["steps"] > 1 else self.BETAS[2:]
        pairs = problem.geometry(cell["algorithm"], ps=(1.1,), betas=betas)
        model = problem.fit([p for p, _ in pairs], pairs[0][1], step=steps, max_iter=cell["most"])
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

    def table(self, results):
        """Where the held-out risk is lowest, and what it is at the end."""
        rows = []
        for cell, r in results:
            setting = f"{cell['algorithm']}, {r['potential']}, step {r['step']}"
            rows.append(("held-out risk, lowest at iteration", "before the end", r["at"], setting))
            ours = f"{r['lowest']:.4f} -> {r['last']:.4f}"
            rows.append(("held-out risk, lowest -> last", "rises", ours, setting))
        return rows

    def draw(self, figure, results):
        """Training solid, held-out dashed."""
        ax = figure.subplots()
        for colour, (cell, r) in zip(COLOURS, results, strict=False):
            x = np.array(r["iteration"]) + 1
            for kind, line in (("training", "-"), ("held out", "--")):
                ax.plot(x, r[kind], line, color=colour, label=f"{cell['algorithm']}: {kind}")
        finish(ax, "iteration", "mean squared error", self.TITLE)


CLAIM = "p-norm, hypentropy < GLM-tron"


def sized(draws, **cell):
    """The settings of a size, and its number of draws."""
    return cell, draws


def medians(found, key):
    """Medians over draws, by algorithm."""
    return {name: np.median([m[key] for m in draws]) for name, draws in found.items()}


def shown(values, form):
    """Values by algorithm as text."""
    return ", ".join(f"{name} {value:{form}}" for name, value in values.items())


def order(values):
    """Whether the order of the algorithms is the paper's."""
    below = max(values["p-norm"], values["hypentropy"]) < values["GLM-tron"]
    return "as in the paper" if below else "GLM-tron is not the worst"


class Samples(Experiment):
    """Test error of three geometries against the number of rows."""

    PAPER = "Boffi, Tu and Slotine 2021, Figure 1b"
    TITLE = "Test error against rows, d = 10,000 columns of which 100 matter"
    NOTES = """
Five draws, median with lowest and highest. The paper tunes the step and p or beta on a grid over
5,000 iterations; here the automatic step is used, which tunes nothing, with three p and two betas
chosen on the same 500 held-out rows (quick: d = 1000, two draws). The paper prints no numbers; its
ordering is that p-norm and hypentropy are below the GLM-tron everywhere.
"""
    AXIS, XLABEL, YLABEL = "n", "rows n", "test mean squared error"
    DRAWN = "test error"  # the number on the vertical axis
    SIZES = tuple(sized(5, d=10_000, n=n, most=3000) for n in (250, 500, 1000, 2000))
    QUICK = tuple(sized(2, d=1000, n=n, most=400) for n in (100, 300))

    def cells(self, quick):
        """Sizes by algorithm by draw."""
        return [
            {**size, "algorithm": a, "seed": s}
            for size, draws in (self.QUICK if quick else self.SIZES)
            for a in ALGORITHMS
            for s in range(draws)
        ]

    def compute(self, cell, data):
        """Test error of the geometry of lowest held-out risk, with the automatic step."""
        problem, found = SparseProblem(cell["d"], cell["n"], cell["seed"]), []
        for potential, ball in problem.geometry(cell["algorithm"]):
            model = problem.fit(potential, ball, max_iter=cell["most"], patience=400)
            found.append((model.leaderboard_[0]["risk"], problem.test_error(model), model.n_iter_))
        risk, error, passes = min(found)
        return {"held risk": risk, "test error": error, "passes": passes}

    def groups(self, results):
        """Sizes where all algorithms have finished: a cell, and numbers by algorithm."""
        by_size = {cell[self.AXIS]: cell for cell, _ in results}
        for value, cell in sorted(by_size.items()):
            here = [(c, m) for c, m in results if c[self.AXIS] == value]
            found = {a: numbers_of(here, algorithm=a) for a in ALGORITHMS}
            if all(found.values()):
                yield cell, found

    def table(self, results):
        """Medians, and whether the order is the paper's."""
        rows = []
        for cell, found in self.groups(results):
            here = medians(found, "test error")
            draws = min(map(len, found.values()))
            setting = f"{self.AXIS} = {cell[self.AXIS]}, draws: {draws}; {order(here)}"
            rows.append(("median test error", CLAIM, shown(here, ".4f"), setting))
        return rows

    def draw(self, figure, results):
        """Medians with their range."""
        groups = list(self.groups(results))
        x = [cell[self.AXIS] for cell, _ in groups]
        curves = {a: (x, [[m[self.DRAWN] for m in f[a]] for _, f in groups]) for a in ALGORITHMS}
        ranges(figure.subplots(), curves, self.XLABEL, self.YLABEL, self.TITLE)


class Dimension(Samples):
    """Test error of three geometries against the number of columns."""

    PAPER = "Boffi, Tu and Slotine 2021, Figure 1c"
    TITLE = "Test error against columns, n = 1000 rows, one column in a hundred matters"
    NOTES = """
As for Figure 1b: five draws, the automatic step, p and beta chosen on 500 held-out rows (quick:
n = 200, two draws). The paper prints no numbers; its ordering is that errors grow with d and that
p-norm and hypentropy are below the GLM-tron.
"""
    AXIS, XLABEL = "d", "columns d"
    SIZES = tuple(sized(5, d=d, n=1000, most=3000) for d in (1000, 2000, 5000, 10_000))
    QUICK = tuple(sized(2, d=d, n=200, most=400) for d in (500, 1000))


class Weights(Experiment):
    """What the two geometries find without any projection."""

    PAPER = "Boffi, Tu and Slotine 2021, Figure 1d"
    TITLE = "Weights learned without projection: GLM-tron and hypentropy"
    NOTES = """
d = n = 1000, s = 10, no projection, steps 0.1 and 0.5, beta 1e-4, the iterate chosen on 500
held-out rows within 5,000 iterations. The paper shows one draw whose seed is unknown; over draws
the l1 errors spread by a factor of two to four, so the table gives medians and ranges. The paper's
draw lies near the low end of ours.
"""
    PUBLISHED = {"GLM-tron": (971, 24.609), "hypentropy": (56, 0.421)}
    SETTINGS = {"GLM-tron": (Euclidean(), 0.1), "hypentropy": (Hypentropy(1e-4), 0.5)}

    def cells(self, quick):
        """Algorithm by draw."""
        seeds, most = (2, 1500) if quick else (10, 5000)
        return grid(algorithm=self.SETTINGS, seed=range(seeds), most=[most])

    def compute(self, cell, data):
        """Count coordinates above 1e-3, and measure the l1 error."""
        problem = SparseProblem(1000, 1000, cell["seed"], s=10)
        potential, step = self.SETTINGS[cell["algorithm"]]
        model = problem.fit(potential, None, step=step, max_iter=cell["most"])
        return {
            "coordinates": int((np.abs(model.coef_) > 1e-3).sum()),
            "l1 error": float(np.abs(model.coef_ - problem.theta).sum()),
            "weights": model.coef_ if cell["seed"] == 0 else [],
            "truth": problem.theta if cell["seed"] == 0 else [],
        }

    def table(self, results):
        """Medians and ranges beside the paper's draw."""
        rows = []
        for algorithm, (coordinates, error) in self.PUBLISHED.items():
            found = numbers_of(results, algorithm=algorithm)
            for key, paper in (("coordinates", coordinates), ("l1 error", error)):
                values = [n[key] for n in found]
                ours = f"{np.median(values):.4g} ({min(values):.4g} to {max(values):.4g})"
                what = "coordinates above 1e-3" if key == "coordinates" else key
                rows.append((what, paper, ours, f"{algorithm}, {len(found)} draws"))
        return rows

    def draw(self, figure, results):
        """The weights of the first draw, over the truth."""
        axes = figure.subplots(1, 2, sharey=True)
        shown = [(c["algorithm"], n) for c, n in results if c["seed"] == 0]
        for ax, colour, (name, numbers) in zip(axes, COLOURS, shown, strict=False):
            truth = np.array(numbers["truth"])
            at = np.flatnonzero(truth)
            ax.plot(at, truth[at], "x", color="black", markersize=5, label="truth, if not 0")
            ax.plot(numbers["weights"], ".", color=colour, markersize=3, label="learned")
            finish(ax, "column", "weight" if name == "GLM-tron" else "", name, log="")


class Norms(Experiment):
    """Why rows grow with columns in the low-rank experiments: two norms of a random matrix."""

    PAPER = "Boffi, Tu and Slotine 2021, appendix A.3"
    TITLE = "Norms of H = X'X / n for Gaussian rows, n = d"
    NOTES = """
The pseudogradient enters the guarantee by its dual norm: Frobenius for the GLM-tron, operator for
the spectral hypentropy. With n = d the first grows like sqrt(d), the second stays below (1 + 1)^2;
the paper's bound for the Frobenius norm, sqrt(d^2 / n + (1 + 1 / n) d), is shown beside.
"""

    def cells(self, quick):
        """Sizes."""
        return grid(d=(50, 100, 200, 400, 800, 1600)[: 4 if quick else None])

    def compute(self, cell, data):
        """Both norms, means over draws."""
        d, rng = cell["d"], np.random.default_rng(cell["d"])
        found = []
        for _ in range(max(4, 8000 // d)):
            X = rng.standard_normal((d, d))
            H = X.T @ X / d
            found.append((np.linalg.norm(H), np.linalg.eigvalsh(H)[-1]))
        frobenius, operator = np.mean(found, axis=0)
        bound = np.sqrt(d + (1.0 + 1.0 / d) * d)
        return {"frobenius": frobenius, "bound": bound, "operator": operator}

    def table(self, results):
        """Exponents of d, and the bound."""
        d = np.log([cell["d"] for cell, _ in results])
        rows = []
        for key, paper in (("frobenius", "0.50"), ("operator", "0 (bounded)")):
            slope = np.polyfit(d, np.log([n[key] for _, n in results]), 1)[0]
            rows.append((f"exponent of d, {key} norm", paper, f"{slope:.2f}", "n = d"))
        worst = f"{max(n['frobenius'] / n['bound'] for _, n in results):.2f}"
        return [*rows, ("mean Frobenius norm / the paper's bound", "at most 1", worst, "largest")]

    def draw(self, figure, results):
        """Both norms against d."""
        ax = figure.subplots()
        d = [cell["d"] for cell, _ in results]
        labels = {
            "frobenius": "Frobenius norm (GLM-tron)",
            "bound": "the paper's bound",
            "operator": "operator norm (hypentropy)",
        }
        for i, (key, label) in enumerate(labels.items()):
            look = {"linestyle": "--", "marker": ""} if key == "bound" else {}
            curve(ax, d, [n[key] for _, n in results], i, label, **look)
        finish(ax, "d = n", "norm of H", self.TITLE)
