r"""The blocked engine: several kernel learners learn in one sweep over the rows.

Members may differ in bandwidth, rule, loss, and in the rows that they learn (a row of weight 0 is
skipped). They share the rows, the distances, and the values of their bandwidth. Only the values
k(row, support row) are expensive. They are computed in tiles that fit a processor's cache, by one
matrix product each. A tile serves a whole grid of bandwidths (twice the bandwidth is the square)
and all outputs; then its memory is reused. Tiles are computed in threads, and sums have a fixed
order, so that results do not depend on the number of threads. Rows come in blocks of `BLOCK`:
earlier rows enter by matrix products, rows of the same block exactly:

    h_i = h0_i + sum_(j<i) dz_j k(x_j, x_i),      |g|^2 += dz_i (2 h_i + dz_i k(x_i, x_i)).

On a stream h0 is computed when it is needed, by a product with all support rows. In memory the rows
to come are known, and their h0 are stored: the updates of a block are added to them. So the cost of
a pass is proportional to its updates, and a late pass costs next to nothing.

A vector of the feature space is a sum over rows: g = sum_s z_s k(x_s, .), and the average of the
iterates needs a second coefficient u_s = sum C dz_s per row (see `learners.pistol.linear`):

    g(x) = sum_s z_s k(x_s, x),    average(x) = sum_s (C z_s - u_s) k(x_s, x) / mass.

Source: Orabona 2014, Algorithm 3; the blocked form is ours.
"""

from abc import ABC, abstractmethod
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from tunefree.core.jit import REASSOCIATE, part
from tunefree.core.jit import kernel as compiled
from tunefree.kernels.bandwidths import (
    BLOCK,
    TILE,
    Facts,
    _doublings,
    bandwidths,
    base,
    products,
    root_of,
)
from tunefree.pistol.linear import IsotropicState, coefficients, recursion
from tunefree.pistol.rules import MASS, N_SCALARS, SUM

_STRETCH = 16  # rows of a cache that a thread copies at a time
_FEW = 16  # up to so many outputs a product with all columns costs less than selecting columns


class Support:
    """Rows with coefficients, by slot, of the type of `like`; the memory grows by doubling."""

    def __init__(self, like):
        self._n = 0
        self._rows = like[:0]
        self._sizes = np.empty(0, like.dtype)
        self._waiting = []

    def __len__(self):
        return self._n

    def append(self, rows, sizes):
        """Append rows and their sizes, as the kernel defines them."""
        before, self._n = self._n, self._n + rows.shape[0]
        if sizes is not None:
            self._sizes = _extended(self._sizes, self._n)
            self._sizes[before : self._n] = sizes
        if sparse.issparse(self._rows):
            self._waiting.append(rows)
        else:
            self._rows = _extended(self._rows, self._n)
            self._rows[before : self._n] = rows

    @property
    def rows(self):
        """All rows."""
        if self._waiting:
            self._rows = sparse.vstack([self._rows, *self._waiting], format="csr")
            self._waiting = []
        return self._rows[: self._n]

    def facts(self):
        """All rows with their sizes."""
        return Facts(self.rows, self._sizes[: self._n] if len(self._sizes) else None)

    def branch(self):
        """An independent copy; rows are copied only when it grows."""
        other = Support(self._rows)
        other._n = self._n
        other._rows = self.rows
        other._sizes = self._sizes[: self._n]
        return other


def _extended(array, n):
    """The array, or if it has fewer than n rows a copy with at least as many; new ones are 0."""
    if n <= len(array):
        return array
    bigger = np.zeros((max(2 * len(array), n, TILE), *array.shape[1:]), array.dtype)
    bigger[: len(array)] = array
    return bigger


class Member(NamedTuple):
    """A learner and its bandwidth, which is None for a kernel without bandwidths."""

    gamma: float | None
    learner: Any
    name: str = ""


class Cache(NamedTuple):
    """`base` of all pairs of rows, in the order in which the first pass visits them."""

    values: np.ndarray
    root: float | None = None


class KernelBlock(NamedTuple):
    """A block of rows to learn."""

    rows: Facts | None  # None for rows in memory, which the engine has
    numbers: Any  # numbers of rows in memory; None on a stream
    squares: np.ndarray  # k(x, x)
    targets: np.ndarray  # of shape (n, n_outputs)
    weights: np.ndarray  # of shape (n,), or (n_members, n)
    start: int = 0  # position of the first row in its pass
    ahead: int = 0  # the lowest number of a row that comes after this block


