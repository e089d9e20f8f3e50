"""Targets of streams that drift: learned row by row, with nothing to tune."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tunefree.base import base, scores
from tunefree.base.locks import rollback_on_error
from tunefree.base.sizes import HUGE_STREAMED_TARGET, warn_of_streamed_targets
from tunefree.core.protocols import MatrixLike, TargetLike
from tunefree.streams.betting import rate_index
from tunefree.streams.estimator import LearnsByMixture, of_river
from tunefree.streams.rows import target_of, writable


@of_river("Regressor")
class StreamRegressor(scores.ScoresTargets, LearnsByMixture):
    r"""Regression for streams that drift: nothing to tune, about a dozen microseconds a row.

    As `StreamClassifier`, with squared loss: exact Kalman filters and implicit gradient steps on
    targets that are standardised as they come, with residual variances that forget
    over fifty rows, mixed by Student densities. Predictions are clipped to the range of the targets
    so far. With up to 32 columns, early predictions are shrunk towards the mean: after n rows of d
    columns by the factor :math:`n^2 / (n^2 + d^2 / 2)`, until n = 8 d.

    Parameters
    ----------
    delay : int, default=0
        By how many rows targets come late (see `StreamClassifier`).

    Attributes
    ----------
    mixture_ : Mixture
        All that has been learned.
    drift_ : dict
        Half-lives and squared errors over the stream (`DriftDisplay` draws them).
    half_life_, progressive_error_ : float
    members_ : dict
    n_outlier_rows_ : int
    n_features_in_ : int

    References
    ----------
    West and Harrison 1997, "Bayesian forecasting and dynamic models"; see `StreamClassifier`.

    Examples
    --------
    >>> from tunefree import StreamRegressor
    >>> model = StreamRegressor()
    >>> for t in range(300):
    ...     model.learn_one([t % 10, t % 7], 2.0 * (t % 10) - t % 7)
    >>> round(model.predict_one([4, 6]), 1)
    2.0
    """

    _REAL = True

    def partial_fit(
        self, X: MatrixLike, y: TargetLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn rows in the order given; the sizes of chunks change no bit.

        Parameters
        ----------
        X : array-like, CSR or frame of shape (n_samples, n_features), or list of dicts
            NaN is a missing value; in dicts and frames None, too. Frames with text or dates are
            learned like lists of dicts.
        y : array-like of shape (n_samples,)
            One that is missing (None, NaN, NaT, NA) is not known: nothing is learned from its row.
            A target more than 30 standard deviations off is not learned, unless more such follow;
            one beyond 1e140 never is, with a warning. Its error counts in `progressive_error_`.
        sample_weight : array-like of shape (n_samples,), optional
            The weights of the rows' losses.

        Returns
        -------
        self
        """
        with rollback_on_error(self):
            return self._learn(X, y, sample_weight)

    def _label(self, y):
        target = target_of(y)
        if target is not None and abs(target) > HUGE_STREAMED_TARGET:
            warn_of_streamed_targets([target])
        return target

    def _codes(self):
        """No classes: targets are numbers."""
        return {}

    def _number(self, label):
        return label

    def _expect(self, labels):
        """Add no classes."""

    def _check_labels(self, y, known):
        base.warn_of_rounded_targets(y)
        targets = writable(y)
        if not np.isfinite(targets).all():
            raise ValueError(f"y[{np.isfinite(targets).argmin()}] is not finite.")
        warn_of_streamed_targets(targets)
        return targets

    def _learn_rows(self, rows, y, known, weights):
        self.mixture_.learn(rows, y, weights)

    def predict_one(self, x: Any, key: Any = None) -> Any:
        """The target of one row; None before any.

        With a `key`, the prediction is stored for `learn_one`, when the target comes.
        """
        if not self._ready and key is None:
            return None
        predictions = self._predict_row(x, key)
        return float(predictions[0]) if self.mixture_.rows else None

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Predicted targets, shape (n_samples,)."""
        return self._predictions(X)[:, 0]

    def predict_interval(self, X: MatrixLike, alpha: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
        """Predictions, and intervals that hold the target in 1 - alpha of rows.

        The rate holds on average over any stream in which each target comes before the next row
        (`tunefree.bounds.stream_coverage`); targets that are not learned as outliers count, too.
        Intervals are infinite until 64 targets have been scored.

        Parameters
        ----------
        X : array-like, CSR or frame of shape (n_samples, n_features), or list of dicts
        alpha : float, default=0.1
            One of .01, .02, .05, .1, .2, .3, .5.

        Returns
        -------
        y : ndarray of shape (n_samples,)
        intervals : ndarray of shape (n_samples, 2, 1)
        """
        y, scale = self._predictions(X).T[:2]
        reach = self._reach(alpha) * scale
        return y, np.stack([y - reach, y + reach], axis=1)[:, :, None]

    def predict_interval_one(self, x: Any, alpha: float = 0.1) -> tuple[float, float]:
        """The interval of one row (see `predict_interval`)."""
        if not self._ready:
            return -math.inf, math.inf
        y, scale = self._predict_row(x)[:2].tolist()
        reach = self._reach(alpha) * scale
        return y - reach, y + reach

    def _reach(self, alpha):
        """Half the width of intervals, in standard deviations."""
        return max(self.mixture_.radius(rate_index(alpha)), 0.0)
