"""Mixed tables to numbers: categories, missing values, truth values and dates, column by column.

Numbers that lack nothing pass unchanged, sparse matrices too. Scaling is not done here: the
learners do it themselves.

Why not scikit-learn's `ColumnTransformer` of `OneHotEncoder` and `SimpleImputer`, or skrub's
`TableVectorizer`: their `fit` takes no ``sample_weight``, and here a weight is a repetition, in
medians and in what is rare. skrub would bring pandas along, too.
"""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import (
    _check_feature_names_in,
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from tunefree._parameters import check_values
from tunefree.protocols import MatrixLike

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
# Output with fewer entries than this share is stored as CSR where the caller leaves the choice.
_DENSE_FROM = 0.25
MISSING = "(missing)"


class TablePreprocessor(TransformerMixin, BaseEstimator):
    """Turn pandas, polars, pyarrow or array columns into numbers that a learner can take.

    Numbers and truth values stay numbers, dates become days since 1970, and text and categories
    become one 0/1 column a level. Levels that are rare share one column, with those not seen in
    `fit`; where none was rare, a level not seen is zeros, and where all were, the column gives
    nothing. A missing number becomes the column's median, with a 0/1 column that says so if numbers
    were missing in `fit`; a missing category is a level of its own.

    Parameters
    ----------
    max_levels : int, default=100
        Most 0/1 columns a categorical column gets, the shared one included.
    min_share : float, default=0.001
        Levels seen in a smaller share of the rows (or in one row only) are rare.
    sparse_output : bool or 'auto', default='auto'
        Whether dense input gives CSR. 'auto': if under a quarter of its entries would be stored,
        unless `set_output` asks for frames. Sparse input gives CSR.
    categorical_features : array-like, 'from_dtype' or None, default='from_dtype'
        Columns that are categories although they hold numbers: a mask, positions or names. Text and
        columns of pandas' and pyarrow's categories always are; 'from_dtype' and None name no more.

    Attributes
    ----------
    kinds_ : ndarray of str of shape (n_features,)
        'number' or 'category'.
    medians_ : ndarray of shape (n_features,)
        What replaces a missing number; 0 for CSR without missing numbers.
    missing_ : ndarray of bool of shape (n_features,)
        Number columns that get a 0/1 column of what is missing.
    levels_ : dict of str to list of str
        The levels of each categorical column, by its position written as text.
    rare_ : ndarray of bool of shape (n_features,)
        Categorical columns whose rare levels share a column.
    sources_ : ndarray of int of shape (n_columns_out,)
        The column in of every column out.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    Raises
    ------
    ValueError
        For infinite numbers, values that are neither numbers, text, truth values nor dates, or
        `categorical_features` that are not there.

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
        max_levels: int = 100,
        min_share: float = 0.001,
        sparse_output: bool | str = "auto",
        categorical_features: Any = "from_dtype",
    ):
        self.max_levels = max_levels
        self.min_share = min_share
        self.sparse_output = sparse_output
        self.categorical_features = categorical_features

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
                f"sparse_output={self.sparse_output!r} is none of True, False, 'auto'."
            )
        check_values(self)
        before = vars(self).copy()
        try:
            return self._learn(X, sample_weight)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    def _learn(self, X, sample_weight):
        table = _Table(self, X, reset=True)
        rows = np.empty(table.shape[0])
        weights = _check_sample_weight(
            sample_weight, rows, dtype=np.float64, ensure_non_negative=True
        )
        if not weights.any():
            raise ValueError(
                "All entries of sample_weight are zero: there is nothing to learn from."
            )
        d = table.shape[1]
        self.kinds_ = np.full(d, "number", dtype="<U8")
        self.medians_, self.missing_ = np.zeros(d), np.zeros(d, dtype=bool)
        self.rare_, self.levels_ = np.zeros(d, dtype=bool), {}
        kept = weights > 0
        declared = self._declared(d)
        if table.plain is not None and not declared.any():
            if not table.is_sparse:
                self.medians_ = _medians(table.plain[kept], weights[kept])
            return self
        kinds = np.array(["category" if one else None for one in declared])
        for j, (values, absent) in enumerate(table.columns(kinds)):
            values, absent, w = values[kept], absent[kept], weights[kept]
            if values.dtype.kind == "f":
                self.missing_[j] = absent.any()
                self.medians_[j] = _median(values[~absent], w[~absent])
            else:
                self.kinds_[j] = "category"
                self.levels_[str(j)], self.rare_[j] = self._common(values, w)
        if not len(self.get_feature_names_out()):
            raise ValueError(
                "X holds nothing but text that hardly ever repeats: no level is common."
            )
        return self

    def _declared(self, d):
        """Which of d columns are said to be categories."""
        given, mask = self.categorical_features, np.zeros(d, dtype=bool)
        if given is None or isinstance(given, str) and given == "from_dtype":
            return mask
        chosen = np.atleast_1d(np.asarray(given))
        if chosen.dtype.kind in "USO":
            known = list(getattr(self, "feature_names_in_", ()))
            strangers = [name for name in chosen.tolist() if name not in known]
            if strangers:
                raise ValueError(
                    f"categorical_features holds {strangers[0]!r}, which names no column."
                )
            chosen = np.array([known.index(name) for name in chosen.tolist()])
        right = chosen.ndim == 1 and (
            chosen.dtype.kind == "b"
            and len(chosen) == d
            or chosen.dtype.kind in "iu"
            and ((chosen >= -d) & (chosen < d)).all()
            or not chosen.size
        )
        if not right:
            raise ValueError(
                f"categorical_features={given!r} is no mask, list of positions or of names of "
                f"{d} columns."
            )
        mask[chosen if chosen.size else []] = True
        return mask

    def _common(self, values, weights):
        """The levels that get a column of their own, and whether others share one."""
        levels, codes = _coded(values)
        seen = np.bincount(codes, weights, minlength=len(levels))
        fewest = max(2.0, self.min_share * weights.sum())
        order = np.lexsort((levels, -seen))
        common = [i for i in order if seen[i] >= fewest]
        if len(common) < len(levels) or len(common) > self.max_levels:
            common = common[: self.max_levels - 1]
        return [levels[i] for i in sorted(common)], 0 < len(common) < len(levels)

    def transform(self, X: MatrixLike) -> Any:
        """Numbers of shape (n_samples, n_columns_out); see `get_feature_names_out`.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
        """
        check_is_fitted(self, "kinds_")
        table = _Table(self, X, reset=False)
        every_number = not self.missing_.any() and not self.levels_
        if table.plain is not None and every_number:
            return table.plain
        # Each piece: columns out, and the position of its only non-zero entry or its dense values.
        pieces, dtype = [], table.dtype
        for j, (values, absent) in enumerate(table.columns(self.kinds_)):
            if self.kinds_[j] == "number":
                pieces.append(np.where(absent, self.medians_[j], values).astype(dtype)[:, None])
                if self.missing_[j]:
                    pieces.append(absent.astype(dtype)[:, None])
            else:
                pieces.append(self._one_hot(j, values, dtype))
        stored = sum(p.nnz if sparse.issparse(p) else np.count_nonzero(p) for p in pieces)
        width = sum(p.shape[1] for p in pieces)
        framed = _get_output_config("transform", self)["dense"] != "default"
        if self.sparse_output == "auto":
            as_csr = not framed and stored < _DENSE_FROM * table.shape[0] * width
        else:
            as_csr = self.sparse_output
        if as_csr or table.is_sparse:
            return sparse.hstack([sparse.csr_array(p) for p in pieces], format="csr")
        return np.hstack([p.toarray() if sparse.issparse(p) else p for p in pieces])

    def _one_hot(self, j, values, dtype):
        levels, rare = self.levels_[str(j)], bool(self.rare_[j])
        number = {level: k for k, level in enumerate(levels)}
        found, codes = _coded(values)
        other = len(levels) if rare else -1
        column = np.array([number.get(level, other) for level in found], dtype=np.int64)[codes]
        known = column >= 0
        indptr = np.concatenate([[0], np.cumsum(known)])
        shape = (len(values), len(levels) + rare)
        return sparse.csr_array((np.ones(known.sum(), dtype), column[known], indptr), shape=shape)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """Names of the columns out: 'age', 'age is missing', 'city=Rome', 'city=(rare)'.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the columns in, if `fit` saw none.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self, "kinds_")
        names = []
        for j, name in enumerate(_check_feature_names_in(self, input_features)):
            names += [f"{name}{told}" for told in self._suffixes(j)]
        return np.asarray(names, dtype=object)

    def _suffixes(self, j):
        """What is added to the name of column j in its columns out."""
        if self.kinds_[j] == "number":
            return ["", " is missing"] if self.missing_[j] else [""]
        return [f"={level}" for level in self.levels_[str(j)]] + ["=(rare)"] * bool(self.rare_[j])

    @property
    def sources_(self) -> np.ndarray:
        """The column in of every column out."""
        check_is_fitted(self, "kinds_")
        d = self.n_features_in_
        return np.repeat(np.arange(d), [len(self._suffixes(j)) for j in range(d)])

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _median(values, weights):
    """The smallest value that half of the weight does not exceed; 0 without values."""
    if not len(values):
        return 0.0
    order = np.argsort(values, kind="stable")
    mass = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(mass, 0.5 * mass[-1])])


