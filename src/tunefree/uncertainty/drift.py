r"""Drift without labels: new rows are compared with the rows of a training.

For each column two numbers. The *population stability index* is how much shares differ,

.. math:: \mathrm{index} = \sum_k (p_k - q_k) \log \frac{p_k}{q_k}

over deciles and missing values of numbers, or over levels. The *p-value* is that of the
Kolmogorov-Smirnov test for numbers, and of the chi-squared test for levels; a second test of the
shares of missing values doubles the smaller p-value of the two. A column drifts if its index is
above a threshold, and its p-value is below .001 over the number of columns.

Of the training a reference keeps quantiles and the counts of levels, some kilobytes. The
distance of two distribution functions is taken at 99 quantiles, so that the test is a little
cautious. At most 20,000 rows are looked at, evenly spaced. Levels of which some are rare are
compared in 16 groups, by a hash: their names do not count.

Sources: Siddiqi 2006, "Credit risk scorecards"; Hodges 1958, "The significance probability of the
Smirnov two-sample test".
"""

from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from scipy import stats

from tunefree.rows.checks import compared_counts

_MOST_ROWS, _MOST_COLUMNS, _MOST_LEVELS, _FEW_NUMBERS = 20_000, 2000, 100, 20
# Levels are compared one by one if each has so many rows. Otherwise groups of them are, by a hash:
# groups by frequency would be chosen by the rows of the training, and seem to drift.
_EXPECTED, _GROUPS = 5, 16
_QUANTILES = np.arange(1, 100) / 100
STABILITY, _SIGNIFICANCE = 0.25, 1e-3


class FeatureDrift(NamedTuple):
    """How a column of new rows differs from the reference."""

    column: str
    index: float  # the population stability index: 0 for equal shares
    p_value: float | None  # of the test that the distributions are equal; None if there is none
    test: str | None  # 'Kolmogorov-Smirnov' or 'chi-squared'
    outside: float | None  # the share of rows outside the range, or of levels that are not known
    drifts: bool


class DriftReport(NamedTuple):
    """The drift of each column, and of the predictions."""

    columns: list  # of FeatureDrift
    predictions: Any  # a FeatureDrift, or None
    outside: float  # the share of rows with a value outside the range of any column
    rows: int
    absent: list  # columns of the reference that the rows lack

    @property
    def drifts(self) -> bool:
        """Whether a column, or the predictions, drift."""
        found = [*self.columns, *([] if self.predictions is None else [self.predictions])]
        return any(one.drifts for one in found)


