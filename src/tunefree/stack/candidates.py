"""The kinds of candidates of `TuneFree*`, and how each is evaluated on held-out rows.

Kernels and ridge regression on ranks need one fit for their held-out predictions (exact
leave-one-out), as does kernel PiSTOL (which predicts before it learns). Others are fitted fold by
fold. Kernels with few rows a column use leave-one-out, too, but by 3 folds, whose targets their
search does not use. `tunefree.held_out.stacking` combines the predictions. The rule is described in
docs/selection.md.
"""

import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import clone

from tunefree.core.clock import clock
from tunefree.core.process import workers
from tunefree.held_out.predictions import (
    FEW_ROWS,
    Entry,
    finished,
    folds_of,
    folds_within,
    is_cross_validation,
    loses,
    lowest,
    n_folds,
    weighted_mean,
)
from tunefree.kernels.permutations import n_permuted_rows
from tunefree.rows.matrices import as_dense
from tunefree.rows.scaling import asinh_scaling, show
from tunefree.stack import costs
from tunefree.stack.costs import Cost
from tunefree.trees.boosting import MOST_ROUNDS

# Kernels on landmarks and trees are skipped for wider rows.
MOST_COLUMNS = 2000
# Kernels on landmarks, in the order of evaluation: each reuses the view of the one before.
KERNELS = {"laplacian": "Laplace kernel", "rbf": "Gaussian kernel"}
# Landmarks for which the time must suffice.
_LEAST_LANDMARKS = 500
# Pilots of kernels have so many rows. The first ones, of both kernels, must lower the stack's
# held-out loss; that of the better one, on more rows, must do so by this share. On magic04 and a9a
# neither lowered it, on california those of 2,000 rows did by 0.7 %, and those of 4,000 by 6 %; on
# elevators by 3 % (benchmarks/tables.py --large).
_FIRST_PILOT_ROWS, _KERNEL_PILOT_ROWS = 2000, 4000
_LEAST_GAIN = 0.01
# The pilot itself is kept unless all rows promise to lower the loss by that share again: on
# elevators and pumadyn32nm this halves the time of a fit, and the error rises by 2 %.
# The pilot of more rows may take so many times what is left: it lowers the error of kin40k in 5
# seconds from .054 to .031, a tenth late. On letter, a quarter late (benchmarks/budget.py).
_LATE = 2.0
TREES_NAME = "boosted trees"
# Trees predict a row in the time of about so many kernel values.
_TREE_COST = 1500
# So many rounds must fit into the time, else trees are skipped.
_LEAST_ROUNDS = 20
# By this share the formula for permuted columns is too high (MNIST, benchmarks/budget.py).
_RARELY_PERMUTED = 0.8


class Fitted(NamedTuple):
    """A fitted model, and the view that its rows are transformed by."""

    view: tuple
    model: Any

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


# How a candidate is evaluated.


class OneFit:
    """One fit to all rows also gives the held-out predictions."""

    def sizes(self, n, folds=None):
        """Numbers of rows of the fits before the last one: there is none."""
        return []

    def evaluate(self, candidate, problem, others):
        """The `Entry` of a candidate."""
        return candidate.in_one_fit(problem, view_donor(others))


class Folds:
    """A fit to the other folds predicts each fold, as long as the candidate can still win."""

    def sizes(self, n, folds=None):
        """Numbers of rows of the fits that evaluate n rows, on `folds` if they are given."""
        if folds is not None:
            return [len(train) for train, _ in folds]
        count = self._n_folds(n)
        return [max(1, int(n * (1 - 1 / count)))] * (count if n < FEW_ROWS else 1)

    def evaluate(self, candidate, problem, others):
        """The `Entry` of a candidate."""
        donor, folds = view_donor(others), self._folds(problem)
        fits, parts = [], []
        for done, fold in enumerate(folds, 1):
            scores, fitted = self._predicted(candidate, problem, fold, donor)
            fits.append(fitted)
            parts.append(scores)
            rows = np.concatenate([held for _, held in folds[:done]])
            order = np.argsort(rows)
            scores = np.concatenate(parts)[order]
            first = fits[0]
            entry = problem.entry(candidate, scores, rows[order], first.model, held_out=first)
            if done < len(folds) and loses(entry, others, problem.weights, problem.groups):
                return entry._replace(status=f"stopped after {done} of {len(folds)} folds")
        return entry

    def _n_folds(self, n):
        return n_folds(n)

    def _folds(self, problem):
        return problem.folds

    def _predicted(self, candidate, problem, fold, donor):
        """Scores of a fold's held-out rows, and the `Fitted` candidate."""
        train, out = fold
        fitted = candidate.fit(*problem.part(train), donor=donor)
        return fitted.scores(problem.X[out], problem.score), fitted


