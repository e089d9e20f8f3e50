r"""Checks of a table: what a person should look at before trusting a model.

Every check is a function of arrays that returns findings. It looks at no more than 20,000 rows and
5 million cells, evenly spaced in the order of the hash of the distinct rows: equal tables give
equal findings. Tables of fewer than 20 rows are not checked, and those of more than 2,000 columns
not by column.

- **One column predicts nearly all**: Chatterjee's coefficient is above .95. Rows are sorted by the
  column; of numbers it is 1 less the mean step between the targets' ranks, of classes 1 less the
  share of neighbours of different classes, both in units of that of random order. A line passes
  with an R2 of .998, a copy of two classes with 1 % of errors.
- **Row numbers**: whole numbers, all different, in so narrow a range that independent draws would
  have ten ties or more: n (n - 1) / 2 pairs, each tied with probability 1 / range or more. They
  would all differ with a probability below exp(-10).
- **Repeated rows with different targets**: coarse columns repeat rows by chance. How often is
  estimated for each column: the pairs of rows that differ in it alone, times the odds that a pair
  agrees in it. Repeats count if there are more than three times as many as the largest estimate
  plus one, and most rows are unique.
- **Rows sorted by target**: in an order that chance gives with probability below 1e-6. It matters
  where rows are held out in this order.
- **Rows in the order of a date**: the rank correlation of date and row number is .95 or more. It
  matters where rows are held out at random: new rows are later than all that were learned.
- **Different distribution**: the population stability index, the sum of (p - q) log(p / q) over
  deciles or levels, is above .25, the usual mark of a large change, and the chi-squared test has
  p < .001 over the number of columns.
- **Nearly equal levels**: equal but for case, spaces and hyphens; or words of five letters or
  more, of equal first letter, that one missing, extra, changed or misplaced letter makes equal, the
  one at most a tenth as frequent as the other, in levels of up to 60 characters.

Source: Chatterjee 2021, "A new coefficient of correlation"; Siddiqi 2006, "Credit risk scorecards".
"""

import re
import unicodedata
import warnings
from collections import defaultdict
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from scipy import stats
from scipy.special import gammaln

from tunefree.core.format import listed, number
from tunefree.core.warn import DataWarning, findings_kept, warn
from tunefree.rows.matrices import as_dense

_FEWEST_ROWS, _MOST_ROWS, _MOST_CELLS, _MOST_COLUMNS = 20, 20_000, 5_000_000, 2000
_NEARLY_ALL = 0.95
_TIES, _BEYOND_CHANCE = 10.0, 3.0
_LOG_CHANCE = np.log(1e-6)
# Dates are in order with such a rank correlation, if there are so many different ones: with fewer
# they are classes rather than a course of time.
_IN_ORDER, _FEWEST_DATES = 0.95, 8
# The chi-squared law is near with so many expected rows in every bin.
_EXPECTED = 5.0
_DECILES, _STABILITY, _SIGNIFICANCE = 10, 0.25, 1e-3
CORRELATED = 0.7
# Of more columns no groups are looked for: 20,000 took 8 GB and six times as long as the fit.
MOST_CORRELATED = 2000
_LETTERS, _MOST_LETTERS, _RARE, _MOST_LEVELS = 5, 60, 0.1, 1000
_SEPARATORS = re.compile(r"(?<=[^\W\d])[-_.\s]+(?=[^\W\d])")  # between letters


class Finding(NamedTuple):
    """What a check found; `column` is None if it is about rows."""

    column: str | None
    message: str


def messages(findings):
    """Every message once, with the names of its columns.

    >>> messages([Finding("a", "it is constant."), Finding("b", "it is constant.")])
    ["Columns 'a', 'b': it is constant."]
    """
    columns = defaultdict(list)
    for column, message in findings:
        columns[message].append(column)
    return [m if None in names else f"{_columns(names)}: {m}" for m, names in columns.items()]


def warn_of(findings):
    """Warn of every message once."""
    for message in messages(findings):
        warn(message, DataWarning)


def _columns(names):
    return f"Column{'s' if len(names) > 1 else ''} {listed(list(map(repr, names)))}"


@contextmanager
def ignore_outlier_warnings():
    """Ignore warnings of findings and outliers: in parts of the user's rows they are no news."""
    with warnings.catch_warnings(), findings_kept():
        warnings.simplefilter("ignore", DataWarning)
        warnings.filterwarnings("ignore", message=".*ten times as far from the middle")
        yield


