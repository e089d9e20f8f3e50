"""The size of an install, and the time to the first prediction.

python benchmarks/start.py [--rounds 5] [--installs]

Without `--installs` the interpreter that runs this starts both programs. With it two new virtual
environments are made, one with all requirements and one with NumPy and this package alone, which
takes a minute and the network; their sizes are printed, too. CPU seconds are medians, of the whole
process.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import numpy as np

from _tables import table

ROOT = Path(__file__).resolve().parent.parent
TRAIN = """
import sys, numpy as np, pandas as pd, tunefree, warnings
from tunefree.onnx import to_scorer
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = pd.DataFrame(rng.normal(size=(400, 5)), columns=list("abcde"))
y = X @ np.arange(5.0) + rng.normal(size=400)
words = "the quick brown fox jumps over a lazy dog red blue".split()
T = X.assign(city=rng.choice(["Rome", "Oslo"], 400), day=pd.date_range("2020", periods=400),
             words=[" ".join(rng.choice(words, 6)) for _ in range(400)])
T["day"] = T["day"].astype(str)
for name, rows, model in (
    ("numbers", X, tunefree.RidgePathRegressor()),
    ("stack", T, tunefree.TuneFreeRegressor(random_state=0)),
):
    tunefree.save_model(model.fit(rows, y), f"{name}.model")
    to_scorer(model, f"{name}.scorer")
    rows.head(100).to_csv(f"{name}.csv", index=False)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--installs", action="store_true", help="make two environments")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        run([sys.executable, "-c", TRAIN], folder, os.environ)
        whole = alone = (sys.executable, None)
        if options.installs:
            whole = installed(folder / "whole", [str(ROOT)])
            alone = installed(folder / "alone", ["numpy"], ["--no-deps", str(ROOT)])
        programs = {
            "tunefree predict": (*whole, ["-m", "tunefree", "predict"], "model"),
            "tunefree.serve": (*alone, ["-m", "tunefree.serve"], "scorer"),
        }
        rows = []
        for name, (python, size, program, ending) in programs.items():
            cells = [name, "" if size is None else f"{size:.0f}"]
            for model in ("numbers", "stack"):
                command = [python, *program, f"{model}.{ending}", f"{model}.csv"]
                seconds = [run(command, folder, plain(size)) for _ in range(options.rounds + 1)]
                cells.append(f"{np.median(seconds[1:]):.2f}")
            rows.append(cells)
        table("First prediction", ["", "MB", "numbers, CPU s", "stack, CPU s"], rows)


def plain(size):
    """The variables of the process; without this checkout where the package is installed."""
    gone = ("PYTHONDONTWRITEBYTECODE",) + (() if size is None else ("PYTHONPATH",))
    return {name: value for name, value in os.environ.items() if name not in gone}


def run(command, folder, env):
    """Run a command; its CPU seconds."""
    before = os.times()
    subprocess.run(command, cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return after[2] + after[3] - before[2] - before[3]


def installed(folder, *requirements):
    """A new environment: its interpreter, and the megabytes of its packages without pip."""
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    for wanted in requirements:
        run([python, "-m", "pip", "install", "-q", *wanted], folder, plain(0))
    packages = next((folder / "lib").glob("python*/site-packages"))
    files = (
        path
        for path in packages.rglob("*")
        if path.is_file() and path.relative_to(packages).parts[0] not in ("pip", "setuptools")
    )
    return python, sum(path.stat().st_size for path in files) / 1e6


if __name__ == "__main__":
    main()
