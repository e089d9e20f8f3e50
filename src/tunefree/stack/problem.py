"""The problem of a stack: the user's table as distinct rows of numbers, with targets and folds."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier

from tunefree.base import base
from tunefree.base.exposures import Terms
from tunefree.held_out.predictions import Entry, automatic_folds
from tunefree.held_out.stacking import Quantiles, Targets
from tunefree.kernel_ridge import solvers as ridge
from tunefree.parts.families import Quantile
from tunefree.rows.checks import (
    correlated_columns,
    rows_in_order_of_dates,
    sorted_rows,
    training_findings,
)
from tunefree.rows.level_means import (
    LevelMeans,
    merged,
    occurrences,
    random_order,
    targets_of_means,
    with_columns,
)
from tunefree.rows.matrices import as_columns
from tunefree.rows.missing import complete
from tunefree.rows.order import hashed_visits, in_order
from tunefree.rows.preprocessing import (
    LearnedRows,
    TablePreprocessor,
    signs_of_columns,
    source_layout,
)
from tunefree.stack.candidates import MOST_COLUMNS
from tunefree.stack.costs import Shape, shape_of
from tunefree.uncertainty.calibration import calibrated
from tunefree.uncertainty.intervals import Residuals

# Rows from which correlations of columns are computed.
_MOST_CORRELATED = 1000
# A sample has so many rows of every class, if there are so many.
FEWEST_OF_CLASS = 20
EXCLUDE = "{0}= and {1}= exclude each other: {0}= holds out rows by its own rule."


class TableRows(NamedTuple):
    """The user's rows of positive weight as numbers."""

    table: Any  # the preprocessor
    X: Any
    y: np.ndarray
    weights: np.ndarray
    groups: np.ndarray | None  # numbers of groups
    parts: np.ndarray | None  # with `cv`: the part of every row in every split
    kept: np.ndarray  # numbers of these rows in the user's table
    exposure: np.ndarray | None = None  # of which the target is a rate
    rare: tuple = ()  # the `RareLevels` of columns whose levels are many
    remarks: Any = ()  # of the table, on levels

    @classmethod
    def of(cls, estimator, X, y, sample_weight, groups, **checks):
        """The rows of a table, checked."""
        base.check_columns(X)
        known = vars(estimator).get("_known_table")
        table = known or TablePreprocessor(
            categorical_features=estimator.categorical_features,
            merge_levels=estimator.merge_levels,
            schema=estimator.schema,
            on_bad_cell=estimator.on_bad_cell,
        )
        if known is None:
            found = table._learned_rows(X, sample_weight)
        else:
            found = LearnedRows(table.fit_transform(X))
        Z = found.X
        names = np.array(table.schema_.names, dtype=object)[table.sources_]
        Z, y = base.check_rows_and_targets(estimator, Z, y, names=names, **checks)
        few = Z.shape[0] <= ridge.EXACT_ROWS and Z.shape[1] <= MOST_COLUMNS
        is_own = known is not None or not sparse.issparse(X)  # whether the user's rows are dense
        if sparse.issparse(Z) and is_own and few:  # kernels are solved exactly
            Z = Z.toarray()
        weights, parts = base.check_weights(sample_weight, Z, as_given=True), None
        kept = np.flatnonzero(weights > 0)
        if groups is not None and estimator.compress is not None:
            raise ValueError(EXCLUDE.format("compress", "groups"))
        if estimator.cv is None:
            groups = base.group_numbers(groups, Z, kept)
        else:
            dates = _first_dates(table, Z) if is_time(estimator.cv) else None
            parts, groups = _parts_of(estimator, y, groups, dates)[kept], None
        if len(kept) < len(weights):
            Z, y, weights = Z[kept], y[kept], weights[kept]
        # Other rows of a group, or later ones, must not show what is held out.
        # All rows of a source are learned later, one part after the other.
        is_part = vars(estimator).get("_learns_source", False)
        may_have_means = groups is None and parts is None and not is_part
        rare = tuple(one.of_rows(kept) for one in found.rare) if may_have_means else ()
        more = {"rare": rare, "remarks": found.remarks}
        return cls(table, Z, y, weights, groups, parts, kept, **more)

    def with_means(self, targets):
        """The same with those rare levels only whose mean targets differ for sure."""
        found = [one.credible(targets, self.weights) for one in self.rare]
        return self._replace(rare=tuple(one for one in found if np.isfinite(one.strength)))

    def learn_means(self, X, targets, numbers, weights, folds, seed):
        """Learn the mean targets of levels; distinct rows with those of the rows before them.

        If rows are held out once they come last: training rows do not know their targets.
        """
        order = random_order(len(numbers), seed)
        if len(folds) == 1:
            is_held_out = np.isin(order, folds[0][1])
            order = np.concatenate([order[~is_held_out], order[is_held_out]])
        starts, blocks = source_layout(self.table).starts, []
        if not self.rare:
            return X
        for one in self.rare:
            means, columns = LevelMeans.learned(one.of_rows(numbers), targets, weights, order)
            blocks.append((starts[one.place + 1], columns))
            self.table.means_[str(one.place)] = means
        return with_columns(X, blocks)

    def complete(self):
        """The same, all rows with the mean targets that new rows get."""
        blocks, starts, added = [], source_layout(self.table).starts, 0
        for one in self.rare:
            if str(one.place) not in self.table.means_:
                continue
            numbers = self.table.means_[str(one.place)].numbers(one.levels, one.codes)
            added += numbers.shape[1]
            blocks.append((starts[one.place + 1] - added, numbers))
        return self._replace(X=with_columns(self.X, blocks) if blocks else self.X)

    def is_sparse(self):
        """Whether rows are sparse."""
        return sparse.issparse(self.X)

    def distinct(self, labels, seed):
        """Numbers of the distinct rows in random order, and their weights."""
        affine, labels = not self.is_sparse(), self._labels(labels)
        return hashed_visits(self.X, labels, self.weights, seed, affine=affine).unique()

    def _labels(self, labels):
        """Labels, and what keeps equal rows apart: their folds, and levels that have means."""
        apart = self.groups if self.parts is None else self.parts
        labels = labels if apart is None else np.column_stack([labels, apart])
        if not self.rare:
            return labels
        labels = np.column_stack([labels, *(one.codes for one in self.rare)])
        return np.column_stack([labels, occurrences(self.X, labels, 0)])

    def terms(self, labels, seed, numbers):
        """The `Terms` of rows with an exposure, merged into the distinct rows; or None."""
        if self.exposure is None:
            return None
        labels = self._labels(labels)
        return Terms.of(self.X, labels, self.weights, seed, numbers, self.exposure)

    def signs(self, monotonic_cst):
        """The signs of the columns of numbers; None if there are none."""
        signs = signs_of_columns(self.table, monotonic_cst)
        return signs if signs.any() else None

    def problem(self, distinct, y, strata, score, seed, **more):
        """The `StackProblem` of distinct rows with these targets and class numbers."""
        numbers, weights = distinct
        X, strata = self.X[numbers], strata[numbers]
        groups = None if self.groups is None else self.groups[numbers]
        if self.parts is None:
            folds = automatic_folds(strata, groups)
        else:
            parts = self.parts[numbers].T
            folds = [(np.flatnonzero(p == 1), np.flatnonzero(p == 2)) for p in parts]
        targets = targets_of_means(y, score.task == "classification")
        X = self.learn_means(X, targets[numbers], numbers, weights, folds, seed)
        if self.rare:
            first, place, weights = merged(X, as_columns(y)[numbers].astype(float), weights)
            X, numbers, strata = X[first], numbers[first], strata[first]
            folds = [tuple(np.flatnonzero(np.isin(first, part)) for part in fold) for fold in folds]
            if (terms := more.get("terms")) is not None:
                more["terms"] = terms._replace(place=place[terms.place])
        column_groups = several_columns(self.table)
        if not self.is_sparse():
            columns = source_layout(self.table).columns(X[:_MOST_CORRELATED])
            column_groups += correlated_columns(columns)
        return StackProblem(
            X,
            y[numbers],
            weights,
            strata,
            groups,
            folds,
            self.parts is not None,
            score,
            shape_of(X, score.n_outputs),
            seed,
            tuple(np.flatnonzero(np.isin(self.table.sources_, group)) for group in column_groups),
            self.kept[numbers],
            **more,
        )

    def findings(self, problem):
        """What a person should look at."""
        X, y, classify = problem.X, problem.y, problem.classify
        layout = source_layout(self.table)
        found = training_findings(layout, X, y, len(self.y), classify)
        if self.parts is None:
            found += rows_in_order_of_dates(layout.columns(self.X, _dates_among(layout)))
        if self.parts is not None and _are_in_order(self.parts):
            found += sorted_rows(self.y, classify)
        return found


