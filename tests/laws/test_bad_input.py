"""Bad input: a sentence that names the argument, and a fitted model left as it was."""

import pickle
from inspect import signature

import numpy as np
import pandas as pd
import polars
import pytest
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError

import tunefree
from cases import case, stored
from tunefree import PiSTOLClassifier, PiSTOLRegressor
from tunefree.core.registry import ESTIMATORS, estimator_classes

NAMES = ["classifier dense", "regressor dense"]
BAD = [np.nan, np.inf, -np.inf]
HUGE = [1e200, -1e200]  # beyond 1e150, where squares overflow
VERBS = ["fit", "partial_fit"]


def refuse(model, verb, match, *args, **kwargs):
    """A verb raises, and the model stays byte for byte what it was."""
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=match):
        getattr(model, verb)(*args, **kwargs)
    assert pickle.dumps(model) == before


@pytest.fixture(params=[(name, verb) for name in NAMES for verb in VERBS], ids=" ".join)
def fitted(request):
    """A model that was fitted or has learned from a stream, and its data."""
    name, verb = request.param
    model, X, y = case(name)
    model = getattr(model, verb)(X, y)
    model.predict(X)
    return model, X, y


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("value", BAD + HUGE)
def test_rows_must_be_finite(fitted, verb, value):
    model, X, y = fitted
    for kind in ("dense", "int32 matrix"):
        bad = X.copy()
        bad[3, 1] = value
        refuse(model, verb, "Input X contains|of X has entries up to", stored(bad, kind), y)
        refuse(clone(model), verb, "Input X contains|of X has entries", stored(bad, kind), y)


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("verb", VERBS)
def test_targets_must_be_finite(fitted, verb, value):
    model, X, y = fitted
    bad = y.astype(float)
    bad[3] = value
    refuse(model, verb, "Input y contains", X, bad)


@pytest.mark.parametrize("name", NAMES)
def test_values_up_to_the_limit_are_learned(name):
    model, X, y = case(name)
    for limit in (1e150, 1e-150):
        scaled = X * (limit / abs(X).max())
        assert np.isfinite(clone(model).fit(scaled, y).predict(scaled)).all()
        assert np.isfinite(clone(model).partial_fit(scaled, y).predict(scaled)).all()


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "value, match",
    [(np.nan, "sample_weight contains NaN"), (np.inf, "sample_weight contains infinity"),
     (-1.0, "sample_weight")],
)  # fmt: skip
def test_weights_must_be_finite_and_not_negative(fitted, verb, value, match):
    model, X, y = fitted
    weights = np.ones(len(y))
    weights[5] = value
    refuse(model, verb, match, X, y, sample_weight=weights)
    refuse(model, verb, "(?i)sample.weight", X, y, sample_weight=np.zeros(len(y)))
    refuse(model, verb, "sample_weight", X, y, sample_weight=np.ones(len(y) - 1))


