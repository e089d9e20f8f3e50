"""What a sweep of the Reflectron keeps: configurations, blocks of rows, sums and points."""

from typing import NamedTuple

import numpy as np

NONE = -1


class Configuration(NamedTuple):
    """A geometry to learn in.

    Attributes
    ----------
    potential : a part of `tunefree.potentials`
    constraint : a part of `tunefree.constraints` or None
    step : float or None
        A fixed step; None is automatic.
    per_output : bool
        Whether potential and constraint are of every output on its own; else of the whole matrix.
    """

    potential: object
    constraint: object = None
    step: float | None = None
    per_output: bool = False

    def mirror(self, theta):
        """The dual of parameters of shape (k, d)."""
        theta = np.asarray(theta, dtype=float)
        if self.per_output:
            return np.concatenate([self.potential.mirror(row[None]) for row in theta])
        return self.potential.mirror(theta)

    def place(self, duals, near=None):
        """The predictors of duals of shape (members, k, d), and the duals of those predictors.

        Parameters
        ----------
        duals : ndarray
        near : ndarray of the same shape, optional
            The predictors before this step: a hint.
        """
        if self.per_output:
            alone = self._replace(per_output=False)
            pairs = alone.place(duals.reshape(-1, 1, duals.shape[-1]))
            return tuple(a.reshape(duals.shape) for a in pairs)
        if self.constraint is not None:
            pairs = [self.constraint.project(dual, self.potential) for dual in duals]
            return np.array([theta for theta, _ in pairs]), np.array([dual for _, dual in pairs])
        if getattr(self.potential, "separable", False):
            return self.potential.inverse(duals), duals
        return np.array([self.potential.inverse(dual) for dual in duals]), duals


class Sheet(NamedTuple):
    """A block of rows for batch learners.

    Attributes
    ----------
    design : object with `apply` and `adjoint`
    targets : ndarray of shape (n, k)
    weights : ndarray of shape (n,)
    held : int or ndarray of shape (n,), default=-1
        The member that does not learn from a row: its risk there is measured. -1 is none.
    """

    design: object
    targets: np.ndarray
    weights: np.ndarray
    held: object = NONE


class Point(NamedTuple):
    """Predictors: duals and parameters (..., k, d), intercepts (..., k)."""

    dual: np.ndarray
    theta: np.ndarray
    offset: np.ndarray

    def where(self, mask, other):
        """These where the mask of the first axis is true, else the others."""
        return Point(*(pick(mask, a, b) for a, b in zip(self, other, strict=True)))

    def take(self, index):
        """Some of the first axis."""
        return Point(*(a[index] for a in self))


class Sums(NamedTuple):
    """What a sweep adds up, of the L configurations still running and their M members.

    Attributes
    ----------
    gradient, offset : ndarray of shape (L, M, k, d) and (L, M, k)
    weight : ndarray of shape (M,)
        Mass of the rows learned from.
    squares : ndarray of shape (L,)
        Squared residuals of the first member on the rows it learns from.
    held, held_weight : ndarray of shape (L,), float
        Squared residuals on the rows held out, of the members they are held out from.
    """

    gradient: object = 0.0
    offset: object = 0.0
    weight: object = 0.0
    squares: object = 0.0
    held: object = 0.0
    held_weight: float = 0.0

    def add(self, other):
        """Both together."""
        return Sums(*(a + b for a, b in zip(self, other, strict=True)))

    def less(self, other):
        """What came after `other`."""
        return Sums(*(a - b for a, b in zip(self, other, strict=True)))


class State(NamedTuple):
    """Everything a run knows; L of the C configurations are still running.

    Attributes
    ----------
    live : ndarray of shape (L,), int
        Their numbers.
    now, trial : Point
        Accepted and on trial: of the running configurations, all members, (L, M, k, d).
    gradient, offset_gradient : ndarray
        At the accepted points.
    best : Point
        Of the first member, (C, k, d): where the risk was lowest, or the last.
    step : ndarray of shape (C,)
    sums : Sums
    accepted : ndarray of shape (C,)
        Points accepted so far, the start included.
    score, best_at : ndarray of shape (C,)
        The lowest risk and the accepted point that had it.
    mark, mark_at : ndarray of shape (C,)
        The same, counting only improvements worth waiting for.
    begun : ndarray of shape (C,)
        The risk of the start.
    time, best_time : ndarray of shape (C,)
        The sum of the accepted steps, now and at the best point.
    risk, held_risk, move : ndarray of shape (C,)
        Mean squared errors of the accepted point, and the symmetric Bregman divergence
        <w+ - w, theta+ - theta> of the last move.
    passes : int
    chain : object
        What `tunefree.learners.reflectron.chained` remembers, of the L running ones.
    """

    live: np.ndarray
    now: Point
    trial: Point
    gradient: np.ndarray
    offset_gradient: np.ndarray
    best: Point
    step: np.ndarray
    sums: Sums
    accepted: np.ndarray
    score: np.ndarray
    best_at: np.ndarray
    mark: np.ndarray
    mark_at: np.ndarray
    begun: np.ndarray
    time: np.ndarray
    best_time: np.ndarray
    risk: np.ndarray
    held_risk: np.ndarray
    move: np.ndarray
    passes: int
    chain: object = None


def pick(mask, a, b):
    """Rows of a where the mask is true, else those of b."""
    return a if mask.all() else np.where(mask.reshape(-1, *[1] * (a.ndim - 1)), a, b)
