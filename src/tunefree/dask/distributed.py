"""What the estimators on a cluster share: fitting on partitions, lazy predictions, `to_local`."""

import numpy as np
from sklearn.base import is_classifier

from tunefree.dask.cluster import Cluster


class Distributed:
    """Puts a local estimator's rows on a cluster; mixed in before it.

    Parameters and fitted attributes are those of the local estimator, the attributes NumPy arrays
    on the client.
    """

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

    def to_local(self):
        """The same fitted model as an estimator of `tunefree`, without Dask.

        Returns
        -------
        estimator
        """
        local = self._local_type()(**self.get_params(deep=False))
        vars(local).update(vars(self))
        return local

    @classmethod
    def _local_type(cls):
        return next(c for c in cls.__mro__ if c.__module__.startswith("tunefree.estimators"))

    def _lazily(self, method, X):
        """Call a method of the local estimator on arrays, or on every partition when asked for."""
        local = self.to_local()
        call = getattr(local, method)
        if not hasattr(X, "dask"):
            return call(X)
        names = list(X.columns) if hasattr(X, "columns") else None
        probe = np.zeros((1, self.n_features_in_), dtype=np.float64)
        if names is not None:
            import pandas as pd

            probe = pd.DataFrame(probe, columns=names)
        sample = call(probe)
        if names is not None:
            meta = _framed(sample, probe.index).iloc[:0]
            return X.map_partitions(_call_framed, local, method, meta=meta)
        if X.numblocks[1] > 1:
            X = X.rechunk({1: -1})
        if sample.ndim == 1:
            return X.map_blocks(_call, local, method, dtype=sample.dtype, drop_axis=1)
        chunks = (X.chunks[0], (sample.shape[1],))
        return X.map_blocks(_call, local, method, dtype=sample.dtype, chunks=chunks)

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
    return getattr(local, method)(block)


def _call_framed(block, local, method):
    return _framed(getattr(local, method)(block), block.index)


def _framed(values, index):
    import pandas as pd

    if values.ndim == 1:
        return pd.Series(values, index=index, name="prediction")
    return pd.DataFrame(values, index=index, columns=[str(i) for i in range(values.shape[1])])
