"""Outliers: what is absurd is missing, what is merely far is clipped, in columns and in targets.

A column's reach is the largest |x - centre| accepted so far. An entry beyond 10^6 times the reach
is struck: it is replaced by the centre, and the reach stays. One beyond ten times is clipped: it
counts as the reach, which grows tenfold. So one absurd row teaches nothing and leaves the columns'
scales as they were; ordinary rows, heavy tails included, are not struck (of n entries with
P(|x| > t) ~ t^-a about ln(n) 10^-6a are), and a scale may grow by ten with every entry.

A column of few entries has not shown its scale: after n < 16 of them the next may be 10^(16 / n)
times the reach. Where n entries have one law, that all are smaller than that takes a chance of
10^-16, if the law has a bounded density near the centre.

Both limits are multiplied by 10^c, where c counts the column's struck entries, and doubles when
they follow one another: a real change of scale by any factor is accepted in the end. Rows go
through one by one: chunks make no difference, nor does the unit of a column.
"""

import warnings
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import stdtrit

from tunefree._array import Elsewhere
from tunefree._jit import kernel
from tunefree.designs import CSR, Dense, count, entry, index, put, resized
from tunefree.losses import NORMAL

# How far beyond the reach is far, and how far absurd; columns may have units that far apart.
FAR, _EXTREME_NEXT, _APART = 10.0, 1e6, 1e16
# In memory, an entry is compared with all others, not only with those before it.
EXTREME = 1e4
# Entries after which a column is no longer young: then 10^(16 / n) is FAR.
_YOUNG = 16
# How many rows tell the centre of columns in memory, and how many the limits of columns.
_CENTRED, _SAMPLE = 1001, 10_000
# After so many rows it may be plain that none of the rest is far.
_FIRST = 4096
# Up to so many entries a sweep may be spared, and with it its compilation.
_FEW = 2**16
# Targets count up to so many robust standard deviations from their location.
DELTA = 4.0
# By how much of their width predictions may go beyond what was fitted.
_WIDER = (1.0, 0.5, 0.25, 0.0)
# The share of targets on either side that speak for the range.
_SHARE = 0.02
# A row does not decide alone: one that carries so many times its part of the constant's loss, and
# such a part of it all.
_HEAVY, _LOADED = 10.0, 0.1
# Two standard errors, as a probability; so few rows tell nothing of a choice.
_SURE, _FEWEST = 0.97725, 6
# The clock: rows seen, rows with a struck entry, the largest reach, columns struck last time, rows
# with a clipped entry.
ROWS, OUTLIERS, LARGEST, MARKED, CLIPPED = 0, 1, 2, 3, 4
# The fields of a column's history: struck entries, whether the last one was, accepted entries (no
# longer counted once they are many).
_STRIKES, _LAST, _COUNT = 0, 1, 2
_KEPT, _CLIPPED, _OUTLIERS = 0, 1, 2


@kernel
def _verdict(gap, j, guard):
    """Whether an entry is kept, clipped or struck."""
    # A power beyond 300 exceeds every ratio of accepted numbers.
    patience = 10.0 ** min(guard.history[j, _STRIKES], 300.0)
    seen, farthest = guard.history[j, _COUNT], guard.clock[LARGEST]
    if seen < _YOUNG and guard.reach[j] <= farthest / _APART:  # as good as new, if not new
        return _OUTLIERS if farthest > 0.0 and gap / farthest > _APART * patience else _KEPT
    ratio = gap / guard.reach[j] / patience
    near = FAR if seen >= _YOUNG else 10.0 ** (_YOUNG / seen)
    if ratio <= near:
        return _KEPT
    return _OUTLIERS if ratio > max(near, _EXTREME_NEXT) else _CLIPPED


