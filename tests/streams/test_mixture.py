"""Mixtures for streams that drift: their steps, their guarantees; no split changes a bit."""

import math

import numpy as np
import pytest

from tunefree import StreamClassifier, StreamRegressor
from tunefree.bounds import stream_coverage, stream_mixing, stream_path_regret
from tunefree.streams.betting import ALPHAS, FIRST, bet, bettors, radius
from tunefree.streams.classes import CLIP
from tunefree.streams.implicit import implicit_margins, implicit_scores
from tunefree.streams.learner import Mixture
from tunefree.streams.state import (
    DRIFTS,
    MOST_WHOLE,
    N_MEMBERS,
    NARROW,
    RATES,
    SPARSE,
    WHOLE,
    WINDOW,
)


def implicit_margin(m, E):
    new = np.zeros(1)
    implicit_margins(np.array([m]), np.array([E]), new)
    return new[0]


def test_implicit_steps_of_margins_are_exact():
    """t = m + E / (1 + exp(t)), to 1e-8 relative to what is added up, alone or with others."""
    energies = (0.0, 1e-9, 0.3, 7.0, 9.0, 70.0, 1e3, 1e6, 1e12)
    every = [(m, E) for m in (-500.0, -20.0, -1.0, 0.0, 0.5, 30.0) for E in energies]
    for m, E in every:
        t = implicit_margin(m, E)
        slope = 1.0 / (1.0 + math.exp(t)) if t > 0 else 1.0 - 1.0 / (1.0 + math.exp(-t))
        assert abs(t - m - E * slope) <= 1e-8 * (1.0 + abs(m) + E * slope)
    new, (margins, energies) = np.zeros(len(every)), np.array(every).T.copy()
    implicit_margins(margins, energies, new)
    alone = [implicit_margin(m, E) for m, E in every]
    np.testing.assert_allclose(new, alone, rtol=1e-9, atol=1e-9)


def test_implicit_steps_of_scores_are_exact():
    """h' = h + E (e_code - softmax(h')) for whatever scores and energies."""
    rng = np.random.default_rng(0)
    for E in (0.0, 0.1, 3.0, 1e3, 1e6):
        for m in (2, 5, 30):
            h, new, chances = 10.0 * rng.normal(size=m), np.zeros(m), np.zeros(m)
            implicit_scores(h, 1, E, new, chances)
            assert chances.sum() == pytest.approx(1.0)
            gap = new - h - E * (np.eye(m)[1] - chances)
            assert np.abs(gap).max() <= 1e-4 * (1.0 + E * (1.0 - chances[1]))