@compiled
def _gather(table, rows, out):
    """Copy the first columns of some rows to `out`: NumPy's take would copy the whole table."""
    for i in range(out.shape[0]):
        r = rows[i]
        for j in range(out.shape[1]):
            out[i, j] = table[r, j]


class Memory(NamedTuple):
    """Rows in memory, by number."""

    n: int
    watched: np.ndarray  # ascending numbers of the rows where averages are evaluated
    rows: Any  # the `Facts` of all rows; None where the cache is enough
    cache: Cache | None = None

    @property
    def dtype(self):
        """The precision of values."""
        return self.rows.rows.dtype if self.cache is None else self.cache.values.dtype

    def pairs(self, team, kernel, root, left):
        """A function `tile_of(start, stop)`: `base` of some rows and these; and its bandwidth."""
        if self.cache is None:
            rows = self.rows[left]

            def tile_of(start, stop):
                memory = team.memory((len(left), stop - start), rows.rows.dtype)
                return base(kernel, root, rows, self.rows[start:stop], memory)

            return tile_of, root
        # Whole rows are copied, since the parts of a tile would be scattered in memory.
        table = self.cache.values
        whole = team.memory((len(left), self.n), table.dtype, "rows")
        parts = [slice(i, i + _STRETCH) for i in range(0, len(left), _STRETCH)]
        team.map(lambda part: _gather(table, left[part], whole[part]), parts)
        return (lambda start, stop: whole[:, start:stop]), self.cache.root

    def among(self, kernel, root, left, right):
        """`base` of some rows and others, and its bandwidth; computed anew, which is cheaper."""
        rows: Any = self.rows
        if self.cache is None or not (rows is None or sparse.issparse(rows.rows)):
            return base(kernel, root, rows[left], rows[right]), root
        return self.cache.values[left[:, None], right], self.cache.root

    def narrowed(self, gamma):
        """With a cache of this bandwidth, so that values are squared only once."""
        if self.cache is None or self.cache.root is None:
            return self
        values, times = self.cache.values, _doublings(self.cache.root, gamma)
        for _ in range(times or 0):
            np.square(values, out=values)
        return self._replace(cache=Cache(values, gamma))


class KernelSums(NamedTuple):
    """Sums of one member: z and u times the kernel, over the rows learned so far."""

    z: np.ndarray  # at all rows in memory, of shape (n_outputs, n)
    u: np.ndarray  # at the rows that are watched


class Gram(NamedTuple):
    """A block of rows in place of a design."""

    values: np.ndarray  # of the kernel, of shape (n, n)
    squares: np.ndarray  # their diagonal, in double precision; of shape (n,)
    # g(x) and, if scored, u(x) of the rows before the block, of shape (n, 2 n_outputs).
    before: np.ndarray


@part
class FeatureSpace(NamedTuple):
    """The counterpart of `One` and `Many`: rows of a `Gram` in place of columns.

    The table has the shape (2, n_outputs, n): the coefficients that the block adds to z and u.
    """

    def square(self, gram, i):
        """The squared norm of row i."""
        return gram.squares[i]

    def dot(self, gram, i, table, field, out):
        """The inner products of row i with g or u of every output."""
        for k in range(out.shape[0]):
            total = 0.0
            for j in range(i):
                total += gram.values[i, j] * table[field, k, j]
            out[k] = gram.before[i, field * out.shape[0] + k] + total

    def axpy2(self, gram, i, table, first, second):
        """Add multiples of row i to g and u."""
        for k in range(first.shape[0]):
            table[0, k, i] = first[k]
            table[1, k, i] = second[k]


_learn = compiled(recursion, fastmath=REASSOCIATE)


@compiled
def _deposit(z, u, slots, new):
    for k in range(new.shape[1]):
        for i in range(len(slots)):
            if slots[i] >= 0:
                z[slots[i], k] += new[0, k, i]
                u[slots[i], k] += new[1, k, i]


