"""Outliers in columns and targets: far entries are clipped, extreme ones count as missing.

The reach of a column is the largest |x - centre| accepted so far. An entry beyond 10^6 times the
reach is an outlier: it is replaced by the centre, and the reach does not change. An entry beyond
ten times the reach is clipped: it counts as the reach, which grows tenfold. So one extreme row
changes neither the learner nor the columns' scales. Ordinary rows, even with heavy tails, have
hardly any outliers (of n entries with P(|x| > t) ~ t^-a about ln(n) 10^-6a), and a scale may grow
tenfold with every entry.

A young column has not shown its scale: after n < 16 entries the next may be 10^(16 / n) times the
reach. If n entries have one law with a bounded density near the centre, all of them are smaller
than that with a probability of only 10^-16.

Both limits are multiplied by 10^c, where c counts the column's outliers, and doubles when they
follow one another: a real change of scale by any factor is accepted in the end. Rows are processed
one by one: neither the chunks' sizes nor the unit of a column makes a difference.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from tunefree.core.jit import kernel
from tunefree.core.warn import DataWarning, warn
from tunefree.parts.losses import NORMAL
from tunefree.rows.designs import Dense, count, design_of, entry, index, put
from tunefree.rows.matrices import as_dense, canonical, entries, resized

# Beyond FAR times the reach an entry is far, beyond _EXTREME_NEXT times an outlier. The units of
# columns differ at most by _APART.
FAR, _EXTREME_NEXT, _APART = 10.0, 1e6, 1e16
# The same limit for outliers in memory, where an entry is compared with all others.
EXTREME = 1e4
# Entries after which a column is no longer young: then 10^(16 / n) is FAR.
_YOUNG = 16
# Rows for the centre of columns in memory, and for the limits of columns.
_CENTRE_ROWS, _LIMIT_ROWS = 1001, 10_000
# After this many rows, none of the rest may be far: then the scan can end.
_FIRST_ROWS = 4096
# Up to this many entries a test without compiled code comes first.
_FEW_ENTRIES = 2**16
# Targets count at most this many robust standard deviations from their location.
DELTA = 4.0
# A row is dominant if it carries this many times its share of the constant's loss, and this part of
# the whole.
_TIMES_SHARE, _PART_OF_LOSS = 10.0, 0.1
# A target is dominant if it carries this part of the squares of all: the first, and those after it
# of the rest, since tails are then known to be heavy. If .3 were enough, every fifth sample of
# amounts (lognormal, sigma 1) would have a dominant target; with .8 one of 250 has. Where lognormal
# targets (sigma 5) have one, trees have 3.8 times the constant's loss if the next must carry .8,
# too, and 1.3 if .5. At most one target of so many is dominant.
_DOMINANT, _NEXT_DOMINANT = 0.8, 0.5
_ROWS_OF_DOMINANT = 100
# The clock: rows, rows with an outlier, the largest reach, columns whose last entry was an outlier,
# rows with a clipped entry.
ROWS, OUTLIERS, LARGEST, MARKED, CLIPPED = 0, 1, 2, 3, 4
# A column's history: outliers, whether the last entry was one, accepted entries (counted up to 16).
_N_OUTLIERS, _LAST, _COUNT = 0, 1, 2
# How an entry is classified.
_ACCEPTED, _CLIPPED, _OUTLIER = 0, 1, 2


@kernel(borrows=True)
def _classify(gap, j, guard):
    """Whether an entry is accepted, clipped or an outlier."""
    # A power beyond 300 exceeds every ratio of accepted numbers.
    patience = 10.0 ** min(guard.history[j, _N_OUTLIERS], 300.0)
    n_entries, farthest = guard.history[j, _COUNT], guard.clock[LARGEST]
    if n_entries < _YOUNG and guard.reach[j] <= farthest / _APART:  # as if the column were new
        return _OUTLIER if farthest > 0.0 and gap / farthest > _APART * patience else _ACCEPTED
    ratio = gap / guard.reach[j] / patience
    clip_beyond = FAR if n_entries >= _YOUNG else 10.0 ** (_YOUNG / n_entries)
    if ratio <= clip_beyond:
        return _ACCEPTED
    return _OUTLIER if ratio > max(clip_beyond, _EXTREME_NEXT) else _CLIPPED


@kernel(borrows=True)
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


@kernel(borrows=True)
def _count_outlier(j, guard):
    history, clock = guard.history, guard.clock
    if history[j, _LAST] != 0.0:
        history[j, _N_OUTLIERS] = 2.0 * history[j, _N_OUTLIERS] + 1.0
    else:
        history[j, _N_OUTLIERS] += 1.0
        history[j, _LAST] = 1.0
        clock[MARKED] += 1.0


@kernel(borrows=True)
def _first_to_amend(design, rows, first, guard, chosen):
    """Accept rows until one has an entry to amend; its position, or the number of rows.

    `chosen` is a buffer, as long as the longest row.
    """
    for q in range(first, rows.shape[0]):
        i, n_chosen = rows[q], 0
        marked = guard.clock[MARKED] > 0.0
        for p in range(count(design, i)):
            j = index(design, i, p)
            gap = abs(entry(design, i, p) - guard.centre[j])
            if marked or gap > guard.quiet[j]:  # others change nothing
                if gap > guard.reach[j] and _classify(gap, j, guard) != _ACCEPTED:
                    return q
                chosen[n_chosen] = p
                n_chosen += 1
        for k in range(n_chosen):
            j = index(design, i, chosen[k])
            _accept(abs(entry(design, i, chosen[k]) - guard.centre[j]), j, guard)
        guard.clock[ROWS] += 1.0
    return rows.shape[0]


@kernel(borrows=True)
def _amend(design, i, write, guard):
    """Count a row with far entries, and replace these if `write`; else all count as outliers."""
    n_outliers, clipped = 0.0, 0.0
    for p in range(count(design, i)):
        j = index(design, i, p)
        centre = guard.centre[j]
        gap = entry(design, i, p) - centre
        size, kind = abs(gap), _ACCEPTED
        if size > guard.quiet[j]:
            kind = _classify(size, j, guard)
        if kind == _ACCEPTED:
            _accept(size, j, guard)
            continue
        new_size = 0.0
        if kind == _CLIPPED and write:
            new_size = guard.reach[j]
            _accept(FAR * new_size, j, guard)
            clipped = 1.0
        else:
            _count_outlier(j, guard)
            n_outliers = 1.0
        if write:
            put(design, i, p, centre + (new_size if gap > 0.0 else -new_size))
    guard.clock[ROWS] += 1.0
    guard.clock[OUTLIERS] += n_outliers
    guard.clock[CLIPPED] += clipped


class OutlierFilter(NamedTuple):
    """The reach of the columns so far; `screen` filters rows and updates the arrays.

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

    centre: np.ndarray  # (d,): entries are measured from it; 0 on sparse data
    reach: np.ndarray  # (d,)
    quiet: np.ndarray  # (d,): up to here entries change nothing: the reach; 0 for a young column
    history: np.ndarray  # (d, 3): outliers, whether the last entry was one, accepted ones up to 16
    clock: np.ndarray  # (5,): see `ROWS` and those after it

    @classmethod
    def of(cls, centre):
        """A filter before the first row."""
        centre = np.array(centre, dtype=np.float64)
        d = len(centre)
        return cls(centre, np.zeros(d), np.zeros(d), np.zeros((d, 3)), np.zeros(5))

    @classmethod
    def opened(cls, X):
        """A filter with the reach of the bulk of some first rows, which are not counted.

        The reach is the largest |x - centre| within 100 times the median of those that are not 0.
        """
        if sparse.issparse(X):
            guard, gaps = cls.of(np.zeros(X.shape[1])), X
        else:
            guard = cls.of(np.median(X, axis=0))
            gaps = X - guard.centre
        columns = sparse.csc_array(gaps)
        sizes, starts = np.abs(columns.data.astype(np.float64)), columns.indptr
        for j in np.flatnonzero(np.diff(starts) > 2):  # of one or two, none is an outlier
            of_column = sizes[starts[j] : starts[j + 1]]
            bulk = of_column[of_column <= 100.0 * np.median(of_column)]
            guard.know(bulk.max(), len(bulk), slice(j, j + 1))
        return guard

    def know(self, reach, count=_YOUNG, columns=slice(None)):
        """Set the reach, as if from `count` entries."""
        self.reach[columns] = reach
        self.history[columns, _COUNT] = min(count, _YOUNG)
        self.quiet[columns] = self.reach[columns] * (count >= _YOUNG)
        self.clock[LARGEST] = max(self.clock[LARGEST], np.max(reach))

    def columns(self, d):
        """The filter of d columns; columns that are added or removed have no entries so far."""
        return OutlierFilter(*(resized(a, d) for a in self[:-1]), clock=self.clock)

    @property
    def n_outliers(self):
        """How many rows had an outlier."""
        return int(self.clock[OUTLIERS])

    @property
    def clipped(self):
        """How many rows had a clipped entry."""
        return int(self.clock[CLIPPED])

    def screen(self, X):
        """Rows with far entries and outliers replaced, in order; X itself if there are none."""
        return self._sweep(X, np.arange(X.shape[0]), True)

    def _covers(self, most):
        """Whether no gap up to `most` is far, and no outlier was found."""
        old = (self.history[:, _COUNT] >= _YOUNG) & (most <= FAR * self.reach)
        return not self.n_outliers and bool(np.all(old | (most == 0.0)))

    def _sweep(self, X, rows, write):
        """Scan rows in order; `write` amends a copy, else far entries count as outliers."""
        out, design = X, design_of(X)
        chosen = np.empty(design.longest(), np.int64)
        q = _first_to_amend(design, rows, 0, self, chosen)
        fixed = not entries(X)[0].flags.writeable
        while q < len(rows):
            if out is X and (write or fixed):  # `_amend` is compiled for writable arrays
                out = X.copy()
                design = design_of(out)
            _amend(design, rows[q], write, self)
            q = _first_to_amend(design, rows, q + 1, self, chosen)
        return out


