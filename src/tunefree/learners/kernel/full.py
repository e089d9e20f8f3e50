r"""Kernel ridge regression on all rows, in memory that grows with the rows, not with their square.

With weights w, :math:`U = W^{1/2}`, :math:`u = U 1 / |U 1|` and :math:`Q = I - u u^\top` the
solution with a free intercept has the coefficients :math:`\alpha = U \beta`, where

.. math:: (Q U K U Q + \lambda) \beta = Q U y.

Conjugate gradients need products with K alone: tiles of kernel values, made anew in every step,
serve both halves of the symmetric matrix and are gone before the next. Landmarks lead them: with
their features :math:`\Phi` of all rows the steps go along
:math:`(Q U \Phi \Phi^\top U Q + \rho)^{-1} r`,
where :math:`\rho` stands for the penalty and for what landmarks leave of the kernel. Kernel values
are in single precision, sums in double; tiles have a fixed size, and sums a fixed order, so that
results do not depend on the number of threads. Rows that are held judge the steps: they end when
the risk there no longer falls. Then these rows are learned, too, from where the others are.

Source: Avron, Clarkson and Woodruff 2017 (random features lead conjugate gradients); Frangella,
Tropp and Udell 2023 (the Nystroem preconditioner); Rudi, Carratino and Rosasco 2017 (Falkon).
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tunefree._blas import potrs, trmm
from tunefree.learners.kernel.geometry import SINGLE_MANY, exact, factored, parts_of
from tunefree.learners.kernel.nystroem import Landmarks, accumulate
from tunefree.learners.kernel.tiles import symmetric, times

# Up to so many leaders are solved for in one piece.
_SOME = 256
# What landmarks leave of a row's square, in the mean, times this is added to the leader's penalty.
_TAIL = 2.0
# The squared residual falls to such a share of what it was, not below.
_SMALL = 1e-12
# Kernel values in single precision want a penalty of so much, times the root of the rows.
_ROUNDED = 3e-6
# Rows that are asked for the penalty, and times what that of their evidence is tried. The largest
# is taken that costs so much of the risk: twice the penalty saves a third of the steps.
_ASKED, _SLACK = 3000, 0.01
_FACTORS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
# Steps at most, between two looks at the risk, and by how much it is to fall meanwhile; or the
# squared residual, some times which the risk gains yet, is such a share of the squared errors; a
# hundred times that of classes, which are told apart long before squares stop falling.
_MOST, _EACH, _FALL, _DONE, _LABELS = 80, 4, 3e-3, 1e-3, 100.0


class _Values(NamedTuple):
    """Kernel values as features: the very numbers that steps multiply by.

    What leads them and what they see then agree in the digits that a small penalty needs.
    """

    marks: Landmarks

    @property
    def size(self):
        """How many features."""
        return self.marks.size

    def features(self, A):
        """Kernel values of placed rows, of shape (m, n)."""
        return self.marks.values(A).T.astype(np.float64)


def _congruent(basis, M, team):
    """Basis' M basis of a symmetric M."""

    def turn(part, out):
        out[:, part] = trmm(basis, np.array(M[part].T, order="F"))

    for _ in range(2):
        out = np.empty_like(M, order="F")
        team.map(partial(turn, out=out), parts_of(len(M), _SOME))
        M = out
    return M