WEIGHED = [
    one
    for one in estimator_classes().values()
    if hasattr(one, "predict") and "sample_weight" in signature(one.fit).parameters
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", WEIGHED, ids=lambda one: one.__name__)
def test_weights_of_any_size_are_learned_or_refused(estimator):
    """A light row counts as none, a heavy one is fitted, the unit is free, absurd ones are named.

    Weights below a billionth of the mean once made NaN, loops without end or errors of algebra.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    real = X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=60)
    classify = is_classifier(estimator())
    y = (real > 0.0).astype(int) if classify else real
    seed = {"random_state": 0} if "random_state" in signature(estimator).parameters else {}

    def fitted(weights):
        return estimator(**seed).fit(X, y, sample_weight=weights).predict(X)

    def weighed(first, others=1.0):
        return np.append(first, np.full(59, others))

    same = np.testing.assert_array_equal if classify else np.testing.assert_allclose
    same(fitted(weighed(1e-300)), fitted(weighed(0.0)))
    same(fitted(weighed(1e308, 1e308)), fitted(np.ones(60)), **({} if classify else {"rtol": 1e-6}))
    heavy = fitted(weighed(1e11))
    assert np.isfinite(heavy).all()
    if (
        estimator is not tunefree.reflectron.SharedReflectron
    ):  # whose link cannot say what is below 0
        np.testing.assert_allclose(heavy[0], y[0], atol=1e-6)
    for weights in (weighed(1e15), weighed(1e300), weighed(1.0, 1e-300)):
        with pytest.raises(ValueError, match="sample_weight gives one row the weight"):
            fitted(weights)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("weight", [1e-300, 1e15, 1e300])
def test_weights_of_a_stream_are_measured_by_1(name, weight):
    model, X, y = case(name)
    model.partial_fit(X, y)
    refuse(
        model,
        "partial_fit",
        "sample_weight has weights",
        X,
        y,
        sample_weight=np.full(len(y), weight),
    )


@pytest.mark.parametrize("verb", VERBS)
def test_an_error_after_the_rows_were_checked_changes_nothing(fitted, verb):
    """Rows of another width were looked at before the weights were refused."""
    model, X, y = fitted
    weights = np.full(len(y), -1.0)
    width = slice(None, 4 if verb == "fit" else 5)
    refuse(model, verb, "sample_weight", X[:, width], y, sample_weight=weights)
    frame = pd.DataFrame(X[:, width], columns=list("abcde")[width])
    refuse(clone(model), verb, "sample_weight", frame, y, sample_weight=weights)


@pytest.mark.parametrize("verb", VERBS)
def test_shapes_must_agree(fitted, verb):
    model, X, y = fitted
    refuse(model, verb, "inconsistent numbers of samples", X, y[:-1])
    refuse(model, verb, "2D array", X[0], y[:5])
    refuse(model, verb, "0 sample", X[:0], y[:0])
    refuse(model, "partial_fit", "4 features, but .* is expecting 5", X[:, :4], y)
    refuse(model, "predict", "4 features, but .* is expecting 5", X[:, :4])


@pytest.mark.parametrize("verb", VERBS)
def test_text_is_no_number(fitted, verb):
    model, X, y = fitted
    refuse(model, verb, "Column 'x0' .*holds text such as 'a'", np.full(X.shape, "a"), y)


DATED = ["BoostedTrees", "GLM", "KernelPiSTOL", "KernelRidge", "PiSTOL", "RidgePath", "TuneFree"]


@pytest.mark.parametrize("name", DATED)
@pytest.mark.parametrize("kind", [np.asarray, pd.Series])
def test_dates_are_no_targets_of_a_regressor(name, kind):
    X, days = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40).astype("M8[D]")
    with pytest.raises(ValueError, match="y holds dates or times"):
        getattr(tunefree, f"{name}Regressor")().fit(X, kind(days))


@pytest.mark.parametrize("verb", VERBS)
def test_one_class_is_not_enough(verb):
    model, X, y = case("classifier dense")
    refuse(model, verb, "one class", X, np.zeros(len(y)))
    refuse(model, verb, "one class", X, np.full(len(y), "yes"))
    if verb == "fit":
        weights = (y == 1).astype(float)
        refuse(model.fit(X, y), verb, "one class", X, y, sample_weight=weights)
    refuse(model, verb, "continuous", X, np.linspace(0, 1, len(y)))


def test_classes_beyond_those_of_the_fit():
    model, X, y = case("classifier dense")
    refuse(model.fit(X, y), "partial_fit", "classes that fit did not see", X, y + 1)
    refuse(model.set_params(warm_start=True), "fit", "beyond those of the first fit", X, y + 1)


@pytest.mark.parametrize("estimator", [PiSTOLClassifier, PiSTOLRegressor])
@pytest.mark.parametrize(
    "parameters",
    [{"setting": "best"}, {"loss": "0-1"}, {"average": "median"}, {"max_iter": 0},
     {"max_iter": 2.5}],
)  # fmt: skip
def test_parameters_that_mean_nothing_are_named(estimator, parameters):
    (name,) = parameters
    X, y = np.eye(4), np.array([0, 1, 0, 1])
    for verb in VERBS:
        refuse(estimator(**parameters), verb, f"{name}=", X, y)
    if estimator is PiSTOLRegressor:
        refuse(estimator(cap=-1.0), "fit", "cap=", X, y)
        refuse(estimator(loss="hinge"), "fit", "loss='hinge'", X, y)
    else:
        refuse(estimator(loss="absolute_error"), "fit", "loss='absolute_error'", X, y)


@pytest.mark.parametrize("name", NAMES)
def test_no_prediction_before_a_fit(name):
    model, X, _ = case(name)
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(set(estimator_classes()) - {"DynamicsReflectron"}))
def test_a_table_with_a_name_twice_or_without_rows_is_refused_in_words(name):
    rows = np.random.default_rng(0).normal(size=(20, 3))
    y = rows[:, 0] if name.endswith("Regressor") else (rows[:, 0] > 0).astype(int)
    frame, twice = (pd.DataFrame(rows, columns=list(names)) for names in ("abc", "aba"))
    lazy = type("LazyFrame", (), {"collect": None, "collect_schema": None})()
    make = estimator_classes()[name]
    fitted = make().fit(frame, np.c_[y, y] if name == "SharedReflectron" else y)
    ask = getattr(fitted, "predict", getattr(fitted, "transform", None))
    calls = [lambda X: make().fit(X, y), ask]
    if hasattr(make, "partial_fit") and "Regressor" not in name:
        calls.append(lambda X: make().partial_fit(X, y, classes=[0, 1]))
    for call in calls:
        with pytest.raises(ValueError, match="2 columns named 'a'"):
            call(twice)
        with pytest.raises(TypeError, match="LazyFrame.*collect"):
            call(lazy)


@pytest.mark.parametrize("estimator", [tunefree.TuneFreeClassifier, PiSTOLClassifier])
def test_more_columns_than_the_memory_holds_are_refused_before_work_starts(estimator):
    """A line of libsvm with one index of two billion once ended in "Unable to allocate"."""
    X = sparse.csr_array(([1.0, 1.0], ([0, 1], [0, 2**31 - 2])), shape=(8, 2**31 - 1))
    with pytest.raises(MemoryError, match="sparse rows of 2147483647 columns takes about"):
        estimator().fit(X, np.arange(8) % 2)


REGRESSORS = [n for n in ESTIMATORS if n.endswith("Regressor")]


@pytest.mark.parametrize("name", REGRESSORS)
def test_targets_are_named_with_their_row_and_the_way_out(name):
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.linspace(0.0, 1.0, 60)
    model = estimator_classes()[name]()
    refuse(
        model,
        "fit",
        r"Input y contains NaN. The first is y\[3\]",
        X,
        np.where(y == y[3], np.nan, y),
    )
    words = f"y holds text such as 'yes', and {name} predicts numbers: use .*Classifier"
    refuse(model, "fit", words, X, np.array(["yes", "no"] * 30))


@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
@pytest.mark.parametrize("stem", ["PiSTOL", "KernelPiSTOL", "KernelRidge"])
def test_columns_of_text_and_dates_are_named_with_the_way_out(stem, kind):
    x, y = np.linspace(0.0, 1.0, 60), np.arange(60) % 2
    model = estimator_classes()[stem + kind]()
    labels = np.array(["no", "yes"])[y] if kind == "Classifier" else y
    others = {
        "city": (["Rome", "Oslo"] * 30, "holds text such as 'Rome'"),
        "day": (pd.date_range("2026-01-01", periods=60), "holds dates or times"),
    }
    for column, (values, words) in others.items():
        table = pd.DataFrame({"a": x, column: values})
        for frame in (table, polars.from_pandas(table)):
            message = (
                f"Column '{column}' of X {words}, and {stem + kind} takes numbers: use TuneFree"
            )
            refuse(model, "fit", message + kind, frame, labels)
    words = f"NaN, and {stem + kind} takes no missing values: use TuneFree{kind} or Boosted"
    refuse(model, "fit", words, np.c_[x, np.where(x == 0.0, np.nan, x)], labels)
    model.fit(np.c_[x, x], labels)
    wrong = np.array([["1.5", "Rome"]] * 2, dtype=object)
    refuse(model, "predict", "Column 'x1' held numbers in fit, but now holds text", wrong)


@pytest.mark.parametrize("name", ["StreamRegressor", "PiSTOLRegressor", "TuneFreeRegressor"])
def test_a_lazy_frame_is_refused_with_the_way_out(name):
    frame = polars.DataFrame({"a": [1.0, 2.0]}).lazy()
    with pytest.raises(TypeError, match=r"LazyFrame.*give X.collect\(\)"):
        estimator_classes()[name]().fit(frame, [1.0, 2.0])


NO_TABLES = {
    "dict": (lambda frame: frame.to_dict("list"), "a list of dicts"),
    "generator": (lambda frame: (row for row in frame.to_numpy()), r"list\(X\)"),
    "MaskedArray": (
        lambda frame: np.ma.masked_greater(frame.to_numpy(), 9.0),
        r"X.filled\(numpy.nan\)",
    ),
    "recarray": (lambda frame: frame.to_records(index=False), r"pandas.DataFrame\(X\)"),
}


@pytest.mark.parametrize("kind", NO_TABLES)
@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_what_is_no_table_is_refused_with_the_way_out(name, kind):
    make, way_out = NO_TABLES[kind]
    frame = pd.DataFrame({"a": np.arange(12.0), "b": np.arange(12.0) % 5})
    with pytest.raises(TypeError, match=f"X is a {kind}, which is no table: give .*{way_out}"):
        estimator_classes()[name]().fit(make(frame), np.arange(12) % 2)


NO_NUMBERS = {
    "a frame without columns": (lambda X: pd.DataFrame(index=range(len(X))), "without columns"),
    "a frame of polars": (lambda X: polars.DataFrame(), "without columns"),
    "a complex array": (lambda X: X + 1j, r"X holds \(0\.5\+1j\)\. Give real"),
    "a complex sparse array": (lambda X: sparse.csc_array(X + 1j), r"X holds \(0\.5\+1j\)\. Give"),
    "a list with one complex cell": (
        lambda X: [*X.tolist()[:-1], [1.0, 2j]],
        r"X holds 2j\. Give real",
    ),
}


@pytest.mark.parametrize("kind", NO_NUMBERS)
@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_tables_without_columns_or_of_complex_numbers_are_refused_in_a_sentence(name, kind):
    make, sentence = NO_NUMBERS[kind]
    X = np.random.default_rng(0).normal(size=(12, 2))
    X[0, 0] = 0.5
    with pytest.raises(ValueError, match=sentence) as refusal:
        estimator_classes()[name]().fit(make(X), np.arange(12) % 2)
    assert len(str(refusal.value)) < 120


@pytest.mark.parametrize("name", ["TuneFreeClassifier", "TuneFreeRegressor", "TablePreprocessor"])
def test_what_is_wrong_with_columns_names_the_estimator(name):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    y = (X["a"] + rng.normal(size=60) > 0).astype(int)
    model = getattr(tunefree, name)()
    predict = "transform" if name == "TablePreprocessor" else "predict"
    fitted = clone(model).fit(X, y)
    with pytest.warns(UserWarning, match=f"valid feature names, but {name} was fitted with"):
        getattr(fitted, predict)(X.to_numpy())
    with pytest.raises(ValueError, match="feature names should match.*\n.*\n- age"):
        getattr(fitted, predict)(X.rename(columns={"a": "age"}))
    fitted = clone(model).fit(X.to_numpy(), y)
    with pytest.raises(ValueError, match=f"3 features, but {name} is expecting 2"):
        getattr(fitted, predict)(np.zeros((5, 3)))
    with pytest.warns(UserWarning, match=f"X has feature names, but {name} was fitted without"):
        getattr(fitted, predict)(X)
