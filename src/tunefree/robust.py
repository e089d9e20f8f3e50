"""Guards: what is astronomically out of line is missing, what is merely far counts as the farthest.

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

from tunefree._jit import kernel

# How far beyond the reach is far, and how far absurd; columns may have units that far apart.
FAR, _ABSURD_NEXT, _APART = 10.0, 1e6, 1e16
# In memory, an entry is compared with all others, not only with those before it.
ABSURD = 1e4
# Entries after which a column is no longer young: then 10^(16 / n) is FAR.
_YOUNG = 16
# How many rows tell the centre of columns in memory.
_CENTRED = 1001
# The clock: rows seen, rows with a struck entry, the largest reach, columns struck last time, rows
# with a clipped entry.
ROWS, STRUCK, LARGEST, MARKED, CLIPPED = 0, 1, 2, 3, 4
# The fields of a column's history: struck entries, whether the last one was, accepted entries (no
# longer counted once they are many).
_STRIKES, _LAST, _COUNT = 0, 1, 2
_KEPT, _CLIPPED, _STRUCK = 0, 1, 2


@kernel
def _verdict(gap, j, reach, history, clock):
    """Whether an entry is kept, clipped or struck."""
    # A power beyond 300 exceeds every ratio of accepted numbers.
    patience = 10.0 ** min(history[j, _STRIKES], 300.0)
    count, farthest = history[j, _COUNT], clock[LARGEST]
    if count < _YOUNG and reach[j] <= farthest / _APART:  # as good as new, if not new
        return _STRUCK if farthest > 0.0 and gap / farthest > _APART * patience else _KEPT
    ratio = gap / reach[j] / patience
    near = FAR if count >= _YOUNG else 10.0 ** (_YOUNG / count)
    if ratio <= near:
        return _KEPT
    return _STRUCK if ratio > max(near, _ABSURD_NEXT) else _CLIPPED


@kernel
def _accept(gap, j, reach, quiet, history, clock):
    if gap > reach[j]:
        reach[j] = gap
        clock[LARGEST] = max(clock[LARGEST], gap)
    if gap > 0.0 and history[j, _COUNT] < _YOUNG:
        history[j, _COUNT] += 1.0
    quiet[j] = reach[j] if history[j, _COUNT] >= _YOUNG else 0.0
    if history[j, _LAST] != 0.0:
        history[j, _LAST] = 0.0
        clock[MARKED] -= 1.0


@kernel
def _strike(j, history, clock):
    if history[j, _LAST] != 0.0:
        history[j, _STRIKES] = 2.0 * history[j, _STRIKES] + 1.0
    else:
        history[j, _STRIKES] += 1.0
        history[j, _LAST] = 1.0
        clock[MARKED] += 1.0


@kernel
def _amend(gap, j, clips, reach, quiet, history, clock):
    """Take notice of an entry; how far from the centre it is to count, or -1 as it is."""
    verdict = _KEPT
    if gap > quiet[j]:
        verdict = _verdict(gap, j, reach, history, clock)
    if verdict == _CLIPPED and clips:
        counted = reach[j]
        _accept(FAR * counted, j, reach, quiet, history, clock)
        clock[CLIPPED] += 1.0
        return counted
    if verdict != _KEPT:
        _strike(j, history, clock)
        clock[STRUCK] += 1.0
        return 0.0
    _accept(gap, j, reach, quiet, history, clock)
    return -1.0


@kernel
def _pass_dense(X, rows, first, centre, reach, quiet, history, clock):
    """Accept rows until one has an entry to amend; its place, or how many rows there are."""
    for q in range(first, rows.shape[0]):
        i = rows[q]
        grows = False
        for j in range(X.shape[1]):
            gap = abs(X[i, j] - centre[j])
            if gap > quiet[j]:
                grows = True
                if gap > reach[j] and _verdict(gap, j, reach, history, clock) != _KEPT:
                    return q
        if grows or clock[MARKED] > 0.0:
            for j in range(X.shape[1]):
                _accept(abs(X[i, j] - centre[j]), j, reach, quiet, history, clock)
        clock[ROWS] += 1.0
    return rows.shape[0]


@kernel
def _amend_dense(X, i, write, centre, reach, quiet, history, clock):
    struck, clipped = clock[STRUCK], clock[CLIPPED]
    for j in range(X.shape[1]):
        gap = X[i, j] - centre[j]
        counted = _amend(abs(gap), j, write, reach, quiet, history, clock)
        if write and counted >= 0.0:
            X[i, j] = centre[j] + (counted if gap > 0.0 else -counted)
    clock[ROWS] += 1.0
    clock[STRUCK] = min(clock[STRUCK], struck + 1.0)
    clock[CLIPPED] = min(clock[CLIPPED], clipped + 1.0)


@kernel
def _pass_csr(data, indices, indptr, rows, first, reach, quiet, history, clock):
    for q in range(first, rows.shape[0]):
        grows = False
        start, stop = indptr[rows[q]], indptr[rows[q] + 1]
        for p in range(start, stop):
            gap, j = abs(float(data[p])), indices[p]
            if gap > quiet[j]:
                grows = True
                if gap > reach[j] and _verdict(gap, j, reach, history, clock) != _KEPT:
                    return q
        if grows or clock[MARKED] > 0.0:
            for p in range(start, stop):
                _accept(abs(float(data[p])), indices[p], reach, quiet, history, clock)
        clock[ROWS] += 1.0
    return rows.shape[0]


@kernel
def _amend_csr(data, indices, indptr, i, write, reach, quiet, history, clock):
    struck, clipped = clock[STRUCK], clock[CLIPPED]
    for p in range(indptr[i], indptr[i + 1]):
        gap = float(data[p])
        counted = _amend(abs(gap), indices[p], write, reach, quiet, history, clock)
        if write and counted >= 0.0:
            data[p] = counted if gap > 0.0 else -counted
    clock[ROWS] += 1.0
    clock[STRUCK] = min(clock[STRUCK], struck + 1.0)
    clock[CLIPPED] = min(clock[CLIPPED], clipped + 1.0)


class Guard(NamedTuple):
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
    >>> guard = Guard.of(np.zeros(1))
    >>> rows = np.tile([[1.0], [2.0]], (50, 1))
    >>> guard.screen(rows) is rows
    True
    >>> guard.screen(np.array([[-99.0], [-2.0], [1e30], [19.0]])).ravel()
    array([-2., -2.,  0., 19.])
    >>> guard.struck, guard.clipped
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
        known = min(d, len(self.reach))
        wider = Guard.of(np.zeros(d))
        for new, old in zip(wider[:-1], self[:-1], strict=True):
            new[:known] = old[:known]
        return wider._replace(clock=self.clock)

    @property
    def struck(self):
        """How many rows had an entry that was struck."""
        return int(self.clock[STRUCK])

    @property
    def clipped(self):
        """How many rows had an entry that was clipped."""
        return int(self.clock[CLIPPED])

    def screen(self, X):
        """Rows, in order, without what is far beyond; X itself if there is nothing to amend."""
        return self._sweep(X, np.arange(X.shape[0]), True)

    def _sweep(self, X, rows, write):
        """Chosen rows in order; `write` amends a copy, else whatever is far is struck."""
        if sparse.issparse(X):
            state, run, amend, parts = self[1:], _pass_csr, _amend_csr, _arrays
        else:
            state, run, amend, parts = tuple(self), _pass_dense, _amend_dense, _itself
        out, q = X, run(*parts(X), rows, 0, *state)
        while q < len(rows):
            out = X.copy() if write and out is X else out
            amend(*parts(out), rows[q], write, *state)
            q = run(*parts(out), rows, q + 1, *state)
        return out


def _arrays(X):
    return X.data, X.indices, X.indptr


def _itself(X):
    return (X,)


def screened(X, rows, near=FAR, far=ABSURD):
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
        Learners whose views bound far entries anyway need `ABSURD` only.

    Returns
    -------
    ndarray or CSR of shape (n, d)
        X itself if there is nothing to amend.

    Examples
    --------
    >>> X = np.array([[1e30, 1.0], [99.0, 1.0], *[[1.0, 2.0], [3.0, 4.0]] * 99])
    >>> rows = np.arange(200)
    >>> screened(X, rows)[:2, 0], screened(sparse.csr_array(X), rows)[[0, 1]].data
    (array([3., 5.]), array([0., 1., 3., 1.]))
    """
    dense = not sparse.issparse(X)
    centre = np.median(X[rows[:_CENTRED]], axis=0) if dense else np.zeros(X.shape[1])
    guards = Guard.of(centre), Guard.of(centre)
    for guard, order in zip(guards, (rows, rows[::-1].copy()), strict=True):
        guard._sweep(X, order, False)
    if not any(guard.struck for guard in guards):
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


