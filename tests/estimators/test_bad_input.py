"""Bad input: a sentence that names the argument, and a fitted model left as it was."""

import pickle

import numpy as np
import pandas as pd
import pytest
from cases import case, stored
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from tunefree import PiSTOLClassifier, PiSTOLRegressor
from tunefree.io.model import public_estimators

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
        refuse(model, verb, "Input X contains", stored(bad, kind), y)
        refuse(clone(model), verb, "Input X contains", stored(bad, kind), y)


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
    refuse(model, verb, "could not convert string", np.full(X.shape, "a"), y)


def test_validation_rows_come_with_targets(fitted):
    model, X, y = fitted
    refuse(model, "fit", "X_val is given without y_val", X, y, X_val=X)
    refuse(model, "fit", "Input X contains NaN", X, y, X_val=np.full_like(X, np.nan), y_val=y)
    refuse(model, "fit", "4 features", X, y, X_val=X[:, :4], y_val=y)
    refuse(model, "fit", "y_val", X, y, X_val=X, y_val=y[:-1])
    refuse(model, "fit", "y_val", X, y, X_val=X, y_val=np.where(y > 0, np.nan, y))


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
    refuse(model, "fit", "y_val", X, y, X_val=X, y_val=y + 5)


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
        refuse(estimator(loss="absolute"), "fit", "loss='absolute'", X, y)


@pytest.mark.parametrize("name", NAMES)
def test_no_prediction_before_a_fit(name):
    model, X, _ = case(name)
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(set(public_estimators()) - {"DynamicsReflectron"}))
def test_a_table_with_a_name_twice_or_without_rows_is_refused_in_words(name):
    rows = np.random.default_rng(0).normal(size=(20, 3))
    y = rows[:, 0] if name.endswith("Regressor") else (rows[:, 0] > 0).astype(int)
    frame, twice = (pd.DataFrame(rows, columns=list(names)) for names in ("abc", "aba"))
    lazy = type("LazyFrame", (), {"collect": None, "collect_schema": None})()
    make = public_estimators()[name]
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