@kernel
def _accept(gap, j, guard):
    history, clock = guard.history, guard.clock
    if gap > guard.reach[j]:
        guard.reach[j] = gap
        clock[LARGEST] = max(clock[LARGEST], gap)
    if gap > 0.0 and history[j, _COUNT] < _YOUNG:
        history[j, _COUNT] += 1.0
    guard.quiet[j] = guard.reach[j] if history[j, _COUNT] >= _YOUNG else 0.0
    if history[j, _LAST] != 0.0:
        history[j, _LAST] = 0.0
        clock[MARKED] -= 1.0


@kernel
def _strike(j, guard):
    history, clock = guard.history, guard.clock
    if history[j, _LAST] != 0.0:
        history[j, _STRIKES] = 2.0 * history[j, _STRIKES] + 1.0
    else:
        history[j, _STRIKES] += 1.0
        history[j, _LAST] = 1.0
        clock[MARKED] += 1.0


@kernel
def _pass(design, rows, first, guard):
    """Accept rows until one has an entry to amend; its place, or how many rows there are."""
    for q in range(first, rows.shape[0]):
        i = rows[q]
        grows = False
        for p in range(count(design, i)):
            j = index(design, i, p)
            gap = abs(entry(design, i, p) - guard.centre[j])
            if gap > guard.quiet[j]:
                grows = True
                if gap > guard.reach[j] and _verdict(gap, j, guard) != _KEPT:
                    return q
        if grows or guard.clock[MARKED] > 0.0:
            for p in range(count(design, i)):
                j = index(design, i, p)
                _accept(abs(entry(design, i, p) - guard.centre[j]), j, guard)
        guard.clock[ROWS] += 1.0
    return rows.shape[0]


@kernel
def _amend(design, i, write, guard):
    """Take in a row with entries that are far: they are clipped or struck; or struck, unwritten."""
    n_outliers, clipped = 0.0, 0.0
    for p in range(count(design, i)):
        j = index(design, i, p)
        centre = guard.centre[j]
        gap = entry(design, i, p) - centre
        size, verdict = abs(gap), _KEPT
        if size > guard.quiet[j]:
            verdict = _verdict(size, j, guard)
        if verdict == _KEPT:
            _accept(size, j, guard)
            continue
        counted = 0.0
        if verdict == _CLIPPED and write:
            counted = guard.reach[j]
            _accept(FAR * counted, j, guard)
            clipped = 1.0
        else:
            _strike(j, guard)
            n_outliers = 1.0
        if write:
            put(design, i, p, centre + (counted if gap > 0.0 else -counted))
    guard.clock[ROWS] += 1.0
    guard.clock[OUTLIERS] += n_outliers
    guard.clock[CLIPPED] += clipped


