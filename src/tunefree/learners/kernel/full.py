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

from typing import Any, NamedTuple

import numpy as np

from tunefree._blas import potrf, potrs
from tunefree.learners.kernel.geometry import exact
from tunefree.learners.kernel.nystroem import Landmarks, accumulate

_TILE, _PANEL = 512, 2048
# What landmarks leave of a row's square, in the mean, times this is added to the leader's penalty.
_TAIL = 2.0
# The squared residual falls to such a share of what it was, not below.
_SMALL = 1e-12
# Kernel values in single precision want a penalty of so much, times the root of the rows.
_ROUNDED = 3e-6
# Rows that are asked for the penalty, and times what that of their evidence is tried.
_ASKED, _FACTORS = 3000, (0.03, 0.1, 0.3, 1.0, 3.0)
# Steps at most, between two looks at the risk, and by how much it is to fall meanwhile.
_MOST, _EACH, _FALL = 80, 4, 3e-3


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


def _wide(team, geometry, A, B):
    """Kernel values of a tile, in double precision."""
    shape = len(A), len(B)
    values = team.memory(shape, np.dtype(np.float64), "wide")
    values[:] = geometry.values(A, B, team.memory(shape, A.dtype))
    return values


def times(geometry, A, B, V, team):
    """The kernel values of rows of A with those of B, times V: shape (len(A), n_outputs)."""

    def block(start):
        rows, out = A[start : start + _TILE], 0.0
        for i in range(0, len(B), _TILE):
            out = out + _wide(team, geometry, rows, B[i : i + _TILE]) @ V[i : i + _TILE]
        return out

    return np.concatenate(team.map(block, range(0, len(A), _TILE)))


def symmetric(geometry, A, V, team):
    """The same of A with itself, by half the values."""
    n = len(A)

    def panel(start):
        out = np.zeros((n - start, V.shape[1]))
        for i in range(start, min(start + _PANEL, n), _TILE):
            rows = slice(i, i + _TILE)
            for j in range(i, n, _TILE):
                K, columns = _wide(team, geometry, A[rows], A[j : j + _TILE]), slice(j, j + _TILE)
                out[i - start : i - start + _TILE] += K @ V[columns]
                if j > i:
                    out[j - start : j - start + _TILE] += K.T @ V[rows]
        return out

    total, starts = np.zeros(V.shape), range(0, n, _PANEL)
    for start, found in zip(starts, team.each(panel, starts), strict=True):
        total[start:] += found
    return total


def _steps(marks, sums, rho, penalty, A, Y, weights, beta, fit, team):
    """Yield the squared residual after every step; `beta` and `fit`, which is K alpha, go on."""
    root = np.sqrt(weights)[:, None]
    unit = root / np.sqrt(weights.sum())
    gram = marks.basis.T @ sums.centred()[0] @ marks.basis
    gram[np.diag_indices_from(gram)] += rho
    potrf(factor := np.asfortranarray(gram))

    def centred(V):
        return V - unit * (unit.T @ V)

    def led(R):
        seen = marks.basis.T @ times(marks.geometry, marks.centers, A, root * R, team)
        known = marks.basis @ potrs(factor, seen)
        return R - centred(root * times(marks.geometry, A, marks.centers, known, team))

    R = centred(root * (Y - fit)) - penalty * beta
    Z = led(R)
    P, size, least = Z, (R * Z).sum(axis=0), _SMALL * np.square(R).sum()
    while True:
        step = symmetric(marks.geometry, A, root * P, team)
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


def _seen(marks, sums, A, weights, penalty):
    """Products of landmarks' features, and the penalty with what landmarks leave of the kernel."""
    second = marks.basis.T @ (sums.second + np.triu(sums.second, 1).T) @ marks.basis
    whole = weights @ (2.0 + 2.0 * marks.geometry.slope * marks.geometry.kernel.sizes(A))
    return second, penalty + _TAIL * max(whole - np.trace(second), 0.0) / sums.total