def training_findings(layout, X, targets, n_rows, classify):
    """The findings about training rows, in whatever order.

    Parameters
    ----------
    layout : SourceLayout
    X : ndarray or CSR of shape (n_distinct, n_columns_out)
        The distinct rows as numbers, in the order of their hash.
    targets : ndarray of shape (n_distinct,) or (n_distinct, n_targets)
        Their targets, or class numbers.
    n_rows : int
        How many rows there are, with repeated ones.
    classify : bool

    Returns
    -------
    list of Finding
    """
    if X.shape[0] < _FEWEST_ROWS or X.shape[1] > _MOST_COLUMNS:
        return []
    some = _some_rows(X)
    columns = layout.columns(as_dense(X[some]))
    constant = {finding.column for finding in constant_columns(columns)}
    of_sparse_rows = hasattr(X, "tocsc")  # columns of zeros are natural there
    places = [
        column.place
        for column in columns
        if column.name in constant and not (of_sparse_rows and column.values[0] == 0.0)
    ]
    found = constant_columns(layout.columns(X, places))  # of all rows
    found += row_numbers(columns)
    found += leaks(columns, targets[some], classify)
    if 2 * X.shape[0] > n_rows:
        found += repeated_rows(columns)
    return found


def _some_rows(X):
    """The rows to look at, evenly spaced."""
    return slice(None, None, -(-X.shape[0] // min(_MOST_ROWS, _MOST_CELLS // X.shape[1])))


class SourceColumn(NamedTuple):
    """A column of the user's as numbers: values or days, codes of levels, the first text column."""

    place: int
    name: str
    kind: str  # as in `TablePreprocessor.kinds_`
    values: np.ndarray  # NaN where missing; codes count from 1, each rare one is another below 0


class SourceLayout(NamedTuple):
    """How the columns of a table have become columns of numbers; see `TablePreprocessor`."""

    names: list
    kinds: list
    starts: np.ndarray  # of the columns of numbers of each column, and the end of the last
    missing: np.ndarray  # whether the second one marks missing values
    rare: np.ndarray  # whether the last 0/1 column is for rare levels
    n_means: np.ndarray | None = None  # how many follow it, of mean targets; None for none

    def columns(self, X, places=None):
        """The `SourceColumn` of every column (or of some) that has columns in X."""
        X, out = X.tocsc() if hasattr(X, "tocsc") else X, []
        for j in range(len(self.names)) if places is None else places:
            n_means = 0 if self.n_means is None else self.n_means[j]
            block = as_dense(X[:, self.starts[j] : self.starts[j + 1] - n_means]).astype(float)
            if not block.shape[1]:
                continue
            values = block[:, 0]
            if self.kinds[j] == "category":
                values = block @ np.arange(1.0, block.shape[1] + 1.0)
                is_rare = (values == 0.0) | (self.rare[j] & (block[:, -1] > 0.0))
                values = np.where(is_rare, -1.0 - np.arange(len(values)), values)
            elif self.missing[j]:
                values = np.where(block[:, 1] > 0.0, np.nan, values)
            out.append(SourceColumn(j, self.names[j], self.kinds[j], values))
        return out


def constant_columns(columns):
    """Columns of one value, or of missing values only.

    >>> constant_columns([SourceColumn(0, "a", "number", np.ones(9))])
    [Finding(column='a', message='all values are equal.')]
    """
    found = []
    for column in columns:
        values = column.values
        if np.isnan(values).all() or (values == values[0]).all():
            found.append(Finding(column.name, "all values are equal."))
    return found


def row_numbers(columns):
    """Columns of numbers that identify rows.

    >>> row_numbers([SourceColumn(0, "id", "number", np.arange(100.0))])[0].column
    'id'
    """
    found = []
    for _, name, kind, values in columns:
        n, is_whole = len(values), (values == np.floor(values)).all()  # nan is not
        if kind != "number" or not is_whole or len(np.unique(values)) < n:
            continue
        if 0.5 * n * (n - 1.0) >= _TIES * (np.ptp(values) + 1.0):
            words = "whole numbers that identify rows. Drop them unless their order has a meaning."
            found.append(Finding(name, words))
    return found


def leaks(columns, targets, classify):
    """Columns that predict nearly all of the targets, alone.

    >>> y = np.random.default_rng(0).normal(size=100)
    >>> leaks([SourceColumn(0, "copy", "number", 2.0 * y)], y, False)[0].column
    'copy'
    """
    found = []
    for column in columns:
        order = np.argsort(column.values, kind="stable")
        share = max(dependence(y[order], classify) for y in targets.reshape(len(order), -1).T)
        if share > _NEARLY_ALL:
            words = "alone enough to predict nearly all of the target (a leak?)."
            found.append(Finding(column.name, words))
    return found


def dependence(targets, classify):
    """Chatterjee's coefficient of targets that are sorted by a column; 0 for constant targets.

    About 0 for a column without information, 1 for one that determines the targets.

    >>> float(dependence(np.array([0, 0, 0, 1, 1, 1]), True).round(2))
    0.6
    """
    n = len(targets)
    if classify:
        step = np.mean(targets[1:] != targets[:-1])
        chance = 1.0 - np.square(np.bincount(targets) / n).sum()
    else:
        high, low = stats.rankdata(targets, "max"), n + 1.0 - stats.rankdata(targets, "min")
        step, chance = n * np.abs(np.diff(high)).sum(), 2.0 * (low * (n - low)).sum()
    return 1.0 - step / chance if chance > 0.0 else 0.0


def repeated_rows(columns):
    """Whether distinct pairs of row and target repeat rows, and not by chance.

    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> X[:10] = X[10:20]
    >>> len(repeated_rows([SourceColumn(0, "a", "number", x) for x in X.T]))
    1
    """
    keys, rng = [], np.random.default_rng(0)
    for column in columns:  # a hash of a row is the sum of a random number for each of its values
        levels, codes = np.unique(column.values, return_inverse=True)
        keys.append(rng.integers(2**63, size=len(levels))[codes])
    total = np.sum(keys, axis=0)
    repeats, n = _repeats(total)
    if repeats == 0 or 2 * n > len(total):
        return []
    n_pairs, by_chance = 0.5 * len(total) * (len(total) - 1.0), 0.0
    for key in keys:
        agree = _repeats(key)[0] / n_pairs
        differ_here = _repeats(total - key)[0] - repeats
        by_chance = max(by_chance, differ_here * agree / max(1.0 - agree, 1.0 / n_pairs))
    if repeats <= _BEYOND_CHANCE * (1.0 + by_chance):
        return []
    words = f"{n} of {len(total)} rows equal another row that has a different target."
    return [Finding(None, f"{words} No model can predict both.")]


def _repeats(keys):
    """The number of pairs of equal keys, and of keys in such pairs."""
    _, counts = np.unique(keys, return_counts=True)
    return int((counts * (counts - 1) // 2).sum()), int(counts[counts > 1].sum())


def sorted_rows(targets, classify):
    """The finding that rows are sorted by their targets, which are held out in this order.

    >>> len(sorted_rows(np.repeat(["a", "b"], 50), True)), len(sorted_rows(np.eye(50)[0], False))
    (1, 0)
    """
    if not are_sorted(targets, classify):
        return []
    words = "The rows are sorted by the target, and cv= holds them out in this order."
    return [Finding(None, f"{words} Shuffle them, or choose cv=KFold(shuffle=True).")]


def are_sorted(targets, classify):
    """Whether rows are sorted by their targets, numbers or classes, and not by chance."""
    for y in targets.reshape(len(targets), -1).T:
        _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
        log_chance = gammaln(counts + 1.0).sum() - gammaln(len(y) + 1.0)
        if classify:
            is_sorted = np.count_nonzero(np.diff(codes)) == len(counts) - 1
            log_chance += gammaln(len(counts) + 1.0)
        else:
            steps = np.diff(codes)
            is_sorted = (steps >= 0).all() or (steps <= 0).all()
            log_chance += np.log(2.0)
        if is_sorted and log_chance < _LOG_CHANCE:
            return True
    return False


def rows_in_order_of_dates(columns):
    """Columns of dates by which the rows are sorted, but for a few.

    Parameters
    ----------
    columns : iterable of SourceColumn
        Of all rows in the user's order.

    Examples
    --------
    >>> days = SourceColumn(0, "day", "date", np.arange(40.0))
    >>> rows_in_order_of_dates([days])[0].column
    'day'
    >>> rows_in_order_of_dates([days._replace(values=np.arange(40.0) % 10)])
    []
    """
    found = []
    for _, name, kind, values in columns:
        days = values[~np.isnan(values)]
        if kind != "date" or len(days) < _FEWEST_ROWS or len(np.unique(days)) < _FEWEST_DATES:
            continue
        ranks = stats.rankdata(days)
        if abs(np.corrcoef(ranks, np.arange(len(days)))[0, 1]) >= _IN_ORDER:
            words = (
                "the rows are in the order of these dates, and rows are held out at random: for "
                "later rows the model may be worse. cv='time' (--cv time) holds out later rows."
            )
            found.append(Finding(name, words))
    return found


class ColumnDrift(NamedTuple):
    """How the distribution of a column of new rows differs from that of the training rows."""

    column: str
    index: float  # the population stability index: 0 for equal shares
    p_value: float  # of the chi-squared test that the distributions are equal
    differs: bool  # index > .25, and p_value < .001 / the number of columns


class ColumnShares(NamedTuple):
    """The shares of rows in the bins of each column, with which other rows are compared.

    Bins are deciles and missing values of numbers; of categories they are levels, after one of all
    other levels. Dates and sentences, which differ by nature, have none.

    >>> rows = np.random.default_rng(0).normal(size=(500, 1))
    >>> layout = SourceLayout(["age"], ["number"], np.array([0, 1]), np.zeros(1), np.zeros(1))
    >>> shares = ColumnShares.of(layout, rows, rows, np.ones(500))
    >>> shares.drift(layout, shares.count(layout, rows[:100] + 1.0))[0].differs
    True
    """

    edges: np.ndarray  # of deciles, of shape (n_features, 9)
    shares: np.ndarray  # of shape (n_features, n_bins)
    n: float  # training rows, by their weights

    @classmethod
    def of(cls, layout, distinct, X, weights):
        """Of rows; deciles are those of `distinct` rows. None for more columns than are checked.

        Whole weights are repetitions; of others the effective number of rows counts (Kish 1965).
        """
        if X.shape[1] > _MOST_COLUMNS:
            return None
        edges = np.full((len(layout.names), _DECILES - 1), np.inf)
        at = np.arange(1, _DECILES) / _DECILES
        for column in layout.columns(as_dense(distinct[_some_rows(distinct)])):
            known = column.values[~np.isnan(column.values)]
            if column.kind == "number" and len(known):
                edges[column.place] = np.quantile(known, at, method="inverted_cdf")
        n_bins = 1 + max(_DECILES, int(np.diff(layout.starts).max()))
        counted = cls(edges, np.zeros((len(edges), n_bins)), _effective(weights))
        return counted._replace(shares=counted.count(layout, X, weights) / weights.sum())

    def count(self, layout, X, weights=None):
        """The weights of the rows of X in each bin."""
        counts, n_bins = np.zeros(self.shares.shape), self.shares.shape[1]
        for place, _, kind, values in layout.columns(X):
            if kind == "category":
                bins = np.maximum(values, 0.0)
            elif kind == "number":
                bins = np.searchsorted(self.edges[place], values)
                bins = np.where(np.isnan(values), _DECILES, bins)
            else:
                continue
            counts[place] += np.bincount(bins.astype(int), weights, minlength=n_bins)
        return counts

    def drift(self, layout, counts):
        """The `ColumnDrift` of the columns of other rows, of these counts."""
        own, out = self.n * self.shares, []
        tested = np.flatnonzero(own.any(axis=1)).tolist()
        for j in tested:
            used = own[j] + counts[j] > 0.0
            index, p = compared_counts(own[j, used], counts[j, used])
            differs = index > _STABILITY and p < _SIGNIFICANCE / len(tested)
            out.append(ColumnDrift(layout.names[j], index, p, differs))
        return out


def _effective(weights):
    """The number of rows that whole weights repeat, or of equal weights as uncertain as these.

    >>> _effective(np.array([1.0, 3.0])), _effective(np.array([0.5, 0.5]))
    (4.0, 2.0)
    """
    if np.all(weights == np.rint(weights)):
        return float(weights.sum())
    share = weights / weights.sum()
    return float(1.0 / np.square(share).sum())


def drift_findings(drifts):
    """The findings about columns that differ."""
    words = "its distribution differs from that of the training rows (stability index"
    return [Finding(d.column, f"{words} {number(d.index)}).") for d in drifts if d.differs]


def compared_counts(one, other):
    """The population stability index of two rows of counts, and the p-value of their equality.

    For the test neighbouring bins are joined until five rows are expected in each.
    """
    n, m = one.sum(), other.sum()
    p, q = np.maximum(one, 0.5) / n, np.maximum(other, 0.5) / m
    index = float(((p - q) * np.log(p / q)).sum())
    starts = _joined_bins((one + other) * (min(n, m) / (n + m)))
    counts = [np.add.reduceat(one, starts), np.add.reduceat(other, starts)]
    return index, float(stats.chi2_contingency(counts, correction=False).pvalue)


def _joined_bins(expected):
    """Where bins start that are joined until so many rows are expected in each.

    >>> _joined_bins(np.array([9.0, 2.0, 4.0, 7.0, 1.0]))
    [0, 1, 3]
    """
    starts, rows = [0], 0.0
    for j, each in enumerate(expected.tolist()):
        if rows >= _EXPECTED:
            starts.append(j)
            rows = 0.0
        rows += each
    if rows < _EXPECTED and len(starts) > 1:
        starts.pop()
    return starts


def correlated_columns(columns):
    """Groups of columns of numbers, by their places: of each pair Spearman's rho is .7 or more.

    Its absolute value counts. Groups are clusters of complete linkage. Of more than 2,000 columns
    there are none: time and memory grow with their square.

    >>> a, b = np.random.default_rng(0).normal(size=(2, 99))
    >>> given = enumerate([a, b, 1.0 - a**3])
    >>> correlated_columns([SourceColumn(j, "x", "number", values) for j, values in given])
    [[0, 2]]
    """
    numbers = [c for c in columns if c.kind == "number"]
    found = [c for c in numbers if len(np.unique(c.values[~np.isnan(c.values)])) > 1]
    if len(found) < 2 or len(found) > MOST_CORRELATED:
        return []
    from scipy.cluster import hierarchy

    ranks = np.array([stats.rankdata(c.values, nan_policy="omit") for c in found])
    ranks = np.nan_to_num(ranks - np.nanmean(ranks, axis=1, keepdims=True))
    distances = 1.0 - np.abs(np.corrcoef(ranks))
    pairs = distances[np.triu_indices(len(found), 1)]
    cluster = hierarchy.fcluster(hierarchy.linkage(pairs, "complete"), 1.0 - CORRELATED, "distance")
    groups = defaultdict(list)
    for column, number_of in zip(found, cluster.tolist(), strict=True):
        groups[number_of].append(column.place)
    return [group for group in groups.values() if len(group) > 1]


def near_levels(levels, counts):
    """Levels that are nearly equal to a more frequent one, and that one.

    Only the most frequent thousand are compared; of equally frequent ones the first is kept.

    >>> near_levels(["Berlin", "berlin", "Berlni", "Hamburg", "Hamburg "], [50, 9, 1, 20, 2])
    {'berlin': 'Berlin', 'Hamburg ': 'Hamburg', 'Berlni': 'Berlin'}
    """
    order = np.argsort(-np.asarray(counts), kind="stable")[:_MOST_LEVELS]
    equal, similar, found = {}, {}, {}  # the first level of these words, or without a letter
    for i in order.tolist():
        words = _words(levels[i])
        text, shorter = " ".join(words).casefold(), []
        if len(text) <= _MOST_LETTERS:
            shorter = list(_without_a_letter(words))
        place = equal.get(text)
        if place is None:
            models = [similar[key] for key in shorter if key in similar]
            place = next((k for k in models if counts[i] <= _RARE * counts[k]), None)
        if place is not None:
            found[levels[i]] = levels[place]
            continue
        equal[text] = i
        for key in shorter:
            similar.setdefault(key, i)
    return found


def alike_levels(levels):
    """Pairs of levels that differ in blanks, in case, or in the code of a letter only.

    The case of one letter alone is no mistake.

    >>> list(alike_levels(["Yes", "no", "yes ", "a", "A"]))
    [('yes ', 'Yes')]
    """
    known = {}
    for level in levels:
        text = " ".join(unicodedata.normalize("NFKC", level).split())
        key = text.casefold() if len(text) > 1 else text
        if key in known:
            yield level, known[key]
        known.setdefault(key, level)


def _words(level):
    """The words of a level, without separators between letters."""
    return _SEPARATORS.sub(" ", level).split()


def _without_a_letter(words):
    """The words, and those without one letter but the first, of words of letters.

    Words such as 'FuseA' are codes.
    """
    folded = [word.casefold() for word in words]
    for k, word in enumerate(words):
        is_plain = word in (word.lower(), word.upper(), word.capitalize())
        if len(word) >= _LETTERS and word.isalpha() and is_plain:
            yield (k, *folded)
            for i in range(1, len(word)):
                yield (k, *folded[:k], folded[k][:i] + folded[k][i + 1 :], *folded[k + 1 :])