class OutlierFilter(NamedTuple):
    """What is known of the columns' reach; `screen` updates the arrays.

    Attributes
    ----------
    centre : ndarray of shape (d,)
        Entries are measured from it; 0 on sparse data.
    reach : ndarray of shape (d,)
    quiet : ndarray of shape (d,)
        Up to here an entry tells nothing new: the reach, or 0 while the column is young.
    history : ndarray of shape (d, 3)
        Struck entries, whether the last entry was one, accepted entries (up to 16).
    clock : ndarray of shape (5,)
        Rows seen, rows with a struck entry, the largest reach, columns whose last was struck, rows
        with a clipped entry.

    Examples
    --------
    >>> guard = OutlierFilter.of(np.zeros(1))
    >>> rows = np.tile([[1.0], [2.0]], (50, 1))
    >>> guard.screen(rows) is rows
    True
    >>> guard.screen(np.array([[-99.0], [-2.0], [1e30], [19.0]])).ravel()
    array([-2., -2.,  0., 19.])
    >>> guard.n_outliers, guard.clipped
    (1, 1)
    """

    centre: np.ndarray
    reach: np.ndarray
    quiet: np.ndarray
    history: np.ndarray
    clock: np.ndarray

    @classmethod
    def of(cls, centre):
        """A guard that has seen nothing."""
        centre = np.array(centre, dtype=np.float64)
        d = len(centre)
        return cls(centre, np.zeros(d), np.zeros(d), np.zeros((d, 3)), np.zeros(5))

    @classmethod
    def opened(cls, X):
        """A guard that knows the bulk of some first rows; it has seen none of them.

        The reach is the largest |x - centre| within 100 times the median of those that are not 0.
        """
        if sparse.issparse(X):
            guard = cls.of(np.zeros(X.shape[1]))
            columns = sparse.csc_array(X)
            gaps, starts = np.abs(columns.data.astype(np.float64)), columns.indptr
            for j in np.flatnonzero(np.diff(starts) > 2):  # of one or two, none is the odd one
                guard._know_bulk(j, gaps[starts[j] : starts[j + 1]])
            return guard
        guard = cls.of(np.median(X, axis=0))
        gaps = np.abs(X - guard.centre)
        for j in np.flatnonzero(np.count_nonzero(gaps, axis=0) > 2):
            guard._know_bulk(j, gaps[gaps[:, j] > 0.0, j])
        return guard

    def _know_bulk(self, j, gaps):
        bulk = gaps[gaps <= 100.0 * np.median(gaps)]
        if len(bulk):  # stored zeros alone tell nothing
            self.know(bulk.max(), len(bulk), j)

    def know(self, reach, count=_YOUNG, columns=slice(None)):
        """Take the reach of so many entries as known."""
        self.reach[columns] = reach
        self.history[columns, _COUNT] = min(count, _YOUNG)
        self.quiet[columns] = self.reach[columns] * (count >= _YOUNG)
        self.clock[LARGEST] = max(self.clock[LARGEST], np.max(reach))

    def columns(self, d):
        """The guard of d columns: new ones have not been seen, and those that go must not have."""
        return OutlierFilter(*(resized(a, d) for a in self[:-1]), clock=self.clock)

    @property
    def n_outliers(self):
        """How many rows had an entry that was struck."""
        return int(self.clock[OUTLIERS])

    @property
    def clipped(self):
        """How many rows had an entry that was clipped."""
        return int(self.clock[CLIPPED])

    def screen(self, X):
        """Rows, in order, without what is far beyond; X itself if there is nothing to amend."""
        return self._sweep(X, np.arange(X.shape[0]), True)

    def _outlives(self, most):
        """Whether no gap up to these is far from what is known, and nothing was struck."""
        old = (self.history[:, _COUNT] >= _YOUNG) & (most <= FAR * self.reach)
        return not self.n_outliers and bool(np.all(old | (most == 0.0)))

    def _sweep(self, X, rows, write):
        """Chosen rows in order; `write` amends a copy, else whatever is far is struck."""
        out, make = X, CSR.from_scipy if sparse.issparse(X) else Dense
        design = make(X)
        q = _pass(design, rows, 0, self)
        fixed = not (X.data if sparse.issparse(X) else X).flags.writeable
        while q < len(rows):
            if out is X and (write or fixed):  # what amends is compiled for what can be written
                out = X.copy()
                design = make(out)
            _amend(design, rows[q], write, self)
            q = _pass(design, rows, q + 1, self)
        return out


def _no_outliers(X, centre):
    """Whether it is plain, without compiling, that sweeps of these dense rows strike nothing.

    A reach is at least the least gap of its column that is not 0. If no gap is beyond 10^6 times
    that, or 10^16 times the least of all columns, none is struck, in whatever order rows come.
    """
    gap = np.abs(X - centre.astype(np.float64))
    most, least = gap.max(axis=0), np.where(gap > 0.0, gap, np.inf).min(axis=0)
    # Half of the limits, because of rounding.
    return bool(
        (most <= 0.5 * _EXTREME_NEXT * least).all() and most.max() <= 0.5 * _APART * least.min()
    )


