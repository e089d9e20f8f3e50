"""What is documented as array-like may be a list, and a table a frame of any library."""

import inspect

import numpy as np
import pandas as pd
import pytest

import tunefree
from tunefree import GLMClassifier, GLMRegressor
from tunefree.core.registry import ESTIMATORS

pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

OF_ROWS = [
    name
    for name in sorted(ESTIMATORS)
    if name.endswith(("Regressor", "Classifier", "Perceptron")) and "Dask" not in name
]
OTHERS = ("fit", "partial_fit", "fit_source", "to_local")
_rng = np.random.default_rng(0)
N = 48
X = _rng.normal(size=(N, 3))
LABELS = (X[:, 0] + 0.5 * _rng.normal(size=N) > 0.0).astype(int)
COUNTS = _rng.poisson(np.exp(0.5 * X[:, 0]) + 0.5).astype(float)
GIVEN = {"sample_weight": 1.0 + np.arange(N) % 2, "groups": np.arange(N) // 2}
TERMS = {"exposure": 1.0 + np.arange(N) % 3, "offset": 0.1 * X[:, 1]}


def _class(name):
    return getattr(tunefree, name, None) or getattr(tunefree.perceptron, name)


def _made(name):
    """An estimator that learns quickly."""
    kind = _class(name)
    quick = {
        "random_state": 0, "candidates": ("linear",), "max_iter": 30, "n_landmarks": 10,
    }  # fmt: skip
    known = inspect.signature(kind).parameters
    return kind(**{name: value for name, value in quick.items() if name in known})


def _y(name):
    return COUNTS if name.endswith("Regressor") else LABELS


def _same(a, b):
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, np.ndarray | float):
        a, b = np.asarray(a), np.asarray(b)
        return np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    return repr(a) == repr(b)


def _as_list(value):
    return value.tolist() if isinstance(value, np.ndarray) else value


def _methods(model):
    """The public methods that take rows, by name."""
    for name in dir(type(model)):
        if name.startswith(("_", "set_", "get_")) or name in OTHERS:
            continue
        method = getattr(model, name, None)
        if callable(method) and "X" in inspect.signature(method).parameters:
            yield name, method


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OF_ROWS)
def test_lists_are_arrays(name):
    """Every public method gives the same for nested lists, whatever it takes beside rows."""
    y, known = _y(name), inspect.signature(_class(name).fit).parameters
    given = {key: value for key, value in GIVEN.items() if key in known}
    model = _made(name).fit(X, y, **given)
    lists = {key: value.tolist() for key, value in given.items()}
    other = _made(name).fit(X.tolist(), y.tolist(), **lists)
    assert _same(model.predict(X), other.predict(X))
    compared = 0
    for method_name, method in _methods(model):
        parameters = inspect.signature(method).parameters
        arguments = {"X": X}
        if "y" in parameters:
            arguments["y"] = y
        if "sample_weight" in parameters:
            arguments["sample_weight"] = GIVEN["sample_weight"]
        if "column" in parameters:
            arguments["column"] = 0
        if {"cov_type", "groups"} <= parameters.keys():
            arguments |= {"cov_type": "cluster", "groups": GIVEN["groups"]}
        expected = method(**arguments)
        found = method(**{key: _as_list(value) for key, value in arguments.items()})
        assert _same(expected, found), method_name
        compared += 1
    assert compared >= 2


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["GLMRegressor", "BoostedTreesRegressor", "TuneFreeRegressor"])
def test_exposures_and_offsets_are_arrays_lists_or_scalars(name):
    """A scalar is that of every row, in every method."""
    model = _made(name)
    model.set_params(**({"family": "poisson"} if name == "GLMRegressor" else {"loss": "poisson"}))
    taken = [term for term in TERMS if term in inspect.signature(model.fit).parameters]
    for term in taken:
        forms = [(TERMS[term], TERMS[term].tolist()), (np.full(N, 2.0), 2.0)]
        for array, form in forms[name.startswith("Tune") :]:
            model.fit(X, COUNTS, **{term: array})
            other = _made(name).set_params(**model.get_params()).fit(X, COUNTS, **{term: form})
            for method_name, method in _methods(model):
                parameters = inspect.signature(method).parameters
                if term not in parameters:
                    continue
                known = {"y": COUNTS, "column": 0}
                arguments = {"X": X} | {k: v for k, v in known.items() if k in parameters}
                expected = method(**arguments, **{term: array})
                found = getattr(other, method_name)(**arguments, **{term: form})
                assert _same(expected, found), (method_name, term)
        for wrong in (np.ones(N - 1), np.ones((N, 2)), [1.0]):
            with pytest.raises(ValueError, match=term):
                model.predict(X, **{term: wrong})


def test_an_offset_is_refused_by_name_where_none_is_taken():
    model = _made("TuneFreeRegressor").set_params(loss="poisson").fit(X, COUNTS)
    for method in (model.score, lambda X, y, offset: model.predict_interval(X, offset=offset)):
        with pytest.raises(ValueError, match="TuneFreeRegressor takes no offset="):
            method(X, COUNTS, offset=0.1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OF_ROWS)
