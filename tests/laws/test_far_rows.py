"""Rows at the ends: far from all that were learned, and rows that are all equal."""

import inspect

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import is_classifier
from test_same_table import made

from tunefree.core.registry import ESTIMATORS, estimator_class

RNG = np.random.default_rng(7)
X = RNG.normal(size=(80, 2)).round(3)
TARGETS = X[:, 0] + 0.1 * RNG.normal(size=80)
DIRECTIONS = np.array([[1.0, 1.0], [-1.0, 2.0], [0.0, -1.0]])
REACHES = 1e15, 1e18, 1e30, 1e39, 1e150, 1e200, 1e300
OF_KERNELS = [name for name in sorted(ESTIMATORS) if name.startswith("Kernel")]
WITH_INTERVALS = [
    name
    for name in sorted(ESTIMATORS)
    if hasattr(estimator_class(name), "predict_interval") and not name.startswith("Stream")
]


def numbers(model, rows):
    """What a model makes of rows, in numbers."""
    found = [model.decision_function(rows) if is_classifier(model) else model.predict(rows)]
    if callable(getattr(model, "predict_proba", None)) and "Perceptron" not in str(model):
        found.append(model.predict_proba(rows))
    return np.concatenate([np.ravel(one) for one in found])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "linear", "polynomial", "cosine"])
@pytest.mark.parametrize("name", OF_KERNELS)
def test_far_rows_have_numbers_or_are_named(name, kernel):
    """In single precision, too, where their entries overflow; a kernel that overflows is named."""
    if kernel in ("polynomial", "cosine") and name.startswith("KernelRidge"):
        pytest.skip("no kernel of kernel ridge")
    y = TARGETS > 0.0 if is_classifier(estimator_class(name)()) else TARGETS
    model = made(name).set_params(kernel=kernel).fit(X, y)
    near = numbers(model, X)
    for reach in REACHES:
        rows = reach * DIRECTIONS
        for make in (np.asarray, sparse.csr_array) if "PiSTOL" in name else (np.asarray,):
            try:
                found = numbers(model, make(rows))
            except ValueError as problem:
                assert "Row 0 of X is beyond the range of the kernel: Column" in str(problem)
                assert kernel == "polynomial" and reach >= 1e100
                continue
            assert np.isfinite(found).all(), reach
        if kernel != "polynomial":  # rows beside a far one keep their bits
            beside = numbers(model, np.concatenate([X, rows]))
            if not is_classifier(model):
                np.testing.assert_array_equal(beside[: len(X)], near)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("n", [1, 3, 40])
@pytest.mark.parametrize("name", WITH_INTERVALS)
def test_rows_that_are_all_equal_have_intervals_without_nan(name, n):
    rows, y = np.zeros((n, 2)), np.full(n, 3.0)
    known = inspect.signature(estimator_class(name)).parameters
    losses = ("squared_error", "absolute_error") if "loss" in known else (None,)
    for loss in losses:
        model = made(name) if loss is None else made(name).set_params(loss=loss)
        model.fit(rows, y)
        np.testing.assert_allclose(model.predict(rows), 3.0)
        try:
            _, intervals = model.predict_interval(rows)
        except ValueError as problem:
            assert "has no held-out predictions" in str(problem)
            continue
        assert not np.isnan(intervals).any()
        assert (intervals[:, 0] <= 3.0).all() and (intervals[:, 1] >= 3.0).all()
