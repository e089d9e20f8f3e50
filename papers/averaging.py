"""Averages of the iterates of SGD: what they equal, how they vary, which predicts best."""

import numpy as np

from papers import Experiment, grid
from papers.stored_iterates import additive_noise_sgd, average_iterates, sgd
from papers.style import curve, finish
from tunefree.parts.averaging import Geometric, Last, Tail, Uniform, survival

DECAYS = (0.0, 1.0, 2.0)  # of the covariance's eigenvalues, i^-decay
D = 50


def _panels(figure, results, curves, xlabel, ylabel, title):
    """One panel a spectrum; `curves` makes (x, y, label) of its cells."""
    decays = sorted({cell["decay"] for cell, _ in results})
    axes = figure.subplots(1, len(decays), sharey=True, squeeze=False)[0]
    for ax, decay in zip(axes, decays, strict=True):
        chosen = [(c, numbers) for c, numbers in results if c["decay"] == decay]
        for i, (x, y, label) in enumerate(curves(chosen)):
            curve(ax, x, y, i, label)
        first = decay == 0
        finish(ax, xlabel, ylabel if first else "", f"{title} i^-{decay:g}", legend=first)
    return axes


class Equivalence(Experiment):
    """Geometric averages of plain SGD are, in expectation, regularized SGD."""

    PAPER = "Neu and Rosasco 2018, Propositions 1 and 2"
    TITLE = "Averaging that regularizes: equal to Tikhonov in expectation, not path by path"
    NOTES = """
The expected iterates follow the recursion with known covariance and no noise, so the equalities
are checked to rounding. By simulation, the mean over many runs agrees within its standard error,
while single runs of the two methods differ: the equality holds in expectation only, also after
many passes over the same rows.
"""
    D, STEP, PENALTY, HORIZON = 10, 0.05, 0.3, 40

    def cells(self, quick):
        """The exact recursion, then simulations of growing number."""
        return grid(runs=[0, *(100 * 4**k for k in range(3 if quick else 5))])

    def _combination(self, w):
        """The right side of Proposition 2, gamma lambda sum q^k w_k + q^t w_t."""
        shrunk = 1 + self.STEP * self.PENALTY
        q, gamma, t = 1 / shrunk, self.STEP / shrunk, len(w) - 1
        return gamma * self.PENALTY * (q ** np.arange(t) @ w[:t]) + q**t * w[t]

    def compute(self, cell, data):
        """Compare both sides exactly (no runs), or as means over simulated runs."""
        d, step, penalty = self.D, self.STEP, self.PENALTY
        rng = np.random.default_rng(0)
        root = rng.normal(size=(d, d)) / np.sqrt(d)
        covariance, solution = root @ root.T, rng.normal(size=d)
        product, gamma = covariance @ solution, step / (1 + step * penalty)

        def expected(step, steps, penalty=0.0):
            noise = np.zeros((steps, d))
            return additive_noise_sgd(covariance, product, noise, step, np.zeros(d), penalty)

        if not cell["runs"]:
            ridge = np.linalg.solve(covariance + penalty * np.eye(d), product)
            (average,) = average_iterates(expected(step, 20_000), [Geometric(step * penalty)])
            finite = max(
                np.abs(self._combination(expected(step, t)) - expected(gamma, t, penalty)[-1]).max()
                for t in (0, 1, 2, 17, 300)
            )
            return {"limit": np.abs(average - ridge).max(), "finite": finite}
        rng, gaps, apart = np.random.default_rng(cell["runs"]), [], []
        for _ in range(cell["runs"]):
            X = rng.choice([-1.0, 1.0], size=(self.HORIZON, d)) @ root.T
            y = X @ solution + 0.5 * rng.normal(size=self.HORIZON)
            averaged = self._combination(sgd(X, y, step, np.zeros(d)))
            regularized = sgd(X, y, gamma, np.zeros(d), penalty)[-1]
            gaps.append(averaged - regularized)
            apart.append(np.linalg.norm(gaps[-1]) / np.linalg.norm(regularized))
        gaps = np.array(gaps)
        return {
            "gap": np.linalg.norm(gaps.mean(axis=0)),
            "standard error": np.linalg.norm(gaps.std(axis=0)) / np.sqrt(len(gaps)),
            "single run": np.median(apart),
        }

    def table(self, results):
        """How closely the two sides agree, exactly and by simulation."""
        exact, most = results[0][1], results[-1][1]
        runs = results[-1][0]["runs"]
        return [
            ("limit: average minus ridge", "0", f"{exact['limit']:.1e}", "Proposition 1, exact"),
            ("every finite t: two sides", "0", f"{exact['finite']:.1e}", "Proposition 2, exact"),
            ("mean gap / its standard error", "about 1 or less",
             f"{most['gap'] / most['standard error']:.2f}", f"{runs} simulated runs"),
            ("single run: relative distance", "not 0", f"{most['single run']:.2f}", "median"),
        ]  # fmt: skip

    def draw(self, figure, results):
        """The gap of the means, its standard error, and single runs."""
        ax = figure.subplots()
        runs = [cell["runs"] for cell, _ in results[1:]]
        labels = {
            "gap": "distance of the two means",
            "standard error": "its standard error",
            "single run": "relative distance of two single runs (median)",
        }
        for i, (key, label) in enumerate(labels.items()):
            curve(ax, runs, [numbers[key] for _, numbers in results[1:]], i, label)
        finish(ax, "simulated runs", "distance of coefficient vectors", self.TITLE)


