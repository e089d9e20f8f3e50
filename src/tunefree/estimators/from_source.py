"""``fit_source``: learn from rows that come in chunks and need not fit into memory."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import is_classifier

from tunefree._threads import one_blas_thread
from tunefree.engine.sources import Mark, joined, open_source, widened
from tunefree.estimators import base
from tunefree.estimators.restoring import check_learner

# Rows that are held back while they are of a single class.
_MOST_HELD = 1 << 20


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


class FitsSource(ReadOnDemand):
    """``fit_source`` by ``partial_fit``, for a learner that does not depend on where chunks end.

    It lives in ``_stream``, which has ``columns(d)``, where the number of columns is known only as
    rows come, and ``end_pass()``; both return what to go on with.
    """

    @base.all_or_nothing
    def fit_source(
        self,
        source: Any,
        *,
        classes: ArrayLike | None = None,
        checkpoint: Any = None,
        on_chunk: Callable | None = None,
    ) -> Self:
        """Learn from a source of any size, in the order of its rows and in flat memory.

        One pass, unless `max_iter` is a number. The result is that of `partial_fit` on the rows;
        the chunks' sizes make no difference.

        Parameters
        ----------
        source : Source or anything that `tunefree.open_source` takes
        classes : array-like, optional
            For classifiers: classes to expect. More may appear at any time.
        checkpoint : Checkpoint, optional
            Saves the run now and then, and when it is interrupted; resumes it with the same bits.
        on_chunk : callable, optional
            Called with (estimator, rows seen, pass) after each chunk.

        Returns
        -------
        self
        """
        source = open_source(source)
        n_passes = self._source_passes()
        if n_passes > 1 and not source.again:
            raise ValueError(
                f"max_iter={n_passes} needs a source that can be read again, and {source.name} "
                "cannot: give a file, or a function that makes the iterator."
            )
        for name in [n for n in vars(self) if n.endswith("_") and not n.startswith("_")]:
            delattr(self, name)
        self._stream = self._run = None
        run = _Run(self, source, n_passes, classes, on_chunk)
        if checkpoint is None:
            run.go()
        else:
            with checkpoint.watch(run):
                run.go(checkpoint)
        if source.feature_names is not None:
            self.feature_names_in_ = np.asarray(source.feature_names, dtype=object)
        return self

    def _source_passes(self):
        return 1 if self.max_iter == "auto" else int(self.max_iter)

    def progressive_risk(self, share: float = 1.0) -> float:
        """Mean loss of the best member or average on rows before they were learned.

        Parameters
        ----------
        share : float, default=1.0
            Of the latest rows, where the learner can tell.

        Returns
        -------
        float
            A share of errors, or a squared error; NaN where there is no stream.
        """
        stream: Any = self.__dict__.get("_stream")
        return stream.risk(share) if hasattr(stream, "risk") else float("nan")


class _Run:
    """The passes of a `fit_source`, and where they are.

    Attributes
    ----------
    state : None
        What a checkpoint is to hold besides: the estimator has it all.
    mark : Mark or None
        Where reading goes on; None while rows are held back.
    epoch : int
    width : int
        Columns of the rows so far.
    """

    state = None

    def __init__(self, estimator, source, n_passes, classes, on_chunk):
        self.estimator, self.source, self.n_passes = estimator, source, n_passes
        self.classes, self.on_chunk = classes, on_chunk
        self.mark, self.epoch, self.width, self.held = Mark(), 0, 0, []

    def resume(self, estimator, mark, epoch, width, state):
        """Go on from what a checkpoint holds."""
        held = self.estimator.__dict__
        held.clear()
        held.update(vars(estimator))
        self.mark, self.epoch, self.width = mark, epoch, width

    def go(self, checkpoint=None):
        """Make the passes that are left."""
        while self.epoch < self.n_passes:
            for chunk in self.source.chunks(self.mark or Mark(), self.epoch):
                if checkpoint is not None:
                    checkpoint.begin()
                self._learn(chunk)
                if checkpoint is not None:
                    checkpoint.end(self)
                if self.on_chunk is not None:
                    self.on_chunk(self.estimator, chunk.mark.row, self.epoch)
            if self.held:
                self._flush(last=True)
            if self.width == 0:
                raise ValueError(f"{self.source.name} has no rows.")
            self.epoch, self.mark = self.epoch + 1, Mark()
            if self.epoch < self.n_passes:
                self.estimator._stream = self.estimator._stream.end_pass()
        if self.estimator.n_features_in_ != self.width:
            self._set_columns(self.width)
        _ = self.estimator.coef_  # reads the predictor, whose n_iter_ is that of a pass
        self.estimator.n_iter_ = self.n_passes

    def _learn(self, chunk):
        if chunk.y is None:
            raise ValueError(f"{self.source.name} has no targets to learn from.")
        self.width = max(self.width, chunk.X.shape[1])
        begun = self.estimator._stream is not None
        if not begun and is_classifier(self.estimator) and self.classes is None:
            self.held.append(chunk)
            self._flush()
        else:
            self._fit(chunk)
        self.mark = None if self.held else chunk.mark

    def _flush(self, last=False):
        """Learn the rows held back, once they are of two classes."""
        seen = np.unique(np.concatenate([np.unique(c.y) for c in self.held]))
        rows = sum(map(len, self.held))
        if len(seen) < 2 and (last or rows > _MOST_HELD):
            raise ValueError(
                f"All of the first {rows} rows of {self.source.name} have the class {seen[0]}: "
                "a classifier needs two. Give classes=, or window= to shuffle."
            )
        if len(seen) >= 2:
            chunk, self.held = joined(self.held), []
            self._fit(chunk)

    def _fit(self, chunk):
        X, estimator = chunk.X, self.estimator
        if estimator._stream is not None:
            known = estimator.n_features_in_
            if X.shape[1] > known and hasattr(X, "indptr"):
                known = max(X.shape[1], 2 * known)  # so that widening costs O(1) a column
                self._set_columns(known)
            X = widened(X, known)
        options = {"classes": self.classes} if is_classifier(estimator) else {}
        estimator.partial_fit(X, chunk.y, sample_weight=chunk.weight, **options)

    def _set_columns(self, d):
        if not hasattr(self.estimator._stream, "columns"):
            raise ValueError(
                "The number of columns must be known here: open the source with n_features=."
            )
        self.estimator._stream = self.estimator._stream.columns(d)
        self.estimator.n_features_in_ = d
        self.estimator._forget_read()
