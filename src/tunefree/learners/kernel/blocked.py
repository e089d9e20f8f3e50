r"""The blocked engine: several kernel learners, one sweep over the rows.

Members may differ in bandwidth, rule, loss, and in the rows that they learn (a weight of 0 leaves a
row out); they share the rows, the distances, and the values of their bandwidth. The only expensive
thing is the table of values k(row, support row). It is made in tiles that fit a processor's cache,
by one matrix product each; a tile serves a whole grid of bandwidths (twice the bandwidth is the
square) and all outputs, and is gone before the next one. Tiles are spread over threads and added in
a fixed order, so results do not depend on how many. Rows come in blocks of `BLOCK`: the past by
matrix products, the block itself exactly:

    h_i = h0_i + sum_(j<i) dz_j k(x_j, x_i),      |g|^2 += dz_i (2 h_i + dz_i k(x_i, x_i)).

A vector of the feature space is a sum over rows: g = sum_s z_s k(x_s, .), and the average of the
iterates needs a second coefficient u_s = sum C dz_s per row (see `learners.pistol.linear`):

    g(x) = sum_s z_s k(x_s, x),    average(x) = sum_s (C z_s - u_s) k(x_s, x) / mass.

Source: Orabona 2014, Algorithm 3; the blocked form is ours.
"""

import math
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import copy
from typing import Any, NamedTuple

import joblib
import numpy as np
from scipy import sparse

from tunefree._jit import REASSOCIATE, Kernel, part
from tunefree._jit import kernel as compiled
from tunefree._process import in_threads, one_blas_thread
from tunefree.kernels import decay
from tunefree.learners.pistol.linear import IsotropicState, coefficients, recursion
from tunefree.learners.pistol.rules import MASS, N_SCALARS, SUM

BLOCK, TILE = 128, 1024


def n_threads(n_jobs):
    """How many threads `n_jobs` means; None and -1 are all that the process may use."""
    if n_jobs is None or n_jobs == -1:
        limit = os.environ.get("OMP_NUM_THREADS", "")
        most = joblib.cpu_count()
        return min(most, int(limit)) if limit.isdigit() and int(limit) > 0 else most
    return max(1, joblib.effective_n_jobs(n_jobs))


class Workers:
    """Maps a function over tiles, in threads; matrix products inside use one thread each."""

    def __init__(self, pool=None):
        self._pool, self._local = pool, threading.local()

    def memory(self, shape, dtype, use="tile"):
        """Memory of the calling thread for a use: new pages cost more than the work on them."""
        held = self._local.__dict__
        size = math.prod(shape) * dtype.itemsize
        if use not in held or held[use].size < size:
            held[use] = np.empty(size, np.uint8)
        return held[use][:size].view(dtype).reshape(shape)

    def map(self, function, items):
        """Results in the order of the items."""
        items = list(items)
        if self._pool is None or len(items) < 2:
            return [function(item) for item in items]
        return list(self._pool.map(in_threads(function), items))


@contextmanager
def workers(n_jobs):
    """Threads for a stretch of work."""
    n = n_threads(n_jobs)
    with one_blas_thread():
        if n == 1:
            yield Workers()
            return
        with ThreadPoolExecutor(n) as pool:
            yield Workers(pool)


class Support:
    """Rows with coefficients, by slot, of the kind of `like`; the memory grows by doubling."""

    def __init__(self, like):
        self._n, self._rows, self._sizes = 0, like[:0], np.empty(0, like.dtype)
        self._waiting = []

    def __len__(self):
        return self._n

    def append(self, rows, sizes):
        """Take in rows and what the kernel needs to know of them."""
        n = rows.shape[0]
        if sizes is not None:
            self._sizes = _room(self._sizes, self._n, n)
            self._sizes[self._n : self._n + n] = sizes
        if sparse.issparse(self._rows):
            self._waiting.append(rows)
        else:
            self._rows = _room(self._rows, self._n, n)
            self._rows[self._n : self._n + n] = rows
        self._n += n

    @property
    def rows(self):
        """All rows."""
        if self._waiting:
            self._rows = sparse.vstack([self._rows, *self._waiting], format="csr")
            self._waiting = []
        return self._rows[: self._n]

    def facts(self):
        """All rows with what the kernel needs to know of them."""
        return Facts(self.rows, self._sizes[: self._n] if len(self._sizes) else None)

    def branch(self):
        """A copy that may grow on its own, without copying the rows unless it must."""
        other = Support(self._rows)
        other._n, other._rows, other._sizes = self._n, self.rows, self._sizes[: self._n]
        return other


def _room(array, used, new):
    """The array, or a longer one, with space for new rows after those in use."""
    if used + new <= len(array):
        return array
    bigger = np.empty((max(2 * len(array), used + new, TILE), *array.shape[1:]), array.dtype)
    bigger[:used] = array[:used]
    return bigger


