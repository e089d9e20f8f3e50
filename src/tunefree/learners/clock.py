"""The clock of a stochastic run: rounds, the average's mass, and an honest discounted risk."""

import numpy as np

ROUNDS, MASS, RISK, WEIGHT, HALF = 0, 1, 2, 3, 4
_FIRST = 64


def fresh_clock():
    """Rounds, mass of the average, discounted risk and its weight, the round to halve them at.

    Examples
    --------
    >>> fresh_clock()
    array([ 0.,  0.,  0.,  0., 64.])
    """
    return np.array([0.0, 0.0, 0.0, 0.0, _FIRST])


def risk(state):
    """Discounted mean squared error of the predictions made before rows were learned."""
    value = state.clock[RISK] / max(state.clock[WEIGHT], 1e-300)
    return float(value) if np.isfinite(value) else np.inf
