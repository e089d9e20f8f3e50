"""Every figure of the five papers, one file a figure: ``tunefree reproduce``.

An experiment is a module of this package with

``PAPER``, ``TITLE``, ``NOTES``
    where the figure stands, what it shows, and what differs here and why;
``cells(quick)``
    a list of dicts: independent units of work, each a set of parameters;
``compute(cell, data)``
    a dict of numbers and lists of numbers for one cell; `data` is a folder of public data sets
    (figures that import the same `compute` share their cells);
``table(results)``
    rows (what, paper, ours, setting) made of all cells' parameters and numbers;
``draw(figure, results)``
    the picture;
``NEEDS``
    (optional) files of the data folder without which it cannot run.

`runner.reproduce` is the only loop: it stores each finished cell, so that an interrupted run
resumes, and writes table, CSV and PNG. A new figure is one file and one line here.
"""

from importlib import import_module


def load(name):
    """Import an experiment.

    Parameters
    ----------
    name : str
        A key of EXPERIMENTS.

    Returns
    -------
    module

    Raises
    ------
    ValueError
        For a name that is not in the table.

    Examples
    --------
    >>> from tunefree.experiments import load
    >>> load("perceptron-iterations").PAPER
    'Hanashiro and Abernethy, Figure 1a-b'
    """
    if name not in EXPERIMENTS:
        known = ", ".join(EXPERIMENTS)
        raise ValueError(f"There is no experiment {name!r}; there are {known}.")
    return import_module(f"tunefree.experiments.{EXPERIMENTS[name]}")


EXPERIMENTS = {
    "perceptron-iterations": "perceptron_iterations",
    "averaging-equivalence": "averaging_equivalence",
    "averaging-variance": "averaging_variance",
    "averaging-schemes": "averaging_schemes",
    "pistol-bound": "pistol_bound",
    "pistol-rates": "pistol_rates",
    "pistol-comparison": "pistol_comparison",
    "pistol-learning-curves": "pistol_learning_curves",
    "reflectron-risk": "reflectron_risk",
    "reflectron-samples": "reflectron_samples",
    "reflectron-dimension": "reflectron_dimension",
    "reflectron-weights": "reflectron_weights",
    "reflectron-norms": "reflectron_norms",
    "low-rank-samples": "low_rank_samples",
    "low-rank-dimension": "low_rank_dimension",
    "low-rank-grid": "low_rank_grid",
    "flow-digits": "flow_digits",
    "flow-integrators": "flow_integrators",
    "flow-synthetic": "flow_synthetic",
}
