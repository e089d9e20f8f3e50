"""Mixed tables to numbers: categories, sentences, missing values, booleans and dates.

Numbers without missing values pass unchanged, sparse matrices too. Scaling is left to the learners.

Why not scikit-learn's `ColumnTransformer` of `OneHotEncoder` and `SimpleImputer`, or skrub's
`TableVectorizer`: their `fit` takes no ``sample_weight``, and here a weight is a repetition, for
medians and for rare levels. skrub would also require pandas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn._config import config_context
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import (
    _check_feature_names_in,
    _check_monotonic_cst,
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from tunefree.core.parameters import check_values, restored_on_error
from tunefree.core.protocols import MatrixLike
from tunefree.core.warn import warn
from tunefree.rows.checks import Finding, SourceLayout, near_levels, warn_of
from tunefree.rows.columns import CATEGORY, DATE, EXACT, NUMBER, TEXT, as_table, names_of
from tunefree.rows.kinds import UnknownLevel
from tunefree.rows.learned_kinds import notes_of_columns
from tunefree.rows.level_means import RareLevels
from tunefree.rows.matrices import as_dense, check_frame, entries, plain_rows
from tunefree.rows.missing import complete
from tunefree.rows.order import in_units_of_rows
from tunefree.rows.phrases import Phrases
from tunefree.rows.quantiles import weighted_quantiles
from tunefree.rows.row_labels import matched_by_place
from tunefree.rows.schema import (
    Schema,
    learn_columns,
    names_in,
    read_columns,
    warn_of_bad,
    warn_of_unknown,
)
from tunefree.rows.summaries import ReadSummaries

# With sparse_output='auto', output with a smaller share of non-zero entries is CSR.
_DENSE_FROM = 0.25
MISSING = "(missing)"
# Pairs of nearly equal levels that a message names.
_MOST_PAIRS = 5
# A column is noted if a larger share of its rows has rare levels.
_MOST_SHARED = 0.5
# Rare levels have mean targets if they are of a larger share of the rows. With fewer, the number
# made the squared error of gapminder 1.4 times what 0/1 columns alone have (benchmarks/open.py
# --half open).
_MANY_RARE = 0.1
# How a message about rare levels ends.
_AS_ONE = "and these levels count as one."


class TablePreprocessor(TransformerMixin, BaseEstimator):
    """Convert pandas, polars, pyarrow or array columns to numbers.

    What each column holds is learned from all of its cells, as a `schema_`: numbers, also written
    as 7%, $5,000, 1,5 or 23.4 km; truth values; dates, also written as 31.01.2024 or 7-Jan-18;
    text. Up to a fifth of the cells of a column of numbers may be none: they are missing, and
    counted in a warning.

    Numbers, truth values and durations (in days) become numbers. Dates become days since 1970 and,
    where they vary, month, day of the month, weekday, weekend and hour, in local time. Text and
    categories become one 0/1 column a level. Rare levels share one column, with levels not seen in
    `fit`; without rare levels an unseen level is all zeros. Sentences (most cells have several
    words and are not a common level) become numbers by `Phrases`. Other high-cardinality text is
    dropped, with a warning. A missing number becomes the median of its column, with a 0/1 column of
    missing values if there were any in `fit`; a missing category is a level of its own.

    Parameters
    ----------
    max_levels : int, default=250
        Largest number of 0/1 columns for a categorical column, with the shared one.
    min_share : float, default=0.001
        Levels of a smaller share of the rows (or of one row only) are rare.
    sparse_output : bool or 'auto', default='auto'
        Whether dense input gives CSR. 'auto': if less than a quarter of the entries are non-zero,
        unless `set_output` requests frames. Sparse input always gives CSR.
    categorical_features : array-like, 'from_dtype' or None, default='from_dtype'
        Columns of numbers that are categories: a mask, positions or names. Text and the category
        types of pandas and pyarrow always are; 'from_dtype' and None add no others.
    merge_levels : bool, default=False
        Whether nearly equal levels, such as 'Berlin', 'berlin' and 'Berlni', become the most
        frequent one of them. Otherwise a `DataWarning` names them.
    schema : dict, optional
        What is known of some columns: for each its kind, 'number', 'truth', 'date', 'duration',
        'category' or 'text', or a dict of ``kind``, ``day_first`` (of dates), ``markers`` (cells
        that mean a missing value) and ``levels`` (of a category, in order).
    on_bad_cell : {'missing', 'error'}, default='missing'
        What a cell is that is not of its column's kind.

    Attributes
    ----------
    schema_ : Schema
        What each column is, and how its cells are written.
    kinds_ : ndarray of str of shape (n_features,)
        How a column becomes numbers: 'number', 'category', 'text' (sentences), or 'date'.
    medians_ : ndarray of shape (n_features,)
        The value for a missing number; 0 for CSR without missing numbers.
    missing_ : ndarray of bool of shape (n_features,)
        Columns that get a 0/1 column of missing values.
    levels_ : dict of str to list of str
        The levels of each categorical column, by its position written as text.
    rare_ : ndarray of bool of shape (n_features,)
        Categorical columns whose rare levels share a column.
    merged_ : dict of str to dict
        With `merge_levels`, for each column: the levels that became another level, and that one.
    phrases_ : dict of str to Phrases
        The encoder of each column of sentences, by its position written as text.
    means_ : dict of str to LevelMeans
        The mean target of each level of columns with many, likewise: only `TuneFree*` learn them.
    calendar_ : dict of str to list of str
        The calendar columns of each column of dates, likewise.
    dropped_ : list of str
        The names of input columns without an output column.
    sources_ : ndarray of int of shape (n_columns_out,)
        The input column of every output column.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    Raises
    ------
    ValueError
        For infinite numbers, `categorical_features` or a `schema` of other columns, and new rows
        whose column is of another kind than in `fit`.
    TypeError
        For values that are neither numbers, text, booleans nor dates.

    Warns
    -----
    DataWarning
        For nearly equal levels, without `merge_levels`; for cells that are not of their column's
        kind; for dates whose day and month could be either way round; for numbers such as -999 that
        stand apart, and count as missing.

    Examples
    --------
    >>> import numpy as np
    >>> from tunefree import TablePreprocessor
    >>> X = np.array([[1.0, "red"], [np.nan, "blue"], [3.0, "red"], [2.0, "blue"]], dtype=object)
    >>> table = TablePreprocessor().fit(X)
    >>> table.transform(X)
    array([[1., 0., 0., 1.],
           [2., 1., 1., 0.],
           [3., 0., 0., 1.],
           [2., 0., 1., 0.]])
    >>> list(table.get_feature_names_out())
    ['x0', 'x0 is missing', 'x1=blue', 'x1=red']
    """

    def __init__(
        self,
        max_levels: int = 250,
        min_share: float = 0.001,
        sparse_output: bool | str = "auto",
        categorical_features: Any = "from_dtype",
        merge_levels: bool = False,
        schema: dict | None = None,
        on_bad_cell: str = "missing",
    ):
        self.max_levels = max_levels
        self.min_share = min_share
        self.sparse_output = sparse_output
        self.categorical_features = categorical_features
        self.merge_levels = merge_levels
        self.schema = schema
        self.on_bad_cell = on_bad_cell

    @matched_by_place
    def fit(self, X: MatrixLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn kinds, medians and levels.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.

        Returns
        -------
        self
        """
        self._fitted(X, sample_weight)
        return self

    @matched_by_place
    def fit_transform(
        self, X: MatrixLike, y: Any = None, sample_weight: ArrayLike | None = None
    ) -> Any:
        """`fit`, and the numbers of the same rows, whose cells are read once.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        ndarray or sparse matrix of shape (n_samples, n_columns_out)
        """
        found = self._fitted(X, sample_weight)
        return self._learned_numbers(X, found)

    def _learned_rows(self, X, sample_weight=None):
        """The `LearnedRows`, for an estimator that learns means of levels, and warns itself."""
        self._check_options()
        found = self._learn(X, sample_weight)
        if found is None:
            return LearnedRows(self.transform(X))
        columns = enumerate(found.columns)
        rare = [one for j, column in columns for one in self._rare_of(j, column, found.weights)]
        return LearnedRows(self._learned_numbers(X, found), tuple(rare), found.remarks)

    def _rare_of(self, j, column, weights):
        """The `RareLevels` of a column of categories, if much of the weight is of some."""
        own = self.levels_.get(str(j), [])
        if self.kinds_[j] != CATEGORY or not (self.rare_[j] or not own):
            return []
        levels, codes = column.filled(MISSING)
        merged = self.merged_.get(str(j), {})
        distinct, place = np.unique([merged.get(x, x) for x in levels], return_inverse=True)
        sums = np.bincount(place[codes], weights, len(distinct))
        if sums[~np.isin(distinct, own)].sum() < _MANY_RARE * weights.sum():
            return []
        return [RareLevels(j, distinct.astype(object), place[codes])]

    def _learned_numbers(self, X, found):
        """The numbers of the rows of a fit."""
        if found is None or (found.table.plain is not None and self._is_every_number):
            return self.transform(X)
        return self._numbers_of(found.table, found.columns, is_new=False)

    def _check_options(self):
        if self.sparse_output not in (True, False, "auto"):
            raise ValueError(
                f"sparse_output={self.sparse_output!r} is not one of True, False, 'auto'."
            )
        check_values(self)

    def _fitted(self, X, sample_weight):
        """Learn and warn; return the `_TableFound`, or None if columns need not be read."""
        self._check_options()
        with restored_on_error(self):
            found = self._learn(X, sample_weight)
            if found is not None:
                self._warn_of_columns(found.remarks)
            return found

    def _learn(self, X, sample_weight):
        table = _GivenTable.of(self, X, reset=True)
        n, d = table.X.shape
        form = {"dtype": np.float64, "ensure_non_negative": True}
        sample_weight = complete(sample_weight, "sample_weight")
        weights = _check_sample_weight(sample_weight, np.empty(n), **form)
        if not weights.any():
            raise ValueError(
                "All entries of sample_weight are zero: there is nothing to learn from."
            )
        weights = in_units_of_rows(weights)
        self._begin(d)
        used = weights > 0
        declared = np.flatnonzero(self._declared(d))
        schema: Any = None
        if table.plain is not None and not self.schema and not len(declared):
            schema = _schema_of_numbers(table, names_in(self))
        if schema is not None:
            self.schema_ = schema
            if not table.is_sparse:
                rows: Any = table.plain
                self.medians_ = _medians(rows[used], weights[used])
            return None
        given = self._given_kinds(declared)
        read = learn_columns(table.X, names_in(self), weights, given, self.on_bad_cell)
        self.schema_, columns = read
        found = self._learn_columns(columns, used, weights[used])
        return _TableFound(table, columns, weights, self._without_dropped(found))

    def _begin(self, d):
        """Have d columns, of which nothing is known."""
        self.kinds_ = np.full(d, NUMBER, dtype="<U8")
        self.medians_, self.missing_ = np.zeros(d), np.zeros(d, dtype=bool)
        self.rare_, self.levels_ = np.zeros(d, dtype=bool), {}
        self.phrases_, self.calendar_, self.merged_, self.means_ = {}, {}, {}, {}

    def _without_dropped(self, found):
        """What to warn of; nearly equal levels that are merged are `merged_`."""
        widths = self._columns_out()
        if not widths.any():
            raise ValueError(
                "X has only high-cardinality text columns: there is nothing to learn from."
            )
        names = self.schema_.names
        kept = {j: one for j, one in found.items() if widths[int(j)]}
        near = {j: one.near for j, one in kept.items() if one.near}
        self.merged_ = near if self.merge_levels else {}
        findings = []
        if not self.merge_levels:
            findings = [Finding(names[int(j)], _similar(merged)) for j, merged in near.items()]
        for j, one in kept.items():
            if one.shared > _MOST_SHARED and self.schema_.columns[int(j)].note is None:
                findings.append(Finding(names[int(j)], _rare(one.shared)))
        return findings

    def _given_kinds(self, declared):
        """What is known of some columns: the user's schema, and declared categories."""
        names = names_in(self)
        given = dict(self.schema or {})
        for j in declared.tolist():
            given.setdefault(names[j], CATEGORY)
        return given

    def learn_summaries(self, names: Any, summaries: Any, unit: float = 1.0) -> Any:
        """Learn kinds, medians and levels of a table whose parts were summed up.

        Parameters
        ----------
        names : sequence of str, or None
            Those of the columns.
        summaries : sequence of ColumnSummary
        unit : float, default=1
            What the weight of a row is multiplied by.

        Returns
        -------
        callable
            Warns of what a person should look at.
        """
        d = len(summaries)
        self.n_features_in_ = d
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        self._begin(d)
        given = self._given_kinds(np.flatnonzero(self._declared(d)))
        read = ReadSummaries.of(names_in(self), summaries, unit, given)
        self.schema_, found = read.schema, {}
        for j, (column, weights) in enumerate(zip(read.columns, read.weights, strict=True)):
            found |= self._learn_column(j, column, weights > 0.0, weights)
        findings = self._without_dropped(found)

        def warn_of_all():
            warn_of_bad(read.bad, self.on_bad_cell)
            self._warn_of_columns(findings)

        return warn_of_all

    def _learn_columns(self, columns, used, weights):
        """Learn every column; return the `_LevelsFound` of those of text."""
        found = {}
        for j, column in enumerate(columns):
            found |= self._learn_column(j, column, used, weights)
        return found

    def _learn_column(self, j, found, used, weights):
        """Learn a column; return the `_LevelsFound` of one of text, by its position."""
        if found.levels is None:
            self._learn_numbers(j, found.kind, found.values[used], found.missing[used], weights)
            return {}
        levels, codes = found.filled(MISSING)
        texts = _TextColumn(levels, codes[used], weights, found.missing[used])
        return {str(j): self._learn_text(j, texts, found.kind)}

    def _warn_of_columns(self, remarks):
        """Warn of levels, of what the schema notes, and of dropped columns."""
        notes = notes_of_columns(self.schema_.names, self.schema_.columns)
        names = {self.schema_.names[int(j)] for j in self._level_means}
        remarks = [one for one in remarks if not (one.column in names and _is_rare(one))]
        warn_of([*remarks, *(Finding(*one) for one in notes)])
        if self.dropped_:
            warn(f"High-cardinality text columns dropped: {', '.join(map(repr, self.dropped_))}.")

    def _learn_numbers(self, j, kind, values, absent, weights):
        """Learn a column of numbers or dates."""
        self.missing_[j] = absent.any()
        self.medians_[j] = _median(values[~absent], weights[~absent])
        if kind == DATE:
            self.kinds_[j] = DATE
            parts = calendar(np.where(absent, self.medians_[j], values))
            self.calendar_[str(j)] = [name for name, v in parts.items() if (v != v[0]).any()]

    def _learn_text(self, j, texts, kind):
        """Learn a column of categories or sentences; return the remarks on its levels."""
        self.kinds_[j] = CATEGORY
        levels, rare = self._common(texts)
        may_be_sentences = kind == TEXT and not self._is_given(j)
        if self._is_given(j, TEXT) or (may_be_sentences and _are_sentences(texts, levels)):
            self.kinds_[j] = TEXT
            present = ~texts.absent
            self.phrases_[str(j)] = Phrases.of(texts.of_rows()[present], texts.weights[present])
            return _LevelsFound({}, 0.0)
        near = near_levels(texts.levels.tolist(), texts.counts())
        if self.merge_levels and near:
            texts = texts.merged(near)
            levels, rare = self._common(texts)
        self.levels_[str(j)], self.rare_[j] = levels, rare
        return _LevelsFound(near, texts.share_without(levels))

    def _is_given(self, j, kind=None):
        """Whether the user gives the kind of a column, or this kind."""
        given = (self.schema or {}).get(self.schema_.names[j], {})
        found = given.get("kind") if isinstance(given, dict) else given
        return found is not None if kind is None else found == kind

    def _declared(self, d):
        """Which of d columns are declared as categories."""
        given, mask = self.categorical_features, np.zeros(d, dtype=bool)
        names = list(getattr(self, "feature_names_in_", ()))
        if hasattr(given, "reindex") and names and {*given.index} == {*names}:
            given = given.reindex(names).to_numpy()  # by the labels of a Series
        if given is None or isinstance(given, str) and given == "from_dtype":
            return mask
        chosen = np.atleast_1d(np.asarray(given))
        if not chosen.size:
            return mask
        try:
            if chosen.dtype.kind in "USO":
                chosen = np.array([names.index(name) for name in chosen])
            if chosen.ndim > 1:
                raise ValueError
            mask[chosen] = True
        except (ValueError, IndexError):
            raise ValueError(
                f"categorical_features={given!r} is not a mask, a list of positions or a list of "
                f"names of {d} columns."
            ) from None
        return mask

    def _common(self, texts):
        """The levels that get a column of their own, and whether others share one."""
        counts = texts.counts()
        fewest = max(2.0, self.min_share * texts.weights.sum())
        order = np.argsort(-counts, kind="stable")
        common = [i for i in order if counts[i] >= fewest]
        n_levels = np.count_nonzero(np.bincount(texts.codes, minlength=len(counts)))
        if len(common) < n_levels or len(common) > self.max_levels:
            common = common[: self.max_levels - 1]
        return [texts.levels[i] for i in sorted(common)], 0 < len(common) < n_levels

    def transform(self, X: MatrixLike) -> Any:
        """Numbers of shape (n_samples, n_columns_out); see `get_feature_names_out`.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
        """
        return self._numbers_for(self, X)

    def _numbers_for(self, estimator, X, is_new=True):
        """The same for rows of an estimator with this table, which messages name.

        Rows that are not new are a part of those of the fit.
        """
        check_is_fitted(self, "kinds_")
        every_number = self._is_every_number
        rows = plain_rows(self, X) if every_number else None
        if rows is not None:
            return rows
        table = _GivenTable.of(estimator, X, reset=False)
        if table.plain is not None and every_number:
            return table.plain
        columns = read_columns(self.schema_, table.X, self.on_bad_cell, is_new)
        return self._numbers_of(table, columns, is_new)

    @property
    def _is_every_number(self):
        """Whether every column is one of numbers, none of which may be missing."""
        return not self.missing_.any() and bool(np.all(self.kinds_ == "number"))

    def _numbers_of(self, table, columns, is_new):
        """The numbers of a table whose columns have been read."""
        pieces, unknown = [], []
        for j, found in enumerate(columns):
            pieces += [p.astype(table.dtype, copy=False) for p in self._pieces(j, found, unknown)]
        if unknown and is_new:
            warn_of_unknown(unknown)
        if table.is_sparse or self._gives_csr(pieces):
            return sparse.hstack([sparse.csr_array(p) for p in pieces], format="csr")
        return np.hstack([as_dense(p) for p in pieces])

    def _pieces(self, j, found, unknown):
        """The output columns of input column j: one or more in each piece, sparse or dense.

        The `UnknownLevel` of a column is appended to `unknown`.
        """
        if self.kinds_[j] == TEXT:
            texts = np.array([*found.levels, MISSING], dtype=object)[found.codes]
            return [self.phrases_[str(j)].numbers(texts, found.missing)]
        if self.kinds_[j] == CATEGORY:
            levels, codes = found.filled(MISSING)
            return [self._one_hot(j, levels, codes, unknown), *self._means_of(j, levels, codes)]
        values = np.where(found.missing, self.medians_[j], found.values)
        columns = [values, found.missing] if self.missing_[j] else [values]
        if self.kinds_[j] == DATE:
            parts = calendar(values)
            columns += [parts[name] for name in self.calendar_[str(j)]]
        return [column[:, None] for column in columns]

    def expects_csr(self) -> bool:
        """Whether output is CSR, by the kinds of the columns alone, for rows in parts."""
        if self.sparse_output != "auto":
            return bool(self.sparse_output)
        widths = self._columns_out()
        stored = np.where(self.kinds_ == CATEGORY, np.minimum(widths, 1), widths)
        return bool(stored.sum() < _DENSE_FROM * widths.sum())

    def _gives_csr(self, pieces):
        """Whether the output for dense input is CSR."""
        if self.sparse_output != "auto":
            return self.sparse_output
        requests_frames = _get_output_config("transform", self)["dense"] != "default"
        stored = sum(np.count_nonzero(entries(p)[0]) for p in pieces)
        size = sum(p.shape[0] * p.shape[1] for p in pieces)
        return not requests_frames and stored < _DENSE_FROM * size

    def _one_hot(self, j, found, codes, unknown):
        """The 0/1 columns of a categorical column, of levels and the code of every row."""
        levels, rare = self.levels_[str(j)], bool(self.rare_[j])
        number = {level: k for k, level in enumerate(levels)}
        other, merged = len(levels) if rare else -1, self.merged_.get(str(j), {})
        column = [number.get(merged.get(level, level), other) for level in found.tolist()]
        if levels and -1 in column:  # without rare levels
            is_unknown = (np.array(column) < 0) & (found != MISSING)
            name = self.schema_.names[j]
            unknown.append(UnknownLevel.of(name, is_unknown, found, codes))
        column = np.array(column, dtype=np.int64)[codes]
        rows = np.flatnonzero(column >= 0)
        shape = len(codes), len(levels) + rare
        return sparse.csr_array((np.ones(len(rows)), (rows, column[rows])), shape=shape)

    def _means_of(self, j, levels, codes):
        """The mean targets of the levels of a column, if they were learned."""
        means, merged = self._level_means.get(str(j)), self.merged_.get(str(j), {})
        if means is None:
            return []
        levels = np.array([merged.get(level, level) for level in levels.tolist()], dtype=object)
        return [means.numbers(levels, codes)]

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """Names of the output columns: 'age', 'age is missing', 'city=Rome', 'city=(rare)'.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the input columns, if `fit` saw none.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self, "kinds_")
        names = []
        for j, name in enumerate(_check_feature_names_in(self, input_features)):
            names += [f"{name}{suffix}" for suffix in self._suffixes(j)]
        return np.asarray(names, dtype=object)

    def _suffixes(self, j):
        """The suffixes of the name of input column j in its output columns."""
        if self.kinds_[j] == "text":
            return [f": text {i + 1}" for i in range(self.phrases_[str(j)].basis.shape[1])]
        if self.kinds_[j] != "category":
            suffixes = ["", " is missing"] if self.missing_[j] else [""]
            return suffixes + [f": {name}" for name in self.calendar_.get(str(j), ())]
        return [f"={level}" for level in self.levels_[str(j)]] + self._more_suffixes(j)

    def _more_suffixes(self, j):
        """The suffixes of the output columns of a categorical column after those of levels."""
        suffixes = ["=(rare)"] if self.rare_[j] else []
        if str(j) not in self._level_means:
            return suffixes
        n_means = self._level_means[str(j)].means.shape[1]
        numbered = [f": mean target {k + 1}" for k in range(n_means)]
        return suffixes + (numbered if n_means > 1 else [": mean target"])

    @property
    def sources_(self) -> np.ndarray:
        """The input column of every output column."""
        check_is_fitted(self, "kinds_")
        return np.repeat(np.arange(self.n_features_in_), self._columns_out())

    def _columns_out(self):
        """The number of output columns of every input column."""
        out = 1 + self.missing_.astype(np.intp)
        for j in np.flatnonzero(self.kinds_ != "number"):
            out[j] = len(self._suffixes(j))
        return out

    @property
    def _level_means(self):
        """`means_`: a model that was saved before they were learned has none."""
        return vars(self).get("means_", {})

    @property
    def dropped_(self) -> list[str]:
        """The names of input columns without an output column."""
        check_is_fitted(self, "kinds_")
        names = self.schema_.names
        return [names[j] for j in np.flatnonzero(self._columns_out() == 0)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class KnownTable(TablePreprocessor):
    """A `TablePreprocessor` that was fitted before, whose rows have become its numbers.

    An estimator with it as `_known_table` learns such rows. Its `fit` only warns.
    """

    _warn: Callable[[], None]

    def fit(self, X: MatrixLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Warn of what was found before."""
        self._warn()
        return self

    def fit_transform(
        self, X: MatrixLike, y: Any = None, sample_weight: ArrayLike | None = None
    ) -> Any:
        """Warn of what was found before; the numbers themselves."""
        self._warn()
        return X

    def transform(self, X: MatrixLike) -> Any:
        """The numbers themselves."""
        return X

    def _numbers_for(self, estimator, X, is_new=True):
        return X

    @classmethod
    def of(cls, table: TablePreprocessor, warn_of_all: Any) -> KnownTable:
        """The same table; `warn_of_all` warns."""
        known = cls(**table.get_params(deep=False))
        vars(known).update(vars(table), _warn=warn_of_all)
        return known

    def plain(self) -> TablePreprocessor:
        """The `TablePreprocessor` itself."""
        table = TablePreprocessor(**self.get_params(deep=False))
        vars(table).update({name: v for name, v in vars(self).items() if name != "_warn"})
        return table


