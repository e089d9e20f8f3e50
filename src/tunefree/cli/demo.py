"""``tunefree demo``: our defaults beside tuned and untuned peers, on real data as it comes."""

import importlib.util
import os
import time
import warnings
from functools import partial
from itertools import groupby
from typing import NamedTuple

import numpy as np

from tunefree.cli.console import FAILED, USAGE, failing, note, stop, working
from tunefree.io.files import write_atomically

_PICTURE = "tunefree-demo.png"


class Contest(NamedTuple):
    """One data set, split once; `classify` says whether the targets are classes."""

    name: str
    classify: bool
    train: tuple
    test: tuple


class Outcome(NamedTuple):
    """What one method did on one data set: its test error, or else R², and seconds of fitting."""

    data: str
    method: str
    classify: bool
    score: float
    seconds: float

    @property
    def loss(self):
        """Error, or the unexplained share of the variance: less is better."""
        return self.score if self.classify else 1.0 - self.score


def run_demo(png, write_data):
    """Carry out ``tunefree demo``; `png` and `write_data` are a file and a folder, or None."""
    from rich.console import Console

    start = time.perf_counter()
    if png is not None and importlib.util.find_spec("matplotlib") is None:
        stop("--png needs matplotlib: pip install 'tunefree[plots]'", USAGE)
    if write_data is not None:
        with failing(FAILED, write_data):
            os.makedirs(write_data, exist_ok=True)
            _write_data(write_data)
    console = Console(highlight=False)
    with working("compiling"):
        seconds = warm_up()
    note(f"kernels ready in {seconds:.1f} s (compiled once per installation, then cached)")
    outcomes = []
    for contest in contests():
        for method in methods(contest.classify):
            with working(f"{contest.name}: {method}"):
                outcomes.append(compete(contest, method))
    console.print(_table(outcomes))
    console.print(
        "LinearSVC, CV: C of .01, .1 or 1 by 3-fold cross-validation. It and RidgeCV get\n"
        "standardised columns, SGD and tunefree the raw ones. Rescaled: every column is\n"
        "multiplied by a power of ten. Rows: 70/30, seed 0. Ratio: fitting time to ours.\n"
    )
    console.print(picture(outcomes))
    _draw_png(outcomes, png)
    note(f"the demo took {time.perf_counter() - start:.0f} s")
    lines = [] if write_data else ["tunefree demo --write-data tunefree-data"]
    for name, suffix in (("cancer", "csv"), ("digits", "libsvm")):
        file = os.path.join(write_data or "tunefree-data", name)
        lines.append(f"tunefree train {file}_train.{suffix} {name}.model")
        lines.append(f"tunefree eval {name}.model {file}_test.{suffix}")
    console.print("next:")
    for line in [*lines, "tunefree inspect cancer.model"]:
        console.print(f"  {line}", soft_wrap=True, markup=False)


# --- The contest ----------------------------------------------------------------------------------


def contests():
    """Three data sets that scikit-learn ships, raw and with the units changed; split 70/30."""
    from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

    made = []
    for name, load, classify in (
        ("cancer", load_breast_cancer, True),
        ("digits", load_digits, True),
        ("diabetes", partial(load_diabetes, scaled=False), False),
    ):
        X, y = load(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(y))
        test, train = np.split(order, [int(0.3 * len(y))])
        units = 10.0 ** np.random.default_rng(1).integers(-4, 5, X.shape[1])
        for title, data in ((name, X), (f"{name}, rescaled", X * units)):
            made.append(Contest(title, classify, (data[train], y[train]), (data[test], y[test])))
    return made


def methods(classify):
    """The contestants for one kind of task, ours first: names to functions that make them."""
    from sklearn.linear_model import RidgeCV, SGDClassifier, SGDRegressor
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    from tunefree import PiSTOLClassifier, PiSTOLRegressor

    def tuned_svm():
        svm = make_pipeline(StandardScaler(), LinearSVC(random_state=0))
        return GridSearchCV(svm, {"linearsvc__C": [0.01, 0.1, 1.0]}, cv=3)

    if classify:
        return {
            "tunefree": partial(PiSTOLClassifier, random_state=0),
            "SGDClassifier": partial(SGDClassifier, random_state=0),
            "LinearSVC, CV": tuned_svm,
        }
    return {
        "tunefree": partial(PiSTOLRegressor, random_state=0),
        "SGDRegressor": partial(SGDRegressor, random_state=0),
        "RidgeCV": lambda: make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 2, 5))),
    }


def warm_up():
    """Compile what a first fit compiles; the seconds that took."""
    start = time.perf_counter()
    X = np.random.default_rng(0).standard_normal((60, 3))
    for y in (X[:, 0] > 0, np.arange(60) % 3):
        methods(True)["tunefree"]().fit(X, y).predict(X)
    methods(False)["tunefree"]().fit(X, X[:, 0]).predict(X)
    return time.perf_counter() - start


