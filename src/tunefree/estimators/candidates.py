"""The candidates of `TuneFree*`: how each is evaluated on held-out rows, and fitted to all rows.

Kernels and ridge regression on ranks need one fit for their held-out predictions (exact
leave-one-out), as does kernel PiSTOL (which predicts before it learns). Others are fitted fold by
fold. Kernels with few rows a column use leave-one-out, too, but by 3 folds, whose targets their
search does not use. `tunefree.select.stacking` combines the predictions. The rule is described in
docs/selection.md.
"""

import copy
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import clone

from tunefree._format import number
from tunefree._process import workers
from tunefree._registry import estimator_class
from tunefree._warn import DataWarning
from tunefree.columns import asinh_scaling, show
from tunefree.constraints import Monotone
from tunefree.designs import as_dense
from tunefree.estimators import base
from tunefree.estimators.from_source import FitsSums
from tunefree.learners.kernel import ridge
from tunefree.learners.kernel.geometry import n_permuted_rows
from tunefree.learners.trees.boosting import MOST_ROUNDS
from tunefree.select import costs
from tunefree.select.costs import Cost, Step
from tunefree.select.stacking import (
    FEW_ROWS,
    Chosen,
    Entry,
    Means,
    Quantiles,
    choose_stack,
    finished,
    folds_of,
    loses,
    n_folds,
    weighted_mean,
)

# Kernels on landmarks are skipped for wider rows, and for more cells (sparse rows become dense).
MOST_COLUMNS, _MOST_CELLS = 2000, 2e8
# Ridge regression on the view is a candidate up to so many columns.
_FEW_COLUMNS = 1000
# Kernels on landmarks, in the order of evaluation: each reuses the view of the one before.
KERNELS = {"laplacian": "Laplace kernel", "rbf": "Gaussian kernel"}
# The GLM, which finds sparse weights, is a candidate for so many columns, and if there are
# fewer rows a column than this.
_WIDE, _WIDEST, _NARROW = 100, 10_000, 20
# With fewer rows a column, leave-one-out errors of rates chosen on the same rows are misleading.
_RATED = 4
# Landmarks to which a plan may limit a kernel, and those of kernels that are fitted fold by fold.
_FEWER, _MORE, _LANDMARKS_OF_FOLDS = (1000, 500, 250), (4000, 2000, 1000), 1000
# Kernels of more rows than this wait for a pilot on so many rows, which must lower the stack's
# held-out loss by this share.
_PILOTED, _KERNEL_PILOT_ROWS, _LEAST_GAIN = 5000, 4000, 0.005
# With fewer rows than this candidates cannot be compared.
_FEWEST_ROWS = 40
# The name of the trees, which are a candidate from so many rows on.
_TREES, _TREE_ROWS = "boosted trees", 100
# Trees predict a row in the time of about so many kernel values.
_TREE_COST = 1500
# Rounds to which a plan may limit them.
_FEWER_ROUNDS = (1000, 500, 250)


class Fitted(NamedTuple):
    """A fitted model, and the view that its rows are transformed by."""

    view: tuple
    model: Any
    found: Any = None  # what the model reports of held-out rows

    def without_held_out(self):
        """The same without the model's own held-out predictions: only the stack keeps some."""
        model = copy.copy(self.model)
        vars(model).pop("held_out_", None)
        return self._replace(model=model)

    def show(self, X):
        """Rows as the model takes them."""
        return show(self.view, as_dense(X) if self.view else X)

    def scores(self, X, kind):
        """Scores of rows, of the kind of a stack: log-odds or predictions."""
        method = "decision_function" if kind.task == "classification" else "predict"
        return kind.of_all(getattr(self.model, method)(self.show(X)), self.model)


class OneFit:
    """One fit to all rows also gives the held-out predictions."""

    def cost(self, candidate, shape, folds=None):
        """The `Cost` of the evaluation and the last fit."""
        return candidate.cost(shape)

    def evaluate(self, candidate, problem, others):
        """The `Entry` of a candidate."""
        return candidate.in_one_fit(problem, view_donor(others))