def clip_outliers(X, rows, near=FAR, far=EXTREME):
    """Rows in memory without entries far beyond the others of their column.

    Rows are swept in the given order and backwards, since the odd one may come first. An entry
    beyond `far` times the lesser of the two reaches is struck, one beyond `near` times counts as
    that reach; columns of few entries are allowed more, as in streams. Dense columns are measured
    from the median of the first rows.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d)
    rows : ndarray of shape (m,)
        Distinct rows.
    near, far : float, default=10 and 10^4
        Learners whose views bound far entries anyway need `EXTREME` only.

    Returns
    -------
    ndarray or CSR of shape (n, d)
        X itself if there is nothing to amend.

    Examples
    --------
    >>> X = np.array([[1e30, 1.0], [99.0, 1.0], *[[1.0, 2.0], [3.0, 4.0]] * 99])
    >>> rows = np.arange(200)
    >>> clip_outliers(X, rows)[:2, 0], clip_outliers(sparse.csr_array(X), rows)[[0, 1]].data
    (array([3., 5.]), array([0., 1., 3., 1.]))
    """
    dense = not sparse.issparse(X)
    centre = np.median(X[rows[:_CENTRED]], axis=0) if dense else np.zeros(X.shape[1])
    if dense and 0 < X.size <= _FEW and _no_outliers(X[rows], centre):
        return X
    guards, orders = (OutlierFilter.of(centre), OutlierFilter.of(centre)), (rows, rows[::-1].copy())
    for guard, order in zip(guards, orders, strict=True):
        guard._sweep(X, order[:_FIRST], False)
    if dense and len(rows) > 4 * _FIRST:
        most = np.maximum(X.max(axis=0) - centre, centre - X.min(axis=0))
        if all(guard._outlives(most) for guard in guards):
            return X
    for guard, order in zip(guards, orders, strict=True):
        guard._sweep(X, order[_FIRST:], False)
    if not any(guard.n_outliers for guard in guards):
        return X
    reach = np.minimum(guards[0].reach, guards[1].reach)
    if dense:
        count = np.count_nonzero(X[rows] != centre, axis=0)
    else:
        count = np.bincount(X.indices, minlength=X.shape[1])
    others = np.clip(count - 1, 0.1, _YOUNG)  # of none, nothing is known
    with np.errstate(over="ignore"):
        young = 10.0 ** (_YOUNG / others)
        near, far = np.maximum(near, young) * reach, np.maximum(max(near, far), young) * reach
    if dense:
        gap = X - centre
        clipped = np.where(np.abs(gap) > near, centre + np.copysign(reach, gap), X)
        return np.where(np.abs(gap) > far, centre, clipped).astype(X.dtype, copy=False)
    X, j = X.copy(), X.indices
    gap = np.abs(X.data)
    X.data[:] = np.where(gap > near[j], np.copysign(reach[j], X.data), X.data)
    X.data[gap > far[j]] = 0.0
    return X


def drop_outliers(X, targets, rows, given, *, learned=False):
    """Rows and targets in memory without what is absurd, with a warning.

    `rows` are the distinct ones; the warning counts rows as the user gave them, (X, targets). What
    is to be `learned` as it is costs a warning only.
    """
    out = []
    for part, before, name in zip((X, targets), given, ("X", "y"), strict=True):
        rest = clip_outliers(part, rows, far=FAR)
        if rest is not part:
            _warn(part, rest, before, learned, name)
        out.append(part if learned else rest)
    return out


def _warn(part, rest, given, learned, name):
    """Warn of the entries in which two versions of rows differ."""
    found = odd_entries(part, rest, name)
    if found is None:
        return
    column = given[:, [found.column]]
    column = column.toarray() if sparse.issparse(given) else column
    place = int(np.flatnonzero(column[:, 0] == found.value)[0])
    warn_of([found], f"row {place} and column {found.column}, counted from 0", learned)


class Odd(NamedTuple):
    """Entries of X or y that are far beyond the others of their column."""

    name: str
    entries: int
    rows: int
    value: float  # of the first
    row: int
    column: int


