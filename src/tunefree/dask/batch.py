"""Batch learners on a cluster: a round a pass, the local result up to the order of the sums."""

import numpy as np
from scipy import sparse
from sklearn.base import clone, is_classifier

from tunefree._array import seed_of
from tunefree.dask.distributed import Distributed, DistributedClassifier
from tunefree.dask.sheets import Sheets
from tunefree.dask.sums import joined, moments
from tunefree.engine.order import hashed_visits
from tunefree.engine.run import run
from tunefree.engine.sources import Block
from tunefree.estimators import perceptron
from tunefree.estimators.perceptron import check_range, double
from tunefree.estimators.reflectron import classifier as glm_classifier
from tunefree.estimators.reflectron import regressor as glm
from tunefree.estimators.reflectron.units import Columns
from tunefree.learners.reflectron.mirror import Mirror
from tunefree.learners.reflectron.mirror_state import NONE, Sheet
from tunefree.links import target_margin

PIECE = 1 << 19  # numbers: they fit into the cache


def _numbers(part, estimator):
    """A partition's targets as the learner wants them, and the groups to hold out alike."""
    if not is_classifier(estimator):
        return part.y.reshape(len(part.y), -1).astype(np.float64), np.zeros(len(part.y))
    codes = np.searchsorted(estimator.classes_, part.y)
    return estimator._targets(codes, len(estimator.classes_)), codes


def _sheets(part, estimator, columns, seed):
    """A partition's rows in the learner's units; equal rows are one, and some are held out.

    They are cut in pieces: what the first product of a pass has read, the second one finds in the
    cache, and no worker holds a third copy of its rows.
    """
    part = part.positive()
    X, weights = part.X, part.weights
    targets, strata = _numbers(part, estimator)
    visits = hashed_visits(X, targets, weights, seed)
    rows, totals = visits.unique()
    totals = totals * (weights.sum() / totals.sum())  # partitions count in the user's unit
    held = estimator._held(strata[rows], 1)
    size = X.nnz if sparse.issparse(X) else X.size
    step = max(1, PIECE * len(weights) // max(1, size))
    return [
        Sheet(columns.design(X[rows[p]]), targets[rows[p]], totals[p], held[p])
        for p in (slice(start, start + step) for start in range(0, len(rows), step))
    ]


def _held_weight(sheets):
    return float(sum(s.weights[s.held > NONE].sum() for s in sheets))


class _Reflectron:
    """`_fit_on` for both Reflectrons."""

    def _fit_on(self, cluster):
        link, configurations, _ = self._check()
        if self.solver != "batch" or self.feature_map is not None:
            raise ValueError("On a cluster solver='batch' and feature_map=None are needed.")
        if getattr(self, "class_weight", None) is not None:
            raise ValueError("On a cluster give sample_weight in place of class_weight.")
        self.feature_map_ = self._stream = None
        if any(isinstance(c.step, str) for c in configurations):
            raise ValueError(
                "A theorem's step needs all rows at hand: give step='auto' or a number."
            )
        worker = clone(self)
        if is_classifier(self):
            worker.classes_ = self.classes_
        m = cluster.total("moments", moments, _numbers, worker, merge=joined)
        if self.standardize:
            columns = m.columns(self.fit_intercept)
        else:
            columns = Columns(np.zeros(cluster.n_columns), np.ones(cluster.n_columns))
        sheets = Sheets(cluster, _sheets, worker, columns, seed_of(self.random_state))
        held = cluster.each("held", _held_weight, parts=sheets.blocks)
        held = sum(cluster.gather(held, "holding out"))
        cluster.parts = None  # from here on the rows are in the learner's units
        if not held and len(configurations) > 1:
            raise ValueError(
                f"Choosing among {len(configurations)} configurations needs rows held out: give a "
                "positive validation_fraction, larger partitions, or a single potential."
            )
        learner = Mirror(
            link, configurations, self.weight, intercept=self.fit_intercept,
            members=2 if held else 1, patience=self.patience, behind=self._behind, tol=self.tol,
            last=not held,
        )  # fmt: skip
        offset = None
        low, high = getattr(link, "range", (np.inf, -np.inf))
        inside = ((m.target > low) & (m.target < high)).all() and hasattr(link, "inverse")
        if self.fit_intercept and inside:
            offset = target_margin(link, m.target)
        state = learner.init(cluster.n_columns, len(m.target), None, offset)
        result = run(learner, state, sheets, max_passes=self.max_iter)
        self._publish(learner, result, columns, cluster.dtype)


class ReflectronRegressor(_Reflectron, Distributed, glm.ReflectronRegressor):
    """`tunefree.ReflectronRegressor` on rows of a Dask cluster.

    Each pass is one round; sums are merged in a tree and the client takes the step. On the same
    rows held out the result is the local one up to the order of the sums. Rows are held out of
    every partition alike; `n_splits` and the steps of theorems are for rows in memory.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from tunefree.dask import ReflectronRegressor
    >>> X = da.random.default_rng(0).normal(size=(400, 3), chunks=(100, 3))
    >>> y = X[:, 0] - 2.0 * X[:, 1]
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     model = ReflectronRegressor(link="identity", random_state=0).fit(X, y)
    >>> model.coef_.round(2) + 0.0
    array([ 1., -2.,  0.])
    """

    def _fit_on(self, cluster):
        super()._fit_on(cluster)
        if not cluster.facts[0].n_outputs:
            self.coef_, self.intercept_ = self.coef_[0], self.intercept_[0]


class ReflectronClassifier(_Reflectron, DistributedClassifier, glm_classifier.ReflectronClassifier):
    """`tunefree.ReflectronClassifier` on rows of a Dask cluster; see `ReflectronRegressor`."""


def _signed(part, classes, k):
    """A partition as one class against the rest, in float64 as the certificate needs it."""
    check_range(part.X)
    signs = np.where(part.y == classes[k], 1.0, -1.0)[:, None]
    return [Block(double(part.X), None, signs, part.weights, 0, 0)]


class OptimisticPerceptron(Distributed, perceptron.OptimisticPerceptron):
    """`tunefree.OptimisticPerceptron` on rows of a Dask cluster.

    The paper's method, whose state has O(n_features) numbers: each pass is one round. There are no
    `support_weights_`, which have a number for each row.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from tunefree.dask import OptimisticPerceptron
    >>> X = da.random.default_rng(0).normal(size=(400, 3), chunks=(100, 3))
    >>> y = X[:, 0] > 0
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     model = OptimisticPerceptron().fit(X, y)
    >>> model.separated_
    True
    """

    def _fit_on(self, cluster):
        self._check_parameters()
        if (self.method, self.potential) != ("optimistic", "entropy"):
            raise ValueError("On a cluster method='optimistic' and potential='entropy' are needed.")

        def source_of(k):
            return Sheets(cluster, _signed, self.classes_, k)

        self._fit_streams(source_of, max(f.largest for f in cluster.facts))

    def decision_function(self, X):
        """Scores, lazy and of the kind of X if X is a Dask collection."""
        return self._lazily("decision_function", X)
