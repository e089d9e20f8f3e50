"""Spectral steps from leading singular values: equal to all of them, or not taken."""

import numpy as np
import pytest

from tunefree.parts.links import Logit
from tunefree.reflectron import subspace
from tunefree.reflectron.constraints import LpBall, NuclearBall, SchattenBall
from tunefree.reflectron.mirror import Batch, Configuration, Mirror
from tunefree.reflectron.potentials import Euclidean, Hypentropy, PNorm, Power, Spectral
from tunefree.reflectron.subspace import LowRank, place
from tunefree.rows.designs import Dense

POTENTIALS = [
    Spectral(Hypentropy(1e-4)), Spectral(Hypentropy(1e-6)), Spectral(PNorm(1.1)),
    Spectral(PNorm("log")), Spectral(Power(1.1)), Spectral(),
]  # fmt: skip


def _dual(d=240, m=260, rank=5, top=12.0, noise=0.01, seed=0):
    """A few singular values up to `top` in a bulk of noise, and a matrix near by."""
    rng = np.random.default_rng(seed)
    u, v = (np.linalg.qr(rng.standard_normal((n, rank)))[0] for n in (d, m))
    w = (u * np.linspace(top, top / 3.0, rank)) @ v.T
    w = w + noise * rng.standard_normal((d, m)) / np.sqrt(d) * top
    return w, w + 0.02 * rng.standard_normal((d, m)) / d


@pytest.fixture
def exact(monkeypatch):
    """Count how often all singular values are worked out."""
    calls, svd = [], np.linalg.svd

    def counted(a, *args, **kwargs):
        calls.append(np.shape(a))
        return svd(a, *args, **kwargs)

    monkeypatch.setattr(np.linalg, "svd", counted)
    return calls


def _distance(a, b):
    return np.linalg.norm(a - b) / np.linalg.norm(b)


@pytest.mark.parametrize("potential", POTENTIALS, ids=repr)
@pytest.mark.parametrize("seed", range(3))
def test_the_inverse_mirror_map_is_that_of_all_singular_values(potential, seed, exact):
    before, now = _dual(seed=seed)
    near, expected = potential.inverse(before), potential.inverse(now)
    exact.clear()
    theta, dual = place(now, potential, near=near)
    assert not exact  # none needed
    assert dual is now
    assert _distance(theta, expected) <= 1e-6