def _no_outliers(X, centre):
    """Whether these dense rows surely have no outliers; needs no compiled code.

    A reach is at least the smallest gap of its column that is not 0. If no gap is beyond 10^6 times
    that, nor beyond 10^16 times the smallest of all columns, there is no outlier in any order of
    the rows.
    """
    gap = np.abs(X - centre.astype(np.float64))
    most, least = gap.max(axis=0), np.where(gap > 0.0, gap, np.inf).min(axis=0)
    # Half of the limits, because of rounding.
    return bool(
        (most <= 0.5 * _EXTREME_NEXT * least).all() and most.max() <= 0.5 * _APART * least.min()
    )


def _uneven_columns(X):
    """Columns of sparse rows that may have a far entry, whatever the order of the rows.

    The reach of a column is at least its smallest entry. If no entry is beyond the limit times
    that, none is far. Columns do not depend on one another unless their units are far apart: then
    all columns are returned.
    """
    d, sizes = X.shape[1], np.abs(X.data).astype(np.float64)
    most, least = np.zeros(d), np.full(d, np.inf)
    np.maximum.at(most, X.indices, sizes)
    np.minimum.at(least, X.indices, sizes)
    others = np.bincount(X.indices, minlength=d) - 1
    limit = 10.0 ** (_YOUNG / np.clip(others, 1, _YOUNG))
    # Half of the limits, because of rounding.
    if most.max(initial=0.0) > 0.5 * _APART * least.min(initial=np.inf):
        return np.arange(d)
    return np.flatnonzero(most > 0.5 * limit * least)


