"""Progressive validation: the record equals a direct computation over all that was predicted."""

import numpy as np
import pytest

from tunefree.held_out.progressive_risk import curve, recent_rows, record, risks, start_progress

N, CANDIDATES = 3000, 3


def predictions(n_outputs, n=N, seed=0):
    rng = np.random.default_rng(seed)
    targets = np.full((n, n_outputs), -1.0)
    if n_outputs == 1:
        targets[:, 0] = rng.choice([-1.0, 1.0], n)
    else:
        targets[np.arange(n), rng.integers(n_outputs, size=n)] = 1.0
    guesses = [targets + (1 + c) * rng.normal(size=targets.shape) for c in range(CANDIDATES)]
    return guesses, targets, rng.choice([0.5, 1.0, 2.0], n)


def losses(kind, guesses, targets):
    """Mistakes by sign or by the largest output, or squared errors: (n, n_candidates)."""
    if kind == "squared_error":
        return np.stack([((g - targets) ** 2).sum(axis=1) for g in guesses], axis=1)
    if targets.shape[1] == 1:
        return np.stack([(g[:, 0] > 0) != (targets[:, 0] > 0) for g in guesses], axis=1)
    return np.stack([g.argmax(axis=1) != targets.argmax(axis=1) for g in guesses], axis=1)


def recorded(kind, guesses, targets, weights, chunks=(N,), live=range(CANDIDATES), rows=None):
    progress = start_progress(CANDIDATES, targets.shape[1], rows)
    start = 0
    for size in chunks:
        part = slice(start, start + size)
        shown = [g[part] if c in live else None for c, g in enumerate(guesses)]
        record(progress, kind == "mistakes", targets.shape[1], shown, targets[part], weights[part])
        start += size
    return progress


CASES = [("mistakes", 1), ("mistakes", 4), ("squared_error", 1), ("squared_error", 2)]


@pytest.mark.parametrize("kind, n_outputs", CASES)
def test_curve_is_the_running_weighted_mean_loss(kind, n_outputs):
    guesses, targets, weights = predictions(n_outputs)
    direct = np.cumsum(weights[:, None] * losses(kind, guesses, targets), axis=0)
    rows, risk = curve(recorded(kind, guesses, targets, weights))
    assert rows[-1] == N
    assert len(rows) > 200
    expected = direct[rows - 1] / np.cumsum(weights)[rows - 1, None]
    np.testing.assert_allclose(risk, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind, n_outputs", CASES)
@pytest.mark.parametrize("share", [1.0, 0.5, 0.1])
def test_risks_are_mean_losses_of_the_latest_rows(kind, n_outputs, share):
    """The share begins with a whole slot."""
    guesses, targets, weights = predictions(n_outputs)
    progress = recorded(kind, guesses, targets, weights)
    width = progress.clock[1]
    first = int(N * (1 - share)) // width * width
    loss = losses(kind, guesses, targets)[first:]
    direct = np.average(loss, axis=0, weights=weights[first:])
    np.testing.assert_allclose(risks(progress, share), direct, rtol=1e-12)
    assert width <= 8


@pytest.mark.parametrize("n_outputs, share", [(1, 0.5), (4, 0.2), (4, 1.0)])
def test_recent_rows_are_the_latest_predictions(n_outputs, share):
    guesses, targets, weights = predictions(n_outputs)
    shown, y, w = recent_rows(recorded("mistakes", guesses, targets, weights), share)
    m = len(y)
    assert m == int(N * share)
    np.testing.assert_array_equal(shown, np.stack(guesses, axis=1)[-m:])
    np.testing.assert_array_equal(y, targets[-m:])
    np.testing.assert_array_equal(w, weights[-m:])


def test_the_ring_keeps_what_it_has_room_for():
    guesses, targets, weights = predictions(1)
    shown, y, _ = recent_rows(recorded("mistakes", guesses, targets, weights, rows=700), 1.0)
    np.testing.assert_array_equal(y, targets[-700:])
    np.testing.assert_array_equal(shown[:, 2], guesses[2][-700:])


@pytest.mark.parametrize("chunks", [[1] * N, [7] * 428 + [4], [0, 511, 2, 1, 2486]])
def test_chunks_change_nothing(chunks):
    whole = recorded("mistakes", *predictions(4))
    for a, b in zip(recorded("mistakes", *predictions(4), chunks), whole, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_candidate_that_is_out_is_not_scored():
    guesses, targets, weights = predictions(1)
    everyone = risks(recorded("mistakes", guesses, targets, weights))
    without = risks(recorded("mistakes", guesses, targets, weights, live=(0, 1)))
    np.testing.assert_array_equal(without, [*everyone[:2], 0.0])


def test_an_output_beyond_those_scored_is_ignored():
    guesses, targets, weights = predictions(3)
    wider = [np.hstack([g, np.full((N, 1), 1e9)]) for g in guesses]
    y = np.hstack([targets, np.full((N, 1), -1.0)])
    progress = start_progress(CANDIDATES, 4)
    record(progress, True, 3, wider, y, weights)
    expected = recorded("mistakes", guesses, targets, weights)
    np.testing.assert_array_equal(risks(progress), risks(expected))
