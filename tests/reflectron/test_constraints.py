"""Every pair of constraint and potential: feasible, idempotent, nearest; or a clear refusal."""

import numpy as np
import pytest
from scipy.optimize import brentq, minimize

from tunefree.reflectron.constraints import (
    CONSTRAINTS,
    Bounds,
    Box,
    L1Ball,
    L2Ball,
    LpBall,
    NonNegative,
    NuclearBall,
    SchattenBall,
    Simplex,
)  # fmt: skip
from tunefree.reflectron.potentials import Entropy, Euclidean, Hypentropy, PNorm, Power, Spectral

ODD = [Euclidean(), PNorm(1.1), PNorm(1.5), PNorm("log"), PNorm(2.0), Hypentropy(1e-6),
       Hypentropy(0.1), Power(1.3), Power(3.0)]  # fmt: skip
SEPARABLE = [p for p in ODD if p.separable]
MATRIX = [Euclidean(), Spectral(Euclidean()), Spectral(PNorm(1.1)), Spectral(Hypentropy(1e-3))]
PAIRS = [
    *[(c, p) for c in (L1Ball(0.7), Simplex(0.7), NonNegative()) for p in ODD],
    *[(c, p) for c in (L2Ball(0.7), LpBall(1.5, 0.7), Box(-0.1, 0.2)) for p in SEPARABLE],
    *[(Bounds((0.0,) * 8 + (-0.1,) * 7, (np.inf,) * 8 + (0.2,) * 7), p) for p in SEPARABLE],
    *[
        (c, p)
        for c in (
            LpBall(1.3, 0.7),
            LpBall(2.0, 0.7),
            LpBall(3.0, 0.7),
            Box(-0.1, 0.2),
            Box(0.05, 0.3),
        )
        for p in (PNorm(1.2), PNorm("log"), PNorm(2.0))
    ],
    (LpBall(1.1, 0.7), PNorm(1.1)),
    (LpBall(1.5, 0.7), PNorm(1.5)),
    (LpBall(1.0, 0.7), PNorm(1.5)),
    (Simplex(), Entropy()),
    (NonNegative(), Entropy()),
    *[(c, p) for c in (NuclearBall(0.7), SchattenBall(2.0, 0.7)) for p in MATRIX[:2]],
    *[(NuclearBall(0.7), p) for p in MATRIX[2:]],
    (SchattenBall(1.5, 0.7), Spectral(Hypentropy(1e-3))),
    (L2Ball(0.7), Spectral(Hypentropy(1e-3))),
]


# Exact optima by a conic solver: a program in cvxpy for the value of each potential.
CONIC = [
    (c, p)
    for c in (L1Ball(0.7), L2Ball(0.7), LpBall(1.5, 0.7), Simplex(0.7), NonNegative(),
              Box(-0.1, 0.2))
    for p in (Euclidean(), PNorm(1.5), PNorm(1.2), Hypentropy(0.1), Power(1.5))
]  # fmt: skip


def _dual(constraint, potential, seed):
    rng = np.random.default_rng(seed)
    matrix = isinstance(constraint, SchattenBall) or hasattr(potential, "base")
    x = rng.standard_normal((4, 5) if matrix else 15)
    return potential.mirror(np.abs(x) / np.abs(x).sum() if isinstance(potential, Entropy) else x)