def test_a_series_is_no_table(name):
    """One column without a second axis: an error that shows how to make a table of it."""
    y = _y(name)
    model = _made(name).fit(X[:, :1], y)
    column = X[:, 0]
    for series in (pd.Series(column), pl.Series(column), pa.array(column), column):
        for method_name in ("fit", "partial_fit", "predict", "score", "predict_interval"):
            own = _made(name) if method_name in ("fit", "partial_fit") else model
            method = getattr(own, method_name, None)
            if method is None:
                continue
            needs_y = method_name not in ("predict", "predict_interval")
            with pytest.raises(ValueError, match="2D"):
                method(series, y) if needs_y else method(series)


def _frame():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"size": rng.normal(size=80), "city": rng.choice(["u", "v", "w"], 80)})
    frame["kind"] = rng.choice(["old", "new"], 80)
    frame["age"] = rng.normal(size=80)
    return frame, frame["size"] + 2.0 * (frame["city"] == "u") + 0.3 * rng.normal(size=80)


def _dictionaries(frame):
    table = pa.Table.from_pandas(frame)
    for j in (1, 2):
        table = table.set_column(j, table.column_names[j], table.column(j).dictionary_encode())
    return table


def _large(frame):
    table, large = pa.Table.from_pandas(frame), pa.large_string()
    types = [large if j in (1, 2) else pa.float64() for j in range(4)]
    return table.cast(pa.schema(list(zip(table.column_names, types, strict=True))))


TABLES = {
    "polars": pl.DataFrame,
    "polars categories": lambda frame: pl.DataFrame(frame).with_columns(
        pl.col("city", "kind").cast(pl.Categorical)
    ),
    "Arrow": pa.Table.from_pandas,
    "Arrow dictionaries": _dictionaries,
    "Arrow large text": _large,
    "pandas categories": lambda frame: frame.astype({"city": "category", "kind": "category"}),
    "pandas with Arrow": lambda frame: frame.astype({"city": "string[pyarrow]"}),
    "pandas with dictionaries": lambda frame: _dictionaries(frame).to_pandas(
        types_mapper=pd.ArrowDtype
    ),
    "pandas with large text": lambda frame: _large(frame).to_pandas(types_mapper=pd.ArrowDtype),
}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("classify", [False, True])
def test_text_columns_of_a_glm_come_from_any_table(kind, classify):
    frame, y = _frame()
    table = TABLES[kind](frame)
    model: GLMRegressor | GLMClassifier = GLMRegressor("gaussian", max_iter=20, random_state=0)
    if classify:
        model = GLMClassifier(max_iter=20, random_state=0)
        y = (y + np.sin(17.0 * y) > 0.5).astype(int)
    model.fit(frame, y)
    expected = model.coef_, model.predict(frame), *model.summary(frame, y)[:4]
    assert _same(model.predict(table), expected[1])
    again = model.fit(table, y)
    found = again.coef_, again.predict(table), *again.summary(table, y)[:4]
    assert _same(expected, found)
    assert again.anova(table, y).terms == ["size", "age", "city", "kind"]


@pytest.mark.parametrize("kind", ["polars", "Arrow", "pandas categories"])
def test_other_columns_of_a_glm_are_named(kind):
    frame, y = _frame()
    model = GLMRegressor("gaussian", max_iter=20, random_state=0).fit(frame, y)
    changes = {
        "extra": frame.assign(extra=1.0),
        "size": frame.drop(columns="size"),
        "same order": frame[["city", "size", "kind", "age"]],
    }
    for words, changed in changes.items():
        table = pa.Table.from_pandas(changed) if kind == "Arrow" else pl.DataFrame(changed)
        table = changed if kind.startswith("pandas") else table
        for method in (model.predict, model.predict_interval, lambda X: model.summary(X, y)):
            with pytest.raises(ValueError, match=f"feature names should match[^$]*{words}"):
                method(table)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OF_ROWS)
def test_an_extra_column_is_named(name):
    """By every estimator, as by those of scikit-learn."""
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = _made(name).fit(frame, _y(name))
    for table in (frame.assign(extra=1.0), pl.DataFrame(frame.assign(extra=1.0))):
        for method_name in ("predict", "predict_proba", "explain", "predict_interval"):
            if hasattr(model, method_name):
                with pytest.raises(ValueError, match="extra"):
                    getattr(model, method_name)(table)


def test_more_copies_than_rows_or_groups_are_refused_before_the_work():
    model = tunefree.TuneFreeRegressor(cross_fit=2000, random_state=0)
    with pytest.raises(ValueError, match="cross_fit=2000.*48 different rows"):
        model.fit(X, COUNTS)
    with pytest.raises(ValueError, match="cross_fit=40.*24 groups"):
        model.set_params(cross_fit=40).fit(X, COUNTS, groups=GIVEN["groups"])
    labels = tunefree.TuneFreeClassifier(cross_fit=2000, random_state=0)
    with pytest.raises(ValueError, match="cross_fit=2000.*48 different rows"):
        labels.fit(X, LABELS)
    assert not hasattr(model, "models_") and not hasattr(labels, "models_")


def test_directions_of_several_outputs_are_refused_before_the_work():
    several = {"loss": "quantile", "quantile": (0.1, 0.9), "monotonic_cst": [1, 0, 0]}
    for kind in (tunefree.TuneFreeRegressor, tunefree.BoostedTreesRegressor):
        with pytest.raises(ValueError, match="monotonic_cst.*quantile"):
            kind(**several).fit(X, COUNTS)
        with pytest.raises(ValueError, match="monotonic_cst.*target"):
            kind(monotonic_cst=[1, 0, 0]).fit(X, np.column_stack([COUNTS, COUNTS]))