def _medians(X, weights):
    """`_median` of every column of numbers."""
    if np.all(weights == weights[0]):
        k = (len(X) - 1) // 2
        return np.array([np.partition(X[:, j], k)[k] for j in range(X.shape[1])], dtype=np.float64)
    return np.array([_median(X[:, j], weights) for j in range(X.shape[1])])


def _coded(values):
    """The distinct texts in order, and the number of each value among them."""
    levels = sorted(set(values.tolist()))
    number = {level: k for k, level in enumerate(levels)}
    return levels, np.fromiter((number[v] for v in values.tolist()), np.int64, len(values))


class _Table:
    """Columns of a frame or array; ``plain`` is the whole, if it is nothing but numbers."""

    def __init__(self, estimator, X, reset):
        self.is_sparse, self.plain, self.dtype = sparse.issparse(X), None, np.dtype(np.float64)
        self.is_frame = hasattr(X, "columns") and not self.is_sparse
        if self.is_frame:
            validate_data(estimator, X, reset=reset, skip_check_array=True)
            if 0 in X.shape:
                raise ValueError(
                    f"Found array with {X.shape[0]} sample(s) (shape={X.shape}) while a minimum of "
                    "1 row and column is required."
                )
            if _all_single(X):
                self.dtype = np.dtype(np.float32)
        else:
            options = {"accept_sparse": "csr", "dtype": None, "ensure_all_finite": False}
            X = validate_data(estimator, X, reset=reset, **options)
            if X.dtype.kind not in "biufOUSMm":
                X = check_array(X, accept_sparse="csr", dtype=np.float64)
            if X.dtype.kind in "biuf":
                self.dtype = X.dtype if X.dtype in _FLOATS else self.dtype
                values = X.data if self.is_sparse else X
                if np.isfinite(values.sum(dtype=float)) or np.isfinite(values).all():
                    self.plain = X.astype(self.dtype, copy=False)
        self.X, self.shape = X, X.shape
        self.names = getattr(estimator, "feature_names_in_", None)

    def columns(self, kinds=None):
        """Yield (values, absent) of every column: floats, or text as an array of objects."""
        for j in range(self.shape[1]):
            if self.is_frame:
                raw = _series(self.X, j)
            else:
                raw = self.X[:, [j]].toarray()[:, 0] if self.is_sparse else self.X[:, j]
            name = str(self.names[j]) if self.names is not None else f"column {j}"
            yield _column(raw, name, None if kinds is None else kinds[j])


