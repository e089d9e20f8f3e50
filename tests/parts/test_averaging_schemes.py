"""Averaging schemes: streaming, merged, parallel and compiled they equal the direct sums."""

from fractions import Fraction

import numba
import numpy as np
import pytest

from papers.stored_iterates import average_iterates
from tunefree.parts.averaging import (
    AVERAGES,
    Geometric,
    Last,
    Suffix,
    Tail,
    Uniform,
    mass,
    survival,
    within,
)
from tunefree.ridge_path.path import compress

N = 300
SCHEMES = {
    **AVERAGES,
    "uniform as geometric": Geometric(0.0),
    "nearly uniform": Geometric(1e-9),
    "steep": Geometric(1.0),
    "third": Tail(1 / 3),
    "suffix": Suffix(17.0),
}
each = pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
WALK = np.random.default_rng(0).normal(size=(N, 3)).cumsum(axis=0)


def weights(scheme, n=N):
    """The weights themselves, from their definitions."""
    t = np.arange(n)
    if isinstance(scheme, Geometric):
        return (1.0 + scheme.rate) ** -t.astype(float)
    if scheme in (Uniform(), Last(), Tail(), Tail(1 / 3), Suffix(17.0)):
        first = {Uniform(): 0, Last(): n - 1, Tail(): n // 2}
        return (t >= {**first, Tail(1 / 3): n - n // 3, Suffix(17.0): 17}[scheme]) * 1.0
    if scheme == AVERAGES["polynomial"]:
        return t + 1.0
    return np.array([scheme.mass(float(s), s + 1.0) for s in t])  # of other packages


def direct(scheme):
    w = weights(scheme)
    return w @ WALK / w.sum()


@each
def test_masses_are_sums_of_weights(scheme):
    placed, w = within(scheme, N), weights(scheme)
    for start, stop in [(0, N), (3, 10), (17, 18), (100, 250), (40, 40)]:
        found = placed.mass(float(start), float(stop))
        assert found == pytest.approx(w[start:stop].sum(), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("prefer", ["threads", "processes"])
def test_workers_agree_with_the_direct_sum(prefer):
    found = average_iterates(WALK, list(SCHEMES.values()), n_jobs=2, prefer=prefer)
    np.testing.assert_allclose(found, [direct(s) for s in SCHEMES.values()], rtol=0, atol=1e-12)


def test_the_end_of_a_steep_geometric_run_has_no_mass_and_does_no_harm():
    scheme = Geometric(1.0)
    assert scheme.mass(5000.0, 6000.0) == 0.0
    late = np.concatenate([WALK, np.ones((6000, 3))])
    assert np.isfinite(average_iterates(late, [scheme])).all()


@each
def test_survival_is_the_share_of_later_iterates(scheme):
    w = weights(scheme)
    expected = w[::-1].cumsum()[::-1][1:] / w.sum()
    np.testing.assert_allclose(survival(scheme, N), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("rate", [1e-12, 1e-9, 1e-3, 0.5])
def test_survival_of_geometric_iterates_loses_no_digits(rate):
    """Against rational arithmetic; the plain quotient loses 1e-9 for q within 1e-9 of 1."""
    q, n = 1 / (1 + Fraction(rate)), 40
    exact = [float((q**s - q**n) / (1 - q**n)) for s in range(1, n)]
    np.testing.assert_allclose(survival(Geometric(rate), n), exact, rtol=1e-13)


@pytest.mark.parametrize("n", [2, 20, 3000, 100_000])
def test_a_few_schemes_combine_to_all(n):
    """Including w_0: survivals are what the averages are made of."""
    schemes = [*(Geometric(r) for r in np.logspace(-10, 0, 50)), Geometric(0.0), Tail(), Uniform()]
    kept, mix = compress(schemes, n)
    assert len(kept) <= 33
    found = np.array([survival(s, n) for s in kept]).T @ mix
    np.testing.assert_allclose(found, np.array([survival(s, n) for s in schemes]).T, atol=1e-11)


@numba.njit
def _mass(scheme, start, stop):
    return mass(scheme, start, stop)


@each
def test_compiled_masses_equal_python(scheme):
    placed = within(scheme, N)
    for start, stop in [(0.0, 300.0), (3.0, 10.0), (17.0, 18.0)]:
        assert _mass(placed, start, stop) == pytest.approx(placed.mass(start, stop), rel=1e-14)


def test_schemes_are_values():
    assert Geometric(0.1) == Geometric(0.1) and hash(Tail()) == hash(Tail(0.5))
    assert Geometric(0.1) != Geometric(0.2) and Tail(0.5) == Tail()


@pytest.mark.parametrize("fraction", [0.0, -0.5, 1.5, np.nan])
def test_tails_that_mean_nothing_are_refused(fraction):
    with pytest.raises(ValueError, match="fraction"):
        Tail(fraction).within(10)
