"""The blocked engine: equal to the naive loop, whatever the block, the cache and the members."""

import numpy as np
import pytest

from tunefree.averaging import Geometric, Polynomial, Uniform
from tunefree.kernels import RBF, Linear, decay
from tunefree.learners.kernel.blocked import Blocked, Cache, Facts, Member, Rows, workers
from tunefree.learners.pistol.linear import Isotropic
from tunefree.learners.pistol.rules import DoWG, PiSTOL
from tunefree.losses import Absolute, Logistic, Multinomial, SmoothedHinge

RULES = {"b = 1": PiSTOL(root=False), "root": PiSTOL(), "squares": PiSTOL(a=1.0, squares=True),
         "dowg": DoWG()}  # fmt: skip


def rows(n=200, d=3, k=1, dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)).astype(dtype)
    y = np.where(np.sin(2.0 * X[:, :k]) + 0.3 * rng.normal(size=(n, k)) > 0, 1.0, -1.0)
    return X, y, rng.integers(1, 3, n).astype(float)


def naive(K, Y, learner, weights, n_passes=1, suffix=False):
    """Every iterate is stored, as coefficients of all rows."""
    from reference import _average, _growth, _predictor, _slopes, _step

    rule, loss = learner.rule, learner.loss
    n, k = Y.shape
    g, A, largest, iterates = np.zeros((n, k)), np.zeros(k), 0.0, []
    for _ in range(n_passes):
        iterates = [] if suffix else iterates
        for t in range(n):
            norm = np.sqrt(K[t, t])
            new = max(largest, norm)
            A, largest = A + _growth(rule, loss.bound(), largest, new), new
            square = np.einsum("ik,ij,jk->k", g, K, g)
            iterates.append(_predictor(g, square, A, largest, rule))
            s = weights[t] * _slopes(loss, K[t] @ iterates[-1], Y[t])
            g = g.copy()
            g[t] -= s
            A = A + _step(rule, s * norm)
    last = _predictor(g, np.einsum("ik,ij,jk->k", g, K, g), A, largest, rule)
    return _average([*iterates, last], learner.average), last


def run(engine, X, Y, weights, size, n_passes=1, suffix=False, scored=False, n_jobs=1):
    squares = engine.kernel.diag(X)
    scores = []
    with workers(n_jobs) as team:
        for _ in range(n_passes):
            if suffix:
                engine.restart()
            for start in range(0, len(Y), size):
                r = np.arange(start, min(len(Y), start + size))
                known = engine.slot_of is not None
                facts = Facts.of(engine.kernel, X[r])
                block = Rows(
                    facts, r if known else None, squares[r].astype(float), Y[r], weights[r]
                )
                scores.append(engine.learn(team, block, scored))
    return scores


def coefficients(engine, found, n):
    """Coefficients by row instead of by slot."""
    out = np.zeros((n, found.shape[1]))
    held = engine.slot_of >= 0
    out[held] = found[engine.slot_of[held]]
    return out


@pytest.mark.parametrize("size", [1, 7, 64, 200])
@pytest.mark.parametrize(
    "rule, dtype, tolerance",
    [
        ("b = 1", np.float64, 1e-10),
        ("b = 1", np.float32, 1e-5),
        ("root", np.float64, 1e-9),
        ("squares", np.float64, 1e-10),
        ("squares", np.float32, 1e-5),
    ],
)
def test_blocked_is_naive(rule, size, dtype, tolerance):
    X, Y, w = rows(dtype=dtype)
    k = RBF(0.5)
    learner = Isotropic(RULES[rule], SmoothedHinge())
    K = k.gram(X.astype(float), X.astype(float))
    expected, last = naive(K, Y, learner, w)
    engine = Blocked(k, [Member(0.5, learner)], 1, X, len(X))
    run(engine, X, Y, w, size)
    for found, wanted in ((engine.mean(0), expected), (engine.last(0), last)):
        found, wanted = K @ coefficients(engine, found, len(X)), K @ wanted
        assert np.abs(found - wanted).max() <= tolerance * np.abs(wanted).max()


@pytest.mark.parametrize("loss", [Logistic(), Multinomial(), Absolute()])
@pytest.mark.parametrize("average", [Uniform(), Polynomial(), Geometric(0.01)])
def test_several_outputs_passes_and_averages(loss, average):
    X, Y, w = rows(k=3)
    learner = Isotropic(PiSTOL(), loss, average)
    expected, _ = naive(RBF(0.5).gram(X, X), Y, learner, w, n_passes=3)
    engine = Blocked(RBF(), [Member(0.5, learner)], 3, X, len(X))
    run(engine, X, Y, w, 64, n_passes=3)
    found = coefficients(engine, engine.mean(0), len(X))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