def led_by(marks, A, weights, penalty, team):
    """`_seen` of rows by their weights."""
    none = np.zeros((len(A), 1))
    sums = accumulate(_Values(marks), lambda a, b: A[a:b], len(A), none, weights, np.zeros(1), team)
    return _seen(marks, sums, A, weights, penalty)


def leaders(n):
    """How many landmarks lead: their sums cost about what ten steps do."""
    return int(min(4000, 12 * np.sqrt(n), n))


def scaled(geometry, A, Y, weights, n, team):
    """The geometry with the penalty, and rates all as often, of least leave-one-out risk.

    The first of n rows are asked, each with all others of these left in.
    """
    m = min(n, _ASKED)
    share, middle = weights[m // 2 : m], _FACTORS.index(1.0)
    best: tuple[float, Any] = np.inf, geometry
    for rate in (1.0, 2.0):
        rates = np.full(A.shape[1], rate)
        B = A[:m] * (rates ** (1.0 / geometry.kernel.power)).astype(A.dtype)

        def risk(i, rate=rate, B=B):
            penalty = geometry.penalty * _FACTORS[i]
            one = geometry._replace(rates=geometry.rates * rate, penalty=penalty)
            _, said, _, _ = exact(one, B, Y[:m], weights[:m], m - m // 2, team=team)
            return float(share @ np.square(said - Y[m // 2 : m]).sum(axis=1)), i, one

        # Down while that is better, else up.
        found = risk(middle)
        for step in (-1, 1):
            while 0 <= (i := found[1] + step) < len(_FACTORS) and (near := risk(i)) < found:
                found = near
            if found[1] != middle:
                break
        middle = found[1]
        best = min(best, (found[0], found[2]), key=lambda known: known[0])
    return best[1]


def full(marks, A, Y, weights, penalty, held, team, most=_MOST):
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

    Returns
    -------
    coef : ndarray of shape (n, n_outputs)
    intercept : ndarray of shape (n_outputs,)
    left_out : ndarray of shape (held, n_outputs)
    """
    n, k, geometry = len(A) - held, Y.shape[1], marks.geometry
    nothing = np.zeros(k)
    penalty = max(penalty, _ROUNDED * np.sqrt(len(A)))

    def rows(a, b):
        return A[a:b]

    values = _Values(marks)
    sums = accumulate(values, rows, n, Y, weights, nothing, team)
    _, rho = _seen(marks, sums, A[:n], weights[:n], penalty)
    root = np.sqrt(weights)[:, None]
    # From where landmarks alone come: their coefficients sum to nothing, as those of all rows do.
    gram, cross = (marks.basis.T @ part for part in sums.centred())
    gram = gram @ marks.basis + penalty * np.eye(marks.size)
    alone = marks.basis @ np.linalg.solve(gram, cross)
    alone -= alone.mean(axis=0)
    fit, beta = times(geometry, A[:n], marks.centers, alone, team), np.zeros((n, k))
    beta[: len(alone)] = alone / root[: len(alone)]
    w, risk, looks, sizes = weights[n:], np.inf, 0, nothing
    known, level, before = np.zeros((held, k)), nothing, nothing
    for looks, now in enumerate(
        _steps(marks, sums, rho, penalty, A[:n], Y[:n], weights[:n], beta, fit, team), 1
    ):
        if looks % _EACH and looks < most:
            continue
        before, sizes = sizes, now
        level = weights[:n] @ (Y[:n] - fit) / sums.total
        known = times(geometry, A[n:], A[:n], root[:n] * beta, team)
        now = w @ np.square(known + level - Y[n:]).sum(axis=1) / w.sum()
        if looks >= most or now > risk * (1.0 - _FALL):
            break
        risk = now
    sums = sums.plus(accumulate(values, rows, len(A), Y, weights, nothing, team, n))
    said = known + level
    beta, fit = np.concatenate([beta, np.zeros((held, k))]), np.concatenate([fit, known])
    for i, now in enumerate(_steps(marks, sums, rho, penalty, A, Y, weights, beta, fit, team), 1):
        if i >= looks or (now <= before).all():
            break
    return root * beta, weights @ (Y - fit) / sums.total, said
