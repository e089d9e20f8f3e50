"""Kernel ridge regression: all rows as landmarks, and the unit of codes."""

import numpy as np
import pytest

from tunefree import KernelRidgeRegressor
from tunefree.kernel_ridge import solvers as ridge
from tunefree.kernels.coordinates import coordinates


@pytest.mark.parametrize("noise", [0.0, 1e-3])
def test_all_rows_are_as_good_as_landmarks_and_an_exact_solution(noise, monkeypatch):
    """Noise-free rows leave a small penalty, which amplifies the rounding of kernel values."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (3500, 2))
    truth = np.sin(3.0 * X[:, 0]) * np.cos(2.0 * X[:, 1]) + X[:, 1] ** 2
    y = truth + noise * truth.std() * rng.normal(size=len(X))

    def risk(n_landmarks):
        model = KernelRidgeRegressor(n_landmarks=n_landmarks, random_state=0)
        model.fit(X[:2500], y[:2500])
        return np.mean((model.predict(X[2500:]) - truth[2500:]) ** 2) / truth.var()

    exact = risk("all")
    monkeypatch.setattr(ridge, "EXACT_ROWS", 1000)
    assert risk("all") < 2.0 * max(exact, risk(1000), 1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("power", [-40, -6, -1, 3, 40])
def test_codes_are_codes_in_every_power_of_two(dtype, power):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 6, (200, 2)).astype(dtype)
    X[:, 1] = 10_000 + 7 * X[:, 1]
    y = np.array([0.0, 3.0, -1.0, 2.0, 5.0, -4.0])[X[:, 0].astype(int)] + rng.normal(size=200)
    scaled = (X * 2.0**power).astype(dtype)
    one, other = (coordinates(rows, np.ones(200)) for rows in (X, scaled))
    np.testing.assert_array_equal(one.kind, other.kind)
    expected = KernelRidgeRegressor(random_state=0).fit(X, y).predict(X)
    found = KernelRidgeRegressor(random_state=0).fit(scaled, y).predict(scaled)
    np.testing.assert_array_equal(found, expected)


def test_decimals_are_no_codes():
    for dtype in (np.float32, np.float64):
        X = np.tile(np.array([0.1, 0.2, 0.7, 1.3], dtype), 20)[:, None]
        assert len(coordinates(X, np.ones(80)).kind) == 1