class Folds:
    """A fit to the other folds predicts each fold, as long as the candidate can still win."""

    def cost(self, candidate, shape, folds=None):
        """The `Cost` of the evaluation, on `folds` if they are given, and of the last fit."""
        whole = candidate.cost(shape)
        if folds is not None:
            each = [candidate.cost(shape.rows(len(train))).seconds for train, _ in folds]
            return Cost(whole.seconds + sum(each), whole.bytes)
        count = self._n_folds(shape.n)
        train = candidate.cost(shape.rows(max(1, int(shape.n * (1 - 1 / count)))))
        times = count if shape.n < FEW_ROWS else 1
        return Cost(whole.seconds + times * train.seconds, whole.bytes)

    def evaluate(self, candidate, problem, others):
        """The `Entry` of a candidate."""
        donor, folds = view_donor(others), self._folds(problem)
        models, parts, rows = [], [], []
        for i, fold in enumerate(folds):
            scores, model = self._predicted(candidate, problem, fold, donor)
            models, parts, rows = [*models, model], [*parts, scores], [*rows, fold[1]]
            numbers = np.concatenate(rows)
            order = np.argsort(numbers)
            scores = np.concatenate(parts)[order]
            entry = problem.entry(candidate, scores, numbers[order], models[0])
            if i + 1 < len(folds) and loses(entry, others, problem.weights):
                return entry._replace(status=f"stopped after {i + 1} of {len(folds)} folds")
        return entry

    def _n_folds(self, n):
        return n_folds(n)

    def _folds(self, problem):
        return problem.folds

    def _predicted(self, candidate, problem, fold, donor):
        """Scores of a fold's held-out rows, and the model."""
        train, out = fold
        fitted = candidate.fit(*problem.part(train), donor=donor)
        return fitted.scores(problem.X[out], problem.score), fitted.model


class ThreeFolds(Folds):
    """Held-out predictions of three fits to all rows, whose search does not use the fold."""

    def _n_folds(self, n):
        return 3

    def _folds(self, problem):
        fold, count = folds_of(problem.strata, problem.groups, 3)
        return [(np.arange(len(fold)), np.flatnonzero(fold == f)) for f in range(count)]

    def _predicted(self, candidate, problem, fold, donor):
        fitted = candidate.fit_and_hold_out(problem, donor, np.isin(*fold), None)
        return candidate.held_out_scores(problem, fitted), fitted.model


@dataclass(frozen=True)
class Candidate:
    """A model that may join the stack: its costs, its evaluation and its last fit."""

    name: str
    estimator: Any
    evaluation: Any = Folds()
    limits: tuple = ()  # landmarks or rows to which a plan may limit it, the largest first
    unit = "landmarks"  # of the limits
    cost: ClassVar[Any]  # of a subclass: the `Cost` of one fit to rows of a shape

    def total_cost(self, shape, folds=None):
        """The `Cost` of the evaluation, on `folds` if they are given, and of the last fit."""
        return self.evaluation.cost(self, shape, folds)

    def view_of(self, X):
        """The view of the columns, a tuple of parts."""
        return ()

    def fit(self, X, y, weights, donor=None):
        """A `Fitted` candidate; `donor` is a model whose view of the columns is reused."""
        fitted = Fitted(self.view_of(X), clone(self.estimator))
        with ignore_outlier_warnings():
            fitted.model.fit(fitted.show(X), y, sample_weight=weights)
        return fitted

    def evaluate(self, problem, others):
        """The `Entry` of the candidate, after those of `others`."""
        return self.evaluation.evaluate(self, problem, others)

    def compressed(self, entry, problem, most):
        """The candidate's entry with at most so many landmarks."""
        return entry


class Baseline(Candidate):
    """The same scores for all rows: the baseline of the leaderboard."""

    @staticmethod
    def cost(shape):
        """Nothing."""
        return Cost(0.0, 0.0)


def constant_entry(chosen, problem):
    """The `Entry` of the best constant on the held-out rows of a stack; None without such rows."""
    rows, score = chosen.rows, problem.score
    if not len(rows):
        return None
    y, weights = problem.y[rows], problem.weights[rows]
    scores = np.tile(score.constant(y, weights), (len(rows), 1))
    losses = proper_losses = score.losses(scores, y)
    if score.task == "classification":
        losses = (y != np.bincount(y, weights).argmax()).astype(float)
    return Entry(Baseline("constant", None), scores, losses, proper_losses, rows, 0.0, "baseline")


class Ridge(Candidate):
    """Ridge regression."""

    cost = staticmethod(costs.ridge_cost)


