"""The blocked engine: equal to the naive loop, whatever the block, the cache and the members."""

import numpy as np
import pytest

from tunefree.core.process import workers
from tunefree.kernels.bandwidths import Facts
from tunefree.kernels.kernels import RBF, Linear, decay
from tunefree.parts.averaging import Geometric, PolynomialDecay, Uniform
from tunefree.parts.losses import Absolute, Logistic, Multinomial, SmoothedHinge
from tunefree.pistol.kernel_blocked import (
    Cache,
    KernelBlock,
    Member,
    Memory,
    MemoryEngine,
    StreamEngine,
)
from tunefree.pistol.linear import Isotropic
from tunefree.pistol.rules import DoWG, PiSTOL

RULES = {"b = 1": PiSTOL(root=False), "root": PiSTOL(), "squares": PiSTOL(a=1.0, squares=True),
         "dowg": DoWG()}  # fmt: skip


def rows(n=200, d=3, k=1, dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)).astype(dtype)
    y = np.where(np.sin(2.0 * X[:, :k]) + 0.3 * rng.normal(size=(n, k)) > 0, 1.0, -1.0)
    return X, y, rng.integers(1, 3, n).astype(float)


def engine_of(kernel, members, k, X, values=None, root=None, watched=None):
    """An engine for rows in memory, or for the values of all pairs of them."""
    facts = Facts.of(kernel, X) if values is None else None
    cache = None if values is None else Cache(values, root)
    watched = np.arange(len(X)) if watched is None else watched
    return MemoryEngine(kernel, members, k, Memory(len(X), watched, facts, cache))


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


def run(
    engine, X, Y, weights, size, n_passes=1, suffix=False, scored=False, n_jobs=1, ahead=lambda r: 0
):
    squares = engine.kernel.diag(X)
    scores = []
    with workers(n_jobs) as team:
        for _ in range(n_passes):
            if suffix:
                engine.restart()
            for start in range(0, len(Y), size):
                r = np.arange(start, min(len(Y), start + size))
                rows = squares[r].astype(float), Y[r], weights[r]
                if isinstance(engine, StreamEngine):
                    block = KernelBlock(Facts.of(engine.kernel, X[r]), None, *rows)
                else:
                    block = KernelBlock(None, r, *rows, ahead=0 if ahead is None else ahead(r))
                scores.append(engine.learn(team, block, scored))
    return scores


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
    engine = engine_of(k, [Member(0.5, learner)], 1, X)
    run(engine, X, Y, w, size)
    for found, wanted in ((engine.mean(0), expected), (engine.last(0), last)):
        found, wanted = K @ found, K @ wanted
        assert np.abs(found - wanted).max() <= tolerance * np.abs(wanted).max()


