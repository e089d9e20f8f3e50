"""``tunefree report``: scores, importance and choice of a model, as one page.

The page (also of ``tunefree eval --html``) is one HTML file with tables and SVG drawings: no
script, nothing from the network. Its template is ``report.html``; the values are computed here, the
drawings in `figures`.
"""

import datetime
import re
import warnings
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.validation import _check_feature_names_in

from tunefree.cli import figures
from tunefree.cli.apply import bad_options, feature_names, load, matched_by_us, plain
from tunefree.cli.changed import permuted_scores, taken_rows
from tunefree.cli.console import FAILED, check_writable, failing, note, working
from tunefree.cli.figures import PageTable, some
from tunefree.cli.reading import findings_of
from tunefree.cli.report import largest_weights, overview, words_of_parts
from tunefree.cli.rows import columns_of, fingerprints, named_report
from tunefree.cli.scores import EvaluatedRows, Scores, evaluate
from tunefree.core.format import listed, number
from tunefree.core.process import amount
from tunefree.files.arrays import taken
from tunefree.files.files import write_atomically
from tunefree.files.model import describe_model
from tunefree.uncertainty.risk import exact

_MOST = 20  # columns with the largest weights, or classes listed one by one
# Importances: rows, permutations of each column, and columns; effects of columns; rows explained.
_ROWS_SHUFFLED, _REPEATS, _WIDEST, _MOST_EFFECTS, _MOST_EXPLAINED = 500, 3, 50, 4, 100
_MOST_READ = 50  # columns of the data as read
_MOST_CURVES, _MOST_REPEATED, _MOST_CELLS, _ALPHA, _MOST_COVERED = 6, 1e6, 1e8, 0.1, 1000
# Not allowed in the page: C0 except tabs and ends of lines, DEL and C1.
_CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f]")
_TITLES = {
    "accuracy": "accuracy",
    "error": "error rate",
    "log_loss": "log loss",
    "auc": "area under the ROC curve",
    "deviance": "mean deviance",
    "d2": "D², the share of the deviance explained",
    "mse": "mean squared error",
    "rmse": "root mean squared error",
    "mae": "mean absolute error",
    "r2": "R²",
}


class Words(NamedTuple):
    """A paragraph in a style of the template: verdict, warning, note or text."""

    text: str
    style: str = "note"
    kind = "words"


class Matrix(NamedTuple):
    """A confusion matrix."""

    names: list
    counts: list
    kind = "matrix"


class Section:
    """A part of the page under a heading, without the figures that cannot be drawn."""

    def __init__(self, title, *parts):
        self.title, self.parts = title, [part for part in parts if part is not None]
        self.anchor = re.sub(r"\W+", "-", title.lower())  # its name in links


def run_report(options):
    """Carry out ``tunefree report``, and return the verdict; `options` is a `ReportOptions`."""
    model, data = options.model, options.data
    output = options.output or f"{model}.html"
    check_writable(output)
    estimator, notes = load(model)
    rows = scores = None
    if data is not None:
        scores, _, rows = evaluate(
            estimator, notes, data, True, **columns_of(options), **bad_options(options)
        )
    return write_page(output, model, estimator, notes, data, rows, scores)


def write_page(output, model, estimator, notes, data, rows, scores):
    """Write the page of a model; `rows` are `EvaluatedRows`, or None. Return its first words."""
    with failing(FAILED, output), working("drawing"), matched_by_us():
        where, report = f"of {data}", None
        if rows is None:
            where, report = "held out in training", getattr(estimator, "report_", None)
            rows, scores = _held_out(estimator)
        top, sections = [], []
        if rows is not None:
            constant, trivial = _best_constant(estimator, rows)
            top = _verdict(estimator, rows, scores, constant, trivial, where)
            top += _warnings(notes, rows)
            sections = [_scores_section(scores, trivial, where), *_predictions(estimator, rows)]
        sections = [*_data_as_read(estimator, notes), *sections]
        if report is not None:
            top = [Words(" ".join([*report.judgement(), report.expected_risk()]), "verdict")]
        sections += _columns(estimator, notes, rows)
        sections += _leaderboard(estimator, notes)
        sections += [_facts(model, estimator, notes)]
        target = (notes.get("target") or [None])[0]
        page = rendered(title=f"{target or 'tunefree'}: {model}", top=top, sections=sections)
        write_atomically(output, [page.encode(errors="replace")])
    note(f"wrote {output}")
    return top[0].text if top else ""


