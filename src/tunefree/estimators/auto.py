"""The promise: one call that picks among the library's learners on the evidence of the data.

Prices of candidates are in passes: one is a multiply-add for every stored entry and output.
"""

import time
import warnings
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
from sklearn.utils.validation import check_is_fitted

import tunefree
from tunefree._parameters import seed_of
from tunefree.choose.race import (
    Budget,
    Mistakes,
    Squares,
    choose,
    folds_of,
    leading_entry,
    race,
    raised,
    wants_all_rows,
    weighted_mean,
)
from tunefree.choose.tournament import SCOUTED, VISITS
from tunefree.columns import asinh_scaling, show
from tunefree.engine.order import hashed_visits
from tunefree.estimators import base
from tunefree.estimators.base import TellsCallbacks, told
from tunefree.preprocessing import TablePreprocessor
from tunefree.protocols import MatrixLike, Seed, TargetLike

# Wider rows are not given to kernels on landmarks; sparse rows must fit when stored densely.
_MOST_COLUMNS, _MOST_CELLS = 2000, 2e8
LEADER = "kernel on landmarks"
# The Reflectron, which looks for few weights, takes part from so many columns on, and with
# fewer rows a column.
_WIDE, _WIDEST, _NARROW = 100, 10_000, 20
# Kernel PiSTOL is judged on the first rows up to so many: those whose kernel values can be kept.
MOST_ROWS = 16_384


class Candidate(NamedTuple):
    """An estimator and how it takes part.

    Attributes
    ----------
    name : str
    family : {'linear', 'kernel'}
    asinh : bool
        Whether it is shown columns on an asinh scale.
    estimator : estimator
    work : callable
        Shape -> multiply-adds of one fit.
    leads : bool
        Whether it is the kernel on landmarks.
    follows : bool
        Whether it takes over the view of the columns that the kernel on landmarks found, and can
        learn all rows while it judges itself on some.
    known : estimator or None
        Itself after a pilot, whose bandwidths are taken over.
    pilot_seconds, pilot_risk : float
        See `tunefree.choose.race.Candidate`.
    """

    name: str
    family: str
    asinh: bool
    estimator: Any
    work: Any
    leads: bool = False
    follows: bool = False
    known: Any = None
    pilot_seconds: float = 0.0
    pilot_risk: float = np.nan
    most_rows: int = MOST_ROWS

    def passes(self, shape, **rows):
        """The price of one fit: multiply-adds over those of one pass."""
        return float(self.work(shape, **rows) / max(shape.pass_work, 1.0))

    def fit(self, X, y, weights, leader=None, **more):
        """A `Fitted` candidate on rows in random order.

        Parameters
        ----------
        X, y, weights : ndarray
        leader : estimator, optional
            A fitted kernel on landmarks: one more of these takes over its view and bandwidth, a
            candidate that follows its view.
        more
            For the estimator's own `_learn`.
        """
        view, model = (), clone(self.estimator)
        if self.leads:
            more["like"] = leader
        elif self.follows and leader is not None:
            view = leader.parts_
            model.set_params(standardize=False)
            more["like"] = self.known
        elif self.asinh:
            view = (asinh_scaling(X),)
        fitted = Fitted(view, model)
        with warnings.catch_warnings():
            # A guard counts the rows of the race, which are not those of the user.
            warnings.filterwarnings("ignore", message=".*ten times as far from the middle")
            learn = model._learn if more else model.fit
            learn(fitted.show(X), y, sample_weight=weights, **more)
        return fitted

    def recall(self, fitted):
        """What the model said of left-out rows while it learned the others."""
        return Recalled.of(fitted.model)

    def small(self, n_landmarks):
        """The kernel on landmarks with few of these, for a pilot."""
        return self._replace(estimator=clone(self.estimator).set_params(n_landmarks=n_landmarks))

    def after_pilot(self, fitted, seconds, risk):
        """Itself, with the bandwidths that the pilot found."""
        return self._replace(known=fitted.model, pilot_seconds=seconds, pilot_risk=risk)


class Fitted(NamedTuple):
    """A fitted model and what its columns go through first."""

    view: tuple
    model: Any

    def show(self, X):
        """Rows as the model takes them."""
        return show(self.view, X.toarray() if self.view and sparse.issparse(X) else X)


