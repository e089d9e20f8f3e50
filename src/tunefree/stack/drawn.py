"""The rows that a budget of clock time suffices to read.

How long reading takes is measured on some rows. If it is too much of the budget, fewer rows are
drawn before any other is looked at, the same for a seed.
"""

import warnings

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.utils import _safe_indexing

from tunefree.core.format import number
from tunefree.core.parameters import seed_of
from tunefree.core.warn import DataWarning, findings_kept, warn
from tunefree.stack.costs import shape_of
from tunefree.stack.evaluation import worth_reading
from tunefree.stack.problem import FEWEST_OF_CLASS

# Reading may take this share of the time. Chosen.
_SHARE = 0.3
# Reading that takes no more than this share is not worth thinking about. Chosen.
_FREELY = 0.05
# Reading a cell takes no more than so many seconds: columns of text (by hand).
_CELL = 2e-6
# So many rows, and a fraction of them, are read to measure how long it takes. Of many rows a row
# takes twice as long, and so do the checks of what was read and the counts of the report (by hand:
# 300,000 rows of 20 columns, MNIST).
_MEASURED, _FEWER, _CHECKS = 2000, 4, 4.0


def most_rows_to_read(estimator, X, y, limits, kinds):
    """How many rows are read; None for all. They are what the time suffices to read, and to learn.

    Of sparse rows all are read.
    """
    shape = getattr(X, "shape", ())
    if len(shape) != 2 or sparse.issparse(X) or np.shape(y)[:1] != shape[:1]:
        return None
    if limits.plan is not None:
        most = limits.plan.read
    else:
        most = _most_rows(estimator, X, y, limits, kinds)
    return None if most is None or most >= shape[0] else most


def drawn_rows(estimator, X, y, sample_weight, most):
    """The numbers of so many rows and of some of rare classes, in order; None for all."""
    try:
        order = _drawn(X.shape[0], sample_weight, seed_of(estimator.random_state))
        rows = _with_rare_classes(order, most, y) if is_classifier(estimator) else order[:most]
    except (TypeError, ValueError):  # the checks of all rows say what is wrong with y or weights
        return None
    return np.sort(rows)


def part_of(rows, *arrays):
    """These rows of each array; None stays None."""
    return [None if array is None else _safe_indexing(array, rows) for array in arrays]


def warn_of_drawn(n_read, n_rows):
    """Warn that not all rows were read."""
    words = f"Only {number(n_read)} of {number(n_rows)} rows were read"
    warn(f"{words}: budget= suffices for no more. Row numbers count these.", DataWarning)


def _most_rows(estimator, X, y, limits, kinds):
    """How many rows are read, by the time that some take; None for all."""
    n, d = X.shape
    allowed, few = _SHARE * limits.left(), _FREELY * limits.left()
    if n <= _MEASURED or _CELL * n * d <= allowed:
        return None
    some, took = np.sort(np.random.default_rng(0).permutation(n)[:_MEASURED]), []
    few_rows = some[::_FEWER]
    for part in (few_rows, some, few_rows):  # the first time takes longer
        start = limits.clock.spent()
        try:
            with warnings.catch_warnings(action="ignore"), findings_kept():
                rows = estimator._rows(*part_of(part, X, y), None, None, None)
        except ValueError:  # the checks of all rows name the bad one
            return None
        took.append(limits.clock.spent() - start)
    each = _CHECKS * max(took[1] - min(took[0], took[2]), 0.0)
    each /= _MEASURED - _MEASURED // _FEWER
    if n * each <= few:
        return None
    shape = shape_of(rows.X, _n_outputs(estimator, rows.y)).rows(n)
    worth = worth_reading(limits, shape, kinds, estimator.n_jobs)
    most = min(int(allowed / max(each, 1e-12)), worth)
    return None if most >= n else max(_MEASURED, most)


def _n_outputs(estimator, y):
    """How many outputs the targets have: a class each, but one for two classes."""
    if not is_classifier(estimator):
        return 1 if np.ndim(y) < 2 else np.shape(y)[1]
    count = len(np.unique(y))
    return count if count > 2 else 1


def _drawn(n, sample_weight, seed):
    """The numbers of all rows of positive weight, in random order."""
    order = np.random.default_rng(seed).permutation(n)
    if sample_weight is None:
        return order
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n,) or not np.isfinite(weights).all() or (weights < 0.0).any():
        raise ValueError("sample_weight")
    return order[weights[order] > 0.0]


def _with_rare_classes(order, most, y):
    """The first rows in an order, and the first of every class."""
    _, codes = np.unique(np.asarray(y), return_inverse=True)
    codes = codes.reshape(-1)[order]
    is_in = np.arange(len(order)) < most
    for code in np.unique(codes):
        is_in[np.flatnonzero(codes == code)[:FEWEST_OF_CLASS]] = True
    return order[is_in]
