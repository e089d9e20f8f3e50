"""Ctrl-C in the middle of a fit leaves the estimator as it was, and the next fit works."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest
from numba.extending import overload

from tunefree import PiSTOLRegressor
from tunefree.core.process import SIGNALS, interruptible

# None of these fits has a rule that ends it before it is interrupted.
CHILD = """
import pickle, sys, warnings
import numpy as np
from tunefree.core.registry import estimator_class
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.normal(size=(20_000, 20))
y = X[:, 0] + (X[:, :10] * X[:, 10:]).sum(axis=1) + rng.normal(size=20_000)
endless = dict(tol=0.0, patience=10**6, max_iter=10**6)
cases = [
    ("PiSTOLClassifier", dict(max_iter=10**5)),
    ("PiSTOLRegressor", dict(max_iter=10**5)),
    ("RidgePathRegressor", dict(max_iter=10**5, solver="sgd", average="last")),
    ("ReflectronClassifier", endless),
    ("OptimisticPerceptron", dict(margin=0.0, max_iter=10**7)),
    ("ClassicalPerceptron", dict(max_iter=10**9)),
    ("KernelOptimisticPerceptron", dict(kernel="linear", margin=0.0, max_iter=10**7)),
    ("KernelPiSTOLClassifier", dict(max_iter=10**5, average="last", n_jobs=1)),
    ("BoostedTreesRegressor", {}),
]
def state(model):
    return pickle.dumps(model), model.predict(X[:50]).tobytes()
for name, parameters in cases:
    target = y if "Regressor" in name else (y > 0).astype(int)
    model = estimator_class(name)()
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    few = 3 if name.startswith("Kernel") else 2
    if "max_iter" in model.get_params():
        model.set_params(max_iter=few)
    first = state(model.fit(X[:300], target[:300]))
    start = model.get_params()
    for key, value in parameters.items():  # some are no parameters
        setattr(model, key, value)
    before = state(model)
    n = 1000 if name.startswith("Kernel") else len(X)
    try:
        print(name, flush=True)
        model.fit(X[:n], target[:n])
        print("over", flush=True)
    except KeyboardInterrupt:
        same = before == state(model)
        for key in set(parameters) - set(start):
            delattr(model, key)
        again = state(model.set_params(**start).fit(X[:300], target[:300])) == first
        print("same" if same and again else "changed", flush=True)
"""


def test_an_interrupt_in_this_process_leaves_the_estimator_as_it_was():
    X = np.random.default_rng(0).normal(size=(5000, 20))
    model = PiSTOLRegressor(random_state=0, max_iter=2).fit(X, X[:, 0])
    before = pickle.dumps(model)
    model.max_iter = 10**5
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, X[:, 0])
    model.max_iter = 2
    assert pickle.dumps(model) == before
    assert pickle.dumps(model.fit(X, X[:, 0])) == before


# At once: while types are found out and kernels loaded. Later: in the midst of the passes.
@pytest.mark.parametrize("delay", [0.0, 0.3])
def test_an_interrupted_fit_leaves_the_estimator_as_it_was(delay):
    command, outcomes = [sys.executable, "-c", CHILD], {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        for name in child.stdout:
            time.sleep(delay)
            child.send_signal(signal.SIGINT)
            outcomes[name.strip()] = child.stdout.readline().strip()
    assert child.returncode == 0
    assert len(outcomes) == 9
    assert set(outcomes.values()) == {"same"}, outcomes


def in_the_compiler(x):
    raise NotImplementedError("for compiled code")


def test_a_signal_waits_for_the_compiler():
    reached = []

    @overload(in_the_compiler)
    def compile_it(x):
        signal.raise_signal(signal.SIGINT)
        reached.append("compiler")
        return lambda x: x + 1.0

    handlers = [signal.getsignal(number) for number in SIGNALS]
    with pytest.raises(KeyboardInterrupt), interruptible():
        assert numba.njit(lambda x: in_the_compiler(x))(1.0) == 2.0
        reached.append("kernel")
        time.sleep(60)
        reached.append("end")
    assert reached[-1] == "kernel"
    assert [signal.getsignal(number) for number in SIGNALS] == handlers


def test_a_signal_that_its_owner_handles_is_handled_in_a_fit():
    n_outliers = []
    before = signal.signal(signal.SIGINT, lambda number, frame: n_outliers.append(number))
    try:
        with interruptible(), interruptible():
            signal.raise_signal(signal.SIGINT)
        assert n_outliers == [signal.SIGINT]
        with ThreadPoolExecutor() as pool:
            pool.submit(PiSTOLRegressor().fit, [[0.0], [1.0]], [0.0, 1.0]).result()
    finally:
        signal.signal(signal.SIGINT, before)
