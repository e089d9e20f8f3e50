r"""Kernel ridge regression on all rows, in memory that grows with the rows, not with their square.

With weights w, :math:`U = W^{1/2}`, :math:`u = U 1 / |U 1|` and :math:`Q = I - u u^\top` the
solution with a free intercept has the coefficients :math:`\alpha = U \beta`, where

.. math:: (Q U K U Q + \lambda) \beta = Q U y.

Conjugate gradients need only products with K: tiles of kernel values, computed anew in every step,
are used for both halves of the symmetric matrix. The preconditioner has landmarks and neighbours:
with the landmarks' features :math:`\Phi` of all rows, and D the penalty plus, within blocks of
neighbours, the residual of the kernel after landmarks, steps go along
:math:`Q (U \Phi^\top \Phi U + D)^{-1} r`. Kernel values have single precision, sums double
precision. Tiles have a fixed size, and sums a fixed order, so that results do not depend on the
number of threads. Steps end when the risk on held-out rows no longer falls. Then the held-out rows
are learned, too, starting from the solution of the others.

Source: Avron, Clarkson and Woodruff 2017 (random features as preconditioner); Rudi, Carratino and
Rosasco 2017 (Falkon); Quinonero-Candela and Rasmussen 2005, section 7 (landmarks with blocks, as an
approximation).
"""

from typing import Any, NamedTuple, Self

import numpy as np

from tunefree.core.blas import potrf, potrs, syrk, trmm, trsm
from tunefree.core.clock import clock
from tunefree.kernels.exact import SINGLE_MANY, exact
from tunefree.kernels.factors import factored
from tunefree.kernels.nystroem import Landmarks, make_landmarks
from tunefree.kernels.tiles import matrix, symmetric, times

# Up to so many landmarks are factored in one task; a block of neighbours has at most so many rows.
_SOME, NEAR = 256, 512
# Steps end where the squared residual is such a share of its first value.
_SMALL = 1e-12
# Digits of landmarks: a share of their part of the penalty, which grows tenfold while rounding
# changes their solution by more than the second share.
_DIGITS, _UNRELIABLE = 0.1, 0.5
# Single precision of kernel values needs a penalty of at least this times the root of the rows.
_ROUNDED = 3e-6
# Rows on which the penalty is chosen, as a factor of the one of most evidence. The largest factor
# is taken whose risk is larger by at most this share: twice the penalty saves a third of the steps.
_ASKED, _SLACK = 2000, 0.01
_FACTORS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
# Steps at most. Steps between two evaluations of the risk; they end if it has fallen by less than
# this share. They also end where the squared residual is such a share of the squared errors. For
# classes that share is larger: their errors stop falling long before squares do.
_MOST, _EACH, _FALL, _DONE, _LABELS = 80, 4, 3e-3, 5e-3, 60.0


def cholesky(M, penalty):
    """The lower Cholesky factor of a matrix and a penalty, which is raised if rounding requires."""
    while np.isfinite(penalty):
        A = np.array(M, order="F")
        A[np.diag_indices_from(A)] += penalty
        if not potrf(A) and np.isfinite(np.diagonal(A)).all():
            return A
        penalty *= 4.0
    raise np.linalg.LinAlgError("A matrix of kernel values is not finite.")


def neighbours(A, rows, most):
    """Blocks of at most so many similar rows: halves by the column of largest variance."""
    if len(rows) <= most:
        return [rows]
    order = rows[np.argsort(A[rows, A[rows].var(axis=0).argmax()], kind="stable")]
    half = len(rows) // 2
    return [*neighbours(A, order[:half], most), *neighbours(A, order[half:], most)]