def clip_outliers(X, rows, near=FAR, far=EXTREME):
    """Rows in memory with the outliers of each column replaced.

    Rows are scanned in the given order and backwards, since an outlier may come first. An entry
    beyond `far` times the smaller of the two reaches counts as missing, one beyond `near` times as
    that reach. Columns with few entries have wider limits, as in streams. Dense columns are
    measured from the median of the first rows.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d)
    rows : ndarray of shape (m,)
        Distinct rows.
    near, far : float, default=10 and 10^4
        Learners that clip columns anyway need near=`EXTREME` only.

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
    dense = isinstance(design_of(X), Dense)
    centre = np.median(X[rows[:_CENTRE_ROWS]], axis=0) if dense else np.zeros(X.shape[1])
    if dense and 0 < X.size <= _FEW_ENTRIES and _no_outliers(X[rows], centre):
        return X
    if not dense:
        uneven = _uneven_columns(X)
        scans = _scanned_both_ways(canonical(X[:, uneven]), rows, centre[uneven])
        if not any(scan.n_outliers for scan in scans):
            return X
    forward, backward = _scanned_both_ways(X, rows, centre)
    if not forward.n_outliers and not backward.n_outliers:
        return X
    reach = np.minimum(forward.reach, backward.reach)
    if dense:
        n_values = np.count_nonzero(X[rows] != centre, axis=0)
    else:
        n_values = np.bincount(X.indices, minlength=X.shape[1])
    others = np.clip(n_values - 1, 0.1, _YOUNG)  # a column without others has no limits
    with np.errstate(over="ignore"):
        least = 10.0 ** (_YOUNG / others)
        near, far = np.maximum(near, least) * reach, np.maximum(max(near, far), least) * reach
    X = X.copy()
    values, j = entries(X)
    gap = values - centre[j]
    clipped = np.where(np.abs(gap) > near[j], centre[j] + np.copysign(reach[j], gap), values)
    values[:] = np.where(np.abs(gap) > far[j], centre[j], clipped)
    return X


def _scanned_both_ways(X, rows, centre):
    """Filters that have scanned the rows in their order, and backwards.

    If nothing is far after the first rows, the scan ends with these.
    """
    guards, orders = (OutlierFilter.of(centre), OutlierFilter.of(centre)), (rows, rows[::-1].copy())
    for guard, order in zip(guards, orders, strict=True):
        guard._sweep(X, order[:_FIRST_ROWS], False)
    design = design_of(X)
    if isinstance(design, Dense) and len(rows) > 4 * _FIRST_ROWS:
        low, high = design.ranges()
        most = np.maximum(high - centre, centre - low)
        if all(guard._covers(most) for guard in guards):
            return guards
    for guard, order in zip(guards, orders, strict=True):
        guard._sweep(X, order[_FIRST_ROWS:], False)
    return guards


def drop_outliers(X, targets, rows, given, *, learned=False):
    """Rows and targets in memory without outliers, with a warning.

    `rows` are the distinct ones; the warning has the row number in the user's arrays, `given`. With
    `learned`, outliers stay, and there is only the warning.
    """
    out = []
    for part, user_array, name in zip((X, targets), given, ("X", "y"), strict=True):
        filtered = clip_outliers(part, rows, far=FAR)
        warn_of_changes(part, filtered, user_array, name, learned)
        out.append(part if learned else filtered)
    return out


def warn_of_changes(part, filtered, user_array, name, learned=False):
    """Warn of the entries that a filter has changed; `user_array` has the row's number."""
    odd = None if filtered is part else odd_entries(part, filtered, name)
    if odd is None:
        return
    column = as_dense(user_array[:, [odd.column]])
    row = int(np.flatnonzero(column[:, 0] == odd.value)[0])
    warn_of([odd], f"row {row} and column {odd.column}, counted from 0", learned)