def rendered(**values):
    """The template with these values."""
    from jinja2 import Environment

    environment = Environment(autoescape=True)
    environment.filters["cell"] = _text
    template = environment.from_string(files("tunefree.cli").joinpath("report.html").read_text())
    return _CONTROL.sub("\ufffd", template.render(values))


def _text(value):
    """The text of a value in a table or a sentence."""
    if isinstance(value, float):
        return number(value)
    return "" if value is None else str(value)


def _share(part):
    return f"{100 * part:.1f}\u00a0%"


def _classes_of(estimator):
    """The classes of a classifier; None for another model."""
    return getattr(estimator, "classes_", None)


def _facts(model, estimator, notes):
    """The estimator, its data and its versions."""
    classes = _classes_of(estimator)
    names = None if classes is None else classes.tolist()
    described = describe_model(model)
    facts = overview(described, notes, names, most=12)
    kernels = getattr(estimator, "support_", getattr(estimator, "dual_coef_", None))
    if kernels is not None:
        facts.append(("predictor", f"a sum of {len(kernels)} kernel functions"))
    facts.append(("model file", amount(described["bytes"])))
    parts = words_of_parts(described["parts"], described["bytes"])
    facts.append(("its space is taken by", parts))
    facts.append(("page written", datetime.date.today().isoformat()))
    return Section("Model", PageTable((), facts))


# --- The data -------------------------------------------------------------------------------------


def _data_as_read(estimator, notes):
    """What was read at training and found in it."""
    reading, findings = notes.get("reading"), findings_of(estimator, notes)
    warnings_found = [Words(words, "warning") for words in findings]
    if reading is None:  # saved from Python
        return [Section("Data as read", *warnings_found)] if findings else []
    words = f"{notes['rows']} rows of {reading['written']}."
    if n := reading["without_target"]:
        words += f" Rows without a target that were skipped: {n}."
    if n := reading["malformed"]:
        words += f" Malformed rows that were skipped: {n}."
    rows = reading["columns"]
    lines = [
        (row["column"], row["holds"], ", ".join(row["cells"]), row["missing"] or None)
        for row in rows[:_MOST_READ]
    ]
    head = "column", "holds", "first cells", "missing"
    more = len(rows) - len(lines) + reading["more_columns"]
    rest = Words(f"And {more} more columns.") if more else None
    table = PageTable(head, lines) if lines else None
    return [Section("Data as read", Words(words, "text"), *warnings_found, table, rest)]


# --- Scores ---------------------------------------------------------------------------------------


def _held_out(estimator):
    """The held-out predictions of training as `EvaluatedRows`, and their scores; or None, None."""
    rows = _held_out_rows(estimator)
    if rows is None or not len(rows.y):
        return None, None
    weight: Any = rows.weight
    if (weight == np.round(weight)).all() and weight.sum() <= _MOST_REPEATED:
        rows = _repeated(rows, np.repeat(np.arange(len(weight)), weight.astype(int)))
    scores = _scores(estimator, _classes_of(estimator), rows)
    if getattr(estimator, "risk_interval_", None) is not None:
        scores["risk_interval"] = estimator.risk_interval_
        scores["risk_interval_kind"] = estimator.risk_interval_kind_
    return rows, scores


