"""``tunefree demo``: one call against other methods on three data sets, and a report."""

import importlib.util
import os
import tempfile
import time
import warnings
from functools import partial
from itertools import groupby
from typing import NamedTuple

import numpy as np

from tunefree.cli.console import FAILED, USAGE, failing, note, stop, working
from tunefree.io.files import write_atomically

_NAME = "tunefree-demo"


class Contest(NamedTuple):
    """One data set, split once into training and test rows."""

    name: str
    classify: bool  # whether the targets are classes
    columns: list  # their names
    target: str
    train: tuple
    test: tuple


class Outcome(NamedTuple):
    """The result of one method on one data set."""

    data: str
    method: str
    classify: bool
    score: float  # test error, or R²
    seconds: float  # CPU seconds of fitting

    @property
    def loss(self):
        """Error, or the unexplained share of the variance: lower is better."""
        return self.score if self.classify else 1.0 - self.score


def run_demo(png, write_data):
    """Carry out ``tunefree demo``; `png` and `write_data` are a file and a folder, or None."""
    from rich.console import Console

    if png is not None and importlib.util.find_spec("matplotlib") is None:
        stop("--png needs matplotlib: pip install 'tunefree[plots]'", USAGE)
    if write_data is not None:
        with failing(FAILED, write_data):
            os.makedirs(write_data, exist_ok=True)
            _write_data(write_data)
    console = Console(highlight=False)
    with working("compiling, once"):
        seconds = warm_up()
    note(f"kernels ready in {seconds:.1f} s (compiled once per installation, then cached)")
    start, outcomes, models = time.process_time(), [], {}
    made = contests()
    for contest in made:
        for method in methods(contest.classify):
            with working(f"{contest.name}: {method}"):
                outcome, models[contest.name, method] = compete(contest, method)
                outcomes.append(outcome)
    console.print(_table(outcomes))
    console.print(
        "cancer, mixed: three columns as text, 10 % of the cells empty; digits: 600 rows.\n"
        "tunefree gets the tables as they are; the other methods get numeric columns from\n"
        "TablePreprocessor, standardized (LinearSVC: C of .01, .1 or 1 by 3-fold cross-\n"
        "validation). Rows: 70/30, seed 0. Ratio: CPU seconds / those of tunefree.\n"
    )
    console.print(picture(outcomes))
    if png is not None:
        with failing(FAILED, png), working("drawing"):
            draw_png(outcomes, png)
        note(f"drew {os.path.abspath(png)}")
    model = _report(made[0], models[made[0].name, "tunefree"])
    note(f"the demo took {time.process_time() - start:.1f} CPU s")
    lines = [f"tunefree inspect {model}"]
    lines += [] if write_data else ["tunefree demo --write-data tunefree-data"]
    for name, suffix in (("cancer", "csv"), ("digits", "libsvm")):
        file = os.path.join(write_data or "tunefree-data", name)
        lines.append(f"tunefree train {file}_train.{suffix} {name}.model")
        lines.append(f"tunefree report {name}.model {file}_test.{suffix}")
    console.print("next:")
    for line in lines:
        console.print(f"  {line}", soft_wrap=True, markup=False)


def _report(contest, estimator):
    """Write the model and its report page; return the path of the model."""
    from tunefree.cli.apply import EvaluatedRows
    from tunefree.cli.page import write_page
    from tunefree.cli.train import notes_of
    from tunefree.io import Column
    from tunefree.io.model import save_model
    from tunefree.io.tables import Table

    folder = "" if os.access(os.curdir, os.W_OK) else tempfile.mkdtemp()
    model, page = (os.path.join(folder, f"{_NAME}.{suffix}") for suffix in ("model", "html"))
    X, y = contest.train
    kinds = ["text" if str(field.type) == "string" else "number" for field in X.schema]
    table = Table(X, y, None, contest.columns, "", None, Column(contest.target, -1), kinds=kinds)
    notes = notes_of(table, "classification")
    with failing(FAILED, model):
        save_model(estimator, model, notes=notes)
    X, y = contest.test
    outputs = estimator.predict(X), estimator.predict_proba(X), estimator.decision_function(X)
    rows = EvaluatedRows(X, y, None, {}, *outputs)
    write_page(page, model, estimator, notes, f"{contest.name}, not used in training", rows, None)
    return model


# --- The contest ----------------------------------------------------------------------------------


def contests():
    """Three data sets that scikit-learn ships, in their units; split 70/30."""
    from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

    made = []
    for name, data, classify, target in (
        ("cancer, mixed", load_breast_cancer(), True, "diagnosis"),
        ("diabetes", load_diabetes(scaled=False), False, "progression"),
        ("digits", load_digits(), True, "digit"),  # 600 rows of them
    ):
        X, y = data.data, data.target
        if name.endswith("mixed"):
            X, y = _mixed(X, data.feature_names), data.target_names[y]
        order = np.random.default_rng(0).permutation(len(y))[:600]
        test, train = np.split(order, [int(0.3 * len(order))])
        parts = [(X.take(i) if hasattr(X, "take") and hasattr(X, "schema") else X[i], y[i])
                 for i in (train, test)]  # fmt: skip
        made.append(Contest(name, classify, list(data.feature_names), target, *parts))
    return made


