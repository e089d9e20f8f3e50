"""Checks that the arrays of a learner from a model file have the shapes that compiled code assumes.

A checksum detects damage, but not a forged file. Kernels index arrays without bounds checks, so
each array is compared with that of a fresh learner before anything is learned. What differs raises
a ValueError.
"""

from typing import Any

import numpy as np
from scipy import sparse

from tunefree.columns import RunningMoments, View
from tunefree.engine.stream import FIRST, Stream
from tunefree.estimators.targets import TargetScale
from tunefree.learners.sgd.stream import StreamSGD, StreamState
from tunefree.learners.trees.bins import MOST_BORDERS, Bins
from tunefree.learners.trees.boosting import Forest
from tunefree.robust import OutlierFilter
from tunefree.select.portfolio import Portfolio, PortfolioState, ViewMember
from tunefree.select.progressive_risk import N_SLOTS


def same_form(one, other):
    """Whether arrays, numbers or tuples of these have the same types and shapes.

    Examples
    --------
    >>> same_form((np.zeros(2), 1), (np.ones(2), 5)), same_form(np.zeros(2), np.zeros(3))
    (True, False)
    """
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return (one.shape, one.dtype) == (other.shape, other.dtype) and one.flags.c_contiguous
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same_form, one, other))
    return True


def require(condition):
    """Refuse a learner.

    Raises
    ------
    ValueError
        If the condition does not hold.
    """
    if not condition:
        raise ValueError("the saved state of its learner is inconsistent")


def check_like(saved, fresh, *names):
    """Check that some attributes have the form of those of a fresh object of the same class."""
    require(type(saved) is type(fresh))
    require(all(same_form(getattr(saved, n), getattr(fresh, n)) for n in names))


def check_optional(array, *shape):
    """Check an array of float64 that may be missing."""
    require(array is None or same_form(array, np.empty(shape)))


def check_array(array, dtype, *shape):
    """Check the type and the shape of an array, which may be mapped from a file.

    Raises
    ------
    ValueError
        If it has another form.
    """
    require(isinstance(array, np.ndarray) and array.flags.c_contiguous)
    require(array.dtype == dtype and array.shape == shape)


def check_state(portfolio, state, n_columns, n_outputs):
    """Check a `Portfolio` and its state: arrays have the form of those of a fresh state."""
    require(type(portfolio) is Portfolio and type(state) is PortfolioState)
    require(all(type(m) is ViewMember and m.view in state.views for m in portfolio.members))
    for view in state.views.values():
        require(type(view) is View and type(view.bias) is float)
        for column in (view.shift, view.scale, view.low, view.high):
            check_optional(column, n_columns)
        check_optional(view.rotation, n_columns, n_columns)
    progress = state.progress
    rows = len(progress.recent)
    require(rows > 0 and progress.recent.shape[1:] == (2 * len(portfolio.members), n_outputs))
    fresh = portfolio.init(state.views, n_columns, n_outputs, rows)
    require(same_form(progress, fresh.progress))
    n_rows, width = progress.clock.tolist()
    require(width > 0 and 0 <= n_rows <= N_SLOTS * width)
    require(len(state.members) == len(fresh.members))
    for member, other in zip(state.members, fresh.members, strict=True):
        require(member is None or same_form(member, other))
    require(all(type(i) is int and state.members[i] is not None for i in state.chosen))


def check_scale(scale, n_columns, n_outputs):
    """Check the limits of a run's `TargetScale`, which compiled code reads."""
    fresh = TargetScale(None, None, True).open(np.zeros((1, n_columns)), np.zeros((1, n_outputs)))
    check_like(scale, fresh, "m", "s", "low", "high", "mean_x", "mean_y", "inner", "limit")
    check_like(scale.extent, fresh.extent, "farthest", "columns", "beyond", "sides", "hull")
    if scale.extent.coef is not None:
        check_optional(scale.extent.coef, n_columns, n_outputs)
        check_array(scale.extent.intercept, np.float64, n_outputs)


