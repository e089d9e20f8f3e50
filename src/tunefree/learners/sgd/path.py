r"""SGD for least squares with a constant step, whose averages are all read from stored scalars.

An iterate only ever moves along a row, w_t = w_(t-1) + alpha_t z_t with
alpha_t = -eta (<z_t, w_(t-1)> - y_t). So with c_t the share of the iterates that come after step t
(`averaging.survival`), any average is

    sum_t c_t alpha_t z_t = Z' a,      a_i = the sum of c_t alpha_t over the visits t of row i,

and K averages are one product of Z' with a table of K columns: a whole regularization path from one
run, decided after the run.

Sparse rows are centred without being formed: the constant part goes into two scalars an output.

Source: Neu and Rosasco 2018, section 4.1; the scalars are ours.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import qr, solve_triangular

from tunefree._jit import Kernel, kernel, part
from tunefree.averaging import Geometric, survival
from tunefree.designs import CSR, Dense, count, entry, index

_STRIPE = 4096


class SGDState(NamedTuple):
    """State of a run.

    Attributes
    ----------
    weights : ndarray of shape (n_outputs, d)
        The iterate up to the centre's part.
    shift : ndarray of shape (2, n_outputs)
        The multiple of the centre that is to be subtracted, and <weights, centre>.
    rows : list of ndarray
        Which row each step learned, a block an entry.
    scalars : list of ndarray of shape (m, n_outputs)
        alpha of each step.
    epoch : int
    """

    weights: np.ndarray
    shift: np.ndarray
    rows: list
    scalars: list
    epoch: int

    def only(self, first, stop):
        """The state of some of the outputs."""
        part = slice(first, stop)
        scalars = [block[:, part] for block in self.scalars]
        return self._replace(weights=self.weights[part], shift=self.shift[:, part], scalars=scalars)


@Kernel
def _scan(
    design, rows, targets, importance, step, square, offsets, fold, absent, weights, shift, scalars
):
    """Learn rows of a design in order and store the scalars of the steps.

    Two outputs at a time: they share the row, and neither waits for the other's sum.
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
            # <z - centre, weights - s centre> with s and <weights, centre> at hand
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


@part
class SGD(NamedTuple):
    """Least-squares SGD with a constant step; blocks come from `engine.sources.Rows`.

    Parameters
    ----------
    step : float
        eta; 1 / (2 max ||z||^2) is safe.
    n_passes : int, default=1

    Examples
    --------
    >>> from tunefree.engine.run import run
    >>> from tunefree.engine.order import given_visits
    >>> from tunefree.engine.sources import Rows
    >>> source = Rows(np.ones((2, 1)), np.array([[1.0], [1.0]]), given_visits(np.ones(2)))
    >>> state = run(SGD(step=0.5), SGD(0.5).init(1, 1), source).state
    >>> SGD(0.5).read(state)
    array([[0.75]])
    """

    step: float
    n_passes: int = 1

    def init(self, n_columns, n_outputs):
        """The state before the first row: w_0 = 0."""
        return SGDState(np.zeros((n_outputs, n_columns)), np.zeros((2, n_outputs)), [], [], 0)

    def scan(self, state, block, square=0.0, offsets=None, fold=None, absent=None):
        """Learn a block of rows in order; the arguments after the block are `Setting`'s."""
        n = block.X.shape[0]
        offsets = np.zeros(n) if offsets is None else offsets
        fold = np.zeros(n, np.int64) if fold is None else fold
        absent = np.full(block.targets.shape[1], -1) if absent is None else absent
        design = CSR.from_scipy(block.X) if sparse.issparse(block.X) else Dense(block.X)
        scalars = np.empty(block.targets.shape)
        _scan(design, block.rows, block.targets, block.weights, self.step, square, offsets,
              fold, absent, state.weights, state.shift, scalars)  # fmt: skip
        state.rows.append(block.rows)
        state.scalars.append(scalars)
        return state

    def turn(self, state):
        """End a pass."""
        return state._replace(epoch=state.epoch + 1), state.epoch + 1 >= self.n_passes

    def read(self, state, centre=0.0):
        """The current iterate, of shape (n_columns, n_outputs)."""
        return (state.weights - state.shift[0][:, None] * centre).T


