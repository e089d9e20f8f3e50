"""Short chunks of a stream: rows that wait to be learned together."""

from abc import abstractmethod
from typing import Any

import numpy as np

from tunefree.base.reading import ReadOnDemand
from tunefree.base.sizes import HUGE
from tunefree.core.process import one_blas_thread
from tunefree.rows.matrices import plain_rows

# A chunk of a stream up to this many rows is short.
_SHORT = 8
# So many short chunks may wait.
_MOST_WAITING = 64


class TakesShortChunks(ReadOnDemand):
    """A PiSTOL estimator whose ``partial_fit`` is cheap for a few rows: these wait to be learned.

    Full checks and a call of the learner take milliseconds, a row takes microseconds. So a chunk
    like the last one is checked at a glance, and rows are learned together. `_trusted` has the
    parameters and the labels of the last chunk that was checked in full. Chunks of any size give
    the same bits.
    """

    _dtype: str

    @abstractmethod
    def _quick_targets(self, labels, codes) -> np.ndarray | None:
        """The targets of labels that need no further check; None if one does."""

    def _learn_waiting(self):
        """Learn the rows that wait."""
        stream = vars(self).get("_stream")
        waiting = vars(self).get("_waiting")
        if stream is None or not waiting:
            return
        X, targets = (np.vstack(parts) for parts in zip(*waiting, strict=True))
        waiting.clear()  # in place, so that restoring attributes does not bring them back
        with one_blas_thread():
            vars(self)["_stream"] = stream.learn(X, targets, np.ones(len(X)))

    @property
    def _stream(self) -> Any:
        """The stream, which has learned every row; None if there is none."""
        self._learn_waiting()
        return vars(self).get("_stream")

    @_stream.setter
    def _stream(self, stream):
        vars(self)["_stream"] = stream
        for name in ("_waiting", "_trusted"):
            vars(self).pop(name, None)

    def _quickly(self, X, y):
        """Whether a short chunk of the usual form was accepted; its rows then wait."""
        attributes = vars(self)
        if not attributes.get("_trusted") or attributes["_stream"].sparse:
            return False
        parameters, codes = attributes["_trusted"]
        if any(attributes[name] is not value for name, value in parameters):
            return False
        X = plain_rows(self, X, missing=True)
        labels = y.tolist() if isinstance(y, np.ndarray) else y
        if X is None or len(X) > _SHORT or X.dtype != self._dtype:
            return False
        is_list = isinstance(labels, list) and len(labels) == len(X)
        if not (is_list and np.abs(X).max() <= HUGE):  # nor of NaN
            return False
        targets = self._quick_targets(labels, codes)
        if targets is None:
            return False
        waiting = attributes.setdefault("_waiting", [])
        waiting.append((X.copy(), targets))
        if len(waiting) == _MOST_WAITING:
            self._learn_waiting()
        self._forget_read()
        return True
