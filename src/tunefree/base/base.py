"""What all estimators share: checks of rows, weights and labels, and held-out values.

Messages name what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit, softmax
from sklearn._config import config_context
from sklearn.base import is_regressor
from sklearn.utils import column_or_1d
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, validate_data

from tunefree.base.sizes import check_entries, check_target_sizes
from tunefree.core.jit import kernel
from tunefree.core.process import check_memory
from tunefree.core.registry import ESTIMATORS
from tunefree.core.warn import DataWarning, warn
from tunefree.held_out.shrinkage import shrinkage_factor_of_classes
from tunefree.rows.checks import alike_levels
from tunefree.rows.columns import (
    CATEGORY,
    DATE,
    DURATION,
    NUMBER,
    TEXT,
    as_table,
    cell_text,
    must_be_read,
    named_table,
    names_of,
    raw_columns,
)
from tunefree.rows.kinds import WITH_NUMBERS
from tunefree.rows.matrices import canonical, check_frame, entries, plain_rows
from tunefree.rows.missing import NO_LABEL, complete, refuse_no_order, separated
from tunefree.rows.order import as_repetitions
from tunefree.rows.schema import (
    Schema,
    learn_columns,
    read_columns,
    warn_of_notes,
    what_targets_are,
)
from tunefree.uncertainty.intervals import HeldOutPredictions, HeldOutProbabilities

FLOATS = [np.float64, np.float32]
# How rows are checked, for `validate_data`.
ROWS: Any = {"accept_sparse": "csr", "dtype": FLOATS, "order": "C", "accept_large_sparse": True}
# The largest weight of a row, relative to all others together, or to an ordinary row of a stream.
WEIGHTS_APART = 1e10
# Rows whose weight is below this share of the mean weight are ignored.
_NEGLIGIBLE = 1e-15
_TINY = np.finfo(float).tiny
# Memory of a fit for each column of sparse rows, in bytes. Measured at 1,000,000 columns,
# in no named benchmark: 250 for PiSTOL*, 293 for TuneFree*.
_COLUMN_BYTES = 300.0
# Of more classes no names are compared.
_MOST_NAMED = 100
# Most held-out rows that are stored, and most numbers of their probabilities.
_MOST_HELD_OUT, _MOST_PROBABILITIES = 5000, 2_000_000


class TakesSparse:
    """An estimator whose rows may be sparse, for scikit-learn's tags."""

    def __sklearn_tags__(self):
        parent: Any = super()
        tags = parent.__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def check_rows(estimator: Any, X: Any, *, reset: bool = False, missing: bool = False) -> Any:
    """Rows as a C-contiguous array or a canonical CSR matrix; the user's arrays never change.

    With `missing`, NaN and infinity are allowed.
    """
    rows = None if reset else plain_rows(estimator, X, missing=missing)
    if rows is not None:
        return rows
    X = numbers_of(estimator, X, reset=reset)
    with plain_errors(estimator, X):
        X = validate_data(estimator, X, reset=reset, ensure_all_finite=not missing, **ROWS)
    return canonical(X)


def numbers_of(estimator: Any, X: Any, *, reset: bool) -> Any:
    """A table with numbers in place of cells that stand for some; others as they are.

    Sets `schema_` if cells must be read, and `reset`.

    Raises
    ------
    ValueError
        If a column holds dates or text.
    """
    check_frame(X)
    known = vars(estimator)
    X = as_table(X, None if reset else known.get("feature_names_in_"))
    if reset:
        known.pop("schema_", None)
    if isinstance(X, np.ndarray) and X.ndim == 1 and X.dtype.kind in "OUS":
        raise ValueError(f"Expected 2D array, got 1D array instead: X is {X!r:.60}. Give [X].")
    if not must_be_read(X):
        return X
    names = names_of(X)
    if names is not None:
        validate_data(estimator, X, reset=reset, skip_check_array=True)
    labels = [f"x{j}" for j in range(X.shape[1])] if names is None else names
    on_bad_cell = getattr(estimator, "on_bad_cell", "missing")
    if reset:
        schema, found = learn_columns(X, labels, None, None, on_bad_cell, sentinels=False)
        long = _columns_of_digits(estimator, schema, X)
        if long:
            given = {name: {"kind": NUMBER} for name in long}
            schema, found = learn_columns(X, labels, None, given, on_bad_cell, sentinels=False)
        warn_of_notes(schema)
        estimator.schema_ = schema
    else:
        schema = known.get("schema_") or Schema.of_sparse(labels)
        found = read_columns(schema, X, on_bad_cell)
    columns = [np.where(c.missing, np.nan, c.values) for c in found]
    return named_table(columns, names)