@pytest.mark.parametrize("decay, needed", [(0.1, 60), (0.05, 90)])
def test_a_slowly_falling_spectrum_takes_as_many_values_as_it_needs(decay, needed, exact):
    """A large beta resolves much of the noise; the error stays below the tolerance."""
    rng = np.random.default_rng(4)
    u, v = (np.linalg.qr(rng.standard_normal((400, 400)))[0] for _ in range(2))
    now = (u * 4.0 * np.exp(-decay * np.arange(400))) @ v.T
    potential = Spectral(Hypentropy(1e-2))
    near, expected = potential.inverse(0.98 * now), potential.inverse(now)
    exact.clear()
    theta, _ = place(now, potential, near=near)
    assert not exact
    assert _distance(theta, expected) <= 1e-6
    s = 4.0 * np.exp(-decay * np.arange(400))
    held_out = 1e-2 * np.linalg.norm((np.sinh(s) - s)[needed // 2 :])
    assert held_out > 1e-6 * np.linalg.norm(expected)  # so many are not enough


def test_the_residual_of_the_subspace_counts_by_its_square():
    """W stands on the left of the leading part, so a rough subspace is good enough."""
    rng = np.random.default_rng(5)
    u, v = (np.linalg.qr(rng.standard_normal((300, 300)))[0] for _ in range(2))
    s = np.concatenate([np.linspace(8.0, 4.0, 5), np.full(295, 1e-3)])
    w, potential = (u * s) @ v.T, Spectral(Hypentropy(1e-4))
    expected = potential.inverse(w)
    errors = []
    for tilt in (1e-3, 1e-4):
        left = np.linalg.qr(u[:, :10] + tilt * rng.standard_normal((300, 10)))[0]
        values, left, right = subspace._turned(left, w.T @ left)
        answer = subspace._answer(values, 0.0, 300, potential.base, None)
        theta, _ = subspace._assembled(w, w @ right, right, answer)
        errors.append(_distance(theta, expected))
    assert errors[0] > 30.0 * errors[1]


@pytest.mark.parametrize("share", [0.3, 0.9, 2.0])
@pytest.mark.parametrize("potential", [*POTENTIALS[:3], Euclidean()], ids=repr)
def test_the_projection_on_a_schatten_ball_is_that_of_all_singular_values(potential, share):
    before, now = _dual(noise=0.002)
    p = 1.1 if potential == Spectral(PNorm(1.1)) else 1.0
    near = potential.inverse(before)
    size = LpBall(p, 1.0).size(np.linalg.svd(potential.inverse(now), compute_uv=False))
    ball = SchattenBall(p, share * size)
    theta, dual = place(now, potential, ball, near)
    expected, expected_dual = ball.project(now, potential)
    assert _distance(theta, expected) <= 1e-6
    assert _distance(dual, expected_dual) <= 1e-6
    assert ball.contains(theta, 1e-6)


def test_what_the_leading_values_do_not_tell_is_worked_out_from_all(exact):
    """A flat spectrum needs them all; so does a nuclear norm that the rest decides."""
    rng = np.random.default_rng(1)
    flat = 3.0 * np.linalg.qr(rng.standard_normal((240, 240)))[0]
    potential = Spectral(Hypentropy(1e-2))
    theta, _ = place(flat, potential, near=flat)
    assert exact
    np.testing.assert_array_equal(theta, potential.inverse(flat))
    exact.clear()
    before, now = _dual()
    ball = NuclearBall(1.02 * np.sum(np.linalg.svd(now)[1][:20]))
    theta, _ = place(now, Euclidean(), ball, before)
    np.testing.assert_array_equal(theta, ball.project(now, Euclidean())[0])


def test_a_direction_that_the_last_parameters_lack_is_found():
    rng = np.random.default_rng(2)
    before, _ = _dual(rank=3)
    u, v = (rng.standard_normal(n) for n in before.shape)
    now = before + 11.0 * np.outer(u, v) / np.linalg.norm(u) / np.linalg.norm(v)
    potential = Spectral(Hypentropy(1e-4))
    theta, _ = place(now, potential, near=potential.inverse(before))
    assert _distance(theta, potential.inverse(now)) <= 1e-6


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_dual_that_is_not_finite_is_not_hidden(bad):
    now = _dual()[1]
    now[3, 4] = bad
    assert subspace._base(now, Spectral(), None) is None


@pytest.mark.parametrize(
    "potential, ball",
    [(Spectral(Hypentropy(1e-4)), None), (Euclidean(), NuclearBall(30.0)),
     (Spectral(PNorm(1.1)), SchattenBall(1.1, 20.0))], ids=repr,
)  # fmt: skip
def test_a_run_is_that_of_exact_steps(potential, ball):
    """Thirty automatic steps of a matrix with 200 outputs."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (60, 200))
    theta = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 200)) / 10.0
    Y = 1.0 / (1.0 + np.exp(-X @ theta.T))
    states = []
    for kind in (LowRank, Configuration):
        learner = Mirror(Logit(), (kind(potential, ball),), intercept=False)
        state = learner.init(200, 200)
        for _ in range(30):
            state, _ = learner.turn(learner.scan(state, Batch(Dense(X), Y, np.ones(60))))
        states.append(state)
    fast, slow = states
    assert fast.accepted[0] == slow.accepted[0] > 10
    assert fast.risk[0] == pytest.approx(slow.risk[0], rel=1e-5)
    assert _distance(fast.now.theta[0, 0], slow.now.theta[0, 0]) <= 1e-4