def root_of(gammas):
    """The lowest bandwidth, if squaring its values gives those of all others; else None."""
    if None in gammas or any(_doublings(min(gammas), g) is None for g in gammas):
        return None
    return min(gammas)


def _doublings(low, high):
    """How often a bandwidth is doubled to become the other; None if it never does."""
    (a, i), (b, j) = math.frexp(low), math.frexp(high)
    return j - i if a == b and j >= i else None


def bandwidths(values, gammas, root=None, memory=None):
    """Yield the kernel's values for each bandwidth, ascending, in the memory of `values` at last.

    `values` are those of the bandwidth `root`; without a root the distances, or all there is of a
    kernel without bandwidths. They are overwritten. With `memory` what was yielded is, too.
    """
    for i, gamma in enumerate(gammas):
        if gamma is not None and root is None:
            out = values if i + 1 == len(gammas) else None
            if out is None and memory is not None:
                out = memory(values.shape, values.dtype, "bandwidth")
            yield decay(values, gamma, out)
            continue
        if gamma is not None:
            times: Any = _doublings(root, gamma)
            for _ in range(times):
                values *= values
            root = gamma
        yield values


class Facts(NamedTuple):
    """Rows, and what the kernel's distances need to know of them."""

    rows: Any
    sizes: np.ndarray | None

    @classmethod
    def of(cls, kernel, rows):
        """Work it out."""
        return cls(rows, kernel.sizes(rows) if hasattr(kernel, "sizes") else None)

    def __getitem__(self, part):
        return Facts(self.rows[part], None if self.sizes is None else self.sizes[part])


def base(kernel, root, A, B, out=None):
    """The values of all pairs from which `bandwidths` makes the others; `out` may be used."""
    if not hasattr(kernel, "distances"):
        return kernel.gram(A.rows, B.rows)
    values = kernel.distances(A.rows, B.rows, A.sizes, B.sizes, out)
    return values if root is None else decay(values, root, values)


def products(team, gammas, root, tile_of, n, tables):
    """Sums over n support rows: for each bandwidth values @ table in float64, None if n is 0.

    ``tile_of(start, stop)`` is `base` of a block's rows and those support rows; it is overwritten.
    """

    def tile(start):
        stop = min(n, start + TILE)
        values = bandwidths(tile_of(start, stop), gammas, root, team.memory)
        return [K @ table[start:stop] for K, table in zip(values, tables, strict=True)]

    parts = team.map(tile, range(0, n, TILE))
    if not parts:
        return [None] * len(tables)
    totals = [values.astype(np.float64) for values in parts[0]]
    for found in parts[1:]:
        for total, values in zip(totals, found, strict=True):
            total += values
    return totals


class Member(NamedTuple):
    """A learner and the bandwidth under which it learns; None for a kernel without bandwidths."""

    gamma: float | None
    learner: Any
    name: str = ""


class Cache(NamedTuple):
    """What `base` says of all pairs of rows, in the order in which the first pass visits them."""

    values: np.ndarray
    root: float | None = None


class Rows(NamedTuple):
    """A block of rows to learn."""

    rows: Facts | None  # None if the engine holds all values in a cache
    numbers: Any  # which of the rows in memory; None on a stream, where all are new
    squares: np.ndarray  # k(x, x)
    targets: np.ndarray  # of shape (n, n_outputs)
    weights: np.ndarray  # of shape (n,), or (n_members, n)
    start: int = 0  # position of the first row in its pass


@compiled
def _gather(table, rows, out):
    """The first columns of some rows, as many as `out` has: NumPy's take would copy the table."""
    for i in range(out.shape[0]):
        r = rows[i]
        for j in range(out.shape[1]):
            out[i, j] = table[r, j]


class Gram(NamedTuple):
    """A block of rows in place of a design: what is known of them before the block."""

    values: np.ndarray  # of the kernel, of shape (n, n)
    squares: np.ndarray  # their diagonal, in double precision; of shape (n,)
    # g(x) and, if it is asked for, u(x) by the rows before the block, of shape (n, 2 n_outputs).
    known: np.ndarray


