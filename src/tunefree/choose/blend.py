"""What a race leaves behind, blended: several bandwidths, rules and numbers of passes at once.

The read-outs, each divided by the size of its decisions on the left-out rows, are added with the
weights p exp(-2 (e - e_min) / SE), p the pass, e the error there and SE its standard error.
"""

from typing import NamedTuple

import numpy as np

from tunefree.learners.kernel.blocked import Blocked

# Decisions of this size are small: learners aim at 1.
_SMALL = 0.25


class ReadOut(NamedTuple):
    """What a member had learned after a pass.

    Attributes
    ----------
    gamma : float or None
    passes : int
    error, spread : float
        Mean loss of rows that were not learned, and its standard error.
    size : float
        Root mean square of the decisions there.
    coef : ndarray of shape (n_slots, n_outputs)
    decisions : ndarray of shape (n_held, n_outputs)
    """

    gamma: float | None
    passes: int
    error: float
    spread: float
    size: float
    coef: np.ndarray
    decisions: np.ndarray


class Race(NamedTuple):
    """What a race leaves behind.

    Attributes
    ----------
    engine : Blocked
    read_outs : list of ReadOut
    n_passes : int
    targets, weights : ndarray
        Of the rows on which the read-outs were compared.
    """

    engine: Blocked
    read_outs: list
    n_passes: int
    targets: np.ndarray
    weights: np.ndarray


def standard_error(loss):
    """Standard error of a mean; no smaller than that of a rare mistake."""
    return float(np.sqrt(max(loss.var(), 1e-3 * max(1.0, loss.max(initial=0.0))) / len(loss)))


def blend(outcome, normalise):
    """The weighted read-outs.

    Parameters
    ----------
    outcome : Race
    normalise : bool
        Divide by the size of decisions.

    Returns
    -------
    coefs : dict
        Bandwidth to coefficients of shape (n_slots, n_outputs).
    decisions : ndarray of shape (n_held, n_outputs)
        The same blend of what had not learned the rows on which they were compared.
    weights : ndarray
        Of each read-out; they add up to 1.
    """
    weights = _shares([(r.passes, r.error, r.spread) for r in outcome.read_outs])
    shares = weights / _sizes(outcome) if normalise else weights
    coefs, decisions, n = {}, 0.0, outcome.engine.n_slots
    for r, share in zip(outcome.read_outs, shares, strict=True):
        total = coefs.setdefault(r.gamma, np.zeros((n, r.coef.shape[1])))
        total[: len(r.coef)] += share * r.coef
        decisions = decisions + share * r.decisions
    return coefs, decisions, weights


def _sizes(outcome):
    """Sizes of the decisions of read-outs, as far as they are not next to nothing.

    A narrow kernel decides nothing on rows that it has not learned. Brought to the size of others,
    it would decide everything on those that it has, where learners aim at decisions of about 1.
    """
    return np.maximum([r.size for r in outcome.read_outs], _SMALL)


def _shares(found):
    """Weights of read-outs (passes, error, spread); they add up to 1."""
    passes, error, spread = np.array(found).T
    best = int(error.argmin())
    weights = passes * np.exp(-2.0 * (error - error[best]) / spread[best])
    return weights / weights.sum()


def crossed(outcome, loss_of, normalise):
    """Decisions of the left-out rows by blends whose weights the other half of them chose.

    Parameters
    ----------
    outcome : Race
    loss_of, normalise
        See `race` and `blend`.

    Returns
    -------
    ndarray of shape (n_held, n_outputs)
    """
    losses = [loss_of(r.decisions, outcome.targets) for r in outcome.read_outs]
    sizes = _sizes(outcome) if normalise else 1.0
    out = np.empty(outcome.targets.shape)
    for half, other in (
        (slice(0, None, 2), slice(1, None, 2)),
        (slice(1, None, 2), slice(0, None, 2)),
    ):
        found = [
            (r.passes, loss[other].mean(), standard_error(loss[other]))
            for r, loss in zip(outcome.read_outs, losses, strict=True)
        ]
        shares = _shares(found) / sizes
        out[half] = sum(
            share * r.decisions[half] for r, share in zip(outcome.read_outs, shares, strict=True)
        )
    return out