class DriftReference:
    """What is kept of the rows of a training, with which new rows are compared.

    Parameters
    ----------
    facts : dict
        What `as_dict` returns. Use `DriftReference.of` for rows.

    Examples
    --------
    >>> import numpy as np
    >>> from tunefree.uncertainty.drift import DriftReference
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> reference = DriftReference.of({"a": X[:, 0], "b": X[:, 1]})
    >>> report = reference.compare({"a": X[:200, 0], "b": X[:200, 1] + 2.0})
    >>> [one.column for one in report.columns if one.drifts], report.drifts
    (['b'], True)
    """

    def __init__(self, facts: dict):
        self.facts = facts

    @classmethod
    def of(cls, columns: dict, predictions: Any = None, *, held_out: bool = False):
        """The reference of some rows.

        Parameters
        ----------
        columns : dict
            Arrays by name: numbers with NaN where they are missing, or objects with None.
            Of more than 2,000 columns none is kept.
        predictions : ndarray of shape (n_rows,), optional
            Numbers, or classes.
        held_out : bool, default=False
            Whether the model has not learned these rows. Only then are the predictions for new
            rows tested: those for learned rows have another distribution.

        Returns
        -------
        DriftReference
        """
        if len(columns) > _MOST_COLUMNS:
            columns = {}
        found = {name: _facts(_some(values)) for name, values in columns.items()}
        known = None if predictions is None else _facts(_some(np.asarray(predictions)))
        return cls({"columns": found, "predictions": known, "held_out": held_out})

    def as_dict(self) -> dict:
        """The reference as plain values, for the notes of a model file."""
        return self.facts

    def shares(self, column: str | None, values: Any) -> Any:
        """The shares of the rows in parts of a column, in the reference and in new rows.

        Parameters
        ----------
        column : str or None
            None for the predictions.
        values : ndarray of shape (n_rows,)

        Returns
        -------
        labels : list
            Of numbers the ends of the parts as tuples, of others the levels.
        before, now : ndarray
            The shares. The result is None if the reference keeps no parts with names.
        """
        known = self.facts["predictions"] if column is None else self.facts["columns"].get(column)
        found = None if known is None else _cells_of(known, values)
        if found is None:
            return None
        labels, *counts = found
        used = (counts[0] + counts[1]) > 0.0
        labels = [label for label, keep in zip(labels, used.tolist(), strict=True) if keep]
        return labels, *(each[used] / max(each.sum(), 1.0) for each in counts)

    def compare(
        self, columns: dict, predictions: Any = None, *, threshold: float = STABILITY
    ) -> DriftReport:
        """Compare new rows with the reference.

        Parameters
        ----------
        columns : dict
            Arrays by name, as for `of`; others are ignored.
        predictions : ndarray of shape (n_rows,), optional
        threshold : float, default=.25
            The stability index above which a column drifts, if its p-value is small, too.

        Returns
        -------
        DriftReport
        """
        kept = self.facts["columns"]
        columns = {name: _some(np.asarray(values)) for name, values in columns.items()}
        shared = [name for name in kept if name in columns]
        n = len(next(iter(columns.values()), ()))
        limit, found, is_outside = _SIGNIFICANCE / max(1, len(shared)), [], np.zeros(n, bool)
        for name in shared:
            one, beyond = _compared(name, kept[name], columns[name], threshold, limit)
            is_outside |= beyond
            found.append(one)
        of_predictions = None
        if predictions is not None and self.facts["predictions"] is not None:
            values = _some(np.asarray(predictions))
            known = self.facts["predictions"]
            of_predictions, _ = _compared("prediction", known, values, threshold, _SIGNIFICANCE)
            if not self.facts["held_out"]:
                of_predictions = of_predictions._replace(p_value=None, test=None, drifts=False)
        absent = [name for name in kept if name not in columns]
        outside = float(is_outside.mean()) if n else 0.0
        return DriftReport(found, of_predictions, outside, n, absent)


def _cells_of(known, values):
    """What shares of a column are of, and the counts of both; None if nothing is compared."""
    values = _some(np.asarray(values))
    present = values[~_is_missing(values)]
    if "cuts" in known and values.dtype.kind in "fiub":
        (one, other), _ = _of_numbers(known, present.astype(float))
        n, below = known["n"] - known["missing"], known["below"]
        deciles = np.unique(
            np.searchsorted(below, np.arange(1, 10) / 10 * n).clip(0, len(below) - 1)
        )
        ends = [None, *known["cuts"][deciles].tolist(), None]
        labels: list = list(zip(ends[:-1], ends[1:], strict=True))
    elif "counts" in known:
        one, other = _of_levels(known, present)
        labels = [*known["levels"].tolist(), "(others)"]
    else:  # groups of levels have no names
        return None
    gaps = known["missing"], len(values) - len(present)
    return [*labels, "(missing)"], np.append(one, gaps[0]), np.append(other, gaps[1])