class KernelState(NamedTuple):
    """State of a run, without the rows."""

    z: np.ndarray  # coefficients of the rows, by slot; of shape (capacity, n_outputs)
    u: np.ndarray  # of the same shape
    scalars: np.ndarray  # of shape (n_outputs, N_SCALARS)
    shared: np.ndarray  # the largest norm X, the rounds t, the Lipschitz bound L; of shape (3,)

    @classmethod
    def empty(cls, n_outputs):
        """Before the first row."""
        z, u = np.zeros((2, 0, n_outputs))
        return cls(z, u, np.zeros((n_outputs, N_SCALARS)), np.zeros(3))

    def learn(self, learner, block, gram, before, scored):
        """Learn a block in order. It updates the scalars; `deposit` adds the coefficients.

        `block` has the rows' k(x, x), targets and weights, `gram` the values among them. `before`
        has the sums of z and, if `scored`, of u times the kernel over the rows before. Returns the
        coefficients to add to the rows' z and u, of shape (2, n_outputs, n), and, if `scored`, the
        predictions of the running average and of the iterate before each row, (2, n, n_outputs).
        """
        squares, targets, weights = block
        n, k = targets.shape
        new = np.zeros((2, k, n))
        scores = np.empty((2, n if scored else 0, k))
        run = IsotropicState(new, self.scalars, self.shared)
        _learn(learner, FeatureSpace(), Gram(gram, squares, before), targets, weights, run, scores)
        return new, scores

    def deposit(self, slots, new):
        """Add new coefficients to the slots of their rows; negative slots are skipped."""
        _deposit(self.z, self.u, slots, new)

    def mean(self, n):
        """Coefficients of the average iterate of the first n rows, shape (n, n_outputs)."""
        total = self.scalars[:, MASS]
        raw = self.scalars[:, SUM] * self.z[:n] - self.u[:n]
        return raw / np.where(total > 0.0, total, 1.0)

    def last(self, learner, n):
        """Coefficients of the current iterate of the first n rows, shape (n, n_outputs)."""
        return coefficients(learner, self.scalars, self.shared) * self.z[:n]

    def restart(self):
        """Reset the average, but not the iterate: the next average is that of a tail."""
        self.u[:] = 0.0
        self.scalars[:, SUM] = 0.0
        self.scalars[:, MASS] = 0.0


class Blocked(ABC):
    """Members that learn side by side: `MemoryEngine` or `StreamEngine`.

    `dtype` is float32 or float64, the precision of values. A slot has a row's coefficients. The
    bandwidth whose values are computed, `root`, stays the same when members are dropped, so that
    the results of the others do not change.
    """

    def __init__(self, kernel, members, n_outputs, dtype):
        self.kernel, self.members, self.n_outputs = kernel, list(members), n_outputs
        self.dtype, self.root, self.n_slots = dtype, root_of(self.gammas), 0
        self.states = [KernelState.empty(n_outputs) for _ in self.members]

    @abstractmethod
    def _values(self, team, block, scored) -> tuple[tuple, list]:
        """Arguments of `bandwidths` within a block, and each bandwidth's sums before it."""

    @abstractmethod
    def _slots_of(self, block, updated) -> np.ndarray:
        """The slots of a block's rows, -1 for rows without one; the rows `updated` need one."""

    @abstractmethod
    def _note(self, team, block, new, updated, slots) -> None:
        """Take note of the coefficients that a block has added."""

    @property
    def gammas(self):
        """The different bandwidths, ascending."""
        found = {m.gamma for m in self.members}
        return [None] if found == {None} else sorted(found)

    def layout(self):
        """The members of each bandwidth."""
        return [[i for i, m in enumerate(self.members) if m.gamma == g] for g in self.gammas]

    def learn(self, team, block, scored=False):
        """Learn a block of rows in order; returns each member's predictions before each row."""
        layout, width = self.layout(), self.n_outputs * (1 + scored)
        weights = block.weights if block.weights.ndim == 2 else [block.weights] * len(self.members)
        within, before = self._values(team, block, scored)
        jobs = []
        for level, K in enumerate(bandwidths(*within)):
            K = K.copy() if level + 1 < len(layout) else K
            for position, i in enumerate(layout[level]):
                part = slice(position * width, (position + 1) * width)
                jobs.append((i, K, before[level][:, part]))

        def solve(job):
            i, K, H = job
            rows = block.squares, block.targets, weights[i]
            return i, self.states[i].learn(self.members[i].learner, rows, K, H, scored)

        results = dict(team.map(solve, jobs))
        new, scores = zip(*(results[i] for i in range(len(self.members))), strict=True)
        updated = np.flatnonzero(np.any([added[0].any(axis=0) for added in new], axis=0))
        slots = self._slots_of(block, updated)
        for state, added in zip(self.states, new, strict=True):
            state.deposit(slots, added)
        self._note(team, block, new, updated, slots)
        return list(scores)

    def _next_slots(self, block, updated):
        slots = np.full(len(block.targets), -1)
        slots[updated] = self.n_slots + np.arange(len(updated))
        self._grow(self.n_slots + len(updated))
        return slots

    def _grow(self, n):
        """Extend to at least n slots."""
        self.n_slots = max(n, self.n_slots)
        self.states = [s._replace(z=_extended(s.z, n), u=_extended(s.u, n)) for s in self.states]

    def keep(self, chosen):
        """Keep some members, and drop the others."""
        self.members = [self.members[i] for i in chosen]
        self.states = [self.states[i] for i in chosen]

    def mean(self, i):
        """A member's average iterate: coefficients of shape (n_slots, n_outputs)."""
        return self.states[i].mean(self.n_slots)

    def last(self, i):
        """A member's last iterate."""
        return self.states[i].last(self.members[i].learner, self.n_slots)


