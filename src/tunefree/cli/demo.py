"""``tunefree demo``: our defaults beside tuned and untuned peers, on real data."""

import importlib.util
import os
import time

from tunefree.cli.console import FAILED, USAGE, failing, note, stop, working
from tunefree.cli.peers import compete, contests, methods, warm_up
from tunefree.cli.picture import draw, draw_png
from tunefree.io.atomic import write_atomically

_PICTURE = "tunefree-demo.png"


def run_demo(png, write_data):
    """Carry out ``tunefree demo``.

    Parameters
    ----------
    png : str or None
        Where to draw; None for the working directory, if that can be written.
    write_data : str or None
        A folder for data to train on.
    """
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
        "LinearSVC, CV: C from 5 values by 5-fold cross-validation. It and RidgeCV get\n"
        "standardised columns, SGD and tunefree the raw ones. Rescaled: every column is\n"
        "multiplied by a power of ten. Rows: 70/30, seed 0. Ratio: fitting time to ours.\n"
    )
    draw(outcomes, lambda line: console.print(line, markup=False))
    console.print()
    _draw_png(outcomes, png)
    note(f"the demo took {time.perf_counter() - start:.0f} s")
    _say_next(write_data, console)


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


def _draw_png(outcomes, png):
    """Draw where that is possible, and say where."""
    if importlib.util.find_spec("matplotlib") is None:
        return
    path = png or _PICTURE
    if png is None and not os.access(os.curdir, os.W_OK):
        return
    with failing(FAILED, path), working("drawing"):
        draw_png(outcomes, path)
    note(f"drew {os.path.abspath(path)}")


def _write_data(folder):
    """Write breast cancer as csv and digits as libsvm, in the demo's split."""
    from sklearn.datasets import load_breast_cancer

    kinds = load_breast_cancer()
    cancer, digits = (contest for contest in contests() if contest.name in _SMALL)
    for part in ("train", "test"):
        X, y = getattr(cancer, part)
        rows = [",".join([*kinds.feature_names, "diagnosis"])]
        for x, label in zip(X.tolist(), kinds.target_names[y].tolist(), strict=True):
            rows.append(",".join([*map(repr, x), label]))
        _write(folder, f"cancer_{part}.csv", rows)
        X, y = getattr(digits, part)
        rows = []
        for x, label in zip(X.tolist(), y.tolist(), strict=True):
            pairs = [f"{j + 1}:{value:g}" for j, value in enumerate(x) if value]
            rows.append(" ".join([str(label), *pairs]))
        _write(folder, f"digits_{part}.libsvm", rows)


_SMALL = ("cancer", "digits")


def _write(folder, name, rows):
    write_atomically(os.path.join(folder, name), ["\n".join([*rows, ""]).encode()])


def _say_next(folder, console):
    lines = [] if folder else ["tunefree demo --write-data tunefree-data"]
    folder = folder or "tunefree-data"
    for name, suffix in (("cancer", "csv"), ("digits", "libsvm")):
        file = os.path.join(folder, name)
        lines.append(f"tunefree train {file}_train.{suffix} {name}.model")
        lines.append(f"tunefree eval {name}.model {file}_test.{suffix}")
    lines.append("tunefree inspect cancer.model")
    console.print("next:")
    for line in lines:
        console.print(f"  {line}", soft_wrap=True, markup=False)
