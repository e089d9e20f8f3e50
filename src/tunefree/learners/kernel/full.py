r"""Kernel ridge regression on all rows, in memory that grows with the rows, not with their square.

With weights w, :math:`U = W^{1/2}`, :math:`u = U 1 / |U 1|` and :math:`Q = I - u u^\top` the
solution with a free intercept has the coefficients :math:`\alpha = U \beta`, where

.. math:: (Q U K U Q + \lambda) \beta = Q U y.

Conjugate gradients need products with K alone: tiles of kernel values, made anew in every step,
serve both halves of the symmetric matrix and are gone before the next. Landmarks and neighbours
lead them: with landmarks' features :math:`\Phi` of all rows, and D the penalty and what landmarks
leave of the kernel within blocks of neighbours, the steps go along
:math:`Q (U \Phi^\top \Phi U + D)^{-1} r`. Kernel values
are in single precision, sums in double; tiles have a fixed size, and sums a fixed order, so that
results do not depend on the number of threads. Rows that are held judge the steps: they end when
the risk there no longer falls. Then these rows are learned, too, from where the others are.

Source: Avron, Clarkson and Woodruff 2017 (random features lead conjugate gradients); Rudi,
Carratino and Rosasco 2017 (Falkon); Quinonero-Candela and Rasmussen 2005, section 7 (blocks beside
landmarks, as an approximation).
"""

from typing import Any, NamedTuple, Self

import numpy as np

from tunefree._blas import potrf, potrs, syrk, trmm, trsm
from tunefree.learners.kernel.geometry import SINGLE_MANY, exact, factored
from tunefree.learners.kernel.nystroem import Landmarks, place
from tunefree.learners.kernel.tiles import symmetric, times

# Up to so many leaders are solved for in one piece; so many rows at most are a block of neighbours.
_SOME, NEAR = 256, 512
# The squared residual falls to such a share of what it was, not below.
_SMALL = 1e-12
# Kernel values in single precision want a penalty of so much, times the root of the rows.
_ROUNDED = 3e-6
# Rows that are asked for the penalty, and times what that of their evidence is tried. The largest
# is taken that costs so much of the risk: twice the penalty saves a third of the steps.
_ASKED, _SLACK = 2000, 0.01
_FACTORS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
# Steps at most, between two looks at the risk, and by how much it is to fall meanwhile; or the
# squared residual, some times which the risk gains yet, is such a share of the squared errors;
# sixty times that of classes, which are told apart long before squares stop falling.
_MOST, _EACH, _FALL, _DONE, _LABELS = 80, 4, 3e-3, 5e-3, 60.0


def lowered(M, penalty):
    """The lower Cholesky factor of a matrix and a penalty: a larger one where rounding asks."""
    while np.isfinite(penalty):
        A = np.array(M, order="F")
        A[np.diag_indices_from(A)] += penalty
        if not potrf(A) and np.isfinite(np.diagonal(A)).all():
            return A
        penalty *= 4.0
    raise np.linalg.LinAlgError("A matrix of kernel values is not finite.")


def neighbours(A, rows, most):
    """Rows in blocks of at most so many near each other: halves by the column that varies most."""
    if len(rows) <= most:
        return [rows]
    order = rows[np.argsort(A[rows, A[rows].var(axis=0).argmax()], kind="stable")]
    half = len(rows) // 2
    return [*neighbours(A, order[:half], most), *neighbours(A, order[half:], most)]


