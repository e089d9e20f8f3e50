"""Choosing bandwidth and number of passes while learning: what the kernel estimators run.

1. *Scout*: one pass over the first rows under every view and bandwidth of a grid, each row
   predicted before it is learned. The best three bandwidths of the best view go on.
2. *Race*: passes over all rows, once without every tenth row (below 500 rows, without some more)
   and once with it, side by side: they share the kernel's values. After passes 1, 2, 3, 5, 8, 12,
   ... the average of the pass is read and its error e on the left-out rows noted.
3. *Blend* (`learners.blend`): the weighted sum of the read-outs.
"""

from typing import NamedTuple

import numpy as np

from tunefree.choose.blend import Race, ReadOut, standard_error
from tunefree.choose.portfolio import rms
from tunefree.choose.risk import record, risks, start_progress
from tunefree.learners.kernel.blocked import BLOCK, Blocked, Cache, Member, Rows, base, root_of

READ_OUTS = (1, 2, 3, 5, 8, 12, 20, 30)
# Visits of rows worth making, and rows up to which the distances of all pairs are kept.
VISITS, CACHED = 200_000, 16_384
SCOUTED = 6_000
KEPT = 3
# One row in ten is left out, or in so few that fifty are, but no more than one in four.
_SHARE, _ENOUGH, _LARGEST = 10, 50, 4
# With so many rows left out, a race ends when so many read-outs in a row bring no new best.
_MANY, _PATIENCE = 500, 2


class Data(NamedTuple):
    """Rows in memory, in the order in which the first pass visits them.

    Attributes
    ----------
    rows : Facts or None
        In the coordinates of learning; None where `cache` has all there is.
    squares : ndarray of shape (n,)
    targets : ndarray of shape (n, n_outputs)
    order : callable
        epoch -> (numbers, weights) of the visits of a pass.
    cache : Cache or None
    """

    rows: object
    squares: np.ndarray
    targets: np.ndarray
    order: object
    cache: Cache | None = None

    def block(self, numbers, weights):
        """Rows to learn."""
        rows = None if self.cache is not None else self.rows[numbers]
        return Rows(rows, numbers, self.squares[numbers], self.targets[numbers], weights)


def pairs(team, kernel, gammas, rows):
    """What all pairs of rows have to say for some bandwidths, from half of the pairs."""
    n, size, root = rows.rows.shape[0], 512, root_of(gammas)
    out = np.empty((n, n), rows.rows.dtype)

    def tile(corner):
        i, j = corner
        a, b = slice(i, i + size), slice(j, j + size)
        values = base(kernel, root, rows[a], rows[b])
        out[a, b] = values
        if i != j:
            out[b, a] = values.T

    starts = range(0, n, size)
    team.map(tile, [(i, j) for i in starts for j in starts if i <= j])
    return Cache(out, root)


def passage(
    team, engine, data, epoch, *, most=None, shares=None, scored=None, before_pass=None,
    on_pass=None,
):  # fmt: skip
    """Make a pass.

    Parameters
    ----------
    team : Workers
    engine : Blocked
    data : Data
    epoch : int
    most : int, optional
        Visit only rows with smaller numbers.
    shares : ndarray of shape (n_members, n), optional
        Multiply the weights of the rows.
    scored : callable, optional
        Called with (scores, targets, weights) of every block.
    before_pass, on_pass : callable, optional
        As in `engine.run.run`.

    Returns
    -------
    bool
        What `on_pass` says of the engine: whether to stop.
    """
    if before_pass is not None:
        before_pass()
    numbers, weights = data.order(epoch)
    if most is not None:
        chosen = numbers < most
        numbers, weights = numbers[chosen], weights[chosen]
    for start in range(0, len(numbers), BLOCK):
        r, w = numbers[start : start + BLOCK], weights[start : start + BLOCK]
        block = data.block(r, w if shares is None else w * shares[:, r])
        scores = engine.learn(team, block, scored is not None)
        if scored is not None:
            scored(scores, block.targets, w)
    return on_pass is not None and on_pass(engine)


def scout(team, kernel, data, members, classify, most):
    """One pass of all members over the first rows; returns the record of their predictions."""
    k = data.targets.shape[1]
    progress = start_progress(len(members), k, most)
    engine = Blocked(kernel, members, k, like(data), n_rows=len(data.targets), cache=data.cache)
    passage(
        team, engine, data, 0, most=most,
        scored=lambda s, y, w: record(progress, classify, k, [p[0] for p in s], y, w),
    )  # fmt: skip
    return progress


def like(data):
    """No rows, of the kind to come."""
    return data.rows.rows[:0] if data.rows is not None else data.cache.values[:0]


def passes_since(found, best):
    """How many read-outs have come since the best."""
    return len({r.passes for r in found if r.passes > best.passes})


