"""One call that evaluates the library's learners on held-out rows and stacks the best."""

import copy
import time
from collections.abc import Callable, Sequence
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
from tunefree.estimators.uncertainty_mixins import PredictsIntervals, PredictsSets
from tunefree.families import FAMILIES
from tunefree.learners.kernel.geometry import n_permuted_rows
from tunefree.links import LINKS
from tunefree.preprocessing import TablePreprocessor
from tunefree.protocols import MatrixLike, Seed, TargetLike
from tunefree.robust import EXTREME, clip_outliers, warn_of_changes
from tunefree.select.bandwidths import PRESELECTION
from tunefree.select.candidates import (
    FEW_ROWS,
    Classes,
    Targets,
    evaluate_candidates,
    finished,
    folds_of,
    ignore_outlier_warnings,
    importances,
    pilot_rows,
    search_optimism,
    should_learn_all_rows,
    stack,
    total_cost,
    view_donor,
    weighted_mean,
)
from tunefree.select.costs import Cost, Limits, Plan
from tunefree.select.kernel_ridge import affordable, all_rows_affordable
from tunefree.select.stacking import least_mean, stack_means
from tunefree.uncertainty import risk
from tunefree.uncertainty.calibration import calibrated
from tunefree.uncertainty.intervals import HeldOutProbabilities, Residuals, Scores

# Kernels on landmarks are skipped for wider rows, and for more cells (sparse rows become dense).
_MOST_COLUMNS, _MOST_CELLS = 2000, 2e8
# Kernels on landmarks, in the order of evaluation: each reuses the view of the one before.
_KERNELS = {"linear": "ridge on ranks and levels", "laplacian": "Laplace kernel",
            "rbf": "Gaussian kernel"}  # fmt: skip
# Ridge regression on the view is a candidate up to so many columns. Up to so many rows kernels are
# solved exactly; up to half as many no other candidate is needed.
_FEW_COLUMNS, EXACT = 1000, 8000
# The GLM, which finds sparse weights, is a candidate for so many columns, and if there are
# fewer rows a column than this.
_WIDE, _WIDEST, _NARROW = 100, 10_000, 20
# Kernel PiSTOL is evaluated after learning at most so many rows: their kernel values are cached.
MOST_ROWS = 16_384
# With fewer rows a column, leave-one-out errors of rates chosen on the same rows are misleading.
_RATED = 4
# Landmarks to which a plan may limit a kernel; landmarks of kernels of many rows in the evaluation.
_FEWER, _FIRST_LANDMARKS = (1000, 500, 250), 1000
# Rows from which the columns' standard deviations are computed.
_MOST_SHOWN = 50_000


class Candidate(NamedTuple):
    """An estimator and how it is evaluated; see `tunefree.select.candidates.Candidate`."""

    name: str
    kind: str  # 'linear' or 'kernel'
    estimator: Any
    cost_formula: Any  # shape, candidate -> `Cost` of one fit
    limits: tuple = ()  # landmarks or rows to which a plan may limit it, the largest first
    asinh: bool = False  # whether its columns are on an asinh scale
    provides_view: bool = False  # and it reuses the view of those before it
    reuses_view: bool = False
    adds_landmarks: bool = False
    one_fit: bool = False
    three_folds: bool = False
    own_view: bool = False  # whether its own view of the columns was better in a pilot
    column_groups: tuple = ()  # arrays of columns that come from one column of the user's
    pilot: Any = None  # its model after a pilot, whose bandwidths are reused
    pilot_seconds: float = 0.0
    pilot_risk: float = np.nan
    most_rows: int = MOST_ROWS

    def cost(self, shape):
        """The `Cost` of one fit."""
        return self.cost_formula(shape, self)

    def on_all_rows(self, shape):
        """The `Cost` of a last fit on all rows if it was evaluated on a part of them."""
        if not self.reuses_view or shape.n <= self.most_rows:
            return Cost(0.0, 0.0)
        return self._replace(most_rows=shape.n).cost(shape)

    @property
    def unit(self):
        """The unit of `limits`."""
        return "rows" if self.reuses_view else "landmarks"

    def limited(self, limit):
        """The candidate with so many landmarks, or so many rows to learn; None: unchanged."""
        if limit is None:
            return self
        if self.reuses_view:
            return self._replace(most_rows=limit)
        return self.with_landmarks(limit)

    def fit(self, X, y, weights, donor=None, **more):
        """A `Fitted` candidate on rows in random order; `more` goes to the model's `_learn`.

        `donor` is the model whose view of the columns is reused.
        """
        view, model = (), clone(self.estimator)
        if self.provides_view or self.adds_landmarks:
            more = {"like": donor, "column_groups": self.column_groups} | more
            if self.adds_landmarks and donor is not None:
                model.set_params(kernel=donor.kernel)
        elif self.reuses_view and donor is not None:
            more["like"] = self.pilot
            if not self.own_view and donor.geometry_ is not None:
                view = (donor.view_, donor.geometry_)
                model.set_params(standardize=False)
        elif self.asinh:
            view = (asinh_scaling(X),)
        fitted = Fitted(view, model)
        with ignore_outlier_warnings():
            learn = model._learn if more else model.fit
            learn(fitted.show(X), y, sample_weight=weights, **more)
        return fitted

    def permutation_effects(self, fitted, X, rows, score):
        """Changes of the first rows' scores when columns come from the next row; None if sparse."""
        if sparse.issparse(X):
            return None
        sample = X[rows[: n_permuted_rows(self.most_rows, X.shape[1])]]
        groups, effects = [*np.arange(X.shape[1])[:, None], *self.column_groups], []
        before = score.scores_of(fitted, sample)
        for columns in groups:
            changed = sample.copy()
            changed[:, columns] = np.roll(sample[:, columns], 1, axis=0)
            effects.append(score.scores_of(fitted, changed) - before)
        return np.array(effects)

    def with_landmarks(self, n_landmarks):
        """The kernel with so many landmarks."""
        return self._replace(estimator=clone(self.estimator).set_params(n_landmarks=n_landmarks))

    def after_pilot(self, fitted, seconds, risk, own_view):
        """The candidate with the bandwidths and the view that were best in a pilot."""
        return self._replace(
            pilot=fitted.model, pilot_seconds=seconds, pilot_risk=risk, own_view=own_view
        )


class Fitted(NamedTuple):
    """A fitted model, and the view that its rows are transformed by."""

    view: tuple
    model: Any

    def show(self, X):
        """Rows as the model takes them."""
        return show(self.view, X.toarray() if self.view and sparse.issparse(X) else X)


class Compression(NamedTuple):
    """What fewer landmarks cost."""

    n_landmarks: int  # the most of a kernel
    loss_before: float  # mean held-out loss of the stack, with all landmarks
    loss_after: float  # and with fewer
    standard_error: float  # of their difference


def _is_small(X):
    """Whether indicators of levels are stored densely, so that kernels are solved exactly."""
    return X.shape[0] <= EXACT and X.shape[1] <= _MOST_COLUMNS


class Shape(NamedTuple):
    """Rows, columns, stored entries and outputs of the data."""

    n: int
    d: int
    entries: float
    k: int

    def rows(self, n):
        """The shape of n rows of the same data."""
        return self._replace(n=n, entries=self.entries * n / self.n)


