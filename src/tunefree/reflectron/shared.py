"""SharedReflectron: generalized linear models whose outputs share their weights."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MultiOutputMixin
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted

from tunefree.base import base, scores
from tunefree.base.progress import CallbackSupport, report_progress
from tunefree.base.sizes import check_target_sizes
from tunefree.core.process import product, workers
from tunefree.core.protocols import Link, MatrixLike, Seed, TargetLike
from tunefree.parts.families import Matching
from tunefree.parts.links import link_of, link_range
from tunefree.reflectron.descent import Settings, Setup, Training, descend, leaderboard, pose
from tunefree.reflectron.mirror import Batch
from tunefree.reflectron.reflectron import share_outside, warn_outside
from tunefree.rows.designs import Shared, equations
from tunefree.rows.matrices import as_columns, as_dense, canonical, one_index_type, stacked
from tunefree.rows.missing import complete
from tunefree.rows.units import Units


class SharedReflectron(scores.ScoresTargets, MultiOutputMixin, CallbackSupport, BaseEstimator):
    r"""Regression E[y | x] = u(A(x) theta): several outputs, one vector of parameters.

    .. math:: \frac{d}{dt} \nabla\psi(\theta) = -\frac1n \sum_i A(x_i)^\top (u(A(x_i)\theta) - y_i)

    A(x) is a known matrix of k outputs by p parameters: windows of a signal under one filter, the
    regressor of a mechanical system, neighbours in a network. As in `ReflectronRegressor` the
    geometry is the regularizer, the step is automatic, and held-out samples (all outputs of a
    sample) choose the potential and when to stop.

    Parameters
    ----------
    matrices : callable or None, default=None
        A(x): takes a row of X as an array (n_features,), returns a matrix (k, p), dense or sparse.
        With None X holds the matrices themselves; if X has rows in place of matrices, all outputs
        have the same row.
    link : str, link or None, default=None
        The nondecreasing u, from `tunefree.parts.links.LINKS` or your own. None is 'logit'.
    potential : str, potential or list, default='auto'
        As in `ReflectronRegressor`.
    constraint : str, constraint, None or list, default=None
        A set to project onto, from `tunefree.reflectron.constraints`.
    step : 'auto', float > 0 or list, default='auto'
    validation_fraction : float in [0, 1) or 'auto', default='auto'
        Share of the samples held out, as in `ReflectronRegressor`.
    n_splits : int or 'auto', default='auto'
    patience : int, default=50
    tol : float, default=1e-3
    max_iter : int or 'auto', default='auto'
        Most passes; 'auto' is 1000.
    standardize : bool or 'auto', default='auto'
        Divide each parameter's column by its root mean square, so that a potential means the same
        for all; constraints then hold in these units. 'auto' is True.
    random_state : int, RandomState or None, default=None
        Seed of the hash by which samples are held out.

    Attributes
    ----------
    coef_ : ndarray of shape (p,)
    n_outputs_ : int
        k.
    potential_, constraint_, link_ : the chosen parts
    leaderboard_ : list of dict
    trace_ : dict of ndarray of shape (n_passes, n_configurations)
    n_iter_ : int
    n_features_in_ : int
        Columns of X, or entries of a matrix.

    Raises
    ------
    ValueError
        For matrices of different shapes, NaN or infinity, or targets that do not match.

    References
    ----------
    Boffi and Slotine 2020, section 4, eq. 7 and Theorem 4.1.

    Examples
    --------
    A filter of 5 numbers slides over signals of 30:

    >>> from tunefree.reflectron import SharedReflectron
    >>> signals = np.random.default_rng(0).standard_normal((60, 30))
    >>> def windows(x):
    ...     return np.lib.stride_tricks.sliding_window_view(x, 5)
    >>> taps = np.array([0.0, 1.0, -2.0, 1.0, 0.0])
    >>> y = np.array([1.0 / (1.0 + np.exp(-windows(x) @ taps)) for x in signals])
    >>> model = SharedReflectron(windows, random_state=0).fit(signals, y)
    >>> model.coef_.round(1).tolist(), model.predict(signals).shape
    ([0.0, 1.0, -2.0, 1.0, 0.0], (60, 26))
    """

    coef_: np.ndarray
    link_: Any

    def __init__(
        self,
        matrices: Any = None,
        link: str | Link | None = None,
        potential: Any = "auto",
        constraint: Any = None,
        *,
        step: Any = "auto",
        validation_fraction: float | str = "auto",
        n_splits: int | str = "auto",
        patience: int = 50,
        tol: float = 1e-3,
        max_iter: int | str = "auto",
        standardize: bool | str = "auto",
        random_state: Seed = None,
    ):
        self.matrices = matrices
        self.link = link
        self.potential = potential
        self.constraint = constraint
        self.step = step
        self.validation_fraction = validation_fraction
        self.n_splits = n_splits
        self.patience = patience
        self.tol = tol
        self.max_iter = max_iter
        self.standardize = standardize
        self.random_state = random_state

    @report_progress
    def fit(self, X: MatrixLike, y: TargetLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from samples.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d), array (n, k, p) or list of n matrices (k, p)
            Rows for `matrices`, or the matrices themselves.
        y : array-like of shape (n, k), or (n,) for one output
        sample_weight : array-like of shape (n,), optional
            Whole weights are repetitions.

        Returns
        -------
        self
        """
        if y is None:
            raise ValueError(
                "This SharedReflectron requires y to be passed, but the target y is None."
            )
        y = check_array(complete(y), ensure_2d=False, input_name="y", dtype=np.float64)
        if y.ndim > 2:
            raise ValueError(f"y has {y.ndim} axes: give one row of k targets for each sample.")
        check_target_sizes(y)
        targets = as_columns(y)
        samples, k = self._samples(X, targets.shape[1], reset=True)
        check_consistent_length(samples, y)
        if targets.shape[1] != k:
            raise ValueError(
                f"y has {targets.shape[1]} targets a sample, and the matrices {k} rows."
            )
        weights = base.check_weights(sample_weight, samples)
        settings = Settings.of(self, fit_intercept=False)
        setup = Setup.of((Matching(), self._link()), settings, samples=Equations(k))
        warn_outside(share_outside(targets, setup.link), setup.link)
        with workers(None):
            result, _ = descend(pose(setup, Training(samples, targets, weights)))
        coef, _ = result.coefficients(samples.dtype)
        self.coef_, self.n_outputs_, self.link_ = coef[0], k, setup.link
        self.potential_, self.constraint_ = result.parts
        self.leaderboard_ = leaderboard(result.board)
        self.trace_, self.n_iter_ = result.trace, result.n_iter
        return self

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Expected targets, shape (n, k), or (n,) for one output."""
        check_is_fitted(self, "coef_")
        samples, k = self._samples(X, self.n_outputs_)
        if k != self.n_outputs_ or samples.shape[1] != k * len(self.coef_):
            raise ValueError(
                f"The matrices have {k} rows and {samples.shape[1] // k} columns: the fit had "
                f"{self.n_outputs_} and {len(self.coef_)}."
            )
        margins = product(_rows(samples, k), self.coef_).reshape(-1, k)
        mean = np.asarray(self.link_.mean(margins)).astype(self.coef_.dtype, copy=False)
        return mean[:, 0] if k == 1 else mean

    def _link(self):
        return link_of(self.link, "logit")

    def _samples(self, X, n_targets, *, reset=False):
        """One row of k p entries a sample, and k."""
        if self.matrices is not None and not callable(self.matrices):
            raise ValueError(f"matrices={self.matrices!r} is neither None nor a function of a row.")
        in_array = isinstance(X, np.ndarray) and X.ndim == 3
        listed = isinstance(X, list | tuple) and len(X) > 0 and np.ndim(X[0]) == 2
        are_matrices = self.matrices is None and (in_array or listed)
        if are_matrices:
            rows, k = equations(X)
            samples = rows.reshape((rows.shape[0] // k, -1))
            return base.check_rows(self, samples, reset=reset), k
        X = base.check_rows(self, X, reset=reset)
        if self.matrices is None:
            return canonical(stacked([X] * n_targets, axis=1)), n_targets
        rows, k = equations([self.matrices(x) for x in as_dense(X)])
        return canonical(rows.reshape((rows.shape[0] // k, -1)).astype(X.dtype)), k

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.regressor_tags.poor_score = bool(np.isfinite(link_range(self._link())).any())
        return tags


class Equations(NamedTuple):
    """Rows of X as samples of several equations: rows are held out and merged by sample."""

    n_outputs: int

    def units(self, X, weights, *arguments):
        """The units of the parameters."""
        k = self.n_outputs
        return Units.of(_rows(X, k), np.repeat(weights, k), *arguments)

    def batch(self, columns, X, targets, weights, held, offset=None, own=False):
        """A batch of samples."""
        k = self.n_outputs
        design = Shared(columns.design(_rows(X, k)), k)
        held = np.repeat(held, k) if np.ndim(held) else held
        return Batch(design, targets.reshape(-1, 1), np.repeat(weights, k), held)


def _rows(samples, k):
    """The equations of samples: (n, k p) becomes (n k, p)."""
    n, size = samples.shape
    return canonical(one_index_type(samples).reshape((n * k, size // k)))