def check_pistol_learner(estimator):
    """Check the learner of a PiSTOL estimator from a file: its `_stream`, and its `_run`."""
    saved, d = vars(estimator), estimator.n_features_in_
    require(type(d) is int and d > 0)
    stream, run, classes = saved.get("_stream"), saved.get("_run"), saved.get("classes_")
    n_outputs: Any = None if classes is None else 1 if len(classes) == 2 else len(classes)
    if stream is not None:
        require(type(stream) is Stream and type(stream.portfolio) is Portfolio)
        k = stream.n_outputs() if classes is None else n_outputs + stream.portfolio.unseen
        check_stream(stream, d, k)
    if run is not None:
        portfolio, state, scale = run
        check_state(portfolio, state, d, n_outputs if scale is None else len(scale.m))
        if scale is not None:
            check_scale(scale, d, len(scale.m))


def check_averages(estimator):
    """Check the stream of averages of a ridge path from a file."""
    stream, d = vars(estimator).get("_stream"), estimator.n_features_in_
    require(type(d) is int and d > 0)
    if stream is not None:
        require(type(stream) is StreamState)
        origin = np.zeros(d) if len(stream.origin) else None
        start = np.zeros(stream.weights.shape[1])
        require(same_form(stream, StreamSGD().init(d, start, origin=origin)))


def check_trees(bins: Any, forests: tuple[Any, ...], n_columns):
    """Check forests and their bins.

    Parameters
    ----------
    bins : Bins
    forests : tuple of Forest
    n_columns : int

    Raises
    ------
    ValueError
        If an array has a wrong form, or a split names a column that does not exist.
    """
    require(type(bins) is Bins and all(type(forest) is Forest for forest in forests))
    check_array(bins.borders, np.float64, len(bins.borders))
    check_array(bins.starts, np.int64, n_columns + 1)
    sizes = np.diff(bins.starts)
    require(bins.starts[0] == 0 and bins.starts[-1] == len(bins.borders))
    require((sizes >= 0).all() and (sizes <= MOST_BORDERS).all())
    n_outputs = {len(forest.start) for forest in forests}
    require(len(n_outputs) == 1)
    for forest in forests:
        trees, depth = forest.columns.shape
        require(1 <= depth <= 8)
        check_array(forest.columns, np.int32, trees, depth)
        check_array(forest.thresholds, np.uint8, trees, depth)
        check_array(forest.missing, np.bool_, trees, depth)
        check_array(forest.values, np.float64, trees, 1 << depth, len(forest.start))
        check_array(forest.start, np.float64, len(forest.start))
        require(((forest.columns >= 0) & (forest.columns < n_columns)).all())


def check_stream(stream, n_columns, n_outputs):
    """Check a `Stream`: its state, its running moments, and the rows that wait."""
    require(type(stream.seen) is int and stream.seen >= 0)
    require(stream.state is not None or stream.seen < FIRST)  # until then rows wait
    for X, targets, weights in stream.pending:
        require(X.shape == (len(weights), n_columns) and targets.shape == (len(weights), n_outputs))
        require(sparse.issparse(X) == stream.sparse and weights.ndim == 1)
    fresh = OutlierFilter.of(np.zeros(n_columns)), OutlierFilter.of(np.zeros(n_outputs or 0))
    require(type(stream.guards) is tuple and len(stream.guards) <= 2)
    require(same_form(stream.guards, fresh[: len(stream.guards)]))
    if stream.state is not None:
        check_state(stream.portfolio, stream.state, n_columns, n_outputs)
        if stream.scale is not None:
            check_scale(stream.scale, n_columns, n_outputs)
    if stream.caps is not None:
        require(same_form(stream.caps, (np.empty(n_columns), np.empty(n_columns))))
        for rows in (stream.sample, stream.latest):
            require(type(rows) is np.ndarray and rows.shape[1:] == (n_columns,))
    if stream.moments is not None:
        m = stream.moments
        fresh = RunningMoments(n_columns, sparse=stream.sparse, products=m.product.size > 0)
        check_like(m, fresh, "mean", "square", "largest", "product", "counts")
        require(m.sparse == stream.sparse)