def _held_out_rows(estimator):
    """The held-out predictions of training as `EvaluatedRows`; None if there are none."""
    held_out: Any = getattr(estimator, "held_out_", None)
    if hasattr(held_out, "codes"):
        p, classes = held_out.p, estimator.classes_
        y = classes[held_out.codes]
        predicted = classes[p.argmax(axis=1)] if len(p) else y
        decisions = p[:, 1] if p.shape[1] == 2 else None
        return EvaluatedRows(None, y, predicted, held_out.weights, p, decisions)
    if hasattr(held_out, "predictions") and held_out.predictions.shape[1] == 1:
        y, predicted = held_out.targets[:, 0], held_out.predictions[:, 0]
        return EvaluatedRows(None, y, predicted, held_out.weights)
    if getattr(estimator, "flat_", False) and held_out[0].targets is not None:
        y, predicted = held_out[0].targets, held_out[0].targets - held_out[0].residuals
        return EvaluatedRows(None, y, predicted, held_out[0].weights)
    return None


def _repeated(rows, again):
    """The rows `again`, each with the weight 1."""
    columns = rows.y, rows.predicted, rows.probabilities, rows.decisions
    y, predicted, probabilities, decisions = taken(again, *columns)
    return EvaluatedRows(None, y, predicted, None, probabilities, decisions)


def _scores(estimator, classes, rows):
    """The scores of these predictions."""
    scores = Scores(classes, getattr(estimator, "family_", None))
    scores.add(*rows.scored)
    return scores.result()


def _best_constant(estimator, rows):
    """The best constant for these rows, class shares or the mean, in place of the predictions."""
    from sklearn.dummy import DummyClassifier, DummyRegressor

    classify = _classes_of(estimator) is not None
    nothing = np.zeros((len(rows.y), 1))
    constant: Any = DummyClassifier() if classify else DummyRegressor()
    constant.fit(nothing, rows.y, rows.weight)
    p = constant.predict_proba(nothing) if classify else None
    predicted = constant.predict(nothing)
    if (exposure := rows.roles.get("exposure")) is not None:  # the best rate
        weight = np.ones(len(rows.y)) if rows.weight is None else rows.weight
        predicted = exposure * (weight @ rows.y) / (weight @ exposure)
    rows = rows._replace(predicted=predicted, probabilities=p, decisions=None)
    scores = _scores(estimator, _classes_of(constant), rows)
    return predicted, scores | ({"auc": 0.5} if classify else {})


def _deviances(estimator, y, predicted):
    """The unit deviance of every row."""
    family = estimator.family_
    y, mean = (np.asarray(a, dtype=float)[:, None] for a in (y, predicted))
    with np.errstate(all="ignore"):
        return np.minimum(family.deviance(y, family.clipped(mean))[:, 0], 1e6)


def _verdict(estimator, rows, scores, constant, trivial, where):
    """The score, and whether the model is better than a constant, in two sentences."""
    y, (low, high) = rows.y, scores["risk_interval"]
    weight = np.ones(len(y)) if rows.weight is None else rows.weight
    if "error" in scores:
        words = f"Accuracy {_share(1 - scores['error'])} on the {len(y)} rows {where} (95\u00a0%: "
        words += f"{_share(1 - high)} to {_share(1 - low)}). Always predicting “"
        words += f"{plain(constant[0])}” would reach {_share(1 - trivial['error'])}"
        gain = (rows.predicted != y).astype(float) - (constant != y)
    elif "d2" in scores and estimator.family_.log_likelihood is not None:
        words = f"{_share(scores['d2'])} of the deviance is explained (D²) on the {len(y)} rows "
        words += f"{where}. In total {_text(weight @ rows.predicted)} is predicted, and "
        words += f"{_text(weight @ y)} observed. Always predicting the mean"
        words += " rate" if "exposure" in rows.roles else ""
        words += f" has the mean deviance {_text(trivial['deviance'])}, the model "
        words += _text(scores["deviance"])
        gain = _deviances(estimator, y, rows.predicted) - _deviances(estimator, y, constant)
    else:
        words = f"Mean absolute error {_text(scores['mae'])} on the {len(y)} rows {where}"
        if scores["r2"] is not None:
            words += f"; {_share(scores['r2'])} of the variance is explained"
        words += f". Always predicting the mean would give {_text(trivial['mae'])}"
        gain = (rows.predicted - y) ** 2 - (constant - y) ** 2
    mean = np.average(gain, weights=weight)  # of differences on the same rows
    error = 1.96 * np.sqrt(np.square(weight * (gain - mean)).sum()) / weight.sum()
    end = "on these rows the model is not significantly better than that."
    if abs(mean) > error:
        end = f"the model is {'better' if mean < 0.0 else 'worse'} than that."
    return [Words(f"{words}: {end}", "verdict")]


