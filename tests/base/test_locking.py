"""Several threads on one estimator: fits take turns, answers are whole."""

import copy
import pickle
import threading

import numpy as np
import pytest
from sklearn.base import clone

import tunefree
from tunefree.base.locks import _READS
from tunefree.core.registry import ESTIMATORS, estimator_class

RNG = np.random.default_rng(0)
X = RNG.normal(size=(320, 4))
TARGETS = X @ [1.0, 2.0, 0.0, -1.0] + 0.3 * RNG.normal(size=320)
STREAMS = [
    "KernelPiSTOLClassifier", "KernelPiSTOLRegressor", "PiSTOLClassifier", "PiSTOLRegressor",
    "ReflectronRegressor", "StreamClassifier", "StreamRegressor",
]  # fmt: skip


def stream(name):
    make = estimator_class(name)
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


@pytest.mark.parametrize("name", ["KernelRidgeRegressor", "TuneFreeRegressor", "PiSTOLRegressor"])
def test_during_a_fit_the_last_whole_model_answers(name, monkeypatch):
    model = estimator_class(name)(random_state=0).fit(X[:200], TARGETS[:200])
    before, inside, go = model.predict(X), threading.Event(), threading.Event()
    checked = tunefree.base.base.check_weights

    def wait(*args, **options):
        inside.set()
        assert go.wait(20)
        return checked(*args, **options)

    monkeypatch.setattr(tunefree.base.base, "check_weights", wait)

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
    assert not any("lock" in name or "access" in name for name in vars(model))


def test_a_failed_refit_leaves_the_model_that_was():
    y = (TARGETS > 0).astype(int)
    for name in ("ReflectronClassifier", "PiSTOLClassifier", "TuneFreeClassifier"):
        model = estimator_class(name)(random_state=0).fit(X, y)
        before = {n: v for n, v in vars(model).items() if n.endswith("_")}
        bad = np.array(["a", "b", "c", "d"] * 80), np.where(X[:, :3] > 5, 0, np.inf)
        with pytest.raises(ValueError):
            model.fit(bad[1], bad[0])
        assert {n: v for n, v in vars(model).items() if n.endswith("_")}.keys() == before.keys()
        assert all(vars(model)[n] is v for n, v in before.items())
        assert model.predict(X[:5]).dtype == y.dtype


def by_file(model, path):
    tunefree.save_model(model, path, learner=True)
    return tunefree.load_model(path)


COPIES = {
    "file": by_file,
    "pickle": lambda model, path: pickle.loads(pickle.dumps(model)),
    "deepcopy": lambda model, path: copy.deepcopy(model),
}


def copied_within(monkeypatch, place, act, model, path, how):
    """A copy that another thread asks for when `act` has come to a method of the model's class."""
    inside, done, copies = threading.Event(), threading.Event(), []
    cls, name, when = place
    work = getattr(cls, name)

    def hooked(self, *args, **kwargs):
        out = work(self, *args, **kwargs)
        if self is model and when(*args):
            inside.set()
            done.wait(0.5)  # time for the other thread, which has to wait for this one
        return out

    monkeypatch.setattr(cls, name, hooked, raising=False)

    def save():
        assert inside.wait(20)
        copies.append(COPIES[how](model, path))
        done.set()

    in_threads(act, save)
    monkeypatch.undo()
    return copies[0]


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("name", ["StreamClassifier", "StreamRegressor"])
def test_what_is_saved_within_a_chunk_is_whole(tmp_path, monkeypatch, name, how):
    rows, y = [dict(enumerate(row)) for row in X[:40].tolist()], (TARGETS[:40] > 0).astype(int)
    rows[30]["new"] = 1.0  # a row with a new name is learned by itself
    model = stream(name).partial_fit(rows[:20], y[:20])
    whole = model.predict(rows).tobytes(), stream(name).partial_fit(rows, y).predict(rows).tobytes()
    place = type(model), "_learn_names", lambda row, *_: "new" in row
    again = copied_within(
        monkeypatch, place, lambda: model.partial_fit(rows[20:], y[20:]), model, tmp_path / "m", how
    )
    assert again.predict(rows).tobytes() in whole
    assert again.mixture_.rows in (20, 40)


@pytest.mark.parametrize("how", COPIES)
def test_what_is_saved_within_a_fit_is_whole(tmp_path, monkeypatch, how):
    model = tunefree.PiSTOLRegressor(random_state=0).fit(X, TARGETS)
    other = tunefree.PiSTOLRegressor(random_state=0).fit(X, 5.0 - TARGETS)
    whole = [m.predict(X).tobytes() for m in (model, other)]
    place = type(model), "__setattr__", lambda name, *_: name == "coef_"
    again = copied_within(
        monkeypatch, place, lambda: model.fit(X, 5.0 - TARGETS), model, tmp_path / "m", how
    )
    assert again.predict(X).tobytes() in whole


def test_a_copy_shares_its_learner_and_a_pickle_does_not():
    model = tunefree.StreamRegressor().partial_fit(X, TARGETS)
    assert copy.copy(model).mixture_ is model.mixture_
    state = model.__getstate__()
    model.partial_fit(X, TARGETS)
    assert state["mixture_"].rows == len(X) < model.mixture_.rows


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_prediction_sees_one_complete_state(name):
    found = {method for method in dir(estimator_class(name)) if method.startswith("predict")}
    assert found <= set(_READS)