def test_the_average_of_the_last_pass():
    X, Y, w = rows()
    learner = Isotropic(RULES["b = 1"], SmoothedHinge())
    expected, _ = naive(RBF(0.5).gram(X, X), Y, learner, w, n_passes=3, suffix=True)
    engine = Blocked(RBF(), [Member(0.5, learner)], 1, X, len(X))
    run(engine, X, Y, w, 64, n_passes=3, suffix=True)
    found = coefficients(engine, engine.mean(0), len(X))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_that_are_kept_change_nothing(dtype):
    """Kept between passes or made anew: equal up to the order of sums; members may leave."""
    X, Y, w = rows(200, dtype=dtype)
    learner = Isotropic(PiSTOL(a=2.25, root=False), Logistic())
    members = [Member(g, learner) for g in (0.25, 0.5, 2.0)]
    values = decay(RBF().distances(X, X), 0.25)
    before = values.copy()
    engines = [
        Blocked(RBF(), members, 1, X, len(X)),
        Blocked(RBF(), members, 1, X, cache=Cache(values, 0.25)),
    ]
    for engine in engines:
        run(engine, X, Y, w, 64)
        engine.keep([1, 2])
        run(engine, X, Y, w, 64)
    np.testing.assert_array_equal(values, before)
    places = engines[0].slot_of[: len(X)]
    for i in range(2):
        kept = engines[1].mean(i)
        np.testing.assert_allclose(
            engines[0].mean(i)[places], kept, rtol=0,
            atol={np.float32: 1e-4, np.float64: 1e-10}[dtype] * np.abs(kept).max(),
        )  # fmt: skip


@pytest.mark.parametrize("scored", [False, True])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_members_share_a_sweep_but_nothing_else(n_jobs, scored, monkeypatch):
    """Bandwidths, rules and losses side by side, with a cache or without, by any threads."""
    X, Y, w = rows(300)
    members = [
        Member(g, Isotropic(rule, loss))
        for g in (0.25, 0.5, 1.0, 1.7)
        for rule, loss in ((PiSTOL(), SmoothedHinge()), (DoWG(), Logistic()))
    ]
    monkeypatch.setattr("tunefree.learners.kernel.blocked.TILE", 50)
    together = Blocked(RBF(), members, 1, X, len(X))
    cached = Blocked(RBF(), members, 1, X, cache=Cache(RBF().distances(X, X)))
    stream = Blocked(RBF(), members, 1, X)
    for engine in (together, cached, stream):
        run(engine, X, Y, w, 64, scored=scored, n_jobs=n_jobs)
    for i, member in enumerate(members):
        alone = Blocked(RBF(), [member], 1, X, len(X))
        run(alone, X, Y, w, 64, scored=scored)
        expected = RBF(member.gamma).gram(X, alone.support.rows) @ alone.mean(0)
        for engine in (together, stream):
            found = RBF(member.gamma).gram(X, engine.support.rows) @ engine.mean(i)
            np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())
        found = decay(RBF().distances(X, X), member.gamma) @ cached.mean(i)
        np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())


def test_progressive_scores_are_the_running_averages_predictions():
    X, Y, w = rows(60)
    learner = Isotropic(PiSTOL(), SmoothedHinge())
    K = RBF(0.5).gram(X, X)
    engine = Blocked(RBF(), [Member(0.5, learner)], 1, X, len(X))
    found = np.vstack([s[0][0] for s in run(engine, X, Y, w, 7, scored=True)])
    for t in (1, 5, 30, 59):
        average, _ = naive(K[: t + 1, : t + 1], Y[: t + 1], learner, w)
        # The running average before row t is that of the iterates that predict rows 0..t.
        assert found[t, 0] == pytest.approx(float(K[t, : t + 1] @ average[:, 0]), abs=1e-10)


def test_the_linear_kernel_is_linear_learning():
    from tunefree.designs import Dense

    X, Y, w = rows(k=3)
    learner = Isotropic(PiSTOL(), SmoothedHinge())
    state = learner.scan(learner.init(3, 3), Dense(X), Y, w)
    engine = Blocked(Linear(), [Member(None, learner)], 3, X, len(X))
    run(engine, X, Y, w, 64)
    for found, expected in ((engine.mean(0), learner.mean(state)),
                            (engine.last(0), learner.last(state))):  # fmt: skip
        folded = engine.support.rows.T @ found
        np.testing.assert_allclose(folded, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


def test_rows_of_weight_zero_are_left_out():
    X, Y, _ = rows()
    w = (np.arange(len(X)) % 3 > 0).astype(float)
    learner = Isotropic(PiSTOL(), SmoothedHinge())
    engine = Blocked(RBF(), [Member(0.5, learner)], 1, X, len(X))
    run(engine, X, Y, w, 64)
    assert (engine.slot_of[w == 0] == -1).all()