def several_columns(table):
    """Columns of the user's that are several columns of numbers: they are permuted as a group."""
    return np.flatnonzero(np.bincount(table.sources_) > 1).tolist()


def is_time(cv):
    """Whether later rows are held out.

    Raises
    ------
    ValueError
        For any other text.
    """
    if isinstance(cv, str) and cv != "time":
        raise ValueError(f"cv={cv!r} is neither 'time' nor a number or a splitter of scikit-learn.")
    return isinstance(cv, str)


def _dates_among(layout):
    """The places of the columns of dates."""
    return [place for place, kind in enumerate(layout.kinds) if kind == "date"]


def _first_dates(table, X):
    """The days of the first column of dates, NaN where one is missing; None without such a one."""
    layout = source_layout(table)
    columns = layout.columns(X, _dates_among(layout)[:1])
    return columns[0].values if columns else None


def _parts_of(estimator, y, groups, dates):
    """The part of every row in every split of `cv`: 1 training, 2 held out, 0 neither."""
    groups = complete(groups, "groups")
    if is_time(estimator.cv):
        if groups is not None:
            raise ValueError("groups= and cv='time' exclude each other: later rows are held out.")
        splits = _splits_by_time(len(y), dates)
    else:
        from sklearn.model_selection import check_cv

        cv = check_cv(estimator.cv, y, classifier=is_classifier(estimator))
        given = cv.split(np.zeros(len(y)), y, groups)
        splits = [(np.asarray(a), np.asarray(b)) for a, b in given]
    parts = np.zeros((len(y), len(splits)), dtype=np.int64)
    for j, (train, out) in enumerate(splits):
        parts[train, j], parts[out, j] = 1, 2
    if ((parts == 2).sum(axis=1) > 1).any() or any(set(a) & set(b) for a, b in splits):
        raise ValueError(
            "cv= holds out a row twice, or trains on rows that it holds out in the same split: "
            "use a splitter whose test sets do not overlap, such as KFold."
        )
    return parts


