"""Stored iterates: the iterations that Neu and Rosasco compare, and their averages by workers.

Source: Neu and Rosasco 2018.
"""

from typing import Any

import numpy as np
from joblib import Parallel, delayed

from tunefree.parts.averaging import within


def sgd(X, y, step, start, penalty=0.0):
    """Iterates w_0 .. w_n of SGD: w_t = w_(t-1) - eta x_t (<x_t, w_(t-1)> - y_t) (equation 3).

    A penalty lambda adds lambda / 2 ||w - w_0||^2 to the loss (equation 7). With the step
    eta / (1 + eta lambda) they then have, in expectation, the limit of geometric averages.

    Examples
    --------
    >>> sgd(np.ones((2, 1)), np.ones(2), 0.5, np.zeros(1))[:, 0]
    array([0.  , 0.5 , 0.75])
    >>> sgd(np.ones((2, 1)), np.ones(2), 0.5, np.zeros(1), penalty=1.0)[:, 0]
    array([0. , 0.5, 0.5])
    """
    out = [np.asarray(start, dtype=float)]
    for x, target in zip(X, y, strict=True):
        w = out[-1]
        out.append(w - step * (x * (x @ w - target) + penalty * (w - out[0])))
    return np.array(out)


def additive_noise_sgd(covariance, product, noise, step, start, penalty=0.0):
    """Iterates with known covariance: w_t = w_(t-1) - eta (S w_(t-1) - b - noise_t) (appendix C).

    A penalty gives the regularized iteration of equation 4.

    Examples
    --------
    >>> additive_noise_sgd(np.eye(1), np.ones(1), np.zeros((2, 1)), 0.5, np.zeros(1))[:, 0]
    array([0.  , 0.5 , 0.75])
    """
    out = [np.asarray(start, dtype=float)]
    for epsilon in noise:
        w = out[-1]
        gradient = covariance @ w - product - epsilon + penalty * (w - out[0])
        out.append(w - step * gradient)
    return np.array(out)


def chunk_sums(iterates, schemes, start=0):
    """What one worker does: each scheme's sums of the iterates start, ..., and masses."""
    times = np.arange(start, start + len(iterates), dtype=float)
    table = np.array([scheme.mass(times, times + 1.0) for scheme in schemes])
    return np.tensordot(table, iterates, axes=1), table.sum(axis=1)


def average_iterates(iterates, schemes, *, n_jobs=1, prefer="threads"):
    """Averages of stored iterates under several schemes, a chunk a worker (section 4.1).

    Threads share the iterates; processes share a `numpy.memmap`, and get a copy of anything else.
    """
    schemes = [within(scheme, len(iterates)) for scheme in schemes]
    bounds = np.linspace(0, len(iterates), n_jobs + 1).astype(int)
    parts = Parallel(n_jobs=n_jobs, prefer=prefer)(
        delayed(chunk_sums)(iterates[a:b], schemes, a)
        for a, b in zip(bounds[:-1], bounds[1:], strict=True)
    )
    summed: Any = sum(part for part, _ in parts)
    total: Any = sum(masses for _, masses in parts)
    return summed / total.reshape((-1,) + (1,) * (summed.ndim - 1))
