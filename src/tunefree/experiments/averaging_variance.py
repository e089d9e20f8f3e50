"""Where geometric averages have less variance than uniform ones."""

import numpy as np

from tunefree.averaging import Geometric, Uniform, survival
from tunefree.experiments.style import curve, finish, logarithmic

PAPER = "Neu and Rosasco 2018, Proposition 4"
TITLE = "Variance of the geometric average relative to the uniform one"
NOTES = """
Additive noise with known covariance, where bias and variance of any average have a closed form, so
nothing is simulated. The variance is the excess risk of the run that starts at the solution. The
paper states that a suitable parameter lowers the variance when the covariance is ill-conditioned
or the sample small; it prints no numbers. A ratio below 1 means that the geometric average, with
the penalty shown, varies less.
"""
D = 50


def cells(quick):
    """Sample sizes by decays of the spectrum."""
    sizes = (50, 500, 5000) if quick else (50, 150, 500, 1500, 5000, 15000)
    return [{"decay": a, "n": n} for a in (0.0, 1.0, 2.0) for n in sizes]


def _variance(scheme, values, step, n):
    """sum_s || step S^(1/2) sum_(k>=s) mass_k (1 - step S)^(k-s) ||^2, noise of covariance S."""
    shares = survival(scheme, n + 1)
    masses = -np.diff(np.concatenate([[1.0], shares, [0.0]]))
    passed, total = np.zeros_like(values), 0.0
    for mass in masses[:0:-1]:
        passed = mass + (1.0 - step * values) * passed
        total += float(np.square(step * values * passed).sum())
    return total


def compute(cell, data):
    """The variance of both averages over a grid of penalties."""
    values = np.arange(1.0, D + 1) ** -cell["decay"]
    step = 0.5 / values.sum()
    uniform = _variance(Uniform(), values, step, cell["n"])
    penalties = np.geomspace(1e-4, 1.0, 13)
    ratios = [
        _variance(Geometric(step * penalty), values, step, cell["n"]) / uniform
        for penalty in penalties
    ]
    return {"penalty": penalties, "ratio": ratios}


def table(results):
    """Report the smallest ratio of each setting."""
    return [
        ("smallest variance ratio", "below 1 if ill-conditioned or n small",
         f"{min(r['ratio']):.3f} at lambda = {r['penalty'][int(np.argmin(r['ratio']))]:.2g}",
         f"decay {c['decay']:g}, n = {c['n']}")
        for c, r in results
    ]  # fmt: skip


def draw(figure, results):
    """Draw one panel a spectrum."""
    decays = sorted({cell["decay"] for cell, _ in results})
    axes = figure.subplots(1, len(decays), sharey=True, squeeze=False)[0]
    for ax, decay in zip(axes, decays, strict=True):
        chosen = [(c, numbers) for c, numbers in results if c["decay"] == decay]
        for i, (c, numbers) in enumerate(chosen):
            curve(ax, numbers["penalty"], numbers["ratio"], i, f"n = {c['n']}")
        ax.axhline(1.0, color="black", linewidth=0.8, linestyle=":")
        logarithmic(ax)
        finish(
            ax, "penalty lambda", "variance, geometric / uniform" if decay == 0 else "",
            f"eigenvalues i^-{decay:g}", legend=decay == 0,
        )  # fmt: skip
