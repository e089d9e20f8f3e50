"""The columns of a stream: rows, and the places of their names."""

import math
import zlib
from collections import Counter
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

from tunefree.base import base
from tunefree.base.sizes import warn_of_entries, warn_of_streamed_targets
from tunefree.core.warn import DataWarning, warn
from tunefree.rows.columns import DATE, EXACT, NUMBER, without_index
from tunefree.rows.kinds import DURATION, UnknownLevel
from tunefree.rows.matrices import as_dense, canonical, check_frame
from tunefree.rows.schema import BadColumn, UnknownLevels, learn_columns, warn_of_bad
from tunefree.streams.learner import Mixture
from tunefree.streams.rows import (
    PLAIN,
    NamedNumbers,
    array_rows,
    as_records,
    columns_of_date,
    date_of,
    features,
    frame_rows,
    loses_digits,
    numbers_of,
    record_of,
    warn_of_rounded,
    writable,
)
from tunefree.streams.state import DIAGONAL, MOST_WHOLE, SPARSE, WHOLE

# Beyond this many names of columns, new names share existing columns.
_MOST_COLUMNS = 1 << 16
_NO_COLUMNS = np.empty(0, dtype=np.int64)
# So many rows are looked at closely, for whole numbers whose digits are lost.
_LOOKED_AT = 64
# After so many levels of a column it is seen whether a table would read them as numbers or dates.
_SOME_LEVELS = 3
# Of cells that are lost in learning, the 1st, the 10th, ... of a column are named.
_COUNTED = frozenset(10**k for k in range(10))
_INFINITIES = math.inf, -math.inf
# Levels of a column after which it is seen whether most rows have another one.
_MANY_LEVELS = frozenset((100, 1_000, 10_000))


def _is_strange(row, names):
    """Whether a row has keys, and none of them stands for a column."""
    known = names.keys()
    if not (row and known.isdisjoint(row) and known.isdisjoint(row.texts)):
        return False
    levels = tuple(f"{name}=" for name in row.texts)
    return not any(name.startswith(levels) for name in names)