@pytest.mark.parametrize(
    "loss, average",
    [(Logistic(), Uniform()), (Multinomial(), PolynomialDecay()), (Absolute(), Geometric(0.01))],
)
def test_several_outputs_passes_and_averages(loss, average):
    X, Y, w = rows(k=3)
    learner = Isotropic(PiSTOL(), loss, average)
    expected, _ = naive(RBF(0.5).gram(X, X), Y, learner, w, n_passes=3)
    engine = engine_of(RBF(), [Member(0.5, learner)], 3, X)
    run(engine, X, Y, w, 64, n_passes=3)
    found = engine.mean(0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


def test_the_average_of_the_last_pass():
    X, Y, w = rows()
    learner = Isotropic(RULES["b = 1"], SmoothedHinge())
    expected, _ = naive(RBF(0.5).gram(X, X), Y, learner, w, n_passes=3, suffix=True)
    engine = engine_of(RBF(), [Member(0.5, learner)], 1, X)
    run(engine, X, Y, w, 64, n_passes=3, suffix=True)
    found = engine.mean(0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_that_are_kept_change_nothing(dtype):
    """Kept between passes or made anew: equal up to the order of sums; members may leave."""
    X, Y, w = rows(200, dtype=dtype)
    learner = Isotropic(PiSTOL(a=2.25, root=False), Logistic())
    members = [Member(g, learner) for g in (0.25, 0.5, 2.0)]
    values = decay(RBF().distances(X, X), 0.25)
    wider = np.square(values)
    engines = [
        engine_of(RBF(), members, 1, X),
        engine_of(RBF(), members, 1, X, values, 0.25),
    ]
    for engine in engines:
        run(engine, X, Y, w, 64)
        engine.keep([1, 2])
        run(engine, X, Y, w, 64)
    np.testing.assert_array_equal(values, wider)  # those of the narrowest that is left
    for i in range(2):
        kept = engines[1].mean(i)
        np.testing.assert_allclose(
            engines[0].mean(i), kept, rtol=0,
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
    monkeypatch.setattr("tunefree.kernels.bandwidths.TILE", 50)
    together = engine_of(RBF(), members, 1, X)
    cached = engine_of(RBF(), members, 1, X, RBF().distances(X, X))
    stream = StreamEngine(RBF(), members, 1, X)
    for engine in (together, cached, stream):
        run(engine, X, Y, w, 64, scored=scored, n_jobs=n_jobs)
    for i, member in enumerate(members):
        alone = engine_of(RBF(), [member], 1, X)
        run(alone, X, Y, w, 64, scored=scored)
        K = RBF(member.gamma).gram(X, X)
        expected = K @ alone.mean(0)
        streamed = RBF(member.gamma).gram(X, stream.support.rows) @ stream.mean(i)
        for found in (streamed, K @ together.mean(i), K @ cached.mean(i)):
            np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_rows_that_are_watched_are_told_the_average(n_jobs, monkeypatch):
    """Whatever the tiles, after a pass and in the middle of one; a restart is one for them, too."""
    X, Y, w = rows(k=3)
    monkeypatch.setattr("tunefree.kernels.bandwidths.TILE", 37)
    members, numbers = [Member(g, Isotropic(PiSTOL())) for g in (0.5, 1.0)], np.arange(3, 200, 7)
    engine = engine_of(RBF(), members, 3, X, watched=numbers)
    for stop in (200, 150):
        run(engine, X[:stop], Y[:stop], w, 64, suffix=True, n_jobs=n_jobs)
        with workers(n_jobs) as team:
            engine.update_sums(team)
        for i, member in enumerate(members):
            expected = RBF(member.gamma).gram(X[numbers], X[: engine.n_slots]) @ engine.mean(i)
            np.testing.assert_allclose(engine.watched(i), expected, rtol=0, atol=1e-10)


def test_rows_that_are_not_asked_for_again_need_not_be_told():
    X, Y, w = rows()
    members = [Member(g, Isotropic(PiSTOL())) for g in (0.5, 1.0)]
    engines = [engine_of(RBF(), members, 1, X) for _ in range(2)]
    for engine, ahead in zip(engines, (None, lambda r: r[-1] + 1), strict=True):
        run(engine, X, Y, w, 20, scored=True, ahead=ahead)
    for i in range(2):
        np.testing.assert_array_equal(engines[0].mean(i), engines[1].mean(i))


def test_progressive_scores_are_the_running_averages_predictions():
    X, Y, w = rows(60)
    learner = Isotropic(PiSTOL(), SmoothedHinge())
    K = RBF(0.5).gram(X, X)
    engine = engine_of(RBF(), [Member(0.5, learner)], 1, X)
    found = np.vstack([s[0][0] for s in run(engine, X, Y, w, 7, scored=True)])
    for t in (1, 5, 30, 59):
        average, _ = naive(K[: t + 1, : t + 1], Y[: t + 1], learner, w)
        # The running average before row t is that of the iterates that predict rows 0..t.
        assert found[t, 0] == pytest.approx(float(K[t, : t + 1] @ average[:, 0]), abs=1e-10)


def test_the_linear_kernel_is_linear_learning():
    from tunefree.rows.designs import Dense

    X, Y, w = rows(k=3)
    learner = Isotropic(PiSTOL(), SmoothedHinge())
    state = learner.scan(learner.init(3, 3), Dense(X), Y, w)
    engine = engine_of(Linear(), [Member(None, learner)], 3, X)
    run(engine, X, Y, w, 64)
    for found, expected in ((engine.mean(0), learner.mean(state)),
                            (engine.last(0), learner.last(state))):  # fmt: skip
        folded = X.T @ found
        np.testing.assert_allclose(folded, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


def test_rows_of_weight_zero_are_left_out():
    X, Y, _ = rows()
    w = (np.arange(len(X)) % 3 > 0).astype(float)
    learner = Isotropic(PiSTOL(), SmoothedHinge())
    engine = engine_of(RBF(), [Member(0.5, learner)], 1, X)
    run(engine, X, Y, w, 64)
    assert not engine.mean(0)[w == 0].any() and engine.mean(0)[w > 0].any()