class LinearPiSTOL(Candidate):
    """Linear PiSTOL."""

    cost = staticmethod(costs.linear_cost)


class AsinhPiSTOL(LinearPiSTOL):
    """Linear PiSTOL with columns on an asinh scale."""

    def view_of(self, X):
        """The scaling of these rows."""
        return (asinh_scaling(X),)


class GLM(Candidate):
    """A generalized linear model with sparse weights, or of a family."""

    cost = staticmethod(costs.glm_cost)


class KernelRidge(Candidate):
    """Kernel ridge regression, on the view of the columns of the candidate before."""

    def cost(self, shape):
        """The `Cost` of one fit."""
        return costs.kernel_ridge_cost(shape, self.estimator.kernel, self.estimator.n_landmarks)

    def limited(self, limit):
        """The candidate with so many landmarks."""
        return replace(self, estimator=clone(self.estimator).set_params(n_landmarks=limit))

    def fit(self, X, y, weights, donor=None, **options):
        """A `Fitted` candidate; `options` are those of the estimator's `_learn`."""
        model = clone(self.estimator)
        with ignore_outlier_warnings():
            found = model._learn(X, y, sample_weight=weights, like=donor, **options)
        return Fitted((), model, found)

    def fit_and_hold_out(self, problem, donor, held, column_groups):
        """A candidate `Fitted` to all rows, with predictions of the rows `held`."""
        return self.fit(
            *problem[:3], donor=donor, held=held, groups=problem.groups, column_groups=column_groups
        )

    def held_out_scores(self, problem, fitted):
        """The scores of held-out rows of a fit."""
        return problem.score.of_all(fitted.found.held_out.predictions, fitted.model)

    def in_one_fit(self, problem, donor):
        """The `Entry` of one fit to all rows."""
        fitted = self.fit_and_hold_out(problem, donor, problem.held(), problem.column_groups)
        scores, found = self.held_out_scores(problem, fitted), fitted.found
        optimism = found.predictor.transform.optimism
        return problem.entry_of_one_fit(self, fitted, scores, found.effects, optimism)

    def compressed(self, entry, problem, most):
        """The entry with at most so many landmarks."""
        if entry.fitted is None or len(entry.fitted.model.dual_coef_) <= most:
            return entry
        return self.limited(most).in_one_fit(problem, entry.fitted.model)


class RidgeOnRanks(KernelRidge):
    """Ridge regression on ranks and levels, whose view others reuse."""

    def cost(self, shape):
        """The `Cost` of one fit."""
        return costs.ranks_cost(shape)


class PilotedKernel(KernelRidge):
    """The better kernel for many rows, if a pilot on few rows improves the stack."""

    def cost(self, shape):
        """The `Cost` of two pilots and one fit."""
        few, landmarks = shape.rows(min(shape.n, _KERNEL_PILOT_ROWS)), self.estimator.n_landmarks
        pilots = [costs.kernel_ridge_cost(few, kernel, landmarks) for kernel in KERNELS]
        each = [super().cost(shape), *pilots]
        return Cost(sum(c.seconds for c in each), max(c.bytes for c in each))

    def evaluate(self, problem, others):
        """The `Entry` of the kernel that is better in the pilot."""
        train, held = problem.folds[0]
        few = train[:_KERNEL_PILOT_ROWS]
        if not problem.learnable([(few, held)]):
            return Entry.unscored(self, f"skipped: {len(few)} rows have one class only")
        # Side by side they take no more memory than a fit to all rows whose landmarks are not few.
        n_jobs = self.estimator.n_jobs if self.estimator.n_landmarks == "auto" else 1
        with workers(n_jobs) as team:
            pilots = team.map(lambda k: self._pilot(problem, others, k, few, held), KERNELS)
        gain, pilot = max(pilots, key=lambda p: p[0])
        if gain < _LEAST_GAIN and finished(others):
            words = f"skipped: kernels of {len(few)} rows did not lower the stack's loss by 0.5 %"
            return Entry.unscored(self, words)
        model = clone(self.estimator).set_params(kernel=pilot.model.kernel)
        return replace(self, estimator=model).in_one_fit(problem, pilot.model)

    def _pilot(self, problem, others, kernel, few, held):
        """How much a kernel of few rows lowers the stack's held-out loss, and its `Fitted`."""
        one = replace(self, estimator=clone(self.estimator).set_params(kernel=kernel))
        fitted = one.fit(*problem.part(few), donor=view_donor(others), column_groups=None)
        scores = [entry.scores for entry in finished(others)]
        both = [*scores, fitted.scores(problem.X[held], problem.score)]
        y, weights = problem.y[held], problem.weights[held]
        stacks = [problem.score.stack(s, y, weights) for s in (scores or both, both)]
        before, after = (weighted_mean(stack.losses, weights)[0] for stack in stacks)
        return (1.0 - after / before if scores and before > 0.0 else -after), fitted


