"""Graphs of predictors: ONNX for services without Python, and files for `tunefree.serve`.

A graph takes rows ``X`` in the float type of the model and computes in float64. For a table with
categories or dates it takes every column by its name, of shape (n, 1): see `to_onnx`. Classifiers
give ``label`` and ``probabilities`` (``scores`` where the model has none), regressors ``variable``.
"""

from typing import Any

import numpy as np
from sklearn.utils import get_tags
from sklearn.utils.validation import _check_feature_names_in

from tunefree._version import __version__
from tunefree.base.exposures import neutral_terms
from tunefree.core.registry import is_public
from tunefree.core.warn import warn
from tunefree.files.files import write_atomically
from tunefree.files.model import ModelError, name_type
from tunefree.pistol.kernel_estimator import KernelEstimator
from tunefree.pistol.regressor import PiSTOLRegressor
from tunefree.rows.columns import TEXT
from tunefree.rows.kinds import PLAIN_NUMBER
from tunefree.rows.matrices import as_dense
from tunefree.rows.preprocessing import calendar
from tunefree.serve import as_values, packed
from tunefree.stack.estimator import TuneFreeStack

_OPSET, _ML = 17, "ai.onnx.ml"
_CYCLE = 146_097  # days of 400 years
# Fitted attributes of linear models that make other columns of the given ones.
_COLUMNS_FIRST = {
    "feature_map_": "it transforms its columns first",
    "categories_": "it has columns of categories",
    "model_spec_": "its columns are those of a formula",
}


class _Graph:
    """A graph of ONNX's operators under construction: its methods add nodes and return their names.

    `model_name` is for messages.
    """

    def __init__(self, model_name):
        self.model_name = model_name
        self.nodes: list = []  # (operator, inputs, outputs, attributes)
        self.constants: dict = {}

    def __call__(self, kind, *inputs, name=None, unused=(), **attributes):
        """Add a node; arrays and numbers among its inputs become constants.

        Returns the name of its first output; `unused` are suffixes of others.
        """
        inputs = [i if isinstance(i, str) else self.constant(i) for i in inputs]
        name = name or f"{kind}_{len(self.nodes)}"
        self.nodes.append((kind, inputs, [name, *(name + u for u in unused)], attributes))
        return name

    def refusal(self, reason, part=""):
        """The error for a model that ONNX cannot express, because of a part of it."""
        return ModelError(f"{self.model_name}{part} cannot be exported: {reason}")

    def part(self, value, name):
        """A part of the model that has an ONNX form."""
        if not hasattr(value, "onnx"):
            raise self.refusal(f"{name_type(value)} has no ONNX form", f".{name}")
        return value

    def constant(self, value):
        """Add a constant: float64, or integers, booleans and strings unchanged."""
        value = np.asarray(value)
        value = value.astype(np.float64) if value.dtype.kind == "f" else value
        value = value.astype(object) if value.dtype.kind == "U" else value
        name = f"constant_{len(self.constants)}"
        self.constants[name] = np.ascontiguousarray(value).reshape(value.shape)
        return name

    def cast(self, value, dtype, name=None):
        """Convert to another type of number."""
        return self("Cast", value, to=np.dtype(dtype).name, name=name)

    def model(self, inputs, outputs):
        """The finished ONNX model; inputs and outputs are pairs of a name and an example array."""
        import onnx
        from onnx import helper as typed
        from onnx import numpy_helper

        helper: Any = typed

        def info(name, array):
            kind = np.dtype(object) if array.dtype.kind in "UO" else array.dtype
            code = helper.np_dtype_to_tensor_dtype(kind)
            return helper.make_tensor_value_info(name, code, ["n", *array.shape[1:]])

        def node(kind, inputs, outputs, attributes):
            if "to" in attributes:
                attributes = {"to": helper.np_dtype_to_tensor_dtype(np.dtype(attributes["to"]))}
            return helper.make_node(kind, inputs, outputs, **attributes)

        nodes = [node(*parts) for parts in self.nodes]
        constants = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        ends: Any = [[info(*pair) for pair in pairs] for pairs in (inputs, outputs)]
        graph = helper.make_graph(nodes, "tunefree", *ends, constants)
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(_ML, 3)]
        producer = {"producer_name": "tunefree", "producer_version": __version__}
        out = helper.make_model(graph, **producer, opset_imports=opsets, ir_version=8)
        onnx.checker.check_model(out)
        return out