def _warnings(notes, rows):
    """Warnings of columns that have drifted, and of rows that the model was trained on."""
    found = [Words(words, "warning") for words in rows.drifted]
    sample = notes.get("sample")
    # Each cell of a table with text passes through Python once.
    if not sample or rows.X is None or len(rows.y) * rows.X.shape[1] > _MOST_CELLS:
        return found
    prints = fingerprints(rows.X, rows.y, np.arange(len(rows.y)))
    share = np.isin(sample["rows"], prints).mean()
    # New rows equal training rows no more often than these equal each other.
    if share > sample["twins"] + 3.0 * np.sqrt(0.25 / len(sample["rows"])):
        words = f"About {100 * share:.0f}\u00a0% of the rows that the model was trained on are "
        words += "among these: the scores are too optimistic. "
        words += "Use rows that it was not trained on."
        found.insert(0, Words(words, "warning"))
    return found


def _scores_section(scores, trivial, where):
    """The scores beside those of the best constant."""

    def all_scores(given):
        if "error" in given:
            return given | {"accuracy": 1.0 - given["error"]}
        return given | {"rmse": float(np.sqrt(given["mse"]))}

    scores, trivial = all_scores(scores), all_scores(trivial)
    found = [(n, title) for n, title in _TITLES.items() if scores.get(n) is not None]
    rows = [(title, scores[name], trivial.get(name)) for name, title in found]
    (low, high), kind = scores["risk_interval"], scores["risk_interval_kind"]
    risk = _TITLES["error" if "error" in scores else "mse"]
    words = f"{scores['n']} rows {where}. 95\u00a0% interval of the {risk} on new rows: "
    words += f"[{_text(low)}, {_text(high)}] ({kind})."
    table = PageTable(("score", "this model", "best constant"), rows)
    return Section("Scores", table, Words(words))


# --- Predictions ----------------------------------------------------------------------------------


def _predictions(estimator, rows):
    """The predictions against the targets."""
    if _classes_of(estimator) is None:
        return [_regression(rows), *_coverage(estimator, rows)]
    sections = [_classes(rows), *_thresholds(estimator, rows)]
    if rows.probabilities is not None:
        sections.append(_reliability(estimator, rows))
    return [*sections, *_coverage(estimator, rows)]


def _classes(rows):
    """Scores of each class, and the confusion matrix."""
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

    labels = np.unique(np.concatenate([rows.y, rows.predicted]))
    names = [plain(label) for label in labels.tolist()]
    measured = precision_recall_fscore_support(
        rows.y, rows.predicted, labels=labels, zero_division=0.0, sample_weight=rows.weight
    )
    counts = confusion_matrix(rows.y, rows.predicted, labels=labels)
    scores = [values.tolist() for values in measured[:3]]
    lines = [*zip(names, *scores, counts.sum(axis=1).tolist(), strict=True)]
    title, found = "Classes and confusion matrix", Matrix(names, counts.tolist())
    if len(names) > _MOST:
        title = "Classes with the lowest F1, most frequent confusions"
        lines, found = sorted(lines, key=lambda line: line[3])[:_MOST], _confusions(counts, names)
    return Section(title, PageTable(("class", "precision", "recall", "F1", "rows"), lines), found)


def _confusions(counts, names):
    """The most frequent confusions of many classes."""
    wrong = counts - np.diag(np.diag(counts))
    order = np.argsort(-wrong, axis=None, kind="stable")[:_MOST]
    pairs = zip(*np.unravel_index(order, wrong.shape), strict=True)
    rows = [(names[i], names[j], int(wrong[i, j])) for i, j in pairs if wrong[i, j]]
    return PageTable(("true", "predicted", "rows"), rows)


