"""What a fitted PiSTOL can have lost against a competitor: the theorems, on the rows at hand."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from tunefree.bounds import pistol_regret_seen
from tunefree.learners.pistol.isotropic import Isotropic
from tunefree.learners.pistol.rules import ACCUMULATOR, GROWTH, PiSTOL

NO_RULE = (
    "Nothing is proved about the rules of setting={!r}: 'theorem-1' and 'guaranteed' have a bound."
)
MOVING = (
    "Nothing is proved where the columns' units are learned from a stream: a linear competitor is "
    "no fixed vector there. Use fit, or for a classifier fit_intercept=False."
)


class Regret(NamedTuple):
    """What a run under a proved rule keeps for its bound.

    Attributes
    ----------
    a, b : float
    root : bool
        Whether b is multiplied by sqrt(alpha).
    lipschitz, largest : float
        L, and the largest norm of a row.
    alpha, growth : ndarray of shape (n_outputs,)
        See `tunefree.bounds.pistol_regret_seen`.
    """

    a: float
    b: float
    root: bool
    lipschitz: float
    largest: float
    alpha: np.ndarray
    growth: np.ndarray

    def bound(self, norms):
        """The sum over outputs of the bound against competitors of these norms.

        Raises
        ------
        ValueError
            If the run is none that the proof covers.
        """
        if not np.isfinite(self.growth).all():
            raise ValueError(
                "Nothing is proved about this run: a visit weighed more than 1, or the bound of "
                "the loss's slope grew on the way."
            )
        if self.largest == 0.0:
            return 0.0
        constants = {"a": self.a, "b": self.b, "lipschitz": self.lipschitz, "root": self.root}
        return sum(
            pistol_regret_seen(self.largest * norm, alpha, growth, **constants)
            for norm, alpha, growth in zip(norms, self.alpha, self.growth, strict=True)
        )


def regret_of(learner, scalars, shared):
    """What a run keeps for its bound; None under a rule of which nothing is proved.

    Parameters
    ----------
    learner : part
    scalars, shared : ndarray
        Of the learner's state.

    Returns
    -------
    Regret or None
    """
    rule = learner.rule
    if not isinstance(learner, Isotropic) or not isinstance(rule, PiSTOL) or rule.squares:
        return None
    largest, lipschitz = float(shared[0]), float(shared[2])
    if learner.negligible > 0.0 or rule.a < 2.25 * learner.loss.bound():
        return None
    alpha = scalars[:, ACCUMULATOR] / (largest if largest > 0.0 else 1.0)
    growth = scalars[:, GROWTH].copy()
    return Regret(float(rule.a), float(rule.b), bool(rule.root), lipschitz, largest, alpha, growth)


def linear_regret(portfolio, state, moving=False, units=None):
    """The regret of a portfolio's only member and its view; the sentence that says why not.

    Parameters
    ----------
    portfolio : Portfolio
    state : PortfolioState
    moving : bool, default=False
        Whether views were renewed as rows came.
    units : (ndarray, ndarray), optional
        Location and scale of the targets.

    Returns
    -------
    (Regret, View, location, scale) or str
    """
    (member, *others), (now, *_) = portfolio.members, state.members
    found = None
    if not others:
        view = state.views[member.view]
        n_outputs = state.progress.targets.shape[1] - portfolio.unseen
        if isinstance(member.learner, Isotropic):
            found = regret_of(member.learner, now.scalars[:n_outputs], now.shared)
    if found is None:
        return NO_RULE
    if moving and (view.bias != 0.0 or view.scale is not None):
        return MOVING
    units = (np.zeros(1), np.ones(1)) if units is None else units
    return found, view._replace(low=None, high=None, rotation=None), *units


def kernel_regret(engine):
    """For each member of a kernel's run that learned all rows its bandwidth and regret.

    Parameters
    ----------
    engine : Blocked

    Returns
    -------
    tuple of (float or None, Regret), or str
    """
    pairs = zip(engine.members, engine.states, strict=True)
    found = tuple(
        (None if m.gamma is None else float(m.gamma), regret_of(m.learner, s.scalars, s.shared))
        for m, s in pairs
        if m.name != "part"
    )
    return NO_RULE if any(regret is None for _, regret in found) else found


class RegretBound:
    """``regret_bound`` of linear estimators, whose ``regret_`` is what `linear_regret` says."""

    coef_: np.ndarray
    regret_: Any
    setting: str

    def regret_bound(self, coef: ArrayLike, intercept: ArrayLike = 0.0) -> float:
        """Largest sum of losses by which learning can have lost to a linear predictor.

        It is about the predictions made on the way, each before its row was learned, summed over
        all visits of rows in their order; a visit of weight below 1 counts by its weight (weights
        are divided by their greatest divisor, or by their mean). Losses are those of `loss`, summed
        over outputs; a regressor's are in units of its robust scale of the targets ('huber'
        has the width of the moment), and its competitor sees columns clipped and screened as in
        learning.

        Parameters
        ----------
        coef : array-like of the shape of `coef_`
            The competitor: any, chosen after the fact.
        intercept : float or array-like of the shape of `intercept_`, default=0

        Returns
        -------
        float

        Raises
        ------
        ValueError
            Where nothing is proved: settings other than 'theorem-1' and 'guaranteed', visits that
            weigh more than 1, streams whose columns' units are learned.

        References
        ----------
        Orabona 2014, Theorem 1; `tunefree.bounds.pistol_regret_seen`.
        """
        check_is_fitted(self, "coef_")
        own = np.atleast_2d(self.coef_)
        if isinstance(self.regret_, str):
            raise ValueError(self.regret_.format(self.setting))
        regret, view, m, s = self.regret_
        coef = np.asarray(coef, dtype=float)
        if coef.size != own.size:
            raise ValueError(f"coef has {coef.size} entries, and coef_ has {own.size}.")
        coef = coef.reshape(own.shape)
        intercept = np.broadcast_to(np.asarray(intercept, dtype=float), (len(own),))
        shown, level = coef / s[:, None], (intercept - m) / s
        if view.shift is not None:
            level = level + shown @ view.shift
        if view.scale is not None:
            if shown[:, view.scale == 0.0].any():
                raise ValueError("The competitor looks at columns that are constant: give them 0.")
            shown = shown / np.where(view.scale == 0.0, 1.0, view.scale)
        if view.bias != 0.0:
            level = level / view.bias
        elif level.any():
            raise ValueError("This model has no intercept, and neither may its competitor.")
        return regret.bound(np.hypot(np.linalg.norm(shown, axis=1), level))


class KernelRegretBound:
    """``regret_bound`` of kernel PiSTOL, whose ``regret_`` is what `kernel_regret` says."""

    regret_: Any
    setting: str

    def regret_bound(self, norm: float) -> dict[float | None, float]:
        """Largest sum of losses by which each learner can have lost to a function of this norm.

        The norm is that of the reproducing kernel Hilbert space of the learner's kernel. See
        `PiSTOLClassifier.regret_bound`; kernel values of single precision add their rounding.

        Parameters
        ----------
        norm : float or array-like of shape (n_outputs,)
            Of the competitor for every output.

        Returns
        -------
        dict of float or None to float
            The bound for each bandwidth that learned all rows to the end.

        Raises
        ------
        ValueError
            Where nothing is proved: settings other than 'theorem-1' and 'guaranteed', visits that
            weigh more than 1, streams.
        """
        check_is_fitted(self, "expansion_")
        if isinstance(self.regret_, str):
            raise ValueError(self.regret_.format(self.setting))
        norms = np.asarray(norm, dtype=float)
        if not (norms >= 0.0).all():
            raise ValueError(f"norm={norm!r} is not a norm: it must not be negative.")
        return {
            gamma: regret.bound(np.broadcast_to(norms, regret.alpha.shape))
            for gamma, regret in self.regret_
        }