class Preconditioner(NamedTuple):
    r"""An approximation of the kernel matrix of weighted rows plus a penalty, with its inverse.

    It has the landmarks' features of the rows, and their residuals within blocks of neighbours:
    :math:`U K U + \lambda \approx U \Phi^\top \Phi U + D`, which Woodbury's formula inverts.
    """

    landmarks: Landmarks
    penalty: float
    team: Any
    A: np.ndarray  # the rows
    root: np.ndarray  # U, of shape (n, 1)
    near: tuple  # blocks: numbers of rows, and the lower factor of their part of D
    products: np.ndarray  # 1 + Phi U D^-1 U Phi', the upper triangle
    factor: np.ndarray  # its lower factor

    @classmethod
    def of(cls, centers, geometry, A, weights, penalty, team, share=_DIGITS) -> Self:
        """For rows in single precision, with some of them as landmarks.

        Digits below this share of the landmarks' part of the penalty are not used.
        """
        ridge = share * penalty * len(centers) / len(A)
        landmarks = make_landmarks(centers, geometry, team, ridge)
        products = np.asfortranarray(np.eye(landmarks.size))
        root = np.zeros((0, 1))
        return cls(landmarks, penalty, team, A[:0], root, (), products, products).plus(A, weights)

    def plus(self, A, weights):
        """For more rows, which come after the rows so far."""
        landmarks, team = self.landmarks, self.team
        root = np.sqrt(weights)[:, None]

        def block(rows):
            # With the rounding of the steps' products: small penalties need all of their digits.
            B, u = A[rows], root[rows]
            F = matrix(landmarks.geometry, B, landmarks.centers, team).T
            near = matrix(landmarks.geometry, B, B, team)
            F = trmm(landmarks.basis, F)
            F *= u.T
            lower = cholesky(u * near * u.T - F.T @ F, self.penalty)
            trsm(lower, F)
            return lower, syrk(F, np.zeros((len(F), len(F)), order="F"))

        blocks = neighbours(A, np.arange(len(self.A), len(A)), min(NEAR, landmarks.size))
        of_blocks = list(self.near)
        products = self.products.copy(order="F")
        for rows, (lower, part) in zip(blocks, self.team.each(block, blocks), strict=True):
            of_blocks.append((rows, lower))
            products += part
        factor = np.asfortranarray(products.T)
        factored(factor, self.team, _SOME)
        return self._replace(
            A=A, root=root, near=tuple(of_blocks), products=products, factor=factor
        )

    def first(self, R):
        """The landmarks' solution: coefficients that sum to zero, and values at all rows."""
        coef = self._of_landmarks(self._of_blocks(R))
        coef -= coef.mean(axis=0)
        return coef, self._values(coef)

    def solve(self, R):
        """The solution for right-hand sides of shape (n, k)."""
        near = self._of_blocks(R)
        return near - self._of_blocks(self.root * self._values(self._of_landmarks(near)))

    def _values(self, coef):
        return times(self.landmarks.geometry, self.A, self.landmarks.centers, coef, self.team)

    def rounding_error(self, R):
        """How far rounding changes the landmarks' solution for R, as a share of its values.

        In exact arithmetic it is also the features' products with the residual over D.
        """
        landmarks = self.landmarks
        coef = self._of_landmarks(self._of_blocks(R))
        residual = R - self.root * self._values(coef)
        again = landmarks.basis @ self._products(self._of_blocks(residual))

        def size(V):
            marks = landmarks.centers
            return np.linalg.norm(times(landmarks.geometry, marks, marks, V, self.team))

        return size(again - coef) / max(size(coef), 1e-300)

    def _of_landmarks(self, R):
        return self.landmarks.basis @ potrs(self.factor, self._products(R))

    def _products(self, R):
        """Products of the landmarks' features, Phi U R."""
        landmarks = self.landmarks
        # Landmarks are few: one tile of them is a thread's task.
        values = times(
            landmarks.geometry, landmarks.centers, self.A, self.root * R, self.team, tiles=1
        )
        return landmarks.basis.T @ values

    def _of_blocks(self, R):
        out = np.empty(R.shape)

        def solve(block):
            rows, lower = block
            out[rows] = potrs(lower, R[rows])

        self.team.map(solve, self.near)
        return out


def reliable_preconditioner(R, *rows):
    """`Preconditioner.of` some rows, with as many digits of the landmarks as rounding allows.

    Kernel values of single precision do not determine the features of a smooth kernel whose
    penalty is small for the number of rows.
    """
    share = _DIGITS
    made = Preconditioner.of(*rows, share=share)
    while made.rounding_error(R) > _UNRELIABLE:
        del made  # its memory is needed for the next
        share *= 10.0
        made = Preconditioner.of(*rows, share=share)
    return made


def _steps(preconditioner, Y, weights, beta, fit):
    """Yield the squared residual after every step; updates `beta` and `fit`, which is K alpha."""
    A, penalty, team = preconditioner.A, preconditioner.penalty, preconditioner.team
    geometry = preconditioner.landmarks.geometry
    root = np.sqrt(weights)[:, None]
    unit = root / np.sqrt(weights.sum())

    def centred(V):
        return V - unit * (unit.T @ V)

    R = centred(root * (Y - fit)) - penalty * beta
    Z = centred(preconditioner.solve(R))
    P, size, least = Z, (R * Z).sum(axis=0), _SMALL * np.square(R).sum()
    while True:
        # With a large penalty single precision is enough for products of several outputs.
        dtype = np.float32 if penalty >= SINGLE_MANY else np.float64
        product = symmetric(geometry, A, (root * P).astype(dtype), team)
        along = centred(root * product) + penalty * P
        curvature = (P * along).sum(axis=0)
        # When only rounding remains, the curvature may be negative.
        if np.square(R).sum() <= least or (curvature <= 0.0).any():
            break
        step = size / curvature
        beta += step * P
        fit += step * product
        before, R = R, R - step * along
        yield np.square(R).sum(axis=0)
        Z = centred(preconditioner.solve(R))
        # This formula tolerates that the preconditioner is precise to seven digits only.
        P = Z + np.maximum((Z * (R - before)).sum(axis=0) / size, 0.0) * P
        size = (R * Z).sum(axis=0)
    while True:
        yield np.square(R).sum(axis=0)


def preconditioner_rows(n, penalty):
    """How many landmarks the preconditioner has.

    Small penalties need many steps, and more landmarks reduce them. With 9 in place of 12 pol and
    letter take a fifth less time here, but letter's and kin40k's losses are higher (by hand).
    """
    return int(min(4000, (12 if penalty < SINGLE_MANY else 6) * np.sqrt(n), n))