def odd_entries(part, rest, name):
    """The `Odd` entries in which two versions of rows differ, or None."""
    if part.ndim == 1:  # targets
        part, rest = part[:, None], rest[:, None]
    rows, columns = (part != rest).nonzero()
    if not len(rows):
        return None
    value = float(part[rows[0], columns[0]])
    return Odd(name, len(rows), len(np.unique(rows)), value, int(rows[0]), int(columns[0]))


def warn_of(found, place, learned=False, level=8):
    """Warn of odd entries, of which the first is at a place."""
    what = "learned as it is" if learned else "taken as missing"
    entries, rows = sum(f.entries for f in found), sum(f.rows for f in found)
    warnings.warn(
        f"{found[0].name} has entries more than ten times as far from the middle of their column "
        f"as any other: {entries} in {rows} distinct rows, the first {found[0].value:g} in "
        f"{place}. Each is {what}.", UserWarning, stacklevel=level,
    )  # fmt: skip


def column_caps(X, rows, reach=10.0):
    """Limits of each column: median -+ max(reach q95, q98) of |x - median|; none where q95 is 0.

    The first 10,000 rows tell them. Single absurd values are cut; a column that is mostly constant
    and sometimes not, such as a pixel near the border, keeps its range.
    """
    block = X[rows[:_SAMPLE]]
    block = block.toarray() if sparse.issparse(block) else block
    block = block.astype(np.float64, copy=False)
    middle = np.median(block, axis=0)
    usual, rare = np.quantile(np.abs(block - middle), (0.95, 0.98), axis=0)
    spread = np.where(usual > 0.0, np.maximum(reach * usual, rare), np.inf)
    return middle - spread, middle + spread


def location_and_scale(y, centred=True, tails=True):
    """Median and robust scale of each target: max(1.4826 MAD, q95 / 1.96), else the mean, else 1.

    `centred` keeps 0 as the location if False. A twentieth of wild targets spoils the quantile, and
    it takes half to spoil the MAD: without `tails` the quantile counts only where the MAD is 0.

    Examples
    --------
    >>> m, s = location_and_scale(np.array([[1.0], [2.0], [3.0]]))
    >>> m
    array([2.])
    """
    m = np.median(y, axis=0) if centred else np.zeros(y.shape[1])
    r = np.abs(y - m)
    s, tail = NORMAL * np.median(r, axis=0), np.quantile(r, 0.95, axis=0) / 1.96
    s = np.where((s > 0.0) & (not tails), s, np.maximum(s, tail))
    s = np.where(s > 0.0, s, r.mean(axis=0))
    return m, np.where(s > 0.0, s, 1.0)


def limits_of_columns(X):
    """Limits of each column, shape (2, d), beyond which entries count as missing.

    Ten times as far from the middle as any accepted entry; the middle of sparse columns is 0.

    Examples
    --------
    >>> limits_of_columns(np.array([[1.0], [2.0], [3.0]])).ravel()
    array([-8., 12.])
    """
    if sparse.issparse(X):
        middle, far = 0.0, np.abs(X).max(axis=0).toarray().ravel().astype(np.float64)
    else:
        middle = np.median(X[:_CENTRED], axis=0).astype(np.float64)
        far = np.maximum(X.max(axis=0) - middle, middle - X.min(axis=0))
    with np.errstate(over="ignore"):
        return np.array([middle - FAR * far, middle + FAR * far])


def within_limits(X, reach):
    """Rows whose entries outside the reach count as its middle, as in learning; X if none is.

    Examples
    --------
    >>> within_limits(np.array([[1.0, 99.0]]), np.array([[-1.0, -1.0], [1.0, 3.0]]))
    array([[1., 1.]])
    """
    low, high = reach
    if isinstance(X, Elsewhere):
        return X.within(low, high)
    if sparse.issparse(X):
        out = (X.data < low[X.indices]) | (X.data > high[X.indices])
        if out.any():
            X, j = X.copy(), X.indices[out]
            X.data[out] = 0.5 * low[j] + 0.5 * high[j]
        return X
    out = (X < low) | (X > high)
    if not out.any():
        return X
    return np.where(out, 0.5 * low + 0.5 * high, X).astype(X.dtype, copy=False)