@dataclass(frozen=True)
class BoostedTrees(Candidate):
    """Boosted trees, whose held-out predictions are those that choose the number of rounds."""

    most_rounds: int = MOST_ROUNDS
    unit = "rounds"

    def total_cost(self, shape, folds=None):
        """The `Cost` of the evaluation and the last fit, which are one."""
        count = n_folds(shape.n) if shape.n < FEW_ROWS else 1
        return costs.trees_cost(shape, len(folds) if folds else count, self.most_rounds)

    def limited(self, limit):
        """The candidate of so many rounds."""
        return replace(self, most_rounds=limit)

    def evaluate(self, problem, others):
        """The `Entry` of the candidate."""
        model = clone(self.estimator)
        scores = model._learn(*problem[:3], problem.folds, self.most_rounds)
        fitted, rows = Fitted((), model), np.flatnonzero(problem.held())
        some = rows[: n_permuted_rows(_TREE_COST, problem.shape.d, len(rows))]
        effects = permutation_effects(fitted, problem, some)
        return problem.entry_of_one_fit(self, fitted, problem.score.of_all(scores, model), effects)


@dataclass(frozen=True)
class KernelPiSTOL(Candidate):
    """Kernel PiSTOL, for sparse rows of so many columns that other kernels are skipped."""

    most_rows: int = costs.MOST_ROWS  # that it learns
    unit = "rows"

    def cost(self, shape):
        """The `Cost` of one fit."""
        return costs.kernel_pistol_cost(shape, self.most_rows)

    def limited(self, limit):
        """The candidate that learns so many rows."""
        return replace(self, most_rows=limit)

    def in_one_fit(self, problem, donor):
        """The `Entry` of one fit, to all rows or to the first that are not held out."""
        held, model = problem.held(), clone(self.estimator)
        rows, fitted = np.flatnonzero(held), Fitted((), model)
        if len(held) > self.most_rows:
            learned = np.flatnonzero(~held)[: self.most_rows]
            model._learn(*problem.part(learned))
            scores = fitted.scores(problem.X[rows], problem.score)
        else:
            scores = problem.score.of_all(model._learn(*problem[:3], held=held), model)
        some = rows[: n_permuted_rows(self.most_rows, problem.shape.d, len(rows))]
        effects = permutation_effects(fitted, problem, some)
        return problem.entry_of_one_fit(self, fitted, scores, effects)


def permutation_effects(fitted, problem, rows):
    """Changes of rows' scores when columns come from the next row; None if rows are sparse."""
    X, kind = problem.X, problem.score
    if problem.is_sparse():
        return None
    sample, effects = X[rows], []
    before = fitted.scores(sample, kind)
    for columns in (*np.arange(X.shape[1])[:, None], *problem.column_groups):
        changed = sample.copy()
        changed[:, columns] = np.roll(sample[:, columns], 1, axis=0)
        effects.append(fitted.scores(changed, kind) - before)
    return np.array(effects)


def view_donor(entries):
    """The last model whose view of the columns others reuse, or None."""
    donors = [e for e in entries if isinstance(e.candidate, KernelRidge) and e.fitted is not None]
    return donors[-1].fitted.model if donors else None