class ReadsRows:
    """An estimator of streams that reads rows of arrays or with names, and widens its mixture."""

    _REAL = False
    delay: int
    mixture_: Mixture
    columns_: Any  # names in the order of their appearance; None if rows are arrays
    _of_dates: set[Any]  # the names that hold dates

    def _open(self, d, columns, wide=DIAGONAL):
        """Begin a stream of named columns, or of `d` columns in arrays."""
        if not (isinstance(self.delay, (int, np.integer)) and self.delay >= 0):
            raise ValueError(f"delay={self.delay!r} is not a number of rows: give 0 or more.")
        form = WHOLE if d <= MOST_WHOLE else wide
        self.mixture_ = Mixture(d, 1, form, self._REAL, int(self.delay))
        self.columns_ = columns

    @property
    def _ready(self):
        return "mixture_" in vars(self)

    def _matrix(self, X, reset, y: Any = None):
        """Rows of numbers in the form of CSR; `reset` begins a stream."""
        if not reset and self.columns_ is not None:
            raise ValueError("This stream has rows with names: give a list of dicts.")
        check_frame(X)
        X = without_index(X)
        targets: dict[str, Any] = {} if y is None else {"y": y, "y_numeric": self._REAL}
        form = base.ROWS | {"ensure_all_finite": "allow-nan"}
        with base.plain_errors(self, X, y):
            checked = validate_data(self, X, reset=reset, **form, **targets)
            if self._REAL and targets:
                np.asarray(checked[1], dtype=np.float64)  # text is an error
        X, y = checked if targets else (checked, None)
        if reset:
            warn_of_entries(X, getattr(self, "feature_names_in_", None))
        if self._REAL and targets:
            warn_of_streamed_targets(y, fresh=reset)
        d = X.shape[1]
        if reset:
            self._open(d, None, SPARSE if sparse.issparse(X) else DIAGONAL)
        if self.mixture_.form == SPARSE:
            X = canonical(sparse.csr_array(X))
            return (X.indptr, X.indices.astype(np.int64), writable(X.data)), y
        values = writable(as_dense(X)).ravel()
        return (np.arange(X.shape[0] + 1) * d, _NO_COLUMNS, values), y

    def _as_records(self, X):
        """Rows with names as a sequence of mappings, or else rows of an array as they are.

        A frame has names if the stream has, or if a column is not numeric.
        """
        check_frame(X)
        X = without_index(X)
        if hasattr(X, "columns") and len(X):
            has_names = self._ready and self.columns_ is not None
            X = frame_rows(X, self._ready, self._names() if has_names else None)
        records = as_records(X)
        if records is not None:
            return records
        return X if hasattr(X, "columns") else array_rows(X)

    def _read(self, x):
        """A row: its columns and values, or its numbers by their names; nothing is learned."""
        ready = self._ready
        record = x if type(x) is dict else record_of(x, ready and self.columns_ is not None)
        if record is None:
            return self._read_array(x)
        if ready and self.mixture_.form != SPARSE and self.mixture_.rows > _LOOKED_AT:
            names = self._names()
            cells = record.values()
            is_plain = record.keys() == names.keys() and PLAIN.issuperset(map(type, cells))
            if is_plain and not any(value in cells for value in _INFINITIES):
                try:
                    values = np.fromiter(map(record.__getitem__, names), float, len(names))
                except OverflowError:  # `features` names the key
                    pass
                else:
                    return _NO_COLUMNS, values
        return self._read_names(record)

    def _read_array(self, x):
        given, x = x, numbers_of(x)
        if not self._ready:
            self._open(len(x), None)
            self.n_features_in_ = len(x)
        if self.columns_ is not None:
            raise ValueError("x is an array, but this stream has names: give a dict.")
        if len(x) != self.mixture_.d:
            raise ValueError(f"x has {len(x)} columns, but this stream has {self.mixture_.d}.")
        if self.mixture_.rows <= _LOOKED_AT and not hasattr(given, "tocsr"):
            cells = zip(np.ravel(np.asarray(given, dtype=object)), x.tolist(), strict=True)
            pairs = enumerate(cells)
            long = {j: v for j, (v, n) in pairs if abs(n) >= EXACT and loses_digits(v, n)}
            self._warn_of_rounded(long)
        if self.mixture_.form == SPARSE:
            columns = np.flatnonzero(x)
            return columns, x[columns]
        return _NO_COLUMNS, x

    def _warn_of_rounded(self, found):
        """Warn once of each column of whole numbers, by a first one, whose digits are lost."""
        known = vars(self).setdefault("_rounded", set())
        warn_of_rounded({name: given for name, given in found.items() if name not in known})
        known.update(found)

    def _read_names(self, record, row=None):
        found = features(record, row)
        if found.rounded:
            self._warn_of_rounded(found.rounded)
        if self._ready and self.columns_ is None:
            names = self._names()
            for name in found:
                if name not in names:
                    raise ValueError(f"x has a column {name!r} that this stream does not have.")
        if not self._ready:
            self._open(0, [])
        return found

    def _read_records(self, X):
        """The numbers of the rows of a chunk by their names."""
        found = []
        for i, x in enumerate(X):
            record = record_of(x, True)
            if record is None:
                kind = type(x).__name__
                raise ValueError(f"X[{i}] is a {kind}, but X[0] has names: give a dict.")
            found.append(self._read_names(record, i))
        return found

    def _row(self, x):
        """The columns and values of a row to predict: new names are ignored."""
        row = self._read(x)
        if type(row) is not NamedNumbers:
            return row
        self._warn_of_unknown([row])
        return self._places(row)

    def _places(self, row):
        """The columns and values of numbers by names; names without a column are ignored."""
        names = self._names()
        if self.mixture_.form != SPARSE:
            absent = math.nan if self.columns_ is None else 0.0
            values = np.array([row.get(name, absent) for name in names], dtype=float)
            values[[names[name] for name in self._unknown(row)]] = math.nan
            return _NO_COLUMNS, values
        found = {names[name]: math.nan for name in self._unknown(row)}
        for name, value in row.items():
            j = names.get(name)
            if j is None and len(names) >= _MOST_COLUMNS:  # the name shares the column of another
                j = zlib.crc32(name.encode()) % _MOST_COLUMNS
            if j is not None:
                found[j] = found[j] + value if j in found else value
        columns = sorted(found)
        values = np.fromiter(map(found.__getitem__, columns), np.float64, len(columns))
        return np.fromiter(columns, np.int64, len(columns)), values

    def _unknown(self, row):
        """The columns that are unknown in a row, and not 0.

        They are of numbers that come as text or as a date, and of dates that come as anything else.
        """
        names = self._names()
        found = [name for name in (*row.texts, *self._wrong_dates(row)) if name in names]
        for name in self._of_dates:
            if name not in row.dates and (name in row or name in row.texts):
                found += columns_of_date(name, names)
        return found

    def _wrong_dates(self, row):
        """The names of a row's dates that are of numbers in this stream."""
        return [n for n in row.dates if n in self._names() and n not in self._of_dates]

    def _all_places(self, found):
        """Rows in the form of CSR, of numbers by names."""
        if self.mixture_.form == SPARSE:
            places = [self._places(row) for row in found]
            starts = np.cumsum([0, *(len(columns) for columns, _ in places)])
            columns = np.concatenate([columns for columns, _ in places])
            return starts, columns, np.concatenate([values for _, values in places])
        values = np.array([self._places(row)[1] for row in found])
        return np.arange(len(found) + 1) * values.shape[1], _NO_COLUMNS, values.ravel()

    def _warn_of_unknown(self, rows):
        """Count in warnings what is lost of rows to predict."""
        names = self._names()
        strange = [i for i, row in enumerate(rows) if names and _is_strange(row, names)]
        if strange:
            keys = ", ".join(map(repr, list(rows[strange[0]])[:3]))
            warn(
                f"{len(strange)} of {len(rows)} rows have no column of this stream, the first "
                f"X[{strange[0]}] with {keys}: nothing of them is used.",
                DataWarning,
            )
        bad: dict[str, BadColumn] = {}
        for i, row in enumerate(rows):
            self._count_bad(row, i, bad)
        if bad:
            warn_of_bad([*bad.values()], "missing")

    def _count_bad(self, row, number, counted):
        """Count the bad cells of a row by their columns, and yield those columns."""
        names = []
        for name, kind, cell in self._bad_cells(row):
            first = counted.setdefault(name, BadColumn(name, kind, 0, number, cell))
            counted[name] = first._replace(count=first.count + 1)
            names.append(name)
        return names

    def _warn_of_lost(self, rows):
        """Count cells of another kind than their columns in rows to learn, and name some."""
        counted, start = vars(self).setdefault("_lost", {}), int(self.mixture_.rows)
        named: dict[str, BadColumn] = {}
        for i, row in enumerate(rows, start):
            for name in self._count_bad(row, i, counted):
                if counted[name].count in _COUNTED:
                    named[name] = counted[name]
        if named:
            warn_of_bad([*named.values()], "missing")

    def _warn_of_other_levels(self, rows):
        """Warn of columns of text that come as numbers, or in other words than those learned.

        A stream may bring a new level at any time. Several that are most of a column, of which few
        levels were learned, are the known ones in another spelling.
        """
        names = self._names()
        levels = Counter(name.partition("=")[0] for name in names if "=" in name)
        keys = levels.keys() - names.keys()
        if not keys or len(names) >= _MOST_COLUMNS:
            return
        counts, numbers, texts = Counter(), {}, {}
        for i, row in enumerate(rows):
            for key in row.keys() & keys:
                if not math.isnan(row[key]):
                    counts[key] += 1
                    numbers.setdefault(key, []).append((i, row.dates.get(key, f"{row[key]:g}")))
            for key in row.texts.keys() & keys:
                counts[key] += 1
                if f"{key}={row.texts[key]}" not in names:
                    texts.setdefault(key, []).append((i, row.texts[key]))
        found = []
        for key in sorted(keys):
            unknown = texts.get(key, [])
            is_repeated = 2 * levels[key] <= self.mixture_.rows
            is_most = len(unknown) > counts[key] / 2 and len({text for _, text in unknown}) > 1
            lost = sorted(numbers.get(key, []) + (unknown if is_repeated and is_most else []))
            if lost:
                found.append(UnknownLevel(key, len(lost), lost[0][0], str(lost[0][1])))
        if found:
            warn(UnknownLevels(found), UnknownLevels)

    def _bad_cells(self, row):
        """Yield name, kind of the column, and cell of what is of another kind in a row."""
        names = self._names()
        for name, text in row.texts.items():
            if name in names and f"{name}={text}" not in names and self._has_numbers(name):
                yield name, DATE if name in self._of_dates else NUMBER, text
        for name in self._wrong_dates(row):
            if self._has_numbers(name):
                yield name, NUMBER, str(row.dates[name])
        for name in sorted(self._of_dates):
            if name not in row.dates and not math.isnan(row.get(name, math.nan)):
                yield name, DATE, f"{row[name]:g}"
        cells = row.values()
        if any(value in cells for value in _INFINITIES):
            for name, value in row.items():
                if math.isinf(value) and name not in self._of_dates:
                    yield name, NUMBER, f"{value:g}"

    def _has_numbers(self, name):
        """Whether a column has had a number or a date, and not missing cells alone."""
        return self.mixture_.parts.moments[0, self._names()[name]] > 0.0

    def _warn_of_levels(self, new):
        """Warn of text that is another one in most rows, or that a table reads as something else.

        `new` are the names of new columns.
        """
        if "_levels" not in vars(self):
            own = set(new)
            before = (name for name in self.columns_ if name not in own)
            self._levels = Counter(name.partition("=")[0] for name in before if "=" in name)
        for name in new:
            key, is_level, level = name.partition("=")
            if not is_level:
                continue
            self._levels[key] += 1
            count, rows = self._levels[key], int(self.mixture_.rows)
            if count == _SOME_LEVELS:
                self._warn_of_written(key)
            if count in _MANY_LEVELS and rows < 2 * count:
                warn(
                    f"{key!r} has {count} levels in {rows + 1} rows, such as {level!r:.60}: each "
                    "is a column. Give numbers and dates as such, and drop what only names a row.",
                    DataWarning,
                )

    def _warn_of_written(self, key):
        """Warn of levels that are numbers, dates or durations to a table, which sees them all."""
        start = f"{key}="
        levels = [name.removeprefix(start) for name in self.columns_ if name.startswith(start)]
        if not all(any(map(str.isdigit, level)) for level in levels):
            return
        schema, _ = learn_columns(np.array(levels, dtype=object)[:, None], [key], sentinels=False)
        (kind,) = schema.columns
        if kind.kind in (NUMBER, DATE, DURATION):
            warn(
                f"{key!r} has text such as {levels[0]!r:.60}, which a table reads as a "
                f"{kind.words()}. A row alone does not show this, so each is a category: give "
                "numbers and dates as such.",
                DataWarning,
            )

    def _names(self):
        """Columns by their names."""
        if "_by_name" not in vars(self):
            ordered = self.columns_
            if ordered is None:
                ordered = getattr(self, "feature_names_in_", None)
            if ordered is None:
                raise ValueError("x is a dict, but this stream has arrays: give an array.")
            self._by_name = {name: j for j, name in enumerate(ordered)}
            self._of_dates = {n for n in map(date_of, ordered) if n in self._by_name}
        return self._by_name

    def _new_names(self, row):
        """The names of a row that get columns."""
        if self.columns_ is None:
            return []
        names = self._names()
        return [name for name in row if name not in names][: _MOST_COLUMNS - len(names)]

    def _widen(self, d):
        """Extend to d columns; beyond 32 rows become sparse, with spare columns."""
        form = self.mixture_.form
        if d > MOST_WHOLE:
            form = SPARSE
            d = max(64, 1 << (d - 1).bit_length())
        if d > self.mixture_.d:
            self.mixture_ = self.mixture_.grow(d=d, form=form)
            self.n_features_in_ = d