class LearnedRows(NamedTuple):
    """The rows that a `TablePreprocessor` has learned, and what was found in them."""

    X: Any  # numbers
    rare: tuple = ()  # of `RareLevels`
    remarks: Sequence[Finding] = ()  # on levels


class _TableFound(NamedTuple):
    """A table whose columns have been read and learned, and the remarks on their levels."""

    table: Any
    columns: list
    weights: Any  # of all rows, in units of a row
    remarks: list


class _LevelsFound(NamedTuple):
    """The remarks on the levels of a column."""

    near: dict  # nearly equal ones
    shared: float  # the share of rows with rare ones, which are one level


class _TextColumn(NamedTuple):
    """A column of text: distinct levels in order, their codes, weights, and which are absent."""

    levels: np.ndarray
    codes: np.ndarray
    weights: np.ndarray
    absent: np.ndarray

    def counts(self):
        """The weight of each level."""
        return np.bincount(self.codes, self.weights, minlength=len(self.levels))

    def share_without(self, levels):
        """The share of the weight of rows with other levels."""
        counts, own = self.counts(), set(levels)
        kept = [level in own for level in self.levels.tolist()]
        return 1.0 - counts @ np.array(kept, dtype=float) / counts.sum()

    def of_rows(self):
        """The text of each row."""
        return self.levels[self.codes]

    def merged(self, near):
        """The same with some levels as others."""
        place = {level: k for k, level in enumerate(self.levels.tolist())}
        target = [place[near.get(level, level)] for level in self.levels.tolist()]
        return self._replace(codes=np.array(target, dtype=np.int64)[self.codes])


