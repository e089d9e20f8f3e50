"""Mixed tables to numbers: categories, sentences, missing values, booleans and dates.

Numbers without missing values pass unchanged, sparse matrices too. Scaling is left to the learners.

Why not scikit-learn's `ColumnTransformer` of `OneHotEncoder` and `SimpleImputer`, or skrub's
`TableVectorizer`: their `fit` takes no ``sample_weight``, and here a weight is a repetition, for
medians and for rare levels. skrub would also require pandas.
"""

from datetime import date
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn._config import config_context
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import (
    _check_feature_names_in,
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from tunefree.core.parameters import check_values, restored_on_error
from tunefree.core.protocols import MatrixLike
from tunefree.core.warn import warn
from tunefree.rows.checks import Finding, SourceLayout, near_levels, warn_of
from tunefree.rows.matrices import as_dense, check_frame, entries, plain_rows
from tunefree.rows.missing import complete
from tunefree.rows.order import in_units_of_rows
from tunefree.rows.quantiles import weighted_quantiles

# With sparse_output='auto', output with a smaller share of non-zero entries is CSR.
_DENSE_FROM = 0.25
MISSING = "(missing)"
# Hashed columns of pieces of words, and the largest number of their directions.
_PIECES, _DIRECTIONS = 1 << 13, 30
# Pairs of nearly equal levels that a message names.
_MOST_PAIRS = 5


class TablePreprocessor(TransformerMixin, BaseEstimator):
    """Convert pandas, polars, pyarrow or array columns to numbers.

    Numbers and booleans stay numbers, and text such as 7% or $5,000 becomes numbers. Dates, also
    text such as 31.01.2024, become days since 1970 and, where they vary, month, day of the month,
    weekday, weekend and hour, in local time. Text and categories become one 0/1 column a level.
    Rare levels share one column, with levels not seen in `fit`; without rare levels an unseen level
    is all zeros. Sentences (most cells have several words and are not a common level) become
    numbers by `Phrases`. Other high-cardinality text is dropped, with a warning. A missing number
    becomes the median of its column, with a 0/1 column of missing values if there were any in
    `fit`; a missing category is a level of its own.

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
        Whether nearly equal levels, such as 'Berlin', 'berlin ' and 'Berlni', become the most
        frequent one of them. Otherwise a `DataWarning` names them.

    Attributes
    ----------
    kinds_ : ndarray of str of shape (n_features,)
        'number', 'category', 'text', 'date', or 'date dmy' (text with the day before the month).
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
        For infinite numbers, values that are neither numbers, text, booleans nor dates, or
        `categorical_features` that are not columns.

    Warns
    -----
    DataWarning
        For nearly equal levels, without `merge_levels`.

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
    ):
        self.max_levels = max_levels
        self.min_share = min_share
        self.sparse_output = sparse_output
        self.categorical_features = categorical_features
        self.merge_levels = merge_levels

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
        if self.sparse_output not in (True, False, "auto"):
            raise ValueError(
                f"sparse_output={self.sparse_output!r} is not one of True, False, 'auto'."
            )
        check_values(self)
        with restored_on_error(self):
            return self._learn(X, sample_weight)

    def _learn(self, X, sample_weight):
        table = _Table(self, X, reset=True)
        n, d = table.shape
        form = {"dtype": np.float64, "ensure_non_negative": True}
        sample_weight = complete(sample_weight, "sample_weight")
        weights = _check_sample_weight(sample_weight, np.empty(n), **form)
        if not weights.any():
            raise ValueError(
                "All entries of sample_weight are zero: there is nothing to learn from."
            )
        weights = in_units_of_rows(weights)
        self.kinds_ = np.full(d, "number", dtype="<U8")
        self.medians_, self.missing_ = np.zeros(d), np.zeros(d, dtype=bool)
        self.rare_, self.levels_ = np.zeros(d, dtype=bool), {}
        self.phrases_, self.calendar_, self.merged_ = {}, {}, {}
        used = weights > 0
        declared = self._declared(d) | table.categories()
        if table.plain is not None and not declared.any():
            if not table.is_sparse:
                self.medians_ = _medians(table.plain[used], weights[used])
            return self
        near = {}
        kinds = ["category" if one else None for one in declared]
        for j, (kind, values, absent) in enumerate(table.columns(kinds)):
            column = values[used], absent[used], weights[used]
            self.kinds_[j] = kind
            if kind == "category":
                near[str(j)] = self._learn_text(j, *column, declared[j])
            else:
                self._learn_numbers(j, *column)
        widths = self._columns_out()
        if not widths.any():
            raise ValueError(
                "X has only high-cardinality text columns: there is nothing to learn from."
            )
        near = {j: merged for j, merged in near.items() if merged and widths[int(j)]}
        if self.merge_levels:
            self.merged_ = near
        else:
            names = _check_feature_names_in(self)
            warn_of(Finding(str(names[int(j)]), _similar(merged)) for j, merged in near.items())
        if self.dropped_:
            warn(f"High-cardinality text columns dropped: {', '.join(map(repr, self.dropped_))}.")
        return self

    def _learn_numbers(self, j, values, absent, weights):
        """Learn a column of numbers or dates."""
        self.missing_[j] = absent.any()
        self.medians_[j] = _median(values[~absent], weights[~absent])
        if self.kinds_[j] != "number":
            parts = calendar(np.where(absent, self.medians_[j], values))
            self.calendar_[str(j)] = [name for name, v in parts.items() if (v != v[0]).any()]

    def _learn_text(self, j, values, absent, weights, is_declared):
        """Learn a column of categories or sentences; return its nearly equal levels."""
        levels, rare = self._common(values, weights)
        if not is_declared and _are_sentences(values, absent, weights, levels):
            self.kinds_[j] = "text"
            self.phrases_[str(j)] = Phrases.of(values[~absent], weights[~absent])
            return {}
        near = _nearly_equal(values, weights)
        if self.merge_levels:
            merged = [near.get(value, value) for value in values.tolist()]
            levels, rare = self._common(np.array(merged, dtype=object), weights)
        self.levels_[str(j)], self.rare_[j] = levels, rare
        return near

    def _declared(self, d):
        """Which of d columns are declared as categories."""
        given, mask = self.categorical_features, np.zeros(d, dtype=bool)
        if given is None or isinstance(given, str) and given == "from_dtype":
            return mask
        chosen = np.atleast_1d(np.asarray(given))
        if not chosen.size:
            return mask
        try:
            if chosen.dtype.kind in "USO":
                names = list(getattr(self, "feature_names_in_", ()))
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

    def _common(self, values, weights):
        """The levels that get a column of their own, and whether others share one."""
        levels, codes = _coded(values)
        counts = np.bincount(codes, weights, minlength=len(levels))
        fewest = max(2.0, self.min_share * weights.sum())
        order = np.argsort(-counts, kind="stable")
        common = [i for i in order if counts[i] >= fewest]
        if len(common) < len(levels) or len(common) > self.max_levels:
            common = common[: self.max_levels - 1]
        return [levels[i] for i in sorted(common)], 0 < len(common) < len(levels)

    def transform(self, X: MatrixLike) -> Any:
        """Numbers of shape (n_samples, n_columns_out); see `get_feature_names_out`.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
        """
        return self._numbers_for(self, X)

    def _numbers_for(self, estimator, X):
        """The same for rows of an estimator with this table, which messages name."""
        check_is_fitted(self, "kinds_")
        every_number = not self.missing_.any() and np.all(self.kinds_ == "number")
        rows = plain_rows(self, X) if every_number else None
        if rows is not None:
            return rows
        table = _Table(estimator, X, reset=False)
        if table.plain is not None and every_number:
            return table.plain
        pieces = []
        for j, (_, values, absent) in enumerate(table.columns(self.kinds_)):
            pieces += [p.astype(table.dtype, copy=False) for p in self._pieces(j, values, absent)]
        if table.is_sparse or self._gives_csr(pieces):
            return sparse.hstack([sparse.csr_array(p) for p in pieces], format="csr")
        return np.hstack([as_dense(p) for p in pieces])

    def _pieces(self, j, values, absent):
        """The output columns of input column j: one or more in each piece, sparse or dense."""
        if self.kinds_[j] == "text":
            return [self.phrases_[str(j)].numbers(values, absent)]
        if self.kinds_[j] == "category":
            return [self._one_hot(j, values)]
        values = np.where(absent, self.medians_[j], values)
        columns = [values, absent] if self.missing_[j] else [values]
        if self.kinds_[j] != "number":
            parts = calendar(values)
            columns += [parts[name] for name in self.calendar_[str(j)]]
        return [column[:, None] for column in columns]

    def _gives_csr(self, pieces):
        """Whether the output for dense input is CSR."""
        if self.sparse_output != "auto":
            return self.sparse_output
        requests_frames = _get_output_config("transform", self)["dense"] != "default"
        stored = sum(np.count_nonzero(entries(p)[0]) for p in pieces)
        size = sum(p.shape[0] * p.shape[1] for p in pieces)
        return not requests_frames and stored < _DENSE_FROM * size

    def _one_hot(self, j, values):
        """The 0/1 columns of a categorical column."""
        levels, rare = self.levels_[str(j)], bool(self.rare_[j])
        number = {level: k for k, level in enumerate(levels)}
        found, codes = _coded(values)
        other, merged = len(levels) if rare else -1, self.merged_.get(str(j), {})
        column = [number.get(merged.get(level, level), other) for level in found]
        column = np.array(column, dtype=np.int64)[codes]
        rows = np.flatnonzero(column >= 0)
        shape = len(values), len(levels) + rare
        return sparse.csr_array((np.ones(len(rows)), (rows, column[rows])), shape=shape)

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
        return [f"={level}" for level in self.levels_[str(j)]] + ["=(rare)"] * bool(self.rare_[j])

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
    def dropped_(self) -> list[str]:
        """The names of input columns without an output column."""
        check_is_fitted(self, "kinds_")
        names = zip(_check_feature_names_in(self), self._columns_out(), strict=True)
        return [str(name) for name, columns in names if not columns]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class Phrases(NamedTuple):
    """Sentences to numbers: the main directions of their TF-IDF weights.

    Words are cut into pieces of 3 and 4 characters, hashed into columns, and counted as
    1 + log(count) times log((1 + n) / (1 + rows with the piece)) + 1; rows have length 1. Singular
    vectors then combine pieces that occur together (latent semantic analysis).

    Attributes
    ----------
    idf : ndarray of shape (n_pieces,)
    basis : ndarray of shape (n_pieces, n_directions)
    """

    idf: np.ndarray
    basis: np.ndarray

    @classmethod
    def of(cls, texts, weights):
        """Learn from sentences; weights are repetitions."""
        counts = _pieces(texts)
        frequency = (counts > 0).T @ weights
        idf = np.log((1.0 + weights.sum()) / (1.0 + frequency)) + 1.0
        rows = sparse.diags_array(np.sqrt(weights)) @ _tf_idf(counts, idf)
        k = min(_DIRECTIONS, max(1, len(set(texts.tolist())) // 8))
        gram: Any = LinearOperator(
            (_PIECES, _PIECES), matvec=lambda v: rows.T @ (rows @ v), dtype=np.float64
        )
        _, basis = eigsh(gram, k=k, v0=np.ones(_PIECES))
        basis = basis[:, ::-1]
        ends = basis[np.abs(basis).argmax(axis=0), np.arange(k)]
        return cls(idf.astype(np.float32), (basis * np.sign(ends)).astype(np.float32))

    def numbers(self, texts, absent):
        """Shape (n, n_directions); zeros where a text is absent."""
        rows = _tf_idf(_pieces(np.where(absent, "", texts)), self.idf.astype(np.float64))
        return rows @ self.basis.astype(np.float64)


def _pieces(texts):
    """Counts of pieces of words, hashed."""
    from sklearn.feature_extraction.text import HashingVectorizer

    hashed = HashingVectorizer(
        analyzer="char_wb", ngram_range=(3, 4), n_features=_PIECES, norm=None, alternate_sign=False
    )
    return sparse.csr_array(hashed.transform(texts.tolist()))


def _tf_idf(counts, idf):
    """The weights of pieces, in rows of length 1."""
    counts.data = 1.0 + np.log(counts.data)
    rows = counts @ sparse.diags_array(idf)
    length = np.sqrt(rows.multiply(rows).sum(axis=1))
    return sparse.diags_array(1.0 / np.maximum(np.ravel(length), 1e-300)) @ rows


def _are_sentences(values, absent, weights, levels):
    """Whether most cells, by weight, have several words and are not a common level."""
    texts, codes = _coded(values)
    mass = np.bincount(codes, np.where(absent, 0.0, weights), minlength=len(texts))
    common, half = set(levels), 0.5 * mass.sum()
    in_common = mass @ np.array([text in common for text in texts], dtype=float)
    of_words = mass @ np.array([len(text.split(None, 1)) > 1 for text in texts], dtype=float)
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


def source_layout(table):
    """The `SourceLayout` of a fitted `TablePreprocessor`."""
    starts = np.concatenate([[0], np.cumsum(table._columns_out())])
    names, kinds = _check_feature_names_in(table).tolist(), table.kinds_.tolist()
    return SourceLayout(names, kinds, starts, table.missing_, table.rare_)


def _nearly_equal(values, weights):
    """Levels that are nearly equal to a more frequent one, and that one."""
    levels, codes = _coded(values)
    return near_levels(levels, np.bincount(codes, weights, minlength=len(levels)))


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


def _coded(values):
    """The distinct texts in order, and the index of each value among them."""
    levels = sorted(set(values.tolist()))
    number = {level: k for k, level in enumerate(levels)}
    return levels, np.fromiter((number[v] for v in values.tolist()), np.int64, len(values))


class _Table:
    """Columns of a frame or array; ``plain`` is all of it, if there are only numbers."""

    def __init__(self, estimator, X, reset):
        check_frame(X)
        self.is_sparse, self.plain, self.dtype = sparse.issparse(X), None, np.dtype(np.float64)
        self.is_frame = hasattr(X, "columns") and not self.is_sparse
        if self.is_frame:
            validate_data(estimator, X, reset=reset, skip_check_array=True)
            if 0 in X.shape:
                raise ValueError(
                    f"Found array with {X.shape[0]} sample(s) (shape={X.shape}) while a minimum of "
                    "1 row and column is required."
                )
            if set(_types(X)) <= {"float32", "float"}:  # NumPy's and Arrow's single precision
                self.dtype = np.dtype(np.float32)
        else:
            options = {"accept_sparse": "csr", "dtype": None, "ensure_all_finite": False}
            # Arrays of other libraries become NumPy's by their own rules.
            with config_context(array_api_dispatch=False):
                X = validate_data(estimator, X, reset=reset, **options)
            if X.dtype.kind not in "biufOUSMm":
                X = check_array(X, accept_sparse="csr", dtype=np.float64)
            if X.dtype.kind in "biuf":
                self.dtype = np.dtype(np.float32 if X.dtype == np.float32 else np.float64)
                if np.isfinite(entries(X)[0]).all():
                    self.plain = X.astype(self.dtype, copy=False)
        self.X, self.shape = X, X.shape
        self.names = getattr(estimator, "feature_names_in_", None)

    def categories(self):
        """Which columns have a category type, also of numbers."""
        if not self.is_frame:
            return np.zeros(self.shape[1], dtype=bool)
        categories = ("category", "Categorical", "Enum", "dictionary")
        return np.array([name.startswith(categories) for name in _types(self.X)])

    def columns(self, kinds):
        """Yield (kind, values, absent) of every column: floats, or text as an array of objects."""
        for j in range(self.shape[1]):
            raw = series(self.X, j) if self.is_frame else as_dense(self.X[:, [j]])[:, 0]
            name = j if self.names is None else repr(str(self.names[j]))
            yield _column(raw, name, kinds[j])


def _types(frame):
    """The names of the columns' types."""
    is_arrow = hasattr(frame, "column_names")
    return [str(kind) for kind in (frame.schema.types if is_arrow else frame.dtypes)]


def series(frame, j):
    """A column of a frame as an array; missing values are None, NaN or NaT."""
    if hasattr(frame, "column_names"):
        return _arrow(frame.column(j))
    series = frame[frame.columns[j]]
    if getattr(series.dtype, "time_zone", None) is not None:  # polars
        return series.dt.replace_time_zone(None).to_numpy()
    if getattr(series.dtype, "tz", None) is not None:
        return series.dt.tz_localize(None).to_numpy()
    if hasattr(series, "isna"):
        kind = getattr(series.dtype, "kind", "O")
        if isinstance(series.dtype, np.dtype) and kind in "biufMm":
            return series.to_numpy()
        return series.to_numpy(dtype=object, na_value=None)
    return series.to_numpy()


def _arrow(column):
    """A column of a pyarrow table as an array; equal texts are one object."""
    from pyarrow import float64, timestamp, types
    from pyarrow.compute import local_timestamp

    kind = column.type
    if types.is_date(kind) or types.is_timestamp(kind):
        if getattr(kind, "tz", None) is not None:
            column = local_timestamp(column)
        return column.cast(timestamp("us"), safe=False).to_numpy()
    if types.is_decimal(kind):
        return column.cast(float64()).to_numpy()
    if types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    if types.is_string(column.type) or types.is_large_string(column.type):
        coded = column.dictionary_encode().combine_chunks()
        texts = np.array([*coded.dictionary.to_pylist(), None], dtype=object)
        return texts[coded.indices.fill_null(len(texts) - 1).to_numpy(zero_copy_only=False)]
    return column.to_numpy()


def _column(raw, name, kind):
    """(kind, values, absent) of a column; `kind` is that of `fit`, and None during `fit`.

    Kinds are 'number', the kinds of dates, and 'category' for text, sentences or not.
    """
    is_text = kind in ("category", "text")
    if raw.dtype.kind in "biufMm" and not is_text:
        return _typed_numbers(raw, name, kind)
    if raw.dtype.kind in "Mm":
        items, absent = raw, np.isnat(raw)
    else:
        items = raw.astype(object)
        absent = np.fromiter((v is None or v != v for v in items), bool, len(items))
    column = None if is_text else _numbers_of_objects(items, absent, name, kind)
    return ("category", *_text(items, absent, name)) if column is None else column


def _typed_numbers(raw, name, kind):
    """`_column` of an array of numbers, dates or durations."""
    if raw.dtype.kind in "biuf":
        values = raw.astype(np.float64)
        return kind or "number", *_finite(values, np.isnan(values), name)
    absent = np.isnat(raw)
    if raw.dtype.kind == "m":
        return "number", np.where(absent, 0.0, raw / np.timedelta64(1, "D")), absent
    return "date", _days(raw, absent), absent


def _numbers_of_objects(items, absent, name, kind):
    """`_column` of objects that are numbers or dates, also as text; None for others in `fit`."""
    present = items[~absent]
    are_numbers = all(isinstance(v, Real | Decimal | np.bool_) for v in present)
    if are_numbers and (len(present) or kind):
        values = np.zeros(len(items))
        values[~absent] = present.astype(float)
        return kind or "number", *_finite(values, absent, name)
    if len(present) and all(isinstance(v, date) for v in present):
        times = np.full(len(items), np.datetime64("NaT", "us"))
        times[~absent] = [np.datetime64(v.isoformat()[:26].partition("+")[0]) for v in present]
        return "date", _days(times, absent), absent
    are_texts = all(isinstance(v, str) for v in present)
    column = _parsed_text(items, absent, kind) if are_texts else None
    if column is None and kind is not None:
        bad = next(v for v in present if not isinstance(v, Real))
        held = "numbers" if kind == "number" else "dates"
        raise ValueError(f"Column {name} held {held} in fit, but now holds {bad!r}.")
    return column


def _days(times, absent):
    """Days since 1970."""
    days = (times - np.datetime64("1970-01-01")) / np.timedelta64(1, "D")
    return np.where(absent, 0.0, days)


def _parsed_text(items, absent, kind):
    """(kind, values, absent) of texts that are dates, or numbers such as 7%; None for others."""
    import pyarrow as pa

    from tunefree.rows.cells import DATES, formatted, kind_of, parsed, without_missing

    levels, codes = _coded(np.where(absent, "", items))
    cells = without_missing(pa.array(levels, pa.string()))
    if kind is None:
        kind = kind_of(cells)
        if kind not in DATES and not (kind == "number" and formatted(cells)):
            return None
    values, bad = parsed(cells, kind)
    if bad.any():
        return None
    values = values.to_numpy(zero_copy_only=False)
    missing = cells.is_null().to_numpy(zero_copy_only=False)
    values = np.where(missing, 0.0, values) if kind == "number" else _days(values, missing)
    return kind, values[codes], missing[codes]


def _text(items, absent, name):
    """Levels as text, and whether they are absent: 1 and 1.0 are the same level."""
    for v in items[~absent]:
        if not isinstance(v, str | bytes | float | int | bool | np.generic | date):
            raise TypeError(
                f"Column {name} holds {v!r}: its argument must be a string or a real number, or a "
                "date."
            )
    plain = [int(v) if isinstance(v, float) and v.is_integer() else v for v in items]
    values = np.array(
        [MISSING if a else str(v) for v, a in zip(plain, absent, strict=True)], object
    )
    return values, absent


def _finite(values, absent, name):
    if np.isinf(values).any():
        raise ValueError(f"Input X contains infinity or a value too large, in column {name}.")
    return values, absent
