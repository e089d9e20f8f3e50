"""Spinning threads: CPU and wall seconds of fits of every estimator, also with one BLAS thread.

python benchmarks/threads.py [--rows 1000] [--columns 60] [--only NAME ...]

Every public estimator with defaults and random_state=0 learns the same synthetic table (the first
fit, which compiles, is not timed) in the environment of the user, and again in a new process where
BLAS has one thread from the start. Threads spin if the ratio of CPU to wall seconds is above the
number of threads of the estimator, or if CPU seconds are above those with one BLAS thread. On a
busy machine wall seconds are too long, and the ratio is too low. The last row is
RidgeClassifierCV of scikit-learn, to show the effect of the threads of the environment.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings

import numpy as np
from sklearn.base import is_classifier
from sklearn.linear_model import RidgeClassifierCV

import tunefree
from _tables import table

NAMES = sorted(
    name for name in tunefree.__all__
    if hasattr(getattr(tunefree, name), "fit") and name != "TablePreprocessor"
)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--columns", type=int, default=60)
    parser.add_argument("--only", nargs="*", default=[*NAMES, "RidgeClassifierCV"])
    parser.add_argument("--json", action="store_true", help="seconds only, for the parent")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # few passes
    taken = {n: seconds(n, options.rows, options.columns) for n in options.only}
    if options.json:
        print(json.dumps(taken))
        return
    one = dict.fromkeys((f"{n}_NUM_THREADS" for n in ("OPENBLAS", "MKL", "BLIS")), "1")
    child = subprocess.run(
        [sys.executable, *sys.argv, "--json"], env=os.environ | one, check=True,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    alone, shape = json.loads(child.stdout), f"{options.rows} x {options.columns}"
    rows = [
        (n, shape, f"{cpu:.2f}", f"{wall:.2f}", f"{cpu / wall:.2f}", f"{alone[n][0]:.2f}")
        for n, (cpu, wall) in taken.items()
    ]
    columns = ["", "rows x columns", "CPU s", "wall s", "CPU / wall", "CPU s, one BLAS thread"]
    table("CPU and wall seconds of a default fit", columns, rows)


def seconds(name, n_rows, n_columns):
    """CPU and wall seconds of the second fit."""
    if name == "RidgeClassifierCV":
        model = RidgeClassifierCV()
    else:
        model = getattr(tunefree, name)()
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    arguments = data(model, n_rows, n_columns)
    model.fit(*arguments)
    cpu, wall = time.process_time(), time.perf_counter()
    model.fit(*arguments)
    return time.process_time() - cpu, time.perf_counter() - wall


def data(model, n_rows, n_columns):
    """Rows and targets that suit the estimator."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_columns))
    if isinstance(model, tunefree.reflectron.DynamicsReflectron):
        return (np.tanh(X[: n_rows // 10 * 10]).reshape(10, n_rows // 10, n_columns),)
    y = np.tanh(X[:, :5] @ rng.normal(size=5)) + 0.3 * rng.normal(size=n_rows)
    if is_classifier(model):
        return X, np.digitize(y, [-0.5, 0.5])
    return X, 1.0 / (1.0 + np.exp(-y))


if __name__ == "__main__":
    main()