class Preconditioner(NamedTuple):
    r"""What stands for the kernel matrix of weighted rows and a penalty, and is solved with.

    Landmarks' features of the rows, and of what these leave blocks of neighbours:
    :math:`U K U + \lambda \approx U \Phi^\top \Phi U + D`, which Woodbury's formula inverts.
    """

    marks: Landmarks
    penalty: float
    team: Any
    A: np.ndarray  # the rows
    root: np.ndarray  # U, of shape (n, 1)
    near: tuple  # blocks: numbers of rows, and the lower factor of their part of D
    products: np.ndarray  # 1 + Phi U D^-1 U Phi', the upper triangle
    factor: np.ndarray  # its lower factor

    @classmethod
    def of(cls, centers, geometry, A, weights, penalty, team) -> Self:
        """Of rows in single precision, with some of them as landmarks."""
        # What landmarks say is not worth the digits below a tenth of their part of the penalty.
        marks = place(centers, geometry, team, 0.1 * penalty * len(centers) / len(A))
        products, root = np.asfortranarray(np.eye(marks.size)), np.zeros((0, 1))
        return cls(marks, penalty, team, A[:0], root, (), products, products).plus(A, weights)

    def plus(self, A, weights):
        """Of more rows, after those that are known."""
        marks, root, known = self.marks, np.sqrt(weights)[:, None], len(self.A)

        def block(rows):
            # The very numbers that steps multiply by, or small penalties miss digits.
            B, u = A[rows], root[rows]
            F = np.array(marks.values(B).T, dtype=np.float64, order="F")
            F = trmm(marks.basis, F)
            F *= u.T
            lower = lowered(u * marks.geometry.values(B, B) * u.T - F.T @ F, self.penalty)
            trsm(lower, F)
            return lower, syrk(F, np.zeros((len(F), len(F)), order="F"))

        blocks = neighbours(A, np.arange(known, len(A)), min(NEAR, marks.size))
        near, products = list(self.near), self.products.copy(order="F")
        for rows, (lower, found) in zip(blocks, self.team.each(block, blocks), strict=True):
            near.append((rows, lower))
            products += found
        factor = np.asfortranarray(products.T)
        factored(factor, self.team, _SOME)
        return self._replace(A=A, root=root, near=tuple(near), products=products, factor=factor)

    def first(self, R):
        """What landmarks alone say: coefficients that sum to nothing, and values of all rows."""
        coef = self._of_landmarks(self._of_blocks(R))
        coef -= coef.mean(axis=0)
        return coef, self._shown(coef)

    def solve(self, R):
        """The solution for right-hand sides of shape (n, k)."""
        near = self._of_blocks(R)
        return near - self._of_blocks(self.root * self._shown(self._of_landmarks(near)))

    def _shown(self, coef):
        return times(self.marks.geometry, self.A, self.marks.centers, coef, self.team)

    def _of_landmarks(self, R):
        marks = self.marks
        few = max(-(-marks.size // 16), 64)  # rows a thread, of few
        seen = times(marks.geometry, marks.centers, self.A, self.root * R, self.team, few)
        return marks.basis @ potrs(self.factor, marks.basis.T @ seen)

    def _of_blocks(self, R):
        out = np.empty(R.shape)

        def solve(block):
            rows, lower = block
            out[rows] = potrs(lower, R[rows])

        self.team.map(solve, self.near)
        return out


def _steps(lead, Y, weights, beta, fit):
    """Yield the squared residual after every step; `beta` and `fit`, which is K alpha, go on."""
    A, penalty, team, root = lead.A, lead.penalty, lead.team, np.sqrt(weights)[:, None]
    geometry, unit = lead.marks.geometry, root / np.sqrt(weights.sum())

    def centred(V):
        return V - unit * (unit.T @ V)

    R = centred(root * (Y - fit)) - penalty * beta
    Z = centred(lead.solve(R))
    P, size, least = Z, (R * Z).sum(axis=0), _SMALL * np.square(R).sum()
    while True:
        # A large penalty forgives products in single precision, which are made in half the time.
        dtype = np.float32 if penalty >= SINGLE_MANY else np.float64
        step = symmetric(geometry, A, (root * P).astype(dtype), team)
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
        Z = centred(lead.solve(R))
        # This form of the next direction forgives that the leader is known to seven digits only.
        P = Z + np.maximum((Z * (R - before)).sum(axis=0) / size, 0.0) * P
        size = (R * Z).sum(axis=0)
    while True:
        yield np.square(R).sum(axis=0)


def preconditioner_rows(n, penalty):
    """How many landmarks lead: small penalties want many steps, and more landmarks make them few.

    What they cost is what ten steps do, or three.
    """
    return int(min(4000, (12 if penalty < SINGLE_MANY else 6) * np.sqrt(n), n))


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
            _, predictions, _, _ = exact(one, B, Y[:m], weights[:m], m - m // 2, team=team)
            return float(share @ np.square(predictions - Y[m // 2 : m]).sum(axis=1)), i, one

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


def full(centers, geometry, A, Y, weights, penalty, held, team, most=_MOST, labels=False):
    """Coefficients of all rows, the intercepts, and what is said of the last `held` without them.

    Parameters
    ----------
    centers : ndarray of float32 of shape (m, d)
        The first of the rows, which lead.
    geometry : Geometry
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
    n, k = len(A) - held, Y.shape[1]
    penalty = max(penalty, _ROUNDED * np.sqrt(len(A)))
    lead = Preconditioner.of(centers, geometry, A[:n], weights[:n], penalty, team)
    root, total = np.sqrt(weights)[:, None], weights[:n].sum()
    alone, fit = lead.first(root[:n] * (Y[:n] - weights[:n] @ Y[:n] / total))
    beta = np.zeros((n, k))
    beta[: len(alone)] = alone / root[: len(alone)]
    nothing = np.zeros(k)
    w, risk, looks, sizes, enough = weights[n:], np.inf, 0, nothing, -1.0
    share = _DONE * _LABELS if labels else _DONE
    known, level, before = np.zeros((held, k)), nothing, nothing
    for looks, now in enumerate(_steps(lead, Y[:n], weights[:n], beta, fit), 1):
        done = now.sum() <= enough
        if not done and looks % _EACH and looks < most:
            continue
        before, sizes = sizes, now
        level = weights[:n] @ (Y[:n] - fit) / total
        known = times(geometry, A[n:], A[:n], root[:n] * beta, team)
        now = w @ np.square(known + level - Y[n:]).sum(axis=1) / w.sum()
        if done or looks >= most or now > risk * (1.0 - _FALL):
            break
        risk, enough = now, share * now * total
    predictions = known + level
    beta, fit = np.concatenate([beta, np.zeros((held, k))]), np.concatenate([fit, known])
    steps = _steps(lead.plus(A, weights), Y, weights, beta, fit)
    for i, now in enumerate(steps, 1):
        if i >= looks or (now <= before).all() or now.sum() <= enough:
            break
    return root * beta, weights @ (Y - fit) / weights.sum(), predictions
