"""``tunefree demo``: the commands on a small table with text and empty cells."""

import os

import numpy as np

from tunefree.cli.console import FAILED, answer, as_csv, failing
from tunefree.cli.options import EvalOptions, ReportOptions, TrainOptions
from tunefree.io.files import write_atomically

_SIZES = ("small", "medium", "large")


def run_demo(options):
    """Carry out ``tunefree demo``; `options` is a `DemoOptions`."""
    from tunefree.cli.evaluate import run_eval
    from tunefree.cli.page import run_report
    from tunefree.cli.train import run_train

    names = ("train.csv", "test.csv", "model", "report.html")
    train, test, model, page = (os.path.join(options.folder, name) for name in names)
    with failing(FAILED, options.folder):
        os.makedirs(options.folder, exist_ok=True)
        for path, rows in zip((train, test), tables(), strict=True):
            write_atomically(path, [as_csv(rows).encode()])
    answer(f"tunefree train {train} {model}")
    run_train(TrainOptions(train, model))
    answer(f"tunefree eval {model} {test}")
    run_eval(EvalOptions(model, test))
    answer(f"tunefree report {model} {test} -o {page}")
    run_report(ReportOptions(model, test, page))


def tables():
    """Rows to train on, and rows to evaluate on: tumours, each measured, benign or malignant.

    Three columns are words instead of numbers, and a tenth of the cells are empty.
    """
    from sklearn.datasets import load_breast_cancer

    data, random = load_breast_cancer(), np.random.default_rng(0)
    cells = data.data.astype(object)
    for j in range(3):
        ends = np.quantile(data.data[:, j], [1 / 3, 2 / 3])
        cells[:, j] = np.take(_SIZES, np.searchsorted(ends, data.data[:, j]))
    cells[random.random(cells.shape) < 0.1] = ""
    rows = np.column_stack([cells, data.target_names[data.target]])[random.permutation(len(cells))]
    head, parts = [*data.feature_names, "diagnosis"], np.split(rows, [400])
    return [[head, *part.tolist()] for part in parts]
