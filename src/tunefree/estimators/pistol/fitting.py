"""What estimators made of a portfolio share: passes in memory, streams, read-outs on demand."""

import numpy as np

from tunefree._threads import one_blas_thread
from tunefree.engine.order import given_visits, hashed_visits
from tunefree.engine.run import run
from tunefree.engine.stream import Stream
from tunefree.estimators.restoring import check_learner
from tunefree.robust import Guard


def visits_of(X, labels, weights, shuffle, seed, affine=False):
    """Visits in the order of the rows' content, or as given; distinct rows and their weights."""
    if shuffle:
        visits = hashed_visits(X, labels, weights, seed, affine=affine)
    else:
        visits = given_visits(weights)
    return visits, *visits.unique()


def run_passes(portfolio, state, source, read, validate=None, watch=None):
    """Make the passes that are left and read the predictor.

    Parameters
    ----------
    portfolio : Portfolio
    state : PortfolioState
    source : Rows
    read : callable
        state -> (coef, intercept).
    validate : callable, optional
        (coef, intercept) -> risk on validation rows: chooses the members, and the pass after which
        to read.
    watch : dict, optional
        What `run` calls around each pass besides (`callbacks.Told.passes`).

    Returns
    -------
    state : PortfolioState
    n_passes : int
    coef, intercept : ndarray
    """
    watch = watch or {}
    if validate is None:
        state = run(portfolio, state, source, **watch).state
        return state, state.epoch, *read(state)
    best, told = [], watch.get("on_pass", lambda state: False)

    def note(state):
        coef, intercept = read(state)
        best.append((validate(coef, intercept), state.epoch, coef, intercept))

    def on_pass(state):
        note(state)
        return told(state)

    watch = {**watch, "on_pass": on_pass}
    state = run(portfolio._replace(rank=validate), state, source, **watch).state
    if not best:
        note(state)
    _, n_passes, coef, intercept = min(best, key=lambda b: b[:2])
    return state, n_passes, coef, intercept


class ReadOnDemand:
    """Fitted attributes that a stream's learner works out when they are first asked for.

    Reading coefficients out of a learner costs O(d); a small chunk of a stream must not. The
    subclass has ``_read_stream()``, which sets the attributes named in ``_ON_DEMAND``.
    """

    _ON_DEMAND = ()
    # What a model file keeps for `partial_fit` and `warm_start` to go on from.
    _LEARNER = ("_run", "_stream", "_path", "_dtype", "_flat")

    def __getattr__(self, name):
        if name in type(self)._ON_DEMAND and self.__dict__.get("_stream") is not None:
            with one_blas_thread():
                self._read_stream()
            return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _model_state(self):
        """Fitted attributes that make up the predictor: what a model file holds."""
        if self.__dict__.get("_stream") is not None and not set(self._ON_DEMAND) <= set(vars(self)):
            with one_blas_thread():
                self._read_stream()
        names = [n for n in vars(self) if n.endswith("_") and not n.startswith("_")]
        return {name: vars(self)[name] for name in sorted(names)}

    def _check_learner(self):
        """Refuse a learner read from a file that does not fit together."""
        check_learner(self)

    def _forget_read(self):
        for name in self._ON_DEMAND:
            self.__dict__.pop(name, None)


def resume(portfolio, state, scale=None, *, n_columns, guarded):
    """A stream that goes on where `fit` ended, with the columns' statistics of `fit`.

    Raises
    ------
    ValueError
        If there is no learner to go on from.
    """
    if portfolio is None:
        raise ValueError(
            "This model holds a predictor but no learner to go on from: save it with "
            "save_model(model, path, learner=True), or fit it again."
        )
    dense = any(view.dense for view in state.views.values())
    stream = Stream(portfolio, None, sparse=not dense, renew=False, scale=scale, guarded=guarded)
    if guarded:
        shifts = [view.shift for view in state.views.values() if view.shift is not None]
        stream.guards = (Guard.of(shifts[0] if shifts else np.zeros(n_columns)),)
        stream.guards += () if scale is None else (Guard.of(scale.m),)
    stream.state, stream.seen = state._replace(epoch=0), int(state.progress.clock[0])
    return stream


def new_columns(known, every):
    """How a stream's outputs are rearranged when classes appear that it had not seen.

    A new class starts as the output that has seen negatives only; two classes shared one output.
    """
    old = np.searchsorted(known, every)
    old = np.where(np.isin(every, known), old, -1)
    if len(known) == 2:
        index = [1 if k < 0 else 0 for k in old]
        sign = [1.0 if k < 0 else (-1.0, 1.0)[k] for k in old]
        return [*index, 1], [*sign, 1.0]
    return [*(len(known) if k < 0 else k for k in old), len(known)], np.ones(len(every) + 1)