def _thresholds(estimator, rows):
    """ROC and precision-recall curves of the second class, or of each of the largest classes."""
    classes, scores = estimator.classes_, rows.probabilities
    if scores is None:
        if rows.decisions is None:
            return []
        scores = np.column_stack([-rows.decisions, rows.decisions])
    curves = []
    for k in [1] if len(classes) == 2 else range(len(classes)):
        own = rows.y == classes[k]
        if 0 < own.sum() < len(own):
            curves.append((plain(classes.tolist()[k]), own, scores[:, k]))
    if not curves:
        return []
    curves = sorted(curves, key=lambda curve: -curve[1].sum())[:_MOST_CURVES]
    drawn = figures.threshold_curves(curves, rows.weight)
    return [Section("ROC and precision-recall", *drawn)]


def _reliability(estimator, rows):
    """Predicted probabilities against observed shares."""
    p, classes = rows.probabilities, estimator.classes_
    if len(classes) == 2:
        correct, probability, what = rows.y == classes[1], p[:, 1], plain(classes.tolist()[1])
    else:
        correct, probability = rows.y == rows.predicted, p.max(axis=1)
        what = "the predicted class"
    bins = np.array_split(np.argsort(probability, kind="stable"), min(10, len(probability)))
    lines = [(float(probability[i].mean()), float(correct[i].mean()), len(i)) for i in bins]
    predicted, observed, _ = zip(*lines, strict=True)
    head = (f"predicted probability of {what}", "observed share", "rows")
    drawn = figures.reliability(predicted, observed, what)
    return Section("Reliability", drawn, PageTable(head, lines))


def _regression(rows):
    """Predicted against actual targets, and residuals."""
    at = (0.05, 0.25, 0.5, 0.75, 0.95)
    lines = [("target minus prediction", *np.quantile(rows.y - rows.predicted, at).tolist())]
    table = PageTable(("", *(f"{100 * q:.0f} % below" for q in at)), lines)
    drawn = figures.actual_and_predicted(rows.y, rows.predicted)
    return Section("Predicted and actual", *drawn, table)


def _coverage(estimator, rows):
    """Coverage of 90 % intervals or sets on some of the rows."""
    classes = _classes_of(estimator)
    method = "predict_interval" if classes is None else "predict_set"
    held_out = getattr(estimator, "held_out_", None)
    if rows.X is None or rows.roles or held_out is None or not hasattr(estimator, method):
        return []
    places = some(np.arange(len(rows.y)), _MOST_COVERED)
    X, y = taken_rows(rows.X, places), rows.y[places]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about too few rows for a finite end
        try:
            predicted, ends = getattr(estimator, method)(X, alpha=_ALPHA)
        except (ValueError, NotImplementedError):  # there are no held-out predictions
            return []
    found = _of_intervals(predicted, ends, y) if classes is None else _of_sets(classes, ends, y)
    title, words, inside, drawn = found
    low, high = exact(int(inside.sum()), len(inside))
    words = f"{method}(X, alpha={_ALPHA}) for {len(y)} of these rows. {words}"
    words += f"{_share(inside.mean())} of them contain the target (95\u00a0%: {_share(low)} to "
    words += f"{_share(high)}); the nominal coverage is {100 - 100 * _ALPHA:.0f}\u00a0%."
    return [Section(title, Words(words, "text"), drawn)]


def _of_intervals(predicted, ends, y):
    """Title and words about intervals, which hold their target, and a figure."""
    ends = ends.reshape(len(y), 2)
    inside = (ends[:, 0] <= y) & (y <= ends[:, 1])
    words = f"Intervals have a median width of {_text(float(np.median(np.ptp(ends, axis=1))))}; "
    drawn = figures.intervals(predicted, ends, y, 1.0 - _ALPHA)
    return "Prediction intervals", words, inside, drawn


def _of_sets(classes, members, y):
    """The same about sets of classes, without a figure."""
    inside = ((y[:, None] == classes) & members[:, :, 0]).any(axis=1)
    words = f"Sets hold {members[:, :, 0].sum(axis=1).mean():.3g} classes on average; "
    return "Prediction sets", words, inside, None


