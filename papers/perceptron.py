"""Iterations until separation on the rows that are hardest for the Perceptron."""

import numpy as np

from papers import Experiment, grid
from papers.datasets import make_perceptron_hard
from papers.style import curve, finish
from tunefree.engine.run import run
from tunefree.engine.sources import Whole
from tunefree.perceptron.classical import Classical
from tunefree.perceptron.margins import Goal
from tunefree.perceptron.optimistic import Optimistic


def _optimistic(learner, X, y):
    learner = learner._replace(goal=Goal(margin=0.0))
    return run(learner, learner.init(len(y)), Whole(X, y[:, None], np.ones(len(y)))).state


class Iterations(Experiment):
    """Updates and operations of the Perceptron, Algorithm 1 and the adaptive step."""

    PAPER = "Hanashiro and Abernethy, Figure 1a-b"
    TITLE = "Updates until a hyperplane separates: Perceptron and Optimistic Perceptron"
    NOTES = """
The data are the paper's equation 2, rows in order. An operation is one inner product or one
addition of a row, as the paper counts; the paper prints no numbers, so its column quotes what its
text implies. The Perceptron's updates are exactly (4^n - 1) / 3. The adaptive step is this
library's default; the other curve is Algorithm 1 as published.
"""

    def cells(self, quick):
        """One size of the data a cell."""
        return grid(n=range(1, 11 if quick else 16))

    def compute(self, cell, data):
        """Run the three methods until they separate the rows."""
        n = cell["n"]
        X, y = make_perceptron_hard(n)
        classical = Classical(cycles=10_000_000 // n**2)
        perceptron = run(classical, classical.init(n), Whole(X, y[:, None], np.ones(n))).state
        paper, ours = _optimistic(Optimistic(step=1.0), X, y), _optimistic(Optimistic(), X, y)
        return {
            "perceptron updates": perceptron.n_updates,
            "perceptron": perceptron.n_operations,
            "paper updates": paper.n_updates,
            "paper": paper.n_operations,
            "adaptive": ours.n_operations,
        }

    def table(self, results):
        """The Perceptron's exact count, and how many times fewer operations optimism needs."""
        exact = all(r["perceptron updates"] == (4 ** c["n"] - 1) // 3 for c, r in results)
        last, numbers = results[-1]
        fewer, adaptive = (numbers["perceptron"] / numbers[k] for k in ("paper", "adaptive"))
        first = next((c["n"] for c, r in results if r["paper"] < r["perceptron"]), "-")
        size = f"n = {last['n']}"
        return [
            ("Perceptron's updates are (4^n - 1)/3", "Omega(2^n)", "exactly" if exact else "NO",
             f"n = 1 ... {last['n']}"),
            ("Optimistic needs fewer operations from", "small n", f"n = {first}", "Algorithm 1"),
            ("times fewer operations", "O(1/gamma) fewer", f"{fewer:,.0f}", f"{size}, Algorithm 1"),
            ("times fewer operations", "-", f"{adaptive:,.0f}", f"{size}, adaptive step"),
        ]  # fmt: skip

    def draw(self, figure, results):
        """Both panels: counts, and their logarithm."""
        n = [cell["n"] for cell, _ in results]
        names = {
            "perceptron": "Perceptron",
            "paper": "Optimistic Perceptron (paper)",
            "adaptive": "Optimistic Perceptron (adaptive step)",
        }
        for ax, logarithm in zip(figure.subplots(1, 2), (False, True), strict=True):
            for i, (key, label) in enumerate(names.items()):
                values = np.array([numbers[key] for _, numbers in results], dtype=float)
                curve(ax, n, np.log10(values) if logarithm else values, i, label)
            what = "log10 of the operations" if logarithm else "operations until separation"
            title = "(b)" if logarithm else "(a)"
            finish(ax, "n, rows and columns", what, title, log="", legend=logarithm)
