"""``tunefree train``: read, choose the task, fit, save, say what happened."""

import json
import os
import time
from typing import NamedTuple

import numpy as np

from tunefree.cli.console import (
    BAD_DATA,
    FAILED,
    USAGE,
    answer,
    check_writable,
    failing,
    note,
    stop,
    working,
)
from tunefree.cli.rows import MOST_CLASSES, noted, read_rows, telling
from tunefree.io import Skipped, format_of
from tunefree.io.container import MAGIC
from tunefree.io.model import save_model


def guess_task(y):
    """Tell classification from regression by the target.

    Text is classification, and so are one or two distinct whole numbers, or up to 20 that occur at
    least twice on average: class numbers repeat, measurements and large counts do not.

    Parameters
    ----------
    y : array of shape (n_rows,)
        The targets.

    Returns
    -------
    task : str
        ``"classification"`` or ``"regression"``.
    reason : str
        Why, for the user.

    Examples
    --------
    >>> import numpy as np
    >>> from tunefree.cli.training import guess_task
    >>> guess_task(np.array([1.0, -1.0, 1.0]))
    ('classification', 'the target has 2 distinct values, all whole numbers')
    >>> guess_task(np.array([0.5, 1.0, 2.0]))[0]
    'regression'
    """
    if y.dtype.kind not in "biuf":
        return "classification", "the target is text"
    values = np.unique(y)
    if np.any(values != np.floor(values)):
        return "regression", "the target has fractions"
    few = len(values) <= 2 or len(values) <= min(MOST_CLASSES, len(y) / 2)
    reason = f"the target has {len(values)} distinct values, all whole numbers"
    return ("classification" if few else "regression"), reason


def make(name, task, *, seed, passes=None, shape=None):
    """Make the estimator of a name for a task.

    Parameters
    ----------
    name : {"auto", "pistol", "kernel", "reflectron", "ridge", "separator"}
        "auto" lets the candidates race.
    task : {"classification", "regression"}
        What the target means.
    seed : int
        The `random_state`, where there is chance.
    passes : int or None
        Passes over the data (of "auto": its budget); None lets the estimator choose.
    shape : dict, optional
        Of "reflectron": the names of its link and its potential, None for the defaults.

    Returns
    -------
    estimator
    """
    import tunefree

    budget, passes = passes, {} if passes is None else {"max_iter": passes}
    only = {"separator": "classification", "ridge": "regression"}.get(name, task)
    if task != only:
        stop(f"--estimator {name} is for {only}, but the task is {task}", USAGE)
    shape = {option: value for option, value in (shape or {}).items() if value is not None}
    for option, value in shape.items():
        _check_shape(option, value, name)
    if name == "auto":
        kind = "Classifier" if task == "classification" else "Regressor"
        return getattr(tunefree, f"TuneFree{kind}")(random_state=seed, budget=budget)
    if name == "separator":
        return tunefree.OptimisticPerceptron("auto", stop="margin", **passes)
    options = {"random_state": seed} | passes
    if name == "ridge":
        return tunefree.AveragedSGDRegressor(**options)
    if name == "reflectron" and task == "regression":
        return tunefree.ReflectronRegressor(**{"link": "identity"} | shape | options)
    if name == "reflectron":
        return tunefree.ReflectronClassifier(**shape | options)
    kind = "Regressor" if task == "regression" else "Classifier"
    prefix = "KernelPiSTOL" if name == "kernel" else "PiSTOL"
    return getattr(tunefree, prefix + kind)(**options)


def _check_shape(option, value, name):
    """Refuse the name of a link or a potential that is none, or that nobody asks for."""
    from tunefree.links import LINKS
    from tunefree.potentials import POTENTIALS

    if name != "reflectron":
        stop(f"--{option} is for --estimator reflectron", USAGE)
    known = LINKS.names() if option == "link" else ["auto", *POTENTIALS.names()]
    if value not in known:
        stop(f"--{option} {value} is none of {', '.join(known)}", USAGE)


def fit(table, task, estimator):
    """Fit an estimator to a table.

    Parameters
    ----------
    table : Table
        Features, targets, weights, names.
    task : {"classification", "regression"}
        What the target means.
    estimator : estimator

    Returns
    -------
    estimator
        The fitted model.
    """
    y = table.y
    if task == "classification" and y.dtype.kind == "f" and np.all(y == np.floor(y)):
        y = y.astype(np.int64)  # so that predictions read 1, not 1.0
    return estimator.fit(table.X, y, sample_weight=table.weight)


class Trained(NamedTuple):
    """What a training gives."""

    estimator: object
    notes: dict
    reason: str
    skipped: Skipped
    seconds: float


