"""The large cases of the golden record: 3,000 rows and more, in the forms that users meet.

`LARGE` is the table of cases: {`large/` estimator `/` what it is about: `Case`}. A case raises if
anything in it is refused.
"""

import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from record_values import Leaves, published

import tunefree
from tunefree.core.registry import estimator_class
from tunefree.parts.families import FAMILIES, Quantile
from tunefree.parts.losses import Pinball

# Rows to predict, none of which is learned.
NEW = 300
ALPHAS = [0.05, 0.2]
# Units of the ten columns.
UNITS = [0.01, 0.1, 1.0, 1.0, 10.0, 100.0, 1.0, 5.0, 1.0, 0.3]


# ------------------------------------------------------------------------------ made-up data


class Rows(NamedTuple):
    """Rows, targets, and what may be given beside them, by the names of `fit`'s keywords."""

    X: Any
    y: Any
    beside: dict

    def part(self, start, stop):
        """Some of the rows."""
        take = slice(start, stop)
        X = self.X.iloc[take] if hasattr(self.X, "iloc") else self.X[take]
        y = self.y.iloc[take] if hasattr(self.y, "iloc") else self.y[take]
        return Rows(X, y, {name: values[take] for name, values in self.beside.items()})

    def given(self, names):
        """Some of what may be given beside them."""
        return {name: self.beside[name] for name in names}


def draw(n):
    """Ten columns in rough units, a score that is not linear in them, and values beside them."""
    rng = np.random.default_rng(23)
    Z = rng.normal(size=(n, len(UNITS))) * (rng.random((n, len(UNITS))) < 0.8)
    groups = rng.integers(0, 40, size=n)
    score = Z @ [1.0, -1.0, 0.5, 0.0, 0.0, 0.7, 0.0, 0.0, -0.3, 0.0]
    score += np.sin(2.0 * Z[:, 3]) + 0.4 * Z[:, 0] * Z[:, 5] + 0.5 * np.sin(groups)
    beside = {
        "sample_weight": 1.0 + np.arange(n) % 3,
        "exposure": rng.uniform(0.5, 3.0, size=n),
        "offset": 0.3 * rng.normal(size=n),
        "groups": groups,
    }
    return Z * UNITS, score / score.std(), beside, rng


def numbers(n):
    """Real targets whose noise grows with a column."""
    X, score, beside, rng = draw(n)
    return Rows(X, 30.0 + 4.0 * (score + 0.3 * (1.0 + X[:, 2] ** 2) * rng.normal(size=n)), beside)


def classes(n):
    """Two classes."""
    X, score, beside, rng = draw(n)
    return Rows(X, (score + 0.5 * rng.normal(size=n) > 0.2).astype(int), beside)


def several(n):
    """Three classes."""
    X, score, beside, rng = draw(n)
    return Rows(X, np.digitize(score + 0.4 * rng.normal(size=n), [-0.6, 0.8]), beside)


def grades(n):
    """Ordered classes that are text."""
    rows = several(n)
    return rows._replace(y=np.array(["low", "mid", "high"])[rows.y])


def ordered_grades(n):
    """The same as an ordered categorical."""
    import pandas as pd

    rows = grades(n)
    levels = pd.CategoricalDtype(["low", "mid", "high"], ordered=True)
    return rows._replace(y=pd.Series(rows.y, dtype=levels))


def counts(n):
    """Counts in proportion to the exposure."""
    X, score, beside, rng = draw(n)
    return Rows(X, rng.poisson(np.exp(0.4 * score) * beside["exposure"]).astype(float), beside)


def scattered_counts(n):
    """Counts with more variance than Poisson's, and a known term of their index."""
    X, score, beside, rng = draw(n)
    mean = np.exp(0.5 + 0.4 * score + beside["offset"]) * rng.gamma(2.0, 0.5, size=n)
    return Rows(X, rng.poisson(mean).astype(float), beside)


