"""Ctrl-C during a fit: how long until it returns, and whether the estimator is usable.

python benchmarks/_interrupt.py [NAME ...]      one JSON object for each learner
"""

import json
import os
import signal
import sys
import threading
import time
import warnings

import numpy as np
from sklearn.exceptions import NotFittedError

from tunefree.core.registry import estimator_class

# Estimator, settings, rows and columns: each fit takes some seconds or more.
CASES = {
    "PiSTOLClassifier": ({"max_iter": 50}, 60_000, 40, "fit"),
    "PiSTOLClassifier.partial_fit": ({}, 400_000, 20, "partial_fit"),
    "PiSTOLRegressor": ({"max_iter": 50}, 60_000, 40, "fit"),
    "RidgePathRegressor": ({"solver": "sgd", "max_iter": 200}, 60_000, 40, "fit"),
    "ReflectronRegressor": ({"tol": 0.0, "patience": 10**6, "max_iter": 10**5}, 20_000, 40, "fit"),
    "ReflectronClassifier": ({"tol": 0.0, "patience": 10**6, "max_iter": 10**5}, 20_000, 40, "fit"),
    "OptimisticPerceptron": ({"margin": 0.0, "max_iter": 10**6}, 20_000, 40, "fit"),
    "ClassicalPerceptron": ({"max_iter": 10**7}, 20_000, 40, "fit"),
    "KernelOptimisticPerceptron": ({"margin": 0.0, "max_iter": 10**6, "kernel": "linear"},
                                   1500, 10, "fit"),
    "KernelPiSTOLClassifier": ({"max_iter": 40, "n_jobs": 1}, 6000, 10, "fit"),
    "KernelRidgeClassifier": ({}, 20_000, 10, "fit"),
    "KernelRidgeRegressor": ({}, 20_000, 10, "fit"),
    "TuneFreeClassifier": ({}, 12_000, 10, "fit"),
    "TuneFreeRegressor": ({}, 12_000, 10, "fit"),
}  # fmt: skip


def data(name, n, d):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    y = X @ rng.normal(size=d) + rng.normal(size=n)
    return X, y if "Regressor" in name else (y > 0).astype(int)


def made(name, settings):
    """An estimator with some settings, and a fixed seed."""
    model = estimator_class(name.partition(".")[0])()
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    vars(model).update(settings)  # some, such as a Reflectron's patience, are no parameters
    return model


def interrupted(name, after=0.4, scale=1.0):
    """Send this process SIGINT while it fits; None if the fit was over before."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
    settings, n, d, verb = CASES[name]
    X, y = data(name, int(n * scale), d)
    warnings.simplefilter("ignore")
    known = {"classes": [0, 1]} if verb == "partial_fit" else {}
    few = {"max_iter": 2} if "max_iter" in settings else {}
    reference = made(name, settings | few)
    getattr(reference, verb)(X[:200], y[:200], **known)  # compiles
    model, sent = made(name, settings), []

    def send():
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(after, send)
    timer.start()
    delay = None
    try:
        getattr(model, verb)(X, y, **known)
        timer.cancel()
        timer.join()
    except KeyboardInterrupt:
        delay = time.perf_counter() - sent[0]
    if delay is None:
        return None
    try:
        finite = bool(np.isfinite(np.asarray(model.predict(X[:5]), float)).all())
        state = "usable" if finite else "not finite"
    except NotFittedError:
        state = "not fitted"
    model.set_params(**few)
    if verb == "fit":  # and a new fit is that of a new estimator
        again = model.fit(X[:200], y[:200]).predict(X[:200])
        if not np.array_equal(again, reference.predict(X[:200])):
            state = "spoiled"
    else:
        model.partial_fit(X[:200], y[:200])
        if not np.isfinite(model.coef_).all():
            state = "spoiled"
    return {"name": name, "delay": delay, "state": state}


if __name__ == "__main__":
    for case in sys.argv[1:] or CASES:
        outcome = interrupted(case)
        print(json.dumps(outcome or {"name": case, "state": "over before"}), flush=True)