# --- Importance of the columns --------------------------------------------------------------------


def _importances(estimator, X):
    """The importance of every column, as shares, or None.

    For a linear predictor: the square of coefficient times standard deviation, if rows are given.
    """
    for name in ("feature_importances_", "feature_relevances_"):
        if (shares := getattr(estimator, name, None)) is not None:
            return np.asarray(shares)
    if not hasattr(estimator, "coef_") or X is None or hasattr(X, "schema"):
        return None
    from sklearn.preprocessing import StandardScaler

    if np.shape(estimator.coef_)[-1] != X.shape[1]:  # levels have coefficients of their own
        return None
    variance = StandardScaler(with_mean=False).fit(X).var_
    each = (np.square(np.atleast_2d(estimator.coef_)) * variance).sum(axis=0)
    return each / max(each.sum(), 1e-300)


def _columns(estimator, notes, rows):
    """The importance of every column, by all measures there are, and its partial effect."""
    names = feature_names(estimator, notes)
    weights = largest_weights(estimator, notes, _MOST)
    X, y = (None, None) if rows is None else _sample_rows(estimator, rows)
    measures = _measures(estimator, rows, X, y)
    if not measures:  # sparse or streamed rows
        lines = [(row["feature"], row["weight"]) for row in weights]
        table = PageTable(("feature", "weight"), lines, bars=[weight for _, weight in lines])
        return [Section("Largest weights", table)] if lines else []
    best = next(iter(measures.values()))
    order = np.argsort(-best, kind="stable")[:_MOST].tolist()
    lines = [(names[j], *(float(values[j]) for values in measures.values())) for j in order]
    words = ""
    if y is not None:
        words = f"Each column was permuted {_REPEATS} times, on {len(y)} of these rows. "
    levels = "; ".join(row["levels"] for row in weights if row.get("levels"))
    words += f"Most important levels: {levels}." if levels else ""
    table = PageTable(("column", *measures), lines, bars=best[order])
    groups = _groups_of_columns(estimator, names)
    sections = [Section("Columns", table, Words(words) if words else None, groups)]
    if X is None:
        return sections
    shown = [j for j in order[:_MOST_EFFECTS] if best[j] > 0]
    return [*sections, *_effects(estimator, X, shown, names), *_explanations(estimator, X, names)]


def _groups_of_columns(estimator, names):
    """The importances of groups of correlated columns; None if there are none."""
    groups = getattr(estimator, "group_importances_", [])
    if not groups:
        return None
    shown = dict(zip(_check_feature_names_in(estimator), names, strict=True))
    lines = [
        (listed([shown[name] for name in row["columns"]]), row["importance"], row["importance_se"])
        for row in groups[:_MOST]
    ]
    head = "correlated columns, permuted together", "rise of the held-out loss", "standard error"
    return PageTable(head, lines, bars=[importance for _, importance, _ in lines])


def _measures(estimator, rows, X, y):
    """Importances of the columns by their titles; the first orders the columns."""
    measures = {}
    if X is not None:
        rise, deviation, kind = _permuted(estimator, X, y)
        title = f"permutation importance (these rows): rise of the {kind}"
        measures = {title: rise, "standard deviation": deviation}
    held_out = getattr(estimator, "permutation_importances_", None)
    if held_out is not None:
        measures["permutation importance (held-out rows)"] = held_out
        measures["its standard error"] = estimator.permutation_importances_se_
    shares = _importances(estimator, None if rows is None else rows.X)
    if shares is not None:
        measures["share of prediction variance"] = shares
    return measures


def _permuted(estimator, X, y):
    """Permutation importances on these rows, and the name of the loss."""
    from sklearn.metrics import get_scorer, log_loss, make_scorer

    classes, scorer = _classes_of(estimator), get_scorer("neg_mean_squared_error")
    kind = "mean squared error" if classes is None else "error rate"
    if hasattr(estimator, "predict_proba"):
        how: Any = {"response_method": "predict_proba", "greater_is_better": False}
        kind, scorer = "log loss", make_scorer(log_loss, labels=classes, **how)
    elif classes is not None:
        scorer = get_scorer("accuracy")
    return *permuted_scores(estimator, X, y, scorer, _REPEATS), kind