def to_onnx(estimator, path=None):
    """Convert a fitted predictor to an ONNX model.

    Linear models, generalized linear models, kernel models, boosted trees, and the choice of
    `TuneFreeClassifier` and `TuneFreeRegressor` can be exported (NaN is a missing number); the
    graph needs no Python.
    For tables with categories or dates each column is a separate input: numbers, dates as days
    since 1970 in local time, and categories as text ('(missing)' for a missing one). Sentences
    cannot be exported. A model of an exposure or an offset predicts for the exposure 1 and the
    offset 0, with a warning. onnxruntime gives the values of `predict` and `predict_proba` up to
    rounding (1e-5 of the largest if the model computes in float32).

    Parameters
    ----------
    estimator : estimator of `tunefree`
        Fitted.
    path : str or path-like, optional
        Also write the model to this file, atomically.

    Returns
    -------
    onnx.ModelProto

    Raises
    ------
    ModelError
        A `ValueError`: a part of the model, named in the message, cannot be exported.
    ImportError
        If the package onnx is missing: ``pip install tunefree[onnx]``.

    Examples
    --------
    >>> import numpy as np
    >>> from tunefree import PiSTOLRegressor
    >>> from tunefree.onnx import to_onnx
    >>> model = PiSTOLRegressor(random_state=0).fit(np.eye(4), [1.0, 2.0, 3.0, 4.0])
    >>> try:
    ...     names = [output.name for output in to_onnx(model).graph.output]
    ... except ImportError:
    ...     names = ["variable"]
    >>> names
    ['variable']
    """
    graph, inputs, outputs = _graph_of(estimator)
    model = graph.model(inputs, outputs)
    if path is not None:
        write_atomically(path, [model.SerializeToString()])
    return model


def to_scorer(estimator: Any, path: Any, feature_names: Any = None) -> None:
    """Write a fitted predictor to a file for `tunefree.serve`, which needs NumPy alone.

    The file holds the graph of `to_onnx`, and how the cells of each column are read: `Scorer` reads
    numbers, dates, categories and sentences as they come, like `predict`. Its values are those of
    `predict` and `predict_proba` up to rounding.

    Parameters
    ----------
    estimator : estimator of `tunefree`
        Fitted.
    path : str or path-like
        Where to write, atomically.
    feature_names : list of str, optional
        The names of the columns of rows; by default those of the fit, if it had any.

    Raises
    ------
    ModelError
        A `ValueError`: a part of the model, named in the message, cannot be exported.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from tunefree import RidgePathRegressor
    >>> from tunefree.onnx import to_scorer
    >>> from tunefree.serve import Scorer
    >>> model = RidgePathRegressor().fit(np.eye(4), [1.0, 2.0, 3.0, 4.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "scorer")
    ...     to_scorer(model, path)
    ...     found = Scorer(path).predict(np.eye(4))
    >>> bool(np.allclose(found, model.predict(np.eye(4))))
    True
    """
    graph, inputs, outputs = _graph_of(estimator, for_scorer=True)
    table: Any = vars(estimator).get("table_")
    d = estimator.n_features_in_
    schema = getattr(estimator if table is None else table, "schema_", None)
    names = feature_names
    if names is None:
        names = getattr(estimator, "feature_names_in_", None)
    columns = [PLAIN_NUMBER] * d if schema is None else schema.columns
    is_matrix = inputs[0][0] == "X"
    kinds = None if table is None or is_matrix else [str(kind) for kind in table.kinds_]
    sentences = {}
    if table is not None and kinds is not None:
        places = [j for j, kind in enumerate(kinds) if kind == TEXT]
        sentences = {j: [np.asarray(part) for part in table.phrases_[str(j)]] for j in places}
    facts = {
        "names": None if names is None else [str(name) for name in names],
        "columns": [as_values(column) for column in columns],
        "kinds": kinds,
        "closed": [] if kinds is None else _closed(table),
        "dtype": np.asarray(inputs[0][1]).dtype.name if is_matrix else None,
        "missing": table is not None or get_tags(estimator).input_tags.allow_nan,
        "outputs": [name for name, _ in outputs],
        "nodes": graph.nodes,
        "classes": [str(c) for c in estimator.classes_] if hasattr(estimator, "classes_") else None,
    }
    write_atomically(path, [packed(facts, graph.constants, sentences)])