class ThreeFolds(Folds):
    """Held-out predictions of three fits to all rows, whose search does not use the fold."""

    def _n_folds(self, n):
        return 3

    def _folds(self, problem):
        fold, count = folds_of(problem.strata, problem.groups, 3)
        return [(np.arange(len(fold)), np.flatnonzero(fold == f)) for f in range(count)]

    def _predicted(self, candidate, problem, fold, donor):
        model, scores, _ = candidate.hold_out(problem, donor, np.isin(*fold), None)
        return scores, Fitted((), model)


# The kinds of candidates.


@dataclass(frozen=True)
class Candidate:
    """A model that may join the stack: its costs, its evaluation and its last fit."""

    name: str
    estimator: Any
    evaluation: Any = Folds()
    limits: tuple = ()  # to which a plan may limit it, the largest first
    unit = "landmarks"  # of the limits
    cost: ClassVar[Any]  # of a subclass: the `Cost` of one fit to rows of a shape
    ends_early = False  # whether it keeps what it has when the time is over
    usual = 1.0  # the seconds that it takes over those of the plan, as long as none has run

    @property
    def uses_others(self):
        """Whether its evaluation compares it with others that were evaluated before."""
        return isinstance(self.evaluation, Folds)

    @property
    def is_whole(self):
        """Whether it gains much, but cannot end early: kernels of few rows."""
        return False

    def share_of_refit(self, n_rows):
        """The cost of the fit to all rows over that of the evaluation on so many held-out rows."""
        if type(self.evaluation) is OneFit:
            return 0.0
        return 1.25 if n_rows >= FEW_ROWS else 1.0 / self.evaluation._n_folds(n_rows)

    def total_cost(self, shape, folds=None):
        """The `Cost` of the evaluation, on `folds` if they are given, and of the last fit."""
        whole = self.cost(shape)
        parts = [self.cost(shape.rows(n)) for n in self.evaluation.sizes(shape.n, folds)]
        return Cost(whole.seconds + sum(part.seconds for part in parts), whole.bytes)

    def least_cost(self, shape):
        """The `Cost` below which it is not begun, if it ends early; else None."""
        return

    def more_on_clock(self, shape):
        """Seconds of the plan that are added to its cost if the budget is clock time."""
        return 0.0

    def fit(self, X, y, weights, donor=None):
        """A `Fitted` candidate; `donor` is a model whose view of the columns is reused."""
        fitted = Fitted(self.view_of(X), clone(self.estimator))
        fitted.model.fit(fitted.show(X), y, sample_weight=weights)
        return fitted

    def view_of(self, X):
        """The view of the columns, a tuple of parts."""
        return ()

    def evaluate(self, problem, others):
        """The `Entry` of the candidate, after those of `others`."""
        return self.evaluation.evaluate(self, problem, others)

    def entry_with_permutations(self, problem, model, scores, cost):
        """The `Entry` of a fit to all rows, each predicted in the time of `cost` kernel values."""
        rows = np.flatnonzero(problem.held())
        fitted = Fitted((), model)
        some = rows[: n_permuted_rows(cost, problem.shape.d, len(rows))]
        effects = permutation_effects(fitted, problem, some)
        return problem.entry_of_one_fit(self, fitted, scores, effects)

    def compressed(self, entry, problem, most):
        """The candidate's entry with at most so many landmarks."""
        return entry


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

    def fit(self, X, y, weights, donor=None):
        """A `Fitted` candidate, without the maximum likelihood fit that tables of a GLM need."""
        model = clone(self.estimator)
        model._keeps_likelihood = False
        model.fit(X, y, sample_weight=weights)
        del model._keeps_likelihood
        return Fitted((), model)


