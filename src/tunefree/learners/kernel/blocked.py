r"""The blocked engine: several kernel learners, one sweep over the rows.

Members may differ in bandwidth, rule, loss, and in the rows that they learn (a weight of 0 leaves a
row out); they share the rows, the distances, and the values of their bandwidth. The only expensive
thing is the table of values k(row, support row). It is made in tiles that fit a processor's cache,
by one matrix product each; a tile serves a whole grid of bandwidths (twice the bandwidth is the
square) and all outputs, and is gone before the next one. Tiles are spread over threads, and what is
added has a fixed order, so results do not depend on how many. Rows come in blocks of `BLOCK`: the
past by matrix products, the block itself exactly:

    h_i = h0_i + sum_(j<i) dz_j k(x_j, x_i),      |g|^2 += dz_i (2 h_i + dz_i k(x_i, x_i)).

On a stream h0 is asked for: a product with all support rows. In memory the rows to come are known,
and h0 is kept of all of them: rows that were updated tell it to the others, so a pass costs what it
changes, and a late pass next to nothing.

A vector of the feature space is a sum over rows: g = sum_s z_s k(x_s, .), and the average of the
iterates needs a second coefficient u_s = sum C dz_s per row (see `learners.pistol.linear`):

    g(x) = sum_s z_s k(x_s, x),    average(x) = sum_s (C z_s - u_s) k(x_s, x) / mass.

Source: Orabona 2014, Algorithm 3; the blocked form is ours.
"""

import math
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from tunefree._jit import REASSOCIATE, Kernel, part
from tunefree._jit import kernel as compiled
from tunefree.kernels import decay
from tunefree.learners.pistol.linear import IsotropicState, coefficients, recursion
from tunefree.learners.pistol.rules import MASS, N_SCALARS, SUM

BLOCK, TILE = 128, 1024
_STRETCH = 16  # rows of a cache that a thread copies at a time
_FEW = 16  # outputs of which a product with all columns costs less than to choose some


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

    rows: Facts | None  # None of rows in memory, which the engine knows
    numbers: Any  # which of the rows in memory; None on a stream, where all are new
    squares: np.ndarray  # k(x, x)
    targets: np.ndarray  # of shape (n, n_outputs)
    weights: np.ndarray  # of shape (n,), or (n_members, n)
    start: int = 0  # position of the first row in its pass
    ahead: int = 0  # the lowest number of a row that will be asked for after this block


@compiled
def _gather(table, rows, out):
    """The first columns of some rows, as many as `out` has: NumPy's take would copy the table."""
    for i in range(out.shape[0]):
        r = rows[i]
        for j in range(out.shape[1]):
            out[i, j] = table[r, j]


class Memory(NamedTuple):
    """Rows in memory, by number."""

    n: int
    watched: np.ndarray  # ascending numbers of the rows of which averages' values are followed
    rows: Any  # their `Facts`; None where the cache has all there is
    cache: Cache | None = None

    def pairs(self, team, kernel, root, left):
        """A function of (start, stop): what some rows and those neighbours have; its bandwidth."""
        if self.cache is None:
            rows = self.rows[left]

            def tile_of(start, stop):
                memory = team.memory((len(left), stop - start), rows.rows.dtype)
                return base(kernel, root, rows, self.rows[start:stop], memory)

            return tile_of, root
        # Long stretches: a tile at a time they would be a jump in memory each.
        table = self.cache.values
        whole = team.memory((len(left), self.n), table.dtype, "rows")
        parts = [slice(i, i + _STRETCH) for i in range(0, len(left), _STRETCH)]
        team.map(lambda part: _gather(table, left[part], whole[part]), parts)
        return (lambda start, stop: whole[:, start:stop]), self.cache.root

    def among(self, kernel, root, left, right):
        """What some rows and others have, and its bandwidth: new costs less than to find it."""
        rows: Any = self.rows
        if self.cache is None or not (rows is None or sparse.issparse(rows.rows)):
            return base(kernel, root, rows[left], rows[right]), root
        return self.cache.values[left[:, None], right], self.cache.root

    def narrowed(self, gamma):
        """With a cache of this bandwidth: what is squared once need not be for each use."""
        if self.cache is None or self.cache.root is None:
            return self
        values, times = self.cache.values, _doublings(self.cache.root, gamma)
        for _ in range(times or 0):
            np.square(values, out=values)
        return self._replace(cache=Cache(values, gamma))


