"""Guards: entries far beyond everything seen are taken as missing.

A column's reach is the largest |x - centre| accepted so far. An entry beyond 10^(1 + c) times the
reach is replaced by the centre, and the reach stays; c counts the column's struck entries, and
doubles when they follow one another, so that a real change of scale by any factor s is accepted
after log10(s) single entries, or log2(log10(s)) in a row. One absurd row then teaches nothing and
leaves the columns' scales as they were. Rows go through one by one: chunks make no difference, nor
does the unit of a column.
"""

import warnings
from typing import NamedTuple

import numpy as np
from scipy import sparse

from tunefree._jit import kernel

# How far beyond the reach an entry may be; how far while a column is young; and how far an entry
# of a new column may be beyond all entries so far (columns may have units that far apart).
_FAR, _FAR_YOUNG, _FAR_NEW = 10.0, 1e4, 1e16
_YOUNG = 64
ABSURD = 1e4
# How many rows tell the centre of columns in memory.
_CENTRED = 1001
# The clock: rows seen, rows with a struck entry, the largest reach, columns struck last time.
ROWS, STRUCK, LARGEST, MARKED = 0, 1, 2, 3


@kernel
def _beyond(gap, j, reach, strikes, clock):
    # A power beyond 300 exceeds every ratio of accepted numbers.
    patience = 10.0 ** min(strikes[j, 0], 300.0)
    if reach[j] == 0.0:
        return clock[LARGEST] > 0.0 and gap / clock[LARGEST] > _FAR_NEW * patience
    return gap / reach[j] > patience * (_FAR if clock[ROWS] >= _YOUNG else _FAR_YOUNG)


@kernel
def _accept(gap, j, reach, strikes, clock):
    if gap > reach[j]:
        reach[j] = gap
        clock[LARGEST] = max(clock[LARGEST], gap)
    if strikes[j, 1] != 0.0:
        strikes[j, 1] = 0.0
        clock[MARKED] -= 1.0


@kernel
def _strike(j, strikes, clock):
    if strikes[j, 1] != 0.0:
        strikes[j, 0] = 2.0 * strikes[j, 0] + 1.0
    else:
        strikes[j, 0] += 1.0
        strikes[j, 1] = 1.0
        clock[MARKED] += 1.0


@kernel
def _pass_dense(X, rows, first, centre, reach, strikes, clock):
    """Accept rows until one has an entry to strike; its place, or how many rows there are."""
    for q in range(first, rows.shape[0]):
        i = rows[q]
        grows = False
        for j in range(X.shape[1]):
            gap = abs(X[i, j] - centre[j])
            if gap > reach[j]:
                grows = True
                if _beyond(gap, j, reach, strikes, clock):
                    return q
        if grows or clock[MARKED] > 0.0:
            for j in range(X.shape[1]):
                _accept(abs(X[i, j] - centre[j]), j, reach, strikes, clock)
        clock[ROWS] += 1.0
    return rows.shape[0]


@kernel
def _strike_dense(X, i, write, centre, reach, strikes, clock):
    for j in range(X.shape[1]):
        gap = abs(X[i, j] - centre[j])
        if gap > reach[j] and _beyond(gap, j, reach, strikes, clock):
            _strike(j, strikes, clock)
            if write:
                X[i, j] = centre[j]
        else:
            _accept(gap, j, reach, strikes, clock)
    clock[ROWS] += 1.0
    clock[STRUCK] += 1.0


@kernel
def _pass_csr(data, indices, indptr, rows, first, reach, strikes, clock):
    for q in range(first, rows.shape[0]):
        grows = False
        start, stop = indptr[rows[q]], indptr[rows[q] + 1]
        for p in range(start, stop):
            gap, j = abs(float(data[p])), indices[p]
            if gap > reach[j]:
                grows = True
                if _beyond(gap, j, reach, strikes, clock):
                    return q
        if grows or clock[MARKED] > 0.0:
            for p in range(start, stop):
                _accept(abs(float(data[p])), indices[p], reach, strikes, clock)
        clock[ROWS] += 1.0
    return rows.shape[0]


@kernel
def _strike_csr(data, indices, indptr, i, write, reach, strikes, clock):
    for p in range(indptr[i], indptr[i + 1]):
        gap, j = abs(float(data[p])), indices[p]
        if gap > reach[j] and _beyond(gap, j, reach, strikes, clock):
            _strike(j, strikes, clock)
            if write:
                data[p] = 0.0
        else:
            _accept(gap, j, reach, strikes, clock)
    clock[ROWS] += 1.0
    clock[STRUCK] += 1.0


