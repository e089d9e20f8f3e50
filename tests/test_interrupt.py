"""Ctrl-C in the middle of a fit leaves the estimator as it was."""

import signal
import subprocess
import sys
import time

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
    ("KernelPiSTOLClassifier", dict(max_iter=10**5, n_jobs=1)),
]
for name, parameters in cases:
    target = y if "Regressor" in name else (y > 0).astype(int)
    model = getattr(tunefree, name)()
    few = 3 if name.startswith("Kernel") else 2
    model.set_params(max_iter=few).fit(X[:300], target[:300])
    model.set_params(**parameters)
    before = pickle.dumps(model), model.predict(X[:50]).tobytes()
    n = 1000 if name.startswith("Kernel") else len(X)
    print(name, flush=True)
    try:
        model.fit(X[:n], target[:n])
        print("over", flush=True)
    except KeyboardInterrupt:
        same = before == (pickle.dumps(model), model.predict(X[:50]).tobytes())
        print("same" if same else "changed", flush=True)
"""


def test_an_interrupted_fit_leaves_the_estimator_as_it_was():
    command, outcomes = [sys.executable, "-c", CHILD], {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        for name in child.stdout:
            time.sleep(0.3)
            child.send_signal(signal.SIGINT)
            outcomes[name.strip()] = child.stdout.readline().strip()
    assert child.returncode == 0
    assert len(outcomes) == 8
    assert set(outcomes.values()) == {"same"}, outcomes
