"""The cost of a first fit, when nothing is compiled yet.

python benchmarks/coldstart.py [--rows 400] [--columns 20] [--only NAME ...] [--functions]

Every public estimator runs in a new process with an empty cache of compiled kernels. Printed are
CPU seconds of its import after that of scikit-learn; of a default fit and prediction of a small
synthetic table; of these, seconds of the compiler, and the number of compiled signatures (compile
events of Numba; nested ones count once); and CPU seconds of the second fit. `--functions` adds the
seconds of the compiler for each function.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--only", nargs="*", help="estimators")
    parser.add_argument("--functions", action="store_true")
    parser.add_argument("--json", help="measure one estimator here, for the parent")
    options = parser.parse_args()
    if options.json:
        print(json.dumps(measure(options.json, options.rows, options.columns)))
        return
    from _tables import table
    from threads import NAMES

    options.only = options.only or NAMES
    rows, functions = [], []
    for name in options.only:
        found = child(name)
        rows.append([name, *(f"{v:.2f}" if isinstance(v, float) else v for v in found["row"])])
        functions += [(name, f, n, f"{s:.2f}") for f, n, s in found["functions"]]
    columns = ["", "import CPU s", "compile s", "kernels", "first fit CPU s", "second CPU s"]
    shape = f"{options.rows} x {options.columns}"
    table(f"First fit and prediction of {shape} with an empty cache", columns, rows)
    if options.functions:
        table("Of these", ["", "function", "signatures", "seconds"], functions)


def child(name):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, *sys.argv, "--json", name], check=True, text=True,
            env=os.environ | {"NUMBA_CACHE_DIR": folder}, stdout=subprocess.PIPE,
        )  # fmt: skip
    return json.loads(done.stdout)


def measure(name, n_rows, n_columns):
    import sklearn.base
    import sklearn.linear_model  # noqa: F401  (what a user of scikit-learn has imported)

    start = time.process_time()
    import tunefree

    estimator = getattr(tunefree, name)  # the module is imported when its name is first used
    imported = time.process_time() - start
    from numba.core import event

    from threads import data

    class Listener(event.Listener):
        """CPU seconds; events nest, since a function compiles those that it calls."""

        def __init__(self):
            self.running, self.whole, self.own, self.count = [], 0.0, Counter(), Counter()

        def on_start(self, event):
            self.running.append([time.process_time(), 0.0])

        def on_end(self, event):
            began, within = self.running.pop()
            taken = time.process_time() - began
            if self.running:
                self.running[-1][1] += taken
            else:
                self.whole += taken
            function = event.data["dispatcher"].py_func
            name = f"{function.__module__.removeprefix('tunefree.')}.{function.__qualname__}"
            self.own[name] += taken - within
            self.count[name] += 1

    warnings.simplefilter("ignore")  # few passes
    model = estimator()
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    arguments = data(model, n_rows, n_columns)
    compiled, taken = Listener(), []
    with event.install_listener("numba:compile", compiled):
        for _ in range(2):
            start = time.process_time()
            model.fit(*arguments)
            if hasattr(model, "predict"):
                rows = arguments[0]  # of trajectories, the states of one
                model.predict(rows[0] if getattr(rows, "ndim", 2) == 3 else rows)
            taken.append(time.process_time() - start)
    functions = [(f, compiled.count[f], s) for f, s in compiled.own.most_common(40)]
    return {"row": [imported, compiled.whole, compiled.count.total(), *taken],
            "functions": functions}  # fmt: skip


if __name__ == "__main__":
    main()