@pytest.mark.parametrize("constraint, potential", PAIRS, ids=repr)
def test_projections_are_feasible_consistent_and_idempotent(constraint, potential):
    for seed in range(5):
        theta, dual = constraint.project(_dual(constraint, potential, seed), potential)
        assert constraint.contains(theta, 1e-9)
        assert np.allclose(potential.inverse(dual), theta, rtol=1e-9, atol=1e-12)
        again, _ = constraint.project(dual, potential)
        assert np.allclose(again, theta, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("constraint, potential", PAIRS, ids=repr)
def test_projections_obey_the_pythagorean_inequality(constraint, potential):
    """d(y, x0) >= d(y, x) + d(x, x0) for every y of the set, x the projection of x0."""
    for seed in range(5):
        w0 = _dual(constraint, potential, seed)
        x0, (x, _) = potential.inverse(w0), constraint.project(w0, potential)
        other = constraint.project(_dual(constraint, potential, seed + 50), potential)[0]
        for y in (other, 0.5 * (x + other), 0.99 * x + 0.01 * other):
            d = potential.divergence
            assert d(y, x0) >= d(y, x) + d(x, x0) - 1e-9 * (1.0 + abs(d(y, x0)))


@pytest.mark.parametrize("potential", [*SEPARABLE, PNorm(1.5), PNorm(2.0)], ids=repr)
def test_l1_projection_agrees_with_a_general_solver(potential):
    rng = np.random.default_rng(3)
    w0 = potential.mirror(rng.standard_normal(4))
    x, _ = L1Ball(1.0).project(w0, potential)

    def objective(parts):
        return potential.value(parts[:4] - parts[4:]) - w0 @ (parts[:4] - parts[4:])

    solved = minimize(
        objective, np.full(8, 0.1), method="SLSQP", bounds=[(0, 1)] * 8,
        constraints=[{"type": "ineq", "fun": lambda parts: 1.0 - parts.sum()}],
        options={"ftol": 1e-14, "maxiter": 1000},
    )  # fmt: skip
    assert objective(np.r_[np.maximum(x, 0), np.maximum(-x, 0)]) <= solved.fun + 1e-9


def _objective(potential, w0):
    """psi(x) - <w0, x>, its gradient, and the starting dual's own constraint functions."""
    return (lambda x: potential.value(x) - w0 @ x), (lambda x: potential.mirror(x) - w0)


def _feasible(constraint, n):
    """A constraint for SciPy: bounds and functions that must not be negative."""
    bounds, functions = [(None, None)] * n, []
    if isinstance(constraint, NonNegative | Simplex):
        bounds = [(0.0, None)] * n
    if isinstance(constraint, Box):
        bounds = [(constraint.low, constraint.high)] * n
    if isinstance(constraint, Simplex):
        functions = [{"type": "eq", "fun": lambda x: x.sum() - constraint.total}]
    if isinstance(constraint, LpBall):
        # The p-th power is smooth where the norm is not.
        functions = [{"type": "ineq", "fun": lambda x: constraint.radius**constraint.p
                      - np.sum(np.abs(x) ** constraint.p)}]  # fmt: skip
    return bounds, functions


# The l1 ball is not smooth: the test above splits it in two orthants.
SMOOTH = [(c, p) for c, p in CONIC if not isinstance(c, L1Ball)]


@pytest.mark.parametrize("constraint, potential", SMOOTH, ids=repr)
def test_no_feasible_point_of_a_general_solver_is_better(constraint, potential):
    w0 = potential.mirror(np.random.default_rng(8).standard_normal(4))
    x, _ = constraint.project(w0, potential)
    value, slope = _objective(potential, w0)
    bounds, functions = _feasible(constraint, 4)
    solved = minimize(
        value, np.full(4, constraint.total / 4 if isinstance(constraint, Simplex) else 0.1),
        jac=slope, method="SLSQP", bounds=bounds, constraints=functions,
        options={"ftol": 1e-13, "maxiter": 2000},
    )  # fmt: skip
    assert constraint.contains(x, 1e-9)
    assert value(x) <= solved.fun + 1e-7
    assert abs(value(x) - solved.fun) <= 1e-4  # and the solver comes near


@pytest.mark.parametrize("constraint, potential", CONIC, ids=repr)
def test_projections_agree_with_a_conic_solver(constraint, potential):
    cp = pytest.importorskip("cvxpy")
    w0 = potential.mirror(np.random.default_rng(9).standard_normal(6))
    x = cp.Variable(6)
    if isinstance(potential, Euclidean):
        psi = 0.5 * cp.sum_squares(x)
    elif isinstance(potential, PNorm):
        psi = 0.5 * cp.square(cp.norm(x, potential.p))
    elif isinstance(potential, Power):
        psi = cp.sum(cp.power(cp.abs(x), potential.q))
    else:  # hypentropy is the least of two entropies: x = a - c
        a, c, b = cp.Variable(6), cp.Variable(6), potential.beta
        psi = cp.sum(cp.kl_div(2.0 * a, b) + cp.kl_div(2.0 * c, b)) / 2.0
    sets = {
        L1Ball: lambda: [cp.norm(x, 1) <= constraint.radius],
        LpBall: lambda: [cp.norm(x, constraint.p) <= constraint.radius],
        Simplex: lambda: [x >= 0, cp.sum(x) == constraint.total],
        NonNegative: lambda: [x >= 0],
        Box: lambda: [x >= constraint.low, x <= constraint.high],
    }[type(constraint)]()
    if isinstance(potential, Hypentropy):
        sets.append(x == a - c)
    cp.Problem(cp.Minimize(psi - w0 @ x), sets).solve(solver="CLARABEL")
    assert np.allclose(constraint.project(w0, potential)[0], x.value, atol=2e-4)


@pytest.mark.parametrize("potential", ODD, ids=repr)
@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_l1_shrinkage_equals_the_bisection_on_its_constant(potential, scale):
    """Optimality to 1e-12: one constant for all kept entries, at least the others' sizes."""
    w = np.random.default_rng(4).standard_normal(200) * scale
    if not np.abs(potential.inverse(w)).sum() > 0.05:
        w = w * 0.05 / np.abs(potential.inverse(w)).sum() * 100.0
    x, dual = L1Ball(0.05).project(w, potential)
    assert abs(np.abs(x).sum() / 0.05 - 1.0) <= 1e-11
    kept = dual != 0.0
    taus = np.abs(w[kept]) - np.abs(dual[kept])
    assert np.ptp(taus) <= 1e-12 * np.abs(w).max()
    assert np.abs(w[~kept]).max(initial=0.0) <= taus.max() + 1e-12 * np.abs(w).max()

    def excess(tau):
        return np.abs(potential.inverse(np.maximum(np.abs(w) - tau, 0.0))).sum() / 0.05 - 1.0

    assert brentq(excess, 0.0, np.abs(w).max(), xtol=1e-15, rtol=1e-14) == pytest.approx(
        taus.mean(), rel=1e-9
    )


def test_hypentropy_duals_that_overflow_the_inverse_are_projected():
    w = np.array([1000.0, -999.0, 3.0])
    x, _ = L1Ball(1.0).project(w, Hypentropy(1e-6))
    assert np.isfinite(x).all()
    assert np.abs(x).sum() == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize(
    "constraint, potential",
    [(L1Ball(), Entropy()), (L1Ball(), Spectral()), (Box(), Entropy()),
     (LpBall(1.5), Entropy()), (NuclearBall(), Hypentropy()), (Simplex(), Spectral()),
     (NonNegative(), Spectral())],
    ids=repr,
)  # fmt: skip
def test_pairs_without_a_rule_say_what_to_do(constraint, potential):
    with pytest.raises(ValueError, match="There is no rule .*: use "):
        constraint.project(np.ones((2, 2)), potential)


@pytest.mark.parametrize(
    "make", [lambda: L1Ball(0.0), lambda: L2Ball(-1.0), lambda: LpBall(0.5), lambda: Simplex(0.0),
             lambda: Box(1.0, 1.0), lambda: SchattenBall(1.0, np.inf)]
)  # fmt: skip
def test_bad_parameters_are_refused(make):
    with pytest.raises(ValueError, match="not"):
        make()


def test_the_table_holds_every_constraint():
    kinds = {type(c) for c in CONSTRAINTS.values()}
    assert kinds == {L1Ball, LpBall, Simplex, NonNegative, Box, Bounds, SchattenBall}


@pytest.mark.parametrize("beta", [1e-2, 1.0, 1e3, 1e9])
@pytest.mark.parametrize("radius", [1.0, 1e-6, 1e-12])
def test_hypentropy_is_projected_exactly_onto_balls_far_below_beta(beta, radius):
    """The radius to the last digits, and one threshold for all that is left (Euclid's, there)."""
    potential, w = Hypentropy(beta), np.array([0.7, -0.7, 0.2, 0.0]) * 1e-3
    theta, dual = L1Ball(radius).project(w, potential)
    if np.abs(potential.inverse(w)).sum() > radius:
        assert np.abs(theta).sum() == pytest.approx(radius, rel=1e-13)
        assert np.allclose(potential.inverse(dual), theta, rtol=1e-13, atol=0.0)
        cut = (np.abs(w) - np.abs(dual))[dual != 0.0]
        assert np.ptp(cut) <= 1e-15
    wide = potential.mirror(np.random.default_rng(0).standard_normal(50) * 10.0)
    theta, _ = L1Ball(radius).project(wide, potential)
    assert np.abs(theta).sum() == pytest.approx(radius, rel=1e-13)