class Variance(Experiment):
    """Where geometric averages have less variance than uniform ones."""

    PAPER = "Neu and Rosasco 2018, Proposition 4"
    TITLE = "Variance of the geometric average relative to the uniform one"
    NOTES = """
Additive noise with known covariance, where bias and variance of any average have a closed form, so
nothing is simulated. The variance is the excess risk of the run that starts at the solution. The
paper states that a suitable parameter lowers the variance when the covariance is ill-conditioned
or the sample small; it prints no numbers. A ratio below 1 means that the geometric average, with
the penalty shown, varies less.
"""

    def cells(self, quick):
        """Sample sizes by decays of the spectrum."""
        sizes = (50, 500, 5000) if quick else (50, 150, 500, 1500, 5000, 15000)
        return grid(decay=DECAYS, n=sizes)

    def _variance(self, scheme, values, step, n):
        """sum_s || step S^(1/2) sum_(k>=s) mass_k (1 - step S)^(k-s) ||^2, covariance S."""
        shares = survival(scheme, n + 1)
        masses = -np.diff(np.concatenate([[1.0], shares, [0.0]]))
        passed, total = np.zeros_like(values), 0.0
        for mass in masses[:0:-1]:
            passed = mass + (1.0 - step * values) * passed
            total += float(np.square(step * values * passed).sum())
        return total

    def compute(self, cell, data):
        """The variance of both averages over a grid of penalties."""
        values, n = np.arange(1.0, D + 1) ** -cell["decay"], cell["n"]
        step, penalties = 0.5 / values.sum(), np.geomspace(1e-4, 1.0, 13)
        uniform = self._variance(Uniform(), values, step, n)
        found = [self._variance(Geometric(step * p), values, step, n) for p in penalties]
        return {"penalty": penalties, "ratio": [variance / uniform for variance in found]}

    def table(self, results):
        """The smallest ratio of each setting."""
        name, claim, rows = "smallest variance ratio", "below 1 if ill-conditioned or n small", []
        for c, r in results:
            best = r["penalty"][int(np.argmin(r["ratio"]))]
            found = f"{min(r['ratio']):.3f} at lambda = {best:.2g}"
            rows.append((name, claim, found, f"decay {c['decay']:g}, n = {c['n']}"))
        return rows

    def draw(self, figure, results):
        """One panel a spectrum."""

        def curves(chosen):
            return [(r["penalty"], r["ratio"], f"n = {c['n']}") for c, r in chosen]

        labels = "penalty lambda", "variance, geometric / uniform", "eigenvalues"
        axes = _panels(figure, results, curves, *labels)
        for ax in axes:
            ax.axhline(1.0, color="black", linewidth=0.8, linestyle=":")