def _closed(table):
    """The places of the columns of categories whose other levels count as missing."""
    places = [int(j) for j, levels in table.levels_.items() if levels]
    return [j for j in places if not table.rare_[j]]


def _graph_of(estimator, for_scorer=False):
    """The graph of an estimator, its inputs and its outputs."""
    name = type(estimator).__name__
    if not is_public(type(estimator)) or not hasattr(estimator, "predict"):
        raise ModelError(f"only predictors of tunefree can be exported, not {name_type(estimator)}")
    d = getattr(estimator, "n_features_in_", None)
    if d is None:
        raise ModelError(f"this {name} is not fitted")
    if several := vars(estimator).get("label_models_"):
        raise ModelError(f"this {name} has {len(several)} labels: export each of its label_models_")
    terms = neutral_terms(estimator)
    if terms:
        given = " and ".join(f"{term}={value:g}" for term, value in terms.items())
        warn(f"A graph has the columns of X only: it predicts for {given}.")
    graph, dtype = _Graph(name), np.dtype(np.float64)
    table = vars(estimator).get("table_")
    if table is None:
        dtype = _dtype(estimator)
        inputs = [("X", np.zeros((1, d), dtype))]
        X = graph.cast("X", np.float64)
    elif np.all(table.kinds_ == "number"):
        inputs = [("X", np.zeros((1, d)))]
        X = _numbers(graph, table, graph.cast("X", np.float64))
    else:
        X, inputs = _mixed(graph, table, for_scorer)
    scores = (_stacked if isinstance(estimator, TuneFreeStack) else _scores)(graph, estimator, X)
    if hasattr(estimator, "classes_"):
        outputs = _classify(graph, estimator, scores, dtype, np.asarray(estimator.classes_))
    else:
        if isinstance(estimator, TuneFreeStack):
            shape: tuple = (1,) if estimator.flat_ else (1, len(estimator.offsets_))
        elif table is not None:
            shape = (1,) if estimator.flat_ else (1, estimator.forests_[0].start.size)
        else:
            shape = estimator.predict(inputs[0][1], **terms).shape
        outputs = _regress(graph, estimator, scores, np.zeros(shape, dtype))
    return graph, inputs, outputs


def _stacked(g, estimator, X):
    """The weighted sum of the scores of a stack's models."""
    terms = []
    for a, view, model in zip(estimator.weights_, estimator.views_, estimator.models_, strict=True):
        scores = _scores(g, model, _transformed(g, view, X))
        if hasattr(estimator, "classes_"):
            scores, _ = _decisions(g, model, scores, len(estimator.classes_) == 2)
        else:
            scores = _predicted(g, model, scores)
        terms.append(g("Mul", scores, np.asarray(a)))
    scores = g("Add", g("Sum", *terms), estimator.offsets_)
    calibration = getattr(estimator, "calibration_", None)
    return scores if calibration is None else calibration.onnx(g, scores)


def _dtype(estimator):
    """The type of rows: that of the coefficients; float64 for kernel models."""
    dtype = getattr(getattr(estimator, "coef_", None), "dtype", np.dtype(np.float64))
    return dtype if dtype in (np.float32, np.float64) else np.dtype(np.float64)


def _mixed(g, table, for_scorer):
    """The columns of a preprocessor, from inputs by name, and these inputs.

    For a scorer they are named by their places, and it makes the numbers of sentences itself.
    """
    pieces, inputs = [], []
    names = map(str, _check_feature_names_in(table))
    for j, (column, kind) in enumerate(zip(names, table.kinds_.tolist(), strict=True)):
        if kind == TEXT and not for_scorer:
            raise g.refusal(f"column {column!r} holds sentences")
        column = f"column {j}" if for_scorer else column
        if kind == TEXT:
            inputs.append((column, np.zeros((1, table.phrases_[str(j)].basis.shape[1]))))
            pieces.append(column)
            continue
        is_category = kind == "category"
        inputs.append((column, np.zeros((1, 1), object if is_category else np.float64)))
        pieces += (_category if is_category else _number)(g, table, j, column)
    return g("Concat", *pieces, axis=1), inputs


def _category(g, table, j, column):
    """A 0/1 column for each level of a category, one for its rare levels, and their means."""
    levels, merged = table.levels_[str(j)], table.merged_.get(str(j), {})
    if levels:
        yield from _indicators(g, table, j, column, levels, merged)
    if str(j) in table._level_means:
        yield _means(g, table.means_[str(j)], merged, column)


