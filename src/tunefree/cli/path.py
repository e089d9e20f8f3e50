"""``tunefree path``: the whole regularization path of ridge regression, with validation scores."""

import importlib.util
import json

import numpy as np

from tunefree.cli.console import (
    BAD_DATA,
    FAILED,
    USAGE,
    answer,
    as_csv,
    check_writable,
    failing,
    note,
    stop,
    working,
)
from tunefree.cli.train import read_rows
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


def run_path(data, alphas, *, solver, out, plot, seed, passes, as_json, **options):
    """Carry out ``tunefree path``; `out` (csv) and `plot` (png) are files, or None."""
    import tunefree

    alphas = parse_alphas(alphas)
    if plot is not None and importlib.util.find_spec("matplotlib") is None:
        stop("--plot needs matplotlib: pip install 'tunefree[plots]'", USAGE)
    check_writable(out, plot)
    table = read_rows(data, data, float, options, hint="the path needs numbers in every column")
    model = tunefree.RidgePathRegressor(
        "geometric", solver=solver, alphas=alphas, random_state=seed, max_iter=passes or "auto"
    )
    with failing(BAD_DATA, data), working(f"computing the path of {len(table.y)} rows"):
        model.fit(table.X, table.y, sample_weight=table.weight)
    scores, n_features = model.validation_scores_, table.X.shape[1]
    if scores is None:  # there is only one penalty
        scores = np.full(len(model.alphas_), np.nan)
    if (out or plot) and not hasattr(model, "coefs_"):
        n = len(model.alphas_) * n_features
        stop(f"the path has {n} coefficients, too many for a file: give fewer --alphas", USAGE)
    if out is not None:
        first = 0 if table.zero_based is True else 1
        names = table.feature_names or [f"feature {j + first}" for j in range(n_features)]
        columns = model.alphas_[:, None], scores[:, None], model.intercepts_[:, None], model.coefs_
        head = ["alpha", "validation_mse", "intercept", *names]
        with failing(FAILED, out):
            write_atomically(out, [as_csv([head, *np.hstack(columns).tolist()]).encode()])
        note(f"wrote {len(model.alphas_)} x {n_features} coefficients to {out}")
    if plot is not None:
        with failing(FAILED, plot):
            _draw(model, plot)
        note(f"drew {plot}")
    note(f"{data}: {len(table.y)} rows, {n_features} features; solver {model.solver_}")
    if len(scores) > 1:
        how = "leave-one-out" if model.solver_ == "exact" else "held-out rows"
        note(f"alpha {model.alpha_:.6g}, chosen by {how}")
    rows = [[float(a), None if np.isnan(s) else float(s)]
            for a, s in zip(model.alphas_, scores, strict=True)]  # fmt: skip
    if as_json:
        path = [{"alpha": alpha, "validation_mse": score} for alpha, score in rows]
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
