"""BLAS threads: one within fits and predictions, what was there after them, and the same bits."""

import multiprocessing
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import joblib
import numpy as np
import pytest
from sklearn.base import is_classifier

from tunefree import PiSTOLClassifier
from tunefree.core import process as _process
from tunefree.core.process import one_blas_thread, product
from tunefree.core.registry import ESTIMATORS, estimator_class

# Every public estimator, with little to do where that is asked for; 220 columns make products of
# which OpenBLAS gives a part to each of its threads. Streams call no BLAS.
MODELS = {
    "RidgePathRegressor": {},
    "BoostedTreesClassifier": {},
    "BoostedTreesRegressor": {},
    "ClassicalPerceptron": {"max_iter": 20},
    "DynamicsReflectron": {"max_iter": 5},
    "GLMClassifier": {"max_iter": 20},
    "GLMRegressor": {"max_iter": 20},
    "KernelOptimisticPerceptron": {"max_iter": 20},
    "KernelPiSTOLClassifier": {},
    "KernelPiSTOLRegressor": {},
    "KernelRidgeClassifier": {},
    "KernelRidgeRegressor": {},
    "OptimisticPerceptron": {"max_iter": 20},
    "PiSTOLClassifier": {},
    "PiSTOLRegressor": {},
    "ReflectronClassifier": {"max_iter": 20},
    "ReflectronRegressor": {"link": "identity", "feature_map": "rbf", "max_iter": 20},
    "SharedReflectron": {"link": "identity", "max_iter": 20},
    "TuneFreeClassifier": {"candidates": ["linear", "kernel"]},
    "TuneFreeRegressor": {"candidates": ["linear", "kernel"]},
}


def threads():
    """What every BLAS library of the process is set to."""
    shared, own = _process._libraries()
    return [library.get_num_threads() for library in shared + own]


@pytest.fixture
def two():
    """Two threads in each, and what there was afterwards."""
    before, libraries = threads(), sum(_process._libraries(), [])
    _process._set((library, 2) for library in libraries)
    yield [2] * len(before)
    _process._set(zip(libraries, before, strict=True))