@contextmanager
def ignore_outlier_warnings():
    """Ignore warnings of outliers and other findings: they are not about the user's rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        warnings.filterwarnings("ignore", message=".*ten times as far from the middle")
        yield


def make_candidates(problem, kinds, n_jobs=None, compress=None):
    """The candidates for some data, in the order of evaluation, and why others are skipped.

    `kinds` are some of 'linear', 'kernel', 'trees'; `compress` is a number of landmarks, or None.
    """
    if problem.signs is not None:
        made, skipped = _monotone(problem, kinds, n_jobs)
    else:
        made, skipped = _of_kinds(problem, kinds, n_jobs, compress)
    if not made:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in skipped.items())
        columns = f"{problem.shape.d} columns"
        raise ValueError(f"candidates={kinds!r} leave none for {columns}: {reasons}")
    return made, skipped


def _of_kinds(problem, kinds, n_jobs, compress):
    """The candidates without signs of columns, and why others are skipped."""
    shape, linear, skipped = problem.shape, [], {}
    few = {"linear", "kernel"} <= set(kinds) and _has_view(shape) and _solved_exactly(problem)
    if "linear" in kinds and not few:
        linear, skipped = _linear_candidates(problem)
    on_ranks, kernels, trees = [], [], []
    if "kernel" in kinds and _has_view(shape):
        on_ranks, kernels = _kernels(problem, "linear" in kinds, n_jobs)
    elif "kernel" in kinds:
        kernels, reasons = _kernel_pistol(problem, n_jobs, compress)
        skipped |= reasons
    if "trees" in kinds:
        trees, reasons = _trees(problem, n_jobs)
        skipped |= reasons
    return [*on_ranks, *linear, *trees, *kernels, *_of_family(problem)], skipped


def _trees(problem, n_jobs):
    """Boosted trees, or why they are skipped."""
    shape, score, options = problem.shape, problem.score, {}
    reason = None
    if isinstance(score, Means):
        name = type(score.family).__name__.lower()
        options = {"loss": name}
        if name not in ("poisson", "gamma", "tweedie"):
            reason = f"trees have no loss {name}"
    elif isinstance(score, Quantiles):
        options = {"loss": "quantile", "quantile": score.family.levels}
    if problem.signs is not None:
        options["monotonic_cst"] = problem.signs
    if shape.d > MOST_COLUMNS:
        reason = f"{shape.d} columns are too many"
    elif shape.n < _TREE_ROWS:
        reason = f"{shape.n} rows are too few"
    if reason:
        return [], {_TREES: reason}
    made = _estimator(problem, "BoostedTrees", n_jobs=n_jobs, **options)
    return [BoostedTrees(_TREES, made, limits=_FEWER_ROUNDS)], {}


def _monotone(problem, kinds, n_jobs):
    """The candidates that increase or decrease with some columns, and why others are skipped."""
    trees, skipped = _trees(problem, n_jobs) if "trees" in kinds else ([], {})
    family = _family_of(problem) or ("binomial" if _classifies(problem) else "gaussian")
    model = _estimator(problem, "GLM", family=family, constraint=Monotone(tuple(problem.signs)))
    skipped |= {"kernels and other linear models": "they do not keep monotonic_cst"}
    return [*([GLM("GLM, monotone", model)] if "linear" in kinds else []), *trees], skipped


def _has_view(shape):
    """Whether the columns are few enough for kernels on landmarks."""
    return shape.d <= MOST_COLUMNS and shape.n * shape.d <= _MOST_CELLS


def _solved_exactly(problem):
    """Whether kernels are solved exactly: linear models are not needed then."""
    return not problem.is_sparse() and problem.shape.n <= ridge.EXACT_ROWS


def _classifies(problem):
    return problem.score.task == "classification"


def _family_of(problem):
    """The family of the loss, if it is not that of squared errors or classes."""
    return getattr(problem.score, "family", None)


def _estimator(problem, name, **options):
    """A classifier or regressor."""
    kind = "Classifier" if _classifies(problem) else "Regressor"
    return estimator_class(f"{name}{kind}")(random_state=problem.seed, **options)


def _linear_candidates(problem):
    """Linear models from cheap to expensive, and why others are skipped."""
    shape, is_sparse, skipped = problem.shape, problem.is_sparse(), {}
    classify = _classifies(problem)
    linear = _estimator(problem, "PiSTOL")
    found: list[Candidate] = [LinearPiSTOL("linear", linear)]
    if not classify and (not is_sparse or shape.d <= 1000):
        found.insert(0, Ridge("ridge", _estimator(problem, "RidgePath")))
    if not is_sparse and shape.entries >= 0.25 * shape.n * shape.d:
        found.append(AsinhPiSTOL("linear, asinh columns", linear))
    else:
        skipped["linear, asinh columns"] = "most entries are zero"
    wide = _WIDE <= shape.d <= _WIDEST and shape.n < _NARROW * shape.d
    if wide and (classify or shape.k == 1):
        family = "auto" if classify else "gaussian"
        found.append(GLM("GLM", _estimator(problem, "GLM", family=family)))
    else:
        skipped["GLM"] = "many rows for each column, or too few or too many columns"
    return sorted(found, key=lambda c: c.cost(shape).seconds), skipped


def _of_family(problem):
    """The GLM of the loss."""
    family = _family_of(problem)
    if family is None:
        return []
    return [GLM(f"GLM, {type(family).__name__}", _estimator(problem, "GLM", family=family))]


def _kernels(problem, linear, n_jobs):
    """Ridge regression on ranks and levels, if linear models are asked for; kernel ridge."""
    shape, whole_groups = problem.shape, problem.groups is not None or problem.given
    make, on_ranks = partial(_estimator, problem, "KernelRidge", n_jobs=n_jobs), []
    if linear and shape.d <= _FEW_COLUMNS:
        options = make(kernel="linear"), Folds() if whole_groups else OneFit()
        on_ranks = [RidgeOnRanks("ridge on ranks and levels", *options)]
    if shape.n > _PILOTED and not whole_groups:
        limits = tuple(m for m in _MORE if m < shape.n)
        return on_ranks, [PilotedKernel("kernel ridge", make(), OneFit(), limits)]
    limits = () if whole_groups else tuple(m for m in _FEWER if m < shape.n)
    landmarks = "auto" if shape.n <= ridge.EXACT_ROWS else _LANDMARKS_OF_FOLDS
    options = _evaluation_of_kernels(problem), limits
    made = [(name, make(kernel=k, n_landmarks=landmarks)) for k, name in KERNELS.items()]
    return on_ranks, [KernelRidge(*pair, *options) for pair in made]


def _evaluation_of_kernels(problem):
    """How kernels are evaluated.

    All rows as landmarks hold out whole groups exactly, fewer landmarks do not. With few rows a
    column so many rates fit noise: rows that did not choose them evaluate them.
    """
    n, d = problem.shape[:2]
    if problem.given:
        return Folds()
    if n < min(FEW_ROWS, _RATED * d):
        return ThreeFolds()
    return OneFit() if problem.groups is None or n <= ridge.EXACT_ROWS else Folds()


def _kernel_pistol(problem, n_jobs, compress):
    """Kernel PiSTOL, for rows of too many columns for other kernels, and why others are skipped."""
    n, skipped = problem.shape.n, {KERNELS["rbf"]: f"{problem.shape.d} columns are too many"}
    if problem.given:
        return [], skipped | {"kernel PiSTOL": "with cv= it would be fitted fold by fold"}
    if problem.groups is not None:
        return [], skipped | {"kernel PiSTOL": "it cannot hold out whole groups"}
    limits = tuple(m for m in (costs.MOST_ROWS // 2, costs.MOST_ROWS // 4) if m < n)
    made = _estimator(problem, "KernelPiSTOL", n_jobs=n_jobs, compress=compress)
    evaluation = OneFit() if n >= FEW_ROWS else Folds()
    return [KernelPiSTOL("kernel PiSTOL", made, evaluation, limits, costs.MOST_ROWS)], skipped


def plan_candidates(candidates, limits, problem):
    """The `Plan` within `limits` of time and memory, and the candidates as it limits them."""
    shape, folds = problem.shape, problem.folds if problem.given else None

    def within(candidate, limit):
        return candidate if limit is None else candidate.limited(limit)

    def step(candidate, limit):
        seconds, size = within(candidate, limit).total_cost(shape, folds)
        return Step(candidate.name, seconds, size, limit, candidate.unit)

    plan = limits.plan_for([[step(c, limit) for limit in (None, *c.limits)] for c in candidates])
    steps = {step.candidate: step for step in plan.steps}
    return plan, [within(c, steps[c.name].limit) for c in candidates]


def _side_by_side(candidates, plan, problem):
    """Kernels of few rows, which use one thread each, and none of the other's predictions."""
    if problem.shape.n >= FEW_ROWS or plan.bytes is not None:
        return []
    return [c for c in candidates if type(c) is KernelRidge and type(c.evaluation) is OneFit]