def _are_sentences(texts, common):
    """Whether most cells, by weight, have several words and are not a common level."""
    weights = np.where(texts.absent, 0.0, texts.weights)
    mass = np.bincount(texts.codes, weights, minlength=len(texts.levels))
    half, common, levels = 0.5 * mass.sum(), set(common), texts.levels.tolist()
    in_common = mass @ np.array([text in common for text in levels], dtype=float)
    of_words = mass @ np.array([len(text.split(None, 1)) > 1 for text in levels], dtype=float)
    return bool(in_common < half < of_words)


def calendar(days):
    """The calendar columns of days since 1970, by name; Monday is 0."""
    whole = np.floor(days)
    day = whole.astype(np.int64).astype("M8[D]")
    month = day.astype("M8[M]")
    weekday = (whole + 3) % 7
    return {
        "month": month.astype(np.int64) % 12 + 1,
        "day of month": (day - month).astype(np.int64) + 1,
        "weekday": weekday,
        "weekend": weekday >= 5,
        "hour": np.round((days - whole) * 24.0, 9),
    }


def of_source_columns(values: Any, table: Any) -> np.ndarray:
    """Values of the output columns of a `TablePreprocessor`, added up to those of its input."""
    return np.bincount(table.sources_, values, table.n_features_in_)