class KernelRidge(Candidate):
    """Kernel ridge regression, on the view of the columns of the candidate before."""

    usual = 1.8  # 1,000 to 5,000 rows of 20 columns (benchmarks/budget.py)

    @property
    def is_whole(self):
        """Whether it gains much, but cannot end early."""
        return not self.ends_early and not self.uses_others

    def more_on_clock(self, shape):
        """Seconds of the plan that are added: fewer rows are permuted if columns are many."""
        return -_RARELY_PERMUTED * costs.permutation_seconds(shape)

    def cost(self, shape):
        """The `Cost` of one fit."""
        return costs.kernel_ridge_cost(shape, self.estimator.kernel, self.estimator.n_landmarks)

    def with_options(self, **options):
        """The candidate with other parameters of the estimator."""
        return replace(self, estimator=clone(self.estimator).set_params(**options))

    def limited(self, limit):
        """The candidate with so many landmarks."""
        return self.with_options(n_landmarks=limit)

    def fit(self, X, y, weights, donor=None, column_groups=()):
        """A `Fitted` candidate; with None no effects of permuted columns are computed."""
        model = clone(self.estimator)
        model._learn(X, y, sample_weight=weights, like=donor, column_groups=column_groups)
        return Fitted((), model)

    def hold_out(self, problem, donor, held, column_groups):
        """A fit to all rows: the model, the scores of the rows `held`, and the `FittedKernel`."""
        model, groups = clone(self.estimator), problem.groups
        found = model._learn(
            *problem[:3],
            like=donor,
            held=held,
            groups=groups,
            column_groups=column_groups,
            fewer=True,
        )
        return model, problem.score.of_all(found.held_out.predictions, model), found

    def in_one_fit(self, problem, donor):
        """The `Entry` of one fit to all rows."""
        held, column_groups = problem.held(), problem.column_groups
        model, scores, found = self.hold_out(problem, donor, held, column_groups)
        optimism = found.predictor.transform.optimism
        return problem.entry_of_one_fit(self, Fitted((), model), scores, found.effects, optimism)

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

    @property
    def is_whole(self):
        """Whether it gains much, but cannot end early: it gains less than kernels."""
        return False

    def more_on_clock(self, shape):
        """Seconds of the plan that are added."""
        return super().more_on_clock(shape) + costs.decomposition_seconds(shape)


