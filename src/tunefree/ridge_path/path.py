r"""Least squares by SGD with a constant step, whose averages are all read from stored scalars.

An iterate only ever moves along a row, w_t = w_(t-1) + alpha_t z_t with
alpha_t = -eta (<z_t, w_(t-1)> - y_t). So with c_t the share of the iterates that come after step t
(`averaging.survival`), any average is

    sum_t c_t alpha_t z_t = Z' a,      a_i = the sum of c_t alpha_t over the visits t of row i,

and K averages are one product of Z' with a table of K columns: one run gives the whole
regularization path. Sparse rows are centred without being made dense: the constant part goes into
two scalars an output.

The path that the geometric averages estimate is also found exactly (`Spectrum`), from one
eigendecomposition, with leave-one-out errors.

Source: Neu and Rosasco 2018, section 4.1; the scalars are ours.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import qr, solve_triangular

from tunefree.core.jit import kernel
from tunefree.parts.averaging import Geometric, survival
from tunefree.rows.designs import count, design_of, entry, index

# Columns centred at a time, and rows whose errors are computed: temporary arrays stay small.
_STRIPE, _BLOCK = 4096, 4096
_RANK = 1e-14  # smaller eigenvalues, relative to the largest, are rounding


class SGDState(NamedTuple):
    """State of a run."""

    weights: np.ndarray  # (n_outputs, d): the iterate up to the centre's part
    # (2, n_outputs): the multiple of the centre to subtract, and <weights, centre>
    shift: np.ndarray
    rows: list  # which row each step learned, an array a block
    scalars: list  # alpha of each step, an array (m, n_outputs) a block
    epoch: int

    def only(self, first, stop):
        """The state of some of the outputs."""
        part = slice(first, stop)
        scalars = [block[:, part] for block in self.scalars]
        return self._replace(weights=self.weights[part], shift=self.shift[:, part], scalars=scalars)


@kernel
def _scan(
    design, rows, targets, importance, step, square, offsets, fold, absent, weights, shift, scalars
):
    """Learn rows of a design in order and store the scalars of the steps.

    Two outputs at a time: they share the row, and their sums are independent.
    """
    n_outputs = weights.shape[0]
    for t in range(rows.shape[0]):
        i = rows[t]
        n, offset = count(design, i), offsets[i]
        for k in range(0, n_outputs, 2):
            pair = k + 1 < n_outputs
            w, u = weights[k], weights[k + pair]
            first, second = 0.0, 0.0
            if pair:
                for p in range(n):
                    j, v = index(design, i, p), entry(design, i, p)
                    first += v * w[j]
                    second += v * u[j]
            else:
                for p in range(n):
                    first += entry(design, i, p) * w[index(design, i, p)]
            # <z - centre, weights - s centre>, where s and <weights, centre> are known
            first -= shift[1, k] + shift[0, k] * (offset - square)
            a = 0.0 if fold[i] == absent[k] else step * importance[t] * (targets[t, k] - first)
            scalars[t, k] = a
            shift[0, k] += a
            shift[1, k] += a * offset
            if pair:
                m = k + 1
                second -= shift[1, m] + shift[0, m] * (offset - square)
                b = 0.0 if fold[i] == absent[m] else step * importance[t] * (targets[t, m] - second)
                scalars[t, m] = b
                shift[0, m] += b
                shift[1, m] += b * offset
                for p in range(n):
                    j, v = index(design, i, p), entry(design, i, p)
                    w[j] += a * v
                    u[j] += b * v
            else:
                for p in range(n):
                    w[index(design, i, p)] += a * entry(design, i, p)


class SGD(NamedTuple):
    """Least-squares SGD with a constant step; blocks come from `engine.sources.Rows`.

    The step 1 / (2 max ||z||^2) is safe. `on` makes the learner for rows from which a centre is
    subtracted, with outputs that hold a fold out: `square` is the centre's squared norm, `offsets`
    its product with every row, `fold` the fold of every row, and `absent` the fold that each output
    does not learn (-1: none).
    """

    step: float
    n_passes: int = 1
    square: float = 0.0
    offsets: np.ndarray | None = None
    fold: np.ndarray | None = None
    absent: np.ndarray | None = None

    def on(self, Z, centre, fold=None, absent=None):
        """The learner for the rows of Z; an empty centre subtracts nothing."""
        if len(centre) == 0:
            return self._replace(fold=fold, absent=absent)
        return SGD(*self[:2], float(centre @ centre), Z @ centre, fold, absent)

    def init(self, n_columns, n_outputs):
        """The state before the first row: w_0 = 0."""
        return SGDState(np.zeros((n_outputs, n_columns)), np.zeros((2, n_outputs)), [], [], 0)

    def scan(self, state, block):
        """Learn a block of rows in order."""
        n, n_outputs = block.X.shape[0], block.targets.shape[1]
        offsets = np.zeros(n) if self.offsets is None else self.offsets
        fold = np.zeros(n, np.int64) if self.fold is None else self.fold
        absent = np.full(n_outputs, -1) if self.absent is None else self.absent
        design = design_of(block.X)
        scalars = np.empty(block.targets.shape)
        _scan(design, block.rows, block.targets, block.weights, self.step, self.square, offsets,
              fold, absent, state.weights, state.shift, scalars)  # fmt: skip
        state.rows.append(block.rows)
        state.scalars.append(scalars)
        return state

    def turn(self, state):
        """End a pass."""
        return state._replace(epoch=state.epoch + 1), state.epoch + 1 >= self.n_passes


@kernel
def _gather_geometric(rows, scalars, rates, out):
    """out[i, k, o] += c_t(rate_k) alpha_t for the row i of every step t."""
    n, n_rates = rows.shape[0], rates.shape[0]
    log = -np.log1p(rates)
    # A(t) = 1 - q^t: differences of it lose nothing, even for q within 1e-9 of 1, and
    # A(s + t) = A(s) + A(t) - A(s) A(t) spares the exponentials.
    gone = np.zeros(n_rates)
    one = -np.expm1(log)
    end = np.empty(n_rates)
    share = np.empty(n_rates)
    for k in range(n_rates):
        end[k] = -np.expm1((n + 1.0) * log[k]) if rates[k] > 0.0 else n + 1.0
    for t in range(n):
        if t % 256 == 0:
            for k in range(n_rates):
                gone[k] = -np.expm1(t * log[k]) if rates[k] > 0.0 else float(t)
        for k in range(n_rates):
            gone[k] = gone[k] + one[k] * (1.0 - gone[k]) if rates[k] > 0.0 else gone[k] + 1.0
            share[k] = (end[k] - gone[k]) / end[k]
        row = out[rows[t]]
        for k in range(n_rates):
            for o in range(scalars.shape[1]):
                row[k, o] += share[k] * scalars[t, o]


def row_coefficients(state, schemes, n_rows):
    """The table a of the module's formula, of shape (n_rows, n_schemes, n_outputs)."""
    rows, scalars = np.concatenate(state.rows), np.concatenate(state.scalars)
    out = np.zeros((n_rows, len(schemes), scalars.shape[1]))
    at = [k for k, scheme in enumerate(schemes) if isinstance(scheme, Geometric)]
    if at:
        table = out if len(at) == len(schemes) else np.zeros((n_rows, len(at), scalars.shape[1]))
        _gather_geometric(rows, scalars, np.array([schemes[k].rate for k in at]), table)
        if table is not out:
            out[:, at] = table
    for k in set(range(len(schemes))) - set(at):
        shares = survival(schemes[k], len(rows) + 1)[:, None] * scalars
        for o in range(scalars.shape[1]):
            out[:, k, o] = np.bincount(rows, shares[:, o], minlength=n_rows)
    return out