def learned(name):
    """A fitted estimator, and rows for it to predict."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 220)) * rng.lognormal(size=220)
    y = np.tanh(X[:, :5] @ rng.normal(size=5)) + 0.1 * rng.normal(size=300)
    model = estimator_class(name)(**MODELS[name])
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    if name == "DynamicsReflectron":
        return model.fit(np.tanh(X[:, :100]).reshape(6, 50, 100)), X[:, :100]
    # Trees call no BLAS, and take longest: few columns here, none in the stacks.
    rows = X[:, :20] if name.startswith("Boosted") else X
    target = np.digitize(y, [-0.5, 0.5]) if is_classifier(model) else y
    return model.fit(rows[:200], target[:200]), rows


def said(model, rows):
    """The bytes of the decisions or predictions."""
    return getattr(model, "decision_function", model.predict)(rows).tobytes()


def test_every_public_estimator_is_here():
    single = {"TablePreprocessor", "StreamClassifier", "StreamRegressor"}
    assert set(ESTIMATORS) - single == set(MODELS)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_the_number_of_blas_threads_changes_no_bit(two, name, monkeypatch):
    entered, enter = [], _process._enter
    monkeypatch.setattr(_process, "_enter", lambda me: (entered.append(me), enter(me)))
    model, rows = learned(name)
    entered.clear()
    with_two = said(model, rows)
    # Trees call no BLAS to predict.
    assert entered or name.startswith("Boosted"), f"{name} predicts without the limit"
    assert threads() == two
    _process._set((library, 1) for library in sum(_process._libraries(), []))
    assert said(*learned(name)) == with_two


@one_blas_thread()
def inside():
    return threads()


def test_within_there_is_one_thread_and_then_what_there_was(two):
    with one_blas_thread():
        assert inside() == [1] * len(two)
        assert threads() == [1] * len(two)
    assert inside() == [1] * len(two)
    assert threads() == two


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, GeneratorExit])
def test_an_exception_restores_them(two, error):
    with pytest.raises(error), one_blas_thread():
        raise error
    assert threads() == two


def test_an_interrupt_of_the_first_and_of_the_last_step_restores_them(two, monkeypatch):
    def interrupted(step, after):
        calls = iter([True])

        def wrapped(me):
            if after:
                step(me)
            if next(calls, False):
                raise KeyboardInterrupt
            if not after:
                step(me)

        return wrapped

    for step in ("_enter", "_leave"):
        for after in (False, True):
            with monkeypatch.context() as patch:
                patch.setattr(_process, step, interrupted(getattr(_process, step), after))
                with pytest.raises(KeyboardInterrupt):
                    inside()
            assert threads() == two
            assert inside() == [1] * len(two)


def test_of_several_threads_the_last_one_out_restores_them(two):
    barrier, order = Barrier(2, timeout=60), []

    def first():
        with one_blas_thread():
            barrier.wait()
        order.append("out")
        barrier.wait()

    def last():
        with one_blas_thread():
            barrier.wait()
            barrier.wait()
            return list(order), threads()

    with ThreadPoolExecutor(2) as pool:
        done, found = pool.submit(first), pool.submit(last)
        done.result()
        assert found.result() == (["out"], [1] * len(two))
    assert threads() == two


class OfThreads(threading.local):
    """Stands in for an OpenBLAS on OpenMP: every thread has its own number."""

    n = 2

    def get_num_threads(self):
        return self.n

    def set_num_threads(self, n):
        self.n = n


def test_where_each_thread_has_its_own_number_each_sets_and_restores_it(monkeypatch):
    library, barrier = OfThreads(), Barrier(2, timeout=60)
    monkeypatch.setattr(_process, "_libraries", lambda: ([], [library]))

    def work():
        with one_blas_thread():
            barrier.wait()
            within = library.n
        return within, library.n

    with ThreadPoolExecutor(2) as pool:
        assert [f.result() for f in [pool.submit(work) for _ in range(2)]] == [(1, 2)] * 2


def test_fits_and_predictions_have_one_thread_and_leave_what_there_was(two, monkeypatch):
    seen, entered = [], _process._enter
    monkeypatch.setattr(_process, "_enter", lambda me: (entered(me), seen.append(threads())))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 40))
    model = PiSTOLClassifier(random_state=0).fit(X, X[:, 0] > 0)
    assert len(seen) == 1 and not _process._inside  # once, whatever the fit calls
    model.predict(X)
    assert len(seen) == 2
    model.predict(X[:1])  # too little for a second thread of BLAS
    assert len(seen) == 2
    assert all(found == [1] * len(two) for found in seen)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full((4, 2), np.nan), [0, 1, 0, 1])
    assert threads() == two


def test_products_are_those_of_numpy():
    rng = np.random.default_rng(0)
    for n, d, k in [(1, 3, 2), (300, 50, 20)]:
        A, B = rng.normal(size=(n, d)), rng.normal(size=(d, k))
        np.testing.assert_allclose(product(A, B), np.einsum("ij,jk->ik", A, B), rtol=1e-12)


def _of_child(queue):
    alone = threads(), sorted(_process._inside)
    queue.put((alone, inside(), threads()))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_inherits_no_other_threads_stay(two):
    context, barrier = multiprocessing.get_context("fork"), Barrier(2, timeout=60)

    def stay():
        with one_blas_thread():
            barrier.wait()
            barrier.wait()

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(stay)
        barrier.wait()
        queue = context.Queue()
        child = context.Process(target=_of_child, args=(queue,))
        child.start()
        found = queue.get(timeout=60)
        child.join(60)
        barrier.wait()
        other.result()
    # Limited as it was born; its own first one out restores what the parent had.
    assert found == (([1] * len(two), []), [1] * len(two), two)
    assert threads() == two


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_workers_of_joblib_restore_them_too(two, backend):
    found = joblib.Parallel(2, backend=backend)(joblib.delayed(inside)() for _ in range(4))
    assert found == [[1] * len(two)] * 4
    assert threads() == two
