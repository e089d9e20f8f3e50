"""Classification in one call: learners are compared on held-out rows, and the best stacked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from scipy.special import expit
from sklearn.base import clone
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from tunefree.base import base, scores
from tunefree.base.labels import LabelModels
from tunefree.base.reading import forget_fit
from tunefree.base.uncertainty_mixins import PredictsSets
from tunefree.core.parameters import seed_of
from tunefree.core.protocols import MatrixLike, Seed
from tunefree.held_out.stacking import Classes
from tunefree.rows.level_means import targets_of_means
from tunefree.rows.matrices import as_dense
from tunefree.rows.missing import complete
from tunefree.stack.costs import Limits, Plan
from tunefree.stack.estimator import TuneFreeStack
from tunefree.stack.problem import ClassTargets, log_odds
from tunefree.uncertainty.intervals import HeldOutProbabilities


class TuneFreeClassifier(LabelModels, PredictsSets, scores.LabelsByDecisions, TuneFreeStack):
    r"""Classification in one call: a stack of models that are compared on held-out rows.

    It takes any table: arrays, sparse matrices, and pandas, polars or pyarrow frames with text,
    categories, dates and missing values. The candidates are kernels with a geometry learned
    from the data, boosted trees, ridge regression on ranks and levels, and linear PiSTOL. Each one
    predicts held-out rows: every row below 2,000 rows, else a fifth of them (at most 5,000). The
    model is the weighted sum of candidates with the least log-loss on these rows.

    Parameters
    ----------
    candidates : 'all' or sequence of {'linear', 'kernel', 'trees'}, default='all'
        The kinds of candidates to evaluate.
    budget : float, str, Plan or None, default=None
        Seconds for evaluation and fitting. They are seconds of a reference core, computed from the
        data's shape, so that the choice is the same on every machine (None: 300): candidates beyond
        them are made smaller or skipped, the most expensive first, before any work starts. Text
        such as '60s' is clock time from the call on, without the time of the compiler. The plan is
        then made again before every candidate, with the time that is left, and trees and kernels
        that the time is too short for keep the rounds or landmarks that they have. If it is too
        short for some rounds of trees on all rows, a sample of rows is learned. The cheapest
        candidate always runs. A plan of another fit, `plan_`, is followed.
    max_memory : float, str or None, default=None
        Bytes that the fit may take in addition to the data, or text such as '2GB'. Candidates that
        need more are made smaller or skipped. None: three quarters of what the process may have.
    categorical_features : array-like, 'from_dtype' or None, default='from_dtype'
        Columns of numbers that are categories: a mask, positions or names. Text and columns of a
        category type always are. Columns of 3 to 30 whole numbers are used as numbers and as
        levels, declared or not.
    merge_levels : bool, default=False
        Whether nearly equal levels, such as 'Berlin', 'berlin' and 'Berlni', become the most
        frequent one of them; `report_` names them.
    schema : dict or None, default=None
        What is known of some columns: see `TablePreprocessor`. Others are learned (`schema_`).
    on_bad_cell : {'missing', 'error'}, default='missing'
        What a cell is that is not of its column's kind, such as text among numbers. Missing ones
        are counted in a `DataWarning`, in `fit` and for new rows.
    compress : int or None, default=None
        The most landmarks of each kernel: fewer make predictions proportionally faster.
        `compression_` reports the held-out loss before and after.
    cross_fit : int or None, default=None
        The number of folds for copies of the stack, each fitted without its fold: sets and
        intervals (`predict_set`, `predict_interval`) then have a guarantee for finitely many rows.
        The fit takes so many times longer.
    scoring : str, callable or None, default=None
        A scorer of scikit-learn ('roc_auc', 'balanced_accuracy', ...), or a function of (estimator,
        X, y). A single candidate replaces the stack if its score on held-out rows is higher;
        `leaderboard_` has every 'score'. A scorer need not take `sample_weight`: then rows of all
        weights count alike in it, with a warning.
    cv : 'time', int, splitter of scikit-learn, iterable or None, default=None
        The rows to hold out, in place of the automatic folds. 'time' holds out later rows
        (``TimeSeriesSplit()``), by the first column of dates, or without one by the order of rows;
        training rows are of earlier dates, and rows without a date are not held out. No row may be
        held out twice. All candidates are then fitted fold by fold. Model files keep no splitter
        and no callable.
    class_weight : dict, 'balanced' or None, default=None
        Weights of classes, which multiply those of rows. Probabilities are those of a population
        with these weights.
    monotonic_cst : array-like of int of shape (n_features,) or dict of str to int, default=None
        1 for columns of numbers in which the probability of the second of two classes does not
        decrease, -1 where it does not increase, 0 for others; or the signs of some columns by
        name. The candidates are boosted trees and a GLM, which keep them.
    n_jobs : int or None, default=None
        Threads of kernels and trees, all by default; results do not depend on it.
    verbose : bool or int, default=False
        Print the progress of `fit` on stderr.
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
        If every model of the stack is linear, without `calibration_`: coefficients of the columns
        that `table_` makes, their names, and the intercepts.
    level_relevances_ : dict of str to dict
        The same for the levels of every column of categories.
    encoded_relevances_ : ndarray of shape (n_columns_out,)
        The same for the columns that `table_` makes; empty if no model has relevances.
    permutation_importances_ : ndarray of shape (n_features,)
        How much the stack's held-out loss (log-loss, squared error) grows when a column is
        permuted: how much the column improves predictions of new rows. No model is fitted for it.
        Missing if a model of the stack was fitted on sparse rows or fold by fold.
    permutation_importances_se_ : ndarray of shape (n_features,)
        Their standard errors for this model, over at most 1,000 held-out rows.
    group_importances_ : list of dict
        The same for groups of correlated columns that are permuted together: 'columns' (of every
        pair the absolute Spearman correlation is .7 or more), 'importance', 'importance_se'.
    background_ : ndarray or CSR of shape (at most 100, n_columns_out)
        Training rows, evenly drawn by weight, as `table_` transforms them: `explain` compares with
        them.
    compression_ : part or None
        With `compress`: n_landmarks, loss_before, loss_after and the standard_error of their
        difference (for kernel PiSTOL see its own `compression_`).
    risk_interval_ : tuple of float or None
        An interval for the share of errors on new rows (95 %); `risk_interval_kind_` is its method.
    held_out_ : part
        The stack's held-out probabilities.
    label_models_ : list of TuneFreeClassifier
        Of several labels (y of shape (n_samples, n_labels)): the model of each. Importances and
        coefficients then have a row for each label, `explain` has the labels as outputs, and
        `report_`, `leaderboard_`, `risk_interval_` and others are lists with an entry for each.
        What a single stack is made of (`models_`, `weights_`, ...) only these models have.
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
    column_shares_ : part
        The shares of training rows in the deciles or levels of each column, with which
        `column_drift` compares new rows.
    plan_ : Plan
        The candidates, their limits, and their cost in seconds and bytes: what was foreseen, what
        they took, and why some were skipped. Given as `budget=` it is followed again. Model files
        keep it without the times.
    traces_ : dict of str to dict
        For candidates that predict every row before they learn it: 'rows' seen and 'risk' so far.
    report_ : part
        What was stacked and why, findings about the data (`notes`), and the most important columns:
        text in the shell, tables in notebooks.
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

    Warns
    -----
    DataWarning
        For what a person should look at: a column that alone predicts nearly all of the target, one
        that identifies rows, constant columns, nearly equal levels, repeated rows with different
        targets; rows sorted by target, if `cv` holds them out in this order; rows in the order of
        dates, if they are held out at random. ``report_.notes`` keeps the sentences.

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
        candidates: Literal["all"] | Sequence[Literal["linear", "kernel", "trees"]] = "all",
        *,
        budget: float | str | Plan | None = None,
        max_memory: float | str | None = None,
        categorical_features: Any = "from_dtype",
        merge_levels: bool = False,
        schema: dict | None = None,
        on_bad_cell: str = "missing",
        compress: int | None = None,
        cross_fit: int | None = None,
        scoring: Any = None,
        cv: Any = None,
        n_jobs: int | None = None,
        class_weight: Any = None,
        monotonic_cst: Any = None,
        verbose: bool | int = False,
        random_state: Seed = None,
    ):
        self.candidates = candidates
        self.budget = budget
        self.max_memory = max_memory
        self.categorical_features = categorical_features
        self.merge_levels = merge_levels
        self.schema = schema
        self.on_bad_cell = on_bad_cell
        self.compress = compress
        self.cross_fit = cross_fit
        self.scoring = scoring
        self.cv = cv
        self.n_jobs = n_jobs
        self.class_weight = class_weight
        self.monotonic_cst = monotonic_cst
        self.verbose = verbose
        self.random_state = random_state

    def _fit(self, X, y, sample_weight, groups, exposure=None):
        as_given, y = y, complete(y)
        shape = y.shape if hasattr(y, "shape") else np.asarray(y).shape
        if len(shape) < 2 or shape[1] < 2:
            return super()._fit(X, as_given, sample_weight, groups)
        try:
            kind = type_of_target(y)
        except TypeError:  # text beside numbers
            kind = "unknown"
        if kind != "multilabel-indicator":
            raise ValueError(
                f"y has {shape[1]} columns that are not 0 and 1. Several labels are given as 0 and "
                "1; to fit a model for each column use MultiOutputClassifier(TuneFreeClassifier()) "
                "of scikit-learn."
            )
        labels = np.asarray(as_dense(y)).T
        labels = labels.astype(np.int64) if labels.dtype.kind == "b" else labels
        for j, label in enumerate(labels):
            if np.ptp(label) == 0:
                raise ValueError(f"Column {j} of y has one class only: all rows are {label[0]}.")
        one: Any = clone(self)
        limits, models = Limits(self.budget, self.max_memory, len(labels)), []
        for j, label in enumerate(labels):  # they share the time
            if limits.plan is None:
                one.set_params(budget=limits.of_others(len(labels) - j))
            models.append(clone(one).fit(X, label, sample_weight, groups))
        forget_fit(self)
        classes: Any = [model.classes_ for model in models]
        self.label_models_, self.classes_ = models, classes
        self.n_features_in_ = models[0].n_features_in_
        if hasattr(models[0], "feature_names_in_"):
            self.feature_names_in_ = models[0].feature_names_in_
        return self

    def _problem(self, rows, y):
        seed = seed_of(self.random_state)
        classes, codes = base.encode_labels(rows.y, fewest=2)
        weights = base.balanced(self.class_weight, classes, codes, rows.weights)
        rows = rows._replace(weights=weights).with_means(targets_of_means(codes, True))
        signs = rows.signs(self.monotonic_cst)
        distinct = rows.distinct(codes[:, None].astype(float), seed)
        if signs is not None and len(classes) > 2:
            raise ValueError(f"monotonic_cst= needs two classes: y has {len(classes)}.")
        score, targets = Classes(len(classes)), ClassTargets(classes)
        return rows.problem(distinct, codes, codes, score, seed, signs=signs, targets=targets)

    def _copy_held_out(self, copy, X, y, weights):
        return HeldOutProbabilities(
            self._of_copy(copy, X), np.searchsorted(self.classes_, y), weights
        )

    def _log_odds(self, X):
        check_is_fitted(self, "models_")
        return log_odds(self.calibration_, self._joined(X, Classes(len(self.classes_))))

    def decision_function(self, X: MatrixLike) -> np.ndarray:
        """Log-odds of the second class, of every class, or of every label.

        The shape is (n_samples,), (n_samples, n_classes) or (n_samples, n_labels).
        """
        if hasattr(self, "label_models_"):
            return np.column_stack([model.decision_function(X) for model in self.label_models_])
        return base.squeezed(self._log_odds(X))

    def predict(self, X: MatrixLike) -> np.ndarray:
        """The most likely class of every row, or of several labels a column of 0 and 1 each."""
        if hasattr(self, "label_models_"):
            return np.column_stack([model.predict(X) for model in self.label_models_])
        return super().predict(X)

    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Calibrated probabilities of the classes, shape (n_samples, n_classes), or of the labels.

        Probabilities of several labels have the shape (n_samples, n_labels).
        """
        if hasattr(self, "label_models_"):
            return expit(self.decision_function(X))
        return base.probabilities(self._log_odds(X), joint=True)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