def _splits_by_time(n, dates):
    """Training rows and later, held-out rows: scikit-learn's `TimeSeriesSplit` by date.

    Without dates the order of rows is that of time. Rows without a date are in no split, and
    training rows of the first held-out date are in none, too.

    Examples
    --------
    >>> splits = _splits_by_time(7, np.array([3.0, 2.0, np.nan, 1.0, 4.0, 5.0, 6.0]))
    >>> [(train.tolist(), out.tolist()) for train, out in splits[:2]]
    [([3], [1]), ([3, 1], [0])]
    """
    order, days = np.arange(n), np.arange(n)
    if dates is not None:
        order = np.argsort(dates, kind="stable")[: np.count_nonzero(~np.isnan(dates))]
        days = dates
    splits = []
    from sklearn.model_selection import TimeSeriesSplit

    for train, out in TimeSeriesSplit().split(order):
        train, out = order[train], order[out]
        splits.append((train[days[train] < days[out].min()], out))
    if not all(len(train) for train, _ in splits):
        raise ValueError("cv='time' needs more different dates: some are of a sixth of the rows.")
    return splits


def _are_in_order(parts):
    """Whether every split of `cv` holds out several rows, which follow each other."""
    held_out = [np.flatnonzero(part == 2) for part in parts.T]
    return all(len(rows) > 1 and len(rows) == np.ptp(rows) + 1 for rows in held_out)


