"""DynamicsReflectron: nonlinear recurrent systems from trajectories, of low rank without a rank."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from tunefree.base.base import FLOATS, numbers_of
from tunefree.base.progress import CallbackSupport, report_progress
from tunefree.core.parameters import seed_of
from tunefree.core.process import product, workers
from tunefree.core.protocols import Link, MatrixLike, Seed, TargetLike
from tunefree.core.warn import warn
from tunefree.parts.families import Matching
from tunefree.parts.links import link_of
from tunefree.reflectron.chains import ChainedSteps
from tunefree.reflectron.descent import Settings, Setup, Training, descend, leaderboard, pose
from tunefree.reflectron.mirror import PlainSteps
from tunefree.reflectron.potentials import Euclidean, Hypentropy, PNorm, Spectral

# The candidates of potential='auto': no bias, and several degrees of bias towards low rank.
AUTO = (
    Euclidean(),
    Spectral(PNorm(1.1)),
    *(Spectral(Hypentropy(beta)) for beta in (1e-2, 1e-4, 1e-6)),
)
# Where u is nearly linear, a multiple of the identity fits as well in Theta as in rho. So rho is
# estimated in a geometry that disfavours the identity, which has full rank.
RHO_POTENTIAL = Spectral(Hypentropy(1e-2))
_RHO_WITHIN, _RHO_TOL, _RHO_PASSES = 1.0, 1e-3, 500
_RANK_SHARE = 0.99


# When to stop is chosen by 10-fold cross-validation over trajectories, with twice the patience: the
# risk of few trajectories may fall again after a first minimum.
_SHARE, _N_SPLITS, _PATIENCE = 0.1, 10, 2


class Pairs(NamedTuple):
    """States, the states (or derivatives) that belong to them, and their trajectories."""

    now: np.ndarray
    after: np.ndarray
    trajectory: np.ndarray


class DynamicsReflectron(CallbackSupport, BaseEstimator):
    r"""Identification of x' = rho x + u(Theta x) from trajectories, with nothing to tune.

    .. math:: x_{t+1} = \rho x_t + u(\Theta x_t + b) + \text{noise}
        \qquad\text{or}\qquad \dot x = \rho x + u(\Theta x + b)

    Theta is learned by the Reflectron from pairs of successive states. A spectral potential leads
    to matrices of low rank among those that fit, in place of a penalty or a rank. Held-out pairs
    choose the potential. Where there are several trajectories, held-out trajectories choose when to
    stop: states of one trajectory are too similar to each other for this.

    Parameters
    ----------
    rho : float or None, default=None
        The linear part. None estimates it: the value with the lowest hold-out risk, within 1 of the
        slope of the regression of the next state on the last.
    link : str, link or None, default=None
        The nondecreasing u, acting on each coordinate, from `tunefree.parts.links.LINKS` or your
        own. None is 'logit'.
    potential : str, potential or list, default='auto'
        The geometry; 'auto' is the Euclidean, and the spectral p-norm 1.1 and hypentropies of beta
        1e-2, 1e-4 and 1e-6.
    constraint : constraint, None or list, default=None
        A set to project onto: `tunefree.reflectron.constraints.NuclearBall`, `SchattenBall`, ...
    dt : float or None, default=None
        The time between states of a system in continuous time, whose derivative is estimated by
        central differences. None is a system in discrete time.
    fit_intercept : bool, default=False
        Learn b, free of potential and constraint.
    step : 'auto', 'plain' or float > 0, default='auto'
        'auto' chains steps (`tunefree.reflectron.chains`), in half (20 units) to an
        eighth (100) of the passes of 'plain', the automatic step of the plain iteration. A number
        is fixed, as in the paper.
    validation_fraction : float in [0, 1) or 'auto', default='auto'
        Share of the pairs held out; 'auto' is a fifth and, with several trajectories, 10-fold
        cross-validation over these to choose when to stop.
    n_splits : int or 'auto', default='auto'
        How many disjoint shares are held out, one after another; 'auto' is 1.
    patience : int, default=50
        Steps without progress of the hold-out risk before a configuration ends.
    tol : float, default=1e-3
        Fall of the risk that counts as progress.
    max_iter : int or 'auto', default='auto'
        Most passes of a fit for one value of rho; 'auto' is 1000.
    random_state : int, RandomState or None, default=None
        Seed of the hash by which pairs are held out.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features, n_features)
        Theta.
    intercept_ : ndarray of shape (n_features,)
    rho_ : float
    spectrum_ : ndarray of shape (n_features,)
        Singular values of Theta.
    rank_ : int
        As many singular values as hold 99 % of the sum of their squares.
    potential_, constraint_, link_ : the chosen parts
    leaderboard_ : list of dict
        Every configuration's lowest hold-out risk at the final rho, the best first.
    trace_ : dict of ndarray of shape (n_passes, n_configurations)
        Risks and steps at the final rho.
    n_iter_ : int
        Passes over the pairs, for all values of rho.
    n_features_in_ : int

    Raises
    ------
    ValueError
        For NaN or infinity in a state that is not masked, trajectories without a pair of successive
        states, or parameters that mean nothing.

    Warns
    -----
    ConvergenceWarning
        If ``max_iter`` passes ended the fit while the hold-out risk was still falling: by more
        than ``tol`` in the last ``patience`` passes.

    References
    ----------
    Boffi, Tu and Slotine 2021, section 6.2; the estimate of rho, the choice of the potential and
    the fast spectral steps (`tunefree.reflectron.subspace`) are this library's.

    Examples
    --------
    >>> from tunefree.reflectron import DynamicsReflectron
    >>> from papers.datasets import make_low_rank_dynamics
    >>> trajectories, theta = make_low_rank_dynamics(60, 12, 1, random_state=0)
    >>> model = DynamicsReflectron(rho=0.9, random_state=0).fit(trajectories)
    >>> bool(np.linalg.norm(model.coef_ - theta) < 0.2 * np.linalg.norm(theta))
    True
    >>> model.simulate(trajectories[0, 0], 3).shape
    (4, 12)
    """

    coef_: np.ndarray
    intercept_: Any
    link_: Any

    def __init__(
        self,
        rho: float | None = None,
        link: str | Link | None = None,
        potential: Any = "auto",
        constraint: Any = None,
        *,
        dt: float | None = None,
        fit_intercept: bool = False,
        step: Any = "auto",
        validation_fraction: float | str = "auto",
        n_splits: int | str = "auto",
        patience: int = 50,
        tol: float = 1e-3,
        max_iter: int | str = "auto",
        random_state: Seed = None,
    ):
        self.rho = rho
        self.link = link
        self.potential = potential
        self.constraint = constraint
        self.dt = dt
        self.fit_intercept = fit_intercept
        self.step = step
        self.validation_fraction = validation_fraction
        self.n_splits = n_splits
        self.patience = patience
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    @report_progress
    def fit(self, X: MatrixLike, y: TargetLike = None, *, mask: ArrayLike | None = None) -> Self:
        """Learn from trajectories.

        Parameters
        ----------
        X : array-like of shape (n, T + 1, d), list of n arrays (T_i + 1, d), or (T + 1, d)
            Successive states; two axes are a single trajectory.
        y : ignored
        mask : array-like of bool, of the shape of X without its last axis, optional
            Which states were observed; the others may be NaN.

        Returns
        -------
        self
        """
        pairs = self._pairs(X, mask)
        seed, rho, passes = seed_of(self.random_state), self.rho, 0
        setup = self._setup(seed, AUTO)
        if rho is None:
            rho, passes = self._estimated_rho(pairs, seed)
        rho = float(rho)
        result = self._learned(setup, pairs, rho)
        passes, board = passes + result.n_iter, result.board
        if self.validation_fraction != 0.0:
            most = setup.settings.most_passes
            _warn_unsettled(result.trace["held_risk"], most, self.patience, self.tol)
        if self.validation_fraction == "auto" and pairs.trajectory.min() < pairs.trajectory.max():
            setup = self._to_stop(setup, result)
            result = self._learned(setup, pairs, rho, pairs.trajectory)
            passes += result.n_iter
        self.rho_, self.link_, self.n_iter_ = rho, setup.link, passes
        self.leaderboard_, self.trace_ = leaderboard(board), result.trace
        self.potential_, self.constraint_ = result.parts
        self.coef_, intercept = result.coefficients(pairs.now.dtype)
        self.intercept_ = intercept - self.coef_ @ self._centre(pairs.now)
        self.spectrum_ = np.linalg.svd(self.coef_, compute_uv=False)
        share = np.cumsum(self.spectrum_.astype(float) ** 2)
        self.rank_ = int(np.sum(share < _RANK_SHARE * share[-1])) + bool(share[-1] > 0.0)
        return self

    def _setup(self, seed, auto):
        """What is to be learned; `auto` are the potentials of 'auto'."""
        plain = isinstance(self.step, str) and self.step == "plain"
        settings = Settings.of(
            self,
            step="auto" if plain else self.step,
            n_splits=1 if self.n_splits == "auto" else self.n_splits,
            standardize=False,
            random_state=seed,
        )
        link, steps = link_of(self.link, "logit"), PlainSteps() if plain else ChainedSteps()
        return Setup.of((Matching(), link), settings, auto=auto, steps=steps)

    def _to_stop(self, setup, result):
        """The setup for the chosen geometry, whose steps are stopped by held-out trajectories."""
        settings = setup.settings._replace(
            validation_fraction=_SHARE, n_splits=_N_SPLITS, patience=_PATIENCE * self.patience
        )
        potential, constraint = result.parts
        best = result.board[0][2]._replace(potential=potential, constraint=constraint)
        steps = dict.fromkeys(c.step for c in setup.configurations)
        geometries = tuple(best._replace(step=step) for step in steps)
        return setup._replace(settings=settings, configurations=geometries)

    def _learned(self, setup, pairs, rho, trajectory=None):
        """The `DescentResult` for a value of rho; trajectories may be held out whole."""
        now, n = pairs.now - self._centre(pairs.now), len(pairs.now)
        training = Training(now, pairs.after - rho * pairs.now, np.ones(n), groups=trajectory)
        with np.errstate(over="ignore", invalid="ignore"), workers(None):  # rejected trials
            return descend(pose(setup, training))[0]

    def _estimated_rho(self, pairs, seed):
        """The value of rho with the lowest hold-out risk, and the passes made."""
        setup, passes = self._setup(seed, (RHO_POTENTIAL,)), 0
        few = min(setup.settings.most_passes, _RHO_PASSES)
        setup = setup._replace(settings=setup.settings._replace(max_iter=few))

        def risk(rho):
            nonlocal passes
            result = self._learned(setup, pairs, rho)
            passes += result.n_iter
            return result.board[0][0]

        first = _regression(pairs.now, pairs.after)
        ends = first - _RHO_WITHIN, first + _RHO_WITHIN
        options = {"xatol": _RHO_TOL}
        found = optimize.minimize_scalar(risk, method="bounded", bounds=ends, options=options)
        return found.x, passes

    def _pairs(self, X, mask):
        """The `Pairs` of trajectories."""
        several = np.ndim(X[0]) == 2 if isinstance(X, list | tuple) and X else np.ndim(X) == 3
        rows = np.concatenate([np.asarray(x) for x in X]) if several else X
        # Steps between the two states of a difference.
        reach = 1 if self.dt is None else 2
        finite: Any = True if mask is None else "allow-nan"
        form: Any = {"dtype": FLOATS, "order": "C", "ensure_min_samples": reach + 1}
        rows = numbers_of(self, rows, reset=True)
        rows = validate_data(self, rows, ensure_all_finite=finite, **form)
        lengths = [len(x) for x in X] if several else [len(rows)]
        observed = np.ones(len(rows), dtype=bool)
        if mask is not None:
            observed = np.concatenate([np.ravel(m) for m in mask]) if several else np.ravel(mask)
            if len(observed) != len(rows) or observed.dtype != bool:
                raise ValueError(
                    f"mask must hold one bool for each of the {len(rows)} states: it has the shape "
                    "of the trajectories without their last axis."
                )
            if not np.isfinite(rows[observed]).all():
                raise ValueError("X has NaN or infinity in a state that mask marks as observed.")
        # A pair may not run from one trajectory into the next.
        number = np.repeat(np.arange(len(lengths)), lengths)
        whole = np.all([observed[i : len(rows) - reach + i] for i in range(reach + 1)], axis=0)
        first = np.flatnonzero(whole & (number[: len(rows) - reach] == number[reach:]))
        if len(first) == 0:
            raise ValueError(
                f"X has no {reach + 1} successive states that were observed: give more states."
            )
        if self.dt is None:
            return Pairs(rows[first], rows[first + 1].astype(np.float64), number[first])
        slope = (rows[first + 2].astype(np.float64) - rows[first]) / (2.0 * self.dt)
        return Pairs(rows[first + 1], slope, number[first])

    def _centre(self, now):
        """The origin of states: their mean if there is a bias."""
        return now.mean(axis=0) if self.fit_intercept else np.zeros(now.shape[1], now.dtype)

    def _field(self, x):
        """The right-hand side of the system."""
        return self.rho_ * x + self.link_.mean(product(x, self.coef_.T) + self.intercept_)

    def _next(self, x):
        if self.dt is None:
            return self._field(x)
        h = self.dt
        a = self._field(x)
        b = self._field(x + 0.5 * h * a)
        c = self._field(x + 0.5 * h * b)
        return x + h / 6.0 * (a + 2.0 * b + 2.0 * c + self._field(x + h * c))

    def predict(self, X: MatrixLike) -> np.ndarray:
        """The states that follow states X of shape (m, d), without noise: (m, d).

        In continuous time they follow dt later, by a Runge-Kutta step of order 4.
        """
        check_is_fitted(self, "coef_")
        X = numbers_of(self, X, reset=False)
        X = validate_data(self, X, reset=False, dtype=FLOATS)
        return self._next(X.astype(np.float64)).astype(self.coef_.dtype)

    def simulate(self, x0: ArrayLike, steps: int) -> np.ndarray:
        """Run the system without noise.

        Parameters
        ----------
        x0 : array-like of shape (d,) or (m, d)
            The first state.
        steps : int

        Returns
        -------
        ndarray of shape (steps + 1, d) or (m, steps + 1, d)
            States, x0 included.

        Raises
        ------
        ValueError
        """
        check_is_fitted(self, "coef_")
        if not isinstance(steps, int | np.integer) or steps < 0:
            raise ValueError(f"steps={steps!r} is not a non-negative integer.")
        x = validate_data(self, np.atleast_2d(x0), reset=False, dtype=FLOATS).astype(np.float64)
        states = [x]
        for _ in range(steps):
            states.append(self._next(states[-1]))
        out = np.stack(states, axis=1).astype(self.coef_.dtype)
        return out[0] if np.ndim(x0) == 1 else out


def _warn_unsettled(risks, most, patience, tol):
    """Warn if passes ran out while the best risk was still falling by more than `tol`."""
    best = risks[:, int(np.argmin(risks.min(axis=0)))]
    before = best[: max(1, len(best) - patience)].min()
    if len(best) >= most and best.min() < (1.0 - tol) * before:
        warn(
            f"{most} passes were not enough for the hold-out risk to settle: it fell by "
            f"{100.0 * (1.0 - best.min() / before):.1f} % in the last {min(patience, most)}. Give "
            "a larger max_iter.",
            ConvergenceWarning,
        )


def _regression(now, after):
    """The slope of the next state on the last, coordinates centred."""
    x = now.astype(np.float64) - now.mean(axis=0, dtype=np.float64)
    size = float(np.sum(x * x))
    return float(np.sum(x * (after - after.mean(axis=0)))) / size if size > 0.0 else 0.0
