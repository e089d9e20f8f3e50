"""Every link: increasing, with the slope, bound, range, inverse and integral it says."""

import numpy as np
import pytest

from tunefree.parts.links import LINKS, Learned, check_increasing, target_margin

S = np.linspace(-6.0, 6.0, 241) + 0.0123  # no kink on the grid
# Links that rows have told have no name.
ALL = {
    **LINKS,
    "learned": Learned.through(LINKS["log"], [-2.0, 0.0, 1.0, 3.0], [-3.0, 0.1, 1, 1.5]),
}


@pytest.mark.parametrize("name", ALL)
def test_slope_is_the_derivative_of_the_mean(name):
    link, h = ALL[name], 1e-5
    difference = (link.mean(S + h) - link.mean(S - h)) / (2.0 * h)
    assert np.allclose(link.slope(S), difference, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", LINKS)
def test_mean_is_the_derivative_of_the_matching_loss(name):
    link, h = LINKS[name], 1e-5
    difference = (link.matching(S + h) - link.matching(S - h)) / (2.0 * h)
    assert np.allclose(link.mean(S), difference, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", LINKS)
def test_slopes_stay_within_their_bound_and_reach_it(name):
    link = LINKS[name]
    slopes = link.slope(np.linspace(-9.0, 9.0, 1801))
    assert slopes.min() >= 0.0
    assert slopes.max() <= link.bound() * (1 + 1e-12)
    assert slopes.max() >= min(link.bound() * 0.99, np.exp(8.9))  # the logarithm's is out of sight


@pytest.mark.parametrize("name", ALL)
def test_means_stay_in_the_range_and_increase(name):
    link = ALL[name]
    low, high = link.range
    u = link.mean(np.array([-800.0, -30.0, 0.0, 30.0, 800.0]))
    assert np.isfinite(u).all()
    assert (u >= low).all() and (u <= high).all()
    assert (np.diff(u) >= 0.0).all()
    check_increasing(link)


@pytest.mark.parametrize("name", ALL)
def test_the_inverse_undoes_the_mean(name):
    link = ALL[name]
    low, high = link.range
    s = np.linspace(-3.0, 2.9, 100)
    u = link.mean(s)
    inside = (u > low) & (u < high)
    assert np.allclose(target_margin(link, u[inside]), s[inside], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["logit", "probit", "cloglog", "softplus", "exp", "relu"])
def test_targets_outside_the_range_have_no_margin(name):
    with pytest.raises(ValueError, match="clip them, or choose a link"):
        target_margin(LINKS[name], [-0.1])


def test_a_decreasing_link_is_refused():
    class Falling:
        def mean(self, s):
            return -s

    with pytest.raises(ValueError, match="nondecreasing"):
        check_increasing(Falling())