def signs_of(estimator: Any, monotonic_cst: Any) -> np.ndarray:
    """The signs of the columns of a fitted estimator; those of a Series are by its labels.

    Raises
    ------
    ValueError
        If the signs are not 1, -1 or 0, or are those of other columns.
    """
    if isinstance(monotonic_cst, int | float | np.number):
        raise ValueError(
            f"monotonic_cst={monotonic_cst!r} is one number: give one of 1, -1 and 0 for every "
            "column, or a dict of names."
        )
    names = getattr(estimator, "feature_names_in_", ())
    if hasattr(monotonic_cst, "index") and hasattr(monotonic_cst, "to_dict"):
        labels = list(monotonic_cst.index)
        if labels and set(labels) <= {*names}:
            monotonic_cst = monotonic_cst.to_dict()
    return np.asarray(_check_monotonic_cst(estimator, monotonic_cst), dtype=np.int8)


def signs_of_columns(table: Any, monotonic_cst: Any) -> np.ndarray:
    """The signs of the output columns of a `TablePreprocessor`, by those of its input columns.

    Raises
    ------
    ValueError
        If a column with a sign does not hold numbers.
    """
    signs = signs_of(table, monotonic_cst)
    wrong = np.flatnonzero((signs != 0) & (table.kinds_ != NUMBER))
    if len(wrong):
        name, kind = table.schema_.names[wrong[0]], table.kinds_[wrong[0]]
        raise ValueError(f"monotonic_cst= is for columns of numbers: {name!r} is a {kind} column.")
    return signs[table.sources_]


