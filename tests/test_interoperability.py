"""Model files of others, and scikit-learn's ways to use an estimator."""

import io
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Barrier

import joblib
import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tunefree
from tunefree.core.registry import estimator_class
from tunefree.files.model import load_model, save_model

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3)) + [0.0, 5.0, 0.0]
Y = X @ [1.0, -1.0, 0.5]
LABELS = (Y > np.median(Y)).astype(int)
SEPARABLE = X + 2.0 * np.outer(2 * LABELS - 1, [1.0, -1.0, 0.5])
MODELS = {
    "PiSTOLClassifier": ({}, LABELS),
    "PiSTOLRegressor": ({}, Y),
    "RidgePathRegressor": ({}, Y),
    "ReflectronClassifier": ({"max_iter": 30}, LABELS),
    "ReflectronRegressor": ({"link": "identity", "max_iter": 30}, Y),
    "OptimisticPerceptron": ({}, LABELS),
    "ClassicalPerceptron": ({}, LABELS),
    "KernelOptimisticPerceptron": ({}, LABELS),
    "KernelPiSTOLClassifier": ({"max_iter": 1}, LABELS),
    "KernelPiSTOLRegressor": ({"max_iter": 1}, Y),
    "KernelRidgeClassifier": ({}, LABELS),
    "KernelRidgeRegressor": ({}, Y),
    "TuneFreeClassifier": ({"candidates": ("linear",)}, LABELS),
    "TuneFreeRegressor": ({"candidates": ("linear",)}, Y),
}


def make(name):
    parameters, y = MODELS[name]
    model = estimator_class(name)(**parameters)
    return model.set_params(random_state=0) if "random_state" in model.get_params() else model, y


def decisions(model):
    """What a model says of the rows, in bytes."""
    return getattr(model, "decision_function", model.predict)(SEPARABLE).tobytes()


@cache
def fitted(name):
    model, y = make(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(SEPARABLE, y)


def values(model, rows=SEPARABLE):
    return getattr(model, "decision_function", model.predict)(rows)


@pytest.mark.parametrize("name", MODELS)
def test_files_of_all_kinds_give_the_same_bits(tmp_path, name):
    model = fitted(name)
    expected = values(model).tobytes()
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    again = [pickle.loads(pickle.dumps(model)), joblib.load(file)]
    save_model(model, tmp_path / "model")
    again.append(load_model(tmp_path / "model"))
    assert [values(a).tobytes() == expected for a in again] == [True] * 3


@pytest.mark.parametrize("name", MODELS)
def test_skops_asks_to_trust_nothing_but_this_package(name):
    skops = pytest.importorskip("skops.io")
    model = fitted(name)
    content = skops.dumps(model)
    untrusted = skops.get_untrusted_types(data=content)
    assert [t for t in untrusted if not t.startswith("tunefree.")] == []
    assert values(skops.loads(content, trusted=untrusted)).tobytes() == values(model).tobytes()


def test_a_function_cannot_enter_a_file_and_is_named(tmp_path):
    class Bent:
        def mean(self, s):
            return np.tanh(s)

    def kernel(A, B):
        return np.asarray(A @ B.T)

    refused = {
        "ReflectronRegressor.link": tunefree.ReflectronRegressor(link=Bent()),
        "KernelPiSTOLClassifier.kernel": tunefree.KernelPiSTOLClassifier(kernel),
        "KernelOptimisticPerceptron.kernel": tunefree.perceptron.KernelOptimisticPerceptron(kernel),
    }
    for name, model in refused.items():
        model.fit([[-1.0], [1.0], [-2.0], [2.0]], [0, 1, 0, 1])
        with pytest.raises(ValueError, match=f"{name} cannot be saved: it is "):
            save_model(model, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_pipelines_searches_and_calibration():
    model = tunefree.PiSTOLClassifier(random_state=0)
    pipe = make_pipeline(StandardScaler(), model)
    assert cross_val_score(pipe, X, LABELS, cv=3).min() > 0.9
    search = GridSearchCV(model, {"fit_intercept": [True, False]}, cv=2)
    assert search.fit(X, LABELS).best_score_ > 0.9
    calibrated = CalibratedClassifierCV(model, cv=2).fit(X, LABELS)
    assert calibrated.predict_proba(X).shape == (200, 2)
    assert clone(pipe).fit(X, LABELS).score(X, LABELS) > 0.9


def test_weights_are_routed():
    weights = np.where(np.arange(200) < 100, 3.0, 0.0)
    with config_context(enable_metadata_routing=True):
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        model = tunefree.PiSTOLClassifier(random_state=0).set_fit_request(sample_weight=True)
        routed = make_pipeline(scaler, model).fit(X, LABELS, sample_weight=weights)
    Z = StandardScaler().fit_transform(X)
    direct = clone(model).fit(Z, LABELS, sample_weight=weights)
    assert routed[-1].coef_.tobytes() == direct.coef_.tobytes()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::tunefree.DataWarning")
@pytest.mark.parametrize("name", MODELS)
def test_threads_give_the_bits_of_one(name):
    """Compiled loops hold no lock and share nothing; a fitted model may serve many threads."""
    model, y = make(name)
    alone = clone(model).fit(SEPARABLE, y)
    expected = decisions(alone)
    with ThreadPoolExecutor(4) as pool:
        fits = pool.map(lambda _: decisions(clone(model).fit(SEPARABLE, y)), range(4))
        asked = pool.map(lambda _: decisions(alone), range(4))
        assert {*fits, *asked} == {expected}


@pytest.mark.parametrize("name", [n for n in MODELS if hasattr(estimator_class(n), "partial_fit")])
def test_threads_that_ask_a_stream_at_once_hear_the_same(name):
    """What a stream has learned is worked out when it is first asked for, by whoever asks."""
    model, y = make(name)
    stream = pickle.dumps(clone(model).partial_fit(SEPARABLE, y))
    expected, together = decisions(pickle.loads(stream)), Barrier(4)

    def ask(model):
        together.wait()
        return decisions(model)

    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            assert set(pool.map(ask, [pickle.loads(stream)] * 4)) == {expected}


def test_set_output_of_transformers():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"size": X[:, 0], "kind": np.where(LABELS, "a", "b")})
    model = tunefree.TablePreprocessor().set_output(transform="pandas")
    out = model.fit(table, LABELS).transform(table)
    assert list(out.columns) == list(model.get_feature_names_out())