def compete(contest, method):
    """Fit one method and score it on the test rows."""
    from sklearn.metrics import r2_score, zero_one_loss

    estimator = methods(contest.classify)[method]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the peers' complaints about convergence
        start = time.perf_counter()
        estimator.fit(*contest.train)
        seconds = time.perf_counter() - start
        X, y = contest.test
        score = (zero_one_loss if contest.classify else r2_score)(y, estimator.predict(X))
    return Outcome(contest.name, method, contest.classify, float(score), seconds)


# --- What is shown --------------------------------------------------------------------------------


def _table(outcomes):
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for name in ("data", "method"):
        table.add_column(name, no_wrap=True)
    for name in ("error or R²", "seconds", "ratio"):
        table.add_column(name, justify="right", no_wrap=True)
    for outcome in outcomes:
        ours = next(o for o in outcomes if o.data == outcome.data)
        first = outcome is ours
        table.add_row(
            outcome.data if first else "",
            outcome.method,
            f"{100 * outcome.score:.1f} %" if outcome.classify else f"R² {outcome.score:.3g}",
            f"{outcome.seconds:.3f}",
            f"{outcome.seconds / ours.seconds:.2g}",
            style="bold" if first else "",
        )
    return table


def _scaled(outcomes):
    """Yield each data set's title and outcomes with the loss of a full bar.

    The worst fills its bar, but nothing beyond the constant predictor (R² = 0), or ten times the
    best error, is drawn to scale.
    """
    for data, group in groupby(outcomes, key=lambda outcome: outcome.data):
        group = list(group)
        losses = [outcome.loss for outcome in group]
        limit = 10 * min(losses) if group[0].classify else 1.0
        title = f"{data}: {'test error' if group[0].classify else '1 - R²'}"
        yield title, group, min(max(losses), limit) or 1.0


def picture(outcomes):
    """The outcomes as bars of a terminal, for rich; an arrow marks what is cut."""
    from rich.bar import Bar
    from rich.console import Group
    from rich.table import Table

    groups = []
    for title, group, full in _scaled(outcomes):
        table = Table.grid(padding=(0, 1))
        for width in (14, 40, 1, 10):
            table.add_column(width=width)
        for o in group:
            cut = not o.loss <= full
            bar = Bar(full, 0.0, full if cut else max(o.loss, full / 320), width=40)
            table.add_row(o.method, bar, "▶" if cut else "", f"{o.loss:.3g}")
        groups += [title, table]
    return Group(*groups, "")


def draw_png(outcomes, path):
    """The same with matplotlib."""
    from matplotlib.figure import Figure

    groups = list(_scaled(outcomes))
    figure = Figure(figsize=(9, 1.1 * len(groups) + 1), layout="constrained")
    panels = figure.subplots(len(groups), 1, squeeze=False)[:, 0]
    for axes, (title, group, full) in zip(panels, groups, strict=True):
        bars = axes.barh(
            [o.method for o in group],
            [min(o.loss, full) for o in group],
            color=["tab:blue" if o.method == group[0].method else "tab:gray" for o in group],
        )
        cut = [" (cut)" if not o.loss <= full else "" for o in group]
        labels = [f"{o.loss:.3g}{mark}" for o, mark in zip(group, cut, strict=True)]
        axes.bar_label(bars, labels, padding=3)
        axes.set_title(title, loc="left", fontsize="medium")
        axes.set_xlim(0, 1.15 * full)
        axes.invert_yaxis()
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)


def _draw_png(outcomes, png):
    """Draw where that is possible, and say where."""
    if importlib.util.find_spec("matplotlib") is None:
        return
    if png is None and not os.access(os.curdir, os.W_OK):
        return
    path = png or _PICTURE
    with failing(FAILED, path), working("drawing"):
        draw_png(outcomes, path)
    note(f"drew {os.path.abspath(path)}")


def _write_data(folder):
    """Write breast cancer as csv and digits as libsvm, in the demo's split."""
    from sklearn.datasets import load_breast_cancer

    kinds, data = load_breast_cancer(), {contest.name: contest for contest in contests()}
    for part in ("train", "test"):
        X, y = getattr(data["cancer"], part)
        rows = [",".join([*kinds.feature_names, "diagnosis"])]
        for x, label in zip(X.tolist(), kinds.target_names[y].tolist(), strict=True):
            rows.append(",".join([*map(repr, x), label]))
        _write(folder, f"cancer_{part}.csv", rows)
        X, y = getattr(data["digits"], part)
        rows = []
        for x, label in zip(X.tolist(), y.tolist(), strict=True):
            pairs = [f"{j + 1}:{value:g}" for j, value in enumerate(x) if value]
            rows.append(" ".join([str(label), *pairs]))
        _write(folder, f"digits_{part}.libsvm", rows)


def _write(folder, name, rows):
    write_atomically(os.path.join(folder, name), ["\n".join([*rows, ""]).encode()])