class PilotedKernel(KernelRidge):
    """The better kernel for many rows, if a pilot on few rows improves the stack."""

    ends_early, usual = True, 1.0

    @property
    def uses_others(self):
        """Whether its evaluation compares it with others: the pilots do."""
        return True

    def cost(self, shape):
        """The `Cost` of the pilots and one fit."""
        return self._with_pilots(shape, super().cost(shape))

    def least_cost(self, shape):
        """The `Cost` of the pilots, the better of which is kept if there is no more time."""
        return self._with_pilots(shape)

    def _with_pilots(self, shape, *wholes):
        fewer, few = (shape.rows(min(shape.n, n)) for n in (_FIRST_PILOT_ROWS, _KERNEL_PILOT_ROWS))
        pilots = [*((fewer, kernel) for kernel in KERNELS), (few, self.estimator.kernel)]
        landmarks = self._pilot_landmarks()
        each = [*wholes, *(costs.kernel_ridge_cost(s, k, landmarks) for s, k in pilots)]
        return Cost(sum(c.seconds for c in each), max(c.bytes for c in each))

    def _may_learn_more(self, shape, spent):
        """Whether the time suffices for the pilot of more rows, if the first ones took so long."""
        first = sum(self._pilot_seconds(shape, _FIRST_PILOT_ROWS, kernel) for kernel in KERNELS)
        more = self._pilot_seconds(shape, _KERNEL_PILOT_ROWS, self.estimator.kernel)
        return spent * more / first <= _LATE * clock().left()

    def _pilot_seconds(self, shape, n_rows, kernel):
        """What the pilot of a kernel takes by the formula."""
        rows = shape.rows(min(shape.n, n_rows))
        return costs.kernel_ridge_cost(rows, kernel, self._pilot_landmarks()).seconds

    def _may_learn_all(self, shape, spent):
        """Whether the time suffices for few landmarks of all rows, if the pilots took so long."""
        few_landmarks = costs.kernel_ridge_cost(shape, self.estimator.kernel, _LEAST_LANDMARKS)
        pace = spent / self._with_pilots(shape).seconds
        return pace * few_landmarks.seconds <= clock().left()

    def _pilot_landmarks(self):
        """How many landmarks a pilot has: all of its rows, or a plan's limit if it is lower.

        All rows cost no more than a quarter of them as landmarks.
        """
        given = self.estimator.n_landmarks
        return "auto" if given == "auto" or 4 * given > _KERNEL_PILOT_ROWS else given

    def evaluate(self, problem, others):
        """The `Entry` of the kernel that is better in the pilot."""
        train, held = problem.folds[0]
        few, start = train[:_KERNEL_PILOT_ROWS], clock().spent()
        if not problem.learnable([(few, held)]):
            return Entry.unscored(self, f"skipped: {len(few)} rows have one class only")
        # Side by side they take no more memory than a fit to all rows whose landmarks are not few.
        n_jobs = self.estimator.n_jobs if self.estimator.n_landmarks == "auto" else 1
        fewer = few[:_FIRST_PILOT_ROWS]
        fewer = fewer if problem.learnable([(fewer, held)]) else few
        with workers(n_jobs) as team:
            pilots = team.map(lambda k: self._pilot(problem, others, k, fewer, held), KERNELS)
        gain, pilot = max(pilots, key=lambda p: p[0])
        first, further = gain, np.inf
        if gain <= 0.0 and finished(others):
            words = f"skipped: kernels of {len(fewer)} rows did not lower the stack's loss"
            return Entry.unscored(self, words)
        if len(fewer) < len(few):
            if not self._may_learn_more(problem.shape, clock().spent() - start):
                return self._kept_pilot(problem, pilot, fewer, held)
            with workers(n_jobs):
                gain, pilot = self._pilot(problem, others, pilot.kernel, few, held)
            doublings = np.log2(problem.shape.n / len(few)) / np.log2(len(few) / len(fewer))
            further = _further_gain(first, gain, doublings)
        if gain < _LEAST_GAIN and finished(others):
            words = f"skipped: a kernel of {len(few)} rows did not lower the stack's loss by 1 %"
            return Entry.unscored(self, words)
        if further < _LEAST_GAIN and finished(others):
            entry = self._entry_of_pilot(problem, pilot, few, held)
            return entry._replace(n_learned=len(few))
        if not self._may_learn_all(problem.shape, clock().spent() - start):
            return self._kept_pilot(problem, pilot, few, held)
        entry = self.with_options(kernel=pilot.kernel).in_one_fit(problem, pilot)
        if clock().cut is not None and self._is_worse(entry, problem, pilot, held):
            return self._kept_pilot(problem, pilot, few, held)
        return entry

    def _is_worse(self, entry, problem, pilot, held):
        """Whether few landmarks of all rows predict worse than the pilot, of all of its rows."""
        scores = Fitted((), pilot).scores(problem.X[held], problem.score)
        of_pilot = problem.entry(self, scores, held, pilot)
        return lowest([entry, of_pilot], problem.weights) is of_pilot

    def _kept_pilot(self, problem, pilot, few, held):
        """The `Entry` of a pilot, as the time is over."""
        clock().cut_at(len(few))
        return self._entry_of_pilot(problem, pilot, few, held)

    def _entry_of_pilot(self, problem, pilot, few, held):
        """The `Entry` of a pilot, whose effects of columns have not been computed yet."""
        scores = Fitted((), pilot).scores(problem.X[held], problem.score)
        entry = self.entry_with_permutations(problem, pilot, scores, len(few))
        if entry.permutation_effects is not None:
            effects = entry.permutation_effects[: problem.shape.d]
            weights = problem.weights[held[: effects.shape[1]]]
            sizes = np.square(effects).sum(axis=2) @ weights
            pilot.feature_relevances_ = sizes / (sizes.sum() or 1.0)
        return entry

    def _pilot(self, problem, others, kernel, few, held):
        """How much a kernel of few rows lowers the stack's held-out loss, and its model."""
        options = {"kernel": kernel, "n_landmarks": self._pilot_landmarks()}
        candidate, part = self.with_options(**options), problem.part(few)
        fitted = candidate.fit(*part, donor=view_donor(others), column_groups=None)
        X, y, weights = problem.part(held)
        scores = [entry.scores for entry in finished(others)]
        both = [*scores, fitted.scores(X, problem.score)]
        groups = problem.groups_of(held)
        stacks = [problem.score.stack(s, y, weights, groups=groups) for s in (scores or both, both)]
        before, after = (weighted_mean(stack.losses, weights)[0] for stack in stacks)
        gain = 1.0 - after / before if scores and before > 0.0 else -after
        return gain, fitted.model