def _effects(estimator, X, shown, names):
    """Partial effects of some columns."""
    classes = _classes_of(estimator)
    what = "prediction" if classes is None else f"probability of {plain(classes.tolist()[-1])}"
    drawn = [figures.partial_effect(estimator, X, j, names, what) for j in shown]
    if not any(drawn):
        return []
    words = "Mean prediction if all of these rows had the same value in one column. "
    words += "Marks above the axis: deciles of the column."
    return [Section("Partial effects", Words(words), *drawn)]


def _explanations(estimator, X, names):
    """What columns add to the scores of some rows: in the mean, and of three rows."""
    if not hasattr(estimator, "explain"):
        return []
    try:
        found = estimator.explain(taken_rows(X, some(np.arange(X.shape[0]), _MOST_EXPLAINED)))
    except ValueError:  # it has too many columns of numbers
        return []
    found = found._replace(feature_names=names)
    scores, classes = found.score.reshape(len(found.values), -1), getattr(estimator, "classes_", ())
    order = np.argsort(scores.max(axis=1), kind="stable")
    unit = "log-odds" if len(classes) else "predictions (of counts by trees: their logarithms)"
    words = f"Shapley values of {len(order)} of these rows: what each column adds to the mean "
    words += f"score of training rows. Scores are {unit}. Bars of negative values are orange."
    if found.std_error is not None:
        words += " Values of kernels are sampled, hence the standard errors."
    tables = [_explanation(found, "mean of these rows")]
    for name, place in {"lowest": 0, "median": len(order) // 2, "highest": -1}.items():
        row, title = int(order[place]), f"row with the {name} score"
        if len(classes) > 2:
            title += f": log-odds of {plain(classes.tolist()[scores[row].argmax()])}"
        tables.append(_explanation(found, title, row))
    return [Section("Explanations", Words(words), *tables)]


def _explanation(found, title, row=None):
    """What columns add to the score, of one row or in the mean."""
    from tunefree.plots import ExplanationDisplay

    display = ExplanationDisplay.of(found, row)
    names, values, errors = display.largest(_MOST)
    head, columns = [title, display.label], [names, values.tolist()]
    if errors is not None:
        head, columns = [*head, "standard error"], [*columns, errors.tolist()]
    return PageTable(head, [*zip(*columns, strict=True)], bars=values)


def _sample_rows(estimator, rows):
    """Evenly spread rows and targets, or (None, None)."""
    X, y, classes = rows.X, rows.y, _classes_of(estimator)
    if X is None or rows.roles or sparse.issparse(X) or X.shape[1] > _WIDEST:
        return None, None
    kept = np.arange(len(y)) if classes is None else np.flatnonzero(np.isin(y, classes))
    kept = some(kept, _ROWS_SHUFFLED)
    return (None, None) if len(kept) < 2 else (taken_rows(X, kept), y[kept])


# --- Choice of the candidate ----------------------------------------------------------------------


def _leaderboard(estimator, notes):
    """The candidates, and why they were chosen."""
    board = getattr(estimator, "leaderboard_", [])
    if not board:
        return []
    report = getattr(estimator, "report_", None)
    report = None if report is None else named_report(report, notes)
    risk = "risk" if "risk" in board[0] else "progressive_error"
    risks = np.array([row[risk] for row in board], dtype=float)
    if report is None:
        head = [name.replace("_", " ") for name in board[0]]
        table = PageTable(head, [[*row.values()] for row in board], bars=risks)
        return [Section("Leaderboard", table)]
    head, *rows = report.table()
    chosen = [i for i, row in enumerate(board) if row["chosen"]]
    table = PageTable((*head[:-1], "share"), rows, chosen, risks)
    reason = Words(" ".join(report.sentences()), "text")
    return [Section("Leaderboard", table, reason, *map(Words, report.details()))]