def _means(g, means, merged, column):
    """The mean targets of levels, by their places."""
    place = {level: k for k, level in enumerate(means.levels.tolist())}
    place |= {one: place[level] for one, level in merged.items() if level in place}
    numbers = {"keys_strings": [*place], "values_int64s": [*place.values()]}
    at = g("LabelEncoder", column, **numbers, default_int64=len(means.levels), domain=_ML)
    rows = np.vstack([means.means, means.other])
    return g("Gather", rows, g("Reshape", at, np.array([-1])), axis=0)


def _indicators(g, table, j, column, levels, merged):
    """A 0/1 column for each level, and one for rare levels."""
    known = [*levels, *merged]
    hot = g("OneHotEncoder", column, cats_strings=known, zeros=1, domain=_ML)
    hot = g.cast(g("Reshape", hot, np.array([-1, len(known)])), np.float64)
    if merged:
        level_of = np.array([merged.get(one, one) for one in known])
        hot = g("MatMul", hot, (level_of[:, None] == levels).astype(np.float64))
    yield hot
    if table.rare_[j]:
        yield g("Sub", 1.0, g("ReduceSum", hot, np.array([1]), keepdims=1))


def _number(g, table, j, column):
    """A number or date, whether it is missing, and its calendar columns."""
    absent = g("IsNaN", column)
    value = g("Where", absent, float(table.medians_[j]), column)
    yield value
    if table.missing_[j]:
        yield g.cast(absent, np.float64)
    yield from _calendar(g, value, table.calendar_.get(str(j), ()))


def _calendar(g, days, names):
    """Calendar columns of days since 1970, from tables of 400 years: then the calendar repeats."""
    whole, tables = g("Floor", days), calendar(np.arange(_CYCLE, dtype=float))
    place = g("Mod", g.cast(whole, np.int64), np.array(_CYCLE))
    for name in names:
        if name == "hour":
            yield g("Mul", g("Sub", days, whole), 24.0)
        else:
            yield g.cast(g("Gather", tables[name].astype(np.int8), place), np.float64)


def _numbers(g, table, X):
    """A table of numbers with medians for missing ones, and 0/1 columns of missing values."""
    absent = g("IsNaN", X)
    X = g("Where", absent, table.medians_.astype(np.float64), X)
    marked = np.flatnonzero(table.missing_)
    if not len(marked):
        return X
    # The 0/1 column comes after its column.
    marks = g("Gather", g.cast(absent, np.float64), marked, axis=1)
    order = np.argsort(np.concatenate([np.arange(len(table.missing_)), marked + 0.5]))
    return g("Gather", g("Concat", X, marks, axis=1), order, axis=1)


def _scores(g, estimator, X):
    """Values before a link, of shape (n, n_outputs)."""
    if hasattr(estimator, "forests_"):
        pairs = zip(estimator.shares_, estimator.forests_, strict=True)
        return g("Sum", *(g("Mul", f.onnx(g, X, estimator.bins_), share) for share, f in pairs))
    if isinstance(estimator, KernelEstimator):
        out = _expansion(g, estimator, X)
    elif hasattr(estimator, "landmarks_"):
        X = _transformed(g, (estimator.view_,), X)
        if estimator.geometry_ is not None:
            X = _transformed(g, (estimator.geometry_,), X)
            X = estimator.geometry_.onnx_values(g, X, estimator.landmarks_.centers)
        out = g("MatMul", X, estimator.dual_coef_.astype(np.float64))
    elif hasattr(estimator, "X_fit_"):
        values = _gram(g, estimator._kernel(), X, estimator.X_fit_)
        out = g("MatMul", values, estimator.dual_coef_.T)
    else:
        out = _linear(g, estimator, X)
    return g("Add", out, np.atleast_1d(estimator.intercept_).astype(np.float64))


def _expansion(g, estimator, X):
    """The sum over kernels and support rows, in the units of the targets."""
    X, f = _transformed(g, estimator.coordinates_.parts, X), estimator.expansion_
    pairs = zip(f.kernels, f.coefs, strict=True)
    terms = (g("MatMul", _gram(g, k, X, f.support), coef.astype(np.float64)) for k, coef in pairs)
    out = g("Sum", *terms)
    scale = getattr(estimator, "scale_", None)
    return out if scale is None else g("Mul", out, scale.astype(np.float64))


