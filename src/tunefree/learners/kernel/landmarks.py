r"""Projection of functions onto a few landmarks: pivoted Cholesky that looks at the functions.

In the feature space of a kernel the orthogonal projection of f onto the span of k(l, .), l in L, is
the function of that span which agrees with f on L. Built up one landmark at a time, with P(x) the
squared distance of k(x, .) from the span so far and r = f - projection, a landmark x lowers the
squared error \|f - projection\|^2 by exactly

    r(x)^2 / P(x),

summed over functions and kernels. Each step takes the row of the largest such gain. (Pivoted
Cholesky by the largest P describes the kernel instead of the functions: on a9a and on handwritten
digits it needs several times as many landmarks for the same loss.) In the basis that the steps
orthogonalise, earlier coefficients do not change when landmarks are added, so that one run serves
every number of landmarks.

Source: Müller and Schaback, "A Newton basis for kernel spaces", Journal of Approximation Theory
161 (2009), for the basis; Müller's thesis (Göttingen, 2009) for the rule, "f/P-greedy", here for
several functions and kernels at once.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

# Added to the diagonal, relative to it, by type of the rows: rows that the span nearly holds would
# amplify rounding.
RIDGE = {"d": 1e-10, "f": 1e-6}


class Landmarks(NamedTuple):
    """Landmarks in the order of their choice, and the projections onto the first of them.

    Attributes
    ----------
    indices : ndarray of shape (r,)
        Positions among the candidates.
    lower : tuple of ndarray of shape (r, r)
        For each kernel the Cholesky factor of its matrix on the landmarks.
    weights : tuple of ndarray of shape (r, n_outputs)
        For each kernel the functions' coefficients in the orthonormal basis.
    """

    indices: np.ndarray
    lower: tuple
    weights: tuple

    def coefs(self, count):
        """Coefficients of the projections onto the first `count` landmarks, one array a kernel."""
        return tuple(
            solve_triangular(L[:count, :count].T, w[:count], lower=False)
            for L, w in zip(self.lower, self.weights, strict=True)
        )

    def project(self, values):
        """Coefficients of other functions' projections, from their values on all the landmarks.

        Parameters
        ----------
        values : sequence of ndarray of shape (r, any)
            One for each kernel.
        """
        inner = self.basis(values)
        return tuple(
            solve_triangular(L.T, v, lower=False) for L, v in zip(self.lower, inner, strict=True)
        )

    def basis(self, grams):
        """Values of the orthonormal functions on other rows.

        Parameters
        ----------
        grams : sequence of ndarray of shape (r, n)
            Kernel values of the landmarks with the rows, one for each kernel.

        Returns
        -------
        tuple of ndarray of shape (r, n)
        """
        return tuple(
            solve_triangular(L, K, lower=True) for L, K in zip(self.lower, grams, strict=True)
        )


def choose(grams, values, count, ridge=RIDGE["d"]):
    """Choose landmarks for functions among candidate rows.

    Parameters
    ----------
    grams : sequence of ndarray of shape (q, q)
        Kernel values of the candidates, one matrix for each kernel. Computed in float64: rounding
        to float32 leaves matrices that are not positive semidefinite.
    values : sequence of ndarray of shape (q, n_outputs)
        Values on the candidates of the functions in each kernel's space.
    count : int
        Most landmarks; there are fewer if the functions are written exactly by less.
    ridge : float, default=1e-10
        Added to the diagonal, relative to its largest entry.

    Returns
    -------
    Landmarks

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
    indices, free = np.zeros(count, np.intp), np.ones(q, bool)
    enough = None
    for step in range(count):
        gain = np.where(free, sum(space.gain() for space in spaces), 0.0)
        x = int(gain.argmax())
        # Rounding of the values is below a millionth of them in either type.
        enough = 1e-14 * gain[x] if enough is None else enough
        if gain[x] <= enough:
            count = step
            break
        indices[step], free[x] = x, False
        for space in spaces:
            space.take(x, step)
    indices = indices[:count]
    return Landmarks(
        indices,
        tuple(np.tril(space.basis[:count, indices].T) for space in spaces),
        tuple(space.weights[:count] for space in spaces),
    )


class _Space:
    """One kernel's span so far, and what of the functions lies outside of it."""

    def __init__(self, gram, values, count, ridge):
        self.gram = gram
        self.scale = max(float(gram.diagonal().max(initial=0.0)), 1e-300)
        self.ridge = ridge * self.scale
        self.power = gram.diagonal().astype(np.float64) + self.ridge
        self.residual = np.array(values, np.float64)
        self.basis = np.zeros((count, len(gram)))
        self.weights = np.zeros((count, self.residual.shape[1]))

    def gain(self):
        """By how much each row would lower the squared error; 0 for rows that the span holds."""
        gains = np.einsum("ij,ij->i", self.residual, self.residual) / self.power
        return np.where(self.power > 2.0 * self.ridge, gains, 0.0)

    def take(self, x, step):
        """Add a landmark to the span."""
        V = self.basis
        if self.power[x] <= 2.0 * self.ridge:
            # Another kernel wants it; here it only would amplify rounding.
            V[step, x] = np.sqrt(self.scale)
            return
        root = np.sqrt(self.power[x])
        V[step] = (self.gram[x] - V[:step, x] @ V[:step]) / root
        V[step, x] = root
        self.weights[step] = self.residual[x] / root
        self.residual -= np.outer(V[step], self.weights[step])
        self.power = np.maximum(self.power - V[step] ** 2, self.ridge)
