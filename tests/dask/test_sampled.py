"""Kernels on landmarks and `TuneFree*` on a cluster: what a source teaches, up to rounding."""

import numpy as np
import pytest
from sklearn.base import clone

from tunefree.core.registry import estimator_class
from tunefree.kernel_ridge import solvers as ridge
from tunefree.trees import estimator as trees

pytest.importorskip("distributed")

import dask.array as da  # noqa: E402

from tunefree import dask as tfd  # noqa: E402
from tunefree.dask.estimators import ClusterRows  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")

RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, (900, 2))
Y = np.sin(2.0 * X[:, 0]) * X[:, 1] + 0.1 * RNG.normal(size=900)
LABELS = np.where(Y > 0.3, "b", np.where(Y < -0.5, "a", "c"))


@pytest.mark.parametrize(
    "name, y, options",
    [
        ("KernelRidgeRegressor", Y, {}),
        ("KernelRidgeClassifier", LABELS, {"kernel": "laplacian"}),
        ("TuneFreeRegressor", Y, {"candidates": ("kernel",)}),
        ("TuneFreeClassifier", LABELS, {"candidates": ("linear",)}),
    ],
)
def test_sums_over_partitions_are_those_over_a_source(client, monkeypatch, name, y, options):
    monkeypatch.setattr(ridge, "EXACT_ROWS", 300)
    rows = da.from_array(X, chunks=(300, 2)), da.from_array(y, chunks=300)
    local = estimator_class(name)(random_state=0, **options).fit_source((X, y))
    there = getattr(tfd, f"Dask{name}")(random_state=0, **options).fit(*rows)
    told = "decision_function" if y is LABELS else "predict"
    expected = getattr(local, told)(X)
    lazy = getattr(there, told)(rows[0]) if told == "predict" else there._lazily(told, rows[0])
    np.testing.assert_allclose(lazy.compute(), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(getattr(there.to_local(), told)(X), expected, rtol=1e-6, atol=1e-6)
    assert there.score(*rows) == pytest.approx(local.score(X, y))


@pytest.mark.parametrize("name, y", [("Regressor", Y), ("Classifier", LABELS)])
def test_trees_learn_an_even_sample(client, monkeypatch, name, y):
    monkeypatch.setattr(trees, "_MOST_SAMPLED", 300)
    rows = da.from_array(X, chunks=(300, 2)), da.from_array(y, chunks=300)
    local = estimator_class(f"BoostedTrees{name}")(random_state=0).fit_source((X, y))
    there = getattr(tfd, f"DaskBoostedTrees{name}")(random_state=0).fit(*rows)
    assert (there.to_local().predict(X) == local.predict(X)).all()
    assert (there.predict(rows[0]).compute() == local.predict(X)).all()
    assert there.score(*rows) > 0.85


@pytest.mark.parametrize("kind, y", [("Regressor", Y), ("Classifier", LABELS)])
def test_pistol_in_a_stack_goes_from_partition_to_partition(client, kind, y):
    """The bits are those of a file."""
    rows = da.from_array(X, chunks=(400, 2)), da.from_array(y, chunks=400)
    cluster = ClusterRows(*rows, classify=kind == "Classifier")
    model = estimator_class(f"PiSTOL{kind}")(random_state=0)
    found, local = cluster.fitted(clone(model)), model.fit_source((X, y))
    assert (found.coef_ == local.coef_).all() and (found.predict(X) == local.predict(X)).all()
    assert cluster.fitted(estimator_class(f"KernelPiSTOL{kind}")()) is None


def test_the_score_is_that_of_the_loss(client):
    counts = np.round(np.exp(Y))
    rows = da.from_array(X, chunks=(300, 2)), da.from_array(counts, chunks=300)
    there = tfd.DaskBoostedTreesRegressor(loss="poisson", random_state=0).fit(*rows)
    assert there.score(*rows) == pytest.approx(there.to_local().score(X, counts))