class StackProblem(NamedTuple):
    """Distinct rows in random order, and those that are held out."""

    X: Any
    y: np.ndarray
    weights: np.ndarray
    strata: np.ndarray  # class numbers, or zeros, which are spread evenly over the folds
    groups: np.ndarray | None  # numbers of groups, which are held out as a whole
    folds: list  # (training rows, held-out rows)
    given: bool  # whether the folds are those of `cv`
    score: Any  # `Classes`, `Targets`, `Means`, `Quantiles` or `RobustMeans`
    shape: Shape
    seed: int
    column_groups: tuple  # arrays of columns that come from one column of the user's
    numbers: Any = None  # of these rows in the user's table
    terms: Any = None  # `Terms` of rows with an exposure
    signs: Any = None  # in which direction predictions may change with each column
    targets: Any = None  # `ClassTargets` or `NumberTargets`
    sample: int | None = None  # so many of the table's rows, and some of rare classes; None if all

    is_sparse = TableRows.is_sparse

    @property
    def classify(self):
        """Whether targets are classes."""
        return self.score.task == "classification"

    def sampled(self, n):
        """The problem of the first n rows, which are in random order, and of rare classes."""
        if n >= self.shape.n:
            return self
        is_in = np.arange(self.shape.n) < n
        for stratum in np.unique(self.strata):
            is_in[np.flatnonzero(self.strata == stratum)[:FEWEST_OF_CLASS]] = True
        rows = np.flatnonzero(is_in)
        X, strata = self.X[rows], self.strata[rows]
        return self._replace(
            X=X,
            y=self.y[rows],
            weights=self.weights[rows],
            strata=strata,
            folds=automatic_folds(strata),
            shape=shape_of(X, self.score.n_outputs),
            numbers=self.numbers[rows],
            sample=n,
        )

    def held(self):
        """Whether each row is held out."""
        held = np.zeros(len(self.y), dtype=bool)
        held[np.concatenate([out for _, out in self.folds])] = True
        return held

    def blocks(self):
        """The number of each row's group, or with `cv` of its fold; None for single rows."""
        if not self.given:
            return self.groups
        blocks = np.zeros(len(self.y), dtype=np.int64)
        for f, (_, out) in enumerate(self.folds):
            blocks[out] = f
        return blocks

    def means_of_others(self, rows):
        """How far the mean of other groups' targets is from that of all, for held-out rows.

        It is 0 without groups, or if the stack's constant is not the mean.
        """
        if self.groups is None or not isinstance(self.score, Targets):
            return 0.0
        _, y, weights = self.part(rows)
        y, group = as_columns(y), in_order(self.groups[rows])
        total = np.bincount(group, weights)
        sums = np.array([np.bincount(group, weights * column) for column in y.T]).T
        others = (sums.sum(axis=0) - sums) / (total.sum() - total)[:, None]
        return others[group] - sums.sum(axis=0) / total.sum()

    def groups_of(self, rows):
        """The groups of some rows; None if there are none."""
        return None if self.groups is None else self.groups[rows]

    def part(self, rows):
        """Some rows, with targets and weights."""
        return self.X[rows], self.y[rows], self.weights[rows]

    def learnable(self, folds):
        """Whether all training rows have two strata, or the rows have one (regression)."""
        if len(np.unique(self.strata)) == 1:
            return True
        return all(len(np.unique(self.strata[train])) > 1 for train, _ in folds)

    def entry(self, candidate, scores, rows, model, **more):
        """The `Entry` of a model's held-out scores."""
        losses, proper_losses = self.score.evaluate(scores, *self.part(rows)[1:])
        more["trace"] = _trace(model)
        return Entry(candidate, scores, losses, proper_losses, rows, 0.0, "finished", **more)

    def entry_of_one_fit(self, candidate, fitted, scores, effects, optimism=0.0):
        """The `Entry` of a fit to all rows."""
        # The one output of a location serves all quantiles.
        widths = (scores.shape[1], 1 if isinstance(self.score, Quantiles) else scores.shape[1])
        complete = effects is not None and effects.shape[2] in widths
        return self.entry(
            candidate,
            scores,
            np.flatnonzero(self.held()),
            fitted.model,
            fitted=fitted,
            optimism=optimism,
            permutation_effects=effects if complete else None,
        )