class Recalled(NamedTuple):
    """What a model said of left-out rows while it learned the others, for these rows only."""

    values: np.ndarray
    classes_: np.ndarray | None = None

    @classmethod
    def of(cls, model):
        """What a model kept; it forgets it."""
        return cls(vars(model).pop("held_values_"), getattr(model, "classes_", None))

    def show(self, X):
        """Nothing needs to be shown."""
        return X

    @property
    def model(self):
        """Itself."""
        return self

    def predict(self, X):
        """Classes, or targets."""
        return (
            self.values
            if self.classes_ is None
            else self.classes_[base.chosen(self.values.reshape(len(self.values), -1))]
        )

    def predict_proba(self, X):
        """Probabilities of the classes."""
        scores = self.values[:, 0] if self.values.shape[1] == 1 else self.values
        return base.probabilities(scores, joint=True)


class Shape(NamedTuple):
    """Rows, columns, stored entries and outputs of the data."""

    n: int
    d: int
    entries: float
    k: int

    @property
    def pass_work(self):
        """Multiply-adds of one pass."""
        return self.entries * self.k

    def rows(self, n):
        """The same data with other rows."""
        return self._replace(n=n, entries=self.entries * n / self.n)


def shape_of(X, n_outputs):
    """The shape of rows held densely or sparsely."""
    entries = X.nnz if sparse.issparse(X) else X.size
    return Shape(X.shape[0], X.shape[1], float(max(entries, 1)), n_outputs)


def _portfolio_work(shape):
    most = 3.2e4 / shape.n
    passes = np.clip(most, 3, 12)
    return (5 + 2 * passes) * shape.pass_work + 2 * shape.n * min(shape.d, 1000) * shape.d


def _ridge_work(shape):
    return 2 * shape.n * shape.d * min(shape.n, shape.d)


def _reflectron_work(shape):
    # Five folds and all rows, four potentials, some hundred steps of two sweeps each.
    return 6 * 4 * 200 * shape.pass_work


def _landmark_work(shape):
    n = min(shape.n, 50_000)
    few = min(shape.n, 3000)
    search = 25 * few * 300 * (300 + 2 * shape.d) * min(1.0, (few / 1500) ** 2)
    return search + (1e10 + 2e6 * n) * min(1.0, (n / 1500) ** 2) + n * 700 * 2 * shape.d