class Guard(NamedTuple):
    """What is known of the columns' reach; `screen` updates the arrays.

    Attributes
    ----------
    centre : ndarray of shape (d,)
        Entries are measured from it; 0 on sparse data.
    reach : ndarray of shape (d,)
    strikes : ndarray of shape (d, 2)
        Struck entries, and whether the last entry was one.
    clock : ndarray of shape (4,)
        Rows seen, rows with a struck entry, the largest reach, columns whose last was struck.

    Examples
    --------
    >>> guard = Guard.of(np.zeros(1))
    >>> rows = np.tile([[1.0], [2.0]], (50, 1))
    >>> guard.screen(rows) is rows
    True
    >>> guard.screen(np.array([[1e30], [-2.0], [19.0]])).ravel(), guard.struck
    (array([ 0., -2., 19.]), 1)
    """

    centre: np.ndarray
    reach: np.ndarray
    strikes: np.ndarray
    clock: np.ndarray

    @classmethod
    def of(cls, centre):
        """A guard that has seen nothing."""
        d = len(centre)
        return cls(np.array(centre, dtype=np.float64), np.zeros(d), np.zeros((d, 2)), np.zeros(4))

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
                guard._know(j, gaps[starts[j] : starts[j + 1]])
            return guard
        guard = cls.of(np.median(X, axis=0))
        gaps = np.abs(X - guard.centre)
        for j in np.flatnonzero(np.count_nonzero(gaps, axis=0) > 2):
            guard._know(j, gaps[gaps[:, j] > 0.0, j])
        return guard

    def _know(self, j, gaps):
        self.reach[j] = gaps[gaps <= 100.0 * np.median(gaps)].max()
        self.clock[LARGEST] = max(self.clock[LARGEST], self.reach[j])

    def columns(self, d):
        """The guard of d columns: new ones have not been seen, and those that go must not have."""
        known = min(d, len(self.reach))
        wider = Guard.of(np.zeros(d))
        for new, old in zip(wider[:3], self[:3], strict=True):
            new[:known] = old[:known]
        return wider._replace(clock=self.clock)

    @property
    def struck(self):
        """How many rows had an entry that was struck."""
        return int(self.clock[STRUCK])

    def screen(self, X):
        """Rows, in order, without what is far beyond; X itself if there is nothing to strike."""
        return self._sweep(X, np.arange(X.shape[0]), True)

    def _sweep(self, X, rows, write):
        """Chosen rows in order; `write` strikes in a copy."""
        if sparse.issparse(X):
            state, run, strike, parts = self[1:], _pass_csr, _strike_csr, _arrays
        else:
            state, run, strike, parts = tuple(self), _pass_dense, _strike_dense, _itself
        out, q = X, run(*parts(X), rows, 0, *state)
        while q < len(rows):
            out = X.copy() if write and out is X else out
            strike(*parts(out), rows[q], write, *state)
            q = run(*parts(out), rows, q + 1, *state)
        return out


def _arrays(X):
    return X.data, X.indices, X.indptr


def _itself(X):
    return (X,)


def screened(X, rows, far=_FAR):
    """Rows in memory without entries far beyond the others of their column.

    Rows are swept in the given order and backwards, since the odd one may come first: an entry is
    struck if it exceeds ten times the lesser of the two reaches, 10^4 times in a column of few
    entries. Dense columns are measured from the median of the first rows.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d)
    rows : ndarray of shape (m,)
        Distinct rows.
    far : float, default=10.0
        In place of ten. Learners whose views bound far entries anyway need `ABSURD` only.

    Returns
    -------
    ndarray or CSR of shape (n, d)
        X itself if there is nothing to strike.

    Examples
    --------
    >>> X = np.array([[1e30, 1.0], *[[1.0, 2.0], [3.0, 4.0]] * 99])
    >>> screened(X, np.arange(199))[0], screened(sparse.csr_array(X), np.arange(199))[[0]].data
    (array([3., 1.]), array([0., 1.]))
    """
    dense = not sparse.issparse(X)
    centre = np.median(X[rows[:_CENTRED]], axis=0) if dense else np.zeros(X.shape[1])
    guards = Guard.of(centre), Guard.of(centre)
    for guard, order in zip(guards, (rows, rows[::-1].copy()), strict=True):
        guard._sweep(X, order, False)
    if not any(guard.struck for guard in guards):
        return X
    most = np.minimum(guards[0].reach, guards[1].reach)
    if dense:
        entries = np.count_nonzero(X[rows] != centre, axis=0)
    else:
        entries = np.bincount(X.indices, minlength=X.shape[1])
    most *= np.where(entries >= _YOUNG, far, max(far, _FAR_YOUNG))
    if dense:
        return np.where(np.abs(X - centre) > most, centre.astype(X.dtype), X)
    X = X.copy()
    X.data[np.abs(X.data) > most[X.indices]] = 0.0
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
        rest = screened(part, rows)
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
