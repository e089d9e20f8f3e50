"""``tunefree path``: the whole regularization path of ridge regression, with validation scores."""

import csv
import importlib.util
import io
import json

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
from tunefree.cli.rows import read_rows
from tunefree.io.atomic import write_atomically


def parse_alphas(text):
    """Read penalties from the command line.

    Parameters
    ----------
    text : str or None
        Numbers between commas.

    Returns
    -------
    list of float or None

    Examples
    --------
    >>> parse_alphas("100,10,0.5")
    [100.0, 10.0, 0.5]
    """
    if text is None:
        return None
    try:
        alphas = [float(word) for word in text.split(",")]
    except ValueError:
        alphas = []
    if not alphas or not all(0.0 < alpha < np.inf for alpha in alphas):
        stop(f"--alphas {text} is no list of positive numbers, like 100,10,1", USAGE)
    return alphas


def run_path(data, alphas, *, solver, out, plot, seed, passes, as_json, **options):
    """Carry out ``tunefree path``.

    Parameters
    ----------
    data : str
        The file.
    alphas : str or None
        Penalties between commas.
    solver : {"auto", "sgd", "exact"}
    out, plot : str or None
        Files for the coefficients (csv) and the picture (png).
    seed : int
        The `random_state`.
    passes : int or None
        Passes of SGD.
    as_json : bool
        Whether to print a JSON object instead of csv.
    **options
        For `tunefree.io.read`.
    """
    import tunefree

    alphas = parse_alphas(alphas)
    if plot is not None and importlib.util.find_spec("matplotlib") is None:
        stop("--plot needs matplotlib: pip install 'tunefree[plots]'", USAGE)
    for file in (out, plot):
        if file is not None:
            check_writable(file)
    table = read_rows(data, float, options, hint="a path is of numbers only")
    model = tunefree.AveragedSGDRegressor(
        "geometric", solver=solver, alphas=alphas, random_state=seed, max_iter=passes or "auto"
    )
    with failing(BAD_DATA, data), working(f"a path from {len(table.y)} rows"):
        model.fit(table.X, table.y, sample_weight=table.weight)
    scores = model.validation_scores_
    if scores is None:  # a single penalty leaves nothing to choose
        scores = np.full(len(model.alphas_), np.nan)
    if out is not None or plot is not None:
        _check_size(model)
    if out is not None:
        with failing(FAILED, out):
            write_atomically(out, [_as_csv(model, scores, _names(table)).encode()])
        note(f"wrote {len(model.alphas_)} x {table.X.shape[1]} coefficients to {out}")
    if plot is not None:
        with failing(FAILED, plot):
            _draw(model, plot)
        note(f"drew {plot}")
    note(f"{data}: {len(table.y)} rows, {table.X.shape[1]} features; solver {model.solver_}")
    if len(scores) > 1:
        how = "leave-one-out" if model.solver_ == "exact" else "rows held out"
        note(f"alpha {model.alpha_:.6g}, chosen by {how}")
    rows = [[float(a), None if np.isnan(s) else float(s)]
            for a, s in zip(model.alphas_, scores, strict=True)]  # fmt: skip
    if as_json:
        path = [{"alpha": alpha, "validation_mse": score} for alpha, score in rows]
        answer(json.dumps({"solver": model.solver_, "alpha": model.alpha_, "path": path}))
    else:
        answer(_lines([["alpha", "validation_mse"], *rows]).removesuffix("\n"))


def _check_size(model):
    """Refuse to write a path that the estimator does not keep."""
    if not hasattr(model, "coefs_"):
        n = len(model.alphas_) * model.n_features_in_
        stop(f"the path has {n} coefficients, too many for a file: give fewer --alphas", USAGE)


def _names(table):
    """Names of the features, numbered as `inspect` does where there are none."""
    if table.feature_names is not None:
        return list(table.feature_names)
    first = 0 if table.zero_based is True else 1
    return [f"feature {j + first}" for j in range(table.X.shape[1])]


def _as_csv(model, scores, names):
    """One line a penalty: its score, intercept and coefficients."""
    columns = model.alphas_[:, None], scores[:, None], model.intercepts_[:, None], model.coefs_
    return _lines([["alpha", "validation_mse", "intercept", *names], *np.hstack(columns).tolist()])


def _lines(rows):
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _draw(model, path):
    """Draw the path without touching the state of pyplot."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from tunefree.plots import RidgePathDisplay

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    RidgePathDisplay.from_estimator(model).plot(figure.subplots())
    figure.savefig(path, dpi=150, format="png")