def limits_of_predictions(predictions, fitted, targets, weights, rows=slice(None)):
    """Ends of predictions, shape (2, k): those of the fitted values, wider where that was better.

    By how much of their width, of 1, 1/2, 1/4 and 0, is judged by the squared errors of what was
    `said` of `rows` left out, within the ends of the others. A line says little of rows far from
    all that it was fitted to, and only the outermost rows tell how little.

    Examples
    --------
    >>> x, w = np.linspace(0.0, 1.0, 5)[:, None], np.ones(5)
    >>> limits_of_predictions(x, x, x, w).ravel(), limits_of_predictions(2 * x, x, x, w).ravel()
    (array([-1.,  2.]), array([0., 1.]))
    """
    if len(fitted) < 2:
        return np.repeat(fitted, 2, axis=0)
    first, second = np.partition(fitted, 1, axis=0)[:2]
    last, next_last = -np.partition(-fitted, 1, axis=0)[:2]
    own = fitted[rows]
    # Without itself, an outermost row has the next one as its end.
    low, high = np.where(own == first, second, first), np.where(own == last, next_last, last)
    width = np.maximum(high - low, 0.0)
    risks = [
        weights
        @ np.square(np.clip(predictions, low - share * width, high + share * width) - targets)
        for share in _WIDER
    ]
    spread = np.take(_WIDER, np.argmin(risks, axis=0)) * (last - first)
    return np.array([first - spread, last + spread])


def shrinkage_factor(step, ahead, weights, losses=None, spent=0.0):
    r"""How far to go from the constant to what was learned, between 0 and 1, for every target.

    All the way where rows left out gain by it two standard errors or more (of few rows more, by
    Student's law). Else the least squares share b of the step, which lies below it by its
    uncertainty (James and Stein): :math:`b (1 - 1/t^2)_+`, t being b in standard errors. Distinct
    rows count: the unit of weights is free.

    No few rows decide: those that each carry a tenth of the constant's loss, and ten times their
    part of it, are left out until there are none, and the least share holds.

    Parameters
    ----------
    step : ndarray of shape (n, k)
        What was said of rows left out, less the constant.
    ahead : ndarray of shape (n, k)
        Their targets, less the constant.
    weights : ndarray of shape (n,)
    losses : pair of ndarray of shape (n, k) or (n, 1), optional
        The constant's, and those of what was learned; squared errors by default.
    spent : float, default=0
        Degrees of freedom a row: of noise that was fitted or searched, steps follow it by so much
        of its variance (Mallows; or nats of log-loss), which speaks for nothing. It is at least
        one degree for all rows but six, of the variance that the step leaves: a penalty, a pass
        or a slope was chosen on these rows, and six rows tell nothing.

    Examples
    --------
    >>> y, w = np.tile([[1.0], [-1.0], [2.0], [-2.0]], (5, 1)), np.ones(20)
    >>> [shrinkage_factor(c * y, y, w).round(2) for c in (0.5, 4.0, -1.0)]
    [array([1.]), array([0.25]), array([0.])]
    """
    null, told = losses or (np.square(ahead), np.square(ahead - step))
    null, told = np.broadcast_to(null, step.shape), np.broadcast_to(told, step.shape)
    carried = weights[:, None] * null
    spent = np.maximum(spent, _noise(step, ahead, weights) / max(len(step) - _FEWEST, 1))
    gain = null - told - 2.0 * spent * (1.0 if losses else carried.sum(axis=0) / weights.sum())
    share, part = _share(step, ahead, weights, gain, spent), _HEAVY * weights / weights.sum()
    part = np.maximum(part, _LOADED)
    for j in range(step.shape[1]):
        rest = np.ones(len(step), dtype=bool)
        while (heavy := rest & (carried[:, j] > part * carried[rest, j].sum())).any():
            rest &= ~heavy
            some = _share(
                step[rest, j : j + 1], ahead[rest, j : j + 1], weights[rest],
                gain[rest, j : j + 1], spent[j : j + 1],
            )  # fmt: skip
            share[j] = min(share[j], some[0])
    return share if len(step) > 1 else 0.0 * share  # of one row there is no standard error