class Odd(NamedTuple):
    """The outliers of X or y: how many, and the first."""

    name: str
    entries: int
    rows: int
    value: float  # of the first
    row: int
    column: int


def odd_entries(part, filtered, name):
    """The `Odd` entries that a filter has changed, or None."""
    if part.ndim == 1:  # targets
        part, filtered = part[:, None], filtered[:, None]
    rows, columns = (part != filtered).nonzero()
    if not len(rows):
        return None
    value = float(part[rows[0], columns[0]])
    return Odd(name, len(rows), len(np.unique(rows)), value, int(rows[0]), int(columns[0]))


def warn_of(found, place, learned=False):
    """Warn of odd entries; `place` is that of the first."""
    what = "learned as it is" if learned else "taken as missing"
    entries, rows = sum(f.entries for f in found), sum(f.rows for f in found)
    warn(
        f"{found[0].name} has entries more than ten times as far from the middle of their column "
        f"as any other: {entries} in {rows} distinct rows, the first {found[0].value:g} in "
        f"{place}. Each is {what}."
    )


def column_caps(X, rows, reach=10.0):
    """Limits of each column: median -+ max(reach q95, q98) of |x - median|; none where q95 is 0.

    They come from the first 10,000 rows. Single extreme values are clipped. A column that is mostly
    constant and sometimes not, such as a pixel near the border, keeps its range.
    """
    block = X[rows[:_LIMIT_ROWS]]
    block = as_dense(block)
    block = block.astype(np.float64, copy=False)
    middle = np.median(block, axis=0)
    usual, rare = np.quantile(np.abs(block - middle), (0.95, 0.98), axis=0)
    spread = np.where(usual > 0.0, np.maximum(reach * usual, rare), np.inf)
    return middle - spread, middle + spread