def _mixed(X, names):
    """A table such as users have: a few columns as text, and a tenth of the cells empty."""
    import pyarrow as pa

    rng, columns = np.random.default_rng(1), {}
    for j, name in enumerate(names):
        empty = rng.random(len(X)) < 0.1
        values = X[:, j]
        if name.startswith("mean ") and j < 3:
            words = np.array(["small", "medium", "large"])
            values = words[np.searchsorted(np.quantile(values, [1 / 3, 2 / 3]), values)]
        columns[name] = pa.array(values.tolist(), mask=empty)
    return pa.table(columns)


def methods(classify):
    """The methods for one kind of task, ours first: names to functions that make them."""
    from sklearn.linear_model import RidgeCV, SGDClassifier, SGDRegressor
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    from tunefree import TablePreprocessor, TuneFreeClassifier, TuneFreeRegressor

    def scaled(estimator):
        return make_pipeline(TablePreprocessor(), StandardScaler(), estimator)

    def tuned_svm():
        grid = {"linearsvc__C": [0.01, 0.1, 1.0]}
        return GridSearchCV(scaled(LinearSVC(random_state=0)), grid, cv=3)

    if classify:
        return {
            "tunefree": partial(TuneFreeClassifier, random_state=0),
            "SGDClassifier": lambda: scaled(SGDClassifier(random_state=0)),
            "LinearSVC, CV": tuned_svm,
        }
    return {
        "tunefree": partial(TuneFreeRegressor, random_state=0),
        "SGDRegressor": lambda: scaled(SGDRegressor(random_state=0)),
        "RidgeCV": lambda: scaled(RidgeCV(np.logspace(-2, 2, 5))),
    }


def warm_up():
    """Compile what a first fit compiles; returns the seconds."""
    start = time.perf_counter()
    for contest in contests():
        X, y = contest.train
        small = X.slice(0, 80).select(range(5)) if hasattr(X, "schema") else X[:80, -40::9]
        methods(contest.classify)["tunefree"]().fit(small, y[:80]).predict(small)
    return time.perf_counter() - start


def compete(contest, method):
    """Fit one method and score it on the test rows: the outcome, and the fitted estimator."""
    from sklearn.metrics import r2_score, zero_one_loss

    estimator = methods(contest.classify)[method]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # convergence warnings of the other methods
        start = time.process_time()
        estimator.fit(*contest.train)
        seconds = time.process_time() - start
        X, y = contest.test
        score = (zero_one_loss if contest.classify else r2_score)(y, estimator.predict(X))
    outcome = Outcome(contest.name, method, contest.classify, float(score), seconds)
    return outcome, estimator


# --- Table and pictures ---------------------------------------------------------------------------


def _table(outcomes):
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for name in ("data", "method"):
        table.add_column(name, no_wrap=True)
    for name in ("error or R²", "CPU s", "ratio"):
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

    The largest loss fills its bar, unless it is above that of the constant predictor (R² = 0), or
    above ten times the smallest error: then the bar is cut.
    """
    for data, group in groupby(outcomes, key=lambda outcome: outcome.data):
        group = list(group)
        losses = [outcome.loss for outcome in group]
        limit = 10 * min(losses) if group[0].classify else 1.0
        title = f"{data}: {'test error' if group[0].classify else '1 - R²'}"
        yield title, group, min(max(losses), limit) or 1.0


def picture(outcomes):
    """The outcomes as bars in a terminal, for rich; an arrow marks a bar that is cut."""
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


def _write_data(folder):
    """Write the mixed table as csv and digits as libsvm, in the demo's split."""
    made = contests()
    for part in ("train", "test"):
        contest = made[0]
        X, y = getattr(contest, part)
        rows = [",".join([*contest.columns, contest.target])]
        for x, label in zip(zip(*X.to_pydict().values(), strict=True), y.tolist(), strict=True):
            rows.append(",".join([*("" if v is None else str(v) for v in x), label]))
        _write(folder, f"cancer_{part}.csv", rows)
        X, y = getattr(made[2], part)
        rows = []
        for x, label in zip(X.tolist(), y.tolist(), strict=True):
            pairs = [f"{j + 1}:{value:g}" for j, value in enumerate(x) if value]
            rows.append(" ".join([str(label), *pairs]))
        _write(folder, f"digits_{part}.libsvm", rows)


def _write(folder, name, rows):
    write_atomically(os.path.join(folder, name), ["\n".join([*rows, ""]).encode()])