class Sums(NamedTuple):
    """Of a member: z and u times the kernel, summed over the rows learned so far."""

    z: np.ndarray  # at all rows in memory, of shape (n_outputs, n)
    u: np.ndarray  # at those that are watched


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
    `memory` has them where they are known, None is a stream. A slot holds a row's coefficients: in
    memory its number is the slot, on a stream a row that is updated gets the next one. `apart`
    gives every update in memory a slot of its own, in order; `origin` has the rows' numbers.
    The bandwidth whose values are worked out, `root`, stays as members leave, so that their leaving
    changes nothing for those that stay.
    """

    def __init__(self, kernel, members, n_outputs, like, memory=None, apart=False):
        self.kernel, self.members, self.n_outputs = kernel, list(members), n_outputs
        self.support, self.dtype = Support(like), like.dtype
        self.memory: Any = memory
        self.states = [KernelState.empty(n_outputs) for _ in self.members]
        self.n_slots = 0
        cached = memory is not None and memory.cache is not None
        self.root = self.memory.cache.root if cached else root_of(self.gammas)
        self.apart = apart
        self.origin: list = []
        self.updates = np.zeros((len(self.members), n_outputs), np.int64)
        self._tables, self._scored = None, None
        # In memory what is known of all rows, and the updates that are not in there yet: the rows'
        # numbers, and of each member what was added to z and u, of shape (2, n_outputs, n).
        self._sums: list[Sums] = []
        if memory is not None:
            shapes = (n_outputs, memory.n), (n_outputs, len(memory.watched))
            self._sums = [Sums(*map(np.zeros, shapes)) for _ in self.members]
        self._forget_news()

    @property
    def gammas(self):
        """The different bandwidths, ascending."""
        found = {m.gamma for m in self.members}
        return [None] if found == {None} else sorted(found)

    def _layout(self):
        """For each bandwidth its members."""
        return [[i for i, m in enumerate(self.members) if m.gamma == g] for g in self.gammas]

    def learn(self, team, block, scored=False):
        """Learn a block of rows in order; for each member what was predicted before each row."""
        n, k, layout = len(block.targets), self.n_outputs, self._layout()
        width = k * (1 + scored)
        weights = block.weights if block.weights.ndim == 2 else [block.weights] * len(self.members)
        asked = self._of_support if self.memory is None else self._of_memory
        own, known = asked(team, block, scored)
        jobs = []
        for level, K in enumerate(bandwidths(*own)):
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
        new = [found[i][0] for i in range(len(self.members))]
        moved = np.flatnonzero(np.any([added[0].any(axis=0) for added in new], axis=0))
        slots = self._place(block, moved)
        for i, added in enumerate(new):
            self.updates[i] += np.count_nonzero(added[0], axis=1)
            self.states[i].deposit(slots, added)
        if self.memory is None:
            slots = slots[moved]
            for table, members in zip(self._mirror(), layout, strict=True):
                table[slots] = np.hstack([a[slots] for i in members for a in self._columns(i)])
        else:
            for i, added in enumerate(new):
                self._news[i] = np.concatenate([self._news[i], added[:, :, moved]], axis=2)
            self._numbers = np.append(self._numbers, block.numbers[moved])
            if len(self._numbers) >= 2 * BLOCK:
                self.tell(team, block.ahead)
        return [found[i][1] for i in range(len(self.members))]

    def _place(self, block, moved):
        """The rows' slots; -1 for those without."""
        if self.memory is not None and not self.apart:
            self._grow(int(block.numbers.max()) + 1)
            return block.numbers
        slots = np.full(len(block.targets), -1)
        slots[moved] = self.n_slots + np.arange(len(moved))
        if self.memory is None:
            fresh = block.rows[moved]
            self.support.append(fresh.rows, fresh.sizes)
        else:
            self.origin.append(block.numbers[moved])
        self._grow(self.n_slots + len(moved))
        return slots

    # On a stream.

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

    def _of_support(self, team, block, scored):
        """For `bandwidths` the values within a block, and for each what is known of its rows."""
        if scored != self._scored:
            self._scored, self._tables = scored, None
        held, rows = self.support.facts(), block.rows

        def tile_of(a, b):
            memory = team.memory((len(block.targets), b - a), self.dtype)
            return base(self.kernel, self.root, rows, held[a:b], memory)

        own = base(self.kernel, self.root, rows, rows), self.gammas, self.root
        tables = self._mirror()
        return own, products(team, self.gammas, self.root, tile_of, self.n_slots, tables)

    # In memory.

    def _of_memory(self, team, block, scored):
        """The `base` within a block, and for each bandwidth what is known of its rows."""

        def among(others):
            values, root = self.memory.among(self.kernel, self.root, r, others)
            return values, self.gammas, root

        r, layout, fields = block.numbers, self._layout(), range(1 + scored)
        known = [
            np.hstack([self._sums[i][f][:, r].T for i in members for f in fields])
            for members in layout
        ]
        if len(self._numbers):
            for K, members, total in zip(
                bandwidths(*among(self._numbers)), layout, known, strict=True
            ):
                table = np.hstack([self._news[i][f].T for i in members for f in fields])
                total += K @ table.astype(self.dtype)
        return among(r), known

    def _forget_news(self):
        self._numbers = np.empty(0, np.int64)
        self._news = [np.empty((2, self.n_outputs, 0)) for _ in self.members]

    def tell(self, team, ahead=0):
        """Tell the rows from number `ahead` on of the updates that they do not know of yet."""
        memory, k, layout = self.memory, self.n_outputs, self._layout()
        if not len(self._numbers):
            return
        # A row that comes several times, as one with a weight does, is told of once.
        numbers, first = np.unique(self._numbers, return_inverse=True)
        once = sparse.csr_array((np.ones(len(first)), (np.arange(len(first)), first)))
        tile_of, root = memory.pairs(team, self.kernel, self.root, numbers)
        tables = [
            [
                np.vstack([self._news[i][f] @ once for i in members]).astype(self.dtype)
                for f in (0, 1)
            ]
            for members in layout
        ]

        def tile(start):
            stop = min(memory.n, start + TILE)
            low, high = np.searchsorted(memory.watched, (start, stop))
            at = memory.watched[low:high] - start
            whole = len(at) == stop - start
            values = bandwidths(tile_of(start, stop), self.gammas, root, team.memory)
            for K, members, (z, u) in zip(values, layout, tables, strict=True):
                told = z @ K
                if whole or len(u) <= _FEW:
                    of_average = u @ K if whole else (u @ K)[:, at]
                else:
                    of_average = u @ K[:, at]
                for place, i in enumerate(members):
                    part = slice(place * k, (place + 1) * k)
                    self._sums[i].z[:, start:stop] += told[part]
                    self._sums[i].u[:, low:high] += of_average[part]

        team.map(tile, range(ahead - ahead % TILE, memory.n, TILE))
        self._forget_news()

    def watched(self, i):
        """What a member's average says of the rows that are watched, once all is told."""
        (z, u), s = self._sums[i], self.states[i]
        mean = s.scalars[:, SUM, None] * z[:, self.memory.watched] - u
        mass = s.scalars[:, MASS, None]
        return (mean / np.where(mass > 0.0, mass, 1.0)).T

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
        for new, sums in zip(self._news, self._sums, strict=False):
            new[1] = sums.u[:] = 0.0
        self._tables = None

    def keep(self, chosen):
        """Go on with some members only."""
        for name in ("members", "states", "_news", "_sums"):
            held = getattr(self, name)
            setattr(self, name, [held[i] for i in chosen] if held else held)
        self.updates = self.updates[list(chosen)]
        self._tables = None
        if self.memory is not None:
            self.memory = self.memory.narrowed(self.gammas[0])

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
        """In memory the number of each slot's row."""
        return np.concatenate(self.origin) if self.origin else np.arange(self.n_slots)

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
        other.updates = self.updates.copy()
        other.members, other._tables = list(self.members), None
        return other
