"""Why rows grow with columns in the low-rank experiments: two norms of a random matrix."""

import numpy as np

from tunefree.experiments.style import curve, finish, logarithmic

PAPER = "Boffi, Tu and Slotine 2021, appendix A.3"
TITLE = "Norms of H = X'X / n for Gaussian rows, n = d"
NOTES = """
The pseudogradient enters the guarantee by its dual norm: Frobenius for the GLM-tron, operator for
the spectral hypentropy. With n = d the first grows like sqrt(d), the second stays below (1 + 1)^2;
the paper's bound for the Frobenius norm, sqrt(d^2 / n + (1 + 1 / n) d), is shown beside.
"""


def cells(quick):
    """Sizes."""
    return [{"d": d} for d in ((50, 100, 200, 400) if quick else (50, 100, 200, 400, 800, 1600))]


def compute(cell, data):
    """Both norms, means over draws."""
    d, rng = cell["d"], np.random.default_rng(cell["d"])
    found = []
    for _ in range(max(4, 8000 // d)):
        X = rng.standard_normal((d, d))
        H = X.T @ X / d
        found.append((np.linalg.norm(H), np.linalg.eigvalsh(H)[-1]))
    frobenius, operator = np.mean(found, axis=0)
    bound = np.sqrt(d * d / d + (1.0 + 1.0 / d) * d)
    return {"frobenius": frobenius, "bound": bound, "operator": operator}


def table(results):
    """Exponents of d, and the bound."""
    d = np.log([cell["d"] for cell, _ in results])
    rows = []
    for key, paper in (("frobenius", "0.50"), ("operator", "0 (bounded)")):
        slope = np.polyfit(d, np.log([n[key] for _, n in results]), 1)[0]
        rows.append((f"exponent of d, {key} norm", paper, f"{slope:.2f}", "n = d"))
    worst = max(n["frobenius"] / n["bound"] for _, n in results)
    rows.append(("mean Frobenius norm / the paper's bound", "at most 1", f"{worst:.2f}", "largest"))
    return rows


def draw(figure, results):
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
    logarithmic(ax)
    finish(ax, "d = n", "norm of H", TITLE)