def compress(schemes, n, tolerance=1e-12):
    """A basis of the schemes for runs of n iterates: (schemes, coefficients of all in these).

    Exponentials of many rates are nearly dependent: up to rounding 50 are combinations of some 15.
    """
    at = [k for k, scheme in enumerate(schemes) if isinstance(scheme, Geometric)]
    rest = [k for k in range(len(schemes)) if k not in set(at)]
    basis = [schemes[k] for k in rest]
    mix = np.zeros((len(rest), len(schemes)))
    mix[np.arange(len(rest)), rest] = 1.0
    if not at:
        return basis, mix
    log = -np.log1p([schemes[k].rate for k in at])
    s = np.unique(np.round(np.concatenate([np.linspace(1, n - 1, 256), np.geomspace(1, n, 256)])))
    s = s[:, None]
    with np.errstate(invalid="ignore"):
        shares = np.exp(s * log) * np.expm1((n - s) * log) / np.expm1(n * log)
    shares = np.where(log == 0.0, (n - s) / n, shares)
    _, r, order = qr(shares, mode="economic", pivoting=True)
    size = np.abs(np.diag(r))
    rank = max(1, int((size > tolerance * size[0]).sum()))
    table = np.zeros((rank, len(schemes)))
    table[:, np.array(at)[order]] = solve_triangular(r[:rank, :rank], r[:rank])
    return basis + [schemes[at[k]] for k in order[:rank]], np.concatenate([mix, table])


