"""Ctrl-C in the middle of a fit leaves the estimator as it was, and the next fit works."""

import signal
import subprocess
import sys
import time

import pytest

from tunefree import PiSTOLRegressor

# None of these fits has a rule that ends it before it is interrupted.
CHILD = """
import pickle, sys, warnings
import numpy as np
import tunefree
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.normal(size=(20_000, 20))
y = X[:, 0] + rng.normal(size=20_000)
endless = dict(tol=0.0, patience=10**6, max_iter=10**6)
cases = [
    ("PiSTOLClassifier", dict(max_iter=10**5)),
    ("PiSTOLRegressor", dict(max_iter=10**5)),
    ("AveragedSGDRegressor", dict(max_iter=10**5, solver="sgd", average="last")),
    ("ReflectronClassifier", endless),
    ("OptimisticPerceptron", dict(margin=0.0, max_iter=10**7)),
    ("ClassicalPerceptron", dict(max_iter=10**9)),
    ("KernelOptimisticPerceptron", dict(kernel="linear", margin=0.0, max_iter=10**7)),
    ("KernelPiSTOLClassifier", dict(max_iter=10**5, average="last", n_jobs=1)),
]
def state(model):
    return pickle.dumps(model), model.predict(X[:50]).tobytes()
for name, parameters in cases:
    target = y if "Regressor" in name else (y > 0).astype(int)
    model = getattr(tunefree, name)()
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    few = 3 if name.startswith("Kernel") else 2
    first = state(model.set_params(max_iter=few).fit(X[:300], target[:300]))
    start = model.get_params()
    model.set_params(**parameters)
    before = state(model)
    n = 1000 if name.startswith("Kernel") else len(X)
    try:
        print(name, flush=True)
        model.fit(X[:n], target[:n])
        print("over", flush=True)
    except KeyboardInterrupt:
        same = before == state(model)
        again = state(model.set_params(**start).fit(X[:300], target[:300])) == first
        print("same" if same and again else "changed", flush=True)
"""


# At once: while types are found out and kernels loaded. Later: in the midst of the passes.
@pytest.mark.parametrize("delay", [0.0, 0.003, 0.3])
def test_an_interrupted_fit_leaves_the_estimator_as_it_was(delay):
    command, outcomes = [sys.executable, "-c", CHILD], {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        for name in child.stdout:
            time.sleep(delay)
            child.send_signal(signal.SIGINT)
            outcomes[name.strip()] = child.stdout.readline().strip()
    assert child.returncode == 0
    assert len(outcomes) == 8
    assert set(outcomes.values()) == {"same"}, outcomes


class Striking:
    """Rows whose reading fails as a signal in one of Numba's callbacks does."""

    def __init__(self, cause):
        self.cause = cause

    def __array__(self, dtype=None, copy=None):
        try:
            raise self.cause
        except BaseException as cause:
            raise SystemError("returned a result with an exception set") from cause


@pytest.mark.parametrize(
    ("cause", "told"), [(KeyboardInterrupt, KeyboardInterrupt), (MemoryError, SystemError)]
)
def test_ctrl_c_while_a_kernel_is_loaded_is_no_error_of_the_compiler(cause, told):
    model = PiSTOLRegressor().fit([[0.0], [1.0]], [0.0, 1.0])
    before = vars(model).copy()
    with pytest.raises(told) as raised:
        model.fit(Striking(cause), [0.0, 1.0])
    assert raised.type is told
    assert vars(model) == before