def source_layout(table):
    """The `SourceLayout` of a fitted `TablePreprocessor`."""
    starts = np.concatenate([[0], np.cumsum(table._columns_out())])
    names, kinds = table.schema_.names, table.kinds_.tolist()
    n_means = np.zeros(len(names), dtype=np.intp)
    for j, means in table._level_means.items():
        n_means[int(j)] = means.means.shape[1]
    return SourceLayout(list(names), kinds, starts, table.missing_, table.rare_, n_means)


def _rare(shared):
    """A message about rare levels."""
    return f"{100.0 * shared:.0f} % of its rows have a level that hardly another row has, {_AS_ONE}"


def _is_rare(finding):
    """Whether a finding is one about rare levels."""
    return finding.message.endswith(_AS_ONE)


def _similar(merged):
    """A message about nearly equal levels."""
    pairs = [f"{level!r} and {other!r}" for level, other in merged.items()]
    more = f" and {len(pairs) - _MOST_PAIRS} more pairs" if len(pairs) > _MOST_PAIRS else ""
    pairs = ", ".join(pairs[:_MOST_PAIRS])
    return f"nearly equal levels: {pairs}{more}. merge_levels=True makes them one level."


def _median(values, weights):
    """The smallest value whose cumulative weight is at least half; 0 without values."""
    return float(weighted_quantiles(values, weights, 0.5)) if len(values) else 0.0


