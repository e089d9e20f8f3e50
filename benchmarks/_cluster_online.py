"""Averages of runs on partitions, and one run over all rows: the cluster part of `scale.py`."""

import numpy as np

from _cluster import local
from _tables import table


def online(data, partitions=(4, 16, 64)):
    """Averages of independent runs of SGD, and the sequential run, on public data sets."""
    import tunefree
    from _data import load
    from tunefree.dask import DaskRidgePathRegressor

    print("\nAverages of independent runs, one for each partition, beside one run over all rows:\n"
          "100 (1 - R2) of test rows")  # fmt: skip
    rows, setting = [], {"solver": "sgd", "random_state": 0}
    with local(2):
        for name in ("california", "protein"):
            d = load(name, data)
            order = np.random.default_rng(0).permutation(len(d.y_train))
            X, y = d.X_train[order], np.asarray(d.y_train)[order]
            alone = tunefree.RidgePathRegressor(**setting).fit(X, y)
            found = [alone.score(d.X_test, d.y_test)]
            for p in partitions:
                model = DaskRidgePathRegressor(**setting).fit(*cut(X, y, p))
                found.append(model.to_local().score(d.X_test, d.y_test))
            losses = [f"{100 * (1 - f):.2f}" for f in found]
            rows.append((name, f"{X.shape[0]} x {X.shape[1]}", *losses))
    heads = ("data", "rows", "one run", *(f"{p} partitions" for p in partitions))
    table("Merged averages", heads, rows)


def cut(X, y, partitions):
    """Rows in memory as Dask arrays of so many chunks, sparse ones too."""
    import dask.array as da

    from dask import delayed

    pieces = np.array_split(np.arange(len(y)), partitions)
    chunks = [
        da.from_delayed(delayed(X[p]), (len(p), X.shape[1]), X.dtype, meta=X[:0]) for p in pieces
    ]
    return da.concatenate(chunks), da.from_array(y, chunks=(tuple(map(len, pieces)),))
