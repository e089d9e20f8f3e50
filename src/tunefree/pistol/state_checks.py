"""What a PiSTOL learner from a model file must hold before compiled code reads it."""

from typing import Any

import numpy as np
from scipy import sparse

from tunefree.base.state_checks import check_array, check_like, check_optional, require, same_form
from tunefree.base.targets import TargetScale
from tunefree.held_out.progressive_risk import N_SLOTS
from tunefree.pistol.portfolio import Portfolio, PortfolioState, ViewMember
from tunefree.pistol.stream import FIRST, Stream
from tunefree.pistol.views import View
from tunefree.rows.moments import RunningMoments
from tunefree.rows.outliers import OutlierFilter


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
