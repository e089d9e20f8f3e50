r"""Linear learners: one scale for all directions, or one for each coordinate.

`Isotropic` keeps a vector g, a few scalars and two vectors of state. The iterate of round t is
f_t = c_t g_(t-1). Since g only moves along the rows, the average of all iterates needs no O(d) work
a round: with C_t = sum_(s<=t) m_s c_s (m_s the mass of round s),

    sum_t m_t c_t g_(t-1) = C_T g_T - u_T,      u_T = sum_t C_t z_t x_t.

Its `recursion` uses squared norms, inner products and multiples of rows only, so it serves feature
spaces, too (`learners.kernel.blocked`).

`Diagonal` keeps for every column j and output the largest value X_j, the accumulator of the
variance bound D_j, the gradient sum g_j, the weight w_j = factor(D_j, X_j) g_j exp(g_j^2 / 2 D_j),
the lazily summed average and the round up to which it is summed, all in one record: an entry costs
one cache line. It has a recursion of its own: a row changes one scale for each of its entries, and
these loops must vectorise.

Source: Orabona 2014, Algorithm 3 and appendix A; the two-vector average, and the scale-free and
lazily averaged form of `Diagonal`, are ours.
"""

from typing import Any, NamedTuple

import numpy as np

from tunefree.core.jit import fast_exp, kernel, part
from tunefree.core.protocols import Loss
from tunefree.parts.averaging import Uniform, mass
from tunefree.parts.losses import Logistic, Multinomial, SmoothedHinge, bound, slopes
from tunefree.pistol import rules
from tunefree.pistol.rules import GROWTH, HEAVIEST, MASS, N_SCALARS, SQUARED_NORM, SUM, DoWG, PiSTOL
from tunefree.rows.designs import axpy2, count, dot, entry, index, outputs, square, width
from tunefree.rows.matrices import resized

# The two vectors of an isotropic learner, and the fields of a diagonal one's record.
G, U = 0, 1
LARGEST, VARIANCE, GRADIENT, WEIGHT, TOTAL, ROUND = 0, 1, 2, 3, 4, 5
# Entries at a time in the loop with division, root and exponential.
_LANES = 8
# Smaller entries are ignored: their squares, and D, would underflow.
_LEAST_ENTRY = 1e-150


class IsotropicState(NamedTuple):
    """State of a run."""

    vectors: np.ndarray  # g and u; of shape (d, 2, n_outputs)
    scalars: np.ndarray  # of shape (n_outputs, N_SCALARS)
    shared: np.ndarray  # the largest norm X, the rounds t, the Lipschitz bound L; of shape (3,)