def evaluate_candidates(candidates, plan, problem, callbacks):
    """Evaluate candidates on held-out rows.

    Parameters
    ----------
    candidates : list of Candidate
        From cheap to expensive; those that use the entries of others come last.
    plan : Plan
        Which candidates are limited or skipped.
    problem : StackProblem
    callbacks
        Called for every candidate; they may stop the evaluation (`tunefree.estimators.base`).

    Returns
    -------
    list of Entry
    """
    entries: list[Entry] = []
    comparable = len(problem.y) >= _FEWEST_ROWS and problem.learnable(problem.folds)
    not_planned = {step.candidate: step.reason for step in plan.steps}

    def skip_reason(candidate):
        """The status of a candidate that is not evaluated; None if it is."""
        if callbacks.stopped:
            return "skipped: a callback stopped the fit"
        if not_planned[candidate.name]:
            return f"skipped: {not_planned[candidate.name]}"
        if not comparable:
            first = all(e.status != "finished" for e in entries)
            return "finished" if first else "too few rows to compare"
        return None

    def evaluate(candidate):
        """The `Entry` of a candidate, with its seconds."""
        start = time.perf_counter()
        entry = candidate.evaluate(problem, list(entries))
        return entry._replace(seconds=time.perf_counter() - start)

    beside = _side_by_side([c for c in candidates if not not_planned[c.name]], plan, problem)
    known: dict[str, Entry] = {}
    callbacks.expect(2 * len(candidates))  # a refit on all rows is a task of its own
    with ignore_outlier_warnings():
        for candidate in candidates:
            reason = skip_reason(candidate)
            if reason is not None:
                entries.append(Entry.unscored(candidate, reason))
                callbacks.evaluated(entries[-1], problem.weights)
                continue
            callbacks.begin(candidate.name)
            if candidate in beside and not known:
                with workers(candidate.estimator.n_jobs) as team:
                    found = team.map(evaluate, beside)
                known = dict(zip([c.name for c in beside], found, strict=True))
            entries.append(known.get(candidate.name) or evaluate(candidate))
            callbacks.evaluated(entries[-1], problem.weights)
            callbacks.end()
    return entries