def run_train(
    data,
    model,
    *,
    task,
    name,
    seed,
    passes,
    as_json,
    on_bad_row,
    run,
    stream,
    shape=None,
    **options,
):
    """Carry out ``tunefree train``.

    Parameters
    ----------
    data, model : str
        The files.
    task : {"auto", "classification", "regression"}
        What the target means.
    name : {"auto", "pistol", "kernel", "reflectron", "ridge", "separator"}
        The estimator.
    seed : int
        The `random_state`.
    passes : int or None
        Passes over the data.
    as_json : bool
        Whether to print a JSON object.
    on_bad_row : {"error", "skip"}
        What to do about a malformed row.
    run : dict
        ``checkpoint``, ``every`` and ``resume``.
    stream : dict
        ``hashed`` and ``window``, as for `tunefree.open_source`.
    shape : dict, optional
        Link and potential of the Reflectron.
    **options
        For `tunefree.io.read`.
    """
    from tunefree.cli.streaming import from_source, from_stdin, implied, is_large, waiting_stdin

    _check_output(model)
    why, source = implied(run, stream, options["format"] or format_of(data)), data
    if run["checkpoint"] is not None:
        _check_output(run["checkpoint"], "checkpoint")
    with failing(BAD_DATA, data), working(f"reading {data}"):
        if data == "-" and why is None:
            source, whole = from_stdin()
            why = None if whole else "large standard input"
        elif data == "-":
            source = waiting_stdin()
        elif why is None and name != "kernel" and is_large(data):
            why = "a large file"

    def maker(name, task):
        return make(name, task, seed=seed, passes=passes, shape=shape)

    if why:
        options = options | stream | {"on_bad_row": on_bad_row, "seed": seed}
        done = from_source(source, data, why, task, name, maker, run, options)
    else:
        skipped = Skipped()
        options["skipped"] = skipped if on_bad_row == "skip" else None
        done = _from_table(source, data, task, name, maker, skipped, options)
    if done.skipped.count:
        note(f"skipped {done.skipped.count} malformed rows, the first: {done.skipped.first}")
    with failing(FAILED, model):
        times = getattr(done.estimator, "_times", dict)()
        save_model(done.estimator, model, notes=done.notes | times)
    summary = _summarise(done)
    _tell(summary, done, data, model, last=options["target"] is None)
    if as_json:
        answer(json.dumps(summary))


def choose_task(task, y):
    """Tell the task, and why.

    Parameters
    ----------
    task : {"auto", "classification", "regression"}
        What the user said.
    y : array of shape (n_rows,)
        The targets.

    Returns
    -------
    task, reason : str
    """
    if task != "auto":
        return task, "as you said"
    task, reason = guess_task(y)
    other = "regression" if task == "classification" else "classification"
    if y.dtype.kind in "biuf":
        reason += f"; --task {other} overrules"
    return task, reason


def _from_table(source, data, task, name, maker, skipped, options):
    """Train on data that fit into memory."""
    kind = float if task == "regression" else None
    table = read_rows(source, kind, options, data, mixed=name == "auto")
    task, reason = choose_task(task, table.y)
    with failing(BAD_DATA, data), working(f"training on {len(table.y)} rows"):
        start = time.perf_counter()
        estimator = fit(table, task, maker(name, task))
        seconds = time.perf_counter() - start
    return Trained(estimator, noted(table, task), reason, skipped, seconds)


def _check_output(model, what="model"):
    """Refuse early what could not be written, or would replace something else than a model."""
    check_writable(model)
    if os.path.isfile(model) and os.path.getsize(model):
        with failing(USAGE, model), open(model, "rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                stop(f"{model} exists and is no {what}: it will not be overwritten", USAGE)


def chosen_setting(estimator):
    """Tell which members of the portfolio an estimator kept, and the risk of the best.

    Parameters
    ----------
    estimator : estimator
        A fitted model.

    Returns
    -------
    names : list of str
        The chosen members, the best first; empty without a portfolio.
    risk : float or None
        The error (classification) or squared error of the best on rows that it had not seen.
    """
    rows = [row for row in getattr(estimator, "leaderboard_", []) if row.get("chosen")]
    if rows and "candidate" in rows[0]:
        return [row["candidate"] for row in rows], rows[0]["risk"]
    return [row["name"] for row in rows], (rows[0]["progressive_error"] if rows else None)


def _summarise(done):
    import tunefree

    estimator, portfolios = done.estimator, (tunefree.PiSTOLClassifier, tunefree.PiSTOLRegressor)
    names, risk = chosen_setting(estimator)
    if risk is None and isinstance(estimator, portfolios):  # a stream keeps all its members
        risk = estimator.progressive_risk()
        risk = None if np.isnan(risk) else risk
    summary = {"task": done.notes["task"], "n": done.notes["rows"],
               "n_features": done.notes["features"]}  # fmt: skip
    if done.notes["task"] == "classification":
        summary["classes"] = estimator.classes_.tolist()
    return summary | {
        "setting": names,
        "validation_risk": risk,
        "report": str(getattr(estimator, "report_", "")),
        "passes": int(estimator.n_iter_),
        "seconds": round(done.seconds, 3),
        "skipped": done.skipped.count,
        "status": getattr(estimator, "status_", None),
    }


def _tell(summary, done, data, model, last):
    """Print the summary for a person."""
    classes = summary.get("classes")
    what = "regression" if classes is None else f"classification into {_listed(classes)}"
    for words in telling(data, done, last):
        note(words)
    note(f"task: {what} ({done.reason})")
    risk = summary["validation_risk"]
    if summary["report"]:
        note("\n".join(summary["report"].split("\n")[2:]) + "\n")
    elif risk is not None:
        kind = "squared error" if classes is None else "error"
        unit = " robust variances of the target" if classes is None else ""
        if summary["setting"]:
            note(f"chosen: {' + '.join(summary['setting'])}")
        note(f"progressive {kind}: {risk:.4g}{unit} (every row predicted before it was learned)")
    status = summary["status"]
    for words in [status] if isinstance(status, str) else status or []:
        note(words)
    passes = "1 pass" if summary["passes"] == 1 else f"{summary['passes']} passes"
    spent = "" if summary["report"] else f"{passes} in {summary['seconds']:.2f} s; "
    note(f"{spent}wrote {model}")
    note(f"next: tunefree eval {model} TEST_DATA, or tunefree report {model} TEST_DATA")


def _listed(values, most=5):
    shown = ", ".join(map(str, values[:most]))
    return f"{len(values)} classes: {shown}" + (", ..." if len(values) > most else "")
