"""``tunefree eval``: the scores of a model on rows with targets."""

import json

from tunefree.cli.apply import bad_options, load
from tunefree.cli.console import answer
from tunefree.cli.drift import as_json
from tunefree.cli.page import write_page
from tunefree.cli.rows import columns_of
from tunefree.cli.scores import evaluate
from tunefree.core.format import number

_DIGITS = 4  # models are compared by these scores


def run_eval(options):
    """Carry out ``tunefree eval``; `options` is a `EvalOptions`."""
    estimator, notes = load(options.model)
    whole = options.html is not None
    scores, deciles, rows = evaluate(
        estimator, notes, options.data, whole, **columns_of(options), **bad_options(options)
    )
    if options.json:
        drift = {} if rows.drift is None else {"drift": as_json(rows.drift)}
        answer(json.dumps(scores | ({"calibration": deciles} if deciles else {}) | drift))
    else:
        _print_scores(scores, deciles)
    if options.html is not None:
        write_page(options.html, options.model, estimator, notes, options.data, rows, scores)


def _print_scores(scores, deciles):
    """Print the scores and the calibration as text."""
    for name, value in scores.items():
        if not name.startswith("risk_interval"):
            answer(f"{name:10}{value if value is None else number(value, _DIGITS)}")
    low, high = (number(end, _DIGITS) for end in scores["risk_interval"])
    answer(f"risk in   [{low}, {high}] ({scores['risk_interval_kind']})")
    if deciles:
        answer("calibration, by deciles of the predictions")
        answer(f"{'predicted':>12}{'observed':>12}{'rows':>10}")
    for row in deciles:
        answer(f"{number(row['predicted']):>12}{number(row['observed']):>12}{row['rows']:10,}")