def amounts(n):
    """Positive amounts whose deviation is in proportion to the mean."""
    X, score, beside, rng = draw(n)
    return Rows(X, np.exp(1.0 + 0.5 * score) * rng.gamma(3.0, 1.0 / 3.0, size=n), beside)


def claims(n):
    """Sums of gamma amounts, Poisson many over the exposure: some are 0."""
    X, score, beside, rng = draw(n)
    many = rng.poisson(np.exp(-0.3 + 0.4 * score) * beside["exposure"])
    return Rows(X, np.where(many, rng.gamma(2.0 * np.maximum(many, 1), 0.5), 0.0), beside)


def trials(n):
    """Successes of several trials; these are the exposure."""
    X, score, beside, rng = draw(n)
    beside["exposure"] = rng.integers(3, 25, size=n).astype(float)
    successes = rng.binomial(beside["exposure"].astype(int), 1.0 / (1.0 + np.exp(-score)))
    return Rows(X, successes.astype(float), beside)


def two_targets(n):
    """Two real targets."""
    rows = numbers(n)
    return rows._replace(y=np.c_[rows.y, np.abs(rows.y - 30.0)])


def drifting(n):
    """Real targets whose coefficients change in the middle."""
    rows = numbers(n)
    return rows._replace(y=np.where(np.arange(n) < n // 2, rows.y, 60.0 - rows.y))


def draw_frame(n):
    """`draw`, as a frame of numbers with gaps, text, categories and days."""
    import pandas as pd

    X, score, beside, rng = draw(n)
    frame = pd.DataFrame(X[:, :6], columns=[f"x{j}" for j in range(6)])
    city = rng.integers(0, 6, size=n)
    frame["city"] = np.array(["Rome", "Oslo", "Bonn", "Lyon", "Graz", "Bari"])[city]
    frame["size"] = pd.Categorical(np.array(["S", "M", "L"])[rng.integers(0, 3, size=n)])
    frame["day"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D")
    frame.loc[rng.random(n) < 0.05, "x1"] = np.nan
    effect = 0.6 * np.array([1.0, 0.0, -1.0, 0.0, 0.5, 0.0])[city]
    return frame, score + effect, beside, rng


def frame_of_numbers(n):
    """A frame, real targets."""
    frame, score, beside, rng = draw_frame(n)
    return Rows(frame, 5.0 + score + 0.4 * rng.normal(size=n), beside)


def frame_of_classes(n):
    """A frame, two classes."""
    frame, score, beside, rng = draw_frame(n)
    return Rows(frame, (score + 0.4 * rng.normal(size=n) > 0.0).astype(int), beside)


def frame_of_counts(n):
    """A frame without gaps and days, counts in proportion to the exposure."""
    frame, score, beside, rng = draw_frame(n)
    frame = frame.drop(columns=["x1", "day"])
    return Rows(frame, rng.poisson(np.exp(0.4 * score) * beside["exposure"]).astype(float), beside)


# ------------------------------------------------------------------------------ how it is learned


def fit(model, rows, beside):
    """`fit`."""
    return model.fit(rows.X, rows.y, **beside)


def in_chunks(model, rows, beside):
    """`partial_fit`, 500 rows at a time."""
    known = {"classes": np.unique(rows.y)} if hasattr(model, "predict_proba") else {}
    for start in range(0, len(rows.y), 500):
        part = rows.part(start, start + 500)
        model.partial_fit(part.X, part.y, **known, **part.given(beside))
    return model


def one_by_one(model, rows, beside):
    """`learn_one`: each row is asked for first; labels come three rows late."""
    late = []
    for key, (x, y) in enumerate(zip(rows.X, rows.y.tolist(), strict=True)):
        if key:
            model.predict_one(x, key)
        late.append((x, y, key))
        if len(late) > 3:
            x, y, first = late.pop(0)
            model.learn_one(x, y, key=first)
    return model


def from_file(model, rows, beside):
    """`fit_source`, from a csv file with weights."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        names = ",".join(f"x{j}" for j in range(rows.X.shape[1]))
        table = np.c_[rows.X, rows.y, rows.beside["sample_weight"]].tolist()
        lines = (",".join(map(repr, row)) for row in table)
        path.write_text("\n".join([f"{names},y,w", *lines, ""]))
        source = tunefree.open_source(str(path), target="y", weight_column="w")
        return model.fit_source(source)


class CallbackLog:
    """Counts the tasks that a fit reports."""

    def __init__(self):
        self.begun, self.ended, self.models, self.at_most = Counter(), Counter(), Counter(), {}

    def setup(self, estimator, context):
        """Nothing."""

    def teardown(self, estimator, context):
        """Nothing."""

    def on_fit_task_begin(self, estimator, context):
        """Count a task that begins."""
        self.begun[context.task_name] += 1
        self.at_most[context.task_name] = context.max_subtasks or 0

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        """Count a task that ends."""
        self.ended[context.task_name] += 1
        self.models[context.task_name] += fitted_estimator is not None

    def tasks(self):
        """{Task: how often it began, ended and showed a model, and its subtasks at most}."""
        return {
            task: [self.begun[task], self.ended[task], self.models[task], self.at_most[task]]
            for task in self.begun
        }


# ------------------------------------------------------------------------------ what is read


def risks_of_halves(model, known, new, terms):
    """The progressive risk of all rows and of the last half."""
    return [model.progressive_risk(), model.progressive_risk(0.5)]


# Read after the fit: (model, learned rows, new rows, terms that predictions are given) -> value.
READS: dict[str, Callable] = {
    "predict_over_terms": lambda m, known, new, terms: m.predict(new.X, **terms),
    "score": lambda m, known, new, terms: m.score(new.X, new.y, **terms),
    "predict_interval": lambda m, known, new, terms: m.predict_interval(new.X, ALPHAS, **terms),
    "joint_interval": lambda m, known, new, terms: m.predict_interval(new.X, ALPHAS, joint=True),
    "stream_interval": lambda m, known, new, terms: m.predict_interval(new.X, 0.1),
    "predict_set": lambda m, known, new, terms: m.predict_set(new.X, ALPHAS),
    "predict_set_aps": lambda m, known, new, terms: m.predict_set(new.X, ALPHAS, score="aps"),
    "stream_set": lambda m, known, new, terms: m.predict_set(new.X, 0.1),
    "predict_venn_abers": lambda m, known, new, terms: m.predict_venn_abers(new.X),
    "summary": lambda m, known, new, terms: m.summary(known.X, known.y, **known.given(terms)),
    "coef_interval": lambda m, known, new, terms: m.coef_interval(
        known.X, known.y, **known.given(terms)
    ),
    "progressive_risk": risks_of_halves,
    "excess": lambda m, known, new, terms: m.excess(),
}


def properties(model):
    """Fitted attributes that are worked out when they are asked for."""
    leaves = Leaves()
    for name in dir(type(model)):
        fitted = name.endswith("_") and not name.startswith("_")
        if fitted and isinstance(getattr(type(model), name), property) and hasattr(model, name):
            leaves.add(name, getattr(model, name))
    return leaves


# ------------------------------------------------------------------------------ the cases


class Case(NamedTuple):
    """A case.

    Attributes
    ----------
    settings : dict
        Of the estimator.
    data : callable
        Gives so many rows.
    rows : int
        That are learned.
    beside : tuple of str
        What `fit` is given beside rows and targets.
    terms : tuple of str
        What of it predictions are given, too.
    reads : tuple of str
        Names of `READS`.
    learn : callable
        How it is learned: (model, rows, what is given) -> model.
    callbacks : bool
        Whether a callback counts the tasks.
    """

    settings: dict
    data: Callable
    rows: int = 3000
    beside: tuple = ()
    terms: tuple = ()
    reads: tuple = ()
    learn: Callable = fit
    callbacks: bool = False


WEIGHTS, EXPOSURE, OFFSET, GROUPS = ("sample_weight",), ("exposure",), ("offset",), ("groups",)
TABLE_OF_COEFFICIENTS = ("summary", "coef_interval")

CASES = {
    "RidgePathRegressor/weights, coefficients": Case(
        {}, numbers, 6000, WEIGHTS, reads=("predict_interval", *TABLE_OF_COEFFICIENTS)
    ),
    "RidgePathRegressor/sgd": Case(
        {"solver": "sgd"}, two_targets, 6000, reads=("joint_interval",), callbacks=True
    ),
    "KernelPiSTOLClassifier/three classes": Case(
        {"class_weight": "balanced"}, several, reads=("predict_set", "predict_venn_abers"),
        callbacks=True,
    ),
    "KernelPiSTOLRegressor/compress": Case(
        {"compress": 200}, numbers, beside=WEIGHTS, reads=("predict_interval",)
    ),
    "KernelRidgeClassifier/log loss": Case(
        {"loss": "log_loss", "n_landmarks": 150}, several, reads=("predict_set_aps",)
    ),
    "KernelRidgeRegressor/all rows, weights": Case(
        {}, numbers, beside=WEIGHTS, reads=("predict_interval",), callbacks=True
    ),
    "KernelRidgeRegressor/file": Case({}, numbers, learn=from_file, reads=("predict_interval",)),
    "KernelRidgeRegressor/compress": Case(
        {"n_landmarks": 200, "compress": 60}, two_targets, 6000
    ),
    "OptimisticPerceptron/weights": Case({"max_iter": 500}, classes, beside=WEIGHTS),
    "PiSTOLClassifier/sets, callbacks": Case(
        {"class_weight": "balanced"}, several, 6000, reads=("predict_set", "predict_venn_abers"),
        callbacks=True,
    ),
    "PiSTOLClassifier/chunks": Case(
        {}, classes, 6000, WEIGHTS, reads=("predict_set", "progressive_risk"), learn=in_chunks
    ),
    "PiSTOLRegressor/weights, intervals": Case(
        {}, numbers, 6000, WEIGHTS, reads=("predict_interval", "progressive_risk")
    ),
    "PiSTOLRegressor/quantile": Case({"loss": Pinball(0.8)}, numbers, 6000),
    "PiSTOLRegressor/file": Case({}, numbers, learn=from_file, reads=("predict_interval",)),
    "GLMClassifier/three classes": Case(
        {}, several, 6000, WEIGHTS, reads=("predict_set",), callbacks=True
    ),
    "GLMClassifier/file": Case({}, several, learn=from_file),
    "GLMClassifier/two classes": Case({}, classes, reads=("predict_set", "summary")),
    "GLMClassifier/grades": Case(
        {"family": "ordinal", "categories": ["low", "mid", "high"]}, grades,
        reads=("predict_set",),
    ),
    "GLMClassifier/ordered grades": Case(
        {"family": "ordinal"}, ordered_grades, beside=WEIGHTS
    ),
    "GLMRegressor/auto, exposure and offset": Case(
        {}, counts, 3000, EXPOSURE + OFFSET, EXPOSURE + OFFSET,
        ("predict_over_terms", "score", "predict_interval"),
    ),
    "GLMRegressor/poisson, exposure": Case(
        {"family": "poisson"}, counts, 6000, EXPOSURE, EXPOSURE,
        ("predict_over_terms", "score", "predict_interval", *TABLE_OF_COEFFICIENTS),
    ),
    "GLMRegressor/categories, exposure": Case(
        {"family": "poisson"}, frame_of_counts, 3000, EXPOSURE, EXPOSURE,
        ("predict_over_terms", "predict_interval", *TABLE_OF_COEFFICIENTS),
    ),
    "GLMRegressor/gamma, weights": Case(
        {"family": "gamma"}, amounts, beside=WEIGHTS,
        reads=("score", "predict_interval", "summary"),
    ),
    "GLMRegressor/tweedie, exposure": Case(
        {"family": "tweedie"}, claims, 3000, EXPOSURE, EXPOSURE,
        ("predict_over_terms", "score", "predict_interval", "summary"),
    ),
    "GLMRegressor/negative binomial, offset": Case(
        {"family": "negative_binomial"}, scattered_counts, 3000, OFFSET, OFFSET,
        ("predict_over_terms", "score", "predict_interval", "summary"),
    ),
    "GLMRegressor/negative binomial, exposure": Case(
        {"family": FAMILIES["negative_binomial"]}, counts, 3000, EXPOSURE, EXPOSURE,
        ("predict_over_terms",),
    ),
    "GLMRegressor/binomial counts": Case(
        {"family": "binomial"}, trials, 3000, EXPOSURE, EXPOSURE,
        ("predict_over_terms", "score", "predict_interval", "summary"),
    ),
    "GLMRegressor/quantiles": Case(
        {"family": Quantile((0.1, 0.5, 0.9))}, numbers, reads=("score",)
    ),
    "GLMRegressor/learned link": Case(
        {"family": "poisson", "link": "learned"}, counts, reads=("predict_interval",)
    ),
    "GLMRegressor/constraint": Case(
        {"family": "gaussian", "constraint": ["non_negative", None]}, numbers, callbacks=True
    ),
    "ReflectronRegressor/stochastic": Case(
        {"link": "exp", "solver": "stochastic", "max_iter": 5, "batch_size": 10}, counts
    ),
    "StreamClassifier/sets": Case(
        {}, several, beside=WEIGHTS, reads=("stream_set", "excess"), learn=in_chunks
    ),
    "StreamRegressor/drift": Case(
        {}, drifting, reads=("stream_interval", "excess"), learn=one_by_one
    ),
    "TablePreprocessor/frame": Case({}, frame_of_numbers, 6000, WEIGHTS),
    "TuneFreeClassifier/frame": Case(
        {}, frame_of_classes, beside=WEIGHTS, reads=("predict_set", "predict_venn_abers"),
    ),
    "TuneFreeClassifier/linear, beyond 8,000 rows": Case(
        {"candidates": ("linear",)}, classes, 8100, reads=("predict_set",)
    ),
    "TuneFreeClassifier/cross_fit": Case(
        {"candidates": ("linear",), "cross_fit": 3}, several, reads=("predict_set",)
    ),
    "TuneFreeClassifier/cv, scoring": Case(
        {"cv": 3, "scoring": "roc_auc", "class_weight": "balanced"}, classes, 2100
    ),
    "TuneFreeRegressor/beyond 8,000 rows": Case({}, numbers, 8100, callbacks=True),
    "TuneFreeRegressor/groups": Case({}, numbers, beside=GROUPS, reads=("predict_interval",)),
    "TuneFreeRegressor/budget, memory": Case(
        {"budget": 6.0, "max_memory": "100MB"}, frame_of_numbers, 8100, reads=("predict_interval",)
    ),
    "TuneFreeRegressor/two targets, cross_fit": Case(
        {"cross_fit": 2}, two_targets, 2100, reads=("joint_interval",)
    ),
    "TuneFreeRegressor/poisson, compress": Case(
        {"loss": "poisson", "compress": 100}, counts, 2100
    ),
}  # fmt: skip
LARGE = {f"large/{name}": case for name, case in CASES.items()}


def large(name):
    """A large case: its name, and what is predicted, published and read."""
    case = LARGE[name]
    model = estimator_class(name.split("/")[1])(**case.settings)
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    log = CallbackLog()
    if case.callbacks and hasattr(model, "set_callbacks"):  # scikit-learn 1.9 and later
        model.set_callbacks(log)

    rows = case.data(case.rows + NEW)
    known, new = rows.part(0, case.rows), rows.part(case.rows, None)
    beside = known.given(case.beside)
    model = case.learn(model, known, beside)

    leaves = published(model, new.X)
    leaves.update(properties(model))
    for read in case.reads:
        leaves.add(read, READS[read](model, known, new, new.given(case.terms)))
    if case.callbacks:
        leaves.add("callbacks", log.tasks())
    yield name, leaves