def opposed(n=700, seed=0):
    """A stream whose labels are the opposite of what is said, half of the time."""
    rng = np.random.default_rng(seed)
    model, kept = StreamClassifier(), []
    for t in range(n):
        x = rng.normal(size=3) * (1 + 9 * (t > n // 2))
        p = model.predict_proba_one(x).get(True, 0.5)
        y = bool(p < 0.5) if t % 200 < 100 else bool(x[t // 150 % 3] > 0)
        model.learn_one(x, y)
        kept.append((x, y))
    return model, kept


def test_the_mixture_is_near_its_best_member_on_every_interval():
    """Guarantee 1 above labels that are chosen against the answers."""
    model, _ = opposed()
    rows = [0, *model.drift_["rows"].astype(int)]
    tightest = math.inf
    for i in range(0, len(rows), 5):
        for j in range(i + 1, len(rows), 7):
            told = model.excess(rows[i], rows[j])
            assert told["excess"] <= told["bound"]
            tightest = min(tightest, told["bound"] - told["excess"])
    assert tightest < 25.0  # the excess is positive somewhere: the labels did their worst


def test_the_mixture_of_densities_is_near_its_best_member():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(600, 2))
    y = np.where(np.arange(600) % 120 < 60, X[:, 0], -5.0 * X[:, 1]) + rng.standard_t(2, size=600)
    model = StreamRegressor().partial_fit(X, y)
    for start in range(0, 500, 50):
        for stop in range(start + 50, 600, 90):
            told = model.excess(start, stop)
            assert told["excess"] <= told["bound"]
            assert told["bound"] == stream_mixing(told["stop"], told["start"], clipped=False)


@pytest.mark.parametrize("rate", [0, 4, 7])
def test_implicit_steps_follow_a_path(rate):
    """Guarantee 2, by a recursion of its own; and the member of the learner is that recursion."""
    _, kept = opposed(400, seed=rate)
    model = StreamClassifier()
    drawn = np.random.default_rng(rate)
    w, mean = np.zeros(4), 0.0
    count, middle, square = 0.0, np.zeros(3), np.zeros(3)
    told = {name: [] for name in ("A", "loss", "slope", "norm", "w", "u", "theirs")}
    u = drawn.normal(size=4)
    for t, (x, y) in enumerate(kept):
        count += 1.0
        gap = x - middle
        middle = middle + gap / count
        square = square + gap * (x - middle)
        with np.errstate(invalid="ignore", divide="ignore"):
            z = np.append(1.0, np.where(square > 0, (x - middle) / np.sqrt(square / count), 0.0))
        norm = z @ z
        mean += (norm - mean) / (t + 1.0)
        A = mean / RATES[rate]
        side = 1.0 if (y == kept[0][1]) is False else -1.0  # the first label is class 0
        if t % 50 == 0:
            u = u + 0.3 * drawn.normal(size=4)
        margin = side * (w @ z)
        for name, value in zip(
            told,
            (A, np.logaddexp(0, -margin), 1 / (1 + np.exp(margin)), norm**0.5, w, u,
             np.logaddexp(0, -side * (u @ z))), strict=True,
        ):  # fmt: skip
            told[name].append(value)
        new = implicit_margin(margin, norm / A)
        w = w + side / A / (1.0 + np.exp(new)) * z
        model.learn_one(x, y)
    bound = stream_path_regret(*(told[n] for n in ("A", "loss", "slope", "norm", "w", "u")))
    assert sum(told["loss"]) - sum(told["theirs"]) <= bound
    ours = model.mixture_.parts.weights[0, :, len(DRIFTS) + rate]
    np.testing.assert_allclose(ours, w, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", ["binary", "several", "numbers"])
def test_the_latest_rows_vote_by_their_nearness(kind):
    """What the voting members say, by a formula of its own, before and after the ring is full."""
    make, X, y = stream(kind, WINDOW + 100)
    model, weights = make(), np.resize([1.0, 2.0, 0.5], len(X))
    for a, b in ((0, 9), (9, 200), (200, len(X) - 1)):
        model.partial_fit(X[a:b], y[a:b], sample_weight=weights[a:b])
        mixture = model.mixture_
        mixture.ask_row(np.empty(0, dtype=np.int64), X[b].copy())
        said = mixture.prediction
        s = mixture.parts.moments
        count, gap = s[0] + 1.0, X[b] - s[1]
        z = gap * (1 - 1 / count) / np.sqrt((s[2] + gap**2 * (1 - 1 / count)) / count)
        mean = mixture.numbers["norm"]
        mean += (1.0 + z @ z - mean) / (b + 1.0)
        held = mixture.memory[:, np.arange(max(b - WINDOW, 0), b) % WINDOW]
        r = ((held[:4] - z[:, None]) ** 2).sum(axis=0)
        near = np.maximum(1.0 - NARROW[0] * (r - r.min()) / (16.0 * np.sqrt(mean - 1.0)), 0.0)
        for k, g in enumerate(NARROW):
            votes, k = held[5] * near ** (8 * g / NARROW[0]), len(DRIFTS) + len(RATES) + k
            if kind == "numbers":
                assert said[k] == pytest.approx(votes @ held[4] / votes.sum(), rel=1e-9)
                continue
            logs = np.log([votes[held[4] == c].sum() + 0.5 for c in range(mixture.width)])
            ours = said[: mixture.m * N_MEMBERS].reshape(mixture.m, -1)[:, k]
            expected = logs - logs.mean() if mixture.m > 1 else logs[1:] - logs[:1]
            np.testing.assert_allclose(ours, np.clip(expected, -CLIP, CLIP), rtol=1e-9, atol=1e-9)


def test_votes_follow_a_boundary_that_bends():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    model = StreamClassifier().partial_fit(X, X[:, 0] * X[:, 1] > 0)
    assert model.progressive_error_ < 0.1  # a line: 0.5


SCORES = {
    "just beyond": lambda reach, t, rng: min(max(reach * 1.001, 0.0), 50.0),
    "zeros": lambda reach, t, rng: 0.0,
    "drifting": lambda reach, t, rng: min(abs(rng.normal()) * (1 + t / 300), 50.0),
    "turning": lambda reach, t, rng: 50.0 if t // 100 % 2 else 0.01,
    "alternately against": lambda reach, t, rng: 50.0 if reach < 40 else 0.0,
}


@pytest.mark.parametrize("name", SCORES)
def test_misses_stay_within_their_bound(name):
    """Whatever the scores, the share of misses of every rate is where the theorem says."""
    rng = np.random.default_rng(0)
    for i, alpha in enumerate(ALPHAS):
        bets, misses, T = bettors(), 0, 2000
        for t in range(FIRST + T):
            reach = radius(bets, i)
            score = 1.0 + t % 2 if t < FIRST else SCORES[name](reach, t, rng)
            misses += t >= FIRST and score > reach
            bet(bets, score)
        low, high = stream_coverage(T, alpha, largest=50.0, unit=1.5)
        assert low <= misses / T <= high


def stream(kind, n=230):
    """Rows and targets of a task: binary, several classes (one appears late), numbers."""
    rng = np.random.default_rng(3)
    d = MOST_WHOLE + 8 if kind.endswith("wide") else 4
    X = rng.normal(size=(n, d)) * np.logspace(-3, 3, d) * (rng.random((n, d)) < 0.7)
    z = X[:, :4] / np.logspace(-3, 3, d)[:4]
    score = np.where(np.arange(n) < n // 2, z[:, 0] - z[:, 1], z[:, 1] + z[:, 2])
    if kind.startswith("numbers"):
        return StreamRegressor, X, 100.0 + 7.0 * score + rng.normal(size=n)
    y = np.where(score > 0, "yes", "no")
    if kind.startswith("several"):
        y[150:] = np.where(z[150:, 3] > 0.5, "maybe", y[150:])
    return StreamClassifier, X, y


KINDS = ["binary", "several", "numbers", "binary wide", "several wide", "numbers wide"]


@pytest.mark.parametrize("delay", [0, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_no_split_changes_a_bit(kind, delay):
    """Chunks of 1 and 7 and single rows give the bits of one call; gaps and weights included."""
    make, X, y = stream(kind, 230 if kind.endswith("wide") else WINDOW + 60)
    X[::11, 1] = np.nan
    weights = np.resize([1.0, 2.0, 0.0, 0.5], len(X))
    whole = make(delay).partial_fit(X, y, sample_weight=weights)
    for size in (1, 7):
        other = make(delay)
        for a in range(0, len(X), size):
            piece = slice(a, a + size)
            if size == 1:
                other.predict_one(X[a])  # asking changes nothing
            if weights[piece].any():
                other.partial_fit(X[piece], y[piece], sample_weight=weights[piece])
            else:
                other.learn_one(X[a], y.tolist()[a], w=0.0)
        for name in ("state", "past", "memory", "trace"):
            one, two = (getattr(m.mixture_, name) for m in (whole, other))
            assert one.tobytes() == two.tobytes()


@pytest.mark.parametrize("weight", [1e-10, 1e4, 1e8])
@pytest.mark.parametrize("kind", ["binary", "several", "numbers"])
def test_rows_of_any_weight_leave_numbers(kind, weight):
    """However heavy rows are, some member is believed, and what is said is finite."""
    make, X, y = stream(kind)
    model = make().partial_fit(X, y, sample_weight=np.full(len(X), weight))
    assert np.isfinite(model.mixture_.state).all()
    said = model.predict(X) if kind == "numbers" else model.predict_proba(X)
    assert np.isfinite(said).all()


@pytest.mark.parametrize("kind", ["binary", "several", "numbers"])
def test_it_learns(kind):
    """Far better than the most frequent class or the mean, across a change of the line."""
    make, X, y = stream(kind, 1500)
    model = make().partial_fit(X, y)
    if kind == "numbers":
        assert model.progressive_error_ < 0.3 * y.var()
    else:
        assert model.progressive_error_ < 0.25


def test_more_columns_leave_the_line_as_it_is():
    """Room for columns changes no answer; from whole to sparse rows nearly none."""
    rng = np.random.default_rng(0)
    mixture = Mixture(3, 1, WHOLE, True)
    values = rng.normal(size=(200, 3)) + 2.0
    rows = np.arange(201) * 3, np.empty(0, dtype=np.int64), values.ravel()
    mixture.learn(rows, values @ [1.0, -2.0, 0.5], np.ones(200))
    before = mixture.ask((np.array([0, 3]), rows[1], values[7]))
    wider = mixture.grow(d=5).ask((np.array([0, 5]), rows[1], np.append(values[7], [0.0, 0.0])))
    np.testing.assert_allclose(wider, before, rtol=1e-9)
    sparse = mixture.grow(d=64, form=SPARSE)
    said = sparse.ask((np.array([0, 3]), np.arange(3), values[7].copy()))
    np.testing.assert_allclose(said[0, 0], before[0, 0], rtol=0.02)
