"""Every averaging scheme: masses are positive and add up."""

import numpy as np
import pytest

from tunefree.parts.averaging import AVERAGES, Last, Tail, scheme_of, within

ONLINE = [name for name, part in AVERAGES.items() if not hasattr(part, "within")]

TIMES = [0.0, 1.0, 2.0, 7.0, 64.0, 1000.0, 123456.0]


@pytest.mark.parametrize("name", AVERAGES)
def test_masses_add_up(name):
    mass = within(AVERAGES[name], 100_000).mass
    for a in TIMES:
        for b in [t for t in TIMES if t >= a]:
            for c in [t for t in TIMES if t >= b]:
                assert mass(a, c) == pytest.approx(mass(a, b) + mass(b, c), rel=1e-12)


@pytest.mark.parametrize("name", ONLINE)
def test_every_iterate_has_mass_and_nothing_has_none(name):
    """Far down a geometric scheme there may be less than the smallest number."""
    mass = AVERAGES[name].mass
    for t in TIMES:
        assert mass(t, t + 1.0) > (0.0 if t <= 1000 else -1e-300)
        assert mass(t, t) == 0.0


@pytest.mark.parametrize("name", ONLINE)
def test_moving_average_is_the_weighted_mean(name):
    """avg += rho (w - avg) with rho = mass(t, t + 1) / mass(0, t + 1)."""
    mass, w = AVERAGES[name].mass, np.random.default_rng(0).normal(size=50)
    moving = 0.0
    for t in range(50):
        moving += mass(t, t + 1.0) / mass(0.0, t + 1.0) * (w[t] - moving)
    direct = np.average(w, weights=[mass(t, t + 1.0) for t in range(50)])
    assert moving == pytest.approx(direct, rel=1e-12)


@pytest.mark.parametrize("name", AVERAGES)
def test_a_name_is_its_part_and_streams_say_what_they_cannot_know(name):
    part = AVERAGES[name]
    assert scheme_of(name) == scheme_of(part) == part
    if name in ONLINE:
        assert scheme_of(name, online=True) == part
    else:
        with pytest.raises(ValueError, match="where the run ends.*tops, uniform"):
            scheme_of(name, also=["tops"], online=True)


@pytest.mark.parametrize("wrong", ["mean", 3.0, None])
def test_what_is_no_scheme_is_refused(wrong):
    with pytest.raises(ValueError, match="average="):
        scheme_of(wrong)
    assert scheme_of(Tail(0.1)) == Tail(0.1) and scheme_of(Last()) == Last()