def _noise(step, ahead, weights):
    """The part of the targets' squares that no multiple of the step takes away, of every target."""
    whole, square = weights @ np.square(ahead), weights @ np.square(step)
    along = np.maximum(weights @ (step * ahead), 0.0)
    taken = np.square(along) / np.maximum(square * whole, 1e-300)
    return np.clip(1.0 - taken, 0.0, 1.0)


def _share(step, ahead, weights, gain, spent):
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        mean = weights @ gain / weights.sum()
        error = np.sqrt(np.square(weights) @ np.square(gain - mean)) / weights.sum()
        square = weights @ np.square(step)
        followed = spent * (weights @ np.square(ahead))  # as uncertain as it is large
        error = np.hypot(error, 2.0 * followed / weights.sum())
        best = (weights @ (step * ahead) - followed) / square
        noise = np.square(weights) @ np.square(step * (ahead - best * step)) + followed**2
        some = np.clip(best - noise / np.square(square) / best, 0.0, 1.0)
    sure = float(stdtrit(max(len(step) - 1, 1), _SURE))
    return np.where((mean > 0.0) & (mean >= sure * error), 1.0, np.where(best > 0.0, some, 0.0))


def few_beyond(y, weights):
    """Limits of each target, of shape (2, k), beyond which on either side 2 % of the weight lie.

    Examples
    --------
    >>> few_beyond(np.arange(101.0)[:, None], np.ones(101)).ravel()
    array([ 2., 98.])
    """

    def low(column):
        order = np.argsort(column, kind="stable")
        below = np.cumsum(weights[order])
        return column[order][np.searchsorted(below, _SHARE * below[-1])]

    return np.array([[low(c) for c in y.T], [-low(-c) for c in y.T]])


def shrinkage_factor_of_classes(p, prior, codes, weights, spent=0.0):
    """How far to go from constant probabilities to those of rows left out, between 0 and 1.

    By `shrinkage_factor` of all classes, with log-losses as if two more rows had been of every
    class in equal parts: few rows do not support certainty.

    Parameters
    ----------
    p, prior : ndarray of shape (n, n_classes) and (n_classes,)
    codes : ndarray of int of shape (n,)
    weights : ndarray of shape (n,)
    spent : float, default=0

    Returns
    -------
    float
    """
    n, width = p.shape
    aims = (n * np.eye(width)[codes] + 2.0 / width) / (n + 2.0)
    logs = (np.log(np.maximum(each, 1e-300)) for each in (prior, p))
    losses = [-(aims * each).sum(axis=1, keepdims=True) for each in logs]
    # The classes of a row are one step, of its length, and targets count along it.
    step = np.linalg.norm(p - prior, axis=1, keepdims=True)
    along = ((p - prior) * (aims - prior)).sum(axis=1, keepdims=True) / np.maximum(step, 1e-300)
    return float(shrinkage_factor(step, along, weights, losses, spent)[0])


def shares_as_scores(codes, weights, width):
    """Log-odds of the classes' shares, of shape (width,): 1 for two classes.

    No share is below half a row.
    """
    counts = np.bincount(codes, weights, minlength=max(width, 2)) / weights.sum()
    logs = np.log(np.maximum(counts, 0.5 / len(codes)))
    return logs[1:] - logs[:1] if width == 1 else logs