def location_and_scale(y, centred=True, tails=True):
    """Median and robust scale of each target: max(1.4826 MAD, q95 / 1.96), else the mean, else 1.

    If `centred` is False, the location is 0. A twentieth of outliers spoils the quantile, but only
    half of them the MAD: without `tails` the quantile is used only where the MAD is 0.

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

    They are ten times as far from the middle as any entry; the middle of sparse columns is 0.

    Examples
    --------
    >>> limits_of_columns(np.array([[1.0], [2.0], [3.0]])).ravel()
    array([-8., 12.])
    """
    design = design_of(X)
    low, high = design.ranges()
    is_dense = isinstance(design, Dense)
    middle = np.median(X[:_CENTRE_ROWS], axis=0).astype(np.float64) if is_dense else 0.0
    far = np.maximum(high - middle, middle - low)
    with np.errstate(over="ignore"):
        return np.array([middle - FAR * far, middle + FAR * far])


def within_limits(X, limits):
    """Rows whose entries outside the limits are replaced by their middle; X if there are none.

    Examples
    --------
    >>> within_limits(np.array([[1.0, 99.0]]), np.array([[-1.0, -1.0], [1.0, 3.0]]))
    array([[1., 1.]])
    """
    low, high = limits
    values, j = entries(X)
    outside = (values < low[j]) | (values > high[j])
    if not outside.any():
        return X
    X = X.copy()
    values, _ = entries(X)
    values[:] = np.where(outside, (0.5 * low + 0.5 * high)[j], values)
    return X


def limit_dominant(targets, centres, weights):
    """Targets without dominant ones: these are as far from their centres as the farthest other.

    A target is dominant if it carries `_DOMINANT` of the squares about the centres
    (`_NEXT_DOMINANT` of the rest, if another one is), and ten times its share. Values that occur
    twice are not, and no more than one row of a hundred is. The centres are medians, or held-out
    predictions. Limited targets differ by a billionth, so that rows that differ remain so.

    Parameters
    ----------
    targets, centres, weights : ndarray of shape (n,)

    Returns
    -------
    ndarray of shape (n,)
        The targets themselves if none is dominant.

    Examples
    --------
    >>> y = np.append(np.arange(-2.0, 3.0).repeat(20), 900.0)
    >>> limit_dominant(y, np.zeros(101), np.ones(101))[-1]
    np.float64(2.000000002)
    """
    gaps = targets - centres
    carried, kept = weights * np.square(gaps), np.ones(len(targets), dtype=bool)
    several, part = _TIMES_SHARE * weights / weights.sum(), _DOMINANT
    for _ in range(max(len(targets) // _ROWS_OF_DOMINANT, 1)):
        i = int(np.argmax(np.where(kept, carried, -1.0)))
        alone = np.count_nonzero(targets == targets[i]) == 1
        if not alone or carried[i] <= max(several[i], part) * carried[kept].sum():
            break
        kept[i], part = False, _NEXT_DOMINANT
    reach = np.abs(gaps[kept]).max(initial=0.0)
    if kept.all() or reach == 0.0:
        return targets
    limited = targets.copy()
    for rank, i in enumerate(sorted(np.flatnonzero(~kept), key=lambda i: abs(gaps[i])), 1):
        limited[i] = centres[i] + np.copysign((1.0 + 1e-9 * rank) * reach, gaps[i])
    return limited


def warn_of_dominant(targets, limited, rows):
    """Warn of targets that `limit_dominant` has changed; `rows` are their numbers in y."""
    changed = np.flatnonzero(limited != targets)
    i = changed[np.argmax(np.abs(limited - targets)[changed])]
    middle = np.median(targets)
    share = np.square(targets[i] - middle) / np.square(targets - middle).sum()
    warn(
        f"y[{rows[i]}] = {targets[i]:g} carries {share:.0%} of the squares of y about its median, "
        f"and counts as {limited[i]:g} ({len(changed)} such targets). If targets have heavy tails "
        "or errors, loss='absolute_error' predicts medians, and loss='huber' (TuneFreeRegressor, "
        "GLMRegressor) means without their pull.",
        DataWarning,
    )