class Schemes(Experiment):
    """Which average of the iterates of SGD predicts best, over sample size and conditioning."""

    PAPER = "Neu and Rosasco 2018, section 3 (geometric against tail averaging)"
    TITLE = "Excess risk of averages of SGD: geometric, tail, uniform, last"
    NOTES = """
One pass of least-squares SGD on d = 50 Gaussian columns whose variances fall like i^-decay; the
noise has standard deviation 1 and the solution norm 1. The geometric parameter is the best of a
grid, for each setting, and so is the tail's start: what each scheme can do. The paper argues that
geometric averages win where the sample is small or the covariance ill-conditioned, and tail
averages win once n times the smallest eigenvalue is large. With equal eigenvalues late iterates win
for n = d, too: at this step, half of the largest that is safe, the run has not arrived yet, and
bias decides, of which geometric averages have the most. The figure is this library's: the paper has
none.
"""
    SCHEMES = {
        "last": [Last()],
        "uniform": [Uniform()],
        "tail": [Tail(f) for f in (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85)],
        "geometric": [Geometric(r) for r in np.geomspace(1e-5, 1.0, 21)],
    }

    def cells(self, quick):
        """Sample sizes by decays of the spectrum."""
        sizes = (50, 200, 800) if quick else (50, 100, 200, 400, 800, 1600, 3200, 6400)
        return grid(decay=DECAYS, n=sizes, runs=[40 if quick else 200])

    def compute(self, cell, data):
        """Mean excess risk of each scheme over simulated runs, from the stored scalars."""
        n, rng = cell["n"], np.random.default_rng(cell["n"])
        scale = np.arange(1.0, D + 1) ** (-cell["decay"] / 2)
        shares = {
            name: np.array([survival(s, n + 1) for s in members])
            for name, members in self.SCHEMES.items()
        }
        total = {name: 0.0 for name in shares}
        for _ in range(cell["runs"]):
            X = rng.normal(size=(n, D)) * scale
            solution = rng.normal(size=D)
            solution /= np.linalg.norm(solution)
            y = X @ solution + rng.normal(size=n)
            step = 0.5 / np.square(X).sum(axis=1).max()
            w, steps = np.zeros(D), np.empty(n)
            for i in range(n):
                steps[i] = -step * (X[i] @ w - y[i])
                w += steps[i] * X[i]
            for name, share in shares.items():
                gap = (share * steps) @ X - solution
                total[name] = total[name] + np.square(gap * scale).sum(axis=1)
        return {name: np.min(value) / cell["runs"] for name, value in total.items()}

    def table(self, results):
        """The best scheme of each setting."""
        rows = []
        for cell, numbers in results:
            best = min(numbers, key=numbers.get)
            shown = ", ".join(f"{name} {value:.3g}" for name, value in numbers.items())
            small = cell["n"] <= 200 or cell["decay"] >= 1.0
            paper = "geometric" if small else "tail, for n large"
            setting = f"decay {cell['decay']:g}, n = {cell['n']}"
            rows.append(("best average", paper, f"{best} ({shown})", setting))
        return rows

    def draw(self, figure, results):
        """One panel a spectrum."""

        def curves(chosen):
            n = [c["n"] for c, _ in chosen]
            return [(n, [r[name] for _, r in chosen], name) for name in chosen[0][1]]

        ylabel = "excess risk (squared units of y)"
        _panels(figure, results, curves, "n, rows (one pass)", ylabel, "variances")
