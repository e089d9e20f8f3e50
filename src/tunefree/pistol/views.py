"""Views of columns in which a linear learner is given its rows.

A view gives a learner ``z = [(clip(x) - shift) scale rotation, bias]``. Linear predictors are
invariant to such changes, but learning is not, so several views compete. At the end a weight vector
in view coordinates is converted to coefficients and an intercept for the raw columns.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from tunefree.core.jit import REASSOCIATE, kernel
from tunefree.rows.designs import CSR, Dense
from tunefree.rows.matrices import as_dense, resized
from tunefree.rows.moments import _scaled_rows


@kernel(fastmath=REASSOCIATE)
def _rotate(out, rotation):
    """out[i, :d] = out[i, :d] rotation, row by row: the bits do not depend on the block."""
    d = rotation.shape[0]
    row = np.empty(d)
    # No slices are assigned: for the message of their error Numba compiles all of its strings.
    for i in range(out.shape[0]):
        for k in range(d):
            row[k] = 0.0
        for j in range(d):
            v = out[i, j]
            for k in range(d):
                row[k] += v * rotation[j, k]
        for k in range(d):
            out[i, k] = row[k]


class View(NamedTuple):
    """A linear change of columns; None skips a step.

    Parameters
    ----------
    bias : float
        The constant appended as a last column; 0 for none.
    shift : ndarray of shape (d,) or None
        Subtracted (dense data only).
    scale : ndarray of shape (d,) or None
        Multiplies the columns.
    rotation : ndarray of shape (d, d) or None
        Multiplies the scaled rows from the right.
    low, high : ndarray of shape (d,) or None
        Columns are clipped to them first (dense data only).

    Examples
    --------
    >>> v = View(1.0, shift=np.array([1.0]), scale=np.array([2.0]))
    >>> v.show(np.array([[4.0]]), np.array([0])).values
    array([[6., 1.]])
    >>> v.fold(np.array([[3.0], [5.0]]))
    (array([[6.]]), array([-1.]))
    """

    bias: float = 0.0
    shift: np.ndarray | None = None
    scale: Any = None  # an array, or None
    rotation: np.ndarray | None = None
    low: np.ndarray | None = None
    high: np.ndarray | None = None

    @property
    def dense(self):
        """Whether the view needs dense rows."""
        return self.shift is not None or self.rotation is not None or self.low is not None

    def show(self, X, rows):
        """Chosen rows of X (ndarray or CSR) as a design in view coordinates."""
        if sparse.issparse(X) and not self.dense:
            scale = np.empty(0) if self.scale is None else self.scale
            data, columns, starts = _scaled_rows(
                X.data, X.indices, X.indptr, rows, scale, self.bias, X.shape[1]
            )
            return CSR(data, columns, starts, X.shape[1] + (self.bias != 0.0))
        out = np.empty((len(rows), X.shape[1] + (self.bias != 0.0)))
        z = out[:, : X.shape[1]]
        z[:] = as_dense(X[rows])
        if self.low is not None:
            np.clip(z, self.low, self.high, out=z)
        if self.shift is not None:
            z -= self.shift
        if self.scale is not None:
            z *= self.scale
        if self.rotation is not None:
            _rotate(out, self.rotation)
        out[:, X.shape[1] :] = self.bias
        return Dense(out)

    def columns(self, d):
        """The view for d columns of sparse data; new columns have a scale of 0."""
        return self if self.scale is None else self._replace(scale=resized(self.scale, d))

    def fold(self, weights):
        """Coefficients (d, n_outputs) and intercepts (n_outputs,) on the raw columns."""
        coef, intercept = weights, np.zeros(weights.shape[1])
        if self.bias != 0.0:
            coef, intercept = weights[:-1], self.bias * weights[-1]
        if self.rotation is not None:
            coef = self.rotation @ coef
        if self.scale is not None:
            coef = self.scale[:, None] * coef
        if self.shift is not None:
            intercept = intercept - self.shift @ coef
        return coef, intercept


def inverse(x, floor):
    """1 / x where x exceeds the floor, else 0, so that constant columns are ignored."""
    return np.divide(1.0, x, out=np.zeros_like(x), where=x > floor)


def raw(m):
    """Columns as they are; the constant is as large as the entries, so that scale cancels."""
    return View(m.magnitude if m.magnitude > 0.0 else 1.0)


def scaled(m):
    """Columns divided by their root mean square (sparse data stay sparse)."""
    return View(1.0, scale=inverse(np.sqrt(m.square), 0.0))


def standardised(m):
    """Columns centred and divided by their standard deviation."""
    return View(1.0, shift=m.mean, scale=inverse(np.sqrt(m.square), 1e-10 * m.largest))


def whitened(m, ridge=1.0):
    """Standardised columns times V (lambda + ridge mean(lambda))^(-1/2) V' (symmetric whitening).

    lambda and V are the eigenvalues and eigenvectors of the correlation matrix. The symmetric form
    changes little when the statistics change little, so a stream may update it.
    """
    base = standardised(m)
    values, vectors = np.linalg.eigh(m.product * base.scale * base.scale[:, None])
    values = np.maximum(values, 0.0)
    level = values.mean()
    if level <= 0.0:
        return base
    rotation = (vectors / np.sqrt(values + ridge * level)) @ vectors.T
    # Rounding would leave tiny values for constant columns, and scale-free learners would use them.
    constant = base.scale == 0.0
    rotation[constant], rotation[:, constant] = 0.0, 0.0
    return base._replace(rotation=rotation)


def strongly_whitened(m):
    """`whitened` with a hundredth of the ridge, for strongly correlated columns."""
    return whitened(m, ridge=0.01)


VIEWS = {
    "raw": raw,
    "scaled": scaled,
    "standardised": standardised,
    "whitened": whitened,
    "strongly_whitened": strongly_whitened,
}


class ViewSet(NamedTuple):
    """Views by name (keys of `VIEWS`), made from moments.

    Without an intercept they have neither a shift nor a constant.

    Examples
    --------
    >>> from tunefree.rows.moments import moments
    >>> m = moments(np.array([[1.0], [3.0]]), np.array([0, 1]), np.ones(2))
    >>> ViewSet(("standardised",)).make(m)["standardised"].shift
    array([2.])
    """

    names: tuple
    intercept: bool = True

    @property
    def products(self):
        """Whether the covariance is needed."""
        return any("whitened" in name for name in self.names)

    def make(self, m, caps=None):
        """The views as a dict; columns are clipped to caps = (low, high) first, if given."""
        out = {name: VIEWS[name](m) for name in self.names}
        if caps is not None and np.isfinite(caps[0]).any():
            out = {k: v._replace(low=caps[0], high=caps[1]) for k, v in out.items()}
        if not self.intercept:
            out = {k: v._replace(bias=0.0, shift=None) for k, v in out.items()}
        return out