def shape_of(X, n_outputs):
    """The shape of dense or sparse rows."""
    entries = X.nnz if sparse.issparse(X) else X.size
    return Shape(X.shape[0], X.shape[1], float(max(entries, 1)), n_outputs)


# Costs by the data's shape: seconds of the reference core, fitted to the upper end of measurements
# on 14 tables of 300 to 16,000 rows, and bytes at the peak.


def _permutation_seconds(shape):
    """Seconds for the effects of permuting every column."""
    return 4e-7 * min(shape.n, 1000) * shape.d * shape.k


def _linear_cost(shape, candidate):
    passes, outputs = np.clip(3.2e4 / shape.n, 3, 12), shape.entries * shape.k
    rotation = 2 * shape.entries * shape.d if shape.d <= 1000 else 0.0
    seconds = 0.03 + 5.5e-8 * (5 + 2 * passes) * outputs + rotation / 2e10
    return Cost(seconds, 2e7 + 40 * shape.entries + 130 * shape.n * shape.k)


def _ridge_cost(shape, candidate):
    work = 2 * shape.n * shape.d * min(shape.n, shape.d)
    return Cost(0.01 + work / 2e10, 90 * shape.entries + 50 * min(shape.d, 1000) ** 2)


def _glm_cost(shape, candidate):
    # Five folds and all rows, four potentials, some hundred steps of two sweeps each.
    return Cost(0.1 + 6 * 4 * 200 * shape.entries * shape.k / 5e8, 1e7 + 40 * shape.entries)


def _columns_cost(shape, candidate):
    work = shape.n * shape.d * min(shape.n, 2 * shape.d) + 20 * shape.d**3
    seconds = 0.02 + (work + 3e4 * shape.n + 1e6 * shape.k) / 2e10 + _permutation_seconds(shape)
    return Cost(seconds, 90 * shape.n * shape.d + 330 * shape.n * shape.k + 100 * shape.d**2)


def _landmark_cost(shape, candidate):
    n, sample = shape.n, min(shape.n, 700)
    search = 60 * sample**2 * (sample + 2 * shape.d) * (1 + shape.k / 30)
    search *= 1.3 if candidate.estimator.kernel == "laplacian" else 1.0  # no product of matrices
    landmarks = candidate.estimator.n_landmarks
    if landmarks == "auto" and n <= EXACT:
        solution, memory = n**3 / 3, 17.0 * n**2 + 60 * n * shape.k
    else:
        m = affordable(n) if landmarks == "auto" else min(landmarks, n)
        solution, memory = n * m**2 + 20 * m**3, 60.0 * m**2 + 260 * n * shape.k
        if landmarks == "auto" and all_rows_affordable(n, shape.d):
            # Steps with and without the held-out rows, each with half of the kernel values.
            solution += 40 * n**2 / 2 * (25 + shape.d / 2 + 4 * shape.k)
            memory += 40.0 * n * (shape.d + 10 * shape.k)
    solution += n * min(n, 700) * 2 * shape.d
    memory += 130 * sample**2 + 30 * n * shape.d
    return Cost(0.1 + (search + solution) / 2e10 + _permutation_seconds(shape), memory)


def _kernel_cost(shape, candidate):
    n, width = min(shape.n, candidate.most_rows), shape.entries / shape.n

    def work(n):
        return n**2 * (width + 1250) + 13 * min(n, PRESELECTION) ** 2 * (30 + 2 * shape.k)

    memory = 4.0 * min(n, MOST_ROWS) ** 2 + 600 * n * shape.k + 16 * shape.entries
    # Two fits in a pilot; its kernel on few landmarks costs next to nothing.
    return Cost(0.5 + (work(n) + 2 * work(pilot_rows(n))) / 2e10, 2e7 + memory)