def _columns_of_digits(estimator, schema, X):
    """The columns of whole numbers of which many are equal as floats, with a warning.

    Columns of dates or text are refused.
    """
    columns = zip(schema.names, schema.columns, raw_columns(X), strict=True)
    long = {}
    for name, column, raw in columns:
        if column.kind in WITH_NUMBERS:
            continue
        if column.kind == TEXT and raw.cells is not None and all(map(_is_whole, raw.cells)):
            long[name] = raw.text(int(np.argmin(raw.missing)))
            continue
        what = _what_is_there(column, raw)
        raise ValueError(_no_numbers(estimator, f"Column {name!r} of X holds {what}"))
    for name, first in long.items():
        warn(
            f"Column {name!r} of X holds whole numbers such as {first}, of which some are equal as "
            "floats: they are one value here. TuneFree*, BoostedTrees* and TablePreprocessor read "
            "them as names.",
            DataWarning,
        )
    return [*long]


def _is_whole(cell):
    """Whether a cell of Arrow is a whole number without a power."""
    return cell.as_py().lstrip("+-").isdecimal()


def _what_is_there(column, raw):
    """What a column holds that is no number."""
    if column.kind in (DATE, CATEGORY):
        return "dates or times" if column.kind == DATE else "categories"
    text = _text_among(raw)
    if text is None:
        first = raw.text(int(np.argmin(raw.missing)))
        return f"codes such as {first!r:.60}, of which some are equal as numbers"
    return f"text such as {text!r:.60}"


def _text_among(raw):
    """The first text of a column that is no number; None if there is none."""
    if raw.texts is None:
        return None
    is_text = np.array([*(not is_float(level) for level in raw.cells.to_pylist()), False])
    is_text = is_text[raw.codes]
    return raw.text(int(np.argmax(is_text))) if is_text.any() else None


def _no_numbers(estimator, words):
    """The error for rows that hold something else than numbers, and the way out."""
    kind = "Regressor" if is_regressor(estimator) else "Classifier"
    return (
        f"{words}, and {type(estimator).__name__} takes numbers: use TuneFree{kind} or "
        f"BoostedTrees{kind}, or a TablePreprocessor before it in a Pipeline."
    )


def check_rows_and_targets(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    reset: bool = True,
    multi_output: bool = False,
    numeric: bool = False,
    missing: bool = False,
    names: Any = None,
) -> tuple[Any, Any]:
    """`check_rows`, with targets of the same length, none of which is missing.

    `names` are the user's, in messages.
    """
    X = numbers_of(estimator, X, reset=reset)
    y = complete(y)
    if is_regressor(estimator) and hasattr(y, "tocsr"):
        raise TypeError("Sparse data was passed for y, but dense data is required: y.toarray().")
    if is_regressor(estimator):
        warn_of_rounded_targets(y)
    was_text = getattr(getattr(y, "dtype", None), "kind", "") in ("O", "U", "S")
    targets = {"multi_output": multi_output, "y_numeric": numeric}
    with plain_errors(estimator, X, y):
        X, y = validate_data(
            estimator, X, y, reset=reset, ensure_all_finite=not missing, **targets, **ROWS
        )
        if is_regressor(estimator) and was_text:
            y = as_finite(y.astype(np.float64))
    if is_regressor(estimator) and y.dtype.kind in "Mm":
        raise ValueError("y holds dates or times: give numbers, such as days since a date.")
    X = canonical(X)
    if not missing:
        columns = getattr(estimator, "feature_names_in_", None) if names is None else names
        check_entries(X, columns, fresh=reset)
    if is_regressor(estimator):
        check_target_sizes(y, fresh=reset)
    return X, y


def warn_of_rounded_targets(y):
    """Warn of whole numbers that differ and are one float."""
    if getattr(getattr(y, "dtype", None), "kind", "") not in ("i", "u") or not y.size:
        return
    values = y.ravel()
    if len(np.unique(values)) > len(np.unique(values.astype(np.float64))):
        warn(
            f"y holds whole numbers such as {values.max()}, of which some that differ are equal as "
            "floats: subtract the smallest from all of them.",
            DataWarning,
        )


