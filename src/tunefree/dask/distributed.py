"""What the estimators on a cluster share: fitting on partitions, lazy predictions, `to_local`."""

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from tunefree._parameters import check_values
from tunefree._threads import one_blas_thread
from tunefree.dask.cluster import Cluster


class Distributed:
    """Puts a local estimator's rows on a cluster; mixed in before it.

    Parameters and fitted attributes are those of the local estimator, the attributes NumPy arrays
    on the client; what only a run over all rows has, such as PiSTOL's `trace_`, is left out.
    """

    @property
    def set_callbacks(self):
        """Not there: what scikit-learn's callbacks are told of is a fit in this process."""
        raise AttributeError("Estimators on a cluster have no callbacks.")

    @one_blas_thread()
    def fit(self, X, y, sample_weight=None, *, client=None, timeout=600.0):
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
        check_values(self)
        cluster = Cluster(
            X, y, sample_weight, classify=is_classifier(self), client=client, timeout=timeout
        )
        for name in [n for n in vars(self) if n.endswith("_") and not n.startswith("_")]:
            delattr(self, name)
        self.n_features_in_ = cluster.n_columns
        names = getattr(X, "columns", None)
        if names is not None and all(isinstance(n, str) for n in names):
            self.feature_names_in_ = np.asarray(names, dtype=object)
        if is_classifier(self):
            self.classes_ = cluster.classes()
            if len(self.classes_) < 2:
                raise ValueError(
                    f"y has only one class ({self.classes_[0]}): a classifier needs at least two."
                )
        self._fit_on(cluster)
        return self

    def _none(self):
        raise AttributeError("Rows on a cluster are learned by fit.")

    partial_fit = property(_none, doc="Rows on a cluster are learned by `fit`.")
    fit_source = property(_none, doc="Rows on a cluster are learned by `fit`.")

    def to_local(self):
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

    def predict(self, X):
        """Predictions, lazy and of the kind of X if X is a Dask collection."""
        return self._lazily("predict", X)

    def score(self, X, y, sample_weight=None):
        """The local estimator's score; of Dask collections one number, computed now."""
        if hasattr(X, "dask"):
            import dask

            rows = [X, y] if sample_weight is None else [X, y, sample_weight]
            predicted, y, *weights = dask.compute(self.predict(rows[0]), *rows[1:])
            from sklearn.metrics import accuracy_score, r2_score

            measure = accuracy_score if is_classifier(self) else r2_score
            return float(measure(y, predicted, sample_weight=weights[0] if weights else None))
        return self.to_local().score(X, y, sample_weight)


class DistributedClassifier(Distributed):
    """The methods that classifiers have, too."""

    def predict_proba(self, X):
        """Probabilities, lazy and of the kind of X if X is a Dask collection."""
        return self._lazily("predict_proba", X)

    def predict_log_proba(self, X):
        """Logarithms of `predict_proba`."""
        return self._lazily("predict_log_proba", X)

    def decision_function(self, X):
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
