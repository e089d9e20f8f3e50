"""The promise: one call that picks among the library's learners on the evidence of the data."""

import copy
import time
from collections.abc import Callable
from html import escape
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    MultiOutputMixin,
    RegressorMixin,
    clone,
)
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, check_consistent_length, column_or_1d
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from tunefree._parameters import seed_of
from tunefree._process import amount
from tunefree._registry import estimator_class
from tunefree.columns import asinh_scaling, show
from tunefree.engine.order import hashed_visits
from tunefree.estimators import base
from tunefree.estimators.base import CallbackSupport, report_progress
from tunefree.estimators.from_source import FitsSums
from tunefree.estimators.kernel.landmarks import affordable, grown
from tunefree.estimators.uncertainty_mixins import PredictsIntervals, PredictsSets
from tunefree.families import FAMILIES
from tunefree.learners.kernel.geometry import looked_at
from tunefree.links import LINKS
from tunefree.preprocessing import TablePreprocessor
from tunefree.protocols import MatrixLike, Seed, TargetLike
from tunefree.select.bandwidths import SCOUTED
from tunefree.select.candidates import (
    FEW_ROWS,
    Classes,
    Targets,
    finished,
    folds_of,
    importances,
    pilot_rows,
    price,
    race,
    searched,
    stack,
    unwarned,
    view_donor,
    wants_all_rows,
    weighted_mean,
)
from tunefree.select.costs import Cost, Limits, Plan
from tunefree.select.stacking import least_mean, stack_means
from tunefree.uncertainty import risk
from tunefree.uncertainty.calibration import calibrated
from tunefree.uncertainty.intervals import HeldOutProbabilities, Residuals, Scores

# Wider rows are not given to kernels on landmarks; sparse rows must fit when stored densely.
_MOST_COLUMNS, _MOST_CELLS = 2000, 2e8
# Kernels on landmarks, in the order in which one takes over the view of another.
_KERNELS = {"linear": "ridge on ranks and levels", "laplacian": "Laplace kernel",
            "rbf": "Gaussian kernel"}  # fmt: skip
LEADER = _KERNELS["rbf"]
# Ridge regression on the view is tried up to so many columns; kernels are solved exactly up to so
# many rows, and nothing else is needed up to half as many.
_FEW_COLUMNS, EXACT = 1000, 8000
# The Reflectron, which looks for few weights, takes part from so many columns on, and with
# fewer rows a column.
_WIDE, _WIDEST, _NARROW = 100, 10_000, 20
# Kernel PiSTOL is judged on the first rows up to so many: those whose kernel values can be kept.
MOST_ROWS = 16_384
# Fewer rows a column than that tell nothing of the rates that they chose themselves.
_RATED = 4
# Landmarks to which a plan may limit a kernel; of those that lead where rows are many.
_FEWER, _LEADING = (1000, 500, 250), 1000
# Rows that tell the columns' spread.
_MOST_SHOWN = 50_000


class Candidate(NamedTuple):
    """An estimator and how it takes part.

    Attributes
    ----------
    name : str
    family : {'linear', 'kernel'}
    estimator : estimator
    declared : callable
        Shape, candidate -> `Cost` of one fit.
    limits : tuple of int
        Landmarks, or rows, to which a plan may limit it, the largest first.
    asinh : bool
        Whether it is shown columns on an asinh scale.
    leads : bool
        Whether others take over its view of the columns, and it that of those before it.
    follows : bool
        Whether it is shown the columns as the kernel that leads is.
    alone : bool
        Whether its own view of the columns turned out better.
    at_once : bool
        Whether it learns all rows while it says what it thinks of those held.
    thirds : bool
        Whether it does so, but must not choose its rates by them: by thirds.
    together : tuple of ndarray of int
        Columns that are one column of the user's.
    known : estimator or None
        Itself after a pilot, whose bandwidths are taken over.
    pilot_seconds, pilot_risk, most_rows : float, float, int
        See `tunefree.select.candidates.Candidate`.
    """

    name: str
    family: str
    estimator: Any
    declared: Any
    limits: tuple = ()
    asinh: bool = False
    provides_view: bool = False
    reuses_view: bool = False
    adds_landmarks: bool = False
    at_once: bool = False
    three_folds: bool = False
    alone: bool = False
    column_groups: tuple = ()
    known: Any = None
    pilot_seconds: float = 0.0
    pilot_risk: float = np.nan
    most_rows: int = MOST_ROWS

    def cost(self, shape):
        """The `Cost` of one fit."""
        return self.declared(shape, self)

    def on_all_rows(self, shape):
        """The `Cost` of learning all rows after it was judged on some."""
        if not self.reuses_view or shape.n <= self.most_rows:
            return Cost(0.0, 0.0)
        return self._replace(most_rows=shape.n).cost(shape)

    @property
    def unit(self):
        """Of its `limits`."""
        return "rows" if self.reuses_view else "landmarks"

    def limited(self, limit):
        """Itself with so many landmarks, or judged after so many rows; None is as it is."""
        if limit is None:
            return self
        if self.reuses_view:
            return self._replace(most_rows=limit)
        return self.small(limit)

    def fit(self, X, y, weights, leader=None, **more):
        """A `Fitted` candidate on rows in random order; `more` is for its own `_learn`."""
        view, model = (), clone(self.estimator)
        if self.provides_view or self.adds_landmarks:
            more = {"like": leader, "column_groups": self.column_groups} | more
            if self.adds_landmarks and leader is not None:
                model.set_params(kernel=leader.kernel)
        elif self.reuses_view and leader is not None:
            more["like"] = self.known
            if not self.alone and leader.geometry_ is not None:
                view = (leader.view_, leader.geometry_)
                model.set_params(standardize=False)
        elif self.asinh:
            view = (asinh_scaling(X),)
        fitted = Fitted(view, model)
        with unwarned():
            learn = model._learn if more else model.fit
            learn(fitted.show(X), y, sample_weight=weights, **more)
        return fitted

    def permutation_effects(self, fitted, X, rows, score):
        """How its scores of the first rows change with columns of the next row; None if sparse."""
        if sparse.issparse(X):
            return None
        few = X[rows[: looked_at(self.most_rows, X.shape[1])]]
        columns, out = [*np.arange(X.shape[1])[:, None], *self.column_groups], []
        before = score.of(fitted, few)
        for column_groups in columns:
            changed = few.copy()
            changed[:, column_groups] = np.roll(few[:, column_groups], 1, axis=0)
            out.append(score.of(fitted, changed) - before)
        return np.array(out)

    def small(self, n_landmarks):
        """The kernel on landmarks with few of these, for a pilot."""
        return self._replace(estimator=clone(self.estimator).set_params(n_landmarks=n_landmarks))

    def after_pilot(self, fitted, seconds, risk, alone):
        """Itself, with the bandwidths and the view that the pilot found better."""
        return self._replace(
            known=fitted.model, pilot_seconds=seconds, pilot_risk=risk, alone=alone
        )


class Fitted(NamedTuple):
    """A fitted model and what its columns go through first."""

    view: tuple
    model: Any

    def show(self, X):
        """Rows as the model takes them."""
        return show(self.view, X.toarray() if self.view and sparse.issparse(X) else X)


class Compression(NamedTuple):
    """What fewer landmarks cost.

    Attributes
    ----------
    n_landmarks : int
        The most of a kernel.
    loss_before, loss_after : float
        Mean loss of the stack on rows left out, with all landmarks and with so few.
    standard_error : float
        Of their difference.
    """

    n_landmarks: int
    loss_before: float
    loss_after: float
    standard_error: float


def _is_small(X):
    """Whether indicators of levels are held densely, so that kernels are solved exactly."""
    return X.shape[0] <= EXACT and X.shape[1] <= _MOST_COLUMNS


class Shape(NamedTuple):
    """Rows, columns, stored entries and outputs of the data."""

    n: int
    d: int
    entries: float
    k: int

    def rows(self, n):
        """The same data with other rows."""
        return self._replace(n=n, entries=self.entries * n / self.n)