def _linear(g, estimator, X):
    """The products with the coefficients; columns are limited as in the model."""
    for attribute, reason in _COLUMNS_FIRST.items():
        if getattr(estimator, attribute, None) is not None:
            raise g.refusal(reason)
    if not hasattr(estimator, "coef_"):
        raise g.refusal(_COLUMNS_FIRST["feature_map_"])
    limits = getattr(estimator, "input_limits_", None)
    if limits is not None:
        low, high = limits.astype(np.float64)
        if isinstance(estimator, PiSTOLRegressor):
            X = g("Min", g("Max", X, low), high)
        else:  # as `robust.within_limits`
            out = g("Or", g("Less", X, low), g("Greater", X, high))
            X = g("Where", out, 0.5 * low + 0.5 * high, X)
    return g("MatMul", X, np.atleast_2d(estimator.coef_).T)


def _transformed(g, parts, X):
    """Rows after the parts of a view."""
    for part in parts:
        X = g.part(part, "view").onnx(g, X)
    return X


def _gram(g, kernel, X, support):
    """Kernel values, of shape (n, n_support)."""
    onnx = g.part(kernel, "kernel").onnx
    return onnx(g, X, np.asarray(as_dense(support)).astype(np.float64))


def _predicted(g, estimator, scores):
    """The predictions of a regressor, within its prediction limits."""
    if hasattr(estimator, "link_"):
        scores = g.part(estimator.link_, "link").onnx(g, scores)
    if getattr(estimator, "prediction_limits_", None) is not None:
        low, high = np.reshape(estimator.prediction_limits_, (2, -1)).astype(np.float64)
        scores = g("Min", g("Max", scores, low), high)
    levels: Any = getattr(getattr(estimator, "family_", None), "levels", 0)
    if np.ndim(levels):  # quantiles are sorted
        scores = g("TopK", scores, np.array([len(levels)]), unused=["_places"], largest=0)
    return scores


def _regress(g, estimator, scores, example):
    scores = _predicted(g, estimator, scores)
    if example.ndim == 1:
        scores = g("Squeeze", scores, np.array([1]))
    return [(g.cast(scores, example.dtype, "variable"), example)]


def _decisions(g, estimator, scores, binary):
    """The decision values of a classifier, and the means of its link, if it has one."""
    if not hasattr(estimator, "link_"):
        return scores, None
    if hasattr(estimator.family_, "onnx"):
        return estimator.family_.onnx(g, scores), None
    means = g.part(estimator.link_, "link").onnx(g, scores)
    return g("Sub", means, 0.5 * sum(estimator._ends())) if binary else scores, means


def _probabilities(g, estimator, scores, decisions, means, binary):
    """The probabilities of all classes."""
    if means is not None:
        low, high = estimator._levels()
        p = g("Div", g("Sub", means, float(low)), float(high - low))
    elif hasattr(getattr(estimator, "family_", None), "onnx"):
        p = decisions
    else:
        joint = (
            hasattr(estimator, "forests_")
            or getattr(estimator, "setting", "auto") == "auto"
            or estimator.loss == "multinomial"
        )
        p = g("Softmax", scores, axis=1) if joint and not binary else g("Sigmoid", scores)
    if binary:
        return g("Concat", g("Sub", 1.0, p), p, axis=1)
    total = g("ReduceSum", p, np.array([1]), keepdims=1)
    return g("Div", p, g("Max", total, 1e-300))


def _classify(g, estimator, scores, dtype, classes):
    binary, p = len(classes) == 2, None
    has_proba = hasattr(estimator, "predict_proba")
    decisions, means = _decisions(g, estimator, scores, binary)
    if has_proba:
        p = _probabilities(g, estimator, scores, decisions, means, binary)
    if binary:
        codes = g.cast(g("Squeeze", g("Greater", decisions, 0.0), np.array([1])), np.int64)
    else:
        codes = g("ArgMax", decisions, axis=1, keepdims=0)
    if classes.dtype.kind not in "biuUO":
        raise g.refusal(f"labels of type {classes.dtype}", ".classes_")
    classes = classes.astype(np.int64) if classes.dtype.kind in "iu" else classes
    label = g("Gather", classes, codes, name="label")
    values = g.cast(p, dtype, "probabilities") if has_proba else g.cast(scores, dtype, "scores")
    width = 1 if binary and not has_proba else len(classes)
    return [(label, classes[:1]), (values, np.zeros((1, width), dtype))]
