"""The estimators of `tunefree` on a Dask cluster: they differ from the local ones in the source.

Batch learners make a round a pass (`Batches`): the local result up to the order of the sums. Least
squares are solved from sums, or as averages of independent runs. PiSTOL's duals do not add up (a
sum of them has learned everything several times over: 23.6 % instead of 14.9 % errors on a9a), so
what is merged are the predictors of independent runs, each an average of iterates already, by the
weight of the rows behind them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted

from tunefree._parameters import seed_of
from tunefree.averaging import Geometric
from tunefree.dask.cluster import Batches, Cluster, added, joined
from tunefree.engine.order import hashed_visits
from tunefree.estimators import auto, base, least_squares, perceptron, pistol, ridge
from tunefree.estimators.from_source import Sample
from tunefree.estimators.kernel import landmarks
from tunefree.estimators.least_squares import Folded, Problem, Run, UniqueRows, penalties
from tunefree.estimators.reflectron import glm
from tunefree.estimators.reflectron.problem import Columns, Moments
from tunefree.learners.reflectron.mirror import NONE, Batch
from tunefree.learners.sgd.coordinates import spanned
from tunefree.learners.sgd.path import Spectrum
from tunefree.links import target_margin

PIECE = 1 << 19  # numbers: they fit into the cache
_BLOCK = 4096


class Rows(Cluster):
    """Rows on a cluster that estimators learn."""

    def fitted(self, model):
        """A local model after all rows; None if it wants them in one place."""
        kind = globals().get(type(model).__name__)
        if kind is None:
            return None
        there = kind(**model.get_params(deep=False))
        there._fit_shown(self)
        return there.to_local()


class Distributed:
    """Puts a local estimator's rows on a cluster; mixed in before it.

    Parameters and fitted attributes are those of the local estimator, the attributes NumPy arrays
    on the client; what only a run over all rows has, such as PiSTOL's `trace_`, is left out.
    """

    @property
    def set_callbacks(self) -> Any:
        """Not there: what scikit-learn's callbacks are told of is a fit in this process."""
        raise AttributeError("Estimators on a cluster have no callbacks.")

    # Whether partitions of more rows than a thread's share are cut: where all rows are summed up.
    _EVEN = True
    # Whether absurd entries are taken as missing; PiSTOL bounds them itself, in every partition.
    _GUARDED = False

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        client: Any = None,
        timeout: float = 600.0,
    ) -> Self:
        """Learn from rows on a cluster.

        Parameters
        ----------
        X : Dask array or frame of shape (n_samples, n_features)
            Chunks may be of unknown size; several chunks of columns are joined.
        y : Dask array, series or frame of shape (n_samples,) or (n_samples, n_targets)
            Cut like X.
        sample_weight : Dask array or series of shape (n_samples,), optional
        client : distributed.Client, optional
            The current one by default.
        timeout : float, default=600
            Seconds that a round over the partitions may take.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For rows that cannot be learned from, naming the partition.
        TimeoutError
            If a round takes longer than `timeout`, naming the partitions that did not answer.
        """
        with base.rollback_on_error(self):
            return self._fit_cluster(X, y, sample_weight, client, timeout)

    def _fit_cluster(self, X, y, sample_weight, client, timeout):
        named = getattr(self, "solver", "auto") in ("exact", "sgd")
        as_given = named or not getattr(self, "standardize", True)
        guard = self._GUARDED and not as_given
        cluster = Rows(
            X, y, sample_weight, classify=is_classifier(self), client=client, timeout=timeout,
            guard=guard,
        )  # fmt: skip
        for name in [n for n in vars(self) if n.endswith("_") and not n.startswith("_")]:
            delattr(self, name)
        self._fit_shown(cluster.even() if self._EVEN else cluster)
        names = getattr(X, "columns", None)
        if names is not None and all(isinstance(n, str) for n in names):
            self.feature_names_in_ = np.asarray(names, dtype=object)
        return self

    def _fit_shown(self, cluster):
        self.n_features_in_ = cluster.n_columns
        if is_classifier(self):
            self.classes_ = cluster.classes()
            if len(self.classes_) < 2:
                raise ValueError(
                    f"y has only one class ({self.classes_[0]}): a classifier needs at least two."
                )
        self._fit_on(cluster)

    def _fit_on(self, cluster):
        """Learn from a `Cluster`: what each estimator says."""
        raise NotImplementedError

    def _none(self) -> Any:
        raise AttributeError("Rows on a cluster are learned by fit.")

    get_params: Callable[..., dict]  # of the estimator that this is mixed into
    partial_fit = property(_none, doc="Rows on a cluster are learned by `fit`.")
    fit_source = property(_none, doc="Rows on a cluster are learned by `fit`.")

    def to_local(self) -> Any:
        """The same fitted model as an estimator of `tunefree`, without Dask.

        Returns
        -------
        estimator
        """
        check_is_fitted(self)
        local = self._local()
        vars(local).update(vars(self))
        return local

    def _local(self):
        """The estimator of `tunefree` with the same parameters."""
        kind = next(c for c in type(self).__mro__ if c.__module__.startswith("tunefree.estimators"))
        return kind(**self.get_params(deep=False))

    def _lazily(self, method, X):
        """Call a method of the local estimator on arrays, or on every partition when asked for."""
        local = self.to_local()
        if not hasattr(X, "dask"):
            return getattr(local, method)(X)
        if X.ndim != 2:
            raise ValueError(f"X has {X.ndim} dimension, not two: rows and columns.")
        none = np.zeros((0, X.shape[1]))
        if hasattr(X, "columns"):
            import pandas as pd

            meta = _call_framed(pd.DataFrame(none, columns=X.columns), local, method)
            return X.map_partitions(_call_framed, local, method, meta=meta)
        meta = _call(none, local, method)
        if X.numblocks[1] > 1:
            X = X.rechunk({1: -1})
        shape = {"drop_axis": 1} if meta.ndim == 1 else {"chunks": (X.chunks[0], meta.shape[1:])}
        return X.map_blocks(_call, local, method, dtype=meta.dtype, meta=meta, **shape)

    def predict(self, X: Any) -> Any:
        """Predictions, lazy and of the kind of X if X is a Dask collection."""
        return self._lazily("predict", X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The local estimator's score; of Dask collections one number, computed now."""
        if not hasattr(X, "dask"):
            return self.to_local().score(X, y, sample_weight)
        from dask.base import compute

        rows = [y] if sample_weight is None else [y, sample_weight]
        predicted, y, *weights = compute(self.predict(X), *rows)
        measure = accuracy_score if is_classifier(self) else r2_score
        if isinstance(self, glm.ReflectronRegressor):
            return self._d2(y, predicted, *weights)
        return float(measure(y, predicted, sample_weight=weights[0] if weights else None))


class DistributedClassifier(Distributed):
    """The methods that classifiers have, too."""

    def predict_proba(self, X: Any) -> Any:
        """Probabilities, lazy and of the kind of X if X is a Dask collection."""
        return self._lazily("predict_proba", X)

    def predict_log_proba(self, X: Any) -> Any:
        """Logarithms of `predict_proba`."""
        return self._lazily("predict_log_proba", X)

    def decision_function(self, X: Any) -> Any:
        """Scores, lazy and of the kind of X if X is a Dask collection."""
        return self._lazily("decision_function", X)


def _call(block, local, method):
    """A method on a block of rows, of which there may be none."""
    return getattr(local, method)(_some(block))[: block.shape[0]]


def _some(block):
    if block.shape[0]:
        return block
    row = np.zeros((1, block.shape[1]))
    return type(block)(row, columns=block.columns) if hasattr(block, "columns") else row


def _call_framed(block, local, method):
    """The same as a series or frame; columns that are classes have their names."""
    import pandas as pd

    values = getattr(local, method)(_some(block))
    if values.ndim == 1:
        framed = pd.Series(values, name="prediction")
    else:
        names = local.classes_ if is_classifier(local) else map(str, range(values.shape[1]))
        framed = pd.DataFrame(values, columns=list(names))
    return framed.iloc[: len(block)].set_axis(block.index)


def _numbers(part, estimator):
    """A partition's targets as the learner wants them, and the groups to hold out alike."""
    if not is_classifier(estimator):
        targets = part.y.reshape(len(part.y), -1).astype(np.float64)
        return estimator._law()[0].targets(targets), np.zeros(len(part.y))
    codes = base.places_of(estimator.classes_, part.y)
    return estimator._targets(codes, estimator.classes_), codes


def _moments(part, estimator):
    part = part.positive()
    return Moments.of(part.X, _numbers(part, estimator)[0], part.weights)


def _sampled(part, estimator, seed):
    part = part.positive()
    return Sample.of(part.X, part.y, part.weights, seed)


def _batches(part, estimator, columns, seed):
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
    # Of rows with few entries for their columns, sums would cost more than products.
    step = max(1, max(PIECE, 4 * X.shape[1] * sparse.issparse(X)) * len(weights) // max(1, size))
    return [
        Batch(columns.design(X[rows[p]]), targets[rows[p]], totals[p], held[p])
        for p in (slice(start, start + step) for start in range(0, len(rows), step))
    ]


def _held_weight(batches):
    return float(sum(s.weights[s.held > NONE].sum() for s in batches))


def _fit_glm(self, cluster):
    """What both Reflectrons do."""
    (family, link), configurations, _ = self._check()
    if self.solver != "batch" or self.feature_map is not None:
        raise ValueError("On a cluster solver='batch' and feature_map=None are needed.")
    if getattr(self, "class_weight", None) is not None:
        raise ValueError("On a cluster give sample_weight in place of class_weight.")
    self.feature_map_ = self._stream = None
    if any(isinstance(c.step, str) for c in configurations):
        raise ValueError("A theorem's step needs all rows at hand: give step='auto' or a number.")
    worker = clone(self)
    if is_classifier(self):
        worker.classes_ = self.classes_
        family, link = self._law(self.classes_)
    m = cluster.total("moments", _moments, worker, merge=joined)
    sample = None
    if self._learns_law(family):
        seed = seed_of(self.random_state) + 1
        sample = cluster.total("sample", _sampled, worker, seed, merge=joined)
    columns = Columns.unchanged(cluster.n_columns)
    if self.standardize:
        columns = m.columns(self.fit_intercept)
    units, centre = columns, None
    sparse_rows = all(f.sparse for f in cluster.facts)
    if sparse_rows and columns.centre.any() and not getattr(family, "tied", False):
        # A mean is no number of a sparse row: it is taken off the sums.
        centre, units = (
            columns.centre / columns.scale,
            columns._replace(centre=0.0 * columns.centre),
        )
    source = Batches(cluster, _batches, worker, units, seed_of(self.random_state), centre=centre)
    held = cluster.each("held", _held_weight, parts=source.batches)
    held = sum(cluster.gather(held, "holding out"))
    cluster.parts = None  # from here on the rows are in the learner's units
    if not held and len(configurations) > 1:
        raise ValueError(
            f"Choosing among {len(configurations)} configurations needs rows held out: give a "
            "positive validation_fraction, larger partitions, or a single potential."
        )
    theta = offset = None
    if sample is not None:
        family, link, (theta, offset) = self._law_of(sample, columns)
    else:
        low, high = getattr(link, "range", (np.inf, -np.inf))
        mean = family.start(m.target[None], np.ones(1))
        inside = ((mean > low) & (mean < high)).all() and hasattr(link, "inverse")
        if self.fit_intercept and inside:
            offset = target_margin(link, mean)
    learner = self._mirror((family, link), configurations, 2 if held else 1, bool(held))
    self._descend(learner, source, columns, (theta, offset), len(m.target), cluster.dtype)


class ReflectronRegressor(Distributed, glm.ReflectronRegressor):
    """`tunefree.ReflectronRegressor` on rows of a Dask cluster.

    Each pass is one round; sums are merged in a tree and the client takes the step. On the same
    rows held out the result is the local one up to the order of the sums. Rows are held out of
    every partition alike; `n_splits` and the steps of theorems are for rows in memory.
    """

    _GUARDED = True

    def _fit_on(self, cluster):
        self._flat = not cluster.facts[0].n_outputs
        _fit_glm(self, cluster)


class ReflectronClassifier(DistributedClassifier, glm.ReflectronClassifier):
    """`tunefree.ReflectronClassifier` on rows of a Dask cluster; see `ReflectronRegressor`."""

    _GUARDED = True
    _fit_on = _fit_glm


def _signed(part, classes, k):
    perceptron.check_range(part.X)
    return [perceptron.signed(part.X, part.y, part.weights, positive=classes[k])]


class OptimisticPerceptron(Distributed, perceptron.OptimisticPerceptron):
    """`tunefree.OptimisticPerceptron` on rows of a Dask cluster.

    The paper's method, whose state has O(n_features) numbers: each pass is one round. There are no
    `support_weights_`, which have a number for each row.
    """

    def _fit_on(self, cluster):
        self._check_parameters()
        if not self._streams:
            raise ValueError("On a cluster method='optimistic' and potential='entropy' are needed.")

        def source_of(k):
            return Batches(cluster, _signed, self.classes_, k)

        self._fit_streams(source_of, max(f.largest for f in cluster.facts))

    def decision_function(self, X: Any) -> Any:
        """Scores, lazy and of the kind of X if X is a Dask collection."""
        return self._lazily("decision_function", X)


class Predictor(NamedTuple):
    """What partitions' runs add up to: weighted means, and extremes."""

    weight: float
    coef: np.ndarray
    intercept: np.ndarray
    risks: dict  # by member: weighted sum of its progressive risk, and the weight behind it
    n_passes: int  # the most that a run has made
    limits: np.ndarray | None = None  # (2, d): mean limits to which columns are clipped
    reach: np.ndarray | None = None  # (2, n_outputs): the lowest and the highest target

    def join(self, other):
        """Both together."""
        share = other.weight / (self.weight + other.weight)
        limits = reach = None
        if self.limits is not None and other.limits is not None:
            limits = self.limits + share * (other.limits - self.limits)
        if self.reach is not None:
            low, high = zip(self.reach, other.reach, strict=True)
            reach = np.array([np.minimum(*low), np.maximum(*high)])
        names = {*self.risks, *other.risks}
        none = (0.0, 0.0)
        return Predictor(
            self.weight + other.weight,
            self.coef + share * (other.coef - self.coef),
            self.intercept + share * (other.intercept - self.intercept),
            {n: tuple(np.add(self.risks.get(n, none), other.risks.get(n, none))) for n in names},
            max(self.n_passes, other.n_passes),
            limits,
            reach,
        )


def _predictor(model, weight):
    key = next((k for k in model.leaderboard_[0] if k.startswith("progressive")), None)
    risks = {e["name"]: (weight * e[key], weight) for e in model.leaderboard_} if key else {}
    return Predictor(
        float(weight), np.asarray(model.coef_, float), np.asarray(model.intercept_, float), risks,
        model.n_iter_,
    )  # fmt: skip


def _classifier(part, estimator, classes):
    """A partition's classifier: the passes of `fit`, or a stream's if classes are missing here."""
    here = np.unique(part.y[part.weights > 0.0])
    if len(here) == len(classes):
        model = estimator.fit(part.X, part.y, sample_weight=part.weights)
    else:
        model = estimator.partial_fit(part.X, part.y, classes, sample_weight=part.weights)
    return _predictor(model, part.weights.sum())


def _regressor(part, estimator):
    """A partition's regressor; limits of columns and predictions travel with the coefficients."""
    model = estimator.fit(part.X, part.y, sample_weight=part.weights)
    found = _predictor(model, part.weights.sum())
    return found._replace(
        limits=model.input_limits_, reach=np.asarray(model.prediction_limits_, float)
    )


def _fit_runs(self, cluster, learned, *known):
    """Average the partitions' runs, `learned(part, estimator, ...)`, and publish the predictor."""
    self._check()
    m = cluster.total("runs", learned, self._local(), *known, merge=joined)
    self.coef_, self.intercept_ = m.coef.astype(cluster.dtype), m.intercept.astype(cluster.dtype)
    self.n_iter_ = m.n_passes
    self.leaderboard_ = sorted(
        ({"name": n, "progressive_error": r / w} for n, (r, w) in m.risks.items() if w),
        key=lambda entry: entry["progressive_error"],
    )
    return m


class PiSTOLClassifier(DistributedClassifier, pistol.PiSTOLClassifier):
    """`tunefree.PiSTOLClassifier` on rows of a Dask cluster: one round, predictors averaged.

    Each partition should be a fair sample of the rows: shuffle data that are sorted by class. Where
    a class is missing, the partition is learned as a stream of one pass.
    """

    _EVEN = False  # a run of each partition: cut, they would be shorter

    def _fit_on(self, cluster):
        _fit_runs(self, cluster, _classifier, self.classes_)


class PiSTOLRegressor(Distributed, pistol.PiSTOLRegressor):
    """`tunefree.PiSTOLRegressor` on rows of a Dask cluster: one round, predictors averaged."""

    _EVEN = False

    def _fit_on(self, cluster):
        m = _fit_runs(self, cluster, _regressor)
        self.input_limits_ = None if m.limits is None else m.limits.astype(cluster.dtype)
        self.prediction_limits_ = m.reach.astype(cluster.dtype)


class Extent(NamedTuple):
    """Means of weighted rows and their targets, and between what their columns lie."""

    weight: float
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    target: np.ndarray

    @classmethod
    def of(cls, X, targets, weights):
        """The extent of rows of positive weight."""
        total = float(weights.sum())
        share = weights / total
        low, high = X.min(axis=0), X.max(axis=0)
        if sparse.issparse(X):
            low, high = low.toarray().reshape(-1), high.toarray().reshape(-1)
        mean = np.asarray(share @ X, dtype=np.float64).reshape(-1)
        return cls(total, mean, low.astype(float), high.astype(float), share @ targets)

    def join(self, other):
        """The extent of both together."""
        total = self.weight + other.weight
        share = other.weight / total
        return Extent(
            total,
            self.mean + share * (other.mean - self.mean),
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.target + share * (other.target - self.target),
        )

    def columns(self, centred):
        """The coordinates in which least squares are learned."""
        mean, target = (v if centred else np.zeros_like(v) for v in (self.mean, self.target))
        return spanned(mean, target, self.low, self.high)


def _rows(part):
    """Rows of positive weight, and their targets in columns."""
    part = part.positive()
    return part.X, part.y.reshape(len(part.y), -1).astype(np.float64), part.weights


def _extent(part):
    return Extent.of(*_rows(part))


class Listed(NamedTuple):
    """The distinct rows of a partition with their total weights: where they are, not a copy."""

    X: Any
    targets: np.ndarray
    rows: np.ndarray
    weights: np.ndarray

    def blocks(self, view):
        """Rows in the coordinates of a view and their targets, times the roots of the weights."""
        for start in range(0, len(self.rows), _BLOCK):
            at = slice(start, start + _BLOCK)
            X, root = self.X[self.rows[at]], np.sqrt(self.weights[at])[:, None]
            Z = view.show(X.toarray() if sparse.issparse(X) else X)
            Z *= root
            yield Z, root * (self.targets[self.rows[at]] - view.target), self.weights[at]


def _listed(part, seed):
    X, targets, weights = _rows(part)
    rows, totals = hashed_visits(X, targets, weights, seed).unique()
    return Listed(X, targets, rows, totals * (weights.sum() / totals.sum()))


def _products(listed, view):
    """Z'WZ and Z'Wy."""
    gram = products = 0.0
    for Z, y, _ in listed.blocks(view):
        gram, products = gram + Z.T @ Z, products + Z.T @ y
    return gram, products


def _held_out(listed, view, spectrum, alphas, per_weight):
    """Squared errors of every penalty at rows left out."""
    return (
        sum(
            spectrum.held_out(Z @ spectrum.right, y, weights * per_weight, alphas)
            for Z, y, weights in listed.blocks(view)
        ),
    )


class Ran(NamedTuple):
    """A partition's run of SGD; it stays on its worker."""

    problem: Problem
    state: tuple
    n_folds: int
    n_passes: int
    weight: float

    def schemes(self, alphas, others, total):
        """The averages, with this partition's share of the penalties."""
        return self.problem.schemes(alphas * (self.weight / total), others)


def _scaling_risks(part, seed, intercept):
    risks = UniqueRows.of(*_rows(part), seed).scaling_risks(intercept)
    return tuple(part.weights.sum() * np.asarray(risks))


def _ran(part, view, seed, intercept, scaling, max_iter, choose):
    X, targets, weights = _rows(part)
    rows = UniqueRows.of(X, targets, weights, seed)
    problem = rows.pose(intercept=intercept, scaling=scaling, view=view)
    n_passes = least_squares.passes(max_iter, int(problem.visits.repeats.sum()))
    n_folds = least_squares.folds(problem)[1] if choose and len(problem.totals) > 1 else 0
    state = least_squares.descend(problem, n_passes, n_folds)
    return Ran(problem, state, n_folds, n_passes, float(weights.sum()))


def _size(ran):
    """Squared norms, the step and the passes, as sums."""
    return ran.problem.sized(), ran.weight * ran.problem.step(), ran.weight * ran.n_passes


def _risks(ran, *schemes):
    """Held-out errors of every scheme times the partition's weight, and that."""
    if not ran.n_folds:
        return 0.0, 0.0
    risks, _ = least_squares.held_out_risks(ran.problem, ran.state, ran.schemes(*schemes))
    return ran.weight * risks, ran.weight


def _average(ran, k, *schemes):
    """The path, or the scheme k of it, in the user's units and times the partition's weight."""
    chosen = ran.schemes(*schemes)
    model = least_squares.read(ran.problem, ran.state, chosen if k is None else [chosen[k]])
    return tuple(ran.weight * a for a in model.fold(ran.problem.columns))


class AveragedSGDRegressor(Distributed, ridge.AveragedSGDRegressor):
    """`tunefree.AveragedSGDRegressor` on rows of a Dask cluster.

    With at most 1000 columns, however many rows, ridge regression is solved exactly: products of
    columns are summed over the partitions, a further round sums the leave-one-out errors, and the
    result is that of the local ``solver="exact"`` up to the order of the sums. (Equal rows of one
    partition are left out together, those of two are not.)

    Otherwise each partition is learned by a run of its own, in common units of the columns and with
    its share of every penalty; errors on rows held out and paths are averaged by the partitions'
    weights. That needs two or three rounds, and is another predictor than that of one long run.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from tunefree.dask import AveragedSGDRegressor
    >>> X = da.random.default_rng(0).normal(size=(400, 3), chunks=(100, 3))
    >>> y = X[:, 0] - 2.0 * X[:, 1] + 5.0
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     model = AveragedSGDRegressor().fit(X, y)
    >>> model.coef_.round(2) + 0.0, round(float(model.intercept_), 2), model.solver_
    (array([ 1., -2.,  0.]), 5.0, 'exact')
    """

    _GUARDED, _EVEN = True, False  # unless it is solved exactly

    def _fit_on(self, cluster):
        self._check()
        self._stream = self._path = self.prediction_limits_ = None
        self._dtype, self._flat = cluster.dtype, not cluster.facts[0].n_outputs
        d = cluster.n_columns
        # What is decomposed are the products of columns, however many rows there are.
        self._choose_solver((d, d))
        extent = cluster.total("extent", _extent, merge=joined)
        exact = self.solver_ == "exact"
        fit = self._exactly if exact else self._by_runs
        fit(cluster.even() if exact else cluster, extent.columns(self.fit_intercept), extent.weight)

    def _exactly(self, cluster, view, total):
        view = view if self.scaling else view.unscaled()
        listed = cluster.each("rows", _listed, seed_of(self.random_state))
        gram, products = cluster.total("products", _products, view, merge=added, parts=listed)
        self.alphas_ = penalties(self.alphas, float(np.trace(gram)))
        spectrum = Spectrum.of(gram, products)
        per_weight = bool(self.fit_intercept) / total
        (sums,) = cluster.total(
            "leaving out", _held_out, view, spectrum, self.alphas_, per_weight,
            merge=added, parts=listed,
        )  # fmt: skip
        model = Run(spectrum.path(self.alphas_), np.eye(len(self.alphas_)))
        self._choose_exact(view, model, sums / total)

    def _by_runs(self, cluster, view, total):
        seed, scaling = seed_of(self.random_state), self.scaling
        if scaling == "auto":
            scaling = True
            if any(f.sparse for f in cluster.facts):
                scaled, raw = cluster.total(
                    "scaling", _scaling_risks, seed, self.fit_intercept, merge=added
                )
                scaling = scaled < raw
        grid, others = self._grid()
        choose = grid and (others or self.alphas is None or np.size(self.alphas) > 1)
        runs = cluster.each(
            "run", _ran, view, seed, self.fit_intercept, scaling, self.max_iter, bool(choose)
        )
        size, step, n_passes = cluster.total("size", _size, merge=added, parts=runs)
        self.alphas_ = penalties(self.alphas, size)
        sent, risks, k = (self.alphas_, others, total), None, len(self.alphas_)
        if grid:
            k = int(np.argmax(self.alphas_))
        if choose:
            sums, weight = cluster.total("risks", _risks, *sent, merge=added, parts=runs)
            if weight:
                risks = sums / weight
                k = int(np.argmin(risks))
        few = len(self.alphas_) * cluster.n_columns * cluster.n_outputs <= ridge.MOST_KEPT
        path = cluster.total(
            "average", _average, None if few else k, *sent, merge=added, parts=runs
        )
        model = Folded(*(a / total for a in path))
        # Partitions have steps of their own: the averages are told by the mean of them.
        rates = step / total * self.alphas_ / total
        schemes = [*(Geometric(float(rate)) for rate in rates), *others]
        self._choose(view, model, schemes, risks, k, round(n_passes / total))


class _Sampled(Distributed):
    """Learns a sample on the client, and sums over all rows: the partitions' features add up."""

    def _fit_on(self, cluster):
        local: Any = self._local()
        local._fit_rows(cluster)
        vars(self).update(vars(local))


class LandmarkRegressor(_Sampled, landmarks.LandmarkRegressor):
    """`tunefree.LandmarkRegressor` on rows of a Dask cluster.

    Two rounds. The first draws 8,000 distinct rows evenly, by their hash: on the client they tell
    view, geometry, penalty and landmarks, and they are all there is to learn if there are no more.
    The second adds up products of the features of all rows, and the client solves for their
    coefficients: what one process finds in the same two passes (`fit_source`), up to the order of
    sums.
    """


class LandmarkClassifier(_Sampled, DistributedClassifier, landmarks.LandmarkClassifier):
    """`tunefree.LandmarkClassifier` on rows of a Dask cluster; see `LandmarkRegressor`."""


class TuneFreeRegressor(_Sampled, auto.TuneFreeRegressor):
    """`tunefree.TuneFreeRegressor` on rows of a Dask cluster, of numbers.

    The race runs on the client, on 8,000 distinct rows drawn evenly by their hash; its stack keeps
    weights, calibration and what it said of rows left out. Then its models learn all rows: kernels
    on landmarks and ridge regression from sums, the Reflectron in rounds, PiSTOL by averaged runs.
    Kernel PiSTOL stays as the sample taught it; `report_` says so.
    """


class TuneFreeClassifier(_Sampled, DistributedClassifier, auto.TuneFreeClassifier):
    """`tunefree.TuneFreeClassifier` on rows of a Dask cluster; see `TuneFreeRegressor`."""