def shape_of(X, n_outputs):
    """The shape of rows held densely or sparsely."""
    entries = X.nnz if sparse.issparse(X) else X.size
    return Shape(X.shape[0], X.shape[1], float(max(entries, 1)), n_outputs)


# Seconds of the reference core by the data's shape, fitted to what was measured on 14 tables of 300
# to 16,000 rows (at the upper end), and bytes at the peak.


def _permutation_seconds(shape):
    """Of telling how scores move with every column."""
    return 4e-7 * min(shape.n, 1000) * shape.d * shape.k


def _linear_cost(shape, candidate):
    passes, outputs = np.clip(3.2e4 / shape.n, 3, 12), shape.entries * shape.k
    turned = 2 * shape.entries * shape.d if shape.d <= 1000 else 0.0
    seconds = 0.03 + 5.5e-8 * (5 + 2 * passes) * outputs + turned / 2e10
    return Cost(seconds, 2e7 + 40 * shape.entries + 130 * shape.n * shape.k)


def _ridge_cost(shape, candidate):
    work = 2 * shape.n * shape.d * min(shape.n, shape.d)
    return Cost(0.01 + work / 2e10, 90 * shape.entries + 50 * min(shape.d, 1000) ** 2)


def _reflectron_cost(shape, candidate):
    # Five folds and all rows, four potentials, some hundred steps of two sweeps each.
    return Cost(0.1 + 6 * 4 * 200 * shape.entries * shape.k / 5e8, 1e7 + 40 * shape.entries)


def _columns_cost(shape, candidate):
    work = shape.n * shape.d * min(shape.n, 2 * shape.d) + 20 * shape.d**3
    seconds = 0.02 + (work + 3e4 * shape.n + 1e6 * shape.k) / 2e10 + _permutation_seconds(shape)
    return Cost(seconds, 90 * shape.n * shape.d + 330 * shape.n * shape.k + 100 * shape.d**2)


def _landmark_cost(shape, candidate):
    n, few = shape.n, min(shape.n, 700)
    search = 60 * few**2 * (few + 2 * shape.d) * (1 + shape.k / 30)
    search *= 1.3 if candidate.estimator.kernel == "laplacian" else 1.0  # no product of matrices
    marks = candidate.estimator.n_landmarks
    if marks == "auto" and n <= EXACT:
        last, held = n**3 / 3, 17.0 * n**2 + 60 * n * shape.k
    else:
        m = affordable(n) if marks == "auto" else min(marks, n)
        last, held = n * m**2 + 20 * m**3, 60.0 * m**2 + 260 * n * shape.k
        if marks == "auto" and grown(n, shape.d):
            # Steps with and without the rows held, of half the kernel values each.
            last += 40 * n**2 / 2 * (25 + shape.d / 2 + 4 * shape.k)
            held += 40.0 * n * (shape.d + 10 * shape.k)
    last += n * min(n, 700) * 2 * shape.d
    few_rows = 130 * few**2 + 30 * n * shape.d
    return Cost(0.1 + (search + last) / 2e10 + _permutation_seconds(shape), held + few_rows)


def _kernel_cost(shape, candidate):
    n, width = min(shape.n, candidate.most_rows), shape.entries / shape.n

    def work(n):
        return n**2 * (width + 1250) + 13 * min(n, SCOUTED) ** 2 * (30 + 2 * shape.k)

    held = 4.0 * min(n, MOST_ROWS) ** 2 + 600 * n * shape.k + 16 * shape.entries
    # Two fits of a pilot, beside a kernel on few landmarks.
    return Cost(0.5 + (work(n) + 2 * work(pilot_rows(n))) / 2e10, 2e7 + held)