def rescaled(geometry, A, Y, weights, n, team):
    """The geometry with a new penalty and a common factor of its rates, by leave-one-out risk.

    The risk is that of kernel ridge regression on the first of n rows.
    """
    m, middle = min(n, _ASKED), _FACTORS.index(1.0)
    held = slice(m // 2, m)
    best: tuple[float, int, Any] = np.inf, 0, geometry
    for rate in (1.0, 2.0):
        B = geometry._replace(rates=np.full(A.shape[1], rate)).show(A[:m])

        def evaluate(i, _=None, rate=rate, B=B):
            penalty = geometry.penalty * _FACTORS[i]
            one = geometry._replace(rates=geometry.rates * rate, penalty=penalty)
            _, predictions, _, _ = exact(one, B, Y[:m], weights[:m], m - m // 2, team=team)
            return float(weights[held] @ np.square(predictions - Y[held]).sum(axis=1)), i, one

        least = valley(evaluate, middle, len(_FACTORS))
        risk, middle, _ = least
        if risk >= best[0]:
            continue
        best = least
        for i in range(middle + 1, len(_FACTORS)):  # larger factors while the risk is hardly higher
            near = evaluate(i)
            if near[0] > (1.0 + _SLACK) * risk:
                break
            best = risk, i, near[2]
    return best[2]


def valley(evaluate, start, n):
    """What is found by steps down while the risk falls, or if it does not, by steps up.

    `evaluate(i, best)`, of a number below n and the best result so far (or None), gives a result
    (risk, i, ...).

    Examples
    --------
    >>> valley(lambda i, best: ((i - 5) ** 2, i), 3, 9)
    (0, 5)
    """
    best = evaluate(start, None)
    for step in (-1, 1):
        while 0 <= best[1] + step < n:
            near = evaluate(best[1] + step, best)
            if not near[0] < best[0]:
                break
            best = near
        if best[1] != start:
            break
    return best


def full(problem, n_landmarks):
    """Coefficients of all rows, the intercepts, and held-out predictions.

    Parameters
    ----------
    problem : KernelProblem
        Rows in single precision, in the units of the kernel; the penalty is that of its geometry.
        Classes need fewer steps.
    n_landmarks : int
        So many of the first rows are the landmarks of the preconditioner.

    Returns
    -------
    coef : ndarray of shape (n, n_outputs)
    intercept : ndarray of shape (n_outputs,)
    held_out : ndarray of shape (n_held, n_outputs)
    """
    geometry, A, Y, weights = problem.geometry, problem.A, problem.Y, problem.weights
    held, team = problem.n_held, problem.team
    n, k = len(A) - held, Y.shape[1]
    penalty = max(geometry.penalty, _ROUNDED * np.sqrt(len(A)))
    root = np.sqrt(weights)[:, None]
    total = weights[:n].sum()
    R = root[:n] * (Y[:n] - weights[:n] @ Y[:n] / total)
    preconditioner = reliable_preconditioner(
        R, A[:n_landmarks], geometry, A[:n], weights[:n], penalty, team
    )
    coef, fit = preconditioner.first(R)
    beta = np.zeros((n, k))
    beta[: len(coef)] = coef / root[: len(coef)]
    if penalty < SINGLE_MANY:
        # Large coefficients amplify the rounding of kernel values: the residual must have that of
        # the products in the steps, which never see another one.
        fit = symmetric(geometry, A[:n], root[:n] * beta, team)
    zero = np.zeros(k)
    w = weights[n:]
    risk = np.inf
    n_steps = 0
    residual = zero
    enough = -1.0
    share = _DONE * _LABELS if problem.options.labels else _DONE
    values, level, reached = np.zeros((held, k)), zero, zero
    time = clock()
    start = time.spent()
    for n_steps, current in enumerate(_steps(preconditioner, Y[:n], weights[:n], beta, fit), 1):
        may_go_on = current.sum() > enough and n_steps < _MOST
        if may_go_on and n_steps % _EACH:
            continue
        level = weights[:n] @ (Y[:n] - fit) / total
        values = times(geometry, A[n:], A[:n], root[:n] * beta, team)
        new_risk = w @ np.square(values + level - Y[n:]).sum(axis=1) / w.sum()
        stalls = new_risk > risk * (1.0 - _FALL)
        # The residual that all rows must reach: if the last steps were in vain, that before them.
        reached = residual if stalls else current
        enough = share * new_risk * total
        # All rows take as many steps again.
        is_late = time.spent() - start > time.left()
        if stalls or n_steps >= _MOST or current.sum() <= enough or is_late:
            break
        risk, residual = new_risk, current
    predictions = values + level
    beta, fit = np.concatenate([beta, np.zeros((held, k))]), np.concatenate([fit, values])
    steps = _steps(preconditioner.plus(A, weights), Y, weights, beta, fit)
    for i, current in enumerate(steps, 1):
        are_reached = (current <= reached).all() or current.sum() <= enough
        if i >= n_steps or are_reached:
            break
    return root * beta, weights @ (Y - fit) / weights.sum(), predictions