def recursion(learner, space, design, targets, weights, state, scores):
    """Learn rows in order: one function for all spaces, which have `square`, `dot` and `axpy2`.

    `scores`, of shape (2, n, n_outputs), receives the predictions of the running average and the
    iterate, made before the row is learned, unless it has no rows.
    """
    # Unpacked here: in the loop over rows it would cost two atomic operations each time.
    rule, (vectors, scalars, shared) = learner.rule, state
    n_rows, n_outputs = targets.shape
    scored = scores.shape[1] > 0
    h, a = np.empty(n_outputs), np.empty(n_outputs)
    predicted, y, gradient = np.empty(n_outputs), np.empty(n_outputs), np.empty(n_outputs)
    step, lag = np.empty(n_outputs), np.empty(n_outputs)
    limit = bound(learner.loss)
    if limit > shared[2]:
        for k in range(n_outputs):
            if shared[0] > 0.0:
                rules.loosen(rule, scalars, k, shared[0], shared[2], limit)
        shared[2] = limit
    for i in range(n_rows):
        squared = square(space, design, i)
        norm = np.sqrt(squared)
        t = shared[1]
        shared[1] = t + 1.0
        if norm > shared[0]:
            for k in range(n_outputs):
                rules.enter(rule, scalars, k, shared[0], norm, shared[2])
            shared[0] = norm
        share = mass(learner.average, t, t + 1.0)
        if shared[0] == 0.0:
            for k in range(n_outputs):
                scalars[k, MASS] += share * rules.importance(rule, scalars, k)
                if scored:
                    scores[0, i, k] = 0.0
                    scores[1, i, k] = 0.0
            continue
        dot(space, design, i, vectors, G, h)
        if scored:
            dot(space, design, i, vectors, U, a)
        for k in range(n_outputs):
            c = rules.coefficient(rule, scalars, k, shared[0])
            importance = share * rules.importance(rule, scalars, k)
            scalars[k, SUM] += importance * c
            scalars[k, MASS] += importance
            predicted[k], y[k] = c * h[k], targets[i, k]
            if scored:
                scores[1, i, k] = predicted[k]
                if scalars[k, MASS] > 0.0:
                    scores[0, i, k] = (scalars[k, SUM] * h[k] - a[k]) / scalars[k, MASS]
                else:  # a scheme may not count the first iterates
                    scores[0, i, k] = predicted[k]
        slopes(learner.loss, predicted, y, gradient)
        moved = False
        for k in range(n_outputs):
            z = gradient[k]
            if abs(z) <= learner.negligible * shared[2] or norm == 0.0 or weights[i] == 0.0:
                z = 0.0
            else:
                z = rules.increment(rule, scalars, k, weights[i] * z, norm, shared[0])
                if weights[i] > HEAVIEST:
                    scalars[k, GROWTH] = np.inf
                grown = scalars[k, SQUARED_NORM] + z * (2.0 * h[k] + z * squared)
                scalars[k, SQUARED_NORM] = max(0.0, grown)
                rules.settle(rule, scalars, k)
                moved = True
            step[k] = z
            lag[k] = scalars[k, SUM] * z
        if moved:
            axpy2(space, design, i, vectors, step, lag)


_scan = kernel(recursion)


def coefficients(learner, scalars, shared):
    """The c of f = c g for every output; 0 before the first row that is not zero."""
    if shared[0] == 0.0:
        return np.zeros(len(scalars))
    return np.array([learner.rule.coefficient(scalars, k, shared[0]) for k in range(len(scalars))])


@part
class Isotropic(NamedTuple):
    """Learn linear predictors with one scale for all columns.

    Examples
    --------
    >>> from tunefree.rows.designs import Dense
    >>> learner = Isotropic()
    >>> state = learner.init(n_columns=1, n_outputs=1)
    >>> rows, labels = Dense(np.array([[1.0], [-1.0]])), np.array([[1.0], [-1.0]])
    >>> state = learner.scan(state, rows, labels, np.ones(2))
    >>> bool(learner.last(state)[0, 0] > 0)
    True
    """

    rule: Any = rules.PiSTOL()  # how gradients become a predictor
    loss: Loss = SmoothedHinge()  # a loss of `tunefree.parts.losses`
    average: Any = Uniform()  # a scheme of `tunefree.parts.averaging`
    # Slopes up to this fraction of their bound count as zero and cost no update.
    negligible: float = 0.0

    def init(self, n_columns, n_outputs):
        """The state before the first row."""
        return IsotropicState(
            np.zeros((n_columns, 2, n_outputs)), np.zeros((n_outputs, N_SCALARS)), np.zeros(3)
        )

    def expect(self, state, largest):
        """Nothing: the norms of rows are found as they come."""
        return state

    def scale(self, state):
        """The effective scale: mean of iterate over gradient sum, in units of the rows' norm."""
        c = coefficients(self, state.scalars, state.shared)
        return float(np.mean(c) * state.shared[0] ** 2)

    def outputs(self, state, index, sign):
        """Rearrange outputs: the new output i is sign[i] times the old output index[i]."""
        return state._replace(
            vectors=state.vectors[:, :, index] * sign, scalars=state.scalars[index].copy()
        )

    def columns(self, state, d, bias):
        """Give the state d columns before its last one, if that is the constant's, or in all."""
        return state._replace(vectors=resized(state.vectors, d, bias))

    def scan(self, state, design, targets, weights, scores=None):
        """Learn a block of rows in order.

        `scores`, of shape (2, n_rows, n_outputs), receives the predictions of the running average
        and the iterate, made before each row is learned.
        """
        n_outputs = len(state.scalars)
        scores = np.empty((2, 0, n_outputs)) if scores is None else scores
        _scan(self, outputs(n_outputs), design, targets, weights, state, scores)
        return state

    def restart(self, state):
        """Forget the average, not the iterate: the next average is that of a tail."""
        state.vectors[:, U] = state.vectors[:, G] * state.scalars[:, SUM]
        state.scalars[:, MASS] = 0.0
        return state

    def last(self, state):
        """The current iterate, of shape (n_columns, n_outputs)."""
        return coefficients(self, state.scalars, state.shared) * state.vectors[:, G]

    def mean(self, state):
        """The average iterate, of shape (n_columns, n_outputs)."""
        total = state.scalars[:, MASS]
        if not (total > 0.0).all():  # a scheme may not count the first iterates
            return self.last(state)
        return (state.scalars[:, SUM] * state.vectors[:, G] - state.vectors[:, U]) / total

    def regret(self, state, n_outputs):
        """The numbers for the regret bound of the first outputs; None where nothing is proved."""
        if self.negligible > 0.0:
            return None
        return self.rule.regret(state.scalars[:n_outputs], state.shared, self.loss.bound())