def _all_single(frame):
    """Whether all columns are numbers in single precision."""
    if hasattr(frame, "schema") and hasattr(frame, "column_names"):
        kinds = [str(kind) == "float" for kind in frame.schema.types]
    else:
        kinds = [isinstance(t, np.dtype) and t == np.float32 for t in frame.dtypes]
    return len(kinds) > 0 and all(kinds)


def _series(frame, j):
    """A frame's column as an array; what is missing is None, NaN or NaT."""
    if hasattr(frame, "column_names"):
        return _arrow(frame.column(j))
    series = frame[frame.columns[j]]
    if hasattr(series, "isna"):
        kind = getattr(series.dtype, "kind", "O")
        if isinstance(series.dtype, np.dtype) and kind in "biufMm":
            return series.to_numpy()
        return series.to_numpy(dtype=object, na_value=None)
    return series.to_numpy()


def _arrow(column):
    """A column of a pyarrow table as an array; equal texts are one object."""
    from pyarrow import float64, timestamp, types

    kind = column.type
    if types.is_date(kind) or types.is_timestamp(kind):
        return column.cast(timestamp("us", getattr(kind, "tz", None))).to_numpy()
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
    """(values, absent) of a column; `kind` is what it was in `fit`, None there."""
    if raw.dtype.kind in "Mm":
        absent = np.isnat(raw)
        day = np.timedelta64(1, "D")
        values = (raw - np.datetime64("1970-01-01")) / day if raw.dtype.kind == "M" else raw / day
        return (np.where(absent, 0.0, values), absent) if kind != "category" else _text(raw, absent)
    if raw.dtype.kind in "biuf" and kind != "category":
        values = raw.astype(np.float64)
        return _finite(values, np.isnan(values), name)
    items = raw.astype(object)
    absent = np.fromiter((v is None or v != v for v in items), bool, len(items))
    if kind != "category":
        numbers = all(
            isinstance(v, float | int | bool | np.number | np.bool_) for v in items[~absent]
        )
        if numbers and (not absent.all() or kind == "number"):
            values = np.zeros(len(items))
            values[~absent] = items[~absent].astype(float)
            return _finite(values, absent, name)
        if kind == "number":
            bad = next(v for v in items[~absent] if not isinstance(v, float | int | np.number))
            raise ValueError(f"{name} held numbers in fit, and now holds {bad!r}.")
    for v in items[~absent]:
        if not isinstance(v, str | bytes | float | int | bool | np.generic):
            raise TypeError(
                f"{name} holds {v!r}: its argument must be a string or a real number, or a date."
            )
    return _text(items, absent)


def _text(items, absent):
    """Levels as text: 1 and 1.0 are the same level."""
    plain = [int(v) if isinstance(v, float) and v.is_integer() else v for v in items]
    values = np.array(
        [MISSING if a else str(v) for v, a in zip(plain, absent, strict=True)], object
    )
    return values, absent


def _finite(values, absent, name):
    if np.isinf(values).any():
        raise ValueError(f"Input X contains infinity or a value too large, in {name}.")
    return values, absent
