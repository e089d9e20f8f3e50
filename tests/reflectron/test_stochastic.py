"""The stochastic Reflectron: lazy steps are the plain recursion, whatever the chunks."""

import numpy as np
import pytest
from scipy import sparse

from tunefree import bounds
from tunefree.parts.averaging import AVERAGES
from tunefree.parts.links import LINKS, Logit
from tunefree.reflectron.constraints import Box, L1Ball, LpBall, NonNegative, NuclearBall, Simplex
from tunefree.reflectron.mirror import Batch, Configuration, Mirror
from tunefree.reflectron.potentials import (
    POTENTIALS,
    Entropy,
    Euclidean,
    Hypentropy,
    PNorm,
    Power,
    Spectral,
)  # fmt: skip
from tunefree.reflectron.stochastic_steps import Lazy, MiniBatches, discounted_risk, stochastic
from tunefree.rows.designs import Dense

ONLINE = {name: part for name, part in AVERAGES.items() if not hasattr(part, "within")}
SCHEMES = {"none": None, **ONLINE}
GEOMETRIES = [
    Configuration(Euclidean()),
    Configuration(PNorm(1.5)),
    Configuration(PNorm("log")),
    Configuration(PNorm(1.1)),
    Configuration(PNorm(1.03)),
    Configuration(Hypentropy(1e-2)),
    Configuration(Power(1.5)),
    Configuration(Entropy()),
    Configuration(Euclidean(), NonNegative()),
    Configuration(PNorm(1.5), NonNegative()),
    Configuration(Hypentropy(1e-2), Box(-0.1, 0.3)),
]


def _rows(n=300, d=20, k=2, seed=0, noise=0.1, density=0.3, link=LINKS["logit"]):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d)) * (rng.random((n, d)) < density)
    theta = np.zeros((k, d))
    theta[:, :3] = rng.dirichlet(np.ones(3), k)
    y = link.mean(X @ theta.T) + noise * rng.uniform(-1, 1, (n, k))
    return X, y, theta


def _inverse(potential, w):
    """The table of potentials, as it stands."""
    if isinstance(potential, PNorm):
        p = potential.exponent(w.size)
        q = p / (p - 1.0)
        norm = np.sum(np.abs(w) ** q) ** (1.0 / q)
        return norm ** (2.0 - q) * np.sign(w) * np.abs(w) ** (q - 1.0) if norm > 0.0 else 0.0 * w
    if isinstance(potential, Entropy):
        e = np.exp(w - w.max())
        return e / e.sum()
    if isinstance(potential, Hypentropy):
        return potential.beta * np.sinh(w)
    if isinstance(potential, Power):
        return np.sign(w) * (np.abs(w) / potential.q) ** (1.0 / (potential.q - 1.0))
    if isinstance(potential, Spectral):
        u, s, v = np.linalg.svd(w, full_matrices=False)
        return (u * _inverse(potential.base, s)) @ v
    return w


def _plain(potential, X, y, steps, per_output=False, scheme=None):
    """Equation 9 row by row without a constraint, from formulas alone, and its average."""
    (k, d), total = (y.shape[1], X.shape[1]), 0.0
    w, b, sums, b_sum = np.zeros((k, d)), np.zeros(k), np.zeros((k, d)), np.zeros(k)
    for t, (x, target, step) in enumerate(zip(X, y, steps, strict=True)):
        rows = [_inverse(potential, w[j : j + 1]) for j in range(k)]
        theta = np.concatenate(rows) if per_output else _inverse(potential, w)
        mass = scheme.mass(float(t), t + 1.0)
        sums, b_sum, total = sums + mass * theta, b_sum + mass * b, total + mass
        r = 1.0 / (1.0 + np.exp(-(theta @ x + b))) - target
        w, b = w - step * np.outer(r, x), b - step * r
    return sums / total, b_sum / total


