"""What all Displays share: axes on request, and colours that every kind of vision tells apart."""

import numpy as np

# Okabe and Ito 2008.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def axes(ax):
    """The given axes, or new ones.

    Raises
    ------
    ImportError
        Without matplotlib.
    """
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("Plots need matplotlib: pip install 'tunefree[plots]'.") from error
    return pyplot.subplots()[1]


def largest(values, most):
    """Positions of the `most` largest absolute values, in their own order."""
    return np.sort(np.argsort(-np.abs(values), kind="stable")[:most])