def as_finite(y, name="y"):
    """Targets that were text: "nan" is a number to Python, too."""
    y = complete(y, name)
    if not np.isfinite(y).all():
        raise ValueError(f"Input {name} contains infinity.{first_target(y, name)}")
    return y


@contextmanager
def plain_errors(estimator: Any, X: Any, y: Any = None) -> Iterator[None]:
    """Add to scikit-learn's errors which column or row is wrong, and the way out."""
    try:
        dtypes = getattr(X, "dtypes", ())  # polars would make numbers of dates
        if any(hasattr(dtype, "is_temporal") and dtype.is_temporal() for dtype in dtypes):
            raise TypeError("X holds dates or times.")
        # Arrays of other libraries become NumPy's by their own rules.
        with config_context(array_api_dispatch=False):
            yield
    except (TypeError, ValueError) as problem:
        complete(y)  # names the target that is missing, if one is
        name = type(estimator).__name__
        words = None if y is None else _text_for_numbers(estimator, np.asarray(y))
        kind = "Regressor" if is_regressor(estimator) else "Classifier"
        if words is None and (found := _not_numbers(X)):
            words = _no_numbers(estimator, found)
        if words is None and str(problem).startswith("Input X contains NaN"):
            words = (
                f"Input X contains NaN, and {name} takes no missing values: use TuneFree{kind} or "
                f"BoostedTrees{kind}, or an imputer before it in a Pipeline.{_first(X, np.isnan)}"
            )
        if words is None and str(problem).startswith("Input X contains infinity"):
            words = f"{problem}{_first(X, np.isinf)}"
        if words is None and str(problem).startswith("Found input variables with inconsistent"):
            n = len(X) if isinstance(X, list | tuple) else X.shape[0]
            words = f"{problem}: X has {n} rows, and y has {len(np.asarray(y))}."
        if words is None and str(problem).startswith("Input y contains infinity"):
            words = f"{problem}{first_target(y)}"
        if words is None:
            raise
        raise ValueError(words) from problem


def _first(X, is_meant):
    """Where the first of some entries of X is: a sentence, or nothing."""
    names = names_of(X)
    try:
        numbers: Any = X.tocsr() if hasattr(X, "tocsr") else np.asarray(X, dtype=np.float64)
        found = is_meant(entries(numbers)[0])
    except (TypeError, ValueError):
        return ""
    if not found.any():
        return ""
    if sparse.issparse(numbers):
        place = int(np.argmax(found))
        row = int(np.searchsorted(numbers.indptr, place, side="right")) - 1
        column = int(numbers.indices[place])
    else:
        row, column = (int(k) for k in np.unravel_index(np.argmax(found), found.shape))
    name = f"x{column}" if names is None else names[column]
    return f" The first is in column {name!r}, row {row}."


def first_target(y, name="y"):
    """Where the first infinite target is."""
    place = np.unravel_index(np.argmax(np.isinf(np.asarray(y, dtype=np.float64))), np.shape(y))
    return f" The first is {name}[{', '.join(map(str, place))}]."


def _text_for_numbers(estimator, y):
    """The words for targets of a regressor that are text; None if there are none."""
    if y.dtype.kind not in "OUS" or not is_regressor(estimator):
        return None
    for value in y.ravel().tolist():
        if isinstance(value, str) and not is_float(value):
            name = type(estimator).__name__
            other = name.replace("Regressor", "Classifier")
            other = other if other in ESTIMATORS else "TuneFreeClassifier"
            if y.ndim == 1 and (what := what_targets_are(y)) is not None:
                return f"y holds {what}."
            words = f"y holds text such as {value!r}, and {name} predicts numbers"
            return f"{words}: use {other} for classes."
    return None