def _reference(link, configuration, scheme, X, y, importance, steps):
    """Equations 9 and 10 row by row, and the average as a sum."""
    (k, d), total = (y.shape[1], X.shape[1]), 0.0
    theta, dual = (a[0] for a in configuration.place(np.zeros((1, k, d))))
    b, sums, b_sum, iterates = np.zeros(k), np.zeros((k, d)), np.zeros(k), 0
    for x, target, w, step in zip(X, y, importance, steps, strict=True):
        mass = 1.0 if scheme is None else scheme.mass(float(iterates), iterates + 1.0)
        sums, b_sum, total = sums + mass * theta, b_sum + mass * b, total + mass
        s = theta @ x + b
        r = link.mean(s) - target
        dual = dual - step * w * np.outer(r, x)
        theta, dual = (a[0] for a in configuration.place(dual[None]))
        b, iterates = b - step * w * r, iterates + 1
    return (theta, b) if scheme is None else (sums / total, b_sum / total)


@pytest.mark.parametrize("configuration", GEOMETRIES, ids=repr)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_lazy_steps_are_equations_9_and_10(configuration, scheme):
    X, y, _ = _rows()
    rng = np.random.default_rng(1)
    importance, steps = rng.uniform(0.5, 2.0, 300), np.full(300, 0.3)
    learner = stochastic(Logit(), configuration, SCHEMES[scheme], None, True, 20)
    assert isinstance(learner, Lazy)
    state = learner.scan(learner.init(20, 2), X, y, importance, steps)
    theta, offset = learner.read(state)
    expected = _reference(Logit(), configuration, SCHEMES[scheme], X, y, importance, steps)
    assert np.allclose(theta, expected[0], rtol=1e-9, atol=1e-12)
    assert np.allclose(offset, expected[1], rtol=1e-9, atol=1e-12)


# Constraints that hold anyway: one by projection, one coordinate by coordinate.
INACTIVE = {"entropy": (Simplex(), NonNegative()), "spectral": (NuclearBall(1e9),)}
FREE = {n: p for n, p in POTENTIALS.items() if n not in ("whitened", "grouped")}  # as spectral is
TABLE = {**FREE, "p = 1.03": PNorm(1.03), "hypentropy": Hypentropy(1e-3)}


@pytest.mark.parametrize("k, per_output", [(1, False), (3, False), (3, True)])
@pytest.mark.parametrize("name", TABLE)
def test_every_form_of_a_potential_is_the_same_law(name, k, per_output):
    """Lazy, in batches of one, and with constraints that hold anyway: equation 9."""
    X, y, _ = _rows(200, 30, k, density=0.2)
    potential, steps = TABLE[name], np.full(200, 0.3)
    scheme, ones = AVERAGES["uniform"], np.ones(200)
    expected = _plain(potential, X, y, steps, per_output, scheme)
    forms = [
        stochastic(Logit(), Configuration(potential, c, None, per_output), scheme, None, True, 30)
        for c in (None, *INACTIVE.get(name, (L1Ball(1e9), LpBall(1.5, 1e9))))
    ]
    forms.append(MiniBatches(Logit(), Configuration(potential, None, None, per_output), scheme))
    if getattr(potential, "separable", False):
        box = Configuration(potential, Box(-1e9, 1e9), None, per_output)
        forms.append(stochastic(Logit(), box, scheme, None, True, 30))
    assert (type(forms[0]) is Lazy) == (name != "spectral")
    for learner in forms:
        got = learner.read(learner.scan(learner.init(30, k), X, y, ones, steps))
        for a, b in zip(got, expected, strict=True):
            assert np.abs(a - b).max() <= 1e-10 * np.abs(b).max(), learner


@pytest.mark.parametrize("k, per_output", [(1, False), (3, False), (3, True)])
@pytest.mark.parametrize("name", TABLE)
def test_batches_of_all_rows_are_the_batch_form(name, k, per_output):
    X, y, _ = _rows(50, 30, k, density=0.2)
    configuration = Configuration(TABLE[name], None, 0.8, per_output)
    batch = Mirror(Logit(), (configuration,), last=True)
    state, sheet = batch.init(30, k), Batch(Dense(X), y, np.ones(50))
    learner = MiniBatches(Logit(), configuration, None, size=50)
    walk = learner.init(30, k)
    for _ in range(7):
        state, _ = batch.turn(batch.scan(state, sheet))
        walk = learner.scan(walk, X, y, np.ones(50), np.full(50, 0.8))
    theta, offset = learner.read(walk)
    assert np.abs(theta - state.trial.theta[0, 0]).max() <= 1e-10 * np.abs(theta).max()
    assert np.allclose(offset, state.trial.offset[0, 0], rtol=1e-10)


