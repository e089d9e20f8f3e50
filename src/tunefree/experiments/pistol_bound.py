"""The shape of PiSTOL's guarantee on the excess risk: fast first, then slower."""

import numpy as np

from tunefree.experiments.style import curve, finish, logarithmic

PAPER = "Orabona 2014, Theorem 2 and Figure 2"
TITLE = "Upper bound on the excess risk for beta = 1/2"
NOTES = """
The bound of Theorem 2 without its logarithms and constants, as in the paper's figure, for several
optimal risks. Until T = risk^(-(beta + 1) / (2 beta)) it falls like T^(-2 beta / (beta + 1)), as if
the optimal risk were zero, and then like T^(-2 beta / (2 beta + 1)).
"""
BETA = 0.5


def bound(risk, T, beta=BETA):
    """Theorem 2's maximum, without logarithms and constants."""
    level = risk + 1.0 / T
    terms = [
        level ** (beta / (2 * beta + 1)) * T ** (-2 * beta / (2 * beta + 1)),
        T ** (-2 * beta / (beta + 1)),
    ]
    if beta > 1 / 3:
        terms.append(level ** ((3 * beta - 1) / (4 * beta)) * T**-0.5)
    return np.max(terms, axis=0)


def cells(quick):
    """One optimal risk a cell."""
    return [{"risk": risk} for risk in (0.0, 1e-4, 1e-2, 1.0)]


def compute(cell, data):
    """The curve, its slopes at both ends, and where it bends."""
    T = np.geomspace(10.0, 1e8, 71)
    values = bound(cell["risk"], T)
    slopes = np.diff(np.log(values)) / np.diff(np.log(T))
    first = -2 * BETA / (BETA + 1)
    bend = T[:-1][np.abs(slopes - first) > 1e-3]
    return {
        "T": T,
        "bound": values,
        "first slope": slopes[0],
        "last slope": slopes[-1],
        "bend": bend[0] if len(bend) else np.inf,
    }


def table(results):
    """Compare the exponents of both regimes with the text's."""
    slow = -2 * BETA / (2 * BETA + 1)
    fast = -2 * BETA / (BETA + 1)
    rows = []
    for cell, numbers in results:
        setting = f"optimal risk {cell['risk']:g}"
        last = fast if cell["risk"] == 0 else slow
        rows.append(("exponent at T = 1e8", f"{last:.3f}", f"{numbers['last slope']:.3f}", setting))
        if cell["risk"] > 0:
            expected = cell["risk"] ** (-(BETA + 1) / (2 * BETA))
            bend = numbers["bend"]
            rows.append(("the bend, T of the order of", f"{expected:.1e}", f"{bend:.1e}", setting))
    return rows


def draw(figure, results):
    """Draw one curve an optimal risk."""
    ax = figure.subplots()
    for i, (cell, numbers) in enumerate(results):
        label = f"optimal risk {cell['risk']:g}"
        curve(ax, numbers["T"], numbers["bound"], i, label, markevery=10)
    logarithmic(ax)
    finish(ax, "T, rows", "bound on the excess risk (up to logarithms)", TITLE)