class LastFits(NamedTuple):
    """The models of the stack, fitted to all rows."""

    fits: list  # `Fitted` models
    donor: Any  # the model whose view of the columns they use
    names: list  # of candidates that were fitted again
    seconds: float


def fit_all_rows(chosen, entries, problem, callbacks):
    """The `LastFits` of the models of a stack."""
    start, donor, fits, names = time.perf_counter(), view_donor(entries), [], []
    for entry in chosen.entries:
        candidate, fitted = entry.candidate, entry.fitted
        if fitted is None:
            callbacks.begin(f"{candidate.name} on all rows")
            fitted = candidate.fit(*problem[:3], donor)
            callbacks.end()
            names.append(candidate.name)
        fits.append(fitted.without_held_out())
    return LastFits(fits, donor, names, time.perf_counter() - start)


class Stacked(NamedTuple):
    """The candidates' evaluation, and the stack."""

    problem: Any  # with the loss of the stack
    entries: list
    chosen: Chosen
    last: LastFits
    plan: Any
    skipped: dict  # candidates that do not suit the data, and why
    scores: dict  # of `scoring`, by candidate
    compression: Any
    seconds: float

    def shares(self):
        """The shares of the models of the stack, by name."""
        pairs = zip(self.chosen.entries, self.chosen.stack.shares, strict=True)
        return {e.candidate.name: float(share) for e, share in pairs}

    def reason(self):
        """The reason for the stack, and which models were fitted again, in sentences."""
        names = ", ".join(self.last.names)
        last = f"Fitted again on all rows: {names}." if names else ""
        return f"{self.chosen.reason} {last}".strip()


class KnownScores(NamedTuple):
    """Held-out scores in place of a preprocessor and a model; rows are their numbers."""

    scores: np.ndarray
    classes_: Any

    def transform(self, X):
        """The rows."""
        return X

    def decision_function(self, X):
        """The scores of all rows."""
        return self.scores

    predict = decision_function