def is_float(text):
    """Whether Python reads text as a float: "nan", too."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _not_numbers(X):
    """The first column that holds text or dates; None if there is none."""
    X = as_table(X)
    if not must_be_read(X):
        return None
    names = names_of(X)
    labels = [f"x{j}" for j in range(X.shape[1])] if names is None else names
    for label, column in zip(labels, raw_columns(X), strict=True):
        if column.kind in (DATE, DURATION):
            return f"Column {label!r} of X holds dates or times"
        text = _text_among(column)
        if text is not None:
            return f"Column {label!r} of X holds text such as {text!r:.60}"
    return None


def check_columns(X):
    """Refuse sparse rows with so many columns that the coefficients would not fit into memory."""
    if sparse.issparse(X) and X.ndim == 2:
        check_memory(
            _COLUMN_BYTES * X.shape[1],
            f"A fit on sparse rows of {X.shape[1]} columns",
            "Hash the columns, or drop those that are always zero.",
        )


def check_weights(sample_weight, X, *, stream=False, as_given=False):
    """Weights as float64, one a row; None means 1.

    Their unit is free: repetitions become whole numbers, unless weights are to stay `as_given`. In
    a `stream` an ordinary row weighs 1.
    """
    sample_weight = complete(sample_weight, "sample_weight")
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if not weights.any():
        raise ValueError(
            "All entries of sample_weight are zero: there is no row to learn from. "
            "Give at least one row a positive weight."
        )
    if sample_weight is None:
        return weights
    most, least = weights.max(), weights[weights > 0.0].min()
    if stream and not 1.0 / WEIGHTS_APART <= least <= most <= WEIGHTS_APART:
        raise ValueError(
            f"sample_weight has weights from {least:g} to {most:g}. In a stream an ordinary row "
            f"weighs 1: give weights from {1.0 / WEIGHTS_APART:g} to {WEIGHTS_APART:g}, or 0 to "
            "ignore a row."
        )
    if not 1e-100 < most < 1e100:  # by a power of two, which changes no digit
        weights = np.ldexp(weights, -int(np.frexp(most)[1]))
    others = np.delete(weights, np.argmax(weights)).sum()
    if not stream and 0.0 < others < weights.max() / WEIGHTS_APART:
        raise ValueError(
            f"sample_weight gives one row the weight {most:g}, more than {WEIGHTS_APART:g} times "
            "that of all others together: they would be lost in rounding. Limit the largest."
        )
    if least < _NEGLIGIBLE * most:  # as good as 0, and 0 is never a divisor
        weights = np.where(weights < _NEGLIGIBLE * weights.mean(), 0.0, weights)
    return weights if stream or as_given else as_repetitions(weights)


def of_positive_weight(X, y, weights):
    """Rows, targets and weights without the rows of weight 0."""
    positive = weights > 0
    if positive.all():
        return X, y, weights
    return X[positive], y[positive], weights[positive]


def check_labels(y):
    """Refuse what are no labels of classes, one a row."""
    y = complete(y)
    refuse_mixed(y)
    kind = type_of_target(y, input_name="y")
    if kind == "unknown" and np.ndim(y) == 1 and len(y):
        words = f"Unknown label type: y[0] is {y[0]!r:.60}"
        raise ValueError(f"{words}: give text, truth values or whole numbers below 2**63.")
    if kind != "binary":
        check_classification_targets(y)
    if kind not in ("binary", "multiclass"):
        raise ValueError(f"Unknown label type: {kind}. Only binary and multiclass are taken.")


def refuse_mixed(y, name="y"):
    """Refuse labels of which some are text and others numbers."""
    if getattr(getattr(y, "dtype", None), "kind", "") != "O" or y.ndim != 1:
        return
    labels = y.tolist()
    text = next((label for label in labels if isinstance(label, str)), None)
    other = next((label for label in labels if not isinstance(label, str)), None)
    if text is not None and other is not None:
        raise ValueError(
            f"{name} holds text such as {text!r:.40}, and {other!r:.40}, which is none: give "
            "labels of one type."
        )


def warn_of_labels(classes):
    """Warn of classes that may be one, and of one that may stand for missing labels."""
    if classes.dtype.kind not in "OU" or len(classes) > _MOST_NAMED:
        return
    labels = [label for label in classes.tolist() if isinstance(label, str)]
    for few, much in alike_levels(labels):
        warn(
            f"The classes {few!r} and {much!r} of y differ in blanks, case or the code of a letter "
            "only: if they are one, give them one name.",
            DataWarning,
        )
    for label in labels:
        if label.strip() in NO_LABEL:
            warn(
                f"y has the class {label!r}: if it stands for a missing target, drop these rows.",
                DataWarning,
            )


def encode_labels(y, fewest=1):
    """Sorted classes and the class number of every label."""
    check_labels(y)
    classes, codes = np.unique(y, return_inverse=True)
    warn_of_labels(classes)
    if len(classes) < fewest:
        raise ValueError(
            f"y has only one class ({classes[0]}): a classifier needs rows of at least two."
        )
    return classes, codes


def group_numbers(groups, X, kept):
    """The numbers of the groups of the rows `kept`, two or more of them; None without groups."""
    if groups is None:
        return None
    groups = complete(groups, "groups")
    shape = np.shape(groups)
    if len(shape) not in (1, 2) or shape[1:] not in ((), (1,)):
        raise ValueError(f"groups has the shape {shape}: give one value a row.")
    groups = column_or_1d(groups)
    if len(groups) != X.shape[0]:
        raise ValueError(f"groups has {len(groups)} values, but X has {X.shape[0]} rows.")
    try:
        levels, numbers = np.unique(groups[kept], return_inverse=True)
    except TypeError:  # of several types, such as 1 and "1", which are one group
        texts = [cell_text(group) for group in groups[kept].tolist()]
        levels, numbers = np.unique(texts, return_inverse=True)
    if numbers.max() == 0:
        raise ValueError("groups= has one group only: two or more are needed to hold out.")
    return _rank_of_levels(levels)[numbers]


def _rank_of_levels(levels):
    """The rank of each level: of numbers as text by their value, as if they were numbers.

    >>> _rank_of_levels(np.array(["10", "2"])), _rank_of_levels(np.array(["b10", "b2"]))
    (array([1, 0]), array([0, 1]))
    """
    try:
        values = levels.astype(float)
    except (TypeError, ValueError):
        return np.arange(len(levels))
    ranks = np.empty(len(levels), dtype=np.intp)
    ranks[np.argsort(values, kind="stable")] = np.arange(len(levels))
    return ranks


def places_of(classes, y):
    """The class number of every label; classes may be in any order.

    An unknown label gets the number of some class: the caller has to compare.

    Examples
    --------
    >>> places_of(np.array(["low", "high"]), ["high", "low"])
    array([1, 0])
    """
    order = np.argsort(classes, kind="stable")
    place = np.searchsorted(classes, y, sorter=order)
    return order[np.minimum(place, len(order) - 1)]


def balanced(class_weight, classes, codes, weights):
    """Weights times the class weights; 'balanced' counts the weighted rows of each class."""
    if class_weight is None:
        return weights
    if class_weight == "balanced":
        total = np.bincount(codes, weights, minlength=len(classes))
        each = np.divide(
            total.sum(), len(classes) * total, out=np.zeros(len(total)), where=total > 0
        )
    else:
        for label, weight in class_weight.items() if isinstance(class_weight, dict) else ():
            if not isinstance(weight, Real | np.bool_):
                raise ValueError(
                    f"class_weight= gives the class {label!r:.40} the weight {weight!r:.40}: give "
                    "a finite number that is not negative."
                )
        each = compute_class_weight(class_weight, classes=classes, y=classes[codes])
        if not (np.isfinite(each) & (each >= 0.0)).all():
            place = int(np.argmin(np.isfinite(each) & (each >= 0.0)))
            raise ValueError(
                f"class_weight= gives the class {str(classes[place])!r:.40} the weight "
                f"{each[place]:g}: give a finite number that is not negative."
            )
    return weights * each[codes]


def signs(codes, n_classes):
    """Targets +1 / -1: one column for two classes (+1 is the second), else one a class."""
    if n_classes == 2:
        return np.where(codes == 1, 1.0, -1.0)[:, None]
    return np.where(codes[:, None] == np.arange(n_classes), 1.0, -1.0)


def named_classes(classes: Any) -> Any:
    """The labels that ``classes=`` names, sorted; None for none.

    >>> named_classes(["b", "a", "b"])
    array(['a', 'b'], dtype='<U1')
    """
    if classes is None:
        return None
    if isinstance(classes, str):
        raise ValueError(f"classes={classes!r:.60} is text: give a list of labels.")
    if isinstance(classes, set | frozenset):
        classes = [*classes]
    refuse_no_order(classes, "classes")
    labels, missing = separated(classes)
    if missing is None or missing.ndim != 1 or missing.any():
        problem = "has a missing value" if np.any(missing) else "is no list"
        raise ValueError(f"classes={classes!r:.80} {problem}: give labels only, in a list.")
    refuse_mixed(labels, "classes")
    return np.unique(labels)


def kind_of(labels):
    """What labels are: text, numbers, dates or durations."""
    if labels.dtype.kind in "mM":
        return labels.dtype.kind
    is_text = labels.dtype.kind in "US" or isinstance(labels.ravel()[0], str)
    return "text" if is_text else "numbers"


def _refuse_other_kinds(present, known, where):
    """Refuse labels of y of another kind than those that are known."""
    if known is not None and len(known) and kind_of(present) != kind_of(known):
        raise ValueError(
            f"y holds labels such as {present.tolist()[0]!r:.40}, and those of {where} are such as "
            f"{known.tolist()[0]!r:.40}: give labels of the same type."
        )


def stream_labels(estimator, y, weights, classes, known):
    """Take in the labels of a stream's next chunk.

    `classes` are announced with it, or None; `known` are those so far, or None. Returns all classes
    now, sorted; the class number of every row; the rows' weights times the class weights; and the
    total weight of each class so far.
    """
    present, _ = encode_labels(y)
    _refuse_other_kinds(present, known, "earlier chunks")
    _refuse_other_kinds(present, classes, "classes=")
    all_classes = np.unique(np.concatenate([c for c in (known, classes, present) if c is not None]))
    if len(all_classes) < 2:
        raise ValueError(
            f"There is only one class so far ({all_classes[0]}): name all classes by classes=."
        )
    codes, counts = np.searchsorted(all_classes, y), np.zeros(len(all_classes))
    if known is not None:
        counts[np.searchsorted(all_classes, known)] = getattr(estimator, "class_count_", 0.0)
    shares = _balances(codes, weights, counts)
    if estimator.class_weight == "balanced":
        weights = weights * shares
    else:
        weights = balanced(estimator.class_weight, all_classes, codes, weights)
    return all_classes, codes, weights, counts


def _balances(codes, weights, counts):
    """Weights of rows that give all classes so far the same total; updates the counts.

    They depend on the row and those before it alone: the chunks' sizes make no difference.

    Examples
    --------
    >>> _balances(np.array([0, 0, 0, 1]), np.ones(4), np.zeros(2))
    array([1., 1., 1., 2.])
    """
    shares = np.empty(len(codes))
    _scan(codes, weights, counts, shares)
    return shares


@kernel
def _scan(codes, weights, counts, shares):
    for i in range(len(codes)):
        counts[codes[i]] += weights[i]
        total, n_present = 0.0, 0
        for k in range(len(counts)):
            total += counts[k]
            n_present += counts[k] > 0.0
        shares[i] = total / max(n_present * counts[codes[i]], _TINY)


def new_columns(known, all_classes):
    """How a stream's outputs are rearranged when new classes appear: old outputs and their signs.

    A new class starts from the output that has learned negatives only; two classes shared one.
    """
    old = np.searchsorted(known, all_classes)
    old = np.where(np.isin(all_classes, known), old, -1)
    if len(known) == 2:
        index = [1 if k < 0 else 0 for k in old]
        sign = [1.0 if k < 0 else (-1.0, 1.0)[k] for k in old]
        return [*index, 1], [*sign, 1.0]
    return [*(len(known) if k < 0 else k for k in old), len(known)], np.ones(len(all_classes) + 1)


def warn_infinite(predictions):
    """Warn of predictions that are not finite, and name the first such row."""
    bad = ~np.isfinite(predictions)
    if bad.any():
        rows = np.flatnonzero(bad.reshape(len(bad), -1).any(axis=1))
        warn(
            f"The predictions of {len(rows)} of {len(bad)} rows are not finite, the first that of "
            f"row {rows[0]}: its columns, offset or exposure are too far from those of the fit."
        )


def share_stored(X):
    """The share of entries that are not zero."""
    return np.count_nonzero(entries(X)[0]) / max(1, X.shape[0] * X.shape[1])


def check_n_targets(targets, known):
    """Refuse targets of another number than a model learns; None: it has learned none."""
    if known not in (None, targets.shape[1]):
        raise ValueError(f"y has {targets.shape[1]} targets, but this model learns {known}.")


def squeezed(scores):
    """Decisions, of shape (n,) where there is one output."""
    return scores[:, 0] if scores.shape[1] == 1 else scores


def of_targets(flat, *arrays):
    """Arrays whose first axis is that of the targets; where y was flat, the entry of its target."""
    return tuple(array[0] if flat else array for array in arrays)


def temperature(decisions, targets, weights, margin=None):
    """Slope a > 0 that turns decisions into log-odds, by maximum likelihood.

    Probabilities are sigmoid(a f) for one output and softmax(a f) for several. There are no
    offsets: fitted to predictions of a learner that had seen few rows, they would harm the
    decisions of the one that has seen all. `margin` is the decision that the learner aims at for
    the right class. Two pseudo-rows are then added there, of which all but a share of about 1 / n
    are right: rows with decisions near 0 give no information on large decisions. Source: Platt
    1999, Guo et al. 2017.

    Examples
    --------
    >>> f = np.array([[2.0], [1.0], [-1.0], [1.0]])
    >>> a = temperature(f, np.array([[1.0], [1.0], [-1.0], [-1.0]]), np.ones(4))
    >>> round(a, 2)
    0.62
    """
    f = np.hstack([decisions, np.zeros_like(decisions)]) if decisions.shape[1] == 1 else decisions
    y = np.where(targets[:, 0] > 0.0, 0, 1) if targets.shape[1] == 1 else targets.argmax(axis=1)
    if not f.any() or not weights.any():
        return 1.0
    width, total = f.shape[1], float(weights.sum())
    # Smoothed labels, as if two more rows had been of every class in equal parts (Platt's
    # correction): the slope stays finite on separable data.
    y = (total * np.eye(width)[y] + 2.0 / width) / (total + 2.0)
    if margin is not None:
        decision = np.eye(1, width) * margin
        label = np.eye(1, width) * total / (total + 2.0) + 2.0 / (total + 2.0) / width
        f, y, weights = np.vstack([f, decision]), np.vstack([y, label]), np.append(weights, 2.0)
    size = float(np.sqrt(np.mean(np.square(f))))
    f = f / size
    share, target = weights / weights.sum(), np.einsum("ij,ij->i", y, f)
    # The risk is convex in a: Newton steps, replaced by bisection if they leave the bracket.
    low, high, a = 0.0, np.inf, 1.0
    for _ in range(60):
        p = np.exp(a * f - (a * f).max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        mean = np.einsum("ij,ij->i", p, f)
        gradient = share @ (mean - target)
        curvature = share @ (np.einsum("ij,ij->i", p, f * f) - mean * mean)
        low, high = (a, high) if gradient < 0.0 else (low, a)
        step = a - gradient / max(curvature, 1e-12)
        if not low < step < high:
            step = 2.0 * a if high == np.inf else 0.5 * (low + high)
        if abs(step - a) <= 1e-9 * a or step > 1e6:
            break
        a = step
    return float(max(a, 1e-3) / size)


def probabilities(scores, joint):
    """Probabilities from log-odds: softmax of joint outputs, else normalised sigmoids."""
    if scores.ndim == 1 or scores.shape[1] == 1:
        second = expit(scores.reshape(-1))
        return np.stack([1.0 - second, second], axis=1)
    if joint:
        return softmax(scores, axis=1)
    p = expit(scores)
    return p / p.sum(axis=1, keepdims=True)


def class_shrinkage(scores, null, codes, weights, optimism=0.0):
    """How far log-odds go from `null`, those of the classes' shares, by held-out rows: 0 to 1."""
    p, prior = (probabilities(each, joint=True) for each in (scores, null[None]))
    return shrinkage_factor_of_classes(p, prior[0], codes, weights, optimism)


def held_out_predictions(predictions, targets, weights, ends=None, unit=None):
    """`HeldOutPredictions` of the last rows, clipped to `ends` as new predictions will be."""
    if ends is not None:
        predictions = np.clip(predictions, *np.reshape(ends, (2, -1)))
    arrays = [a for a in (predictions, targets, weights, unit) if a is not None]
    return HeldOutPredictions(*(np.array(a[-_MOST_HELD_OUT:], dtype=np.float64) for a in arrays))


def held_out_probabilities(p, codes, weights, groups=None, **stream):
    """`HeldOutProbabilities` of the last rows."""
    most = max(1, min(_MOST_HELD_OUT, _MOST_PROBABILITIES // p.shape[1]))
    p, codes, weights = (np.array(a[-most:]) for a in (p, codes, weights))
    groups = None if groups is None else np.array(groups[-most:])
    return HeldOutProbabilities(p, codes, weights, groups=groups, **stream)


def codes_of(scores):
    """Class numbers of decisions or of signs, which have one column a class (one for two)."""
    return (scores[:, 0] > 0.0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