def averages(state, schemes, Z, centre):
    """All averages of a run as one product, of shape (d, n_schemes, n_outputs)."""
    a = row_coefficients(state, schemes, Z.shape[0])
    flat = a.reshape(Z.shape[0], -1)
    out = Z.T @ flat
    if len(centre):
        total = flat.sum(axis=0)
        for start in range(0, len(out), _STRIPE):
            stripe = slice(start, start + _STRIPE)
            out[stripe] -= np.multiply.outer(centre[stripe], total)
    return out.reshape(-1, *a.shape[1:])


class Spectrum(NamedTuple):
    """The eigenvectors V of B'B, its eigenvalues S, and V'B'y: enough for the whole path.

    B are the rows of z times the roots of their weights. The solution for the penalty alpha is
    V (S + alpha)^-1 V' B' y, and the leverage of row i, its share in its own fit, is
    h_i = sum_j (B V)_ij^2 / (S_j + alpha).
    """

    right: np.ndarray
    values: np.ndarray
    moments: np.ndarray

    @classmethod
    def of(cls, gram, products):
        """The spectrum of B'B, from it and B'y."""
        values, right = np.linalg.eigh(gram)
        keep = values > _RANK * max(values[-1], 0.0)
        right = right[:, keep]
        return cls(right, values[keep], right.T @ products)

    def path(self, alphas):
        """Solutions for all penalties, of shape (d, n_alphas, n_outputs)."""
        return np.tensordot(self.right, self._table(alphas)[1], axes=1)

    def _table(self, alphas):
        inverse = 1.0 / (self.values[:, None] + np.asarray(alphas))
        return inverse, self.moments[:, None] * inverse[:, :, None]

    def held_out(self, left, targets, mass, alphas):
        """Weighted squared leave-one-out errors of every penalty.

        `left` are rows of B V, `targets` are times the roots of the weights, and `mass` is the
        share of each row in the fitted mean: its share of all weight, or 0.
        """
        risk = np.zeros(len(alphas))
        for error, rest in self._errors(left, targets, mass, alphas):
            # Where a row's leverage is 1 its error is undefined: the penalty is ruled out.
            square = np.square(error).sum(axis=2)
            each = np.full(rest.shape, np.inf)
            risk += np.divide(square, rest**2, out=each, where=rest > 1e-10).sum(axis=0)
        return risk

    def errors(self, left, targets, mass, alpha):
        """Leave-one-out errors of one penalty, of shape (n, n_outputs); see `held_out`."""
        parts = self._errors(left, targets, mass, np.array([alpha]))
        return np.concatenate([e[:, 0] / np.maximum(rest, 1e-10) for e, rest in parts])

    def _errors(self, left, targets, mass, alphas):
        """Yield the residuals of rows, and 1 minus their share in their own fit."""
        inverse, table = self._table(alphas)
        for start in range(0, len(left), _BLOCK):
            part = slice(start, start + _BLOCK)
            rest = 1.0 - np.square(left[part]) @ inverse - mass[part, None]
            yield targets[part][:, None] - np.tensordot(left[part], table, axes=1), rest


def decompose(Z, targets, weights):
    """The `Spectrum` of centred rows and targets, B V, and the targets times the root weights."""
    root = np.sqrt(weights)[:, None]
    B, y = root * Z, root * targets
    if B.shape[1] <= B.shape[0]:
        spectrum = Spectrum.of(B.T @ B, B.T @ y)
        return spectrum, B @ spectrum.right, y
    values, left = np.linalg.eigh(B @ B.T)  # fewer rows than columns
    keep = values > _RANK * max(values[-1], 0.0)
    values, left = values[keep], left[:, keep] * np.sqrt(values[keep])
    right = B.T @ (left / values)
    return Spectrum(right, values, left.T @ y), left, y
