"""What an exact kernel says of itself: rows and groups left out, and what each column moves."""

import numpy as np
import pytest

from tunefree.kernels import RBF, Laplacian
from tunefree.learners.kernel.geometry import Geometry, effects, exact


def problem(kernel, n=60, d=3):
    rng = np.random.default_rng(0)
    geometry = Geometry(kernel, np.array([0.5, 0.2, 0.1]), 0.3, 0.05)
    A = np.ascontiguousarray(geometry.show(rng.normal(size=(n, d))))
    return geometry, A, rng.normal(size=(n, 2)), rng.integers(1, 4, n).astype(float), rng


@pytest.mark.parametrize("kernel", [RBF(), Laplacian()], ids=["rbf", "laplacian"])
@pytest.mark.parametrize("grouped", [False, True])
def test_what_is_left_out_is_as_if_never_learned(kernel, grouped):
    geometry, A, Y, weights, rng = problem(kernel)
    held = 40
    groups = rng.integers(0, 7, held) if grouped else np.arange(held)
    told = exact(geometry, A, Y, weights, held, groups if grouped else None)[1]
    for group in np.unique(groups):
        out = np.r_[np.zeros(len(A) - held, bool), groups == group]
        rest = ~out
        coef, _, penalty = exact(geometry, A[rest], Y[rest], weights[rest], 1)
        assert penalty == geometry.penalty
        expected = geometry.values(A[out], A[rest]) @ coef
        np.testing.assert_allclose(told[groups == group], expected, atol=1e-3)


@pytest.mark.parametrize("kernel", [RBF(), Laplacian()], ids=["rbf", "laplacian"])
def test_effects_are_half_the_mean_squared_change(kernel):
    geometry, A, Y, weights, _ = problem(kernel)
    source = np.array([0, 2, 0])  # two coordinates of one column, and a column without any
    found = effects(geometry, A, weights, A, Y, source, 3)
    share = weights / weights.sum()
    for j in range(3):
        B = A.copy()
        B[:, source == j] = np.roll(A, 1, axis=0)[:, source == j]
        change = (geometry.values(B, A) - geometry.values(A, A)) @ Y
        expected = 0.5 * share @ np.square(change).sum(axis=1)
        assert found[j] == pytest.approx(expected, rel=1e-6, abs=1e-12)
