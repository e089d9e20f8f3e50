"""Sums over landmarks are those of kernel values, whichever rows are predicted together."""

import numpy as np
import pytest

from tunefree.kernels.coordinates import coordinates
from tunefree.kernels.geometry import Geometry
from tunefree.kernels.kernels import RBF, Laplacian
from tunefree.kernels.sums import TASK, LandmarkSums

# Kernel, single precision, whether bounds are known, and the largest error in units of the sums.
FORMS = {
    "squares": (RBF(), False, False, 1e-12),
    "squares in single precision": (RBF(), True, False, 1e-5),
    "differences": (Laplacian(), False, False, 1e-12),
    "differences in single precision": (Laplacian(), True, False, 1e-5),
    "differences of whole numbers": (Laplacian(), True, True, 1e-5),
}


def problem(form, n=70, m=300, n_outputs=1, seed=0):
    """Sums, rows, and the sums of kernel values; some columns have a usual number."""
    kernel, single, has_bounds, error = FORMS[form]
    rng = np.random.default_rng(seed)
    A = rng.uniform(-2.0, 2.0, (n + m, 6))
    A[:, 1] = rng.random(n + m) < 0.1
    A[:, 2] = np.where(rng.random(n + m) < 0.9, -2.0, A[:, 2])
    A[:, 3] = np.where(rng.random(n + m) < 0.9, 0.5, A[:, 3])
    A, B = A[:n], A[n:]
    coef = rng.normal(size=(m, n_outputs))
    geometry = Geometry(kernel, np.ones(6), 0.3, 1.0)
    bounds = np.full(6, 2.0) if has_bounds else None
    sums = LandmarkSums.of(geometry, B, coef, single, bounds)
    return sums, A, geometry.gram(A, B) @ coef, error * np.abs(coef).sum(axis=0)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("m", "n_outputs"), [(1, 1), (300, 1), (40, 3), (129, 4), (300, 6)])
def test_they_are_sums_of_kernel_values(form, m, n_outputs):
    sums, A, expected, error = problem(form, m=m, n_outputs=n_outputs)
    assert (np.abs(sums(A) - expected) <= error).all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_the_bits_of_a_row_depend_on_no_other_row(form, n_outputs):
    sums, A, *_ = problem(form, n=TASK + 13, n_outputs=n_outputs)
    found = sums(A)
    order = np.random.default_rng(1).permutation(len(A))
    np.testing.assert_array_equal(sums(A[order]), found[order])
    for start, stop in ((0, 1), (3, 8), (TASK - 1, TASK + 13)):
        np.testing.assert_array_equal(sums(A[start:stop]), found[start:stop])


def test_differences_of_whole_numbers_are_as_exact_as_those_of_single_precision():
    errors = []
    for form in ("differences of whole numbers", "differences in single precision"):
        sums, A, expected, _ = problem(form, n=300)
        errors.append(np.abs(sums(A) - expected).mean())
    assert errors[0] < 1.5 * errors[1]


def test_rows_of_other_columns_are_refused():
    sums, A, *_ = problem("squares")
    with pytest.raises(ValueError, match="do not fit"):
        sums(A[:, :4])


def test_no_row_is_beyond_the_bounds_of_its_coordinates():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.exp(3.0 * rng.normal(size=500)), rng.integers(0, 5, 500)])
    view = coordinates(X, np.ones(500))
    rows = np.concatenate([X, 1e9 * rng.normal(size=(500, 2)), -X])
    assert (np.abs(view.show(rows)) <= view.bounds()).all()
