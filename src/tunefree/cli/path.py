"""``tunefree path``: the whole regularization path of ridge regression, with validation scores."""

import importlib.util
import json

import numpy as np

from tunefree._format import number
from tunefree.cli.console import (
    BAD_DATA,
    FAILED,
    USAGE,
    answer,
    as_csv,
    failing,
    note,
    stop,
    working,
)
from tunefree.cli.rows import column_name, columns_of, read_rows
from tunefree.io.files import write_atomically


def parse_alphas(text):
    """Penalties from the command line.

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
        stop(f"--alphas {text} is not a list of positive numbers such as 100,10,1", USAGE)
    return alphas


def run_path(options):
    """Carry out ``tunefree path``; `options` is a `PathOptions`."""
    import tunefree

    data, alphas = options.data, parse_alphas(options.alphas)
    if options.plot is not None and importlib.util.find_spec("matplotlib") is None:
        stop("--plot needs matplotlib: pip install 'tunefree[plots]'", USAGE)
    hint = "the path needs numbers in every column"
    columns = columns_of(options) | {"drop": options.drop}
    table = read_rows(data, data, float, columns, hint=hint)
    settings = {"solver": options.solver, "max_iter": options.passes or "auto"}
    model = tunefree.RidgePathRegressor(
        "geometric", alphas=alphas, random_state=options.seed, **settings
    )
    with failing(BAD_DATA, data), working(f"computing the path of {len(table.y)} rows"):
        model.fit(table.X, table.y, sample_weight=table.weight)
    scores, n_features = model.validation_scores_, table.X.shape[1]
    if scores is None:  # there is only one penalty
        scores = np.full(len(model.alphas_), np.nan)
    if (options.out or options.plot) and not hasattr(model, "coefs_"):
        n = len(model.alphas_) * n_features
        stop(f"the path has {n} coefficients, too many for a file: give fewer --alphas", USAGE)
    if options.out is not None:
        _write_coefficients(model, scores, table, options.out)
        note(f"wrote {len(model.alphas_)} x {n_features} coefficients to {options.out}")
    if options.plot is not None:
        with failing(FAILED, options.plot):
            _draw(model, options.plot)
        note(f"drew {options.plot}")
    note(f"{data}: {len(table.y)} rows, {n_features} features; solver {model.solver_}")
    if len(scores) > 1:
        how = "leave-one-out" if model.solver_ == "exact" else "held-out rows"
        note(f"alpha {number(model.alpha_)}, chosen by {how}")
    _print_path(model, scores, options.json)


def _write_coefficients(model, scores, table, path):
    """Write a csv file with a row for each penalty."""
    notes = {"feature_names": table.feature_names, "zero_based": table.zero_based}
    names = [column_name(f"x{j}", notes) for j in range(table.X.shape[1])]
    columns = model.alphas_[:, None], scores[:, None], model.intercepts_[:, None], model.coefs_
    head = ["alpha", "validation_mse", "intercept", *names]
    with failing(FAILED, path):
        write_atomically(path, [as_csv([head, *np.hstack(columns).tolist()]).encode()])


def _print_path(model, scores, as_json):
    """Print each penalty and its error."""
    errors = [None if np.isnan(score) else score for score in scores.tolist()]
    rows = [*zip(model.alphas_.tolist(), errors, strict=True)]
    if as_json:
        path = [{"alpha": alpha, "validation_mse": error} for alpha, error in rows]
        answer(json.dumps({"solver": model.solver_, "alpha": model.alpha_, "path": path}))
    else:
        answer(as_csv([["alpha", "validation_mse"], *rows]).removesuffix("\n"))


def _draw(model, path):
    """Draw the path without touching the state of pyplot."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    ax = figure.subplots()
    ax.plot(model.alphas_, model.coefs_.reshape(len(model.alphas_), -1), linewidth=1.0)
    ax.set(xscale="log", xlabel="alpha (stronger to the left)", ylabel="coefficient")
    ax.invert_xaxis()
    if model.alpha_ is not None:
        ax.axvline(model.alpha_, color="0.5", linestyle=":")
    figure.savefig(path, dpi=150, format="png")
