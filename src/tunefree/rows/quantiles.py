"""Quantiles of weighted values."""

import numpy as np


def weighted_quantiles(values, weights, shares):
    """The smallest values with these shares of the weight at or below them.

    Examples
    --------
    >>> weighted_quantiles(np.array([3.0, 1.0, 2.0]), np.array([2.0, 1.0, 1.0]), 0.5)
    np.float64(2.0)
    """
    order = np.argsort(values, kind="stable")
    mass = np.cumsum(weights[order])
    return values[order][np.searchsorted(mass, shares * mass[-1])]
