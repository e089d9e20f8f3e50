"""Estimators on a Dask cluster: ``pip install 'tunefree[dask]'``.

`DaskGLMRegressor` is `tunefree.GLMRegressor` with the same parameters, and so on. Rows come as Dask
arrays or frames, also of unknown chunk sizes; fitted attributes are local NumPy arrays; predictions
are lazy and of the same kind as the rows; ``to_local()`` gives the estimator without Dask.

- *Batch learners* (`DaskGLM*`, `DaskReflectron*`, `DaskOptimisticPerceptron`, and
  `DaskRidgePathRegressor` with its exact solver) pass over the partitions in rounds: each worker
  sums up its partitions, and the client merges the sums and takes the step. The result is that of
  the local fit, up to the order of the sums.
- *Averages* (other cases of `DaskRidgePathRegressor`): each partition is learned independently, and
  the predictors are averaged by the weights of the partitions. The documentation has the measured
  difference from one long run.
- *Learners of a sample* (`DaskKernelRidge*`, `DaskBoostedTrees*`, `DaskTuneFree*`) choose their
  settings on rows that are drawn evenly; kernels and linear models of them then learn all rows.

A task takes partitions of one worker, and can be repeated: a worker that dies during a fit changes
nothing. A round that hangs ends after `timeout` seconds, with an error that names its partitions.

Examples
--------
>>> import dask.array as da
>>> from distributed import Client
>>> from tunefree.dask import DaskGLMClassifier, DaskOptimisticPerceptron
>>> X = da.random.default_rng(0).normal(size=(400, 3), chunks=(100, 3))
>>> with Client(processes=False, dashboard_address=":0") as client:
...     margin = DaskOptimisticPerceptron().fit(X, X[:, 0] > 0)
...     model = DaskGLMClassifier(random_state=0).fit(X, X[:, 0] > 0)
...     accuracy = model.score(X, X[:, 0] > 0)
>>> margin.separated_, accuracy > 0.97
(True, True)
"""

try:
    from tunefree.dask.estimators import (
        DaskBoostedTreesClassifier,
        DaskBoostedTreesRegressor,
        DaskGLMClassifier,
        DaskGLMRegressor,
        DaskKernelRidgeClassifier,
        DaskKernelRidgeRegressor,
        DaskOptimisticPerceptron,
        DaskReflectronClassifier,
        DaskReflectronRegressor,
        DaskRidgePathRegressor,
        DaskTuneFreeClassifier,
        DaskTuneFreeRegressor,
    )
except ModuleNotFoundError as error:
    if (error.name or "").split(".")[0] not in ("dask", "distributed"):
        raise
    raise ImportError("tunefree.dask needs Dask: pip install 'tunefree[dask]'.") from error

__all__ = [
    "DaskBoostedTreesClassifier",
    "DaskBoostedTreesRegressor",
    "DaskGLMClassifier",
    "DaskGLMRegressor",
    "DaskKernelRidgeClassifier",
    "DaskKernelRidgeRegressor",
    "DaskOptimisticPerceptron",
    "DaskReflectronClassifier",
    "DaskReflectronRegressor",
    "DaskRidgePathRegressor",
    "DaskTuneFreeClassifier",
    "DaskTuneFreeRegressor",
]
