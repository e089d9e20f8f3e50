"""Which average of the iterates of SGD predicts best, over sample size and conditioning."""

import numpy as np

from tunefree.averaging import Geometric, Last, Tail, Uniform, survival
from tunefree.experiments.style import curve, finish, logarithmic

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
D = 50
RATES = tuple(np.geomspace(1e-5, 1.0, 21))
TAILS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85)


def cells(quick):
    """Sample sizes by decays of the spectrum."""
    sizes = (50, 200, 800) if quick else (50, 100, 200, 400, 800, 1600, 3200, 6400)
    runs = 40 if quick else 200
    return [{"decay": a, "n": n, "runs": runs} for a in (0.0, 1.0, 2.0) for n in sizes]


def compute(cell, data):
    """Mean excess risk of each scheme over simulated runs, from the stored scalars."""
    n, rng = cell["n"], np.random.default_rng(cell["n"])
    scale = np.arange(1.0, D + 1) ** (-cell["decay"] / 2)
    schemes = {
        "last": [Last()],
        "uniform": [Uniform()],
        "tail": [Tail(f) for f in TAILS],
        "geometric": [Geometric(r) for r in RATES],
    }
    shares = {
        name: np.array([survival(s, n + 1) for s in members]) for name, members in schemes.items()
    }
    total = {name: 0.0 for name in schemes}
    for _ in range(cell["runs"]):
        X = rng.normal(size=(n, D)) * scale
        solution = rng.normal(size=D)
        solution /= np.linalg.norm(solution)
        y = X @ solution + rng.normal(size=n)
        step = 0.5 / np.square(X).sum(axis=1).max()
        w, moves = np.zeros(D), np.empty(n)
        for i in range(n):
            moves[i] = -step * (X[i] @ w - y[i])
            w += moves[i] * X[i]
        for name, share in shares.items():
            gap = (share * moves) @ X - solution
            total[name] = total[name] + np.square(gap * scale).sum(axis=1)
    return {name: np.min(value) / cell["runs"] for name, value in total.items()}


def table(results):
    """Name the best scheme of each setting."""
    rows = []
    for cell, numbers in results:
        best = min(numbers, key=numbers.get)
        shown = ", ".join(f"{name} {value:.3g}" for name, value in numbers.items())
        small = cell["n"] <= 200 or cell["decay"] >= 1.0
        rows.append(
            (
                "best average", "geometric" if small else "tail, for n large",
                f"{best} ({shown})",
                f"decay {cell['decay']:g}, n = {cell['n']}",
            )
        )  # fmt: skip
    return rows


def draw(figure, results):
    """Draw one panel a spectrum."""
    decays = sorted({cell["decay"] for cell, _ in results})
    axes = figure.subplots(1, len(decays), sharey=True, squeeze=False)[0]
    for ax, decay in zip(axes, decays, strict=True):
        chosen = [(c["n"], numbers) for c, numbers in results if c["decay"] == decay]
        for i, name in enumerate(chosen[0][1]):
            curve(ax, [n for n, _ in chosen], [numbers[name] for _, numbers in chosen], i, name)
        logarithmic(ax)
        finish(
            ax, "n, rows (one pass)", "excess risk (squared units of y)" if decay == 0 else "",
            f"variances i^-{decay:g}", legend=decay == 0,
        )  # fmt: skip
