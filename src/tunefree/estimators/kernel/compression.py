"""`compress=` of the kernel estimators: what it may be, and the loss that is watched."""

import numpy as np
from scipy.special import logsumexp
from sklearn.base import is_classifier

from tunefree.learners.kernel.projection import TOLERANCE, compress

# Rows of training, evenly spaced in the order of learning, on which the loss is compared.
CHECKED = 4096


def check_compress(value):
    """Refuse what is neither a tolerance nor a number of landmarks.

    Raises
    ------
    ValueError

    Examples
    --------
    >>> check_compress(0.01)
    """
    if value is None or isinstance(value, bool | np.bool_):
        return
    whole = isinstance(value, int | np.integer)
    share = isinstance(value, float | np.floating) and 0.0 < value < 1.0
    if not (share or (whole and value >= 1)):
        raise ValueError(
            f"compress={value!r} is none of: None, True, a tolerance between 0 and 1, a number of "
            "landmarks (an integer from 1 on)."
        )


def compressed(estimator, f, rows, targets, weights, support_rows=None):
    """Compress an expansion as an estimator asks for.

    Parameters
    ----------
    estimator : KernelEstimator
    f : Expansion
    rows : ndarray or CSR of shape (n, d)
    targets : ndarray of shape (n, n_outputs)
    weights : ndarray of shape (n,)
    support_rows : ndarray or CSR, optional
        Rows of kernel values of the support, for a precomputed kernel.

    Returns
    -------
    f : Expansion
    kept : ndarray
        Positions of its support rows in that before.
    report : Compression
    """
    asked = estimator.compress
    losses = log_losses if is_classifier(estimator) else squares
    share = weights / weights.sum()

    def loss(values):
        return float(share @ losses(values, targets))

    if isinstance(asked, bool | np.bool_):
        asked = TOLERANCE
    whole = isinstance(asked, int | np.integer)
    wanted = {"count": int(asked)} if whole else {"tolerance": float(asked)}
    return compress(f, rows, loss, **wanted, support_rows=support_rows, n_jobs=estimator.n_jobs)


def checked(n):
    """The rows on which the loss is compared, of n in memory."""
    return np.arange(min(n, CHECKED)) * n // max(1, min(n, CHECKED))


def log_losses(values, targets):
    """Minus the logarithm of the probability of each row's class."""
    if targets.shape[1] == 1:
        return np.logaddexp(0.0, -targets[:, 0] * values[:, 0])
    own = np.take_along_axis(values, targets.argmax(axis=1)[:, None], axis=1)[:, 0]
    return logsumexp(values, axis=1) - own


def squares(values, targets):
    """Squared errors, summed over outputs."""
    return np.square(values - targets).sum(axis=1)