def candidates(task, family, X, n_outputs, seed, grouped=False, column_groups=(), n_jobs=None):
    """The candidates for some data, from cheap to dear, and why others are left out.

    `grouped` rows are left out by groups: exactly by kernels on all rows, fold by fold by others.
    """
    shape, out, left = shape_of(X, n_outputs), [], {}
    kind = "Classifier" if task == "classification" else "Regressor"
    is_sparse = sparse.issparse(X)
    dense = shape.entries >= 0.25 * shape.n * shape.d
    held = shape.d <= _MOST_COLUMNS and shape.n * shape.d <= _MOST_CELLS
    exact = held and not is_sparse and shape.n <= EXACT and family == "auto"
    if family in ("auto", "linear") and not exact:
        make = estimator_class(f"PiSTOL{kind}")(random_state=seed)
        if task == "regression" and (not is_sparse or shape.d <= 1000):
            ridge = estimator_class("AveragedSGDRegressor")(random_state=seed)
            out.append(Candidate("ridge", "linear", ridge, _ridge_cost))
        out.append(Candidate("linear", "linear", make, _linear_cost))
        if dense and not is_sparse:
            name = "linear, asinh columns"
            out.append(Candidate(name, "linear", make, _linear_cost, asinh=True))
        else:
            left["linear, asinh columns"] = "most entries are zero"
        if (
            _WIDE <= shape.d <= _WIDEST
            and shape.n < _NARROW * shape.d
            and (kind[0] == "C" or shape.k == 1)
        ):
            link = "logistic" if task == "classification" else "identity"
            make = estimator_class(f"Reflectron{kind}")(link=link, random_state=seed)
            out.append(Candidate("Reflectron", "linear", make, _reflectron_cost))
        else:
            left["Reflectron"] = "many rows a column, or too few or many columns"
    if family in ("auto", "kernel"):
        make = estimator_class(f"Landmark{kind}")
        if held:
            for kernel, name in _KERNELS.items():
                if kernel != "linear" or (family == "auto" and shape.d <= _FEW_COLUMNS):
                    one = make(kernel, n_jobs=n_jobs, random_state=seed)
                    if shape.n > EXACT:
                        one.set_params(n_landmarks=_LEADING)
                    linear = kernel == "linear"
                    cost = _columns_cost if linear else _landmark_cost
                    at_once = not grouped or not linear and shape.n <= EXACT
                    # So many rates fit noise: other rows have to judge them.
                    three_folds = not linear and shape.n < min(FEW_ROWS, _RATED * shape.d)
                    # All rows leave out groups exactly, landmarks do not.
                    limits = () if linear or grouped else tuple(m for m in _FEWER if m < shape.n)
                    out.append(
                        Candidate(
                            name, "linear" if linear else "kernel", one, cost, limits,
                            provides_view=True,
                            at_once=at_once and not three_folds, three_folds=three_folds,
                        )
                    )  # fmt: skip
            if shape.n > EXACT and not grouped:
                one = make(n_jobs=n_jobs, random_state=seed)
                limits = tuple(m for m in (4000, 2000) if m < shape.n)
                out.append(
                    Candidate(
                        "kernel on more rows", "kernel", one, _landmark_cost, limits,
                        adds_landmarks=True,
                        at_once=True,
                    )
                )  # fmt: skip
        else:
            left[LEADER] = f"{shape.d} columns are too many"
        if grouped:
            left["kernel PiSTOL"] = "it cannot leave out whole groups"
        elif (not exact or shape.n > EXACT // 2) and shape.n * shape.d <= _MOST_CELLS:
            one = estimator_class(f"KernelPiSTOL{kind}")(n_jobs=n_jobs, random_state=seed)
            out.append(
                Candidate(
                    "kernel PiSTOL", "kernel", one, _kernel_cost,
                    tuple(m for m in (MOST_ROWS // 2, MOST_ROWS // 4) if m < shape.n),
                    reuses_view=True, at_once=shape.n >= FEW_ROWS, most_rows=MOST_ROWS,
                )
            )  # fmt: skip
    order = list(_KERNELS.values())
    return sorted(
        [c._replace(column_groups=column_groups) for c in out],
        key=lambda c: (
            c.reuses_view + 2 * c.adds_landmarks,
            c.provides_view and order.index(c.name),
            not c.provides_view and c.cost(shape).seconds,
        ),
    ), left


class Report(NamedTuple):
    """What was tried, what was chosen and why: text in the shell, a table in notebooks.

    Attributes
    ----------
    estimator, task : str
    shape : tuple of int
        Distinct rows, columns as numbers, outputs.
    leaderboard : list of dict
    skipped : dict of str to str
        Candidates that do not suit the data, and why.
    reason : str
    plan : Plan
        What was to take part, and at what cost.
    seconds, refit_seconds : float or None
        None in a model from a file: how long a fit took is no part of the model.
    relevances : dict of str to float
        The columns that count most, at most ten.
    importances : dict of str to float
        Those without whose order the stack loses most on rows left out, and how much more.
    risk_interval : tuple of float or None
        In which the risk of the stack lies (95 %), and what that rests on.
    risk_interval_kind : str
    dropped : list of str
        Columns of which nothing is learned: text that hardly ever repeats.
    """

    estimator: str
    task: str
    shape: tuple
    leaderboard: list
    skipped: dict
    reason: str
    plan: Plan
    seconds: float | None
    refit_seconds: float | None
    relevances: dict = {}  # noqa: RUF012
    importances: dict = {}  # noqa: RUF012
    risk_interval: tuple | None = None
    risk_interval_kind: str = ""
    dropped: list = []  # noqa: RUF012

    def timeless(self):
        """The report without what was measured with a clock, as model files hold it."""
        board = [{**r, "seconds": None} for r in self.leaderboard]
        return self._replace(leaderboard=board, seconds=None, refit_seconds=None)

    def heading(self):
        """The first line."""
        n, d, _ = self.shape
        return f"{self.estimator}: {n} distinct rows, {d} columns as numbers"

    def sure(self):
        """How well the risk of the stack is known."""
        if self.risk_interval is None:
            return "How well the stack does is not known: no row was left out."
        low, high = self.risk_interval
        return f"Its risk lies in [{low:.4g}, {high:.4g}] (95 %): {self.risk_interval_kind}."

    def closing(self):
        """What was spent."""
        cost, told = self.plan.expected, self.plan.told
        words = [f"Planned: {cost.seconds:.2g} s at most, {amount(cost.bytes)}."]
        if self.seconds is not None:
            again = f"({self.refit_seconds:.2f} s for the last fit)"
            words.insert(0, f"In {self.seconds:.2f} s {again}.")
        return " ".join([*words, told] if told else words)

    def _without(self):
        """What took no part: candidates and columns."""
        lines = [f"Not suited: {name} ({why})." for name, why in self.skipped.items()]
        names = ", ".join(map(repr, self.dropped))
        return [*lines, f"Text that hardly ever repeats is left out: {names}."][
            : len(lines) + bool(names)
        ]

    def table(self):
        """Header and rows of text: candidate, risk and its error, log-loss, seconds, outcome."""
        classify = self.task == "classification"
        kind = "error" if classify else self.leaderboard[0].get("loss", "squared error")
        scores = ("log-loss",) if classify else ()
        judged = any("score" in r for r in self.leaderboard)
        scores += ("score",) if judged else ()
        rows: list[tuple] = [
            ("candidate", f"validation {kind}", "standard error", *scores, "seconds", "")
        ]
        for r in self.leaderboard:
            cells = [_formatted(r["risk"], ".4g"), _formatted(r["risk_se"], ".2g")]
            cells += [_formatted(r["log_loss"], ".4g")] if classify else []
            cells += [_formatted(r["score"], ".4g")] if judged else []
            status = f"{r['share']:.0%}" if r["chosen"] else r["status"].replace("finished", "")
            rows.append((r["candidate"], *cells, _formatted(r["seconds"], ".2f"), status))
        return rows

    def __repr__(self):
        rows = self.table()
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = [self.heading(), ""]
        for row in rows:
            cells = [row[0].ljust(widths[0])]
            cells += [cell.rjust(w) for cell, w in zip(row[1:-1], widths[1:-1], strict=True)]
            lines.append("  ".join([*cells, row[-1]]).rstrip())
        lines += ["", self.reason, self.sure(), self.closing()]
        if self.relevances:
            told = ", ".join(f"{name} {share:.0%}" for name, share in self.relevances.items())
            lines.append(f"Columns that count most: {told}.")
        if self.importances:
            told = ", ".join(f"{name} {more:.2g}" for name, more in self.importances.items())
            lines.append(f"Loss on rows left out rises most with these permuted: {told}.")
        lines += self._without()
        return "\n".join(lines)

    __str__ = __repr__

    def _repr_html_(self):
        head, *body = self.table()
        cells = "".join(f"<th>{escape(c)}</th>" for c in head)
        rows = "".join(
            f"<tr{' style=font-weight:bold' if r['chosen'] else ''}>"
            + "".join(f"<td>{escape(c)}</td>" for c in row)
            + "</tr>"
            for row, r in zip(body, self.leaderboard, strict=True)
        )
        columns = "".join(
            f"<tr><td>{escape(name)}</td><td>{share:.1%}</td><td>"
            f"<div style='background:#0072B2;height:.8em;width:{10 * share:.2f}em'></div></td></tr>"
            for name, share in self.relevances.items()
        )
        if columns:
            columns = f"<p>Columns that count most:</p><table><tbody>{columns}</tbody></table>"
        if self.importances:
            told = ", ".join(f"{name} {more:.2g}" for name, more in self.importances.items())
            columns += (
                f"<p>Loss on rows left out rises most with these permuted: {escape(told)}.</p>"
            )
        left = "".join(f"<p>{escape(line)}</p>" for line in self._without())
        return (
            f"<p>{escape(self.heading())}</p><table><thead><tr>{cells}</tr></thead>"
            f"<tbody>{rows}</tbody></table><p>{escape(self.reason)}</p>"
            f"<p>{escape(self.sure())}</p><p>{escape(self.closing())}</p>{columns}{left}"
        )


def _formatted(value, form):
    """A number as text, nothing for None."""
    return "" if value is None else format(value, form)


_FAMILIES = ("auto", "linear", "kernel")


def _parts_of(estimator, y, groups):
    """Which part every row has in every split of `cv`: 1 is learned, 2 left out, 0 neither."""
    cv = check_cv(estimator.cv, y, classifier=hasattr(estimator, "predict_proba"))
    found = [(np.asarray(a), np.asarray(b)) for a, b in cv.split(np.zeros(len(y)), y, groups)]
    parts = np.zeros((len(y), len(found)), dtype=np.int64)
    for j, (kept, out) in enumerate(found):
        parts[kept, j], parts[out, j] = 1, 2
    if ((parts == 2).sum(axis=1) > 1).any() or any(set(a) & set(b) for a, b in found):
        raise ValueError("cv= leaves rows out twice, or learns rows that it leaves out.")
    return parts


class Shown(NamedTuple):
    """What takes rows of the user's to those of a model of the stack."""

    table: Any
    view: tuple
    classes: np.ndarray | None

    def __call__(self, rows):
        """Rows with columns as the model takes them, and class numbers."""
        y = rows.y if self.classes is None else np.searchsorted(self.classes, rows.y)
        return rows._replace(X=Fitted(self.view, None).show(self.table.transform(rows.X)), y=y)


class _TuneFree(FitsSums, CallbackSupport, BaseEstimator):
    _FOR_FIT = ("cv", "scoring")
    classes_: np.ndarray
    prediction_limits_: tuple
    fit: Callable
    predict: Callable[..., np.ndarray]

    def __init__(
        self,
        family: str = "auto",
        *,
        budget: float | str | Plan | None = None,
        max_memory: float | str | None = None,
        categorical_features: Any = "from_dtype",
        compress: int | None = None,
        cross_fit: int | None = None,
        scoring: Any = None,
        cv: Any = None,
        n_jobs: int | None = None,
        random_state: Seed = None,
    ):
        self.family = family
        self.budget = budget
        self.max_memory = max_memory
        self.compress = compress
        self.cross_fit = cross_fit
        self.scoring = scoring
        self.cv = cv
        self.n_jobs = n_jobs
        self.categorical_features = categorical_features
        self.random_state = random_state

    def _numbers(self, X, y, sample_weight, groups, **checks):
        """The limits, the preprocessor, rows of numbers, targets, weights, and what is left out.

        That is groups, or with `cv` the part of every row in every split, or None. No row weighs
        nothing.
        """
        limits = Limits(self.budget, self.max_memory)
        if self.family not in _FAMILIES:
            raise ValueError(f"family={self.family!r} is none of {', '.join(_FAMILIES)}.")
        if self.compress is not None and not (
            isinstance(self.compress, int | np.integer) and self.compress > 0
        ):
            raise ValueError(f"compress={self.compress!r} is no positive number of landmarks.")
        if self.cross_fit is not None and not (
            isinstance(self.cross_fit, int | np.integer) and self.cross_fit >= 2
        ):
            raise ValueError(f"cross_fit={self.cross_fit!r} is no number of copies from 2 on.")
        base.check_columns(X)
        table = TablePreprocessor(categorical_features=self.categorical_features)
        table.fit(X, sample_weight=sample_weight)
        Z, y = base.check_rows_and_targets(self, table.transform(X), y, **checks)
        if sparse.issparse(Z) and not sparse.issparse(X) and _is_small(Z):
            Z = Z.toarray()
        self.n_features_in_ = table.n_features_in_
        if hasattr(table, "feature_names_in_"):
            self.feature_names_in_ = table.feature_names_in_
        weights = base.check_weights(sample_weight, Z)
        kept, given = weights > 0, None
        if groups is not None:
            groups = column_or_1d(groups)
            check_consistent_length(Z, groups)
        for name, value in (("compress", self.compress), ("cross_fit", self.cross_fit)):
            other = "cv" if self.cv is not None else "groups"
            barred = self.cv is not None or groups is not None and name == "compress"
            if barred and value is not None:
                raise ValueError(
                    f"{name}= and {other}= exclude each other: {name}= leaves rows out by its own "
                    "rule."
                )
        if self.cv is not None:
            given = _parts_of(self, y, groups)[kept]
        elif groups is not None:
            _, given = np.unique(groups[kept], return_inverse=True)
            if given.max() == 0:
                raise ValueError("groups= holds one group: no other could judge it.")
        if kept.all():
            return limits, table, Z, y, weights, given
        return limits, table, Z[kept], y[kept], weights[kept], given

    def _race(self, limits, table, X, y, labels, weights, groups, strata, score, n_outputs):
        """Hear the candidates, stack them, and fit those in the stack on all rows."""
        start, seed = time.perf_counter(), seed_of(self.random_state)
        scorer = None if self.scoring is None else check_scoring(self, self.scoring)
        affine = not sparse.issparse(X)
        if groups is not None:
            labels = np.column_stack([labels, groups])
        rows, totals = hashed_visits(X, labels, weights, seed, affine=affine).unique()
        X, y, strata = X[rows], y[rows], strata[rows]
        groups, splits = None if groups is None else groups[rows], None
        if self.cv is not None and groups is not None:
            splits = [(np.flatnonzero(p == 1), np.flatnonzero(p == 2)) for p in groups.T]
        # What is left out together: groups, or the part of `cv` that leaves a row out.
        blocks = groups if splits is None else np.argmax(groups == 2, axis=1)
        shape, task = shape_of(X, n_outputs), score.task
        # Columns that stand for one of the user's change together.
        many = np.flatnonzero(np.bincount(table.sources_) > 1)
        column_groups = tuple(np.flatnonzero(table.sources_ == j) for j in many)
        entrants, left = candidates(
            task, self.family, X, n_outputs, seed, groups is not None, column_groups, self.n_jobs
        )
        if splits is not None:
            entrants = [c._replace(at_once=False, three_folds=False) for c in entrants]
            groups = None
            if "kernel PiSTOL" in left:
                left["kernel PiSTOL"] = "cv= wants it fold by fold"
        if hasattr(score, "family"):
            one = estimator_class("ReflectronRegressor")(family=score.family, random_state=seed)
            name = f"Reflectron, {type(score.family).__name__}"
            entrants.append(
                Candidate(name, "linear", one, _reflectron_cost, column_groups=column_groups)
            )
        if not entrants:
            raise ValueError(
                f"family={self.family!r} has no candidate for {shape.d} columns: " +
                "; ".join(f"{name}: {why}" for name, why in left.items())
            )  # fmt: skip
        for c in entrants:
            if c.reuses_view and self.compress is not None:
                c.estimator.set_params(compress=int(self.compress))
        plan, entrants = limits.plan_for(
            entrants, lambda c: price(c, shape, splits), lambda c: c.on_all_rows(shape)
        )
        entries = race(entrants, plan, X, y, totals, strata, score, self._progress, groups, splits)
        joined: Any
        joined, chosen, reason = stack(entries, y, totals, score)
        scored: dict[str, float] = {}
        if scorer is not None and joined is not None:
            joined, chosen, words, scored = self._scored(
                scorer, entries, joined, chosen, y, totals, score
            )
            reason = f"{reason} {words}"
        self.compression_ = None
        if self.compress is not None and joined is not None:
            joined, chosen, words = self._compressed(joined, chosen, X, y, totals, score)
            reason = f"{reason} {words}"
        begin, again, leader, fits = time.perf_counter(), [], view_donor(entries), []
        for entry in chosen:
            candidate, fitted = entry.candidate, entry.fitted
            more = fitted is None
            if (
                candidate.reuses_view
                and plan.again is not None
                and wants_all_rows(entry, shape.n, totals)
            ):
                candidate = candidate._replace(known=fitted.model)
                more = not self._progress.stopped
            if more:
                self._progress.begin(f"{candidate.name} on all rows")
                fitted = candidate.fit(X, y, totals, leader)
                self._progress.end()
                again.append(candidate.name)
            fits.append(fitted)
        refit = time.perf_counter() - begin
        self.table_, self.models_ = table, [fitted.model for fitted in fits]
        self.views_ = [fitted.view for fitted in fits]
        for model in self.models_:  # the stack's own are what counts
            vars(model).pop("held_out_", None)
        self.weights_ = np.ones(1) if joined is None else joined.weights
        self.offsets_ = np.zeros(n_outputs) if joined is None else joined.offsets
        shares = np.ones(1) if joined is None else joined.shares
        self.chosen_ = {e.candidate.name: float(s) for e, s in zip(chosen, shares, strict=True)}
        self.column_relevances_ = _relevances(fits, shares, X, totals, leader)
        worse = importances(joined, chosen, y, totals, score)
        if worse is not None:
            self.permutation_importances_ = np.zeros(self.n_features_in_)
            self.permutation_importances_[table.sources_] = worse[: X.shape[1]]
            self.permutation_importances_[many] = worse[X.shape[1] :]
        self.seconds_ = time.perf_counter() - start
        self.leaderboard_ = _leaderboard(entries, self.chosen_, totals, shape, task)
        if hasattr(score, "family"):
            self.leaderboard_ = [r | {"loss": score.kind} for r in self.leaderboard_]
        if scored:
            self.leaderboard_ = [
                r | {"score": scored.get(r["candidate"])} for r in self.leaderboard_
            ]
        self.traces_ = {e.candidate.name: e.trace for e in entries if e.trace is not None}
        held = np.empty(0, np.int64) if joined is None else chosen[0].rows
        held_out = np.zeros((0, n_outputs))
        if joined is not None:
            held_out = joined.join([e.scores for e in chosen])
        own = None if blocks is None else blocks[held]
        losses = self._set_held_out(held_out, X[held], y[held], totals[held], leader, score, own)
        self.risk_interval_, self.risk_interval_kind_ = risk.held_out(
            losses, totals[held], bounded=task == "classification", once=len(held) < shape.n,
            spent=searched(chosen),
        )  # fmt: skip
        last = f"Fitted again on all rows: {', '.join(again)}." if again else ""
        self.plan_ = plan
        self.report_ = Report(
            type(self).__name__, task, (shape.n, shape.d, shape.k), self.leaderboard_, left,
            f"{reason} {last}".strip(), plan, self.seconds_, refit, self._most_relevant(),
            self._most_important(), self.risk_interval_, self.risk_interval_kind_, table.dropped_,
        )  # fmt: skip
        self._distinct = rows, totals, strata, groups

    def _fit_rows(self, rows):
        """Race on an even sample; then those in the stack learn all rows, if they can."""
        classify = isinstance(self, ClassifierMixin)
        sample = rows.drawn(seed_of(self.random_state), EXACT, classify)
        self.fit(sample.X, sample.y, sample_weight=sample.weights)
        if sample.whole:
            return
        told = {True: [], False: []}
        for i, (name, view, model) in enumerate(
            zip(self.chosen_, self.views_, self.models_, strict=True)
        ):
            shown = Shown(self.table_, view, self.classes_ if classify else None)
            every, known = rows.shown(shown), shown(sample)
            if hasattr(model, "_fit_rows"):
                learned = clone(model)._fit_rows(every, known, like=model)
                vars(learned).pop("held_out_", None)
            else:
                learned = every.fitted(clone(model))
            told[learned is not None].append(name)
            self.models_[i] = model if learned is None else learned
        if not classify:  # no farther beyond the sample than it is wide
            low, high = self.prediction_limits_
            ends = np.clip(sample.ends, 2.0 * low - high, 2.0 * high - low)
            self.prediction_limits_ = (ends[0] if (sample.ends[0] < 0.0).any() else low, ends[1])
        words = [f"Chosen on {len(sample.y)} rows drawn evenly."]
        words += [f"Fitted on all {rows.n_rows}: {', '.join(told[True])}."] * bool(told[True])
        words += [f"Not on all: {', '.join(told[False])}."] * bool(told[False])
        self.report_ = self.report_._replace(reason=" ".join([self.report_.reason, *words]))

    def _set_held_out(self, scores, X, y, weights, leader, score, groups):
        """Abstract: keep what the stack said of rows left out; gives its losses there."""
        raise NotImplementedError

    def _own(self, copy, X, y, weights):
        """Abstract: what a cross-fitted copy says of rows that it left out."""
        raise NotImplementedError

    def _cross_fit(self, X, y, sample_weight):
        """Keep copies of the whole, each fitted without its part of the distinct rows."""
        (rows, totals, strata, groups), self.copies_ = vars(self).pop("_distinct"), []
        if self.cross_fit is None:
            return
        if sample_weight is not None:
            rows = np.flatnonzero(np.asarray(sample_weight) > 0)[rows]
        fold, count = folds_of(strata, groups, int(self.cross_fit))
        for f in range(count):
            kept, out = np.flatnonzero(fold != f), np.flatnonzero(fold == f)
            one: Any = clone(self).set_params(cross_fit=None)
            if isinstance(self.budget, Plan):  # it is of all rows
                one.set_params(budget=None)
            if getattr(self, "class_weight", None) is not None:  # the totals hold it
                one.set_params(class_weight=None)
            shown = _safe_indexing(X, rows[kept])
            one.fit(
                shown, _safe_indexing(y, rows[kept]), totals[kept],
                groups=None if groups is None else groups[kept],
            )  # fmt: skip
            held = _safe_indexing(X, rows[out]), _safe_indexing(y, rows[out])
            self.copies_.append((one, self._own(one, *held, totals[out])))

    def _scored(self, scorer, entries, joined, chosen, y, weights, score):
        """The stack, or the one candidate of a better score on rows left out; words and scores."""
        rows, scores, alone = chosen[0].rows, {}, {}

        def told(one, parts):
            copied: Any = copy.copy(self)
            copied.calibration_, copied.models_ = None, []
            copied._joined = lambda X, score: one.join([e.scores for e in parts])
            right = self.classes_[y[rows]] if score.task == "classification" else y[rows]
            return float(scorer(copied, rows[:, None], right, sample_weight=weights[rows]))

        best = whole = told(joined, chosen)
        picked: Any = joined, chosen
        for entry in finished(entries):
            name = entry.candidate.name
            alone[name] = score.stack([entry.scores], y[rows], weights[rows])
            scores[name] = told(alone[name], [entry])
            if scores[name] > best:
                best, picked = scores[name], (alone[name], [entry])
        winner = "the stack" if picked[0] is joined else repr(picked[1][0].candidate.name)
        words = f"By {self.scoring} on rows left out {winner} is best: {best:.4g}"
        words += "." if best == whole else f", {whole:.4g} of the stack."
        return *picked, words, scores

    def _compressed(self, before, entries, X, y, weights, score):
        """The stack of the same kernels on fewer landmarks, its entries and what that costs."""
        few, out, rows = int(self.compress or 0), [], entries[0].rows
        held = np.isin(np.arange(len(y)), rows)
        for entry in entries:
            candidate = entry.candidate
            marks: Any = None if entry.fitted is None else entry.fitted.model
            kernel = (
                candidate.provides_view and candidate.family == "kernel" or candidate.adds_landmarks
            )
            if kernel and len(marks.dual_coef_) > few:
                candidate, more = candidate.small(few), {"held": held}
                fitted = candidate.fit(X, y, weights, marks, **more)
                scores = score.recalled(fitted)
                losses, second = score.judge(scores, y[rows], weights[rows])
                permutation_effects = vars(fitted.model).pop("held_out_effects_")
                entry = entry._replace(
                    fitted=fitted,
                    scores=scores,
                    losses=losses,
                    second=second,
                    permutation_effects=permutation_effects,
                )
            out.append(entry)
        found, kept, words = stack(out, y, weights, score)
        after: Any = found
        was, now = (float(weighted_mean(s.losses, weights[rows])[0]) for s in (before, after))
        error = float(weighted_mean(after.losses - before.losses, weights[rows])[1])
        self.compression_ = Compression(few, was, now, error)
        return after, kept, (
            f"On at most {few} landmarks: {words} That is {now:.4g} where it was {was:.4g} "
            f"(difference +- {error:.2g})."
        )  # fmt: skip

    def _joined(self, X, score):
        """The stack's scores of rows of the user's."""
        check_is_fitted(self, "models_")
        X = self.table_.transform(X)
        total = np.zeros((X.shape[0], len(self.offsets_))) + self.offsets_
        for a, view, model in zip(self.weights_, self.views_, self.models_, strict=True):
            total += a * score.of(Fitted(view, model), X)
        return total.astype(X.dtype if X.dtype == np.float32 else np.float64)

    def _model_state(self):
        """What a model file holds: no times, so that equal fits make equal files."""
        names = [n for n in vars(self) if n.endswith("_") and not n.startswith("_")]
        state, report = {n: vars(self)[n] for n in sorted(names)}, self.report_.timeless()
        return state | {"report_": report, "leaderboard_": report.leaderboard, "seconds_": None}

    @property
    def relevances_(self) -> np.ndarray:
        """How much each column of X counts for the predictor, shape (n_features,), sum 1.

        The columns' shares of the mean squared change of the prediction when one column alone is
        drawn from another row (of a linear model coefficient times deviation, squared); of a stack
        the mean of its models', by their shares. They have no units. What a column is worth for new
        rows is another question, which `permutation_importances_` answers from rows left out.
        """
        each = self._column_relevances()
        return np.bincount(self.table_.sources_, each, self.n_features_in_)

    @property
    def relevances_by_level_(self) -> dict[str, dict[str, float]]:
        """For every column of categories, by name: the shares of its levels in `relevances_`."""
        each, table = self._column_relevances(), self.table_
        names = _check_feature_names_in(table).tolist()
        out = {}
        for j in np.flatnonzero(table.kinds_ == "category").tolist():
            levels = [*table.levels_[str(j)], "(rare)"]
            of = each[table.sources_ == j].tolist()
            out[names[j]] = dict(zip(levels, of, strict=False))
        return out

    @property
    def feature_importances_(self) -> np.ndarray:
        """`relevances_` by scikit-learn's name: free of units, shape (n_features,), sum 1."""
        return self.relevances_

    @property
    def coef_(self) -> np.ndarray:
        """Coefficients, where every model of the stack is linear in the columns of `table_`.

        Shape (n_columns_out,), for several targets or for classes (n_outputs, n_columns_out), of
        the columns that `coef_names_` names: within the models' limits predictions, or log-odds,
        are ``table_.transform(X) @ coef_.T + intercept_``.
        """
        return self._line()[0]

    @property
    def intercept_(self) -> np.ndarray:
        """What goes with `coef_`: a number, or one an output."""
        return self._line()[1]

    @property
    def coef_names_(self) -> np.ndarray:
        """The names of the columns of `coef_`."""
        check_is_fitted(self, "models_")
        return self.table_.get_feature_names_out()

    def _line(self):
        check_is_fitted(self, "models_")
        known = getattr(self, "classes_", ())
        coef: Any = 0.0
        intercept: Any = self.offsets_
        for a, view, model in zip(self.weights_, self.views_, self.models_, strict=True):
            link = getattr(model, "link_", None)
            straight = link is None or link == LINKS["identity" if len(known) == 0 else "logistic"]
            whole = len(known) == len(getattr(model, "classes_", ()))
            if view or not hasattr(model, "coef_") or not straight or not whole:
                raise AttributeError(
                    f"coef_ is of linear stacks; this one holds {', '.join(self.chosen_)}."
                )
            coef = coef + a * np.atleast_2d(model.coef_).astype(np.float64)
            intercept = intercept + a * np.atleast_1d(model.intercept_)
        mended = getattr(self, "calibration_", None)
        if mended is not None:  # it is affine
            level = mended.of(intercept[None])
            coef, intercept = mended.of(intercept + coef.T).T - level.T, level[0]
        if len(known) == 0 and self.flat_:
            return coef[0], intercept[0]
        return coef, intercept

    flat_: bool

    def _most_relevant(self, most=10):
        """The columns that count, the most relevant first, by name."""
        if not len(self.column_relevances_):
            return {}
        each = self.relevances_
        order = [j for j in np.argsort(-each, kind="stable")[:most].tolist() if each[j] >= 0.005]
        return {name: float(each[j]) for name, j in zip(self._named(order), order, strict=True)}

    def _named(self, places):
        """The names of a few columns of X."""
        names = getattr(self.table_, "feature_names_in_", None)
        return [f"x{j}" if names is None else str(names[j]) for j in places]

    def _most_important(self, most=10):
        """The columns whose permutation costs most, by name, and what it costs."""
        each = getattr(self, "permutation_importances_", np.empty(0))
        order = np.argsort(-each, kind="stable")[:most].tolist()
        order = [j for j in order if each[j] > 0.01 * each.max()]
        return {name: float(each[j]) for name, j in zip(self._named(order), order, strict=True)}

    def _column_relevances(self):
        check_is_fitted(self, "models_")
        if not len(self.column_relevances_):
            raise AttributeError("No model of this stack tells the relevance of columns.")
        return self.column_relevances_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def _relevances(fits, shares, X, weights, leader):
    """The columns' shares by the models that tell them, by their shares; empty without any."""
    found, heavy = [], []
    for (view, model), share in zip(fits, shares, strict=True):
        if hasattr(model, "relevance_"):
            each = model.relevance_
        elif hasattr(model, "coef_"):
            shown = Fitted(view, model).show(X[:_MOST_SHOWN])
            w = weights[:_MOST_SHOWN] / weights[:_MOST_SHOWN].sum()
            square = shown.multiply(shown) if sparse.issparse(shown) else np.square(shown)
            spread = np.sqrt(np.maximum(square.T @ w - np.square(shown.T @ w), 0.0))
            each = np.square(np.atleast_2d(model.coef_) * spread).sum(axis=0)
        elif view and leader is not None:  # it measures with the leader's geometry
            each = leader.relevance_
        else:
            continue
        found.append(each / max(each.sum(), 1e-300))
        heavy.append(share)
    if not found:
        return np.empty(0)
    total = np.array(heavy) @ np.array(found, dtype=np.float64)
    # A predictor that is constant has no column to name.
    return total / total.sum() if total.any() else np.full(len(total), 1.0 / len(total))


def _leaderboard(entries, chosen, weights, shape, task):
    """One dict a candidate, those in the stack first, then by risk."""
    board = []
    for e in entries:
        known = len(e.losses) > 0
        mean, error = weighted_mean(e.losses, weights[e.rows]) if known else (np.nan, np.nan)
        score = {}
        if task == "classification":
            logs = weighted_mean(e.second, weights[e.rows])[0] if known else None
            score = {"log_loss": None if logs is None else float(logs)}
        board.append(
            {
                "candidate": e.candidate.name,
                "risk": float(mean) if known else None,
                "risk_se": float(error) if known else None,
                "risk_interval": risk.held_out(
                    e.losses,
                    weights[e.rows],
                    bounded=task == "classification",
                    once=len(e.losses) < shape.n,
                    spent=searched([e]),
                )[0],
                **score,
                "share": chosen.get(e.candidate.name, 0.0),
                "seconds": float(e.seconds),
                "cost": price(e.candidate, shape).seconds,
                "rows": len(e.rows),
                "chosen": e.candidate.name in chosen,
                "status": e.status,
            }
        )
    return sorted(board, key=lambda r: (-r["share"], r["risk"] is None, r["risk"] or 0.0))


class Means(NamedTuple):
    """Of regression: predictions, judged by the deviance of a family.

    Attributes
    ----------
    family : part of `tunefree.families`
    least : float
        The least mean to believe.
    """

    family: Any
    least: float
    task = "regression"
    of, recalled = Targets.of, Targets.recalled

    @property
    def kind(self):
        """What the leaderboard calls the risk."""
        return f"{type(self.family).__name__} deviance"

    def losses(self, predicted, y):
        """Deviances."""
        mean = self.family.clipped(np.maximum(predicted[:, 0], self.least))
        return self.family.deviance(y, mean)

    def judge(self, predicted, y, weights):
        """Deviances, twice."""
        cost = self.losses(predicted, y)
        return cost, cost

    def stack(self, scores, y, weights, _=0.0):
        """The stack of least deviance."""
        return stack_means(scores, y[:, None], weights, self.family)


class TuneFreeClassifier(PredictsSets, ClassifierMixin, _TuneFree):
    r"""Classification in one call: candidates race on rows that they have not seen.

    Any table goes in: raw numbers of any scale, sparse matrices, pandas, polars and pyarrow columns
    with categories and missing values. Kernels with a geometry learned from the data, ridge
    regression on ranks and levels, linear PiSTOL and kernel PiSTOL say what they think of rows that
    they have not learned: of every row below 2,000 rows, else of a fifth (at most 5,000). Their
    weighted sum with the least log-loss on these rows is the model.

    Parameters
    ----------
    family : {'auto', 'linear', 'kernel'}, default='auto'
        Which candidates to consider.
    budget : float, str, Plan or None, default=None
        Seconds that judging and fitting may take: of a reference core, by formulas of the data's
        shape, so that the choice is the same on every machine (None: 300). Text such as '60s' is
        seconds of the clock, from the call on; the machine's speed is then measured first. What
        goes beyond it is made smaller or left out, the dearest first, before any work starts
        (`plan_`); the cheapest candidate always runs. A plan of another fit is followed again.
    max_memory : float, str or None, default=None
        Bytes that the fit may take beside the data, or text such as '2GB'; candidates that need
        more are made smaller or left out. None is three quarters of what the process may have.
    categorical_features : array-like, 'from_dtype' or None, default='from_dtype'
        Columns that are categories although they hold numbers: a mask, positions or names. Text and
        columns of a category type always are. Columns of 3 to 30 whole numbers are read as numbers
        and as levels, declared or not.
    compress : int or None, default=None
        The most landmarks that a kernel keeps: predictions cost as much time less as there are
        fewer. What that costs on rows left out is `compression_`.
    cross_fit : int or None, default=None
        Keep so many copies of the whole, each fitted without its part of the rows: sets and
        intervals (`predict_set`, `predict_interval`) then have a guarantee for finitely many rows.
        The fit costs as many times more.
    scoring : str, callable or None, default=None
        A scorer of scikit-learn ('roc_auc', 'balanced_accuracy', ...): the stack gives way to a
        candidate alone that scores better on rows left out, and `leaderboard_` tells every 'score'.
    cv : int, splitter of scikit-learn, iterable or None, default=None
        Which rows are left out, in place of the race's own rule: ``TimeSeriesSplit()`` for rows in
        the order of time. No row may be left out twice; all candidates are then judged fold by
        fold. Model files keep no splitter and no callable.
    class_weight : dict, 'balanced' or None, default=None
        Weights of classes, which multiply those of rows; probabilities are those of a population
        weighed so.
    n_jobs : int or None, default=None
        Threads of kernels, all by default; results do not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of the hash that orders rows.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    chosen_ : dict of str to float
        The models of the stack by name, the largest first, and their shares: weight times size of
        what they say; they sum to 1.
    models_ : list of estimator
        Those models, fitted on the class numbers of all rows.
    views_ : list of tuple of parts
        What columns go through before each of `models_`.
    weights_ : ndarray of shape (n_models,)
    offsets_ : ndarray of shape (1,) or (n_classes,)
        The log-odds are the offsets plus the weighted sum of the models' log-odds.
    relevances_ : ndarray of shape (n_features,)
        How much each column counts for the predictor, free of units; they sum to 1.
    feature_importances_ : ndarray of shape (n_features,)
        The same by scikit-learn's name.
    coef_, coef_names_, intercept_ : ndarray
        Where every model of the stack is linear: coefficients of the columns that `table_` makes,
        their names, and the intercepts.
    relevances_by_level_ : dict of str to dict
        The same for the levels of every column of categories.
    column_relevances_ : ndarray of shape (n_columns_out,)
        The same for the columns that `table_` makes; empty if no model tells any.
    permutation_importances_ : ndarray of shape (n_features,)
        How much more the stack loses (log-loss, squared error) on rows left out when a column comes
        from other rows: what the column is worth for new rows. No model is fitted for it; missing
        where a model of the stack does not know (those of sparse rows, and fold by fold).
    compression_ : part or None
        With `compress`: n_landmarks, loss_before, loss_after and the standard_error of their
        difference (what kernel PiSTOL loses is its own `compression_`).
    risk_interval_ : tuple of float or None
        In which the share of errors on new rows lies (95 %), and `risk_interval_kind_` what that
        rests on.
    held_out_ : part
        What the stack said of rows left out.
    calibration_ : part or None
        A slope and an offset for every class of several, where they pay on rows left out.
    copies_ : list
        With `cross_fit`: the copies, and what each said of the rows that it left out.
    table_ : TablePreprocessor
    leaderboard_ : list of dict
        For every candidate, those in the stack first: 'risk' (share of errors on rows left out),
        its standard error 'risk_se' and 'risk_interval', its 'log_loss', its 'share' of the stack,
        'seconds' of judging, 'cost' (what the plan counts for it), 'rows' scored, 'chosen',
        'status'.
    plan_ : Plan
        What was to take part, how it was limited, what it costs in seconds and bytes at most: fixed
        before any work started. As `budget=` it is followed again.
    traces_ : dict of str to dict
        For candidates that predict every row before they learn it: 'rows' seen and 'risk' so far.
    report_ : part
        Says what was stacked and why, and which columns count: text in the shell, tables in
        notebooks.
    seconds_ : float
        What the fit took. Like the seconds in `leaderboard_` and `report_` it is no part of the
        model: a file does not hold it, so that fits of equal seeds make equal files.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    Raises
    ------
    ValueError
        For infinite values, labels of one class, weights that are all zero, groups that are one.
    MemoryError
        Before work starts, if `max_memory` is too little for any candidate.

    References
    ----------
    Blum, Kalai and Langford 1999, "Beating the hold-out"; the rule is in docs/selection.md.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tunefree import TuneFreeClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = TuneFreeClassifier(family="linear", random_state=0).fit(X[:400], y[:400])
    >>> bool(model.score(X[400:], y[400:]) > 0.95)
    True
    """

    def __init__(
        self,
        family: str = "auto",
        *,
        budget: float | str | Plan | None = None,
        max_memory: float | str | None = None,
        categorical_features: Any = "from_dtype",
        compress: int | None = None,
        cross_fit: int | None = None,
        scoring: Any = None,
        cv: Any = None,
        n_jobs: int | None = None,
        random_state: Seed = None,
        class_weight: Any = None,
    ):
        super().__init__(
            family, budget=budget, max_memory=max_memory,
            categorical_features=categorical_features, compress=compress, cross_fit=cross_fit,
            scoring=scoring, cv=cv, n_jobs=n_jobs, random_state=random_state,
        )  # fmt: skip
        self.class_weight = class_weight

    @report_progress
    def fit(
        self,
        X: MatrixLike,
        y: TargetLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Judge the candidates, stack them, and fit those in the stack.

        Parameters
        ----------
        X : frame, array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.
        groups : array-like of shape (n_samples,), optional
            What belongs together: rows of a group are left out together, so that none of them is
            judged by what was learned from another. Kernels on all rows leave them out exactly,
            others by folds of whole groups. With `cv` they are for the splitter.

        Returns
        -------
        self
        """
        shape = np.asarray(y).shape
        if len(shape) == 2 and shape[1] > 1:
            raise ValueError(
                f"y has {shape[1]} columns, but a row has one label here. For several fit a model "
                "for each column: MultiOutputClassifier(TuneFreeClassifier()) of scikit-learn."
            )
        limits, table, Z, known, weights, groups = self._numbers(X, y, sample_weight, groups)
        self.classes_, codes = base.encode_labels(known, fewest=2)
        weights = base.balanced(self.class_weight, self.classes_, codes, weights)
        k, labels = len(self.classes_), codes[:, None].astype(float)
        score, outputs = Classes(k), 1 if k == 2 else k
        self._race(limits, table, Z, codes, labels, weights, groups, codes, score, outputs)
        self._cross_fit(X, y, sample_weight)
        return self

    def _set_held_out(self, scores, X, y, weights, leader, score, groups):
        self.calibration_ = None
        if scores.shape[1] > 1:
            self.calibration_ = calibrated(scores, y, weights)
        p = base.probabilities(self._calibrated(scores), joint=True)
        self.held_out_ = base.held_out_probabilities(p, y, weights)
        return HeldOutProbabilities(p, y, weights).wrong()

    def _own(self, copy, X, y, weights):
        return HeldOutProbabilities(
            self._of_copy(copy, X), np.searchsorted(self.classes_, y), weights
        )

    def _calibrated(self, scores):
        told = self.calibration_
        return scores if told is None else told.of(scores).astype(scores.dtype)

    def _log_odds(self, X):
        check_is_fitted(self, "models_")
        return self._calibrated(self._joined(X, Classes(len(self.classes_))))

    def decision_function(self, X: MatrixLike) -> np.ndarray:
        """Log-odds of the second class, or of every class; shape (n,) or (n, n_classes)."""
        scores = self._log_odds(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: MatrixLike) -> np.ndarray:
        """The most likely class of every row, shape (n_samples,)."""
        scores = self._log_odds(X)
        return self.classes_[base.chosen(scores)]

    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Calibrated probabilities of the classes, shape (n_samples, n_classes)."""
        return base.probabilities(self._log_odds(X), joint=True)

    def predict_log_proba(self, X: MatrixLike) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        return np.log(self.predict_proba(X))


class TuneFreeRegressor(PredictsIntervals, RegressorMixin, MultiOutputMixin, _TuneFree):
    r"""Regression in one call: candidates race on rows that they have not seen.

    As `TuneFreeClassifier`, with exact ridge regression as one more candidate: the weighted sum has
    the least squared error on rows left out, or the least deviance of counts or amounts (`loss`).

    Parameters
    ----------
    family : {'auto', 'linear', 'kernel'}, default='auto'
        Which candidates to consider.
    budget : float, str, Plan or None, default=None
        See `TuneFreeClassifier`.
    max_memory : float, str or None, default=None
        See `TuneFreeClassifier`.
    categorical_features : array-like, 'from_dtype' or None, default='from_dtype'
        See `TuneFreeClassifier`.
    compress, cross_fit, n_jobs : int or None, default=None
        See `TuneFreeClassifier`.
    scoring, cv : default=None
        See `TuneFreeClassifier`.
    random_state : int, RandomState or None, default=None
        Seed of the hash that orders rows.
    loss : {'squared', 'poisson', 'gamma', 'tweedie'} or family, default='squared'
        What candidates are judged and stacked by: the deviance of a family of means above 0, which
        the Reflectron then learns besides the others. `score` is its D2.

    Attributes
    ----------
    chosen_, models_, views_, weights_, table_, traces_, report_, seconds_, plan_
        See `TuneFreeClassifier`.
    relevances_, relevances_by_level_, column_relevances_, permutation_importances_, compression_
        See `TuneFreeClassifier`.
    feature_importances_, coef_, coef_names_, intercept_
        See `TuneFreeClassifier`.
    held_out_, copies_, risk_interval_kind_
        See `TuneFreeClassifier`.
    risk_interval_ : tuple of float or None
        In which the risk of the leaderboard lies on new rows (95 %).
    offsets_ : ndarray of shape (n_targets,)
        See `TuneFreeClassifier`.
    leaderboard_ : list of dict
        See `TuneFreeClassifier`; the risk is the mean squared error, for several targets the mean
        over them in units of their variances.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    Raises
    ------
    ValueError
        For infinite values, missing targets, weights that are all zero.

    References
    ----------
    The rule is in docs/selection.md.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from tunefree import TuneFreeRegressor
    >>> X, y = load_diabetes(return_X_y=True, scaled=False)
    >>> model = TuneFreeRegressor(family="linear", random_state=0).fit(X[:300], y[:300])
    >>> bool(model.score(X[300:], y[300:]) > 0.4)
    True
    """

    def __init__(
        self,
        family: str = "auto",
        *,
        budget: float | str | Plan | None = None,
        max_memory: float | str | None = None,
        categorical_features: Any = "from_dtype",
        compress: int | None = None,
        cross_fit: int | None = None,
        scoring: Any = None,
        cv: Any = None,
        n_jobs: int | None = None,
        random_state: Seed = None,
        loss: Any = "squared",
    ):
        super().__init__(
            family, budget=budget, max_memory=max_memory,
            categorical_features=categorical_features, compress=compress, cross_fit=cross_fit,
            scoring=scoring, cv=cv, n_jobs=n_jobs, random_state=random_state,
        )  # fmt: skip
        self.loss = loss

    def _judge(self, targets):
        """The family that judges, and the least mean; None for squared errors."""
        if isinstance(self.loss, str) and self.loss == "squared":
            return None
        known = not isinstance(self.loss, str) or self.loss in FAMILIES.names()
        family: Any = FAMILIES.find(self.loss, ["squared"]) if known else FAMILIES["normal"]
        if family.range != (0.0, np.inf) or family.exposure != "rate":
            raise ValueError(f"loss={self.loss!r} is none of squared, poisson, gamma, tweedie.")
        if targets.shape[1] > 1:
            raise ValueError(f"loss={self.loss!r} is of one target: y has {targets.shape[1]}.")
        family.check(targets)
        return Means(family, least_mean(targets))

    @report_progress
    def fit(
        self,
        X: MatrixLike,
        y: TargetLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Judge the candidates, stack them, and fit those in the stack.

        Parameters
        ----------
        X : frame, array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.
        groups : array-like of shape (n_samples,), optional
            What belongs together: rows of a group are left out together, so that none of them is
            judged by what was learned from another. Kernels on all rows leave them out exactly,
            others by folds of whole groups. With `cv` they are for the splitter.

        Returns
        -------
        self
        """
        limits, table, Z, known, weights, groups = self._numbers(
            X, y, sample_weight, groups, multi_output=True, numeric=True
        )
        told = np.asarray(known, dtype=np.float64)
        targets = told.reshape(len(told), -1)
        spread = np.ones(1)
        if targets.shape[1] > 1:
            variance = np.average(np.square(targets - targets.mean(axis=0)), axis=0)
            spread = np.where(variance > 0.0, variance, 1.0) * targets.shape[1]
        strata = np.zeros(len(told), dtype=np.int64)
        self.prediction_limits_, self.flat_ = (
            (targets.min(axis=0), targets.max(axis=0)),
            told.ndim == 1,
        )
        judge: Any = self._judge(targets)
        if judge is None:
            judge = Targets(spread)
        else:  # a mean of 0 would be certain
            told, self.prediction_limits_ = (
                targets[:, 0],
                (np.array([judge.least]), self.prediction_limits_[1]),
            )
        outputs = targets.shape[1]
        self._race(limits, table, Z, told, targets, weights, groups, strata, judge, outputs)
        self._cross_fit(X, y, sample_weight)
        return self

    def _set_held_out(self, scores, X, y, weights, leader, score, groups):
        predictions, y = np.clip(scores, *self.prediction_limits_), y.reshape(scores.shape)
        known = {"view": getattr(leader, "view_", None), "groups": groups}
        if groups is not None and self.cv is None:
            known["n_groups"] = len(np.unique(groups))
        self.held_out_ = tuple(
            Residuals.of(predictions[:, j], y[:, j], weights, X, **known) for j in range(y.shape[1])
        )
        if not len(y):
            return np.empty(0)
        return score.losses(predictions, y[:, 0] if hasattr(score, "family") else y)

    def _own(self, copy, X, y, weights):
        predictions = copy.predict(X).reshape(len(weights), -1)
        gap = np.abs(np.asarray(y, dtype=np.float64).reshape(predictions.shape) - predictions)
        return Scores(gap / copy._sigma(X, predictions), weights)

    def _columns_of(self, X):
        return self.table_.transform(X)

    def _possible(self, ends):
        return (
            ends if isinstance(self.loss, str) and self.loss == "squared" else np.maximum(ends, 0)
        )

    def score(self, X: MatrixLike, y: TargetLike, sample_weight: ArrayLike | None = None) -> float:
        """R2, or D2 of the loss.

        Parameters
        ----------
        X : frame, array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        float
        """
        if isinstance(self.loss, str) and self.loss == "squared":
            return float(super().score(X, y, sample_weight))
        y = np.asarray(y, dtype=np.float64).reshape(-1, 1)
        weights = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, float)
        mean = np.asarray(self.predict(X), dtype=np.float64).reshape(-1, 1)
        return FAMILIES.find(self.loss).d2(y, mean, weights)

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Predicted targets, shape (n_samples,) or (n_samples, n_targets)."""
        told = self._joined(X, Targets(np.ones(1)))
        told = np.clip(told, *self.prediction_limits_).astype(told.dtype)
        return told[:, 0] if self.flat_ else told