class StreamEngine(Blocked):
    """For a stream of rows of the type of `like`: each updated row gets the next slot."""

    def __init__(self, kernel, members, n_outputs, like):
        super().__init__(kernel, members, n_outputs, like.dtype)
        self.support = Support(like)
        # Coefficients in the precision of the values, laid out for one product a bandwidth; those
        # of the averages, too, if rows are scored. None where they are out of date.
        self._tables, self._scored = None, None

    def _columns(self, members, slots=slice(None)):
        """Coefficients of z and, if rows are scored, of u, for all outputs of some members."""
        states = [self.states[i] for i in members]
        tables = [(s.z, s.u) if self._scored else (s.z,) for s in states]
        return np.hstack([table[slots] for pair in tables for table in pair])

    def _current_tables(self):
        if self._tables is None:
            columns = [self._columns(members) for members in self.layout()]
            self._tables = [table.astype(self.dtype) for table in columns]
        return self._tables

    def _values(self, team, block, scored):
        if scored != self._scored:
            self._scored, self._tables = scored, None
        support = self.support.facts()
        rows = block.rows
        n = len(block.targets)

        def tile_of(a, b):
            memory = team.memory((n, b - a), self.dtype)
            return base(self.kernel, self.root, rows, support[a:b], memory)

        within = base(self.kernel, self.root, rows, rows), self.gammas, self.root
        tables = self._current_tables()
        if not self.n_slots:
            return within, [np.zeros((n, table.shape[1])) for table in tables]
        return within, products(team, self.gammas, self.root, tile_of, self.n_slots, tables)

    def _slots_of(self, block, updated):
        self.support.append(*block.rows[updated])
        capacity = len(self.states[0].z)
        slots = self._next_slots(block, updated)
        if len(self.states[0].z) > capacity:
            self._tables = None
        return slots

    def _note(self, team, block, new, updated, slots):
        slots = slots[updated]
        for table, members in zip(self._current_tables(), self.layout(), strict=True):
            table[slots] = self._columns(members, slots)

    def keep(self, chosen):
        """Keep some members, and drop the others."""
        super().keep(chosen)
        self._tables = None

    def rebuild(self, rows, tables):
        """Replace the support rows; `tables` has each member's [z, u]."""
        self.support = Support(rows)
        self.support.append(*Facts.of(self.kernel, rows))
        self.n_slots, k = rows.shape[0], self.n_outputs
        self.states = [
            s._replace(z=t[:, :k].copy(), u=t[:, k:].copy())
            for s, t in zip(self.states, tables, strict=True)
        ]
        self._tables = None

    def outputs(self, index, sign):
        """Rearrange outputs: the new output i is sign[i] times the old output index[i]."""
        self.n_outputs, self._tables = len(index), None
        self.states = [
            s._replace(
                z=s.z[:, index] * sign, u=s.u[:, index] * sign, scalars=s.scalars[index].copy()
            )
            for s in self.states
        ]

    def branch(self):
        """A copy that learns independently; it shares the support rows so far."""
        other = copy(self)
        other.support = self.support.branch()
        other.states = [type(s)(*(a.copy() for a in s)) for s in self.states]
        other.members, other._tables = list(self.members), None
        return other