def _trace(model):
    """Rows seen and progressive risk of the member that ended best, if the model kept them."""
    trace = getattr(model, "trace_", {})
    if "rows" not in trace or "progressive_error" not in trace:
        return None
    curves = [np.asarray(c) for c in dict(trace["progressive_error"]).values() if len(c)]
    curves = [c for c in curves if len(c) == len(trace["rows"]) and np.isfinite(c[-1])]
    if not curves:
        return None
    return {"rows": np.asarray(trace["rows"]), "risk": min(curves, key=lambda c: c[-1])}


class StackHeldOut(NamedTuple):
    """The stack's held-out predictions to keep, their losses, and a calibration."""

    predictions: Any
    losses: np.ndarray
    calibration: Any = None


class ClassTargets(NamedTuple):
    """Labels, which are learned as class numbers."""

    classes: np.ndarray

    def attributes(self, calibration=None):
        """The fitted attributes that follow from the targets."""
        return {"classes_": self.classes, "calibration_": calibration}

    def held_out(self, chosen, problem, view):
        """The `StackHeldOut` of a stack: probabilities and mistakes."""
        scores, calibration = chosen.scores(), None
        _, y, weights = problem.part(chosen.rows)
        if scores.shape[1] > 1:
            calibration = calibrated(scores, y, weights)
        p = base.probabilities(log_odds(calibration, scores), joint=True)
        wrong = (p.argmax(axis=1) != y).astype(np.float64)
        groups = problem.groups_of(chosen.rows)
        held_out = base.held_out_probabilities(p, y, weights, groups)
        return StackHeldOut(held_out, wrong, calibration)


def log_odds(calibration, scores):
    """The scores of a stack as log-odds."""
    return scores if calibration is None else calibration.of(scores).astype(scores.dtype)


class NumberTargets(NamedTuple):
    """Targets that are numbers: one, several, or one with several quantiles."""

    family: Any  # whose deviance is the loss
    limits: Any  # of predictions
    flat: bool = True  # whether predictions are a vector
    terms: tuple = ()  # 'exposure' if it was given

    def attributes(self, _=None):
        """The fitted attributes that follow from the targets."""
        names = ("family_", "prediction_limits_", "flat_", "row_terms_")
        return dict(zip(names, self, strict=True))

    def limited(self, predictions):
        """Predictions within the limits; quantiles in order."""
        predictions = np.clip(predictions, *self.limits).astype(predictions.dtype)
        return np.sort(predictions, axis=1) if isinstance(self.family, Quantile) else predictions

    def held_out(self, chosen, problem, view):
        """The `StackHeldOut` of a stack; `view` is that of its kernels, for local scales."""
        rows, scores = chosen.rows, chosen.scores()
        # The constant that the stack is shrunk to is that of other groups, too.
        scores = scores + (1.0 - chosen.stack.weights.sum()) * problem.means_of_others(rows)
        predictions = self.limited(scores)
        X, y, weights = problem.part(rows)
        losses, blocks = problem.score.losses(predictions, y), problem.blocks()
        targets = np.broadcast_to(y if y.ndim == 2 else y[:, None], predictions.shape)
        n_groups = None
        if blocks is not None and not problem.given:
            n_groups = len(np.unique(blocks[rows]))
        if problem.terms is not None:
            given = rows, predictions, targets, self.family
            return StackHeldOut(problem.terms.held_out(*given, n_groups), losses)
        more: dict[str, Any] = {"view": view}
        if blocks is not None:
            more |= {"groups": blocks[rows], "n_groups": n_groups}
        pairs = zip(predictions.T, targets.T, strict=True)
        residuals = tuple(Residuals.of(*pair, weights, X, **more) for pair in pairs)
        return StackHeldOut(residuals, losses)
