r"""Projection of functions onto a few of their support rows.

In the feature space of a kernel the orthogonal projection of f onto the span of k(l, .), l in L, is
the function of that span which agrees with f on L. Built up one landmark at a time, with P(x) the
squared distance of k(x, .) from the span so far and r = f - projection, a landmark x lowers the
squared error \|f - projection\|^2 by exactly

    r(x)^2 / P(x),

summed over functions and kernels. `choose` takes the row of the largest such gain. (Pivoted
Cholesky by the largest P approximates the kernel instead of the functions: on a9a and on
handwritten digits it needs several times as many landmarks for the same loss.) In the orthogonal
basis of these steps, earlier coefficients do not change when landmarks are added, so that one run
serves every number of landmarks.

`compress` projects a predictor after training, onto as few landmarks as keep its loss.

Source: Müller and Schaback, "A Newton basis for kernel spaces", Journal of Approximation Theory
161 (2009), for the basis; Müller's thesis (Göttingen, 2009) for the rule, "f/P-greedy", here for
several functions and kernels at once.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from tunefree.kernels.expansion import Expansion

# Added to the diagonal, relative to it, by type of the rows: otherwise rows near the span would
# amplify rounding.
RIDGE = {"d": 1e-10, "f": 1e-6}
# Candidates for landmarks: so many support rows, evenly spaced in the order of learning, which is
# random. Their kernel matrix takes 134 MB in float64.
CANDIDATES = 4096
# Training rows on which the loss of a compression is measured.
CHECKED = 4096
# The ratio of two numbers of landmarks that are tried one after the other.
_FINER = 1.1


class Projection(NamedTuple):
    """Landmarks in the order of selection, and the projections onto the first of them."""

    indices: np.ndarray  # positions among the candidates, of shape (r,)
    lower: tuple  # for each kernel the Cholesky factor of its matrix on the landmarks
    weights: tuple  # for each kernel the functions' coefficients in the orthonormal basis

    def coefs(self, count):
        """Coefficients of the projections onto the first `count` landmarks, one array a kernel."""
        return tuple(
            solve_triangular(L[:count, :count].T, w[:count], lower=False)
            for L, w in zip(self.lower, self.weights, strict=True)
        )

    def project(self, values):
        """Coefficients of other functions' projections, from their values on all landmarks."""
        inner = self.basis(values)
        return tuple(
            solve_triangular(L.T, v, lower=False) for L, v in zip(self.lower, inner, strict=True)
        )

    def basis(self, grams):
        """Values of the orthonormal functions on rows, from the kernels' values there, (r, n)."""
        return tuple(
            solve_triangular(L, K, lower=True) for L, K in zip(self.lower, grams, strict=True)
        )


def choose(grams, values, count, ridge=RIDGE["d"]):
    """The `Projection` of functions onto landmarks, which are selected among candidate rows.

    For each kernel `grams` has the candidates' values with each other, computed in float64 (rounded
    to float32 they might not be positive semidefinite), and `values` those of its functions. If
    fewer than `count` landmarks represent these exactly, no more are selected. `ridge` is added to
    the diagonal, relative to its largest entry.

    Examples
    --------
    >>> K = np.exp(-((np.arange(4.0)[:, None] - np.arange(4.0)) ** 2))
    >>> f = K @ np.array([[0.0], [2.0], [0.0], [0.0]])
    >>> choose([K], [f], 3).indices
    array([1])
    """
    q = len(grams[0])
    count = min(count, q)
    spaces = [_Space(K, f, count, ridge) for K, f in zip(grams, values, strict=True)]
    indices = np.zeros(count, np.intp)
    available = np.ones(q, bool)
    smallest = None
    for step in range(count):
        gain = np.where(available, sum(space.gain() for space in spaces), 0.0)
        x = int(gain.argmax())
        # Rounding of the values is below a millionth of them in either type.
        smallest = 1e-14 * gain[x] if smallest is None else smallest
        if gain[x] <= smallest:
            count = step
            break
        indices[step], available[x] = x, False
        for space in spaces:
            space.take(x, step)
    indices = indices[:count]
    return Projection(
        indices,
        tuple(np.tril(space.basis[:count, indices].T) for space in spaces),
        tuple(space.weights[:count] for space in spaces),
    )