@dataclass(frozen=True)
class BoostedTrees(Candidate):
    """Boosted trees, whose held-out predictions are those that choose the number of rounds."""

    most_rounds: int = MOST_ROUNDS
    unit = "rounds"
    ends_early = True

    def total_cost(self, shape, folds=None):
        """The `Cost` of the evaluation and the last fit, which are one."""
        if folds is None:
            count = n_folds(shape.n) if shape.n < FEW_ROWS else 1
        else:
            count = len(folds)
            if not is_cross_validation(folds):  # and those of `_looking_back`, on fewer rows
                count += sum(1 + len(folds_within(train, folds)) for train, _ in folds)
        return costs.trees_cost(shape, count, self.most_rounds)

    def least_cost(self, shape):
        """The `Cost` of few rounds."""
        return costs.trees_cost(shape, 1, _LEAST_ROUNDS)

    def limited(self, limit):
        """The candidate of so many rounds."""
        return replace(self, most_rounds=limit)

    def in_one_fit(self, problem, donor):
        """The `Entry` of one fit to all rows."""
        model = clone(self.estimator)
        given = *problem[:3], problem.folds, problem.groups
        scores = problem.score.of_all(model._learn(*given, self.most_rounds), model)
        if problem.given and not is_cross_validation(problem.folds):
            scores = self._looking_back(problem)
        return self.entry_with_permutations(problem, model, scores, _TREE_COST)

    def _looking_back(self, problem):
        """Held-out scores by rounds and shares that the folds before chose, in the order of rows.

        The first fold has none before it: rows within its training rows choose.
        """
        parts = []
        for train, out in problem.folds:
            model = clone(self.estimator)
            before = folds_within(train, problem.folds) or None
            model._learn(*problem.part(train), before, most_rounds=self.most_rounds)
            parts.append(Fitted((), model).scores(problem.X[out], problem.score))
        order = np.argsort(np.concatenate([out for _, out in problem.folds]))
        return np.concatenate(parts)[order]


@dataclass(frozen=True)
class KernelPiSTOL(Candidate):
    """Kernel PiSTOL, for sparse rows of so many columns that other kernels are skipped."""

    most_rows: int = costs.MOST_ROWS  # that it learns
    unit = "rows"
    usual = 3.5  # 20 Newsgroups, of 1.4 million columns (benchmarks/budget.py)

    def cost(self, shape):
        """The `Cost` of one fit."""
        return costs.kernel_pistol_cost(shape, self.most_rows)

    def limited(self, limit):
        """The candidate that learns so many rows."""
        return replace(self, most_rows=limit)

    def in_one_fit(self, problem, donor):
        """The `Entry` of one fit, to all rows or to the first that are not held out."""
        held, model = problem.held(), clone(self.estimator)
        if len(held) > self.most_rows:
            model._learn(*problem.part(np.flatnonzero(~held)[: self.most_rows]))
            scores = Fitted((), model).scores(problem.X[held], problem.score)
        else:
            scores = problem.score.of_all(model._learn(*problem[:3], held=held), model)
        return self.entry_with_permutations(problem, model, scores, self.most_rows)


def _further_gain(first, second, doublings):
    """By which share more rows lower a loss, if each doubling does what the last one did.

    `first` and `second` are the shares by which kernels of n and of 2 n rows have lowered it.

    >>> [round(_further_gain(0.1, second, 2.0), 3) for second in (0.19, 0.1, 0.05)]
    [0.19, 0.0, -0.114]
    """
    before = max(1.0 - first, np.finfo(float).tiny)
    return 1.0 - ((1.0 - second) / before) ** doublings


def permutation_effects(fitted, problem, rows):
    """Changes of rows' scores when columns come from the next row; None if rows are sparse."""
    if problem.is_sparse():
        return None
    sample, effects = problem.X[rows], []
    before = fitted.scores(sample, problem.score)
    for columns in (*np.arange(problem.shape.d)[:, None], *problem.column_groups):
        changed = sample.copy()
        changed[:, columns] = np.roll(sample[:, columns], 1, axis=0)
        effects.append(fitted.scores(changed, problem.score) - before)
    return np.array(effects)


def view_donor(entries):
    """The last model whose view of the columns others reuse, or None."""
    donors = [e for e in entries if isinstance(e.candidate, KernelRidge) and e.fitted is not None]
    return donors[-1].fitted.model if donors else None
