"""Every potential: a mirror map, its inverse and conjugate, and the identities of divergences."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tunefree.reflectron import potentials
from tunefree.reflectron.potentials import POTENTIALS, Entropy, Hypentropy, PNorm, Power, Spectral

CASES = [
    *POTENTIALS.values(),
    PNorm(1.01),
    PNorm(2.0),
    Hypentropy(1e-2),
    Hypentropy(1e-8),
    Power(1.5),
    Power(3.0),
    Spectral(PNorm(1.1)),
    Spectral(potentials.Euclidean()),
    potentials.Grouped(Hypentropy(1e-2), (0, 0, 0, 1, 1, 2, 3, 3, 3, 3, 4, 4)),
    potentials.Whitened(0.1).bound(np.diag(np.arange(12.0)) + 0.5),
]


def _points(potential, seed, n=3):
    rng = np.random.default_rng(seed)
    if hasattr(potential, "base"):
        return [rng.standard_normal((4, 6)) for _ in range(n)]
    if isinstance(potential, Entropy):
        return [rng.dirichlet(np.ones(12)) for _ in range(n)]
    return [rng.standard_normal(12) * 10.0 ** rng.uniform(-3, 1, 12) for _ in range(n)]


@pytest.mark.parametrize("potential", CASES, ids=repr)
def test_inverse_undoes_mirror_both_ways(potential):
    for x in _points(potential, 0):
        w = potential.mirror(x)
        assert np.allclose(potential.inverse(w), x, rtol=1e-12, atol=1e-13 * np.abs(x).max())
        back = potential.mirror(potential.inverse(w))
        assert np.allclose(back, w, rtol=1e-12, atol=1e-12 * np.abs(w).max())


@pytest.mark.parametrize("potential", CASES, ids=repr)
def test_coordinates_times_their_common_factor_are_the_inverse(potential):
    x = _points(potential, 5)[0]
    part, w = potential.coordinates(x.size), potential.mirror(x)
    if part is None:
        ours = isinstance(potential, Entropy | Hypentropy | Power | potentials.Euclidean)
        assert not ours and getattr(potential, "exponent", lambda d: 1.0)(x.size) < 1.03
        return
    for nearness in (1.0, 0.5, 3.0):  # theta does not depend on the reference
        r = nearness * part.reference(w.min(), w.max())
        c = [part.coordinate(v, r) for v in w]
        total = sum(part.stat(v, u, r) for v, u in zip(w, c, strict=True))
        assert np.allclose(part.factor(total, r) * np.array(c), x, rtol=1e-10)


@pytest.mark.parametrize("potential", CASES, ids=repr)
def test_fenchel_equality_and_inequality(potential):
    x, y, _ = _points(potential, 1)
    w = potential.mirror(x)
    gap = potential.value(x) + potential.conjugate(w) - np.sum(w * x)
    assert abs(gap) <= 1e-11 * (1.0 + abs(potential.value(x)) + np.sum(np.abs(w * x)))
    assert potential.value(y) + potential.conjugate(w) - np.sum(w * y) > 0.0


@pytest.mark.parametrize("potential", CASES, ids=repr)
def test_mirror_is_the_derivative_of_the_value(potential):
    x, y, _ = _points(potential, 2)
    direction, h = y - x, 1e-6
    slope = (potential.value(x + h * direction) - potential.value(x - h * direction)) / (2 * h)
    assert np.isclose(slope, np.sum(potential.mirror(x) * direction), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("potential", CASES, ids=repr)
def test_three_point_identity(potential):
    x, y, z = _points(potential, 3)
    d = potential.divergence
    right = d(x, y) + d(y, z) + np.sum((potential.mirror(y) - potential.mirror(z)) * (x - y))
    assert np.isclose(d(x, z), right, rtol=1e-10, atol=1e-10)
    assert d(x, z) > 0.0
    assert abs(d(x, x)) <= 1e-12


@pytest.mark.parametrize("potential", CASES, ids=repr)
def test_divergence_of_the_duals_in_reverse_order(potential):
    x, y, _ = _points(potential, 4)
    a, b = potential.mirror(x), potential.mirror(y)
    dual = potential.conjugate(b) - potential.conjugate(a) - np.sum(x * (b - a))
    assert np.isclose(potential.divergence(x, y), dual, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("potential", [p for p in CASES if hasattr(p, "convexity")], ids=repr)
def test_strong_convexity(potential):
    for seed in range(20):
        x, y, _ = _points(potential, seed)
        radius = max(np.abs(x).sum(), np.abs(y).sum())
        sigma, p = potential.convexity(x.size, radius)
        norm = np.sum(np.abs(x - y) ** p) ** (1.0 / p)
        assert potential.divergence(x, y) >= 0.5 * sigma * norm**2 * (1 - 1e-9)


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(st.just("log"), st.floats(1.01, 2.0)),
    st.integers(2, 400),
    st.sampled_from(["ones", "normal", "spread"]),
    st.sampled_from(["alternating", "normal", "alternating sizes"]),
    st.floats(-3.0, 1.0),
    st.integers(0, 2**32 - 1),
)
def test_no_pair_of_points_is_less_convex_than_a_p_norm_says(p, d, place, way, size, seed):
    """An adversary moves alike entries in alternate directions, where the norm grows least."""
    rng, potential = np.random.default_rng(seed), PNorm(p)
    x = {"ones": np.ones(d), "normal": rng.standard_normal(d)}.get(place)
    x = np.exp(3.0 * rng.standard_normal(d)) if x is None else x
    signs = np.where(np.arange(d) % 2, 1.0, -1.0)
    u = {"alternating": signs, "normal": rng.standard_normal(d)}.get(way)
    u = signs * np.abs(rng.standard_normal(d)) if u is None else u
    u = u * np.linalg.norm(x) / np.linalg.norm(u) * 10.0**size
    sigma, exponent = potential.convexity(d)
    norm = np.sum(np.abs(u) ** exponent) ** (1.0 / exponent)
    rounding = 1e-14 * (potential.value(x) + potential.value(x + u))
    assert potential.divergence(x + u, x) >= 0.5 * sigma * norm**2 * (1.0 - 1e-9) - rounding


@pytest.mark.parametrize("d", [8, 20, 1000])
def test_the_log_norms_convexity_is_attained(d):
    x, u = np.ones(d), np.where(np.arange(d) % 2, 1e-3, -1e-3)
    sigma, exponent = PNorm("log").convexity(d)
    assert exponent == 1.0
    found = 2.0 * PNorm("log").divergence(x + u, x) / np.abs(u).sum() ** 2
    assert found == pytest.approx(sigma, rel=1e-5)


@pytest.mark.parametrize("potential", [p for p in CASES if p.odd], ids=repr)
def test_odd_potentials_keep_signs_and_zeros(potential):
    x = np.array([1e-3, 0.0, -2.0, 5.0, -0.5])
    w = potential.mirror(x)
    assert np.array_equal(np.sign(w), np.sign(x))
    assert np.allclose(potential.mirror(-x), -w)


@pytest.mark.parametrize("potential", [PNorm(1.1), PNorm("log"), PNorm(2.0)], ids=repr)
@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_p_norms_survive_extreme_scales(potential, scale):
    x = np.array([1.0, -2.0, 0.0, 0.5] * 5)
    assert np.allclose(potential.mirror(scale * x) / scale, potential.mirror(x), rtol=1e-12)
    assert np.array_equal(potential.mirror(0.0 * x), np.zeros(20))


def test_log_norm_is_the_power_of_corollary_4_2():
    assert PNorm("log").exponent(1000) == pytest.approx(np.log(1000) / (np.log(1000) - 1))
    assert PNorm("log").exponent(5) == 2.0


@pytest.mark.parametrize(
    "make", [lambda: PNorm(1.0), lambda: PNorm(2.5), lambda: PNorm("p"), lambda: Hypentropy(0.0),
             lambda: Power(1.0), lambda: Spectral(Entropy())]
)  # fmt: skip
def test_bad_parameters_are_refused_in_one_sentence(make):
    with pytest.raises(ValueError, match=r": (try|give)|neither"):
        make()


@pytest.mark.parametrize("potential", [p for p in CASES if hasattr(p, "metric_solve")], ids=repr)
def test_metric_solve_is_the_derivative_of_the_inverse(potential):
    """(hess psi(x))^-1 g = d/ds inverse(mirror(x) + s g) at s = 0."""
    x, _, _ = _points(potential, 6)
    w, h = potential.mirror(x), 1e-6
    g = np.random.default_rng(6).standard_normal(x.size) * np.abs(w)
    slope = (potential.inverse(w + h * g) - potential.inverse(w - h * g)) / (2 * h)
    solved = potential.metric_solve(x, g)
    assert np.allclose(solved, slope, rtol=1e-5, atol=1e-7 * np.abs(solved).max())