def _kernel_work(shape, most=None):
    # Values of the kernel cost as much as many multiply-adds.
    n = min(shape.n, most or MOST_ROWS)
    passes = min(12, max(1, VISITS // n))
    scouts = 8 * min(n, SCOUTED) ** 2 * (30 + 2 * shape.k)
    return n**2 * (shape.d + 60 + passes * (6 * shape.k + 60)) + scouts


def candidates(task, family, X, n_outputs, seed):
    """The candidates for some data, from cheap to dear, and why others are left out."""
    shape, out, left = shape_of(X, n_outputs), [], {}
    kind = "Classifier" if task == "classification" else "Regressor"
    is_sparse = sparse.issparse(X)
    dense = shape.entries >= 0.25 * shape.n * shape.d
    if family in ("auto", "linear"):
        make = getattr(tunefree, f"PiSTOL{kind}")(random_state=seed)
        if task == "regression" and (not is_sparse or shape.d <= 1000):
            ridge = tunefree.AveragedSGDRegressor(random_state=seed)
            out.append(Candidate("ridge", "linear", False, ridge, _ridge_work))
        out.append(Candidate("linear", "linear", False, make, _portfolio_work))
        if dense and not is_sparse:
            name = "linear, asinh columns"
            out.append(Candidate(name, "linear", True, make, _portfolio_work))
        else:
            left["linear, asinh columns"] = "most entries are zero"
        if (
            _WIDE <= shape.d <= _WIDEST
            and shape.n < _NARROW * shape.d
            and (kind[0] == "C" or shape.k == 1)
        ):
            link = "logistic" if task == "classification" else "identity"
            make = getattr(tunefree, f"Reflectron{kind}")(link=link, random_state=seed)
            out.append(Candidate("Reflectron", "linear", False, make, _reflectron_work))
        else:
            left["Reflectron"] = "many rows a column, or too few or many columns"
    if family in ("auto", "kernel"):
        make = getattr(tunefree, f"Landmark{kind}")(random_state=seed)
        if shape.d <= _MOST_COLUMNS and shape.n * shape.d <= _MOST_CELLS:
            out.append(Candidate(LEADER, "kernel", False, make, _landmark_work, leads=True))
        else:
            left[LEADER] = f"{shape.d} columns are too many"
        if f"KernelPiSTOL{kind}" in tunefree.__all__ and shape.n * shape.d <= _MOST_CELLS:
            make = getattr(tunefree, f"KernelPiSTOL{kind}")(random_state=seed)
            name = "kernel PiSTOL"
            out.append(
                Candidate(
                    name, "kernel", False, make, _kernel_work, follows=True, most_rows=MOST_ROWS
                )
            )
    return sorted(out, key=lambda c: (c.follows, c.passes(shape))), left


class Report(NamedTuple):
    """What was tried, what was chosen and why: text in the shell, a table in notebooks.

    Attributes
    ----------
    estimator, task : str
    shape : tuple of int
        Distinct rows, columns as numbers, outputs.
    leaderboard : list of dict
    left_out : dict of str to str
        Candidates that do not suit the data, and why.
    reason : str
    passes, budget : float
        Passes spent and allowed.
    seconds, refit_seconds : float or None
        None in a model from a file: how long a fit took is no part of the model.
    """

    estimator: str
    task: str
    shape: tuple
    leaderboard: list
    left_out: dict
    reason: str
    passes: float
    budget: float
    seconds: float | None
    refit_seconds: float | None

    def times(self):
        """What was measured with a clock: all, the last fit, and every candidate."""
        each = {r["candidate"]: r["seconds"] for r in self.leaderboard}
        return {"all": self.seconds, "last fit": self.refit_seconds, "candidates": each}

    def timed(self, times=None):
        """The report with other `times`, or without any."""
        times = times or {"all": None, "last fit": None, "candidates": {}}
        board = [
            {**r, "seconds": times["candidates"].get(r["candidate"])} for r in self.leaderboard
        ]
        return self._replace(
            leaderboard=board, seconds=times["all"], refit_seconds=times["last fit"]
        )

    def heading(self):
        """The first line."""
        n, d, _ = self.shape
        return f"{self.estimator}: {n} distinct rows, {d} columns as numbers"

    def closing(self):
        """What was spent."""
        # On small data the default allows millions of passes: a limit that says nothing.
        told = self.budget < 1e6
        spent = f"{self.passes:.0f} passes" + (f" of {self.budget:.0f} allowed" if told else "")
        if self.seconds is None:
            return f"{spent}."
        spent = f"{spent}, in" if told else "In"
        return f"{spent} {self.seconds:.2f} s ({self.refit_seconds:.2f} s for the last fit)."

    def table(self):
        """Header and rows of text: candidate, risk and its error, log-loss, seconds, outcome."""
        classify = self.task == "classification"
        kind = "error" if classify else "squared error"
        scores = ("log-loss",) if classify else ()
        rows: list[tuple] = [
            ("candidate", f"validation {kind}", "standard error", *scores, "seconds", "")
        ]
        for r in self.leaderboard:
            cells = [_told(r["risk"], ".4g"), _told(r["risk_se"], ".2g")]
            cells += [_told(r["log_loss"], ".4g")] if classify else []
            status = "chosen" if r["chosen"] else r["status"].replace("finished", "")
            rows.append((r["candidate"], *cells, _told(r["seconds"], ".2f"), status))
        return rows

    def __repr__(self):
        rows = self.table()
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = [self.heading(), ""]
        for row in rows:
            cells = [row[0].ljust(widths[0])]
            cells += [cell.rjust(w) for cell, w in zip(row[1:-1], widths[1:-1], strict=True)]
            lines.append("  ".join([*cells, row[-1]]).rstrip())
        lines += ["", self.reason, self.closing()]
        lines += [f"Not suited: {name} ({why})." for name, why in self.left_out.items()]
        return "\n".join(lines)

    __str__ = __repr__

    def _repr_html_(self):
        head, *body = self.table()
        cells = "".join(f"<th>{escape(c)}</th>" for c in head)
        rows = "".join(
            f"<tr{' style=font-weight:bold' if row[-1] == 'chosen' else ''}>"
            + "".join(f"<td>{escape(c)}</td>" for c in row)
            + "</tr>"
            for row in body
        )
        left = "".join(
            f"<p>Not suited: {escape(name)} ({escape(why)}).</p>"
            for name, why in self.left_out.items()
        )
        return (
            f"<p>{escape(self.heading())}</p><table><thead><tr>{cells}</tr></thead>"
            f"<tbody>{rows}</tbody></table><p>{escape(self.reason)}</p>"
            f"<p>{escape(self.closing())}</p>{left}"
        )


def _told(value, form):
    """A number as text, nothing for None."""
    return "" if value is None else format(value, form)


_FAMILIES = ("auto", "linear", "kernel")


class _TuneFree(TellsCallbacks, BaseEstimator):
    classes_: np.ndarray
    predict: Callable[..., np.ndarray]

    def __init__(
        self,
        family: str = "auto",
        *,
        budget: float | str | None = None,
        random_state: Seed = None,
    ):
        self.family = family
        self.budget = budget
        self.random_state = random_state

    def _numbers(self, X, y, sample_weight, **checks):
        """The preprocessor, rows of numbers, targets and weights; no row weighs nothing."""
        if self.family not in _FAMILIES:
            raise ValueError(f"family={self.family!r} is none of {', '.join(_FAMILIES)}.")
        Budget(self.budget, 1.0)
        table = TablePreprocessor().fit(X, sample_weight=sample_weight)
        Z, y = base.check_rows_and_targets(self, table.transform(X), y, **checks)
        self.n_features_in_ = table.n_features_in_
        if hasattr(table, "feature_names_in_"):
            self.feature_names_in_ = table.feature_names_in_
        weights = base.check_weights(sample_weight, Z)
        kept = weights > 0
        return (table, Z, y, weights) if kept.all() else (table, Z[kept], y[kept], weights[kept])

    def _race(self, table, X, y, labels, weights, groups, score, n_outputs):
        """Judge the candidates, and fit the winner on all rows."""
        start, seed = time.perf_counter(), seed_of(self.random_state)
        affine = not sparse.issparse(X)
        rows, totals = hashed_visits(X, labels, weights, seed, affine=affine).unique()
        X, y, groups = X[rows], y[rows], groups[rows]
        shape, task = shape_of(X, n_outputs), score.task
        entrants, left = candidates(task, self.family, X, n_outputs, seed)
        if not entrants:
            raise ValueError(
                f"family={self.family!r} has no candidate for {shape.d} columns: " +
                "; ".join(f"{name}: {why}" for name, why in left.items())
            )  # fmt: skip
        budget = Budget(self.budget, shape.pass_work)
        entries = race(entrants, shape, X, y, totals, groups, score, budget, self._told)
        winner, reason = choose(entries, totals)
        begin, again = time.perf_counter(), not winner.fitted
        fitted, passes = winner.fitted, winner.candidate.passes(shape)
        if task == "classification" and wants_all_rows(winner, shape.n, totals):
            passes = winner.candidate.passes(shape, most=shape.n)
            again = budget.allows(passes) and not self._told.stopped
        if again:
            self._told.begin(f"{winner.candidate.name} on all rows")
            fitted = self._fitted_again(winner, entries, X, y, totals, groups)
            self._told.end()
        refit = time.perf_counter() - begin
        self.table_, self.view_, self.model_ = table, fitted.view, fitted.model
        if task == "classification":
            self.power_ = winner.power
        self.chosen_, self.seconds_ = winner.candidate.name, time.perf_counter() - start
        self.leaderboard_ = _leaderboard(entries, winner, totals, shape, task)
        self.traces_ = {e.candidate.name: e.trace for e in entries if e.trace is not None}
        passes = budget.spent + passes * again
        last = "It was fitted again on all rows." if again else "It was not fitted again."
        self.n_iter_ = max(1, int(round(passes)))
        self.report_ = Report(
            type(self).__name__, task, (shape.n, shape.d, shape.k), self.leaderboard_, left,
            f"{reason} {last}", float(passes), float(budget.passes),
            self.seconds_, refit,
        )  # fmt: skip

    def _model_state(self):
        """What a model file holds: no times, so that equal fits make equal files."""
        names = [n for n in vars(self) if n.endswith("_") and not n.startswith("_")]
        state, report = {n: vars(self)[n] for n in sorted(names)}, self.report_.timed()
        return state | {"report_": report, "leaderboard_": report.leaderboard, "seconds_": None}

    def _times(self):
        """What a file does not hold, as a note for one."""
        return {"seconds": self.report_.times()}

    def _set_times(self, times):
        """Put back what a file does not hold."""
        self.report_ = self.report_.timed(times)
        self.leaderboard_, self.seconds_ = self.report_.leaderboard, times["all"]

    def largest(self) -> tuple[str, dict[str, float]]:
        """What the model makes of its columns, by name.

        Returns
        -------
        kind : str
            'weight' of a linear model (of the output where it is largest), 'relevance' to a kernel
            on landmarks (root mean squared derivative), or '' where there is neither.
        dict of str to float
        """
        check_is_fitted(self, "model_")
        names = [str(name) for name in self.table_.get_feature_names_out()]
        if hasattr(self.model_, "coef_"):
            coef = np.atleast_2d(self.model_.coef_)
            values, kind = coef[np.abs(coef).argmax(axis=0), np.arange(len(names))], "weight"
        elif hasattr(self.model_, "relevance_"):
            values, kind = self.model_.relevance_, "relevance"
        else:
            return "", {}
        order = np.argsort(-np.abs(values), kind="stable")
        return kind, {names[j]: float(values[j]) for j in order}

    def _fitted_again(self, winner, entries, X, y, weights, groups):
        """The winner on all rows; after one hold-out the kernel on landmarks only adds that.

        Kernel PiSTOL keeps the bandwidths of the race.
        """
        leading, more = leading_entry(entries), {}
        leader = leading.leaders[0] if leading is not None and len(leading.leaders) == 1 else None
        if leader is not None and winner.candidate.leads:
            more["known"] = folds_of(groups)[0] != 0
        candidate = winner.candidate
        if winner.fitted:
            candidate = candidate._replace(known=winner.fitted.model)
        return candidate.fit(X, y, weights, leader, **more)

    def _show(self, X):
        check_is_fitted(self, "model_")
        return Fitted(self.view_, self.model_).show(self.table_.transform(X))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def _leaderboard(entries, winner, weights, shape, task):
    """One dict a candidate, the chosen one first, then by risk."""
    board = []
    for e in entries:
        known = len(e.losses) > 0
        risk, error = weighted_mean(e.losses, weights[e.rows]) if known else (np.nan, np.nan)
        score = {}
        if task == "classification":
            mean = weighted_mean(e.second, weights[e.rows])[0] if known else None
            score = {"log_loss": None if mean is None else float(mean)}
        board.append(
            {
                "candidate": e.candidate.name,
                "risk": float(risk) if known else None,
                "risk_se": float(error) if known else None,
                **score,
                "seconds": float(e.seconds),
                "passes": float(e.candidate.passes(shape)),
                "rows": len(e.rows),
                "chosen": e is winner,
                "status": e.status,
            }
        )
    return sorted(board, key=lambda r: (not r["chosen"], r["risk"] is None, r["risk"] or 0.0))


class TuneFreeClassifier(ClassifierMixin, _TuneFree):
    r"""Classification in one call: candidates race on rows that they have not seen.

    Any table goes in: raw numbers of any scale, sparse matrices, pandas, polars and pyarrow columns
    with categories and missing values. Linear PiSTOL, the same on asinh columns, a kernel on
    landmarks and kernel PiSTOL are judged from cheap to dear on left-out rows: below 2,000 rows by
    their log-losses on five folds, else by their errors on one hold-out of at most 5,000.
    Candidates that can no longer win are stopped; ties within one standard error of the difference
    go to the cheapest; the winner is fitted on all rows. (Kernel PiSTOL is judged on 16,384 at
    most, and learns more if its errors fall steeply with the rows.)

    Parameters
    ----------
    family : {'auto', 'linear', 'kernel'}, default='auto'
        Which candidates to consider.
    budget : float, str or None, default=None
        Passes over the data that may be spent, judging and fitting together: one is a multiply-add
        for every stored entry and class. The first candidate is always run. None is 6e12
        multiply-adds. Text such as '60s' is seconds of wall time; the choice then depends on the
        machine.
    random_state : int, RandomState or None, default=None
        Seed of the hash that orders rows.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    chosen_ : str
        The winner's name.
    model_ : estimator
        The winner, fitted on the class numbers of all rows.
    power_ : float
        What its probabilities are raised to, and its decisions multiplied by: fitted to the
        log-losses of the left-out rows (temperature scaling).
    view_ : tuple of parts
        What columns go through before `model_`.
    table_ : TablePreprocessor
    leaderboard_ : list of dict
        For every candidate, the chosen one first: validation 'risk' (share of errors) and its
        standard error 'risk_se', its 'log_loss', 'seconds' of judging, 'passes' of one fit, 'rows'
        scored, 'chosen', 'status'.
    traces_ : dict of str to dict
        For candidates that predict every row before they learn it: 'rows' seen and 'risk' so far.
    report_ : part
        Says what was chosen and why: text in the shell, a table in notebooks.
    seconds_ : float
        What the fit took. Like the seconds in `leaderboard_` and `report_` it is no part of the
        model: a file does not hold it, so that fits of equal seeds make equal files.
    n_iter_ : int
        Passes spent.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    Raises
    ------
    ValueError
        For infinite values, labels of one class, weights that are all zero.

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

    @told
    def fit(self, X: MatrixLike, y: TargetLike, sample_weight: ArrayLike | None = None) -> Self:
        """Judge the candidates and fit the winner.

        Parameters
        ----------
        X : frame, array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.

        Returns
        -------
        self
        """
        table, X, y, weights = self._numbers(X, y, sample_weight)
        self.classes_, codes = base.encode_labels(y, fewest=2)
        k, labels = len(self.classes_), codes[:, None].astype(float)
        self._race(table, X, codes, labels, weights, codes, Mistakes(k), 1 if k == 2 else k)
        return self

    def decision_function(self, X: MatrixLike) -> np.ndarray:
        """Log-odds of the second class, or of every class; shape (n,) or (n, n_classes)."""
        shown = self._show(X)
        return self.power_ * self.model_.decision_function(shown)

    def predict(self, X: MatrixLike) -> np.ndarray:
        """The most likely class of every row, shape (n_samples,)."""
        shown = self._show(X)
        return self.classes_[self.model_.predict(shown)]

    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Calibrated probabilities of the classes, shape (n_samples, n_classes)."""
        shown = self._show(X)
        return raised(self.model_.predict_proba(shown), self.power_)

    def predict_log_proba(self, X: MatrixLike) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        return np.log(self.predict_proba(X))


class TuneFreeRegressor(RegressorMixin, MultiOutputMixin, _TuneFree):
    r"""Regression in one call: candidates race on rows that they have not seen.

    As `TuneFreeClassifier`, with exact ridge regression as one more candidate, judged by squared
    errors.

    Parameters
    ----------
    family : {'auto', 'linear', 'kernel'}, default='auto'
        Which candidates to consider.
    budget : float, str or None, default=None
        See `TuneFreeClassifier`.
    random_state : int, RandomState or None, default=None
        Seed of the hash that orders rows.

    Attributes
    ----------
    chosen_, model_, view_, table_, traces_, report_, seconds_, n_iter_
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

    @told
    def fit(self, X: MatrixLike, y: TargetLike, sample_weight: ArrayLike | None = None) -> Self:
        """Judge the candidates and fit the winner.

        Parameters
        ----------
        X : frame, array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.

        Returns
        -------
        self
        """
        table, X, y, weights = self._numbers(X, y, sample_weight, multi_output=True, numeric=True)
        y = np.asarray(y, dtype=np.float64)
        targets = y.reshape(len(y), -1)
        spread = np.ones(1)
        if targets.shape[1] > 1:
            variance = np.average(np.square(targets - targets.mean(axis=0)), axis=0)
            spread = np.where(variance > 0.0, variance, 1.0) * targets.shape[1]
        groups = np.zeros(len(y), dtype=np.int64)
        self._race(table, X, y, targets, weights, groups, Squares(spread), targets.shape[1])
        return self

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Predicted targets, shape (n_samples,) or (n_samples, n_targets)."""
        shown = self._show(X)
        return self.model_.predict(shown)
