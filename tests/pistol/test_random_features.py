"""Random features and landmarks in front of linear PiSTOL: the route beyond a million rows."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.pipeline import make_pipeline

from tunefree import KernelPiSTOLClassifier, PiSTOLClassifier, PiSTOLRegressor
from tunefree.kernels.kernels import RBF

EXAMPLE = Path(__file__).parents[2] / "examples" / "scale_million_rows.py"


def rings(n, seed):
    """Two rings: their classes have the same mean, so that no line separates them."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    angle, radius = rng.uniform(0, 2 * np.pi, n), 1.0 + y + 0.1 * rng.normal(size=n)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1), y


@pytest.mark.parametrize("features", [Nystroem, RBFSampler])
def test_a_pipeline_learns_what_a_line_cannot(features):
    X, y = rings(600, 0)
    X_test, y_test = rings(600, 1)
    linear = PiSTOLClassifier(random_state=0).fit(X, y)
    assert linear.score(X_test, y_test) < 0.75
    transformer = features(gamma=1.0, n_components=100, random_state=0)
    model = make_pipeline(transformer, PiSTOLClassifier("global", random_state=0)).fit(X, y)
    assert model.score(X_test, y_test) > 0.99


def test_landmarks_before_a_line_learn_a_wave():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (800, 2))
    y = np.sin(X[:, 0]) * np.cos(X[:, 1])
    model = make_pipeline(
        Nystroem(gamma=0.5, n_components=100, random_state=0), PiSTOLRegressor(random_state=0)
    )
    assert model.fit(X[:600], y[:600]).score(X[600:], y[600:]) > 0.95


def test_all_rows_as_landmarks_are_the_kernel():
    """Inner products of Nystroem's features are the kernel then: nothing is approximated."""
    X, _ = rings(80, 0)
    Z = Nystroem(gamma=2.0, n_components=80, random_state=0).fit_transform(X)
    np.testing.assert_allclose(Z @ Z.T, RBF(2.0).gram(X, X), atol=1e-6)


def test_the_example_learns_from_a_stream():
    """Chunks through `partial_fit`: error of a constant predictor 50 %, of a linear one 40 %."""
    example = runpy.run_path(str(EXAMPLE))
    lines = []
    features, model = example["learn"](60_000, 100, lines.append)
    assert [line.split()[0] for line in lines] == ["20,000", "40,000", "60,000"]
    X, y = next(example["chunks"](5_000, seed=2))
    assert model.score(features.transform(X), y) > 0.8


def test_wide_sparse_rows_are_not_counted_as_dense():
    """10 GB if they were filled; the linear kernel looks at what is stored."""
    rng = np.random.default_rng(0)
    n, y = 300, rng.integers(0, 2, 300)
    columns = np.stack([rng.integers(1, 4 * 10**6, n), np.zeros(n, int)], axis=1)
    values = np.stack([np.ones(n), 2.0 * y - 1.0], axis=1)
    X = sparse.csr_array((values.ravel(), columns.ravel(), np.arange(0, 2 * n + 1, 2)),
                         shape=(n, 4 * 10**6))  # fmt: skip
    model = KernelPiSTOLClassifier(kernel="linear", average="uniform", random_state=0).fit(X, y)
    assert model.expansion_.support.shape[1] == 4 * 10**6