def read_outs(n_visits, max_iter=None, limit=12):
    """After which passes to read: at most `limit`, and `VISITS` in all, or `max_iter`."""
    most = min(limit, max(1, VISITS // max(1, n_visits))) if max_iter is None else max_iter
    chosen = [p for p in READ_OUTS if p <= most]
    return chosen if max_iter is None or max_iter in chosen else [*chosen, max_iter]


def left_out(n):
    """The rows that half of the members do not learn; 1 at least.

    Examples
    --------
    >>> [len(left_out(n)) for n in (2, 60, 300, 5000)]
    [1, 15, 50, 500]
    """
    every = max(_LARGEST, min(_SHARE, n // _ENOUGH))
    return np.arange(every - 1, n, every) if n >= every else np.array([n - 1])


def race(team, kernel, data, gammas, learner, when, loss_of, held=None, watch=None):
    """Passes over all rows, read on rows left out.

    Parameters
    ----------
    team : Workers
    kernel : part
    data : Data
    gammas : sequence of float or None
    learner : Isotropic
    when : list of int
        After which passes to read.
    loss_of : callable
        (decisions, targets) -> loss of every row.
    held : ndarray, optional
        Numbers of the rows to leave out; those of `left_out` by default.
    watch : dict, optional
        What to call around each pass (`passage`).

    Returns
    -------
    Race
    """
    n, k = data.targets.shape
    held = left_out(n) if held is None else held
    members = [Member(g, learner, name) for g in gammas for name in ("part", "all")]
    engine = Blocked(kernel, members, k, like(data), n_rows=n, cache=data.cache)
    shares = np.ones((len(members), n))
    shares[0::2, held] = 0.0
    found = []
    for epoch in range(when[-1]):
        engine.restart()
        stopped = passage(team, engine, data, epoch, shares=shares, **(watch or {}))
        if stopped and found:
            break
        if epoch + 1 not in when:
            continue
        new = _read(team, data, engine, held, epoch + 1, loss_of)
        found += new
        best = min(found, key=lambda r: r.error)
        far = [r.error > best.error + 2.0 * best.spread for r in new]
        late = passes_since(found, best) >= _PATIENCE and len(held) >= _MANY
        if all(far) or late or stopped:
            break
        alive = [2 * i + j for i, out in enumerate(far) if not out for j in (0, 1)]
        engine.keep(alive)
        shares = shares[alive]
    totals = np.bincount(*data.order(0), minlength=n)
    return Race(engine, found, epoch + 1, data.targets[held], totals[held])


def _read(team, data, engine, held, passes, loss_of):
    gammas = engine.gammas
    parts = [engine.mean(i) for i in range(0, len(engine.members), 2)]
    decisions = decide(team, data, engine, held, parts)
    out = []
    for i, (gamma, f) in enumerate(zip(gammas, decisions, strict=True)):
        loss = loss_of(f, data.targets[held])
        error, spread = float(loss.mean()), standard_error(loss)
        out.append(ReadOut(gamma, passes, error, spread, rms(f), engine.mean(2 * i + 1), f))
    return out


def decide(team, data, engine, numbers, coefs):
    """Decisions of rows in memory for each bandwidth of the engine."""
    tables, out = [c.astype(engine.dtype) for c in coefs], []
    for start in range(0, len(numbers), BLOCK):
        r = numbers[start : start + BLOCK]
        out.append(engine.values(team, data.block(r, None), tables))
    k = data.targets.shape[1]
    empty = np.zeros((len(numbers), k))
    return [
        empty if out[0][g] is None else np.vstack([o[g] for o in out]) for g in range(len(tables))
    ]


def shortlist(progress, keep=KEPT):
    """Which members go on: the best by progressive risk over the last half of the rows."""
    return sorted(np.argsort(risks(progress), kind="stable")[:keep].tolist())


def train(
    team, kernel, data, gamma, learner, n_passes, *, suffix=False, classify=True, apart=False,
    watch=None,
):  # fmt: skip
    """Passes of a single learner.

    Parameters
    ----------
    suffix : bool, default=False
        Start the average anew with each pass.
    classify : bool, default=True
        Record mistakes rather than squared errors.
    apart : bool, default=False
        See `Blocked`.
    watch : dict, optional
        What to call around each pass (`passage`).

    Returns
    -------
    engine : Blocked
    progress : Progress
        Of the running average and of the iterate in the first pass.
    n_passes : int
        Passes made.
    """
    n, k = data.targets.shape
    member = Member(gamma, learner)
    engine = Blocked(kernel, [member], k, like(data), n, data.cache, apart)
    progress = start_progress(2, k, n)

    def scored(scores, y, w):
        record(progress, classify, k, [scores[0][0], scores[0][1]], y, w)

    for epoch in range(n_passes):
        if suffix:
            engine.restart()
        first = scored if epoch == 0 else None
        if passage(team, engine, data, epoch, scored=first, **(watch or {})):
            break
    return engine, progress, epoch + 1
