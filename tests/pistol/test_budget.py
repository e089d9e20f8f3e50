"""A bound on the support: nothing is lost where nothing need be, and the state stays consistent."""

import numpy as np
import pytest
from scipy import sparse

from tunefree.core.process import workers
from tunefree.kernels.bandwidths import Facts
from tunefree.kernels.kernels import RBF
from tunefree.parts.losses import Logistic, SmoothedHinge
from tunefree.pistol.kernel_blocked import KernelBlock, Member, StreamEngine
from tunefree.pistol.kernel_projection import contract, limit_support
from tunefree.pistol.linear import Isotropic
from tunefree.pistol.rules import SQUARED_NORM, PiSTOL


def rings(n, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    angle, radius = rng.uniform(0, 2 * np.pi, n), 1.5 + 0.5 * y + 0.2 * rng.normal(size=n)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1), y[:, None]


def learned(X, Y, budget=None, size=16, members=None):
    members = members or [Member(1.0, Isotropic(loss=SmoothedHinge()))]
    engine, sizes = StreamEngine(RBF(), members, Y.shape[1], X[:0]), []
    with workers(1) as team:
        for start in range(0, len(Y), size):
            rows, targets = X[start : start + size], Y[start : start + size]
            n = len(targets)
            if budget is not None:
                limit_support(engine, n, budget)
            facts = Facts.of(engine.kernel, rows)
            engine.learn(team, KernelBlock(facts, None, np.ones(n), targets, np.ones(n)))
            sizes.append(engine.n_slots)
    return engine, sizes


def decisions(engine, X, i=0):
    gamma = engine.members[i].gamma
    K = RBF(gamma).gram(X, engine.support.rows)
    return K @ engine.mean(i), K @ engine.last(i)


def test_the_support_never_exceeds_the_budget():
    X, Y = rings(2000)
    engine, sizes = learned(X, Y, 50)
    assert max(sizes) <= 50 and engine.n_slots == len(engine.support)
    assert engine.states[0].shared[1] == 2000  # every row was a round


def test_a_budget_that_is_not_reached_changes_nothing():
    X, Y = rings(300)
    free, _ = learned(X, Y)
    bound, _ = learned(X, Y, 300)
    np.testing.assert_array_equal(bound.states[0].z, free.states[0].z)
    np.testing.assert_array_equal(bound.states[0].scalars, free.states[0].scalars)


def test_rows_that_repeat_cost_nothing():
    """Twelve distinct rows span a space of twelve dimensions: projections onto it are exact."""
    X, Y = rings(12)
    order = np.random.default_rng(1).integers(0, 12, 600)
    # Logistic: every visit of a row is a gradient, and trajectories depend on it continuously.
    members = [Member(1.0, Isotropic(loss=Logistic(), rule=PiSTOL(a=3.0)))]
    free, sizes = learned(X[order], Y[order], members=members)
    bound, few = learned(X[order], Y[order], 40, members=members)
    assert max(sizes) > 500 and max(few) <= 40
    for a, b in zip(decisions(bound, X), decisions(free, X), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * np.abs(b).max())
    np.testing.assert_allclose(bound.states[0].scalars, free.states[0].scalars, rtol=1e-5)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["array", "csr"])
@pytest.mark.parametrize("dtype, tolerance", [(np.float64, 1e-9), (np.float32, 1e-4)])
def test_the_norm_is_that_of_the_projection(form, dtype, tolerance):
    X, Y = rings(400)
    two = [Member(0.5, Isotropic(loss=SmoothedHinge())), Member(2.0, Isotropic(loss=Logistic()))]
    engine, _ = learned(form(X.astype(dtype)), np.hstack([Y, -Y]), members=two)
    contract(engine, 30)
    assert engine.n_slots == 30
    for member, state in zip(engine.members, engine.states, strict=True):
        S = np.asarray(engine.support.rows.todense() if form is sparse.csr_array
                       else engine.support.rows, np.float64)  # fmt: skip
        z = state.z[:30]
        squares = np.einsum("ik,ij,jk->k", z, RBF(member.gamma).gram(S, S), z)
        np.testing.assert_allclose(state.scalars[:, SQUARED_NORM], squares, rtol=tolerance)


def test_more_rows_than_a_matrix_holds_are_projected_in_groups(monkeypatch):
    """More rows than a matrix may hold are projected group by group."""
    monkeypatch.setattr("tunefree.pistol.kernel_projection.GROUP", 64)
    X, Y = rings(1500)
    X_test, Y_test = rings(1000, 1)
    engine, sizes = learned(X, Y, 250)
    assert max(sizes) <= 250
    assert np.mean(np.sign(decisions(engine, X_test)[0]) != Y_test) < 0.04


def test_a_small_budget_still_learns():
    """A tenth of the labels is wrong, so that support rows keep coming."""
    X, Y = rings(2000)
    X_test, Y_test = rings(1000, 1)
    Y[::10] *= -1.0
    free, sizes = learned(X, Y)
    bound, _ = learned(X, Y, 40)
    errors = [np.mean(np.sign(decisions(e, X_test)[0]) != Y_test) for e in (free, bound)]
    assert errors[1] <= errors[0] + 0.01 and sizes[-1] > 200


def test_the_rule_draws_nothing_at_random():
    X, Y = rings(500)
    one, two = (learned(X, Y, 60)[0] for _ in range(2))
    np.testing.assert_array_equal(one.states[0].z, two.states[0].z)
    np.testing.assert_array_equal(one.support.rows, two.support.rows)