@pytest.mark.parametrize("p", [1.03, 1.1, "log"])
def test_lazy_averages_of_p_norms_keep_every_digit(p):
    """Duals that grow by orders of magnitude, and fall again: what came first swallows nothing."""
    X, y, _ = _rows(1500, 40, 1, density=1.0)
    sizes = np.repeat([1e-6, 1e-3, 0.1, 1e-4, 0.03], 300)
    y[900:1200] = 1.0 - y[900:1200]
    scheme = AVERAGES["uniform"]
    learner = stochastic(Logit(), Configuration(PNorm(p)), scheme, None, True, 40)
    state = learner.scan(learner.init(40), X, y, np.ones(1500), sizes)
    expected = _plain(PNorm(p), X, y, sizes, scheme=scheme)
    for a, b in zip(learner.read(state), expected, strict=True):
        assert np.abs(a - b).max() <= 1e-10 * np.abs(b).max()


@pytest.mark.parametrize("step", [0.1, 3.0, 300.0])
def test_the_lazy_entropy_stays_on_the_simplex(step):
    """Whatever the duals do: e^w of them spans more than floating point does."""
    rng = np.random.default_rng(5)
    Z = rng.uniform(0, 1, (3000, 20))
    v = Z[:, :3] @ [0.5, 0.3, 0.2] - 1.0
    learner = stochastic(
        LINKS["identity"], Configuration(Entropy()), AVERAGES["uniform"], None, False, 20
    )
    last = learner._replace(scheme=None)
    for each in (learner, last):
        state = each.init(20)
        for part in np.split(np.arange(3000), 30):
            state = each.scan(state, Z[part], v[part, None], np.ones(100), np.full(100, step))
            assert abs(each.read(state)[0].sum() - 1.0) <= 1e-12
    if step == 300.0:
        assert np.ptp(state.dual) > 710.0


