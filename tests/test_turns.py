"""Several threads on one estimator: fits take turns, answers are whole."""

import copy
import pickle
import threading

import numpy as np
import pytest
from sklearn.base import clone

import tunefree

RNG = np.random.default_rng(0)
X = RNG.normal(size=(320, 4))
TARGETS = X @ [1.0, 2.0, 0.0, -1.0]
STREAMS = [
    "KernelPiSTOLClassifier", "KernelPiSTOLRegressor", "PiSTOLClassifier", "PiSTOLRegressor",
    "ReflectronRegressor", "StreamClassifier", "StreamRegressor",
]  # fmt: skip


def stream(name):
    make = getattr(tunefree, name)
    return make("identity") if name == "ReflectronRegressor" else make()


def in_threads(*works):
    """Run functions at once; the first exception comes out."""
    failed = []

    def guarded(work):
        try:
            work()
        except BaseException as problem:
            failed.append(problem)

    threads = [threading.Thread(target=guarded, args=(w,)) for w in works]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failed:
        raise failed[0]


@pytest.mark.parametrize("name", STREAMS)
def test_no_interleaving_of_chunks_and_predictions_does_harm(name):
    classify = name.endswith("Classifier")
    y = 1 * (TARGETS > 0) + (X[:, 0] > 1) if classify else TARGETS
    model = stream(name).partial_fit(X[:40], y[:40])

    def learn():
        for start in range(0, len(X), 40):
            model.partial_fit(X[start : start + 40], y[start : start + 40])

    def ask():
        for _ in range(20):
            assert np.isfinite(model.predict(X[:30])).all()

    in_threads(learn, ask, learn, ask)
    order = stream(name).partial_fit(X[:40], y[:40])
    for _ in range(2):  # as many rows have been learned, in whichever order
        order.partial_fit(X, y)
    if hasattr(model, "class_count_"):
        np.testing.assert_array_equal(model.class_count_, order.class_count_)
    assert np.mean(np.square(model.predict(X) - y)) < 2 * np.mean(np.square(y - y.mean()))


@pytest.mark.parametrize("name", ["LandmarkRegressor", "TuneFreeRegressor", "PiSTOLRegressor"])
def test_during_a_fit_the_last_whole_model_answers(name, monkeypatch):
    model = getattr(tunefree, name)(random_state=0).fit(X[:200], TARGETS[:200])
    before, inside, go = model.predict(X), threading.Event(), threading.Event()
    checked = tunefree.estimators.base.check_weights

    def wait(*args):
        inside.set()
        assert go.wait(20)
        return checked(*args)

    monkeypatch.setattr(tunefree.estimators.base, "check_weights", wait)

    def ask():
        assert inside.wait(20)
        np.testing.assert_array_equal(model.predict(X), before)
        go.set()

    in_threads(lambda: model.fit(X, -TARGETS), ask)
    assert np.corrcoef(model.predict(X), -TARGETS)[0, 1] > 0.9


def test_turns_are_no_part_of_a_model():
    model = tunefree.PiSTOLRegressor().partial_fit(X, TARGETS)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.predict(X), model.predict(X))
    assert clone(model).get_params() == model.get_params()
    assert not any("lock" in name or "turn" in name for name in vars(model))


def test_a_failed_refit_leaves_the_model_that_was():
    y = (TARGETS > 0).astype(int)
    for name in ("ReflectronClassifier", "PiSTOLClassifier", "TuneFreeClassifier"):
        model = getattr(tunefree, name)(random_state=0).fit(X, y)
        before = {n: v for n, v in vars(model).items() if n.endswith("_")}
        bad = np.array(["a", "b", "c", "d"] * 80), np.where(X[:, :3] > 5, 0, np.inf)
        with pytest.raises(ValueError):
            model.fit(bad[1], bad[0])
        assert {n: v for n, v in vars(model).items() if n.endswith("_")}.keys() == before.keys()
        assert all(vars(model)[n] is v for n, v in before.items())
        assert model.predict(X[:5]).dtype == y.dtype