def _medians(X, weights):
    """`_median` of every column of numbers."""
    if np.all(weights == weights[0]):
        return np.quantile(X, 0.5, axis=0, method="inverted_cdf").astype(np.float64)
    return np.array([_median(X[:, j], weights) for j in range(X.shape[1])])


class _GivenTable(NamedTuple):
    """A user's table; ``plain`` is all of it, if there are only finite numbers."""

    X: Any
    plain: Any
    dtype: np.dtype  # of the numbers that it becomes

    @property
    def is_sparse(self):
        """Whether rows are sparse."""
        return sparse.issparse(self.X)

    @classmethod
    def of(cls, estimator, X, reset):
        """Check a table, and its columns' names."""
        check_frame(X)
        X = as_table(X, None if reset else vars(estimator).get("feature_names_in_"))
        is_frame = names_of(X) is not None
        if is_frame:
            validate_data(estimator, X, reset=reset, skip_check_array=True)
            if 0 in X.shape:
                raise ValueError(
                    f"Found array with {X.shape[0]} sample(s) (shape={X.shape}) while a minimum of "
                    "1 row and column is required."
                )
            is_single = set(_types(X)) <= {"float32", "float", "Float32"}
            single = np.dtype(np.float32 if is_single else np.float64)
            return cls(X, None, single)
        options = {"accept_sparse": "csr", "dtype": None, "ensure_all_finite": False}
        # Arrays of other libraries become NumPy's by their own rules.
        with config_context(array_api_dispatch=False):
            X = validate_data(estimator, X, reset=reset, **options)
        if X.dtype.kind not in "biufOUSMm":
            X = check_array(X, accept_sparse="csr", dtype=np.float64)
        if X.dtype.kind not in "biuf":
            return cls(X, None, np.dtype(np.float64))
        dtype = np.dtype(np.float32 if X.dtype == np.float32 else np.float64)
        is_finite = np.isfinite(entries(X)[0]).all()
        return cls(X, X.astype(dtype, copy=False) if is_finite else None, dtype)


def _schema_of_numbers(table, names):
    """The `Schema` of plain rows; None if a column must be looked at."""
    if table.is_sparse:
        return Schema.of_sparse(names)
    if table.X.dtype.kind in "iu" and np.abs(table.plain).max() >= EXACT:
        return None
    return Schema.of_numbers(table.plain, names)


def _types(frame):
    """The names of the columns' types."""
    is_arrow = hasattr(frame, "column_names")
    return [str(kind) for kind in (frame.schema.types if is_arrow else frame.dtypes)]