class DiagonalState(NamedTuple):
    """State of a run."""

    # The six fields above, of shape (d, n_fields, n_outputs); one output pads them to 64 bytes.
    records: np.ndarray
    shared: np.ndarray  # the rounds t and the Lipschitz bound L; of shape (2,)


@kernel
def _predictions(outs, average, design, i, records, stop, last, total):
    """Of the iterate, and of the summed iterates: in one loop, as each sum waits for its terms."""
    for k in range(width(outs)):
        h, a = 0.0, 0.0
        for p in range(count(design, i)):
            j, v = index(design, i, p), entry(design, i, p)
            w = records[j, WEIGHT, k]
            h += v * w
            a += v * (records[j, TOTAL, k] + w * mass(average, records[j, ROUND, k], stop))
        last[k], total[k] = h, a


@kernel
def _scan_diagonal(learner, outs, design, targets, weights, state, longest, scores):
    """Learn the rows of a design in order.

    `scores`, of shape (2, n, n_outputs), receives the predictions of the running average and the
    iterate, made before the row is learned, unless it has no rows.
    """
    rule, average, records, shared = learner.rule, learner.average, state.records, state.shared
    n_outputs = width(outs)
    scored = scores.shape[1] > 0
    h, a = np.empty(n_outputs), np.empty(n_outputs)
    y, slope = np.empty(n_outputs), np.empty(n_outputs)
    # Buffers of the middle loop below, filled up to a whole number of vectors.
    size = longest + _LANES
    g, d, x, w = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    limit = bound(learner.loss)
    if limit > shared[1]:
        for j in range(records.shape[0]):
            for k in range(n_outputs):
                largest = records[j, LARGEST, k]
                records[j, VARIANCE, k] += rules.grow(rule, 0.0, 0.0, largest, limit) - rules.grow(
                    rule, 0.0, 0.0, largest, shared[1]
                )
        shared[1] = limit
    lipschitz = shared[1]
    for i in range(targets.shape[0]):
        n = count(design, i)
        t = shared[0]
        total = mass(average, 0.0, t + 1.0)
        for p in range(n):
            j, v = index(design, i, p), entry(design, i, p)
            size = abs(v)
            if size > max(records[j, LARGEST, 0], _LEAST_ENTRY):
                for k in range(n_outputs):
                    old = records[j, LARGEST, k]
                    records[j, TOTAL, k] += records[j, WEIGHT, k] * mass(
                        average, records[j, ROUND, k], t
                    )
                    records[j, ROUND, k] = t
                    acc = rules.grow(rule, records[j, VARIANCE, k], old, size, lipschitz)
                    records[j, VARIANCE, k] = acc
                    records[j, LARGEST, k] = size
                    gradient = records[j, GRADIENT, k]
                    bounded = rules.variance(rule, acc, size)
                    records[j, WEIGHT, k] = (
                        rules.factor(rule, bounded, size)
                        * gradient
                        * fast_exp(min(0.5 * gradient * gradient / bounded, rule.cap))
                    )
        if scored:
            _predictions(outs, average, design, i, records, t + 1.0, h, a)
        else:
            dot(outs, design, i, records, WEIGHT, h)
        shared[0] = t + 1.0
        for k in range(n_outputs):
            y[k] = targets[i, k]
        slopes(learner.loss, h, y, slope)
        for k in range(n_outputs):
            if scored:
                scores[0, i, k] = a[k] / total if total > 0.0 else h[k]
                scores[1, i, k] = h[k]
            z = slope[k]
            if abs(z) <= learner.negligible * lipschitz:
                continue
            z *= -weights[i]
            # Three loops, so that the division, root and exponential in the middle one vectorise.
            for p in range(n):
                j, v = index(design, i, p), entry(design, i, p)
                acc = rules.add(rule, records[j, VARIANCE, k], z, abs(v))
                gradient = records[j, GRADIENT, k] + z * v
                records[j, TOTAL, k] += records[j, WEIGHT, k] * mass(
                    average, records[j, ROUND, k], t + 1.0
                )
                records[j, ROUND, k] = t + 1.0
                records[j, VARIANCE, k] = acc
                records[j, GRADIENT, k] = gradient
                g[p] = gradient
                x[p] = records[j, LARGEST, k]
                d[p] = acc
            whole = -(-n // _LANES) * _LANES
            for p in range(n, whole):
                g[p], d[p], x[p] = 0.0, 1.0, 1.0
            for p in range(whole):
                bounded = rules.variance(rule, d[p], x[p])
                w[p] = (
                    rules.factor(rule, bounded, x[p])
                    * g[p]
                    * fast_exp(min(0.5 * g[p] * g[p] / bounded, rule.cap))
                )
            for p in range(n):
                j = index(design, i, p)
                records[j, WEIGHT, k] = w[p] if x[p] > 0.0 else 0.0


@part
class _Likelihood(NamedTuple):
    """Both logistic losses as one type, so that the loop above is compiled once for both."""

    coupled: bool

    def slopes(self, predictions, targets, out):
        """Slopes of a softmax, or of each output against the rest."""
        if self.coupled:
            slopes(Multinomial(), predictions, targets, out)
        else:
            slopes(Logistic(), predictions, targets, out)

    def bound(self):
        """Largest absolute slope."""
        return 1.0


@part
class Diagonal(NamedTuple):
    """Learn linear predictors with a scale of its own for each column.

    Examples
    --------
    >>> from tunefree.rows.designs import Dense
    >>> learner = Diagonal()
    >>> state = learner.init(n_columns=2, n_outputs=1)
    >>> rows, labels = Dense(np.array([[1.0, 0.0], [-1.0, 1e9]])), np.array([[1.0], [-1.0]])
    >>> state = learner.scan(state, rows, labels, np.ones(2))
    >>> learner.last(state).shape
    (2, 1)
    """

    rule: Any = rules.PiSTOL(a=1.0, b=0.1, squares=True)  # how gradients become a predictor
    loss: Loss = SmoothedHinge()  # a loss of `tunefree.parts.losses`
    average: Any = Uniform()  # a scheme of `tunefree.parts.averaging`
    # Slopes up to this fraction of their bound count as zero and cost no update.
    negligible: float = 0.0

    def init(self, n_columns, n_outputs):
        """The state before the first row."""
        n_fields = 8 if n_outputs == 1 else 6
        return DiagonalState(np.zeros((n_columns, n_fields, n_outputs)), np.zeros(2))

    def expect(self, state, largest):
        """Set the largest value of each column before the first row."""
        state.shared[1] = self.loss.bound()
        state.records[:, LARGEST] = largest[:, None]
        state.records[:, VARIANCE] = self.rule.grow(0.0, 0.0, largest, state.shared[1])[:, None]
        return state

    def scale(self, state):
        """The effective scale: median of weight over gradient sum, in units of the columns."""
        r = state.records
        moved = r[:, GRADIENT] != 0.0
        if not moved.any():
            return 0.0
        ratio = r[:, WEIGHT][moved] / r[:, GRADIENT][moved] * r[:, LARGEST][moved] ** 2
        return float(np.median(ratio))

    def outputs(self, state, index, sign):
        """Rearrange outputs: the new output i is sign[i] times the old output index[i]."""
        records = state.records[:, :6, index].copy()
        for field in (GRADIENT, WEIGHT, TOTAL):
            records[:, field] *= sign
        return state._replace(records=records)

    def columns(self, state, d, bias):
        """Give the state d columns before its last one, if that is the constant's, or in all."""
        return state._replace(records=resized(state.records, d, bias))

    def scan(self, state, design, targets, weights, scores=None):
        """Learn a block of rows in order.

        `scores`, of shape (2, n_rows, n_outputs), receives the predictions of the running average
        and the iterate, made before each row is learned.
        """
        n_outputs = state.records.shape[2]
        scores = np.empty((2, 0, n_outputs)) if scores is None else scores
        learner, longest = self, design.longest()
        if isinstance(self.loss, Logistic | Multinomial):
            learner = self._replace(loss=_Likelihood(isinstance(self.loss, Multinomial)))
        _scan_diagonal(
            learner, outputs(n_outputs), design, targets, weights, state, longest, scores
        )
        return state

    def restart(self, state):
        """Forget the average, not the iterate: the next average is that of a tail.

        The masses start again from the first round.
        """
        state.records[:, TOTAL] = 0.0
        state.records[:, ROUND] = 0.0
        state.shared[0] = 0.0
        return state

    def last(self, state):
        """The current iterate, of shape (n_columns, n_outputs)."""
        return state.records[:, WEIGHT].copy()

    def mean(self, state):
        """The average iterate, of shape (n_columns, n_outputs)."""
        r, t = state.records, state.shared[0]
        total = self.average.mass(0.0, t)
        if not total > 0.0:  # a scheme may not count the first iterates
            return self.last(state)
        return (r[:, TOTAL] + r[:, WEIGHT] * self.average.mass(r[:, ROUND], t)) / total

    def regret(self, state, n_outputs):
        """Nothing is proved."""
        return None


def _paper_scale(loss, n_rows):
    """The b of the paper's experiments, sqrt(2 a L T)."""
    if n_rows is None:
        raise ValueError(
            "The paper's settings scale b by the number of rows, which is unknown for a stream: "
            "give horizon=, the number of rows, or another setting ('guaranteed', 'global')."
        )
    return np.sqrt(2 * 0.25 * loss.bound() * n_rows)


def per_coordinate(loss, n_rows=0):
    """A scale for each coordinate, by squared gradients; the constants are this library's."""
    return Diagonal(PiSTOL(a=1.0, b=0.1, squares=True), loss)


def per_coordinate_constant(loss, n_rows=0):
    """The same by sizes of gradients, without the root."""
    return Diagonal(PiSTOL(a=1.0, b=0.1, root=False), loss)


def dowg(loss, n_rows=0):
    """Distance over weighted gradients."""
    return Isotropic(DoWG(), loss)


# Functions of a loss and the number of rows.
SETTINGS = {
    "paper": lambda loss, n: Isotropic(PiSTOL(b=_paper_scale(loss, n), root=False), loss),
    "paper-per-coordinate": lambda loss, n: Diagonal(
        PiSTOL(b=_paper_scale(loss, n), root=False), loss
    ),
    "theorem-1": lambda loss, n: Isotropic(PiSTOL(a=2.25 * loss.bound(), root=False), loss),
    "guaranteed": lambda loss, n: Isotropic(PiSTOL(a=3.0 * loss.bound()), loss),
    "global": lambda loss, n: Isotropic(PiSTOL(), loss),
    "per-coordinate": per_coordinate,
    "per-coordinate-constant": per_coordinate_constant,
    "dowg": dowg,
}