class _Space:
    """One kernel's span so far, and the residuals of its functions."""

    def __init__(self, gram, values, count, ridge):
        self.gram = gram
        self.scale = max(float(gram.diagonal().max(initial=0.0)), 1e-300)
        self.ridge = ridge * self.scale
        self.power = gram.diagonal().astype(np.float64) + self.ridge
        self.residual = np.array(values, np.float64)
        self.basis = np.zeros((count, len(gram)))
        self.weights = np.zeros((count, self.residual.shape[1]))

    def gain(self):
        """By how much each row would lower the squared error; 0 for rows in the span."""
        gains = np.einsum("ij,ij->i", self.residual, self.residual) / self.power
        return np.where(self.power > 2.0 * self.ridge, gains, 0.0)

    def take(self, x, step):
        """Add a landmark to the span."""
        V = self.basis
        if self.power[x] <= 2.0 * self.ridge:
            # It was selected for another kernel; here it would only amplify rounding.
            V[step, x] = np.sqrt(self.scale)
            return
        root = np.sqrt(self.power[x])
        V[step] = (self.gram[x] - V[:step, x] @ V[:step]) / root
        V[step, x] = root
        self.weights[step] = self.residual[x] / root
        self.residual -= np.outer(V[step], self.weights[step])
        self.power = np.maximum(self.power - V[step] ** 2, self.ridge)


class Compression(NamedTuple):
    """The result of a compression."""

    n_support: int  # support rows before
    n_landmarks: int  # and after; as many as before if no number tried met the tolerance
    loss_before: float  # mean loss of the predictor on the rows that it was checked on
    loss_after: float
    change: float  # root mean square of the predictor's change on these rows, relative to its size


def compress(f, rows, loss, *, tolerance=None, count=None, n_jobs=None):
    """Project an expansion onto landmarks: a given number, or as few as keep the loss.

    `loss` is a function of the values on `rows`. With a tolerance several numbers are tried. The
    smallest one is taken from which on the loss stays within ``tolerance * loss(0)`` of the loss
    before. If there is none, the expansion is returned unchanged. Also returns the landmarks'
    positions in the support, the most important first, and a report.
    """
    m = f.support.shape[0]
    q = min(m, CANDIDATES if count is None else max(CANDIDATES, 2 * count))
    at = np.arange(q) * m // max(q, 1)
    before = f(rows, n_jobs)
    loss_before = loss(before)
    projection = _landmarks(f, at, count or q, n_jobs)
    chosen = at[projection.indices]
    if count is None:
        count = _smallest(f, chosen, projection, rows, loss, loss_before, tolerance)
        if count is None:
            return f, np.arange(m), Compression(m, m, loss_before, loss_before, 0.0)
    count = min(count, len(chosen))
    kept = chosen[:count]
    small = f._replace(
        support=f.support[kept], coefs=tuple(c.astype(f.dtype) for c in projection.coefs(count))
    )
    after = small(rows, n_jobs)
    size = max(float(np.sqrt(np.mean(before**2))), 1e-300)
    change = float(np.sqrt(np.mean((after - before) ** 2))) / size
    return small, kept, Compression(m, count, loss_before, loss(after), change)


def _landmarks(f, at, count, n_jobs):
    """Landmarks among the support rows `at`, for each kernel's part of the expansion."""
    rows = f.support[at].astype(np.float64)
    grams = [k.gram(rows, rows) for k in f.kernels]
    values = [
        Expansion((k,), f.support, (c,))(f.support[at], n_jobs)
        for k, c in zip(f.kernels, f.coefs, strict=True)
    ]
    return choose(grams, values, count, RIDGE[f.dtype.char])


def _smallest(f, chosen, projection, rows, loss, loss_before, tolerance):
    """The smallest number of landmarks from which on the loss is within the tolerance, or None."""
    rows = rows.astype(np.float64)
    support = f.support[chosen].astype(np.float64)
    grams = [k.gram(rows, support).T for k in f.kernels]
    bases = projection.basis(grams)
    allowed = tolerance * loss(np.zeros((rows.shape[0], f.n_outputs)))
    values = np.zeros((rows.shape[0], f.n_outputs))
    done = 0
    best = None
    for count in _sizes(len(chosen)):
        for V, w in zip(bases, projection.weights, strict=True):
            values += V[done:count].T @ w[done:count]
        done = count
        if abs(loss(values) - loss_before) > allowed:
            best = None
        elif best is None:
            best = count
    return best


def _sizes(most):
    """Numbers from 1 to `most`, ever further apart."""
    count = 1
    while count < most:
        yield count
        count = max(count + 1, int(count * _FINER))
    if most:
        yield most