@pytest.mark.parametrize("name", LINKS)
def test_every_link_steps_alike_in_python_and_in_kernels(name):
    X, y, _ = _rows(link=LINKS[name])
    ones, steps = np.ones(300), np.full(300, 0.1)
    configuration = Configuration(Hypentropy(0.1))
    learner = stochastic(LINKS[name], configuration, None, None, True, 20)
    theta, _ = learner.read(learner.scan(learner.init(20, 2), X, y, ones, steps))
    expected, _ = _reference(LINKS[name], configuration, None, X, y, ones, steps)
    assert np.allclose(theta, expected, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize("configuration", GEOMETRIES[:4], ids=repr)
def test_chunks_make_no_difference_to_the_last_bit(configuration, size):
    X, y, _ = _rows(2100)
    ones, steps = np.ones(2100), np.full(2100, 0.2)
    learner = stochastic(Logit(), configuration, AVERAGES["uniform"], None, True, 20, size)
    whole = learner.read(learner.scan(learner.init(20, 2), X, y, ones, steps))
    for rows in (1, 64, 1000):
        state = learner.init(20, 2)
        for start in range(0, 2100, rows):
            part = slice(start, start + rows)
            state = learner.scan(state, X[part], y[part], ones[part], steps[part])
        for a, b in zip(whole, learner.read(state), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("size", [1, 5])
@pytest.mark.parametrize("constraint", [None, NonNegative()])
def test_sparse_rows_give_the_same(size, constraint):
    X, y, _ = _rows()
    configuration = Configuration(PNorm(1.3), constraint)
    learner = stochastic(Logit(), configuration, AVERAGES["geometric"], None, True, 20, size)
    dense, stored = (
        learner.read(learner.scan(learner.init(20, 2), rows, y, np.ones(300), np.full(300, 0.3)))
        for rows in (X, sparse.csr_array(X))
    )
    assert np.allclose(dense[0], stored[0], rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize(
    "configuration",
    [Configuration(Euclidean(), L1Ball(0.5)), Configuration(Hypentropy(1e-3), L1Ball(0.5)),
     Configuration(PNorm(1.5), Simplex(0.7)), Configuration(PNorm(1.02))],
    ids=repr,
)  # fmt: skip
def test_other_geometries_step_by_projection(configuration):
    X, y, _ = _rows(k=1)
    learner = stochastic(Logit(), configuration, AVERAGES["polynomial"], None, True, 20)
    assert isinstance(learner, MiniBatches)
    ones, steps = np.ones(300), np.full(300, 0.3)
    theta, _ = learner.read(learner.scan(learner.init(20, 1), X, y, ones, steps))
    expected, _ = _reference(Logit(), configuration, AVERAGES["polynomial"], X, y, ones, steps)
    assert np.allclose(theta, expected, rtol=1e-9, atol=1e-12)
    if configuration.constraint is not None:
        assert configuration.constraint.contains(theta[0])


def test_batches_of_all_rows_are_full_batch_steps():
    X, y, _ = _rows(density=1.0)
    configuration = Configuration(Hypentropy(1e-2), None, 0.8)
    batch = Mirror(Logit(), (configuration,), last=True)
    state, sheet = batch.init(20, 2), Batch(Dense(X), y, np.ones(300))
    for _ in range(7):
        state, _ = batch.turn(batch.scan(state, sheet))
    learner = stochastic(Logit(), configuration, None, None, True, 20, 300)
    walk = learner.init(20, 2)
    for _ in range(7):
        walk = learner.scan(walk, X, y, np.ones(300), np.full(300, 0.8))
    theta, offset = learner.read(walk)
    assert np.allclose(theta, state.trial.theta[0, 0], rtol=1e-10)
    assert np.allclose(offset, state.trial.offset[0, 0], rtol=1e-10)


def test_many_small_steps_find_the_predictor_of_the_batch_form():
    """Equation 9 converges to where equation 7 does: the minimum of the matching loss."""
    X, y, _ = _rows(400, 5, 1, density=1.0)
    configuration = Configuration(Hypentropy(0.1))
    batch = Mirror(Logit(), (configuration,), patience=10**6, last=True)
    state, sheet = batch.init(5), Batch(Dense(X), y, np.ones(400))
    for _ in range(300):
        state, done = batch.turn(batch.scan(state, sheet))
        if done:
            break
    target, _ = batch.read(state)
    learner = stochastic(Logit(), configuration, AVERAGES["polynomial"], None, True, 5)
    walk, errors, rng = learner.init(5), [], np.random.default_rng(0)
    for epoch in range(300):
        order = rng.permutation(400)
        walk = learner.scan(walk, X[order], y[order], np.ones(400), np.full(400, 0.05))
        if epoch in (20, 299):
            errors.append(np.abs(learner.read(walk)[0] - target).max())
    assert errors[1] < 2e-3 * np.abs(target).max() and errors[1] < errors[0]


def test_the_risk_is_that_of_predictions_made_before_learning():
    X, y, _ = _rows(60, k=1)
    uniform, hypentropy = AVERAGES["uniform"], Configuration(Hypentropy(1e-2))
    for size, scheme, geometry in (
        (1, None, hypentropy), (1, uniform, hypentropy), (4, uniform, hypentropy),
        (1, uniform, Configuration(PNorm(1.1))),
    ):  # fmt: skip
        learner = stochastic(Logit(), geometry, scheme, None, True, 20, size)
        state, squares = learner.init(20), []
        for i in range(0, 60, size):
            part = slice(i, i + size)
            # The average that predicts a row holds the iterate that steps on it.
            n, steps = i + size, np.r_[np.full(i, 0.3), np.zeros(size)]
            shown = learner.scan(learner.init(20), X[:n], y[:n], np.ones(n), steps)
            theta, offset = learner.read(shown)
            squares += list((Logit().mean(X[part] @ theta[0] + offset) - y[part, 0]) ** 2)
            state = learner.scan(state, X[part], y[part], np.ones(size), np.full(size, 0.3))
        assert discounted_risk(state.clock) == pytest.approx(np.mean(squares), rel=1e-9)


def test_a_step_that_is_too_long_ends_in_an_infinite_risk():
    X, y, _ = _rows()
    for size in (1, 3):
        learner = stochastic(LINKS["identity"], GEOMETRIES[0], None, None, True, 20, size)
        state = learner.scan(learner.init(20, 2), X, y, np.ones(300), np.full(300, 1e150))
        assert discounted_risk(state.clock) == np.inf


# --- Theorems ------------------------------------------------------------------------------------


def _walk(potential, radius, theta, step, rounds, noise, seed):
    """Lowest risk on fresh rows so far, after 16, 32, ... rounds of equations 9 and 10."""
    rng, d = np.random.default_rng(seed), len(theta)
    X = rng.uniform(-1, 1, (rounds, d))
    y = Logit().mean(X @ theta)
    if noise:
        y = (rng.random(rounds) < y).astype(float)
    fresh = rng.uniform(-1, 1, (500, d))
    truth = Logit().mean(fresh @ theta)
    constraint = None if radius is None else LpBall(potential.convexity(d)[1], radius)
    learner = stochastic(Logit(), Configuration(potential, constraint), None, None, False, d)
    state, lowest, at = learner.init(d), np.inf, []
    for t in range(0, rounds, 8):
        part = slice(t, t + 8)
        state = learner.scan(state, X[part], y[part, None], np.ones(8), np.full(8, step))
        reads = learner.read(state)[0][0]
        lowest = min(lowest, np.mean((Logit().mean(fresh @ reads) - truth) ** 2))
        if t >= 8 and (t + 8) & (t + 7) == 0:
            at.append(lowest)
    return np.array(at)


TRUTH = np.array([1.5, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
ROUNDS = 2.0 ** np.arange(4, 11)


def _constants(potential):
    """C, sigma and the potential at the truth, for rows in [-1, 1]^8."""
    sigma, p = potential.convexity(8)
    return 8.0 ** (1.0 - 1.0 / p), sigma, potential.value(TRUTH)


@pytest.mark.parametrize("potential", [Euclidean(), PNorm(1.5)], ids=repr)
@pytest.mark.parametrize("n_runs", [5, 20])
def test_theorem_5_2_holds_and_the_risk_falls_like_one_over_t(potential, n_runs):
    """Runs on noiseless targets; the theorem is about half the squared error."""
    C, sigma, value = _constants(potential)
    step = bounds.reflectron_step(C, 0.25, convexity=sigma, theorem="5.2")
    promised = 2.0 * np.array(
        [bounds.reflectron_stochastic(T, C, 0.25, value, 0.05, convexity=sigma) for T in ROUNDS]
    )
    walks = [_walk(potential, None, TRUTH, step, 1024, False, s) for s in range(n_runs)]
    lowest = np.array(walks)
    assert (lowest <= promised).all()
    rate = np.polyfit(np.log(ROUNDS), np.log(np.median(lowest, axis=0)), 1)[0]
    assert rate < -1.0


@pytest.mark.parametrize("potential", [Euclidean(), PNorm(1.5)], ids=repr)
@pytest.mark.parametrize("n_runs", [5, 20])
def test_theorem_5_1_holds_and_the_risk_falls_like_one_over_root_t(potential, n_runs):
    """Runs on Bernoulli targets, within a ball; the step follows from the horizon."""
    C, sigma, value = _constants(potential)
    lowest = []
    for T in (64, 256, 1024):
        step = bounds.reflectron_step(C, 0.25, convexity=sigma, theorem="5.1", rounds=T)
        runs = [_walk(potential, 2.5, TRUTH, step, T, True, s)[-1] for s in range(n_runs)]
        promised = 2.0 * bounds.reflectron_stochastic_noisy(
            T, C, 0.25, value, 5.0, 0.05, convexity=sigma
        )
        assert max(runs) <= promised
        lowest.append(np.median(runs))
    rate = np.polyfit(np.log([64, 256, 1024]), np.log(lowest), 1)[0]
    assert rate <= -0.5
