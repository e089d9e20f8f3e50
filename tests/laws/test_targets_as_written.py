"""Targets and weights that nothing can be learned from are refused by what they are."""

import enum
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from inspect import signature

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from tunefree import DataWarning, GLMClassifier, PiSTOLClassifier, StreamClassifier
from tunefree.base.base import group_numbers
from tunefree.core.registry import ESTIMATORS, estimator_class
from tunefree.rows.missing import complete

REGRESSORS = [
    name
    for name in sorted(ESTIMATORS)
    if name.endswith("Regressor") and not name.startswith(("Stream", "Dask"))
]
RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 2))
TARGETS = {
    "dates such as": [f"2021-{1 + i % 12:02d}-{1 + i % 28:02d}" for i in range(N)],
    "dates such as '1 ": [f"{1 + i % 28} May {2000 + i}" for i in range(N)],
    "durations such as": [f"{20 + i}:{i:02d}:00" for i in range(N)],
    "numbers as text such as": [f"${1000 + i:,}.50" for i in range(N)],
    "numbers as text, but also 'tbd'": ["tbd" if i % 4 == 0 else f"{i}.5" for i in range(N)],
    "text such as 'red'": ["red", "blue"] * (N // 2),
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_a_regressor_names_what_its_targets_are(name):
    for words, y in TARGETS.items():
        with pytest.raises(ValueError, match=f"y holds {words}"):
            estimator_class(name)().fit(X, y)


@pytest.mark.parametrize("name", REGRESSORS)
def test_weights_of_text_are_named(name):
    with pytest.raises(ValueError, match=r"sample_weight holds text such as '2 kg', at .*\[1\]"):
        estimator_class(name)().fit(X, np.exp(X[:, 0]), sample_weight=["1.5", *["2 kg"] * (N - 1)])


# --- what is no list of numbers or labels -------------------------------------------------------

EVERY = [name for name in sorted(ESTIMATORS) if name.endswith(("Regressor", "Classifier"))]
EVERY = [name for name in EVERY if not name.startswith("Dask")]
ARGUMENTS = "y", "sample_weight", "exposure", "offset", "groups"


def objects(items):
    """An array of objects, whatever they are."""
    out = np.empty(len(items), dtype=object)
    out[:] = items
    return out


def called(name, argument, values):
    """A fit whose argument has some values."""
    given = {} if argument == "y" else {argument: values}
    y = values if argument == "y" else np.arange(N) % 2
    return estimator_class(name)().fit(X, y, **given)


HALVES = np.arange(N) % 2
NO_LIST = {
    "is a dict": lambda: {i: 1.0 for i in range(N)},
    "is a set": lambda: {float(i) for i in range(N)},
    "is a generator": lambda: (1.0 for _ in range(N)),
    "is a dict_values": lambda: {i: 1.0 for i in range(N)}.values(),
    "has the fields 't', 'event'": lambda: np.ones(N, dtype=[("t", "f8"), ("event", "i4")]),
    "Complex data not supported": lambda: np.ones(N) + 1j,
    "has entries of several lengths": lambda: [[1.0], [1.0, 2.0]] * (N // 2),
}
NO_VALUES = {
    r"\[0\] is Interval": lambda: pd.Series(pd.cut(X[:, 0], 3)),
    r"\[0\] is Period": lambda: pd.Series(pd.period_range("2020-01", periods=N, freq="M")),
    r"\[0\] is \[1.0\]": lambda: objects([[1.0]] * N),
    r"\[0\] is {1}": lambda: objects([{1}] * N),
    r"\[0\] is {'a': 1}": lambda: objects([{"a": 1}] * N),
    r"\[0\] is <Odd.a: 1>": lambda: objects([enum.Enum("Odd", "a b")(1 + i) for i in HALVES]),
    r"holds dates or times such as .*\[0\]": lambda: objects([time(1 + i % 2) for i in range(N)]),
}


@pytest.mark.parametrize("name", EVERY)
def test_what_is_no_list_of_values_is_called_what_it_is(name):
    """In every argument that has a value a row, of every estimator."""
    for argument in ARGUMENTS:
        if argument == "y" or argument in signature(estimator_class(name).fit).parameters:
            for words, values in NO_LIST.items():
                with pytest.raises((TypeError, ValueError), match=words) as found:
                    called(name, argument, values())
                assert argument in str(found.value)


@pytest.mark.parametrize("name", [name for name in EVERY if not name.startswith("Stream")])
def test_values_that_are_neither_numbers_nor_text_are_named(name):
    for argument in ARGUMENTS[:-1]:
        if argument == "y" or argument in signature(estimator_class(name).fit).parameters:
            for words, values in NO_VALUES.items():
                with pytest.raises(ValueError, match=f"^{argument}.*{words}|{argument} {words}"):
                    called(name, argument, values())


@pytest.mark.parametrize("name", [name for name in EVERY if name != "StreamRegressor"])
def test_times_are_no_weights(name):
    """Nanoseconds were taken as numbers."""
    for argument in ("sample_weight", "exposure", "offset"):
        if argument in signature(estimator_class(name).fit).parameters:
            for values in (np.ones(N, "m8[D]"), pd.Series(np.ones(N, "M8[s]"))):
                with pytest.raises(ValueError, match=f"{argument} holds dates or times"):
                    called(name, argument, values)


TIMES = {
    "dates": [date(2020, 1, 1 + i % 2) for i in range(N)],
    "moments": [datetime(2020, 1, 1 + i % 2, 7) for i in range(N)],
    "moments of a zone": [datetime(2020, 1, 1 + i % 2, 7, tzinfo=UTC) for i in range(N)],
    "durations": [timedelta(hours=1 + i % 2) for i in range(N)],
}
OF_TIMES = [
    objects, lambda v: v, lambda v: pd.Series(v, dtype=object), pd.Series, pl.Series, pa.array,
    lambda v: pd.DataFrame({"y": pd.Series(v)}),
]  # fmt: skip


@pytest.mark.parametrize("name", [name for name in EVERY if not name.startswith("Stream")])
@pytest.mark.parametrize("kind", TIMES)
@pytest.mark.filterwarnings("ignore:A column-vector y")
def test_times_are_classes_in_every_container_and_no_targets(name, kind):
    """Objects were refused, and datetime64 were classes."""
    estimator = estimator_class(name)
    for make in OF_TIMES:
        y = make(TIMES[kind])
        if not name.endswith("Classifier"):
            with pytest.raises(ValueError, match="y holds dates or times: give numbers"):
                estimator().fit(X, y)
            continue
        model = estimator().fit(X, y)
        assert model.classes_.dtype.kind in "mM"
        assert len(model.classes_) == 2
        assert model.score(X, y) == np.mean(model.predict(X) == model.classes_[HALVES])


WEIGHTED = [
    name for name in EVERY if "sample_weight" in signature(estimator_class(name).fit).parameters
]
IN_A_COLUMN = [
    lambda w: w[:, None], lambda w: w[:, None].tolist(), lambda w: pd.DataFrame({"w": w}),
    lambda w: pl.DataFrame({"w": w}), lambda w: pa.table({"w": w}), lambda w: [str(x) for x in w],
    lambda w: np.array([str(x) for x in w])[:, None], lambda w: np.array(w[:, None], object),
]  # fmt: skip


def learned(name, **given):
    """A fit, or a chunk of a stream, to targets that every estimator takes."""
    model = estimator_class(name)()
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    y = HALVES if name.endswith("Classifier") else np.exp(X[:, 0]) + 0.1 * X[:, 1]
    if name.startswith("Stream"):
        return model.partial_fit(X, y, **given), y
    return model.fit(X, y, **given), y


@pytest.mark.parametrize("name", [*WEIGHTED, "StreamClassifier", "StreamRegressor"])
def test_weights_may_stand_in_a_column_or_be_text(name):
    """An exposure of shape (n, 1) was taken, and weights were refused."""
    weights = RNG.integers(1, 4, N).astype(float)
    model, y = learned(name, sample_weight=weights)
    score = model.score(X, y, sample_weight=weights)
    for make in IN_A_COLUMN[:: 3 if name.startswith("TuneFree") else 1]:
        other, _ = learned(name, sample_weight=make(weights))
        assert np.array_equal(other.predict(X), model.predict(X))
        assert other.score(X, y, sample_weight=make(weights)) == score
    for bad in (np.ones((N, 2)), np.ones((1, N)), [[1.0] * N]):
        with pytest.raises(ValueError, match=r"sample_weight has the shape"):
            learned(name, sample_weight=bad)


@pytest.mark.parametrize("name", WEIGHTED)
def test_text_that_is_no_finite_number_is_named_with_its_argument(name):
    """Text "nan" was a missing value without a place, and a list of texts named columns."""
    takes = signature(estimator_class(name).fit).parameters
    for argument in ("sample_weight", "exposure", "offset"):
        for word in ("nan", "inf", "2 kg", "tbd") if argument in takes else ():
            values = [word if i == 3 else "1.5" for i in range(N)]
            for given in (values, objects(values), pd.Series(values), np.array(values)[:, None]):
                with pytest.raises(
                    ValueError, match=rf"{argument} holds text such as '{word}', at"
                ):
                    learned(name, **{argument: given})


@pytest.mark.parametrize("name", REGRESSORS)
@pytest.mark.parametrize("word", ["nan", "inf"])
def test_words_that_python_reads_as_no_finite_number_are_no_targets(name, word):
    """Text "nan" became a target, and predictions NaN."""
    y = [word if i == 3 else str(1.0 + i) for i in range(N)]
    for given in (y, objects(y), pd.Series(y)):
        with pytest.raises(ValueError, match=r"Input y contains .*The first is y\[3\]"):
            estimator_class(name)().fit(X, given)


@pytest.mark.parametrize("name", REGRESSORS)
def test_sparse_targets_are_called_so(name):
    with pytest.raises(TypeError, match="Sparse data was passed for y"):
        estimator_class(name)().fit(X, sparse.csr_array(X[:, :1]))


SAME = [
    lambda v: objects([Fraction(x) for x in v]), lambda v: objects([Decimal(x) for x in v]),
    lambda v: objects([bool(x) if x in (0, 1) else x for x in v]),
    lambda v: pd.Series(v).astype("Sparse[float]"), lambda v: pd.Series(v, dtype="category"),
    lambda v: pa.array([Decimal(x) for x in v]), lambda v: pa.array(v).dictionary_encode(),
    lambda v: pl.Series(v).cast(pl.Decimal(10, 2)), lambda v: pl.Series(v).cast(pl.Int128),
    lambda v: np.array(v, np.float16), lambda v: memoryview(np.array(v, float)),
    lambda v: pd.DataFrame({"y": v}), lambda v: pl.DataFrame({"y": v}),
    lambda v: pa.table({"y": v}),
    lambda v: np.ma.array(v, mask=False), lambda v: np.array([str(x) for x in v]).astype("T"),
]  # fmt: skip


@pytest.mark.parametrize("make", SAME)
def test_every_container_has_the_same_numbers(make):
    values = [3.0, 1.0, 2.0, 0.0, 5.0]
    found = np.asarray(complete(make(values))).astype(np.float64)
    assert found.ravel().tolist() == values


# --- labels -------------------------------------------------------------------------------------

CLASSIFIERS = [GLMClassifier, PiSTOLClassifier, StreamClassifier]


@pytest.mark.parametrize("estimator", CLASSIFIERS)
@pytest.mark.parametrize("odd", [1, True, 1.0, np.int64(1), Decimal(1)])
def test_text_and_numbers_are_no_labels_of_one_target(estimator, odd):
    y = ["1" if i % 4 else odd for i in range(N)]
    for given in (y, objects(y), pd.Series(y, dtype=object)):
        with pytest.raises(ValueError, match="y holds text such as '1', and .*labels of one type"):
            estimator().fit(X, given)


@pytest.mark.parametrize("estimator", CLASSIFIERS)
@pytest.mark.parametrize(
    "other", ["yes ", "\tyes", "YES", "Yes", "yes\u00a0", "\uff59es"], ids=ascii
)
def test_classes_that_may_be_one_are_named(estimator, other):
    y = np.array(["no", "yes", other])[np.arange(N) % 3]
    with pytest.warns(DataWarning, match="of y differ in blanks, case or the code of a letter"):
        model = estimator().fit(X, y)
    assert len(model.classes_) == 3


@pytest.mark.parametrize("estimator", CLASSIFIERS)
@pytest.mark.parametrize("marker", ["nan", "", " ", "NA", "None"])
def test_a_class_that_may_be_no_label_is_named(estimator, marker):
    y = np.array(["no", "yes", marker])[np.arange(N) % 3]
    with pytest.warns(DataWarning, match=f"y has the class {marker!r}: if it stands for a missing"):
        estimator().fit(X, y)


@pytest.mark.filterwarnings("error")
def test_ordinary_classes_are_not_doubted():
    for labels in (["a", "A"], ["no", "none"], ["+", "-"], [0, 1], ["red", "blue"]):
        PiSTOLClassifier(random_state=0).fit(X, np.array(labels)[HALVES])


def test_groups_are_one_in_every_type_that_writes_them_alike():
    """1 and "1" are one group: rows that depend on each other are held out together."""
    mixed = objects([(1, "1", 2, "2")[i % 4] for i in range(N)])
    found = group_numbers(mixed, X, np.arange(N))
    assert found.tolist() == [i % 4 // 2 for i in range(N)]
    with pytest.raises(ValueError, match=r"groups has the shape \(60, 2\): give one value a row"):
        group_numbers(X, X, np.arange(N))


# --- labels of chunks ---------------------------------------------------------------------------

IN_CHUNKS = [name for name in EVERY if name.endswith("Classifier")]
IN_CHUNKS = [name for name in IN_CHUNKS if hasattr(estimator_class(name)(), "partial_fit")]
NO_CLASSES = {
    "classes='yes' is text": "yes",
    "classes=.* has a missing value": ["yes", None],
    "classes holds text such as 'yes', and 1": ["yes", 1],
    "classes is a dict": {"yes": 1},
    "classes=.* is no list": 3,
}


@pytest.mark.parametrize("name", IN_CHUNKS)
def test_announced_classes_are_labels_of_one_type(name):
    """[1, "yes"] were the classes "1" and "yes", and what was no list ended in NumPy."""
    words = np.array(["no", "yes"])[HALVES]
    for message, classes in NO_CLASSES.items():
        with pytest.raises((TypeError, ValueError), match=message):
            estimator_class(name)().partial_fit(X, words, classes=classes)
    for classes in ({"yes", "no"}, ["yes", "no", "yes"], pd.Series(["no", "yes"]), ("yes", "no")):
        model = estimator_class(name)().partial_fit(X, words, classes=classes)
        assert model.classes_.tolist() == ["no", "yes"]


@pytest.mark.parametrize("name", IN_CHUNKS)
def test_a_chunk_of_other_labels_is_not_taken_silently(name):
    """After text, numbers became text; a stream, which goes on, warns."""
    words = np.array(["no", "yes"])[HALVES]
    for one, other in ((words, HALVES), (HALVES, words)):
        model = estimator_class(name)().partial_fit(X, one)
        if name == "StreamClassifier":
            with pytest.warns(DataWarning, match="labels of two types are different classes"):
                model.partial_fit(X, other)
        else:
            with pytest.raises(ValueError, match="y holds labels such as .* earlier chunks"):
                model.partial_fit(X, other)


def test_a_fraction_that_a_stream_takes_for_a_class_is_named():
    model = StreamClassifier()
    model.learn_one({"a": 1.0}, 0)
    with pytest.warns(DataWarning, match="y is 0.57, a fraction, and becomes a class"):
        model.learn_one({"a": 1.0}, 0.57)
