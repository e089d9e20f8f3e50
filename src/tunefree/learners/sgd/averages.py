"""Averages of stored iterates by several workers: contiguous chunks, joined by their masses.

Source: Neu and Rosasco 2018, section 4.1.
"""

import numpy as np
from joblib import Parallel, delayed

from tunefree.averaging import within


def chunk_sums(iterates, schemes, start=0):
    """What one worker does: sums of consecutive iterates, weighted by every scheme, and masses.

    Parameters
    ----------
    iterates : ndarray of shape (m, ...)
        The iterates start, start + 1, ...
    schemes : sequence of parts with the verb ``mass``
    start : int, default=0

    Returns
    -------
    sums : ndarray of shape (n_schemes, ...)
    masses : ndarray of shape (n_schemes,)
    """
    times = np.arange(start, start + len(iterates), dtype=float)
    table = np.array([scheme.mass(times, times + 1.0) for scheme in schemes])
    return np.tensordot(table, iterates, axes=1), table.sum(axis=1)


def average_iterates(iterates, schemes, *, n_jobs=1, prefer="threads"):
    """Averages of stored iterates w_0, w_1, ... under several schemes.

    Parameters
    ----------
    iterates : ndarray of shape (n, ...)
        Threads share it; processes share a `numpy.memmap`, and get a copy of anything else.
    schemes : sequence of parts of `tunefree.averaging`
    n_jobs : int, default=1
        How many workers, and chunks.
    prefer : {'threads', 'processes'}, default='threads'

    Returns
    -------
    ndarray of shape (n_schemes, ...)

    Examples
    --------
    >>> from tunefree.averaging import Last, Uniform
    >>> average_iterates(np.array([[0.0], [1.0], [5.0]]), [Uniform(), Last()])
    array([[2.], [5.]])
    """
    schemes = [within(scheme, len(iterates)) for scheme in schemes]
    bounds = np.linspace(0, len(iterates), n_jobs + 1).astype(int)
    parts = Parallel(n_jobs=n_jobs, prefer=prefer)(
        delayed(chunk_sums)(iterates[a:b], schemes, a)
        for a, b in zip(bounds[:-1], bounds[1:], strict=True)
    )
    summed = sum(part for part, _ in parts)
    total = sum(masses for _, masses in parts)
    return summed / total.reshape((-1,) + (1,) * (summed.ndim - 1))