class Setting(NamedTuple):
    """`SGD` on rows of which a centre is subtracted on the way, with outputs that leave rows out.

    Parameters
    ----------
    learner : SGD
    square : float
        Squared norm of the centre.
    offsets : ndarray of shape (n,)
        Product of every row and the centre.
    fold : ndarray of shape (n,) or None
        The fold of every row.
    absent : ndarray of shape (n_outputs,) or None
        The fold that each output does not learn; None or -1 learns all.
    """

    learner: SGD
    square: float
    offsets: np.ndarray
    fold: np.ndarray | None = None
    absent: np.ndarray | None = None

    @classmethod
    def of(cls, learner, Z, centre, fold=None, absent=None):
        """The learner for the rows of Z; an empty centre subtracts nothing."""
        if len(centre) == 0:
            return cls(learner, 0.0, np.zeros(Z.shape[0]), fold, absent)
        return cls(learner, float(centre @ centre), Z @ centre, fold, absent)

    def scan(self, state, block):
        """Learn a block of rows in order."""
        return self.learner.scan(state, block, *self[1:])

    def turn(self, state):
        """End a pass."""
        return self.learner.turn(state)


@kernel
def _gather_geometric(rows, scalars, rates, out):
    """out[i, k, o] += c_t(rate_k) alpha_t for the row i of every step t."""
    n, n_rates = rows.shape[0], rates.shape[0]
    log = -np.log1p(rates)
    # A(t) = 1 - q^t: differences of it lose nothing, even for q within 1e-9 of 1, and
    # A(s + t) = A(s) + A(t) - A(s) A(t) spares the exponentials.
    gone, one, end, share = np.zeros(n_rates), -np.expm1(log), np.empty(n_rates), np.empty(n_rates)
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
    """The table a of the module's formula, one column a scheme.

    Parameters
    ----------
    state : SGDState
    schemes : sequence of parts
    n_rows : int

    Returns
    -------
    ndarray of shape (n_rows, n_schemes, n_outputs)
    """
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
    """A few of the schemes of which all are combinations, for runs of n iterates.

    Exponentials of many rates are nearly dependent: 50 are combinations of some 15, to rounding.

    Parameters
    ----------
    schemes : sequence of parts
    n : int
    tolerance : float, default=1e-12

    Returns
    -------
    kept : list of parts
    mix : ndarray of shape (n_kept, n_schemes)

    Examples
    --------
    >>> schemes = [Geometric(rate) for rate in np.logspace(-6, -1, 50)]
    >>> kept, mix = compress(schemes, 1000)
    >>> len(kept) < 20, mix.shape[1]
    (True, 50)
    """
    at = [k for k, scheme in enumerate(schemes) if isinstance(scheme, Geometric)]
    rest = [k for k in range(len(schemes)) if k not in set(at)]
    kept, mix = [schemes[k] for k in rest], np.zeros((len(rest), len(schemes)))
    mix[np.arange(len(rest)), rest] = 1.0
    if not at:
        return kept, mix
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
    return kept + [schemes[at[k]] for k in order[:rank]], np.concatenate([mix, table])


def averages(state, schemes, Z, centre):
    """All averages of a run as one product.

    Parameters
    ----------
    state : SGDState
    schemes : sequence of parts of `tunefree.averaging`
    Z : ndarray or CSR of shape (n, d)
    centre : ndarray of shape (d,) or (0,)

    Returns
    -------
    ndarray of shape (d, n_schemes, n_outputs)
    """
    a = row_coefficients(state, schemes, Z.shape[0])
    flat = a.reshape(Z.shape[0], -1)
    out = Z.T @ flat
    if len(centre):
        total = flat.sum(axis=0)
        for start in range(0, len(out), _STRIPE):
            stripe = slice(start, start + _STRIPE)
            out[stripe] -= np.multiply.outer(centre[stripe], total)
    return out.reshape(-1, *a.shape[1:])