class MemoryEngine(Blocked):
    """For rows in memory: a row's number is its slot.

    With `apart` every update gets its own slot, in order; `origin` has the rows' numbers.
    """

    def __init__(self, kernel, members, n_outputs, memory, apart=False):
        super().__init__(kernel, members, n_outputs, memory.dtype)
        self.memory, self.apart, self.origin = memory, apart, []
        if memory.cache is not None:
            self.root = memory.cache.root
        self.updates = np.zeros((len(self.members), n_outputs), np.int64)
        # The sums at all rows, and the pending updates that they do not include yet. These are the
        # rows' numbers, and for each member the coefficients that were added to z and u, of shape
        # (2, n_outputs, n).
        shapes = (n_outputs, memory.n), (n_outputs, len(memory.watched))
        self._sums = [KernelSums(*map(np.zeros, shapes)) for _ in self.members]
        self._clear_pending()

    def _clear_pending(self):
        self._pending_numbers = np.empty(0, np.int64)
        self._pending = [np.empty((2, self.n_outputs, 0)) for _ in self.members]

    def _values(self, team, block, scored):
        def among(others):
            values, root = self.memory.among(self.kernel, self.root, r, others)
            return values, self.gammas, root

        def sums_before(members):
            return np.hstack([self._sums[i][f][:, r].T for i in members for f in fields])

        r = block.numbers
        layout = self.layout()
        fields = range(1 + scored)
        before = [sums_before(members) for members in layout]
        if len(self._pending_numbers):
            values = bandwidths(*among(self._pending_numbers))
            for K, members, total in zip(values, layout, before, strict=True):
                table = np.hstack([self._pending[i][f].T for i in members for f in fields])
                total += K @ table.astype(self.dtype)
        return among(r), before

    def _slots_of(self, block, updated):
        if not self.apart:
            self._grow(int(block.numbers.max()) + 1)
            return block.numbers
        self.origin.append(block.numbers[updated])
        return self._next_slots(block, updated)

    def _note(self, team, block, new, updated, slots):
        for i, added in enumerate(new):
            self.updates[i] += np.count_nonzero(added[0], axis=1)
            self._pending[i] = np.concatenate([self._pending[i], added[:, :, updated]], axis=2)
        self._pending_numbers = np.append(self._pending_numbers, block.numbers[updated])
        if len(self._pending_numbers) >= 2 * BLOCK:
            self.update_sums(team, block.ahead)

    def update_sums(self, team, ahead=0):
        """Add the pending updates to the sums of the rows from number `ahead` on."""
        memory, k, layout = self.memory, self.n_outputs, self.layout()
        if not len(self._pending_numbers):
            return
        # Several updates of one row (a weight repeats it) are added up first.
        numbers, first = np.unique(self._pending_numbers, return_inverse=True)
        once = sparse.csr_array((np.ones(len(first)), (np.arange(len(first)), first)))
        tile_of, root = memory.pairs(team, self.kernel, self.root, numbers)

        def added(members, field):
            return np.vstack([self._pending[i][field] @ once for i in members]).astype(self.dtype)

        tables = [(added(members, 0), added(members, 1)) for members in layout]

        def tile(start):
            stop = min(memory.n, start + TILE)
            low, high = np.searchsorted(memory.watched, (start, stop))
            at = memory.watched[low:high] - start
            whole = len(at) == stop - start
            values = bandwidths(tile_of(start, stop), self.gammas, root, team.memory)
            for K, members, (z, u) in zip(values, layout, tables, strict=True):
                of_iterate = z @ K
                if whole or len(u) <= _FEW:
                    of_average = u @ K if whole else (u @ K)[:, at]
                else:
                    of_average = u @ K[:, at]
                for position, i in enumerate(members):
                    part = slice(position * k, (position + 1) * k)
                    self._sums[i].z[:, start:stop] += of_iterate[part]
                    self._sums[i].u[:, low:high] += of_average[part]

        team.map(tile, range(ahead - ahead % TILE, memory.n, TILE))
        self._clear_pending()

    def watched(self, i):
        """The average of a member at the watched rows; call `update_sums` before."""
        (z, u), s = self._sums[i], self.states[i]
        mean = s.scalars[:, SUM, None] * z[:, self.memory.watched] - u
        mass = s.scalars[:, MASS, None]
        return (mean / np.where(mass > 0.0, mass, 1.0)).T

    def restart(self):
        """Restart the averages of all members."""
        for state, new, sums in zip(self.states, self._pending, self._sums, strict=True):
            state.restart()
            new[1] = sums.u[:] = 0.0

    def keep(self, chosen):
        """Keep some members, and drop the others."""
        super().keep(chosen)
        self._pending = [self._pending[i] for i in chosen]
        self._sums = [self._sums[i] for i in chosen]
        self.updates = self.updates[list(chosen)]
        self.memory = self.memory.narrowed(self.gammas[0])

    def numbers(self):
        """The number of each slot's row."""
        return np.concatenate(self.origin) if self.apart else np.arange(self.n_slots)
