"""Fewer support rows after training: a projection whose loss is watched."""

from typing import NamedTuple

import numpy as np

from tunefree.learners.kernel.expansion import Expansion
from tunefree.learners.kernel.landmarks import RIDGE, choose

# Landmarks are sought among this many support rows, evenly spaced in the order of learning, which
# is random: their kernel matrix, 134 MB in float64, must be held.
CANDIDATES = 4096
# The change of the loss, as a share of the loss of predicting zero, that compress=True allows.
TOLERANCE = 1e-3
# Numbers of landmarks that are tried grow by this factor.
_FINER = 1.1


class Compression(NamedTuple):
    """What a compression did.

    Attributes
    ----------
    n_support : int
        Support rows before.
    n_landmarks : int
        Support rows after; as before if no number of landmarks within reach met the tolerance.
    loss_before, loss_after : float
        Mean loss of the predictor on the rows that it was checked on.
    change : float
        Root mean square of the change of the predictor on these rows, relative to the predictor.
    """

    n_support: int
    n_landmarks: int
    loss_before: float
    loss_after: float
    change: float


def compress(f, rows, loss, *, tolerance=None, count=None, support_rows=None, n_jobs=None):
    """Project an expansion onto landmarks: a given number, or as few as keep the loss.

    With a tolerance the number is the smallest that was tried from which on the mean loss stays
    within ``tolerance * loss(0)`` of that before. If there is none, the expansion is returned as it
    is.

    Parameters
    ----------
    f : Expansion
    rows : ndarray or CSR of shape (n, d)
        Rows on which the loss is checked.
    loss : callable
        Values on these rows, of shape (n, n_outputs) -> mean loss.
    tolerance : float, optional
    count : int, optional
        Exactly one of the two is given.
    support_rows : ndarray or CSR, optional
        For a precomputed kernel the rows of kernel values of the support.
    n_jobs : int, optional

    Returns
    -------
    f : Expansion
    kept : ndarray
        Positions of the landmarks in the support, in the order of importance.
    report : Compression
    """
    known = f.support if support_rows is None else support_rows
    m = f.support.shape[0]
    q = min(m, CANDIDATES if count is None else max(CANDIDATES, 2 * count))
    at = np.arange(q) * m // max(q, 1)
    before = f(rows, n_jobs)
    asked, found = loss(before), _landmarks(f, known[at], at, count or q, n_jobs)
    chosen = at[found.indices]
    if count is None:
        count = _smallest(f, chosen, found, rows, loss, asked, tolerance)
        if count is None:
            return f, np.arange(m), Compression(m, m, asked, asked, 0.0)
    count = min(count, len(chosen))
    kept = chosen[:count]
    small = f._replace(
        support=f.support[kept], coefs=tuple(c.astype(f.dtype) for c in found.coefs(count))
    )
    after = small(rows, n_jobs)
    size = max(float(np.sqrt(np.mean(before**2))), 1e-300)
    change = float(np.sqrt(np.mean((after - before) ** 2))) / size
    return small, kept, Compression(m, count, asked, loss(after), change)


def _landmarks(f, candidates, at, count, n_jobs):
    """Landmarks among the candidates, for each kernel's part of the expansion."""
    support = _double(f.support[at])
    grams = [k.gram(_double(candidates), support) for k in f.kernels]
    values = [
        Expansion((k,), f.support, (c,))(candidates, n_jobs)
        for k, c in zip(f.kernels, f.coefs, strict=True)
    ]
    return choose(grams, values, count, RIDGE[f.dtype.char])


def _smallest(f, chosen, found, rows, loss, asked, tolerance):
    """The smallest number of landmarks from which on the loss keeps to the tolerance."""
    support = _double(f.support[chosen])
    grams = [k.gram(_double(rows), support).T for k in f.kernels]
    bases = found.basis(grams)
    allowed = tolerance * loss(np.zeros((rows.shape[0], f.n_outputs)))
    values, done, best = np.zeros((rows.shape[0], f.n_outputs)), 0, None
    for count in _sizes(len(chosen)):
        for V, w in zip(bases, found.weights, strict=True):
            values += V[done:count].T @ w[done:count]
        done = count
        if abs(loss(values) - asked) > allowed:
            best = None
        elif best is None:
            best = count
    return best


def _sizes(most):
    """Numbers from 1 to `most`, ever further apart."""
    count = 1
    while count < most:
        yield count
        count = max(count + 1, int(count * _FINER))
    if most:
        yield most


def _double(rows):
    """Rows in double precision, unless they are numbers of rows."""
    return rows if rows.dtype.kind == "i" else rows.astype(np.float64)
