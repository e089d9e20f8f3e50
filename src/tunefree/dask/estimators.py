"""The estimators of `tunefree` on a Dask cluster: only the source of the rows differs.

For batch learners a pass is a round (`RemoteBatches`), and the result is the local one up to the
order of the sums. Least squares are solved from sums, or as averages of independent runs. PiSTOL,
as a model of a stack, goes from partition to partition: sums of its duals would have learned every
row several times (23.6 % instead of 14.9 % errors on a9a).
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy, deepcopy
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import accuracy_score, r2_score
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from tunefree.base import base
from tunefree.base.exposures import TakesExposures, given_terms, per_exposure
from tunefree.base.from_source import FitsSource
from tunefree.base.locks import rollback_on_error
from tunefree.base.reading import forget_fit
from tunefree.core.parameters import seed_of
from tunefree.dask.cluster import Cluster, RemoteBatches, added, joined, summarised
from tunefree.dask.likelihood import fit_likelihood
from tunefree.dask.terms import GivenTerms, as_columns_of, as_partitions_of, call_of, with_terms
from tunefree.kernel_ridge import estimators as kernel_ridge
from tunefree.parts.averaging import Geometric
from tunefree.parts.families import Ordinal
from tunefree.parts.links import Exp, index_of_mean
from tunefree.perceptron import blocks, separator
from tunefree.perceptron import estimators as perceptron
from tunefree.reflectron import classifier, reflectron
from tunefree.reflectron.descent import Descent, Settings, fold_order
from tunefree.reflectron.glm.classifier import GLMClassifier, grades_of
from tunefree.reflectron.glm.regressor import GLMRegressor
from tunefree.reflectron.mirror import NONE, Batch
from tunefree.ridge_path import estimators as ridge
from tunefree.ridge_path import least_squares
from tunefree.ridge_path.coordinates import spanned
from tunefree.ridge_path.least_squares import Folded, LeastSquares, SGDRun, UniqueRows, penalties
from tunefree.ridge_path.path import Spectrum
from tunefree.rows.columns import CATEGORY, DURATION, NUMBER, TRUTH, cell_text
from tunefree.rows.designs import n_entries
from tunefree.rows.levels import coded, coded_as
from tunefree.rows.matrices import as_columns, as_dense
from tunefree.rows.moments import Deviations, Ranges
from tunefree.rows.order import hashed_visits
from tunefree.rows.preprocessing import KnownTable, TablePreprocessor
from tunefree.rows.schema import warn_of_bad, warn_of_notes
from tunefree.rows.summaries import ReadSummaries
from tunefree.rows.units import Units
from tunefree.stack.classifier import TuneFreeClassifier
from tunefree.stack.regressor import TuneFreeRegressor
from tunefree.trees.classifier import BoostedTreesClassifier
from tunefree.trees.regressor import BoostedTreesRegressor

PIECE = 1 << 19  # numbers that fit into the processor's cache
_BLOCK = 4096


class ClusterRows(Cluster):
    """Rows on a cluster, with fits of the models of a stack."""

    def fitted(self, model):
        """A local model fitted to all rows; None if it needs them on one machine."""
        on_cluster = ON_CLUSTER.get(type(model))
        if on_cluster is not None:
            remote = on_cluster(**model.get_params(deep=False))
            remote._fit_parts(self)
            return remote.to_local()
        return self._fitted_in_turn(model) if isinstance(model, FitsSource) else None

    def _fitted_in_turn(self, model):
        """An online learner that goes from partition to partition, as `fit_source` would."""
        options = {"classes": self.classes()} if is_classifier(model) else {}
        for name, part in zip(self.names, self.parts, strict=True):
            learned = self.each("turn", _learned, model, options, parts=[part])
            (model,) = self.gather(learned, "learning in turn", names=[name])
        return model


def _learned(part, model, options):
    part = part.positive()
    model = deepcopy(model)  # the task may be repeated
    return model.partial_fit(part.X, part.y, sample_weight=part.weights, **options)


class Distributed(ABC):
    """Mixin before a local estimator: it learns rows on a cluster.

    Parameters and fitted attributes are those of the local estimator; the attributes are NumPy
    arrays on the client. Attributes of a run over all rows, such as `trace_`, are missing.
    """

    @property
    def set_callbacks(self) -> Any:
        """Missing: callbacks of scikit-learn follow fits in this process."""
        raise AttributeError("Estimators on a cluster have no callbacks.")

    # Whether partitions with more rows than the share of a thread are cut: where sums are computed.
    _EVEN = True

    @abstractmethod
    def _fit_on(self, cluster) -> None:
        """Learn from a `Cluster`, and set the fitted attributes."""

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
            Chunks may have unknown sizes; several chunks of columns are joined.
        y : Dask array, series or frame of shape (n_samples,) or (n_samples, n_targets)
            With the chunks of X.
        sample_weight : Dask array or series of shape (n_samples,), optional
        client : distributed.Client, optional
            The current one by default.
        timeout : float, default=600
            Time limit of a round over the partitions, in seconds.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For invalid rows; the message names the partition.
        TimeoutError
            If a round takes longer than `timeout`; the message names the partitions without answer.
        """
        with rollback_on_error(self):
            return self._fit_cluster(X, y, sample_weight, client, timeout)

    def _fit_cluster(self, X, y, sample_weight, client, timeout, **terms):
        how: Any = {"classify": is_classifier(self), "guard": self._clips_outliers()}
        how |= {"tables": True, "terms": terms}
        cluster = ClusterRows(X, y, sample_weight, **how, client=client, timeout=timeout)
        forget_fit(self)
        self._read_tables(cluster, getattr(X, "_meta", None))
        names = getattr(X, "columns", None)
        if names is not None and all(isinstance(n, str) for n in names):
            self.feature_names_in_ = np.asarray(names, dtype=object)
        self._fit_parts(cluster.even() if self._EVEN else cluster)
        return self

    @abstractmethod
    def _read_tables(self, cluster, like) -> None:
        """Make the tables of a cluster numbers; `like` is a table without rows."""

    def _clips_outliers(self):
        """Whether outliers of a partition are taken as missing."""
        return False

    def _fit_parts(self, cluster):
        self.n_features_in_ = cluster.n_columns
        if is_classifier(self):
            self.classes_ = cluster.classes()
            if len(self.classes_) < 2:
                raise ValueError(
                    f"y has only one class ({self.classes_[0]}): a classifier needs at least two."
                )
        self._fit_on(cluster)

    def _none(self) -> Any:
        raise AttributeError("On a cluster only fit is available.")

    get_params: Callable[..., dict]  # of the estimator that this is mixed into
    partial_fit = property(_none, doc="On a cluster only `fit` is available.")
    fit_source = property(_none, doc="On a cluster only `fit` is available.")

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
        kind = next(
            c
            for c in type(self).__mro__
            if c.__module__.startswith("tunefree.") and not c.__module__.startswith("tunefree.dask")
        )
        return kind(**self.get_params(deep=False))

    def _lazily(self, method, X, **terms):
        """Call a method of the local estimator: on arrays now, on partitions lazily."""
        local = self.to_local()
        if not hasattr(X, "dask"):
            return getattr(local, method)(X, **terms)
        if X.ndim != 2:
            raise ValueError(f"X has {X.ndim} dimension; it needs two, rows and columns.")
        mapped = _mapped_frame if hasattr(X, "columns") else _mapped_array
        return mapped(X, *call_of(local, method, terms))

    def predict(self, X: Any) -> Any:
        """Predictions; lazy and of the type of X if X is a Dask collection."""
        return self._lazily("predict", X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The score of the local estimator; for Dask collections it is computed now."""
        if not hasattr(X, "dask"):
            return self.to_local().score(X, y, sample_weight)
        from dask.base import compute

        rows = [y] if sample_weight is None else [y, sample_weight]
        predicted, y, *weights = compute(self.predict(X), *rows)
        if isinstance(self, TakesExposures):
            return self._d2(y, predicted, *weights)
        measure = accuracy_score if is_classifier(self) else r2_score
        return float(measure(y, predicted, sample_weight=weights[0] if weights else None))


class DistributedClassifier(Distributed):
    """The additional methods of classifiers."""

    def predict_proba(self, X: Any) -> Any:
        """Probabilities; lazy and of the type of X if X is a Dask collection."""
        return self._lazily("predict_proba", X)

    def predict_log_proba(self, X: Any) -> Any:
        """Logarithms of `predict_proba`."""
        return self._lazily("predict_log_proba", X)

    def decision_function(self, X: Any) -> Any:
        """Scores; lazy and of the type of X if X is a Dask collection."""
        return self._lazily("decision_function", X)


def _mapped_array(X, call, terms):
    meta = _on_block(np.zeros((0, X.shape[1]), dtype=X.dtype), *terms, call)
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    columns = [as_columns_of(values, X) for values in terms]
    shape = {"drop_axis": 1} if meta.ndim == 1 else {"chunks": (X.chunks[0], meta.shape[1:])}
    shape |= {"dtype": meta.dtype, "meta": meta}
    return X.map_blocks(_on_block, *columns, call, **shape)


def _mapped_frame(X, call, terms):
    import pandas as pd

    meta = _on_frame(pd.DataFrame(columns=X.columns), *terms, call)
    terms = [as_partitions_of(values, X, call.local) for values in terms]
    return X.map_partitions(_on_frame, *terms, call, meta=meta)


def _on_block(block, *arguments):
    """A method on a block of rows, which may be empty, and on their terms."""
    *terms, call = arguments
    return _answers(call, block, terms)[: block.shape[0]]


def _answers(call, rows, terms):
    """What a method returns for rows, or for a row in place of none."""
    return call(rows, terms) if rows.shape[0] else call.of_any(_any_row(rows, call.local))


def _on_frame(frame, *arguments):
    """The same as a series or frame; columns that are classes have their names."""
    import pandas as pd

    *terms, call = arguments
    values, local = _answers(call, frame, terms), call.local
    if values.ndim == 1:
        predicted = pd.Series(values, name="prediction")
    else:
        names = local.classes_ if is_classifier(local) else map(str, range(values.shape[1]))
        predicted = pd.DataFrame(values, columns=list(names))
    return predicted.iloc[: len(frame)].set_axis(frame.index)


def _any_row(block, local):
    """A row for a block without any, since local methods need one: zeros, and no text or date."""
    of_table = local[0] if isinstance(local, Pipeline) else local
    schema = getattr(of_table, "schema_", None)
    row = np.zeros((1, block.shape[1]))
    # The local method has an error for another number of columns.
    if schema is not None and len(schema.columns) == block.shape[1]:
        values = {NUMBER: 0.0, TRUTH: False, DURATION: timedelta()}
        row = np.array([[values.get(c.kind) for c in schema.columns]], dtype=object)
    return type(block)(row, columns=block.columns) if hasattr(block, "columns") else row


def _same(table):
    return table


class ToNumbers(NamedTuple):
    """The numbers of a part of a table, by a `TablePreprocessor`."""

    table: Any

    def __call__(self, rows):
        """The numbers of some rows."""
        return self.table._numbers_for(self.table, rows, is_new=False)


class ToCodes(NamedTuple):
    """The numbers of a part of a table, and codes of levels."""

    known: Any

    def __call__(self, rows):
        """The numbers and codes of some rows."""
        found = coded(rows, self.known, is_new=False).X
        if not hasattr(found, "column_names"):
            return found
        return np.column_stack([column.to_numpy() for column in found.columns])


def _columns_of(cluster, like):
    """The names, summaries and the unit of weights of the tables of a cluster."""
    found = cluster.total("columns", summarised, merge=joined)
    summaries = found.summaries
    if found.names is not None and hasattr(like, "dtypes"):
        pairs = zip(summaries, like.dtypes, strict=True)
        summaries = [_in_order(one, dtype) if one.ordered else one for one, dtype in pairs]
    return found.names, summaries, found.unit()


def _encode_by(table, cluster, like):
    """Learn a `TablePreprocessor` and make the tables of a cluster its numbers.

    Returns a function that warns of what a person should look at.
    """
    names, summaries, unit = _columns_of(cluster, like)
    warn_of_all = table.learn_summaries(names, summaries, unit)
    in_parts = copy(table).set_params(sparse_output=table.expects_csr())
    cluster.encoded(ToNumbers(in_parts), len(table.sources_))
    return warn_of_all


def _in_order(summary, dtype):
    """The summary of an ordered category, whose type knows the order of its levels."""
    if summary.kind != CATEGORY or not hasattr(dtype, "categories"):
        return summary._replace(ordered=False)
    place = {cell_text(level): k for k, level in enumerate(dtype.categories.tolist())}
    if not set(summary.values.tolist()) <= set(place):  # Dask does not know them
        return summary._replace(ordered=False)
    order = np.argsort([place[level] for level in summary.values.tolist()])
    return summary._replace(values=summary.values[order], weights=summary.weights[order])


class _PreparesTables(Distributed):
    """Tables become numbers by a `TablePreprocessor` of all partitions, `table_`.

    It is None where rows are numbers without missing values. `to_local` then has both in a
    `Pipeline` of scikit-learn.
    """

    def _read_tables(self, cluster, like):
        self.table_: Any = None
        if cluster.is_plain:
            cluster.encoded(_same)
            return
        table = TablePreprocessor()
        _encode_by(table, cluster, like)()
        self.table_ = table.set_params(sparse_output=table.expects_csr())

    def _fit_cluster(self, X, y, sample_weight, client, timeout, **terms):
        super()._fit_cluster(X, y, sample_weight, client, timeout, **terms)
        if self.table_ is not None:
            self.n_features_in_ = self.table_.n_features_in_
        return self

    def to_local(self) -> Any:
        """The same fitted model without Dask.

        Returns
        -------
        estimator
            Of `tunefree`; a `Pipeline` of a `TablePreprocessor` and this where the model has
            learned tables of text, dates or missing values.
        """
        check_is_fitted(self)
        local, facts = self._local(), dict(vars(self))
        table = facts.pop("table_", None)
        if table is not None:
            facts.pop("feature_names_in_", None)
            facts["n_features_in_"] = len(table.sources_)
        vars(local).update(facts)
        return local if table is None else Pipeline([("table", table), ("model", local)])


def _targets_and_strata(part, estimator):
    """The targets of a partition for the learner, and the strata for holding out."""
    if not is_classifier(estimator):
        return estimator._law()[0].targets(as_columns(part.y)), np.zeros(len(part.y))
    codes = base.places_of(estimator.classes_, part.y)
    return estimator._targets(codes, estimator.classes_), codes


def _moments(part, estimator):
    part, levels = part.positive(), estimator._levels_of_columns()
    X = part.X if levels is None else np.ascontiguousarray(levels.numbers(part.X))
    return Deviations.of(X, _targets_and_strata(part, estimator)[0], part.weights)


def _weights_of_levels(part, levels):
    """The weights of the rows of each level, and of all."""
    part = part.positive()
    found = [design.adjoint(part.weights) for design in levels.indicators(part.X)]
    return np.concatenate(found), part.weights.sum()


def _units(cluster, model, moments, scaled):
    """The units of columns; indicators of levels keep theirs, and are centred at their shares."""
    centred, levels = model.fit_intercept, model._levels_of_columns()
    n = cluster.n_columns - (0 if levels is None else len(levels.codes))
    columns = Units.of_moments(moments, centred) if scaled else Units.unchanged(n)
    if levels is None:
        return columns
    sums, total = cluster.total("levels", _weights_of_levels, levels, merge=added)
    centre = np.concatenate([columns.centre, sums / total * centred])
    return Units(centre, np.concatenate([columns.scale, np.ones_like(sums)]), levels)


def _per_unit(part, estimator):
    """The rows of a partition for an exposure of 1."""
    family, link = estimator._law()
    terms = as_columns(part.y), part.weights, part.exposure, part.offset
    targets, weights, offset = per_exposure(family, link, *terms)
    y = targets.reshape(part.y.shape)
    return part._replace(y=y, weights=weights, offset=offset, exposure=None)


def _sums_of_offsets(part, link):
    """The weighted sum of offsets, or of the rates that they stand for, and of the weights."""
    part = part.positive()
    known = link.mean(part.offset) if isinstance(link, Exp) else part.offset
    return part.weights @ known, part.weights.sum()


def _start(cluster, family, link, target, has_offset):
    """The first intercepts: those of the means of all rows."""
    mean = family.start(target[None], np.ones(1))
    if not has_offset:
        return index_of_mean(link, mean)
    total, weight = cluster.total("offsets", _sums_of_offsets, link, merge=added)
    if isinstance(link, Exp):
        return index_of_mean(link, mean / (total / weight))
    index = index_of_mean(link, mean)
    return None if index is None else index - total / weight


def _batches(part, estimator, columns, seed):
    """The rows of a partition in the learner's units; equal rows are one, and some are held out.

    They are cut into pieces: the second product of a pass finds the rows of the first one in the
    processor's cache, and no worker holds a third copy of its rows.
    """
    part = part.positive()
    X, weights, offset = part.X, part.weights, part.offset
    targets, strata = _targets_and_strata(part, estimator)
    hashed = targets if offset is None else np.column_stack([targets, offset])
    visits = hashed_visits(X, hashed, weights, seed)
    rows, totals = visits.unique()
    totals = totals * (weights.sum() / totals.sum())  # partitions count in the user's unit
    folds = Settings.of(estimator).folds(len(rows), 1)
    held = folds.members(fold_order(len(rows), strata[rows]))
    size = n_entries(X)
    # For rows with few entries in many columns, sums would cost more than products.
    step = max(1, max(PIECE, 4 * X.shape[1]) * len(weights) // max(1, size))
    batches = []
    for start in range(0, len(rows), step):
        p = slice(start, start + step)
        known = None if offset is None else offset[rows[p]]
        design = columns.design(X[rows[p]])
        batches.append(Batch(design, targets[rows[p]], totals[p], held[p], known))
    return batches


def _held_weight(batches):
    return float(sum(batch.weights[batch.held > NONE].sum() for batch in batches))


def _batches_in_units(cluster, worker, columns, family, seed):
    """The batches of a cluster; means of sparse rows are subtracted from sums, not from rows."""
    centre, sparse_rows = None, all(f.sparse for f in cluster.facts)
    if sparse_rows and columns.centre.any() and not getattr(family, "tied", False):
        centre = columns.centre / columns.scale
        columns = columns._replace(centre=0.0 * columns.centre)
    return RemoteBatches(cluster, _batches, worker, columns, seed, centre=centre)


def _refuse_local_options(model, settings):
    """Refuse options that need all rows on one machine."""
    if settings.solver == "stochastic" or settings.feature_map is not None:
        raise ValueError("On a cluster solver='batch' and feature_map=None are needed.")
    if getattr(model, "formula", None) is not None:
        raise ValueError("On a cluster give the columns in place of formula=.")
    if model.class_weight is not None:
        raise ValueError("On a cluster give sample_weight in place of class_weight.")


def _any_held(cluster, source, n_configurations):
    """Whether rows are held out, which a choice among configurations needs."""
    weights = cluster.each("held", _held_weight, parts=source.batches)
    held = sum(cluster.gather(weights, "holding out")) > 0.0
    if not held and n_configurations > 1:
        raise ValueError(
            f"Choosing among {n_configurations} configurations needs held-out rows: give a "
            "positive validation_fraction, larger partitions, or a single potential."
        )
    return held


def _descend(model, cluster):
    """The fit of generalized linear models and Reflectrons: a pass is a round."""
    setup = model._setup(model._law())
    _refuse_local_options(model, setup.settings)
    model.feature_map_ = model._stream = None
    family, link, seed = setup.family, setup.link, seed_of(model.random_state)
    if is_classifier(model):
        family, link = model._law(model.classes_)
    else:
        model._flat = not cluster.facts[0].n_outputs
    worker = copy(model)  # `model` itself learns on the client meanwhile
    terms = vars(model).get("row_terms_", ())
    if "exposure" in terms:
        cluster = cluster.shown(partial(_per_unit, estimator=worker))
    has_offset = "offset" in terms or ("exposure" in terms and family.exposure == "offset")
    learns_law = model._learns_law(family)
    if learns_law and not getattr(model, "_learns_link", bool)():  # parameters may be given
        learns_law = any(value is None for value in vars(family).values())
    if learns_law and (has_offset or model._levels_of_columns() is not None):
        raise ValueError(
            "On a cluster the parameters of a family, and link='learned', are not learned with an "
            "offset or columns of text: name them."
        )
    moments = cluster.total("moments", _moments, worker, merge=joined)
    sample = cluster.drawn(seed + 1) if learns_law else None
    columns = _units(cluster, model, moments, bool(setup.settings.standardize))
    source = _batches_in_units(cluster, worker, columns, family, seed)
    held = _any_held(cluster, source, len(setup.configurations))
    target, start = moments.means.targets, (None, None)
    if sample is None and model.fit_intercept:
        start = None, _start(cluster, family, link, target, has_offset)
    cluster.parts = None  # from here on the rows are in the learner's units
    if sample is not None:
        family, link, start = model._law_of(sample, columns)
    setup = setup._replace(family=family, link=link).in_units(columns)
    learner = setup.learner(2 if held else 1, held)
    most = setup.settings.most_passes
    descent = Descent(columns, len(target), cluster.dtype, most, model._progress)
    result, _ = descent.follow(learner, start, source)
    model._publish(result, cluster.dtype)


class _Descends(Distributed):
    """Fits by passes over all rows."""

    def _clips_outliers(self):
        settings = Settings.of(self)
        return settings.solver != "batch" or bool(settings.standardize)

    def _fit_on(self, cluster):
        _descend(self, cluster)


class _DescendsTables(_Descends):
    """The same on tables with columns of text and categories; also by maximum likelihood."""

    _is_unpenalized: Callable[[], bool]

    def _fit_with_terms(self, X, y, sample_weight, client, timeout, terms):
        """Learn from rows with an exposure or an offset."""
        rows, found = with_terms(X, terms)
        with rollback_on_error(self):
            self._given = GivenTerms.of(terms, found, _known_grades(y))
            try:
                return self._fit_cluster(rows, y, sample_weight, client, timeout, **found)
            finally:
                del self._given

    def _with_terms(self, X, terms):
        """Rows to predict and their terms; those in memory as they are."""
        if not hasattr(X, "dask"):
            return X, terms
        known, labels = vars(self).get("row_columns_"), vars(self).get("classes_")
        return with_terms(X, terms, known, labels)

    def _read_tables(self, cluster, like):
        self.categories_ = self.schema_ = None
        if cluster.is_plain:
            cluster.encoded(_same)
            return
        names, summaries, unit = _columns_of(cluster, like)
        names = [f"x{j}" for j in range(len(summaries))] if names is None else names
        read = ReadSummaries.of(names, summaries, unit, sentinels=False)
        known = coded_as(read)
        warn_of_bad(read.bad, "missing")
        warn_of_notes(read.schema)
        cluster.encoded(ToCodes(known), len(names))
        self.categories_, self.schema_ = known.categories, known.schema

    def _fit_on(self, cluster):
        given = vars(self).get("_given")
        self.row_terms_ = cluster.terms
        self.row_columns_ = {} if given is None else given.columns
        if self._is_unpenalized():
            fit_likelihood(self, cluster)
        else:
            super()._fit_on(cluster)


def _known_grades(y):
    """The grades of an ordered categorical whose levels Dask knows; else None."""
    known = getattr(getattr(y, "cat", None), "known", False)
    return grades_of(y) if known else None


def _ends_of_targets(part):
    """The smallest and the largest target of a partition, shape (2, n_targets)."""
    y = as_columns(part.positive().y)
    if not len(y):
        return np.array([[np.inf], [-np.inf]]) + np.zeros(y.shape[1])
    return np.stack([y.min(axis=0), y.max(axis=0)])


def _wider(a, b, *_):
    return np.stack([np.minimum(a[0], b[0]), np.maximum(a[1], b[1])])


class DaskGLMRegressor(_DescendsTables, GLMRegressor):
    """`tunefree.GLMRegressor` on rows of a Dask cluster.

    Each pass is one round: each worker sums up its partitions, and the client takes the step. With
    the same held-out rows the result is the local one up to the order of the sums. The same share
    of every partition is held out; `n_splits` is only for rows in memory. Columns of text and
    categories are learned as in memory, by the levels of all partitions.

    ``potential="none"`` is the maximum likelihood fit of all rows by Newton's steps, one or two
    rounds each, and equal to that of one machine. ``summary()`` needs no rows then.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dask.dataframe as dd
    >>> from distributed import Client
    >>> from tunefree.dask import DaskGLMRegressor
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"city": rng.choice(["Bern", "Rome"], 400)})
    >>> table["years"] = rng.uniform(0.5, 3.0, 400)
    >>> claims = rng.poisson(np.where(table.city == "Rome", 2.0, 1.0) * table.years)
    >>> rows, y = (dd.from_pandas(v, npartitions=2) for v in (table, pd.Series(claims)))
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     model = DaskGLMRegressor("poisson", random_state=0).fit(rows, y, exposure="years")
    >>> cities = pd.DataFrame({"city": ["Bern", "Rome"]})
    >>> rate = model.to_local().predict(cities, exposure=1.0)
    >>> bool(1.3 * rate[0] < rate[1] < 2.0 * rate[0])
    True
    """

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        exposure: Any = None,
        offset: Any = None,
        client: Any = None,
        timeout: float = 600.0,
    ) -> Self:
        """Learn from rows on a cluster.

        Parameters
        ----------
        X, y, sample_weight, client, timeout
            As for other estimators on a cluster.
        exposure, offset : Dask array or series of shape (n_samples,), float or str, optional
            As for `tunefree.GLMRegressor`. A name is that of a column of X, which the model then
            does not learn, and reads again in rows to predict. A number is that of every row.

        Returns
        -------
        self
        """
        terms = given_terms(exposure, offset)
        return self._fit_with_terms(X, y, sample_weight, client, timeout, terms)

    def _fit_on(self, cluster):
        family, link = self._law()
        if "exposure" in cluster.terms:  # here, and not in every partition, an error is raised
            per_exposure(family, link, np.zeros((1, 1)), np.ones(1), np.ones(1), None)
        family.check(cluster.total("targets", _ends_of_targets, merge=_wider))
        super()._fit_on(cluster)

    def predict(self, X: Any, exposure: Any = None, offset: Any = None) -> Any:
        """Predictions; lazy and of the type of X if X is a Dask collection.

        Parameters
        ----------
        X : Dask array or frame, or rows in memory
        exposure, offset : as in `fit`, optional
        """
        X, terms = self._with_terms(X, given_terms(exposure, offset))
        return self._lazily("predict", X, **terms)

    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        exposure: Any = None,
        offset: Any = None,
    ) -> float:
        """The score of the local estimator; for Dask collections it is computed now."""
        X, terms = self._with_terms(X, given_terms(exposure, offset))
        if not hasattr(X, "dask"):
            return self.to_local().score(X, y, sample_weight, **terms)
        from dask.base import compute

        self._checked_terms(terms.get("exposure"), terms.get("offset"))
        own = given_terms(None, terms.get("offset"))
        means = self._lazily("_mean_of_rows", X, **own)
        found = compute(means, y, sample_weight, terms.get("exposure"))
        return self._score_of(*(None if a is None else np.asarray(a) for a in found))


def _in_order_of_classes(part, places):
    """A partition whose offsets are in the order of the classes."""
    return part._replace(offset=np.ascontiguousarray(part.offset[:, places]))


class DaskGLMClassifier(_DescendsTables, DistributedClassifier, GLMClassifier):
    """`tunefree.GLMClassifier` on rows of a Dask cluster; see `DaskGLMRegressor`.

    Several classes may have an offset each: ``offset=`` is then an array or frame with a column for
    each class, or names of columns of X, as in memory.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dask.dataframe as dd
    >>> from distributed import Client
    >>> from tunefree.dask import DaskGLMClassifier
    >>> rng = np.random.default_rng(0)
    >>> costs = {"bus": "cost_bus", "car": "cost_car", "train": "cost_train"}
    >>> table = pd.DataFrame(rng.normal(size=(300, 4)), columns=["age", *costs.values()])
    >>> index = table[list(costs.values())] + rng.gumbel(size=(300, 3))
    >>> way = pd.Series(np.array(list(costs))[index.to_numpy().argmax(axis=1)])
    >>> rows, y = (dd.from_pandas(v, npartitions=2) for v in (table, way))
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     model = DaskGLMClassifier(potential="none").fit(rows, y, offset=costs)
    >>> model.coef_.shape, bool(model.to_local().score(table, way) > 0.5)
    ((3, 1), True)
    """

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        offset: Any = None,
        client: Any = None,
        timeout: float = 600.0,
    ) -> Self:
        """Learn from rows on a cluster.

        Parameters
        ----------
        X, y, sample_weight, client, timeout
            As for other estimators on a cluster.
        offset : Dask array, series or frame, or names of columns of X, optional
            As for `tunefree.GLMClassifier`: of shape (n_samples,) for two or ordered classes, of
            shape (n_samples, n_classes) for several. The model does not learn columns that are
            named, and reads them again in rows to predict. A number is that of every row.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For an offset of another shape, with names that are no columns or no classes, or with
            NaN; the message names the partition.
        """
        terms = given_terms(None, offset)
        return self._fit_with_terms(X, y, sample_weight, client, timeout, terms)

    def _fit_on(self, cluster):
        given = vars(self).get("_given")
        self.classes_ = self._in_order(self.classes_, None if given is None else given.grades)
        super()._fit_on(cluster if given is None else self._with_offsets(cluster, given))

    def _with_offsets(self, cluster, given):
        """The rows of a cluster whose offsets are in the order of the classes."""
        n, n_classes = cluster.facts[0].n_offsets, len(self.classes_)
        if "offset" not in cluster.terms:
            return cluster
        if n_classes == 2 or isinstance(self._law(self.classes_)[0], Ordinal):
            if n:
                raise ValueError(f"offset has {n} columns: give one number a row.")
            return cluster
        places = given.places(n, self.classes_)
        if places == list(range(n)):
            return cluster
        return cluster.shown(partial(_in_order_of_classes, places=places))

    def predict(self, X: Any, offset: Any = None) -> Any:
        """Predictions; lazy and of the type of X if X is a Dask collection.

        Parameters
        ----------
        X : Dask array or frame, or rows in memory
        offset : as in `fit`, optional
            Needed here if it was given there.
        """
        return self._lazily_with("predict", X, offset)

    def predict_proba(self, X: Any, offset: Any = None) -> Any:
        """Probabilities; lazy and of the type of X if X is a Dask collection.

        Parameters
        ----------
        X, offset
            As in `predict`.
        """
        return self._lazily_with("predict_proba", X, offset)

    def predict_log_proba(self, X: Any, offset: Any = None) -> Any:
        """Logarithms of `predict_proba`."""
        return self._lazily_with("predict_log_proba", X, offset)

    def decision_function(self, X: Any, offset: Any = None) -> Any:
        """Scores; lazy and of the type of X if X is a Dask collection.

        Parameters
        ----------
        X, offset
            As in `predict`.
        """
        return self._lazily_with("decision_function", X, offset)

    def _lazily_with(self, method, X, offset):
        X, terms = self._with_terms(X, given_terms(None, offset))
        return self._lazily(method, X, **terms)

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """The share of rows whose class is predicted; for Dask collections it is computed now."""
        if not hasattr(X, "dask"):
            return self.to_local().score(X, y, sample_weight, **given_terms(None, offset))
        from dask.base import compute

        predicted, y, weights = compute(self.predict(X, offset), y, sample_weight)
        return float(accuracy_score(y, predicted, sample_weight=weights))


class DaskReflectronRegressor(_PreparesTables, _Descends, reflectron.ReflectronRegressor):
    """`tunefree.ReflectronRegressor` on rows of a Dask cluster; see `DaskGLMRegressor`."""


class DaskReflectronClassifier(
    _PreparesTables, _Descends, DistributedClassifier, classifier.ReflectronClassifier
):
    """`tunefree.ReflectronClassifier` on rows of a Dask cluster; see `DaskGLMRegressor`."""


def _signed(part, classes, k):
    separator.check_range(part.X)
    return [blocks.signed(part.X, part.y, part.weights, positive=classes[k])]


class DaskOptimisticPerceptron(_PreparesTables, perceptron.OptimisticPerceptron):
    """`tunefree.OptimisticPerceptron` on rows of a Dask cluster.

    The method of the paper, whose state has O(n_features) numbers: each pass is one round. There
    are no `support_weights_`, which would need a number for each row.
    """

    def _fit_on(self, cluster):
        self._check_parameters()
        if not self._streams:
            raise ValueError("On a cluster method='optimistic' and potential='entropy' are needed.")

        def source_of(k):
            return RemoteBatches(cluster, _signed, self.classes_, k)

        self._fit_streams(source_of, max(f.largest for f in cluster.facts))

    def decision_function(self, X: Any) -> Any:
        """Scores; lazy and of the type of X if X is a Dask collection."""
        return self._lazily("decision_function", X)


def _rows(part):
    """Rows of positive weight, their targets as columns, and the weights."""
    part = part.positive()
    return part.X, as_columns(part.y), part.weights


def _ranges(part):
    return Ranges.of(*_rows(part))


class DistinctRows(NamedTuple):
    """The distinct rows of a partition with their total weights, by index, without a copy."""

    X: Any
    targets: np.ndarray
    rows: np.ndarray
    weights: np.ndarray

    def blocks(self, view):
        """Rows in the coordinates of a view and their targets, times the roots of the weights."""
        for start in range(0, len(self.rows), _BLOCK):
            block = slice(start, start + _BLOCK)
            rows, weights = self.rows[block], self.weights[block]
            X, root = self.X[rows], np.sqrt(weights)[:, None]
            Z = view.show(as_dense(X))
            Z *= root
            yield Z, root * (self.targets[rows] - view.target), weights


def _distinct(part, seed):
    X, targets, weights = _rows(part)
    rows, totals = hashed_visits(X, targets, weights, seed).unique()
    return DistinctRows(X, targets, rows, totals * (weights.sum() / totals.sum()))


def _products(distinct, view):
    """Z'WZ and Z'Wy."""
    gram = products = 0.0
    for Z, y, _ in distinct.blocks(view):
        gram, products = gram + Z.T @ Z, products + Z.T @ y
    return gram, products


def _held_out(distinct, view, spectrum, alphas, per_weight):
    """Held-out squared errors for every penalty."""
    return (
        sum(
            spectrum.held_out(Z @ spectrum.right, y, weights * per_weight, alphas)
            for Z, y, weights in distinct.blocks(view)
        ),
    )


class PartitionRun(NamedTuple):
    """SGD on a partition; its state stays on the worker."""

    problem: LeastSquares
    state: tuple
    n_folds: int
    n_passes: int
    weight: float

    def schemes(self, alphas, others, total):
        """The averaging schemes, with the penalties scaled to this partition."""
        return self.problem.schemes(alphas * (self.weight / total), others)


def _scaling_risks(part, seed, intercept):
    risks = UniqueRows.of(*_rows(part), seed).scaling_risks(intercept)
    return tuple(part.weights.sum() * np.asarray(risks))


def _run_sgd(part, view, seed, intercept, scaling, max_iter, choose):
    X, targets, weights = _rows(part)
    rows = UniqueRows.of(X, targets, weights, seed)
    problem = rows.pose(intercept=intercept, scaling=scaling, view=view)
    n_passes = least_squares.passes(max_iter, int(problem.visits.repeats.sum()))
    n_folds = least_squares.folds(problem)[1] if choose and len(problem.totals) > 1 else 0
    state = least_squares.descend(problem, n_passes, n_folds)
    return PartitionRun(problem, state, n_folds, n_passes, float(weights.sum()))


def _size(run):
    """Squared norms, step and passes, for sums over partitions."""
    return run.problem.sized(), run.weight * run.problem.step(), run.weight * run.n_passes


def _risks(run, *schemes):
    """Held-out errors of every scheme times the weight of the partition, and the weight."""
    if not run.n_folds:
        return 0.0, 0.0
    risks, _ = least_squares.held_out_risks(run.problem, run.state, run.schemes(*schemes))
    return run.weight * risks, run.weight


def _average(run, k, *schemes):
    """The path, or its scheme k, in the units of X, times the weight of the partition."""
    chosen = run.schemes(*schemes)
    model = least_squares.read(run.problem, run.state, chosen if k is None else [chosen[k]])
    return tuple(run.weight * a for a in model.fold(run.problem.columns))


class DaskRidgePathRegressor(_PreparesTables, ridge.RidgePathRegressor):
    """`tunefree.RidgePathRegressor` on rows of a Dask cluster.

    With at most 1000 columns, however many rows, ridge regression is solved exactly: products of
    columns are summed over the partitions, a further round sums the leave-one-out errors, and the
    result is that of the local ``solver="exact"`` up to the order of the sums. (Equal rows of one
    partition are held out together, those of two partitions are not.)

    Otherwise each partition has a separate run, with common units of the columns and its share of
    every penalty. Errors on held-out rows and paths are averaged by the weights of the partitions.
    This takes two or three rounds, and is not the predictor of one long run.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from tunefree.dask import DaskRidgePathRegressor
    >>> X = da.random.default_rng(0).normal(size=(400, 3), chunks=(100, 3))
    >>> y = X[:, 0] - 2.0 * X[:, 1] + 5.0
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     model = DaskRidgePathRegressor().fit(X, y)
    >>> model.coef_.round(2) + 0.0, round(float(model.intercept_), 2), model.solver_
    (array([ 1., -2.,  0.]), 5.0, 'exact')
    """

    _EVEN = False  # cut partitions would have shorter runs of SGD

    def _clips_outliers(self):
        return self.solver not in ("exact", "sgd")

    def _fit_on(self, cluster):
        self._check()
        self._stream = self._path = self.prediction_limits_ = None
        self._dtype, self._flat = cluster.dtype, not cluster.facts[0].n_outputs
        d = cluster.n_columns
        # The products of columns are decomposed, whatever the number of rows.
        grid, _ = self._grid()
        self.solver_, self.hint_ = ridge.chosen_solver(self.solver, grid, (d, d))
        ranges = cluster.total("extent", _ranges, merge=joined)
        total, mean, target = ranges.means
        if not self.fit_intercept:
            mean, target = np.zeros_like(mean), np.zeros_like(target)
        view = spanned(mean, target, ranges.low, ranges.high)
        if self.solver_ == "exact":
            self._fit_exactly(cluster.even(), view, total)
        else:
            self._fit_by_runs(cluster, view, total)

    def _fit_exactly(self, cluster, view, total):
        view = view if self.standardize else view.unscaled()
        distinct = cluster.each("rows", _distinct, seed_of(self.random_state))
        gram, products = cluster.total("products", _products, view, merge=added, parts=distinct)
        self.alphas_ = penalties(self.alphas, float(np.trace(gram)))
        spectrum = Spectrum.of(gram, products)
        per_weight = bool(self.fit_intercept) / total
        asked = view, spectrum, self.alphas_, per_weight
        (sums,) = cluster.total("held-out errors", _held_out, *asked, merge=added, parts=distinct)
        model = SGDRun(spectrum.path(self.alphas_), np.eye(len(self.alphas_)))
        risks = sums / total
        k = ridge.best_scheme(self.alphas_, risks)
        self._choose(view, model, [None] * len(self.alphas_), risks, k, 1)

    def _fit_by_runs(self, cluster, view, total):
        seed = seed_of(self.random_state)
        scaling = self._scaling(cluster, seed)
        grid, others = self._grid()
        choose = grid and (others or self.alphas is None or np.size(self.alphas) > 1)
        runs = cluster.each(
            "run", _run_sgd, view, seed, self.fit_intercept, scaling, self.max_iter, bool(choose)
        )
        size, step, n_passes = cluster.total("size", _size, merge=added, parts=runs)
        self.alphas_ = penalties(self.alphas, size)
        sent, risks = (self.alphas_, others, total), None
        if choose:
            sums, weight = cluster.total("risks", _risks, *sent, merge=added, parts=runs)
            risks = sums / weight if weight else None
        k = ridge.best_scheme(self.alphas_, risks) if grid else len(self.alphas_)
        whole_path = len(self.alphas_) * cluster.n_columns * cluster.n_outputs <= ridge.MOST_KEPT
        path = cluster.total(
            "average", _average, None if whole_path else k, *sent, merge=added, parts=runs
        )
        model = Folded(*(a / total for a in path))
        # Each partition has its own step; the mean step describes the averages.
        rates = step / total * self.alphas_ / total
        schemes = [*(Geometric(float(rate)) for rate in rates), *others]
        self._choose(view, model, schemes, risks, k, round(n_passes / total))

    def _scaling(self, cluster, seed):
        """Whether columns are scaled: sparse ones only if that predicts better."""
        if self.standardize != "auto":
            return self.standardize
        if not any(f.sparse for f in cluster.facts):
            return True
        scaled, raw = cluster.total(
            "scaling", _scaling_risks, seed, self.fit_intercept, merge=added
        )
        return scaled < raw


class _Sampled(Distributed):
    """Learns from a sample on the client, and from sums over all rows."""

    def _fit_on(self, cluster):
        local: Any = self._local()
        known = vars(self).pop("_known_table", None)
        if known is not None:
            local._known_table = known
        local._fit_rows(cluster)
        if known is not None:
            del local._known_table
            local.table_ = known.plain()
        vars(self).update(vars(local))


class _SampledTables(_Sampled):
    """The same on tables of text, dates, categories and missing values."""

    get_params: Callable[..., dict]

    def _read_tables(self, cluster, like):
        vars(self).pop("_known_table", None)
        own = self.get_params(deep=False)
        known = inspect.signature(TablePreprocessor).parameters
        table = TablePreprocessor(**{name: own[name] for name in own if name in known})
        declared = own["categorical_features"]
        is_default = declared is None or isinstance(declared, str) or not np.size(declared)
        if cluster.is_plain and is_default and not own["schema"]:
            cluster.encoded(_same)
            return
        if own.get("cross_fit") is not None:
            raise ValueError("On a cluster cross_fit= needs numbers without missing values.")
        warn_of_all = _encode_by(table, cluster, like)
        self._known_table = KnownTable.of(table, warn_of_all)


class DaskKernelRidgeRegressor(_PreparesTables, _Sampled, kernel_ridge.KernelRidgeRegressor):
    """`tunefree.KernelRidgeRegressor` on rows of a Dask cluster.

    Two rounds. The first draws 8,000 distinct rows evenly, by their hash; the client chooses view,
    geometry, penalty and landmarks from them, and fits them if there are no more rows. The second
    sums products of the features of all rows, and the client solves for the coefficients. The
    result is that of the two passes of `fit_source` in one process, up to the order of sums.
    """


class DaskKernelRidgeClassifier(
    _PreparesTables, _Sampled, DistributedClassifier, kernel_ridge.KernelRidgeClassifier
):
    """`tunefree.KernelRidgeClassifier` on a Dask cluster; see `DaskKernelRidgeRegressor`."""


class DaskBoostedTreesRegressor(_SampledTables, BoostedTreesRegressor):
    """`tunefree.BoostedTreesRegressor` on rows of a Dask cluster.

    The client learns at most 100,000 distinct rows, drawn evenly by their hash. `fit_source` of one
    process gives the same bits. Tables are read as by `DaskTuneFreeRegressor`.
    """


class DaskBoostedTreesClassifier(_SampledTables, DistributedClassifier, BoostedTreesClassifier):
    """`tunefree.BoostedTreesClassifier` on a Dask cluster; see `DaskBoostedTreesRegressor`."""


class DaskTuneFreeRegressor(_SampledTables, TuneFreeRegressor):
    """`tunefree.TuneFreeRegressor` on rows of a Dask cluster.

    Columns of text, dates, categories and missing values are read by one schema of all partitions,
    learned in a first pass. Of each column at most 100,000 distinct values are kept.

    The client compares the candidates on 8,000 distinct rows, drawn evenly by their hash. The
    weights of the stack, its calibration and its held-out predictions are from these rows. Then the
    models learn all rows: kernels on landmarks and ridge regression from sums, GLMs in rounds, and
    PiSTOL partition by partition, in order. Kernel PiSTOL keeps its fit to the sample, as noted in
    `report_`.
    """


class DaskTuneFreeClassifier(_SampledTables, DistributedClassifier, TuneFreeClassifier):
    """`tunefree.TuneFreeClassifier` on rows of a Dask cluster; see `DaskTuneFreeRegressor`."""


# The estimator on a cluster of each local one.
ON_CLUSTER: dict[type, Any] = {
    GLMClassifier: DaskGLMClassifier,
    GLMRegressor: DaskGLMRegressor,
    classifier.ReflectronClassifier: DaskReflectronClassifier,
    reflectron.ReflectronRegressor: DaskReflectronRegressor,
    perceptron.OptimisticPerceptron: DaskOptimisticPerceptron,
    ridge.RidgePathRegressor: DaskRidgePathRegressor,
    kernel_ridge.KernelRidgeClassifier: DaskKernelRidgeClassifier,
    kernel_ridge.KernelRidgeRegressor: DaskKernelRidgeRegressor,
    BoostedTreesClassifier: DaskBoostedTreesClassifier,
    BoostedTreesRegressor: DaskBoostedTreesRegressor,
    TuneFreeClassifier: DaskTuneFreeClassifier,
    TuneFreeRegressor: DaskTuneFreeRegressor,
}
