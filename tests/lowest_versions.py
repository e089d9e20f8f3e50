"""Install the lowest versions that pyproject.toml admits, and use the package a little.

    python tests/lowest_versions.py [FOLDER]

makes an environment in FOLDER (a temporary one by default) with every dependency of the package and
of its extras `plots` and `dask` at its lower bound, fits each estimator on data that
scikit-learn ships, and runs the commands. It needs a package index, and is no part of the tests.
"""

import os
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = ("plots", "dask")

SMOKE = """
import warnings
import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes
from tunefree import *
from tunefree.core.registry import ESTIMATORS, estimator_class

warnings.simplefilter("ignore")
classes, numbers = load_breast_cancer(return_X_y=True), load_diabetes(return_X_y=True)
names = [n for n in ESTIMATORS if n.endswith(("Classifier", "Regressor", "Perceptron"))]
for name in names:
    model = estimator_class(name)()
    X, y = numbers if name.endswith("Regressor") else classes
    if name == "ReflectronRegressor":
        y = (y - y.min()) / np.ptp(y)
    score = model.fit(X[:300], y[:300]).score(X[300:], y[300:])
    save_model(model, "model"), load_model("model").predict(X)
    print(f"{name:30} {score:.3f}", flush=True)
    assert score > 0.2, name
np.savetxt("table.csv", np.column_stack(classes), delimiter=",")
"""
COMMANDS = [
    "tunefree --version",
    "tunefree train table.csv table.model",
    "tunefree eval table.model table.csv",
    "tunefree inspect table.model",
]


def lowest(requirements):
    """``name[extra]>=1.2`` becomes ``name[extra]==1.2``.

    >>> lowest(["numpy>=1.26", "dask[array]>=2024.5"])
    ['numpy==1.26', 'dask[array]==2024.5']
    """
    return [re.sub(">=", "==", r) for r in requirements]


def main(folder):
    """Build the environment, then run the smoke test in it; raises where one step fails."""
    folder = Path(folder)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [r for e in EXTRAS for r in project["optional-dependencies"][e]]
    venv.create(folder, with_pip=True)
    bin = folder / ("Scripts" if os.name == "nt" else "bin")
    wanted = [*lowest(project["dependencies"]), *lowest(extras), "pandas<3"]
    subprocess.run([bin / "pip", "install", "-q", *wanted, ROOT], check=True)
    environment = os.environ | {"PATH": f"{bin}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": ""}
    for command in [[bin / "python", "-c", SMOKE], *(c.split() for c in COMMANDS)]:
        subprocess.run(command, check=True, cwd=folder, env=environment)
    print("the lowest versions work")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as made:
            main(made)