def choose_by_score(estimator, scorer, chosen, entries, problem):
    """The stack, or a candidate of a higher held-out score, and the scores of all candidates.

    The scorer gets copies of the estimator that predict the held-out rows.
    """
    rows, scores, classes = chosen.rows, {}, getattr(problem.targets, "classes", None)
    y, weights = problem.y[rows], problem.weights[rows]
    targets = y if classes is None else classes[y]

    def score_of(one):
        known, model = KnownScores(one.scores(), classes), copy.copy(estimator)
        stack = {"models_": [known], "views_": [()], "weights_": np.ones(1)}
        stack |= {"table_": known, "offsets_": np.zeros(known.scores.shape[1])}
        vars(model).update(problem.targets.attributes() | stack)
        return float(scorer(model, rows[:, None], targets, sample_weight=weights))

    best, highest = chosen, score_of(chosen)
    words = f", {number(highest)} for the stack."
    for entry in finished(entries):
        name = entry.candidate.name
        alone = Chosen(problem.score.stack([entry.scores], y, weights), [entry], name)
        scores[name] = score_of(alone)
        if scores[name] > highest:
            best, highest = alone, scores[name]
    winner = "the stack" if best is chosen else repr(best.reason)
    words = "." if best is chosen else words
    words = f"Best {estimator.scoring} on held-out rows: {number(highest)} for {winner}{words}"
    return best._replace(reason=f"{chosen.reason} {words}"), scores


class StackCompression(NamedTuple):
    """What fewer landmarks cost."""

    n_landmarks: int  # the most of a kernel
    loss_before: float  # mean held-out loss of the stack, with all landmarks
    loss_after: float  # and with fewer
    standard_error: float  # of their difference


def compress_stack(before, problem, most):
    """The `Chosen` stack of the same kernels with at most so many landmarks, and what it costs."""
    entries = [e.candidate.compressed(e, problem, most) for e in before.entries]
    after, weights = choose_stack(entries, problem), problem.weights[before.rows]
    change, error = weighted_mean(after.stack.losses - before.stack.losses, weights)
    old, new = (float(weighted_mean(c.stack.losses, weights)[0]) for c in (before, after))
    words = (
        f"{before.reason} With at most {most} landmarks: {after.reason} The loss was {number(old)} "
        f"and is now {number(new)} (standard error of the difference {number(float(error), 2)})."
    )
    return Chosen(*after[:2], words), StackCompression(most, old, new, float(error))


class ToModelRows(NamedTuple):
    """Transforms the user's rows to those of a model of the stack."""

    table: Any
    view: tuple
    classes: np.ndarray | None
    class_weights: np.ndarray | None

    def __call__(self, rows):
        """Rows with columns as the model takes them, class numbers, and weights."""
        X = Fitted(self.view, None).show(self.table.transform(rows.X))
        y, weights = rows.y, rows.weights
        if self.classes is not None:
            y = np.searchsorted(self.classes, y)
        if self.class_weights is not None:
            weights = weights * self.class_weights[y]
        return rows._replace(X=X, y=y, weights=weights)


def fit_source_rows(stack, rows, sample):
    """The models of a stack that was chosen on a sample, fitted to all rows if they can be.

    Returns the models, and the names of those that have learned all rows, and of the others.
    """
    classes, class_weights = getattr(stack, "classes_", None), _class_weights(stack, rows)
    models, fitted, others = [], [], []
    for name, view, model in zip(stack.chosen_, stack.views_, stack.models_, strict=True):
        to_model_rows = ToModelRows(stack.table_, view, classes, class_weights)
        all_rows, sampled = rows.shown(to_model_rows), to_model_rows(sample)
        if isinstance(model, FitsSums):
            learned = clone(model)._fit_rows(all_rows, sampled, like=model)
            learned = Fitted(view, learned).without_held_out().model
        else:
            learned = all_rows.fitted(clone(model))
        (others if learned is None else fitted).append(name)
        models.append(model if learned is None else learned)
    return models, fitted, others


def _class_weights(stack, rows):
    """The weight of each class, from all rows; None without weights."""
    class_weight = getattr(stack, "class_weight", None)
    if class_weight is None:
        return None
    codes = np.arange(len(stack.classes_))
    totals = rows.total("class weights", _weights_of_classes, stack.classes_, merge=_added)
    return base.balanced(class_weight, stack.classes_, codes, totals) / totals


def _weights_of_classes(rows, classes):
    """The sum of the weights of each class."""
    return np.bincount(np.searchsorted(classes, rows.y), rows.weights, len(classes))


def _added(one, other, *_):
    return one + other
