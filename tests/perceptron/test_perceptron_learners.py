"""Laws of the separating learners: exact counts, certificates, spaces, blocks."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import nnls

from papers.datasets import make_perceptron_hard
from tunefree.core.protocols import BlockSource
from tunefree.engine.run import run
from tunefree.engine.sources import Block, Whole
from tunefree.perceptron.classical import Classical
from tunefree.perceptron.dual import Accelerated, MinNorm
from tunefree.perceptron.margins import Goal, GramRows, LinearRows, certify
from tunefree.perceptron.optimistic import EuclideanPlayer, Optimistic, project_simplex

NEVER = Goal(margin=0.0)
TIGHT = Goal(True, 1e-3, 0.0)


class Pieces(BlockSource):
    """Rows in blocks, as a file gives them."""

    def __init__(self, X, y, weights, size):
        self.X, self.y, self.weights, self.size = X, y, weights, size

    def blocks(self, epoch):
        for start in range(0, len(self.y), self.size):
            at = slice(start, start + self.size)
            yield Block(self.X[at], None, self.y[at, None], self.weights[at], start, epoch)


def whole(X, y, weights=None):
    return Whole(X, y[:, None], np.ones(len(y)) if weights is None else weights)


def solve(learner, X, y, weights=None, max_passes=20_000):
    start = learner.init(len(y)) if isinstance(learner, Optimistic) else learner.init()
    return run(learner, start, whole(X, y, weights), max_passes=max_passes).state


def exact_margin(Z):
    """The maximal margin by nonnegative least squares."""
    radius = np.sqrt((Z**2).sum(axis=1).max())
    A = np.vstack([Z.T / radius, np.ones(len(Z))])
    p, _ = nnls(A, np.append(np.zeros(Z.shape[1]), 1.0))
    return np.linalg.norm(Z.T @ (p / p.sum()))


def separable(rng, n=60, d=5, gap=0.1):
    X = rng.normal(size=(n, d))
    w = rng.normal(size=d)
    y = np.where(X @ w > 0, 1.0, -1.0)
    return X + gap * y[:, None] * w / np.linalg.norm(w), y


LEARNERS = {
    "paper": Optimistic(goal=TIGHT, step=1.0),
    "adaptive": Optimistic(goal=TIGHT),
    "euclidean": Optimistic(goal=TIGHT, player=EuclideanPlayer()),
    "accelerated": Accelerated(goal=TIGHT),
    "min-norm": MinNorm(goal=TIGHT),
}
every_learner = pytest.mark.parametrize("name", LEARNERS)


@pytest.mark.parametrize("n", range(1, 11))
def test_classical_updates_are_exactly_a_third_of_a_power_of_four(n):
    X, y = make_perceptron_hard(n)
    learner = Classical(cycles=10**7)
    result = run(learner, learner.init(n), whole(X, y), max_passes=2)
    assert result.converged
    assert result.state.n_updates == (4**n - 1) // 3
    assert (y * (X @ result.state.w) > 0).all()


def test_operations_of_the_classical_perceptron_are_the_papers():
    X, y = make_perceptron_hard(8)
    learner = Classical(cycles=10**6)
    assert run(learner, learner.init(8), whole(X, y), max_passes=2).state.n_operations == 109_230


@pytest.mark.parametrize("size", [1, 3, 8])
def test_classical_perceptron_does_not_depend_on_blocks(size):
    X, y = make_perceptron_hard(6)
    learner = Classical(bias=1.5)
    expected = run(learner, learner.init(6), whole(X, y), max_passes=10**5).state
    state = run(learner, learner.init(6), Pieces(X, y, np.ones(6), size), max_passes=10**5).state
    assert state.n_operations == expected.n_operations
    np.testing.assert_array_equal(state.w, expected.w)
    cyclic = learner._replace(cycles=10**5)
    state = run(cyclic, cyclic.init(6), whole(sparse.csr_array(X), y), max_passes=2).state
    assert state.n_operations == expected.n_operations
    np.testing.assert_array_equal(state.w, expected.w)


@pytest.mark.parametrize(("n", "rounds", "operations"), [(8, 489, 8_810), (12, 9_642, 250_704)])
def test_rounds_on_the_hard_data_are_those_of_the_paper(n, rounds, operations):
    state = solve(Optimistic(goal=NEVER, step=1.0), *make_perceptron_hard(n))
    assert (state.n_updates, state.n_operations) == (rounds, operations)


def test_current_vector_is_first_up_to_seven_rows_and_the_average_from_eight():
    for n in range(3, 10):
        X, y = make_perceptron_hard(n)
        state = solve(Optimistic(goal=NEVER, step=1.0), X, y)
        average_separates = (y * (X @ state.direction) > 0).all()
        assert average_separates == (n >= 8)


def test_adaptive_step_needs_a_third_of_the_rounds_on_the_hard_data():
    for n in (8, 10):
        data = make_perceptron_hard(n)
        paper = solve(Optimistic(goal=NEVER, step=1.0), *data).n_updates
        assert 3 * solve(Optimistic(goal=NEVER), *data).n_updates < paper


def test_adaptive_step_keeps_the_guarantee_and_its_credit():
    rng = np.random.default_rng(0)
    for _ in range(30):
        X, y = separable(rng, n=rng.integers(5, 80), d=rng.integers(2, 9), gap=0.01)
        learner = Optimistic(goal=Goal(True, 1e-9, 0.0))
        state = solve(learner, X, y, max_passes=200)
        assert state.excess <= 1e-9
        replaced = state.time * state.radius
        assert replaced >= state.n_updates - np.log2(state.n_updates) - 2.0


def test_rounds_stay_below_the_budget():
    rng = np.random.default_rng(1)
    for _ in range(40):
        X, y = separable(rng, n=rng.integers(3, 60), d=rng.integers(2, 6), gap=0.02)
        Z = y[:, None] * X
        radius = np.sqrt((Z**2).sum(axis=1).max())
        budget = radius * np.sqrt(2 * np.log(len(Z))) / exact_margin(Z)
        paper = solve(Optimistic(goal=NEVER, step=1.0), X, y).n_updates
        adaptive = solve(Optimistic(goal=NEVER), X, y).n_updates
        assert paper <= np.floor(budget) + 1
        assert adaptive <= np.floor(budget) + 2 + np.log2(budget)


def test_given_a_margin_the_fit_gives_up_at_the_budget():
    X, y = separable(np.random.default_rng(2), gap=0.05)
    y[0] *= -1  # surely not separable: the same row with both labels
    X, y = np.vstack([X, X[:1]]), np.append(y, -y[0])
    goal = Goal(margin=0.01)
    result = run(
        Optimistic(goal=goal, step=1.0),
        Optimistic().init(len(y)),
        whole(X, y),
        max_passes=100_000,
    )
    radius = np.sqrt((X**2).sum(axis=1).max())
    assert result.converged
    assert result.state.n_updates <= radius * np.sqrt(2 * np.log(len(y))) / 0.01 + 1
    assert result.state.certificate.lower == 0.0


@every_learner
def test_interval_contains_the_exact_margin(name):
    rng = np.random.default_rng(3)
    for _ in range(25):
        X, y = separable(rng, n=rng.integers(3, 50), d=rng.integers(2, 8))
        c = solve(LEARNERS[name], X, y, max_passes=400).certificate
        exact = exact_margin(y[:, None] * X)
        assert c.lower <= exact * (1 + 1e-9) and exact <= c.upper * (1 + 1e-9)
    if name in ("accelerated", "min-norm"):
        assert c.gap <= 1e-3


@every_learner
def test_certificates_hold_in_rational_arithmetic(name):
    rng = np.random.default_rng(4)
    for _ in range(100 // len(LEARNERS)):
        n, d = int(rng.integers(3, 12)), int(rng.integers(2, 5))
        X = rng.integers(-5, 6, size=(n, d)).astype(float)
        X[~X.any(axis=1)] = 1.0
        w = rng.integers(1, 4, size=d) * rng.choice([-1, 1], d)
        X = X[X @ w != 0]
        y = np.sign(X @ w)
        c = solve(LEARNERS[name], X, y, max_passes=200).certificate
        rows = [[Fraction(int(v * s)) for v in row] for row, s in zip(X, y, strict=True)]
        w, p = [Fraction(v) for v in c.w], [Fraction(v) for v in c.p]
        least = min(sum(a * b for a, b in zip(row, w, strict=True)) for row in rows)
        if c.lower > 0:
            assert least > 0 and least**2 >= Fraction(c.lower) ** 2 * sum(v * v for v in w)
        assert min(p) >= 0
        pulled = [sum(a * row[j] for a, row in zip(p, rows, strict=True)) for j in range(len(w))]
        assert sum(v * v for v in pulled) <= (Fraction(c.upper) * sum(p)) ** 2


@every_learner
def test_witnesses_certify_by_themselves(name):
    X, y = separable(np.random.default_rng(5))
    c = solve(LEARNERS[name], X, y, max_passes=500).certificate
    block = next(whole(X, y).blocks(0))
    again = certify(LinearRows(), block, c.w, c.p / c.p.sum())
    assert again.lower == pytest.approx(c.lower, rel=1e-9)
    assert again.upper == pytest.approx(c.upper, rel=1e-9)


@pytest.mark.parametrize("name", ["adaptive", "accelerated", "min-norm"])
def test_no_false_certificate_on_rows_that_are_not_separable(name):
    learner = LEARNERS[name]._replace(goal=Goal())
    rng = np.random.default_rng(6)
    for _ in range(1000 if name == "min-norm" else 100):
        n, d = int(rng.integers(3, 30)), int(rng.integers(1, 6))
        X, y = rng.normal(size=(n, d)), rng.choice([-1.0, 1.0], n)
        X, y = np.vstack([X, 2.0 * X[0]]), np.append(y, -y[0])
        c = solve(learner, X, y, max_passes=100).certificate
        assert c.lower == 0.0
        assert (y * (X @ c.w) <= 0).sum() == c.errors


def test_upper_bound_falls_to_rounding_without_a_separator():
    X, y = separable(np.random.default_rng(7), n=200)
    y[::10] *= -1
    assert solve(MinNorm(goal=NEVER), X, y).certificate.upper < 1e-12
    result = run(MinNorm(), MinNorm().init(), whole(X, y), max_passes=500)
    assert result.converged and result.state.certificate.upper < 1e-4 * result.state.radius


@pytest.mark.parametrize("size", [1, 7, 64])
@pytest.mark.parametrize("remember", [True, False])
def test_optimistic_does_not_depend_on_blocks(size, remember):
    X, y = separable(np.random.default_rng(8), n=90)
    weights = np.random.default_rng(9).integers(0, 3, 90).astype(float)
    learner, n = Optimistic(goal=TIGHT), 90 if remember else 0
    expected = solve(learner, X, y, weights)
    pieces = Pieces(X, y, weights, size)
    state = run(learner, learner.init(n), pieces, max_passes=20_000).state
    assert state.n_updates == expected.n_updates
    np.testing.assert_allclose(state.direction, expected.direction, rtol=1e-9)
    assert state.certificate.upper == pytest.approx(expected.certificate.upper, rel=1e-9)
    if remember:
        np.testing.assert_allclose(state.certificate.p, expected.certificate.p, atol=1e-12)
    else:
        assert state.certificate.p is None
        assert all(np.size(v) < 90 for v in state[:6])  # O(d) numbers


def test_workers_sums_merge():
    X, y = separable(np.random.default_rng(10), n=60)
    learner, state = Optimistic(goal=NEVER), Optimistic().init()
    alone = solve(learner, X, y)
    done = False
    while not done:
        parts = [learner.scan(state, b) for b in Pieces(X, y, np.ones(60), 20).blocks(0)]
        state, done = learner.turn(learner.merge(state, parts))
    assert state.n_updates == alone.n_updates
    np.testing.assert_allclose(state.direction, alone.direction, rtol=1e-9)


@every_learner
def test_dense_equals_sparse(name):
    X, y = separable(np.random.default_rng(11), n=50)
    X[np.abs(X) < 0.3] = 0.0
    dense = solve(LEARNERS[name], X, y, max_passes=150).certificate
    rows = solve(LEARNERS[name], sparse.csr_array(X), y, max_passes=150).certificate
    assert rows.upper == pytest.approx(dense.upper, rel=1e-8)
    assert rows.lower == pytest.approx(dense.lower, rel=1e-6)


@every_learner
def test_kernel_equals_the_explicit_features(name):
    X, y = separable(np.random.default_rng(12), n=40, d=3)
    products = [X[:, i] * X[:, j] for i in range(3) for j in range(3)]
    features = np.stack([np.ones(40), *np.sqrt(2.0) * X.T, *products], axis=1)
    learner = LEARNERS[name]._replace(space=LinearRows(bias=0.7))
    explicit = solve(learner, features, y, max_passes=150)
    kernel = solve(
        learner._replace(space=GramRows(bias=0.7)), (1.0 + X @ X.T) ** 2, y, max_passes=150
    )
    assert kernel.n_updates == explicit.n_updates
    assert kernel.n_operations == explicit.n_operations
    assert kernel.certificate.upper == pytest.approx(explicit.certificate.upper, abs=1e-6)
    w = y * kernel.certificate.w[0]
    np.testing.assert_allclose(w @ features, explicit.certificate.w[:-1], atol=1e-8)


@pytest.mark.parametrize("name", ["paper", "adaptive", "euclidean", "accelerated"])
def test_weight_is_repetition_at_any_scale(name):
    rng = np.random.default_rng(13)
    X, y = separable(rng, n=40)
    weights = rng.integers(0, 4, 40)
    repeated = solve(
        LEARNERS[name], X.repeat(weights, 0), y.repeat(weights), max_passes=60
    ).certificate
    weighted = solve(LEARNERS[name], X, y, weights.astype(float), max_passes=60).certificate
    scaled = solve(LEARNERS[name], 1024.0 * X, y, 0.5 * weights, max_passes=60).certificate
    for c, unit in ((weighted, 1.0), (scaled, 1024.0)):
        assert c.upper == pytest.approx(unit * repeated.upper, rel=1e-9)
        assert c.lower == pytest.approx(unit * repeated.lower, rel=1e-9)


def test_projection_onto_the_simplex_is_the_nearest_point():
    rng = np.random.default_rng(14)
    for _ in range(50):
        n = int(rng.integers(1, 20))
        q = rng.random(n)
        q /= q.sum()
        s, out = 10.0 ** rng.integers(-3, 6) * rng.normal(size=n), np.empty(n)
        project_simplex(s, q, out)
        assert out.min() >= 0 and out.sum() == pytest.approx(1.0)
        other = rng.dirichlet(np.ones(n))
        slope = (out - q * s) / q  # of sum (p - q s)^2 / (2 q): the angle is obtuse everywhere
        assert slope @ (other - out) >= -1e-9 * (1 + np.abs(slope).max())


def test_euclidean_player_needs_all_rows():
    with pytest.raises(ValueError, match="all rows"):
        Optimistic(player=EuclideanPlayer()).init()
