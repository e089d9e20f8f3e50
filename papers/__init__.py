"""Every figure of the five papers, one class a figure: ``python -m papers``.

`papers.runner.reproduce` runs an experiment: it stores each finished cell, so that an interrupted
run resumes, and writes table, CSV and PNG. A stored cell is not computed again: delete its file
after a change of what computes it. A new figure is one class and one line here.
`papers.baselines` has the estimators that the papers compare with.
"""

from importlib import import_module
from itertools import product


class Experiment:
    """A figure: where it stands in its paper, what it shows, what differs here and why.

    Experiments that inherit `compute` from another share their cells with it.
    """

    PAPER = TITLE = NOTES = ""
    NEEDS = ()  # files of the data folder without which it cannot run

    def cells(self, quick):
        """A list of dicts: independent units of work, each a set of parameters."""
        raise NotImplementedError

    def compute(self, cell, data):
        """Numbers and lists of numbers by name; `data` is a folder of public data sets."""
        raise NotImplementedError

    def table(self, results):
        """Rows (what, paper, ours, setting) made of all cells' parameters and numbers."""
        raise NotImplementedError

    def draw(self, figure, results):
        """The picture."""
        raise NotImplementedError


def grid(**settings):
    """All combinations of settings as cells; the last setting changes fastest.

    Examples
    --------
    >>> grid(n=[1, 2], seed=range(2))
    [{'n': 1, 'seed': 0}, {'n': 1, 'seed': 1}, {'n': 2, 'seed': 0}, {'n': 2, 'seed': 1}]
    """
    return [dict(zip(settings, values, strict=True)) for values in product(*settings.values())]


def numbers_of(results, **settings):
    """The numbers of the cells that have these settings, in order."""
    return [n for c, n in results if all(c[name] == value for name, value in settings.items())]


def load(name):
    """The experiment of a name in the table; ValueError for another.

    Examples
    --------
    >>> from papers import load
    >>> load("perceptron-iterations").PAPER
    'Hanashiro and Abernethy, Figure 1a-b'
    """
    if name not in EXPERIMENTS:
        known = ", ".join(EXPERIMENTS)
        raise ValueError(f"There is no experiment {name!r}; there are {known}.")
    module, figure = EXPERIMENTS[name].split(".")
    return getattr(import_module(f"papers.{module}"), figure)()


EXPERIMENTS = {
    "perceptron-iterations": "perceptron.Iterations",
    "averaging-equivalence": "averaging.Equivalence",
    "averaging-variance": "averaging.Variance",
    "averaging-schemes": "averaging.Schemes",
    "pistol-bound": "pistol.Bound",
    "pistol-rates": "pistol.Rates",
    "pistol-comparison": "pistol.Comparison",
    "pistol-learning-curves": "pistol.LearningCurves",
    "reflectron-risk": "reflectron.Risk",
    "reflectron-samples": "reflectron.Samples",
    "reflectron-dimension": "reflectron.Dimension",
    "reflectron-weights": "reflectron.Weights",
    "reflectron-norms": "reflectron.Norms",
    "low-rank-samples": "low_rank.LowRankSamples",
    "low-rank-dimension": "low_rank.LowRankDimension",
    "low-rank-grid": "low_rank.LowRankGrid",
    "flow-digits": "flow.Digits",
    "flow-integrators": "flow.Integrators",
    "flow-synthetic": "flow.Synthetic",
}