def _steps(marks, products, rho, penalty, A, Y, weights, beta, fit, team):
    """Yield the squared residual after every step; `beta` and `fit`, which is K alpha, go on."""
    root = np.sqrt(weights)[:, None]
    unit = root / np.sqrt(weights.sum())
    factor = np.array(products, order="F")
    factor[np.diag_indices_from(factor)] += rho
    factored(factor, team, _SOME)
    few = max(-(-marks.size // 16), 64)  # rows a thread, of few

    def centred(V):
        return V - unit * (unit.T @ V)

    def led(R):
        seen = times(marks.geometry, marks.centers, A, root * R, team, few)
        seen = marks.basis.T @ seen
        known = marks.basis @ potrs(factor, seen)
        return R - centred(root * times(marks.geometry, A, marks.centers, known, team))

    R = centred(root * (Y - fit)) - penalty * beta
    Z = led(R)
    P, size, least = Z, (R * Z).sum(axis=0), _SMALL * np.square(R).sum()
    while True:
        # A large penalty forgives products in single precision, which are made in half the time.
        dtype = np.float32 if penalty >= SINGLE_MANY else np.float64
        step = symmetric(marks.geometry, A, (root * P).astype(dtype), team)
        along = centred(root * step) + penalty * P
        bend = (P * along).sum(axis=0)
        # What is left is rounding, which may bend the function the wrong way.
        if np.square(R).sum() <= least or (bend <= 0.0).any():
            break
        far = size / bend
        beta += far * P
        fit += far * step
        before, R = R, R - far * along
        yield np.square(R).sum(axis=0)
        Z = led(R)
        # This form of the next direction forgives that the leader is known to seven digits only.
        P = Z + np.maximum((Z * (R - before)).sum(axis=0) / size, 0.0) * P
        size = (R * Z).sum(axis=0)
    while True:
        yield np.square(R).sum(axis=0)


def _led(marks, A, Y, weights, team):
    """Sums over rows that leaders see."""
    values, nothing = _Values(marks), np.zeros(Y.shape[1])
    return accumulate(values, lambda a, b: A[a:b], len(A), Y, weights, nothing, team)


def _seen(marks, sums, team):
    """Products of leaders' coordinates less their means, with targets, and the sums."""
    products, cross = sums.centred()
    products = _congruent(marks.basis, products, team)
    return products, marks.basis.T @ cross, marks.basis.T @ sums.first


def _tail(marks, A, weights, products, first):
    """What leaders leave of a row's square, in the mean, `_TAIL` times."""
    whole = weights @ (2.0 + 2.0 * marks.geometry.slope * marks.geometry.kernel.sizes(A))
    total = weights.sum()
    return _TAIL * max(whole - np.trace(products) - first @ first / total, 0.0) / total


def led_by(marks, A, weights, penalty, team):
    """Products of leaders' features of weighted rows, and the penalty with what these leave."""
    sums = _led(marks, A, np.zeros((len(A), 1)), weights, team)
    products, _, first = _seen(marks, sums, team)
    rho = penalty + _tail(marks, A, weights, products, first)
    return products + np.outer(first, first / sums.total), rho


def leaders(n):
    """How many landmarks lead: their sums cost about what ten steps do."""
    return int(min(4000, 12 * np.sqrt(n), n))


def scaled(geometry, A, Y, weights, n, team):
    """The geometry with the penalty, and rates all as often, of least leave-one-out risk.

    The first of n rows are asked, each with all others of these left in.
    """
    m = min(n, _ASKED)
    share, middle = weights[m // 2 : m], _FACTORS.index(1.0)
    best: tuple[float, int, Any] = np.inf, 0, geometry
    for rate in (1.0, 2.0):
        rates = np.full(A.shape[1], rate)
        B = A[:m] * (rates ** (1.0 / geometry.kernel.power)).astype(A.dtype)

        def risk(i, rate=rate, B=B):
            penalty = geometry.penalty * _FACTORS[i]
            one = geometry._replace(rates=geometry.rates * rate, penalty=penalty)
            _, said, _, _ = exact(one, B, Y[:m], weights[:m], m - m // 2, team=team)
            return float(share @ np.square(said - Y[m // 2 : m]).sum(axis=1)), i, one

        # Down while that is better, else up; then up while it is hardly worse.
        found = risk(middle)
        for step in (-1, 1):
            while 0 <= (i := found[1] + step) < len(_FACTORS) and (near := risk(i)) < found:
                found = near
            if found[1] != middle:
                break
        middle, enough = found[1], (1.0 + _SLACK) * found[0]
        if found[0] < best[0]:
            best, i = found, middle
            while (i := i + 1) < len(_FACTORS) and (near := risk(i))[0] <= enough:
                best = found[0], i, near[2]
    return best[2]


def full(marks, A, Y, weights, penalty, held, team, most=_MOST, labels=False):
    """Coefficients of all rows, the intercepts, and what is said of the last `held` without them.

    Parameters
    ----------
    marks : Landmarks
        The first of the rows, with a basis.
    A : ndarray of float32 of shape (n, d)
        Placed rows.
    Y : ndarray of shape (n, n_outputs)
    weights : ndarray of shape (n,)
    penalty : float
    held : int
    team : Workers
    most : int
        Steps at most.
    labels : bool, default=False
        Whether targets stand for classes, which want fewer steps.

    Returns
    -------
    coef : ndarray of shape (n, n_outputs)
    intercept : ndarray of shape (n_outputs,)
    left_out : ndarray of shape (held, n_outputs)
    """
    n, k, geometry = len(A) - held, Y.shape[1], marks.geometry
    nothing = np.zeros(k)
    penalty = max(penalty, _ROUNDED * np.sqrt(len(A)))
    sums = _led(marks, A[:n], Y[:n], weights[:n], team)
    products, cross, first = _seen(marks, sums, team)
    rho = penalty + _tail(marks, A[:n], weights[:n], products, first)
    root = np.sqrt(weights)[:, None]
    # From where landmarks alone come: their coefficients sum to nothing, as those of all rows do.
    factor = np.array(products, order="F")
    factor[np.diag_indices_from(factor)] += penalty
    factored(factor, team, _SOME)
    alone = marks.basis @ potrs(factor, cross)
    alone -= alone.mean(axis=0)
    fit, beta = times(geometry, A[:n], marks.centers, alone, team), np.zeros((n, k))
    beta[: len(alone)] = alone / root[: len(alone)]
    w, risk, looks, sizes, enough = weights[n:], np.inf, 0, nothing, -1.0
    share = _DONE * _LABELS if labels else _DONE
    known, level, before = np.zeros((held, k)), nothing, nothing
    for looks, now in enumerate(
        _steps(marks, products, rho, penalty, A[:n], Y[:n], weights[:n], beta, fit, team), 1
    ):
        done = now.sum() <= enough
        if not done and looks % _EACH and looks < most:
            continue
        before, sizes = sizes, now
        level = weights[:n] @ (Y[:n] - fit) / sums.total
        known = times(geometry, A[n:], A[:n], root[:n] * beta, team)
        now = w @ np.square(known + level - Y[n:]).sum(axis=1) / w.sum()
        if done or looks >= most or now > risk * (1.0 - _FALL):
            break
        risk, enough = now, share * now * sums.total
    sums = sums.plus(_led(marks, A[n:], Y[n:], weights[n:], team))
    said = known + level
    beta, fit = np.concatenate([beta, np.zeros((held, k))]), np.concatenate([fit, known])
    products = _seen(marks, sums, team)[0]
    steps = _steps(marks, products, rho, penalty, A, Y, weights, beta, fit, team)
    for i, now in enumerate(steps, 1):
        if i >= looks or (now <= before).all() or now.sum() <= enough:
            break
    return root * beta, weights @ (Y - fit) / sums.total, said
