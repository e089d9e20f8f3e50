"""Boosted trees for classes, whose rounds and shapes held-out rows choose."""

from __future__ import annotations

from typing import Any

import numpy as np

from tunefree.base import base, scores
from tunefree.base.uncertainty_mixins import PredictsSets, RiskIntervalMixin
from tunefree.core.protocols import MatrixLike, Seed
from tunefree.parts.families import FAMILIES
from tunefree.trees.estimator import LearnsByTrees
from tunefree.trees.learning import GivenRows
from tunefree.trees.losses import LogLoss


class BoostedTreesClassifier(
    RiskIntervalMixin, PredictsSets, scores.LabelsByDecisions, LearnsByTrees
):
    r"""Classification by boosted trees, with calibrated probabilities; there is nothing to tune.

    The scores are log-odds, of the second class or, with a softmax, of every class. They are
    learned as in `BoostedTreesRegressor` from the pseudogradients y - p of the log-loss. One tree
    serves all classes. For more than 4 classes its splits are found on 4 random projections of
    the pseudogradients.

    Parameters
    ----------
    class_weight : dict, 'balanced' or None, default=None
        Weights of the classes, which multiply those of rows.
    monotonic_cst : array-like of int of shape (n_features,) or dict of str to int, default=None
        1 for columns in which the probability of the second class does not decrease, -1 where it
        does not increase, 0 for others; or the signs of some columns by name. It needs two classes.
    categorical_features : array-like, 'from_dtype' or None, default='from_dtype'
        See `BoostedTreesRegressor`.
    schema : dict or None, default=None
        See `BoostedTreesRegressor`.
    on_bad_cell : {'missing', 'error'}, default='missing'
        See `BoostedTreesRegressor`.
    n_jobs : int or None, default=None
        Threads, all by default; results do not depend on it.
    verbose : bool or int, default=False
        Print the progress of `fit` on stderr.
    random_state : int, RandomState or None, default=None
        Seed of the projections, and of the hash that assigns rows to folds.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    table_, bins_, forests_, shares_, background_, feature_relevances_, n_iter_, trace_
        See `BoostedTreesRegressor`.
    feature_importances_ : ndarray of shape (n_features,)
        See `BoostedTreesRegressor`.
    held_out_ : part
        Held-out probabilities, from which `risk_interval_` and sets are computed
        (docs/guide/sure.md).
    n_features_in_ : int

    Raises
    ------
    ValueError
        For labels of one class, `monotonic_cst` with more than two, one group only, weights that
        are all zero.

    References
    ----------
    See `BoostedTreesRegressor`; Iosipoi and Vakhrushev 2022, "SketchBoost: fast gradient boosted
    decision tree for multioutput problems", section 3.3 (random projections).

    Examples
    --------
    >>> from tunefree import BoostedTreesClassifier
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> y = np.hypot(*X.T) > 1
    >>> model = BoostedTreesClassifier(random_state=0).fit(X[:400], y[:400])
    >>> bool(model.score(X[400:], y[400:]) > 0.9)
    True
    """

    def __init__(
        self,
        *,
        class_weight: Any = None,
        monotonic_cst: Any = None,
        categorical_features: Any = "from_dtype",
        schema: dict | None = None,
        on_bad_cell: str = "missing",
        n_jobs: int | None = None,
        verbose: bool | int = False,
        random_state: Seed = None,
    ):
        self.class_weight = class_weight
        self.monotonic_cst = monotonic_cst
        self.categorical_features = categorical_features
        self.schema = schema
        self.on_bad_cell = on_bad_cell
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def _encode(self, y, weights):
        self.classes_, codes = base.encode_labels(y, fewest=2)
        if len(self.classes_) == 2:
            targets = codes[:, None].astype(np.float64)
        else:
            targets = FAMILIES["multinomial"].codes(codes, len(self.classes_))
        return GivenRows(None, LogLoss(), targets, weights, codes)

    def _outputs(self, scores):
        """Scores as decisions."""
        return scores

    def _publish(self, fitted, table):
        super()._publish(fitted, table)
        held, sample = fitted.held_rows, table.sample
        groups = None if sample.groups is None else sample.groups[held]
        p = base.probabilities(fitted.held_out, joint=True)
        rows = table.strata[held], sample.weights[held], groups
        self.held_out_ = base.held_out_probabilities(p, *rows)

    def decision_function(self, X: MatrixLike) -> np.ndarray:
        """Log-odds of the second class, or of every class; shape (n,) or (n, n_classes)."""
        return base.squeezed(self._scores(X))

    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Probabilities of the classes, shape (n_samples, n_classes)."""
        return base.probabilities(self.decision_function(X), joint=True)