def _some(values):
    """At most 20,000 values, evenly spaced."""
    return values[:: -(-len(values) // _MOST_ROWS) or 1]


def _is_missing(values):
    if values.dtype.kind in "fc":
        return np.isnan(values)
    if values.dtype.kind == "O":
        return np.array([value is None or value != value for value in values.tolist()], dtype=bool)
    return np.zeros(len(values), dtype=bool)


def _facts(values):
    """What is kept of a column."""
    values = np.asarray(values)
    missing = _is_missing(values)
    present = values[~missing]
    facts = {"n": len(values), "missing": int(missing.sum())}
    if values.dtype.kind in "fiub":
        present = present.astype(float)
        distinct = np.unique(present)
        if len(distinct) > min(_FEW_NUMBERS, len(present) / _EXPECTED):
            cuts = np.unique(np.quantile(present, _QUANTILES, method="inverted_cdf"))
            below = np.searchsorted(np.sort(present), cuts, side="right")
            facts |= {"cuts": cuts, "below": below}
        else:
            facts |= _levels(present)
        if len(present):
            facts |= {"low": float(present.min()), "high": float(present.max())}
        return facts
    return facts | _levels(present.astype(str))


def _levels(values):
    """Levels and their counts, or the counts of groups of levels if these are many or rare."""
    levels, counts = np.unique(values, return_counts=True)
    if levels.dtype.kind == "f":
        return {"levels": levels, "counts": counts}
    known = {"levels": levels.astype(object)} if len(levels) <= _MOST_LEVELS else {}
    if known and (counts >= _EXPECTED).all():
        return known | {"counts": counts}
    groups = np.bincount(_groups(levels), counts, minlength=_GROUPS)
    return known | {"groups": groups}


def _groups(words):
    """The group of each text."""
    return np.array([crc32(word.encode()) % _GROUPS for word in words.tolist()], dtype=int)


def _compared(name, known, values, threshold, limit):
    """The `FeatureDrift` of a column, and which rows are outside the range."""
    missing = _is_missing(values)
    present, beyond = values[~missing], np.zeros(len(values), dtype=bool)
    gaps = known["missing"], int(missing.sum())
    if "low" in known and values.dtype.kind in "fiub":
        present = present.astype(float)
        beyond[~missing] = (present < known["low"]) | (present > known["high"])
    if "cuts" in known and values.dtype.kind in "fiub":
        test, (one, other), p = "Kolmogorov-Smirnov", *_of_numbers(known, present)
    elif "counts" in known or "groups" in known:
        test, p = "chi-squared", None
        one, other = _of_levels(known, present)
        if "levels" in known and "low" not in known:
            beyond[~missing] = ~np.isin(present.astype(str), known["levels"].astype(str))
    else:  # numbers were learned, and the values are none
        return FeatureDrift(name, np.inf, 0.0, None, None, True), beyond
    index, p_shares = compared_counts(np.append(one, gaps[0]), np.append(other, gaps[1]))
    if p is None:
        p = p_shares
    elif any(gaps):
        shares = [[known["n"] - gaps[0], gaps[0]], [len(present), gaps[1]]]
        p = min(1.0, 2.0 * min(p, compared_counts(*np.array(shares, dtype=float))[1]))
    outside = float(beyond.mean()) if "low" in known or "levels" in known else None
    return FeatureDrift(name, index, p, test, outside, index > threshold and p < limit), beyond


def _of_numbers(known, present):
    """The counts in deciles of both, and the p-value of the Kolmogorov-Smirnov test."""
    cuts, below, n = known["cuts"], known["below"], known["n"] - known["missing"]
    m, ours = len(present), np.searchsorted(np.sort(present), cuts, side="right")
    p = 1.0
    if m:
        distance = float(np.abs(below / n - ours / m).max())
        p = float(stats.kstwo.sf(distance, max(1, round(n * m / (n + m)))))
    deciles = np.unique(np.searchsorted(below, np.arange(1, 10) / 10 * n).clip(0, len(cuts) - 1))
    counts = [
        np.diff(np.concatenate([[0], each[deciles], [total]])).astype(float)
        for each, total in ((below, n), (ours, m))
    ]
    return counts, p


def _of_levels(known, present):
    """The counts of both: of the levels and of all others, or of groups of levels."""
    if "groups" in known:
        other = np.bincount(_groups(present.astype(str)), minlength=_GROUPS)
        return known["groups"].astype(float), other.astype(float)
    levels = known["levels"]
    words = present.astype(float if levels.dtype.kind == "f" else str).tolist()
    place = {level: k for k, level in enumerate(levels.tolist())}
    codes = np.array([place.get(word, len(place)) for word in words], dtype=int)
    return np.append(known["counts"], 0.0), np.bincount(codes, minlength=len(place) + 1) * 1.0