@part
class FeatureSpace(NamedTuple):
    """What `One` and `Many` are for columns: rows of a `Gram`, g and u as coefficients to come.

    The table holds, of shape (2, n_outputs, n), what is added to the rows' z and u.
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
            out[k] = gram.known[i, field * out.shape[0] + k] + total

    def axpy2(self, gram, i, table, first, second):
        """Add multiples of row i to g and u."""
        for k in range(first.shape[0]):
            table[0, k, i] = first[k]
            table[1, k, i] = second[k]


_learn = Kernel(recursion, fastmath=REASSOCIATE)


@compiled
def _deposit(z, u, slots, new):
    for k in range(new.shape[1]):
        for i in range(len(slots)):
            if slots[i] >= 0:
                z[slots[i], k] += new[0, k, i]
                u[slots[i], k] += new[1, k, i]


class KernelState(NamedTuple):
    """State of a run, but for the rows themselves."""

    z: np.ndarray  # coefficients of the rows, by slot: z and u have shape (capacity, n_outputs)
    u: np.ndarray
    scalars: np.ndarray  # of shape (n_outputs, N_SCALARS)
    shared: np.ndarray  # the largest norm X, the rounds t, the Lipschitz bound L; of shape (3,)

    @classmethod
    def empty(cls, n_outputs):
        """Before the first row."""
        z, u = np.zeros((2, 0, n_outputs))
        return cls(z, u, np.zeros((n_outputs, N_SCALARS)), np.zeros(3))

    def learn(self, learner, block, gram, known, scored):
        """Learn a block in order; the scalars advance, the coefficients are left to `deposit`.

        `block` holds the rows' values with themselves, targets and weights; `gram` the values among
        them; `known` the sums of z and, if `scored`, of u times the kernel over the rows before.
        Gives what is added to the rows' z and u, of shape (2, n_outputs, n), and, if `scored`, what
        the running average and the iterate predicted before they saw each row, (2, n, n_outputs).
        """
        squares, targets, weights = block
        n, k = targets.shape
        new, scores = np.zeros((2, k, n)), np.empty((2, n if scored else 0, k))
        run = IsotropicState(new, self.scalars, self.shared)
        _learn(learner, FeatureSpace(), Gram(gram, squares, known), targets, weights, run, scores)
        return new, scores

    def deposit(self, slots, new):
        """Add new coefficients to the slots of their rows, but those of negative slots."""
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
        """Forget the average, not what was learned: the next average is that of a tail."""
        self.u[:] = 0.0
        self.scalars[:, SUM] = 0.0
        self.scalars[:, MASS] = 0.0


class Blocked:
    """Members that learn together.

    `like` are rows of the kind to come, of float32 or float64, which is the precision of values;
    `n_rows` is how many there are in memory, None on a stream. `apart` gives every update a slot of
    its own, in the order of updates (not with a cache); `origin` has the number of each slot's row.
    The bandwidth whose values are worked out, `root`, stays as members leave, so that their leaving
    changes nothing for those that stay.
    """

    def __init__(self, kernel, members, n_outputs, like, n_rows=None, cache=None, apart=False):
        self.kernel, self.members, self.n_outputs = kernel, list(members), n_outputs
        self.support, self.cache, self.dtype = Support(like), cache, like.dtype
        self.states = [KernelState.empty(n_outputs) for _ in self.members]
        # How many slots have coefficients, and the slot of each row in memory.
        self.n_slots = 0
        self.slot_of: Any = None
        self.root = root_of(self.gammas) if cache is None else cache.root
        if cache is not None:
            self.slot_of = np.arange(len(cache.values))
        elif n_rows is not None:
            self.slot_of = np.full(n_rows, -1)
        self.apart = apart
        self.origin: list = []
        self.updates = np.zeros((len(self.members), n_outputs), np.int64)
        self._tables, self._scored = None, None

    @property
    def gammas(self):
        """The different bandwidths, ascending."""
        found = {m.gamma for m in self.members}
        return [None] if found == {None} else sorted(found)

    def _layout(self):
        """For each bandwidth its members."""
        return [[i for i, m in enumerate(self.members) if m.gamma == g] for g in self.gammas]

    def _columns(self, member):
        s = self.states[member]
        return [s.z, s.u] if self._scored else [s.z]

    def _mirror(self):
        """Coefficients in the precision of the values, laid out for one product a bandwidth."""
        if self._tables is None:
            self._tables = [
                np.hstack([a for i in members for a in self._columns(i)]).astype(self.dtype)
                for members in self._layout()
            ]
        return self._tables

    def learn(self, team, block, scored=False):
        """Learn a block of rows in order; for each member what was predicted before each row."""
        if scored != self._scored:
            self._scored, self._tables = scored, None
        n, k, layout = len(block.targets), self.n_outputs, self._layout()
        width, gammas = k * (1 + scored), self.gammas
        weights = block.weights if block.weights.ndim == 2 else [block.weights] * len(self.members)
        own, tile_of = self._values(team, block)
        known = products(team, gammas, self.root, tile_of, self.n_slots, self._mirror())
        jobs = []
        for level, K in enumerate(bandwidths(own, gammas, self.root)):
            K = K.copy() if level + 1 < len(layout) else K
            for place, i in enumerate(layout[level]):
                sums, part = known[level], slice(place * width, (place + 1) * width)
                H = np.zeros((n, width)) if sums is None else sums[:, part]
                jobs.append((i, K, H))

        def solve(job):
            i, K, known = job
            own = block.squares, block.targets, weights[i]
            learner, state = self.members[i].learner, self.states[i]
            return i, state.learn(learner, own, K, known, scored)

        found = dict(team.map(solve, jobs))
        slots = self._place(block, found.values())
        for i, (new, _) in found.items():
            self.updates[i] += np.count_nonzero(new[0], axis=1)
            self.states[i].deposit(slots, new)
        slots = slots[slots >= 0]
        for table, members in zip(self._mirror(), layout, strict=True):
            table[slots] = np.hstack([a[slots] for i in members for a in self._columns(i)])
        return [found[i][1] for i in range(len(self.members))]

    def _values(self, team, block):
        """Values within the block, and with tiles of the support (see `products`)."""
        if self.cache is not None:
            r = block.numbers
            most = max(self.n_slots, int(r.max()) + 1)
            memory = team.memory((len(r), most), self.dtype, "rows")
            _gather(self.cache.values, r, memory)
            return memory[:, r], lambda a, b: memory[:, a:b]
        held, rows = self.support.facts(), block.rows

        def tile_of(a, b):
            memory = team.memory((len(block.targets), b - a), self.dtype)
            return base(self.kernel, self.root, rows, held[a:b], memory)

        return base(self.kernel, self.root, rows, rows), tile_of

    def values(self, team, block, tables):
        """Sums over the support for a block of rows: for each bandwidth, coefficients' outputs."""
        _, tile_of = self._values(team, block)
        return products(team, self.gammas, self.root, tile_of, self.n_slots, tables)

    def _place(self, block, found):
        """The rows' slots; rows that get their first coefficient are given one."""
        numbers = block.numbers
        if self.cache is not None:
            self._grow(int(numbers.max()) + 1)
            return numbers
        moved = np.flatnonzero(np.any([new[0].any(axis=0) for new, _ in found], axis=0))
        if numbers is None or self.apart:
            slots, new = np.full(len(block.targets), -1), moved
            slots[new] = self.n_slots + np.arange(len(new))
        else:
            fresh = moved[self.slot_of[numbers[moved]] < 0]
            _, first = np.unique(numbers[fresh], return_index=True)
            new = fresh[np.sort(first)]  # a row that stands several times in the block counts once
            self.slot_of[numbers[new]] = self.n_slots + np.arange(len(new))
            slots = self.slot_of[numbers]
        if self.apart:
            self.origin.append(block.numbers[new])
        fresh = block.rows[new]
        self.support.append(fresh.rows, fresh.sizes)
        self._grow(self.n_slots + len(new))
        return slots

    def _grow(self, n):
        """Count n slots at least, with room for them."""
        self.n_slots = max(n, self.n_slots)
        room = len(self.states[0].z)
        if n <= room:
            return
        room = max(2 * room, n, TILE)
        for i, s in enumerate(self.states):
            z, u = np.zeros((room, self.n_outputs)), np.zeros((room, self.n_outputs))
            z[: len(s.z)], u[: len(s.u)] = s.z, s.u
            self.states[i] = s._replace(z=z, u=u)
        self._tables = None

    def restart(self):
        """Start the averages of all members anew."""
        for s in self.states:
            s.restart()
        self._tables = None

    def keep(self, chosen):
        """Go on with some members only."""
        self.members = [self.members[i] for i in chosen]
        self.states = [self.states[i] for i in chosen]
        self.updates = self.updates[list(chosen)]
        self._tables = None

    def rebuild(self, rows, tables):
        """Go on with other support rows on a stream; `tables` holds each member's [z, u]."""
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
        self.n_outputs = len(index)
        self.states = [
            s._replace(z=s.z[:, index] * sign, u=s.u[:, index] * sign,
                       scalars=s.scalars[index].copy())
            for s in self.states
        ]  # fmt: skip
        self.updates, self._tables = self.updates[:, index], None

    def numbers(self):
        """The number of each slot's row in memory."""
        if self.apart:
            return np.concatenate([np.empty(0, np.int64), *self.origin])
        out = np.empty(self.n_slots, np.int64)
        placed = (self.slot_of >= 0) & (self.slot_of < self.n_slots)
        out[self.slot_of[placed]] = np.flatnonzero(placed)
        return out

    def mean(self, i):
        """A member's average iterate: coefficients of shape (n_slots, n_outputs)."""
        return self.states[i].mean(self.n_slots)

    def last(self, i):
        """A member's last iterate."""
        return self.states[i].last(self.members[i].learner, self.n_slots)

    def branch(self):
        """A copy that learns on its own; the rows held so far are shared."""
        other = copy(self)
        other.support = self.support.branch()
        other.states = [type(s)(*(a.copy() for a in s)) for s in self.states]
        other.slot_of = None if self.slot_of is None else self.slot_of.copy()
        other.updates = self.updates.copy()
        other.members, other._tables = list(self.members), None
        return other