def guarded(X, targets, rows, given, *, learned=False):
    """Rows and targets in memory without what is absurd, with a warning.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d)
    targets : ndarray of shape (n, k)
    rows : ndarray of shape (m,)
        Distinct rows.
    given : (ndarray or CSR, ndarray)
        Both as the user gave them: the warning counts their rows.
    learned : bool, default=False
        Warn, but strike nothing.

    Returns
    -------
    X, targets
    """
    out = []
    for part, before, name in zip((X, targets), given, ("X", "y"), strict=True):
        rest = screened(part, rows, far=FAR)
        if rest is not part:
            _warn(part, rest, before, learned, name)
        out.append(part if learned else rest)
    return out


def _warn(part, rest, given, learned, name):
    """Warn of the entries in which two versions of rows differ."""
    rows, columns = (part != rest).nonzero()
    if not len(rows):
        return
    j, value = int(columns[0]), part[rows[0], columns[0]]
    column = given[:, [j]].toarray() if sparse.issparse(given) else given[:, [j]]
    place = int(np.flatnonzero(column[:, 0] == value)[0])
    what = "learned as it is" if learned else "taken as missing"
    warnings.warn(
        f"{name} has entries more than ten times as far from the middle of their column as any "
        f"other: {len(rows)} in {len(np.unique(rows))} distinct rows, the first {value:g} in row "
        f"{place} and column {j}, counted from 0. Each is {what}.", UserWarning, stacklevel=6,
    )  # fmt: skip
