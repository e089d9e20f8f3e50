"""Missing values beside the rows: everything names the first one, and learns nothing."""

import decimal
import pickle
from inspect import signature

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import is_classifier, is_regressor
from sklearn.model_selection import GroupKFold

import tunefree
from tunefree import TuneFreeClassifier, TuneFreeRegressor
from tunefree.core.registry import estimator_classes
from tunefree.rows.missing import complete, separated

X = np.random.default_rng(0).normal(size=(40, 3))
PLACE = 7
GAPS = [None, float("nan"), pd.NA, pd.NaT, np.datetime64("NaT", "D"), decimal.Decimal("nan")]
# Streams learn what has a label, and predict the rest.
LEARNERS = [
    one
    for name, one in estimator_classes().items()
    if not name.startswith("Stream") and (is_classifier(one()) or is_regressor(one()))
]


def objects(values):
    """Values of any types as an array of Python's objects."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def numbers(gap):
    """40 targets, 0 and 1, with a gap."""
    return [gap if i == PLACE else float(i % 2) for i in range(40)]


def texts(gap):
    return [gap if i == PLACE else "ab"[i % 2] for i in range(40)]


def truths(gap):
    return [gap if i == PLACE else i % 2 == 0 for i in range(40)]


# Containers of numbers, and of labels, with a missing value at PLACE.
OF_NUMBERS = {
    "list of None": lambda: numbers(None),
    "list of nan": lambda: numbers(float("nan")),
    "list of NA": lambda: numbers(pd.NA),
    "objects": lambda: objects(numbers(None)),
    "floats": lambda: np.array(numbers(np.nan)),
    "float32": lambda: np.array(numbers(np.nan), np.float32),
    "column": lambda: np.array(numbers(np.nan))[:, None],
    "masked array": lambda: np.ma.array(numbers(1.0), mask=np.arange(40) == PLACE),
    "Series of objects": lambda: pd.Series(numbers(None), dtype=object),
    "Series of floats": lambda: pd.Series(numbers(np.nan)),
    "Float64": lambda: pd.Series(numbers(None), dtype="Float64"),
    "Int64": lambda: pd.Series(numbers(None), dtype="Int64"),
    "pandas array": lambda: pd.array(numbers(None), dtype="Int64"),
    "Arrow in pandas": lambda: pd.Series(numbers(None), dtype="double[pyarrow]"),
    "frame": lambda: pd.DataFrame({"y": numbers(np.nan)}),
    "polars": lambda: pl.Series(numbers(None)),
    "polars nan": lambda: pl.Series(numbers(float("nan"))),
    "polars frame": lambda: pl.DataFrame({"y": numbers(None)}),
    "Arrow": lambda: pa.array(numbers(None)),
    "Arrow chunks": lambda: pa.chunked_array([pa.array(numbers(None)[:9]), numbers(None)[9:]]),
    "Arrow table": lambda: pa.table({"y": numbers(None)}),
}
OF_LABELS = {
    "list of text": lambda: texts(None),
    "list of text and nan": lambda: texts(float("nan")),
    "objects of text": lambda: objects(texts(pd.NA)),
    "boolean": lambda: pd.Series(truths(None), dtype="boolean"),
    "string": lambda: pd.Series(texts(None), dtype="string"),
    "category": lambda: pd.Series(texts(None), dtype="category"),
    "Categorical": lambda: pd.Categorical(texts(None)),
    "frame of text": lambda: pd.DataFrame({"y": texts(None)}),
    "dates": lambda: pd.Series(
        [pd.NaT if i == PLACE else pd.Timestamp(2026, 1, 1 + i % 2) for i in range(40)]
    ),
    "polars text": lambda: pl.Series(texts(None)),
    "polars categories": lambda: pl.Series(texts(None), dtype=pl.Categorical),
    "polars truths": lambda: pl.Series(truths(None)),
    "Arrow text": lambda: pa.array(texts(None)),
    "Arrow categories": lambda: pa.array(texts(None)).dictionary_encode(),
    "Arrow truths": lambda: pa.array(truths(None)),
}


@pytest.mark.parametrize("kind", [*OF_NUMBERS, *OF_LABELS])
def test_every_container_names_its_first_missing_value(kind):
    y = (OF_NUMBERS | OF_LABELS)[kind]()
    words = rf"Input y contains .*\. The first is y\[{PLACE}\]: drop the rows whose target is"
    with pytest.raises(ValueError, match=words):
        complete(y)
    _, missing = separated(y)
    assert np.flatnonzero(missing).tolist() == [PLACE]


@pytest.mark.parametrize("gap", GAPS, ids=repr)
@pytest.mark.parametrize("of", [numbers, texts, truths])
def test_every_kind_of_gap_is_missing_in_lists_and_objects(gap, of):
    for y in (of(gap), objects(of(gap))):
        with pytest.raises(ValueError, match=rf"The first is y\[{PLACE}\]"):
            complete(y)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("verb", ["fit", "partial_fit"])
@pytest.mark.parametrize("estimator", LEARNERS, ids=lambda one: one.__name__)
def test_no_estimator_learns_rows_without_a_target(estimator, verb):
    """The message is one for all, and the model stays byte for byte what it was."""
    if not hasattr(estimator(), verb):
        return
    kinds = OF_NUMBERS if is_regressor(estimator()) else OF_NUMBERS | OF_LABELS
    rng = np.random.default_rng(len(estimator.__name__))
    for kind in rng.choice(list(kinds), 6, replace=False):
        model = estimator()
        before = pickle.dumps(model)
        with pytest.raises(ValueError, match=rf"Input y contains .* The first is y\[{PLACE}\]: dr"):
            getattr(model, verb)(X, kinds[kind]())
        assert pickle.dumps(model) == before


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["ReflectronRegressor", "PiSTOLClassifier", "RidgePathRegressor"])
def test_a_refused_chunk_changes_nothing(name):
    model, y = getattr(tunefree, name)(), np.arange(40) % 2
    model.partial_fit(X, y)
    model.predict(X)
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=r"y\[7\]"):
        model.partial_fit(X, numbers(None))
    assert pickle.dumps(model) == before
    again = getattr(tunefree, name)().partial_fit(X, y)
    for one in (model, again):
        one.partial_fit(X, y)
    np.testing.assert_array_equal(model.predict(X), again.predict(X))


@pytest.mark.parametrize("name", ["GLMRegressor", "RidgePathRegressor", "SharedReflectron"])
def test_one_of_several_targets_is_named_with_its_column(name):
    y = np.column_stack([numbers(0.0), numbers(None)])
    for Y in (
        y,
        pd.DataFrame(y, columns=["a", "b"]),
        pl.DataFrame({"a": [1.0] * 40, "b": y[:, 1]}),
    ):
        with pytest.raises(ValueError, match=r"The first is y\[7, 1\]"):
            estimator_classes()[name]().fit(X, Y)


@pytest.mark.filterwarnings("ignore")
def test_several_labels_and_validation_targets_and_formulas():
    labels = pd.DataFrame({"a": truths(None), "b": truths(True)}, dtype="boolean")
    with pytest.raises(ValueError, match=r"The first is y\[7, 0\]"):
        TuneFreeClassifier().fit(X, labels)
    model = tunefree.GLMRegressor(family="gaussian")
    with pytest.raises(ValueError, match=r"The first is y_val\[7\]"):
        model.fit(X, numbers(1.0), X_val=X, y_val=numbers(None))
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=numbers(np.nan))
    for formula in ("y ~ a", "np.exp(y) ~ a", "y + c ~ a"):
        with pytest.raises(ValueError, match=r"The first is y\[7"):
            tunefree.GLMRegressor(family="gaussian", formula=formula).fit(frame)
    model = tunefree.GLMRegressor(family="gaussian").fit(X, X[:, 0])
    with pytest.raises(ValueError, match=r"The first is y\[7\]"):
        model.summary(X, numbers(None))


WHOLE = [
    lambda y: pd.Series(y, dtype="Int64"),
    lambda y: pd.Series(y, dtype="int8[pyarrow]"),
    lambda y: pd.DataFrame({"y": pd.array(y, dtype="UInt8")})["y"],
    lambda y: objects(y),
    lambda y: pd.Series(y, dtype=object),
    lambda y: pl.Series(y),
    lambda y: pa.array(y),
    lambda y: pa.chunked_array([y[:5], y[5:]]),
]


@pytest.mark.parametrize(
    "name", ["PiSTOLClassifier", "BoostedTreesClassifier", "TuneFreeClassifier"]
)
def test_whole_numbers_and_truth_values_stay_what_they_are(name):
    """They were 0.0 and 1.0 in nullable types, which ONNX refuses."""
    rng = np.random.default_rng(len(name))
    seed = {"candidates": ("linear",)} if name == "TuneFreeClassifier" else {}
    for whole in rng.choice(np.array(WHOLE), 3, replace=False):
        model = getattr(tunefree, name)(random_state=0, **seed).fit(X, whole([0, 1] * 20))
        assert model.classes_.dtype.kind in "iu" and model.classes_.tolist() == [0, 1]
    for truth in (pd.Series([True, False] * 20, dtype="boolean"), pa.array([True, False] * 20)):
        model = getattr(tunefree, name)(random_state=0, **seed).fit(X, truth)
        assert model.classes_.dtype == bool


def test_containers_without_gaps_keep_values_and_order():
    for make in WHOLE:
        found = complete(make([3, 1, 2, 1, 0, 5, 9]))
        assert found.dtype.kind in "iu" and found.tolist() == [3, 1, 2, 1, 0, 5, 9]
    for y in (["b", "a"], pd.Series(["b", "a"], dtype="category"), pl.Series(["b", "a"])):
        assert complete(y).tolist() == ["b", "a"]
    assert complete(None) is None and complete(3.0) == 3.0


TAKES = {"groups": ["a"] * 7 + [None] + ["b"] * 32, "sample_weight": [1.0] * 7 + [None] * 33}
TAKES |= {"exposure": [1.0] * 7 + [pd.NA] * 33, "offset": pd.Series([1] * 7 + [None] * 33)}
CALLS = [
    (one, name)
    for one in LEARNERS
    for name in TAKES
    if name in signature(one.fit).parameters and one.__name__ != "TuneFreeRegressor"
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "estimator, name", CALLS, ids=lambda value: getattr(value, "__name__", str(value))
)
def test_arguments_beside_the_rows_name_their_missing_value(estimator, name):
    """Groups with NaN were one group; None among text was "'<' not supported"."""
    y = np.arange(40) % 2
    y = np.column_stack([y, y]) if estimator.__name__ == "SharedReflectron" else y
    needs_family = name in ("exposure", "offset") and not is_classifier(estimator())
    family = {"family": "poisson"} if needs_family else {}
    if "family" not in signature(estimator).parameters:
        family = {"loss": "poisson"} if family else {}
    model = estimator(**family)
    before = pickle.dumps(model)
    for values in (TAKES[name], objects(list(TAKES[name]))):
        words = rf"Input {name} contains .* The first is {name}\[7\]: give every row"
        with pytest.raises(ValueError, match=words):
            model.fit(X, y, **{name: values})
        assert pickle.dumps(model) == before


@pytest.mark.filterwarnings("ignore")
def test_arguments_of_stacks_and_preprocessors_name_their_missing_value():
    y = np.arange(40) % 2
    for more in ({}, {"cv": GroupKFold(2)}):
        with pytest.raises(ValueError, match=r"The first is groups\[7\]"):
            TuneFreeRegressor(**more).fit(X, y, groups=[1.0] * 7 + [np.nan] * 9 + [2.0] * 24)
    for name in ("sample_weight", "exposure"):
        with pytest.raises(ValueError, match=rf"The first is {name}\[7\]"):
            TuneFreeRegressor(loss="poisson").fit(X, y, **{name: TAKES[name]})
    with pytest.raises(ValueError, match=r"The first is sample_weight\[7\]"):
        tunefree.TablePreprocessor().fit(X, sample_weight=TAKES["sample_weight"])
    model = tunefree.GLMRegressor(family="poisson").fit(X, y, exposure=np.ones(40))
    with pytest.raises(ValueError, match=r"The first is exposure\[7\]"):
        model.predict(X, exposure=TAKES["exposure"])


@pytest.mark.filterwarnings("ignore:Most targets lie outside")
@pytest.mark.parametrize(
    "estimator", [one for one in LEARNERS if is_regressor(one())], ids=lambda one: one.__name__
)
def test_a_number_that_stands_apart_is_no_silent_target(estimator):
    """-999 may stand for a missing value: a warning names it and counts it."""
    y = np.abs(np.random.default_rng(0).normal(size=40)) + 1.0
    y[[3, 9, 27]] = -999.0
    y = np.column_stack([y, y]) if estimator.__name__ == "SharedReflectron" else y
    gaussian = "family" in signature(estimator).parameters
    model = estimator(**({"family": "gaussian"} if gaussian else {}))
    with pytest.warns(tunefree.DataWarning, match="y holds -999 3 times, apart from all other"):
        model.fit(X, y)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [kind for kind in OF_NUMBERS if kind != "Arrow table"])
@pytest.mark.parametrize("name", ["StreamClassifier", "StreamRegressor"])
def test_a_stream_knows_a_missing_target_in_any_container(name, kind):
    """Its row is unlabelled: as if it were NaN."""
    estimator = estimator_classes()[name]
    expected = estimator().partial_fit(X, OF_NUMBERS["floats"]())
    found = estimator().partial_fit(X, OF_NUMBERS[kind]())
    assert np.array_equal(found.predict(X), expected.predict(X))