def make_candidates(task, kinds, X, n_outputs, seed, grouped=False, column_groups=(), n_jobs=None):
    """The candidates for some data, from cheap to expensive, and why others are skipped.

    `kinds` are some of 'linear' and 'kernel'. With `grouped` rows whole groups are held out:
    kernels on all rows do that exactly, others fold by fold.
    """
    shape, out, skipped = shape_of(X, n_outputs), [], {}
    kind = "Classifier" if task == "classification" else "Regressor"
    is_sparse = sparse.issparse(X)
    dense = shape.entries >= 0.25 * shape.n * shape.d
    fits = shape.d <= _MOST_COLUMNS and shape.n * shape.d <= _MOST_CELLS
    both = "linear" in kinds and "kernel" in kinds
    exact = fits and not is_sparse and shape.n <= EXACT and both
    if "linear" in kinds and not exact:
        make = estimator_class(f"PiSTOL{kind}")(random_state=seed)
        if task == "regression" and (not is_sparse or shape.d <= 1000):
            ridge = estimator_class("RidgePathRegressor")(random_state=seed)
            out.append(Candidate("ridge", "linear", ridge, _ridge_cost))
        out.append(Candidate("linear", "linear", make, _linear_cost))
        if dense and not is_sparse:
            name = "linear, asinh columns"
            out.append(Candidate(name, "linear", make, _linear_cost, asinh=True))
        else:
            skipped["linear, asinh columns"] = "most entries are zero"
        if (
            _WIDE <= shape.d <= _WIDEST
            and shape.n < _NARROW * shape.d
            and (kind[0] == "C" or shape.k == 1)
        ):
            family = "auto" if task == "classification" else "gaussian"
            make = estimator_class(f"GLM{kind}")(family=family, random_state=seed)
            out.append(Candidate("GLM", "linear", make, _glm_cost))
        else:
            skipped["GLM"] = "many rows for each column, or too few or too many columns"
    if "kernel" in kinds:
        make = estimator_class(f"KernelRidge{kind}")
        if fits:
            for kernel, name in _KERNELS.items():
                if kernel != "linear" or (both and shape.d <= _FEW_COLUMNS):
                    one = make(kernel, n_jobs=n_jobs, random_state=seed)
                    if shape.n > EXACT:
                        one.set_params(n_landmarks=_FIRST_LANDMARKS)
                    linear = kernel == "linear"
                    cost = _columns_cost if linear else _landmark_cost
                    one_fit = not grouped or not linear and shape.n <= EXACT
                    # So many rates fit noise: they are evaluated on rows that did not choose them.
                    three_folds = not linear and shape.n < min(FEW_ROWS, _RATED * shape.d)
                    # Kernels on all rows can hold out whole groups exactly, landmarks cannot.
                    limits = () if linear or grouped else tuple(m for m in _FEWER if m < shape.n)
                    out.append(
                        Candidate(
                            name, "linear" if linear else "kernel", one, cost, limits,
                            provides_view=True,
                            one_fit=one_fit and not three_folds, three_folds=three_folds,
                        )
                    )  # fmt: skip
            if shape.n > EXACT and not grouped:
                one = make(n_jobs=n_jobs, random_state=seed)
                limits = tuple(m for m in (4000, 2000) if m < shape.n)
                out.append(
                    Candidate(
                        "kernel on more rows", "kernel", one, _landmark_cost, limits,
                        adds_landmarks=True,
                        one_fit=True,
                    )
                )  # fmt: skip
        else:
            skipped[_KERNELS["rbf"]] = f"{shape.d} columns are too many"
        if grouped:
            skipped["kernel PiSTOL"] = "it cannot hold out whole groups"
        elif (not exact or shape.n > EXACT // 2) and shape.n * shape.d <= _MOST_CELLS:
            one = estimator_class(f"KernelPiSTOL{kind}")(n_jobs=n_jobs, random_state=seed)
            out.append(
                Candidate(
                    "kernel PiSTOL", "kernel", one, _kernel_cost,
                    tuple(m for m in (MOST_ROWS // 2, MOST_ROWS // 4) if m < shape.n),
                    reuses_view=True, one_fit=shape.n >= FEW_ROWS, most_rows=MOST_ROWS,
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
    ), skipped


class Report(NamedTuple):
    """The candidates, the stack and the reason for it: text in the shell, a table in notebooks."""

    estimator: str
    task: str
    shape: tuple  # distinct rows, columns as numbers, outputs
    leaderboard: list
    skipped: dict  # candidates that do not suit the data, and why
    reason: str
    plan: Plan
    seconds: float | None  # None in a model from a file, which keeps no times
    refit_seconds: float | None
    relevances: dict = {}  # the columns of most influence, at most ten
    importances: dict = {}  # how much the held-out loss grows without their order
    risk_interval: tuple | None = None  # of the stack's risk on new rows (95 %)
    risk_interval_kind: str = ""  # the method of this interval
    dropped: list = []  # text columns with hardly any repeated value

    def timeless(self):
        """The report without measured times, as model files keep it."""
        board = [{**r, "seconds": None} for r in self.leaderboard]
        return self._replace(leaderboard=board, seconds=None, refit_seconds=None)

    def heading(self):
        """The first line."""
        n, d, _ = self.shape
        return f"{self.estimator}: {n} distinct rows, {d} columns as numbers"

    def sure(self):
        """The interval of the stack's risk on new rows and its method, in sentences."""
        if self.risk_interval is None:
            return "The expected error on new rows is unknown: no row was held out."
        form = ".1%" if self.task == "classification" else ".4g"
        interval = " to ".join(format(end, form) for end in self.risk_interval)
        words = f"Expected {self._loss_name()} on new rows: {interval} (95%)."
        return f"{words} Method: {self.risk_interval_kind}."

    def closing(self):
        """Time and memory, in sentences."""
        cost = self.plan.expected
        words = f"Planned: at most {cost.seconds:.2g} s and {amount(cost.bytes)}."
        if self.seconds is not None:
            refit = f"({self.refit_seconds:.2f} s for the last fit)"
            words = f"Took {self.seconds:.2f} s {refit}. {words}"
        return f"{words} {self.plan.limitations}".strip()

    def _loss_name(self):
        if self.task == "classification":
            return "error"
        return self.leaderboard[0].get("loss", "squared error")

    def _skipped_lines(self):
        """Skipped candidates and dropped columns."""
        lines = [f"Skipped: {name} ({reason})." for name, reason in self.skipped.items()]
        if self.dropped:
            names = ", ".join(map(repr, self.dropped))
            lines.append(f"Dropped text columns with hardly any repeated value: {names}.")
        return lines

    def _column_lines(self):
        """The columns of most influence on predictions and on the held-out loss."""
        relevances = ", ".join(f"{name} {share:.0%}" for name, share in self.relevances.items())
        importances = ", ".join(f"{name} {loss:.2g}" for name, loss in self.importances.items())
        lines = [f"Share of prediction variance: {relevances}."] if relevances else []
        if importances:
            lines.append(f"Permutation importance (held-out rows): {importances}.")
        return lines

    def table(self):
        """Header and rows as text: candidate, risk, its error, seconds, share or status."""
        classify = self.task == "classification"
        scores = ("log-loss",) if classify else ()
        has_score = any("score" in r for r in self.leaderboard)
        scores += ("score",) if has_score else ()
        loss = f"held-out {self._loss_name()}"
        rows: list[tuple] = [("candidate", loss, "standard error", *scores, "seconds", "share")]
        for r in self.leaderboard:
            cells = [_formatted(r["risk"], ".4g"), _formatted(r["risk_se"], ".2g")]
            cells += [_formatted(r["log_loss"], ".4g")] if classify else []
            cells += [_formatted(r["score"], ".4g")] if has_score else []
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
        return "\n".join([*lines, *self._column_lines(), *self._skipped_lines()])

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
            columns = f"<p>Share of prediction variance:</p><table><tbody>{columns}</tbody></table>"
        lines = [*self._column_lines()[bool(columns) :], *self._skipped_lines()]
        notes = "".join(f"<p>{escape(line)}</p>" for line in lines)
        return (
            f"<p>{escape(self.heading())}</p><table><thead><tr>{cells}</tr></thead>"
            f"<tbody>{rows}</tbody></table><p>{escape(self.reason)}</p>"
            f"<p>{escape(self.sure())}</p><p>{escape(self.closing())}</p>{columns}{notes}"
        )


def _formatted(value, form):
    """A number as text, '' for None."""
    return "" if value is None else format(value, form)


_KINDS = ("linear", "kernel")


def _parts_of(estimator, y, groups):
    """The part of every row in every split of `cv`: 1 training, 2 held out, 0 neither."""
    cv = check_cv(estimator.cv, y, classifier=hasattr(estimator, "predict_proba"))
    splits = [(np.asarray(a), np.asarray(b)) for a, b in cv.split(np.zeros(len(y)), y, groups)]
    parts = np.zeros((len(y), len(splits)), dtype=np.int64)
    for j, (train, out) in enumerate(splits):
        parts[train, j], parts[out, j] = 1, 2
    if ((parts == 2).sum(axis=1) > 1).any() or any(set(a) & set(b) for a, b in splits):
        raise ValueError(
            "cv= holds out a row twice, or trains on rows that it holds out in the same split: "
            "use a splitter whose test sets do not overlap, such as KFold."
        )
    return parts


class Distinct(NamedTuple):
    """Distinct rows in random order, with their total weights, and the seed of the order."""

    rows: np.ndarray
    totals: np.ndarray
    seed: int


class ToModelRows(NamedTuple):
    """Transforms the user's rows to those of a model of the stack."""

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
        candidates: str | Sequence[str] = "all",
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
        self.candidates = candidates
        self.budget = budget
        self.max_memory = max_memory
        self.compress = compress
        self.cross_fit = cross_fit
        self.scoring = scoring
        self.cv = cv
        self.n_jobs = n_jobs
        self.categorical_features = categorical_features
        self.random_state = random_state

    def _kinds(self):
        """The kinds of candidates to evaluate."""
        if isinstance(self.candidates, str) and self.candidates == "all":
            return _KINDS
        chosen = self.candidates
        if isinstance(chosen, str) or not set(chosen) <= set(_KINDS) or not len(chosen):
            raise ValueError(f"candidates={chosen!r} is neither 'all' nor some of {_KINDS}.")
        return tuple(chosen)

    def _numbers(self, X, y, sample_weight, groups, **checks):
        """Limits, preprocessor, rows of numbers, targets, weights, and groups or splits.

        The last is the group number of every row, or with `cv` the part of every row in every
        split, or None. Rows of weight 0 are dropped.
        """
        limits = Limits(self.budget, self.max_memory)
        self._kinds()
        if self.compress is not None and not (
            isinstance(self.compress, int | np.integer) and self.compress > 0
        ):
            raise ValueError(
                f"compress={self.compress!r} is not a number of landmarks: a positive integer."
            )
        if self.cross_fit is not None and not (
            isinstance(self.cross_fit, int | np.integer) and self.cross_fit >= 2
        ):
            raise ValueError(
                f"cross_fit={self.cross_fit!r} is not a number of copies: an integer from 2 on."
            )
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
        kept, blocks = weights > 0, None
        if groups is not None:
            groups = column_or_1d(groups)
            check_consistent_length(Z, groups)
        for name, value in (("compress", self.compress), ("cross_fit", self.cross_fit)):
            other = "cv" if self.cv is not None else "groups"
            excluded = self.cv is not None or groups is not None and name == "compress"
            if excluded and value is not None:
                raise ValueError(
                    f"{name}= and {other}= exclude each other: {name}= holds out rows by its own "
                    "rule."
                )
        if self.cv is not None:
            blocks = _parts_of(self, y, groups)[kept]
        elif groups is not None:
            _, blocks = np.unique(groups[kept], return_inverse=True)
            if blocks.max() == 0:
                raise ValueError("groups= has one group only: two or more are needed to hold out.")
        if kept.all():
            return limits, table, Z, y, weights, blocks
        return limits, table, Z[kept], y[kept], weights[kept], blocks

    def _distinct_rows(self, X, labels, weights, groups):
        """The `Distinct` rows of X, their labels and their groups."""
        affine, seed = not sparse.issparse(X), seed_of(self.random_state)
        if groups is not None:
            labels = np.column_stack([labels, groups])
        return Distinct(*hashed_visits(X, labels, weights, seed, affine=affine).unique(), seed)

    def _fit_stack(self, limits, table, X, y, distinct, groups, strata, score, n_outputs):
        """Evaluate the candidates, stack them, and fit those in the stack on all rows."""
        start, (rows, totals, seed) = time.perf_counter(), distinct
        scorer = None if self.scoring is None else check_scoring(self, self.scoring)
        X, y, strata = X[rows], y[rows], strata[rows]
        groups, splits = None if groups is None else groups[rows], None
        if self.cv is not None and groups is not None:
            splits = [(np.flatnonzero(p == 1), np.flatnonzero(p == 2)) for p in groups.T]
        # What is held out as a whole: groups, or the part of `cv` that holds out a row.
        blocks = groups if splits is None else np.argmax(groups == 2, axis=1)
        shape, task = shape_of(X, n_outputs), score.task
        # Columns that come from one column of the user's are permuted as a group.
        grouped = np.flatnonzero(np.bincount(table.sources_) > 1)
        column_groups = tuple(np.flatnonzero(table.sources_ == j) for j in grouped)
        tried, skipped = make_candidates(
            task, self._kinds(), X, n_outputs, seed, groups is not None, column_groups, self.n_jobs
        )
        if splits is not None:
            tried = [c._replace(one_fit=False, three_folds=False) for c in tried]
            groups = None
            if "kernel PiSTOL" in skipped:
                skipped["kernel PiSTOL"] = "with cv= it would be fitted fold by fold"
        if hasattr(score, "family"):
            one = estimator_class("GLMRegressor")(family=score.family, random_state=seed)
            name = f"GLM, {type(score.family).__name__}"
            tried.append(Candidate(name, "linear", one, _glm_cost, column_groups=column_groups))
        if not tried:
            raise ValueError(
                f"candidates={self.candidates!r} leave none for {shape.d} columns: " +
                "; ".join(f"{name}: {reason}" for name, reason in skipped.items())
            )  # fmt: skip
        for c in tried:
            if c.reuses_view and self.compress is not None:
                c.estimator.set_params(compress=int(self.compress))
        plan, tried = limits.plan_for(
            tried, lambda c: total_cost(c, shape, splits), lambda c: c.on_all_rows(shape)
        )
        entries = evaluate_candidates(
            tried, plan, X, y, totals, strata, score, self._progress, groups, splits
        )
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
        begin, refitted, donor, fits = time.perf_counter(), [], view_donor(entries), []
        for entry in chosen:
            candidate, fitted = entry.candidate, entry.fitted
            refit = fitted is None
            if (
                candidate.reuses_view
                and plan.again is not None
                and should_learn_all_rows(entry, shape.n, totals)
            ):
                candidate = candidate._replace(pilot=fitted.model)
                refit = not self._progress.stopped
            if refit:
                self._progress.begin(f"{candidate.name} on all rows")
                fitted = candidate.fit(X, y, totals, donor)
                self._progress.end()
                refitted.append(candidate.name)
            fits.append(fitted)
        refit_seconds = time.perf_counter() - begin
        self.table_, self.models_ = table, [fitted.model for fitted in fits]
        self.views_ = [fitted.view for fitted in fits]
        for model in self.models_:  # only the stack keeps its held-out predictions
            vars(model).pop("held_out_", None)
        self.weights_ = np.ones(1) if joined is None else joined.weights
        self.offsets_ = np.zeros(n_outputs) if joined is None else joined.offsets
        shares = np.ones(1) if joined is None else joined.shares
        self.chosen_ = {e.candidate.name: float(s) for e, s in zip(chosen, shares, strict=True)}
        self.encoded_relevances_ = _relevances(fits, shares, X, totals, donor)
        losses = importances(joined, chosen, y, totals, score)
        if losses is not None:
            self.permutation_importances_ = np.zeros(self.n_features_in_)
            self.permutation_importances_[table.sources_] = losses[: X.shape[1]]
            self.permutation_importances_[grouped] = losses[X.shape[1] :]
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
        held_blocks = None if blocks is None else blocks[held]
        losses = self._set_held_out(
            held_out, X[held], y[held], totals[held], donor, score, held_blocks
        )
        self.risk_interval_, self.risk_interval_kind_ = risk.held_out(
            losses, totals[held], bounded=task == "classification", once=len(held) < shape.n,
            spent=search_optimism(chosen),
        )  # fmt: skip
        last = f"Fitted again on all rows: {', '.join(refitted)}." if refitted else ""
        self.plan_ = plan
        self.report_ = Report(
            type(self).__name__, task, (shape.n, shape.d, shape.k), self.leaderboard_, skipped,
            f"{reason} {last}".strip(), plan, self.seconds_, refit_seconds, self._most_relevant(),
            self._most_important(), self.risk_interval_, self.risk_interval_kind_, table.dropped_,
        )  # fmt: skip
        self._distinct = rows, totals, strata, groups

    def _fit_rows(self, rows):
        """Fit a stratified sample; then the models of the stack learn all rows, if they can."""
        classify = isinstance(self, ClassifierMixin)
        sample = rows.drawn(seed_of(self.random_state), EXACT, classify)
        self.fit(sample.X, sample.y, sample_weight=sample.weights)
        if sample.whole:
            return
        names: dict[bool, list] = {True: [], False: []}  # whether a model has learned all rows
        for i, (name, view, model) in enumerate(
            zip(self.chosen_, self.views_, self.models_, strict=True)
        ):
            to_model_rows = ToModelRows(self.table_, view, self.classes_ if classify else None)
            all_rows, sampled = rows.shown(to_model_rows), to_model_rows(sample)
            if hasattr(model, "_fit_rows"):
                learned = clone(model)._fit_rows(all_rows, sampled, like=model)
                vars(learned).pop("held_out_", None)
            else:
                learned = all_rows.fitted(clone(model))
            names[learned is not None].append(name)
            self.models_[i] = model if learned is None else learned
        if not classify:  # limits extend beyond the sample's range by at most its width
            low, high = self.prediction_limits_
            ends = np.clip(sample.ends, 2.0 * low - high, 2.0 * high - low)
            self.prediction_limits_ = (ends[0] if (sample.ends[0] < 0.0).any() else low, ends[1])
        words = f"{self.report_.reason} Chosen on a sample of {len(sample.y)} rows."
        if names[True]:
            words += f" Fitted on all {rows.n_rows} rows: {', '.join(names[True])}."
        if names[False]:
            words += f" Fitted on the sample only: {', '.join(names[False])}."
        self.report_ = self.report_._replace(reason=words)

    def _set_held_out(self, scores, X, y, weights, donor, score, groups):
        """Abstract: keep the stack's held-out predictions; returns their losses."""
        raise NotImplementedError

    def _copy_held_out(self, copy, X, y, weights):
        """Abstract: the held-out predictions of a cross-fitted copy."""
        raise NotImplementedError

    def _cross_fit(self, X, y, sample_weight):
        """Keep copies of the stack, each fitted without its fold of the distinct rows."""
        (rows, totals, strata, groups), self.copies_ = vars(self).pop("_distinct"), []
        if self.cross_fit is None:
            return
        if sample_weight is not None:
            rows = np.flatnonzero(np.asarray(sample_weight) > 0)[rows]
        fold, count = folds_of(strata, groups, int(self.cross_fit))
        for f in range(count):
            train, out = np.flatnonzero(fold != f), np.flatnonzero(fold == f)
            one: Any = clone(self).set_params(cross_fit=None)
            if isinstance(self.budget, Plan):  # it is of all rows
                one.set_params(budget=None)
            if getattr(self, "class_weight", None) is not None:  # the totals include it
                one.set_params(class_weight=None)
            with ignore_outlier_warnings():
                one.fit(
                    _safe_indexing(X, rows[train]), _safe_indexing(y, rows[train]), totals[train],
                    groups=None if groups is None else groups[train],
                )  # fmt: skip
            held = _safe_indexing(X, rows[out]), _safe_indexing(y, rows[out])
            self.copies_.append((one, self._copy_held_out(one, *held, totals[out])))

    def _scored(self, scorer, entries, joined, chosen, y, weights, score):
        """The stack, or a candidate with a better held-out score; a sentence, and all scores."""
        rows, scores, alone = chosen[0].rows, {}, {}

        def scored(one, parts):
            model: Any = copy.copy(self)
            model.calibration_, model.models_ = None, []
            model._joined = lambda X, score: one.join([e.scores for e in parts])
            targets = self.classes_[y[rows]] if score.task == "classification" else y[rows]
            return float(scorer(model, rows[:, None], targets, sample_weight=weights[rows]))

        best = whole = scored(joined, chosen)
        picked: Any = joined, chosen
        for entry in finished(entries):
            name = entry.candidate.name
            alone[name] = score.stack([entry.scores], y[rows], weights[rows])
            scores[name] = scored(alone[name], [entry])
            if scores[name] > best:
                best, picked = scores[name], (alone[name], [entry])
        winner = "the stack" if picked[0] is joined else repr(picked[1][0].candidate.name)
        words = f"Best {self.scoring} on held-out rows: {best:.4g} for {winner}"
        words += "." if best == whole else f", {whole:.4g} for the stack."
        return *picked, words, scores

    def _compressed(self, before, entries, X, y, weights, score):
        """The stack of the same kernels with fewer landmarks, its entries, and a sentence."""
        most, out, rows = int(self.compress or 0), [], entries[0].rows
        held = np.isin(np.arange(len(y)), rows)
        for entry in entries:
            candidate = entry.candidate
            model: Any = None if entry.fitted is None else entry.fitted.model
            is_kernel = (
                candidate.provides_view and candidate.kind == "kernel" or candidate.adds_landmarks
            )
            if is_kernel and len(model.dual_coef_) > most:
                candidate, more = candidate.with_landmarks(most), {"held": held}
                fitted = candidate.fit(X, y, weights, model, **more)
                scores = score.pop_held_out(fitted)
                losses, proper_losses = score.evaluate(scores, y[rows], weights[rows])
                permutation_effects = vars(fitted.model).pop("held_out_effects_")
                entry = entry._replace(
                    fitted=fitted,
                    scores=scores,
                    losses=losses,
                    proper_losses=proper_losses,
                    permutation_effects=permutation_effects,
                )
            out.append(entry)
        joined, kept, words = stack(out, y, weights, score)
        after: Any = joined
        old, new = (float(weighted_mean(s.losses, weights[rows])[0]) for s in (before, after))
        error = float(weighted_mean(after.losses - before.losses, weights[rows])[1])
        self.compression_ = Compression(most, old, new, error)
        return after, kept, (
            f"With at most {most} landmarks: {words} The loss was {old:.4g} and is now {new:.4g} "
            f"(standard error of the difference {error:.2g})."
        )  # fmt: skip

    def _joined(self, X, score):
        """The stack's scores of the user's rows."""
        check_is_fitted(self, "models_")
        X = self.table_.transform(X)
        total = np.zeros((X.shape[0], len(self.offsets_))) + self.offsets_
        for a, view, model in zip(self.weights_, self.views_, self.models_, strict=True):
            total += a * score.scores_of(Fitted(view, model), X)
        return total.astype(X.dtype if X.dtype == np.float32 else np.float64)

    def _model_state(self):
        """The attributes that a model file keeps: no times, so that equal fits give equal files."""
        names = [n for n in vars(self) if n.endswith("_") and not n.startswith("_")]
        state, report = {n: vars(self)[n] for n in sorted(names)}, self.report_.timeless()
        return state | {"report_": report, "leaderboard_": report.leaderboard, "seconds_": None}

    @property
    def feature_relevances_(self) -> np.ndarray:
        """How much each column of X influences the predictions, shape (n_features,), sum 1.

        The columns' shares of the mean squared change of the prediction when one column alone is
        drawn from another row (for a linear model: coefficient times deviation, squared). Of a
        stack it is the mean over its models, weighted by their shares. Units do not matter. How
        much a column improves predictions of new rows is another question: see
        `permutation_importances_`.
        """
        each = self._column_relevances()
        return np.bincount(self.table_.sources_, each, self.n_features_in_)

    @property
    def level_relevances_(self) -> dict[str, dict[str, float]]:
        """The shares of the levels of every column of categories, by name."""
        each, table = self._column_relevances(), self.table_
        names = _check_feature_names_in(table).tolist()
        out = {}
        for j in np.flatnonzero(table.kinds_ == "category").tolist():
            levels = [*table.levels_[str(j)], "(rare)"]
            shares = each[table.sources_ == j].tolist()
            out[names[j]] = dict(zip(levels, shares, strict=False))
        return out

    @property
    def feature_importances_(self) -> np.ndarray:
        """`feature_relevances_`, under scikit-learn's name: shape (n_features,), sum 1."""
        return self.feature_relevances_

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
        """The intercept of `coef_`: a number, or one for each output."""
        return self._line()[1]

    @property
    def coef_names_(self) -> np.ndarray:
        """The names of the columns of `coef_`."""
        check_is_fitted(self, "models_")
        return self.table_.get_feature_names_out()

    def _line(self):
        check_is_fitted(self, "models_")
        classes = getattr(self, "classes_", ())
        coef: Any = 0.0
        intercept: Any = self.offsets_
        for a, view, model in zip(self.weights_, self.views_, self.models_, strict=True):
            link = getattr(model, "link_", None)
            linear = link is None or link == LINKS["identity" if len(classes) == 0 else "logit"]
            all_classes = len(classes) == len(getattr(model, "classes_", ()))
            if view or not hasattr(model, "coef_") or not linear or not all_classes:
                raise AttributeError(
                    f"coef_ needs a stack of linear models; this one has {', '.join(self.chosen_)}."
                )
            coef = coef + a * np.atleast_2d(model.coef_).astype(np.float64)
            intercept = intercept + a * np.atleast_1d(model.intercept_)
        calibration = getattr(self, "calibration_", None)
        if calibration is not None:  # it is affine
            level = calibration.of(intercept[None])
            coef, intercept = calibration.of(intercept + coef.T).T - level.T, level[0]
        if len(classes) == 0 and self.flat_:
            return coef[0], intercept[0]
        return coef, intercept

    flat_: bool

    def _most_relevant(self, most=10):
        """The most relevant columns by name, with their shares."""
        if not len(self.encoded_relevances_):
            return {}
        each = self.feature_relevances_
        order = [j for j in np.argsort(-each, kind="stable")[:most].tolist() if each[j] >= 0.005]
        return {name: float(each[j]) for name, j in zip(self._named(order), order, strict=True)}

    def _named(self, columns):
        """The names of these columns of X."""
        names = getattr(self.table_, "feature_names_in_", None)
        return [f"x{j}" if names is None else str(names[j]) for j in columns]

    def _most_important(self, most=10):
        """The columns of largest permutation importance by name, with these importances."""
        each = getattr(self, "permutation_importances_", np.empty(0))
        order = np.argsort(-each, kind="stable")[:most].tolist()
        order = [j for j in order if each[j] > 0.01 * each.max()]
        return {name: float(each[j]) for name, j in zip(self._named(order), order, strict=True)}

    def _column_relevances(self):
        check_is_fitted(self, "models_")
        if not len(self.encoded_relevances_):
            raise AttributeError("No model of this stack has relevances of columns.")
        return self.encoded_relevances_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def _relevances(fits, shares, X, weights, donor):
    """The mean of the models' relevances, weighted by shares; empty if no model has any."""
    found, found_shares = [], []
    for (view, model), share in zip(fits, shares, strict=True):
        if hasattr(model, "feature_relevances_"):
            each = model.feature_relevances_
        elif hasattr(model, "coef_"):
            shown = Fitted(view, model).show(X[:_MOST_SHOWN])
            w = weights[:_MOST_SHOWN] / weights[:_MOST_SHOWN].sum()
            square = shown.multiply(shown) if sparse.issparse(shown) else np.square(shown)
            spread = np.sqrt(np.maximum(square.T @ w - np.square(shown.T @ w), 0.0))
            each = np.square(np.atleast_2d(model.coef_) * spread).sum(axis=0)
        elif view and donor is not None:  # the model uses the donor's geometry
            each = donor.feature_relevances_
        else:
            continue
        found.append(each / max(each.sum(), 1e-300))
        found_shares.append(share)
    if not found:
        return np.empty(0)
    total = np.array(found_shares) @ np.array(found, dtype=np.float64)
    # Of a constant predictor all columns are equally relevant.
    return total / total.sum() if total.any() else np.full(len(total), 1.0 / len(total))


def _leaderboard(entries, chosen, weights, shape, task):
    """One dict for each candidate, those in the stack first, then by risk."""
    board = []
    for e in entries:
        scored = len(e.losses) > 0
        mean, error = weighted_mean(e.losses, weights[e.rows]) if scored else (np.nan, np.nan)
        score = {}
        if task == "classification":
            logs = weighted_mean(e.proper_losses, weights[e.rows])[0] if scored else None
            score = {"log_loss": None if logs is None else float(logs)}
        board.append(
            {
                "candidate": e.candidate.name,
                "risk": float(mean) if scored else None,
                "risk_se": float(error) if scored else None,
                "risk_interval": risk.held_out(
                    e.losses,
                    weights[e.rows],
                    bounded=task == "classification",
                    once=len(e.losses) < shape.n,
                    spent=search_optimism([e]),
                )[0],
                **score,
                "share": chosen.get(e.candidate.name, 0.0),
                "seconds": float(e.seconds),
                "cost": total_cost(e.candidate, shape).seconds,
                "rows": len(e.rows),
                "chosen": e.candidate.name in chosen,
                "status": e.status,
            }
        )
    return sorted(board, key=lambda r: (-r["share"], r["risk"] is None, r["risk"] or 0.0))


class Means(NamedTuple):
    """Scores of regression: predictions, with the deviance of a family."""

    family: Any  # a part of `tunefree.families`
    least: float  # the lower limit of means
    task = "regression"
    scores_of, pop_held_out = Targets.scores_of, Targets.pop_held_out

    @property
    def kind(self):
        """The name of the risk in the leaderboard."""
        return f"{type(self.family).__name__} deviance"

    def losses(self, predicted, y):
        """Deviances."""
        mean = self.family.clipped(np.maximum(predicted[:, 0], self.least))
        return self.family.deviance(y, mean)

    def evaluate(self, predicted, y, weights):
        """Deviances, twice."""
        cost = self.losses(predicted, y)
        return cost, cost

    def stack(self, scores, y, weights, _=0.0):
        """The stack of least deviance."""
        return stack_means(scores, y[:, None], weights, self.family)


class TuneFreeClassifier(PredictsSets, base.LabelsByDecisions, _TuneFree):
    r"""Classification in one call: a stack of models that are compared on held-out rows.

    It takes any table: raw numbers of any scale, sparse matrices, pandas, polars and pyarrow
    columns with categories and missing values. The candidates are kernels with a geometry learned
    from the data, ridge regression on ranks and levels, linear PiSTOL and kernel PiSTOL. Each one
    predicts held-out rows: every row below 2,000 rows, else a fifth of them (at most 5,000). The
    model is the weighted sum of candidates with the least log-loss on these rows.

    Parameters
    ----------
    candidates : 'all' or sequence of {'linear', 'kernel'}, default='all'
        The kinds of candidates to evaluate.
    budget : float, str, Plan or None, default=None
        Seconds for evaluation and fitting. They are seconds of a reference core, computed from the
        data's shape, so that the choice is the same on every machine (None: 300). Text such as
        '60s' is clock time from the call on; the machine's speed is then measured first.
        Candidates beyond the budget are made smaller or skipped, the most expensive first, before
        any work starts (`plan_`); the cheapest one always runs. A plan of another fit is followed.
    max_memory : float, str or None, default=None
        Bytes that the fit may take in addition to the data, or text such as '2GB'. Candidates that
        need more are made smaller or skipped. None: three quarters of what the process may have.
    categorical_features : array-like, 'from_dtype' or None, default='from_dtype'
        Columns of numbers that are categories: a mask, positions or names. Text and columns of a
        category type always are. Columns of 3 to 30 whole numbers are used as numbers and as
        levels, declared or not.
    compress : int or None, default=None
        The most landmarks of each kernel: fewer make predictions proportionally faster.
        `compression_` reports the held-out loss before and after.
    cross_fit : int or None, default=None
        The number of folds for copies of the stack, each fitted without its fold: sets and
        intervals (`predict_set`, `predict_interval`) then have a guarantee for finitely many rows.
        The fit takes so many times longer.
    scoring : str, callable or None, default=None
        A scorer of scikit-learn ('roc_auc', 'balanced_accuracy', ...). A single candidate replaces
        the stack if its score on held-out rows is higher; `leaderboard_` has every 'score'.
    cv : int, splitter of scikit-learn, iterable or None, default=None
        The rows to hold out, in place of the automatic folds: ``TimeSeriesSplit()`` for rows in the
        order of time. No row may be held out twice. All candidates are then fitted fold by fold.
        Model files keep no splitter and no callable.
    class_weight : dict, 'balanced' or None, default=None
        Weights of classes, which multiply those of rows. Probabilities are those of a population
        with these weights.
    n_jobs : int or None, default=None
        Threads of kernels, all by default; results do not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of the hash that orders rows.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    chosen_ : dict of str to float
        The models of the stack by name, the largest first, and their shares: weight times size of
        their scores. They sum to 1.
    models_ : list of estimator
        These models, fitted on the class numbers of all rows.
    views_ : list of tuple of parts
        The transformations of columns before each of `models_`.
    weights_ : ndarray of shape (n_models,)
    offsets_ : ndarray of shape (1,) or (n_classes,)
        The log-odds are the offsets plus the weighted sum of the models' log-odds.
    feature_relevances_ : ndarray of shape (n_features,)
        How much each column influences predictions, whatever its unit; they sum to 1.
    feature_importances_ : ndarray of shape (n_features,)
        The same, under scikit-learn's name.
    coef_, coef_names_, intercept_ : ndarray
        If every model of the stack is linear: coefficients of the columns that `table_` makes,
        their names, and the intercepts.
    level_relevances_ : dict of str to dict
        The same for the levels of every column of categories.
    encoded_relevances_ : ndarray of shape (n_columns_out,)
        The same for the columns that `table_` makes; empty if no model has relevances.
    permutation_importances_ : ndarray of shape (n_features,)
        How much the stack's held-out loss (log-loss, squared error) grows when a column is
        permuted: how much the column improves predictions of new rows. No model is fitted for it.
        Missing if a model of the stack was fitted on sparse rows or fold by fold.
    compression_ : part or None
        With `compress`: n_landmarks, loss_before, loss_after and the standard_error of their
        difference (for kernel PiSTOL see its own `compression_`).
    risk_interval_ : tuple of float or None
        An interval for the share of errors on new rows (95 %); `risk_interval_kind_` is its method.
    held_out_ : part
        The stack's held-out probabilities.
    calibration_ : part or None
        A slope and an offset for each of several classes, if they improve held-out probabilities.
    copies_ : list
        With `cross_fit`: the copies, each with its held-out predictions.
    table_ : TablePreprocessor
    leaderboard_ : list of dict
        For every candidate, those in the stack first: 'risk' (share of errors on held-out rows),
        its standard error 'risk_se' and 'risk_interval', its 'log_loss', its 'share' of the stack,
        'seconds' of its evaluation, 'cost' (its planned seconds), 'rows' scored, 'chosen',
        'status'.
    plan_ : Plan
        The candidates, their limits, and their cost in seconds and bytes at most, fixed before any
        work started. Given as `budget=` it is followed again.
    traces_ : dict of str to dict
        For candidates that predict every row before they learn it: 'rows' seen and 'risk' so far.
    report_ : part
        What was stacked and why, and the most important columns: text in the shell, tables in
        notebooks.
    seconds_ : float
        Duration of the fit. Model files keep no times (also none of `leaderboard_` and `report_`),
        so that fits with equal seeds give equal files.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    Raises
    ------
    ValueError
        For infinite values, labels of one class, weights that are all zero, a single group.
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
    >>> model = TuneFreeClassifier(candidates=("linear",), random_state=0).fit(X[:400], y[:400])
    >>> bool(model.score(X[400:], y[400:]) > 0.95)
    True
    """

    def __init__(
        self,
        candidates: str | Sequence[str] = "all",
        *,
        budget: float | str | Plan | None = None,
        max_memory: float | str | None = None,
        categorical_features: Any = "from_dtype",
        compress: int | None = None,
        cross_fit: int | None = None,
        scoring: Any = None,
        cv: Any = None,
        n_jobs: int | None = None,
        class_weight: Any = None,
        random_state: Seed = None,
    ):
        super().__init__(
            candidates, budget=budget, max_memory=max_memory,
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
        """Evaluate the candidates, stack them, and fit those in the stack.

        Parameters
        ----------
        X : frame, array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.
        groups : array-like of shape (n_samples,), optional
            Groups of dependent rows, which are held out as a whole: no row is predicted by a model
            that has learned another row of its group. Kernels on all rows do this exactly, others
            by folds of whole groups. With `cv` they are passed to the splitter.

        Returns
        -------
        self
        """
        shape = np.asarray(y).shape
        if len(shape) == 2 and shape[1] > 1:
            raise ValueError(
                f"y has {shape[1]} columns, but a row has one label here. To fit a model for each "
                "column use MultiOutputClassifier(TuneFreeClassifier()) of scikit-learn."
            )
        limits, table, Z, y_kept, weights, groups = self._numbers(X, y, sample_weight, groups)
        self.classes_, codes = base.encode_labels(y_kept, fewest=2)
        weights = base.balanced(self.class_weight, self.classes_, codes, weights)
        k, labels = len(self.classes_), codes[:, None].astype(float)
        score, outputs = Classes(k), 1 if k == 2 else k
        distinct = self._distinct_rows(Z, labels, weights, groups)
        self._fit_stack(limits, table, Z, codes, distinct, groups, codes, score, outputs)
        self._cross_fit(X, y, sample_weight)
        return self

    def _set_held_out(self, scores, X, y, weights, donor, score, groups):
        self.calibration_ = None
        if scores.shape[1] > 1:
            self.calibration_ = calibrated(scores, y, weights)
        p = base.probabilities(self._calibrated(scores), joint=True)
        self.held_out_ = base.held_out_probabilities(p, y, weights)
        return HeldOutProbabilities(p, y, weights).wrong()

    def _copy_held_out(self, copy, X, y, weights):
        return HeldOutProbabilities(
            self._of_copy(copy, X), np.searchsorted(self.classes_, y), weights
        )

    def _calibrated(self, scores):
        calibration = self.calibration_
        return scores if calibration is None else calibration.of(scores).astype(scores.dtype)

    def _log_odds(self, X):
        check_is_fitted(self, "models_")
        return self._calibrated(self._joined(X, Classes(len(self.classes_))))

    def decision_function(self, X: MatrixLike) -> np.ndarray:
        """Log-odds of the second class, or of every class; shape (n,) or (n, n_classes)."""
        return base.squeezed(self._log_odds(X))

    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Calibrated probabilities of the classes, shape (n_samples, n_classes)."""
        return base.probabilities(self._log_odds(X), joint=True)


class TuneFreeRegressor(PredictsIntervals, RegressorMixin, MultiOutputMixin, _TuneFree):
    r"""Regression in one call: a stack of models that are compared on held-out rows.

    As `TuneFreeClassifier`, with exact ridge regression as one more candidate: the weighted sum has
    the least squared error on held-out rows, or the least deviance of counts or amounts (`loss`).

    Parameters
    ----------
    candidates : 'all' or sequence of {'linear', 'kernel'}, default='all'
        The kinds of candidates to evaluate.
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
    loss : {'squared_error', 'poisson', 'gamma', 'tweedie'} or family, default='squared_error'
        The loss for evaluation and stacking: squared error, or the deviance of a family of positive
        means. With a family the GLM of this family is one more candidate, and `score` is D2.

    Attributes
    ----------
    chosen_, models_, views_, weights_, table_, traces_, report_, seconds_, plan_
        See `TuneFreeClassifier`.
    feature_relevances_, level_relevances_, encoded_relevances_, permutation_importances_
        See `TuneFreeClassifier`.
    compression_
        See `TuneFreeClassifier`.
    feature_importances_, coef_, coef_names_, intercept_
        See `TuneFreeClassifier`.
    held_out_, copies_, risk_interval_kind_
        See `TuneFreeClassifier`.
    risk_interval_ : tuple of float or None
        An interval for the leaderboard's risk on new rows (95 %).
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

    Warns
    -----
    UserWarning
        For a target 10,000 times as far from the middle as any other: the median replaces it.

    References
    ----------
    The rule is in docs/selection.md.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from tunefree import TuneFreeRegressor
    >>> X, y = load_diabetes(return_X_y=True, scaled=False)
    >>> model = TuneFreeRegressor(candidates=("linear",), random_state=0).fit(X[:300], y[:300])
    >>> bool(model.score(X[300:], y[300:]) > 0.4)
    True
    """

    def __init__(
        self,
        candidates: str | Sequence[str] = "all",
        *,
        budget: float | str | Plan | None = None,
        max_memory: float | str | None = None,
        categorical_features: Any = "from_dtype",
        compress: int | None = None,
        cross_fit: int | None = None,
        scoring: Any = None,
        cv: Any = None,
        n_jobs: int | None = None,
        loss: Any = "squared_error",
        random_state: Seed = None,
    ):
        super().__init__(
            candidates, budget=budget, max_memory=max_memory,
            categorical_features=categorical_features, compress=compress, cross_fit=cross_fit,
            scoring=scoring, cv=cv, n_jobs=n_jobs, random_state=random_state,
        )  # fmt: skip
        self.loss = loss

    def _deviance_score(self, targets):
        """The `Means` of the loss's family; None for squared errors."""
        if isinstance(self.loss, str) and self.loss == "squared_error":
            return None
        is_family = not isinstance(self.loss, str) or self.loss in FAMILIES.names()
        family: Any = (
            FAMILIES.find(self.loss, ["squared_error"]) if is_family else FAMILIES["gaussian"]
        )
        if family.range != (0.0, np.inf) or family.exposure != "rate":
            raise ValueError(f"loss={self.loss!r} is none of squared, poisson, gamma, tweedie.")
        if targets.shape[1] > 1:
            raise ValueError(
                f"loss={self.loss!r} is for one target: y has {targets.shape[1]}. Fit a model for "
                "each target."
            )
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
        """Evaluate the candidates, stack them, and fit those in the stack.

        Parameters
        ----------
        X : frame, array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.
        groups : array-like of shape (n_samples,), optional
            Groups of dependent rows, which are held out as a whole: no row is predicted by a model
            that has learned another row of its group. Kernels on all rows do this exactly, others
            by folds of whole groups. With `cv` they are passed to the splitter.

        Returns
        -------
        self
        """
        limits, table, Z, y_kept, weights, groups = self._numbers(
            X, y, sample_weight, groups, multi_output=True, numeric=True
        )
        y_kept = np.asarray(y_kept, dtype=np.float64)
        given = y_kept.reshape(len(y_kept), -1)
        distinct = self._distinct_rows(Z, given, weights, groups)
        targets = clip_outliers(given, distinct.rows, EXTREME)
        every = np.asarray(y, dtype=np.float64).reshape(-1, given.shape[1])
        warn_of_changes(given, targets, every, "y")
        y_kept, spread = targets.reshape(y_kept.shape), np.ones(1)
        if targets.shape[1] > 1:
            variance = np.average(np.square(targets - targets.mean(axis=0)), axis=0)
            spread = np.where(variance > 0.0, variance, 1.0) * targets.shape[1]
        strata = np.zeros(len(y_kept), dtype=np.int64)
        low, high = targets.min(axis=0), targets.max(axis=0)
        self.flat_ = y_kept.ndim == 1
        score: Any = self._deviance_score(targets)
        if score is None:
            score = Targets(spread)
        else:  # a mean of 0 would be a certain prediction
            y_kept, low = targets[:, 0], np.array([score.least])
        self.prediction_limits_ = low, high
        outputs = targets.shape[1]
        self._fit_stack(limits, table, Z, y_kept, distinct, groups, strata, score, outputs)
        self._cross_fit(X, y, sample_weight)
        return self

    def _set_held_out(self, scores, X, y, weights, donor, score, groups):
        predictions, y = np.clip(scores, *self.prediction_limits_), y.reshape(scores.shape)
        more = {"view": getattr(donor, "view_", None), "groups": groups}
        if groups is not None and self.cv is None:
            more["n_groups"] = len(np.unique(groups))
        self.held_out_ = tuple(
            Residuals.of(predictions[:, j], y[:, j], weights, X, **more) for j in range(y.shape[1])
        )
        if not len(y):
            return np.empty(0)
        return score.losses(predictions, y[:, 0] if hasattr(score, "family") else y)

    def _copy_held_out(self, copy, X, y, weights):
        predictions = copy.predict(X).reshape(len(weights), -1)
        gap = np.abs(np.asarray(y, dtype=np.float64).reshape(predictions.shape) - predictions)
        return Scores(gap / copy._sigma(X, predictions), weights)

    def _columns_of(self, X):
        return self.table_.transform(X)

    def _possible(self, ends):
        return (
            ends
            if isinstance(self.loss, str) and self.loss == "squared_error"
            else np.maximum(ends, 0)
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
        if isinstance(self.loss, str) and self.loss == "squared_error":
            return float(super().score(X, y, sample_weight))
        y = np.asarray(y, dtype=np.float64).reshape(-1, 1)
        weights = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, float)
        mean = np.asarray(self.predict(X), dtype=np.float64).reshape(-1, 1)
        return FAMILIES.find(self.loss).d2(y, mean, weights)

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Predicted targets, shape (n_samples,) or (n_samples, n_targets)."""
        y = self._joined(X, Targets(np.ones(1)))
        y = np.clip(y, *self.prediction_limits_).astype(y.dtype)
        return y[:, 0] if self.flat_ else y
