"""``tunefree demo``: scores beside scikit-learn, and the commands on a table of mixed columns."""

import os
import warnings

import numpy as np

from tunefree.cli.console import FAILED, answer, as_csv, failing, working
from tunefree.cli.options import EvalOptions, ReportOptions, TrainOptions
from tunefree.files.files import write_atomically

_SPLITS = 5
_HEAD = ["ordered", "city", "carrier", "kilograms", "kilometres", "note", "late"]
_CITIES = ("Lagos", "Lima", "Lyon", "Oslo", "Pune", "Rome")
_NOTES = (
    ("leave it", "please call", "ring twice", "no hurry", "second floor"),
    ("at the door", "with a neighbour", "in the yard", "before noon", "after work"),
    ("", "fragile", "a gift", "fragile gift", "contains glass"),
)


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
    answer(f"Mean loss of {_SPLITS} random splits ± its standard error, all at defaults:")
    answer("\n".join(comparisons()))
    answer(f"\ntunefree train {train} {model}")
    run_train(TrainOptions(train, model))
    answer(f"tunefree eval {model} {test}")
    run_eval(EvalOptions(model, test))
    answer(f"tunefree report {model} {test} -o {page}")
    answer(run_report(ReportOptions(model, test, page)))


def tables():
    """Rows to train on, and rows to evaluate on: made orders, each late or not.

    By bicycle heavy parcels are late, by truck far ones; so are many in December, and fragile ones.
    """
    random, n = np.random.default_rng(0), 800
    day, mass, way = random.integers(0, 730, n), random.gamma(2, 3, n), random.gamma(2, 60, n)
    city, by_truck = random.choice(_CITIES, n), random.random(n) < 0.5
    date = np.datetime64("2024-01-01") + day * np.timedelta64(1, "D")
    notes = np.array([" ".join(filter(None, map(random.choice, _NOTES))) for _ in range(n)])
    fragile = np.array(["fragile" in note or "glass" in note for note in notes])
    december = date.astype("datetime64[M]").astype(int) % 12 == 11
    score = np.where(by_truck, way - 120, 12 * (mass - 6)) / 12 + 5 * december + 3 * fragile
    late = random.logistic(size=n) < score - 2
    carrier, numbers = np.where(by_truck, "truck", "bicycle"), np.round([mass, way], 1)
    cells = np.column_stack([date.astype(str), city, carrier, *numbers, notes]).astype(object)
    cells[random.random(cells.shape) < 0.06] = ""
    rows = np.column_stack([cells, np.where(late, "yes", "no")]).tolist()
    return [[_HEAD, *rows[:600]], [_HEAD, *rows[600:]]]


def comparisons():
    """Yield a line a data set: the losses of ours and of scikit-learn's usual model."""
    from sklearn.datasets import load_diabetes, load_digits
    from sklearn.linear_model import RidgeCV
    from sklearn.svm import SVC

    from tunefree import TuneFreeClassifier, TuneFreeRegressor

    regressor, classifier = TuneFreeRegressor(random_state=0), TuneFreeClassifier(random_state=0)
    diabetes, digits = load_diabetes(return_X_y=True), load_digits(return_X_y=True)
    yield compared("diabetes, 1 - R2", diabetes, regressor, RidgeCV(np.logspace(-3, 3, 13)), 331)
    yield compared("digits, error", digits, classifier, SVC(), 200)


def compared(title, data, ours, peer, n_train):
    """The line of a data set; "level" is a difference within two standard errors."""
    from sklearn.model_selection import ShuffleSplit

    X, y = data
    losses = np.empty((2, _SPLITS))
    with working(title), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pixels that are equal in all rows
        splits = ShuffleSplit(_SPLITS, train_size=n_train, random_state=0).split(X)
        for i, (train, test) in enumerate(splits):
            for model, row in zip((ours, peer), losses, strict=True):
                row[i] = 1.0 - model.fit(X[train], y[train]).score(X[test], y[test])
    difference, error = mean_and_error(losses[0] - losses[1])
    word = "level" if abs(difference) <= 2 * error else "better" if difference < 0 else "worse"
    cells = ["{:.3f} ± {:.3f}".format(*mean_and_error(row)) for row in losses]
    return f"{title:18}tunefree {cells[0]}   {type(peer).__name__:8}{cells[1]}   {word}"


def mean_and_error(values):
    """The mean and its standard error."""
    return np.mean(values), np.std(values, ddof=1) / np.sqrt(len(values))
