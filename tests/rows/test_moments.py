"""Moments: direct formulas in memory, the same row by row, to the bit in chunks of any size."""

import numpy as np
import pytest
from scipy import sparse

from tunefree.rows.moments import Deviations, Ranges, RunningMoments, moments
from tunefree.rows.outliers import column_caps

RNG = np.random.default_rng(0)
X = (RNG.normal(size=(2500, 4)) + [0.0, 5.0, 0.0, 1.0]) * (RNG.random((2500, 4)) < 0.7)
ROWS = RNG.permutation(2500)
WEIGHTS = RNG.choice([0.25, 1.0, 2.0], 2500)


def assert_equal(m, n, **kwargs):
    for a, b in zip(m, n, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a, b, **kwargs)


@pytest.mark.parametrize("centred", [True, False])
def test_moments_are_their_definition(centred):
    m = moments(X, ROWS, WEIGHTS, centred=centred, products=True)
    rows = X[ROWS]
    mean = np.average(rows, axis=0, weights=WEIGHTS)
    about = rows - mean if centred else rows
    product = (about * WEIGHTS[:, None]).T @ about / WEIGHTS.sum()
    stored = WEIGHTS[:, None] * (rows != 0)
    magnitude = np.sqrt(np.sum(stored * rows**2) / np.sum(stored))
    assert_equal(
        m,
        (WEIGHTS.sum(), mean, np.diag(product), abs(X).max(axis=0), product, magnitude),
        rtol=1e-10,
        atol=1e-12,
    )


def test_sparse_data_have_the_moments_of_dense_data_about_zero():
    dense = moments(X, ROWS, WEIGHTS, centred=False)
    assert_equal(moments(sparse.csr_array(X), ROWS, WEIGHTS, centred=False), dense, rtol=1e-10)


def test_clipped_moments_are_those_of_clipped_columns():
    caps = column_caps(X, ROWS, reach=0.4)
    direct = moments(np.clip(X, *caps), ROWS, WEIGHTS, products=True)
    assert_equal(moments(X, ROWS, WEIGHTS, products=True, caps=caps), direct)


def stream(kind, chunks):
    running = RunningMoments(4, sparse=kind == "sparse", products=kind == "dense")
    rows, start = X[ROWS], 0
    for size in chunks:
        part = slice(start, start + size)
        chunk = sparse.csr_array(rows[part]) if kind == "sparse" else rows[part]
        running.add(chunk, WEIGHTS[part])
        start += size
    assert start == len(rows)
    return running.moments()


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_stream_has_the_moments_of_the_batch(kind):
    if kind == "dense":
        batch = moments(X, ROWS, WEIGHTS, products=True)
    else:
        batch = moments(sparse.csr_array(X), ROWS, WEIGHTS, centred=False)
    assert_equal(stream(kind, [2500]), batch, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_chunks_change_no_bit(kind):
    whole = stream(kind, [2500])
    for chunks in ([1] * 2500, [7] * 357 + [1], [64, 2000, 436]):
        assert_equal(stream(kind, chunks), whole, rtol=0)


def test_a_mean_far_from_zero_keeps_its_digits():
    """Welford's update does not subtract two large squares."""
    running = RunningMoments(4, sparse=False, products=True)
    running.add(X + 1e8, WEIGHTS)
    batch = moments(X, np.arange(2500), WEIGHTS, products=True)
    np.testing.assert_allclose(running.moments().square, batch.square, rtol=1e-6)


@pytest.mark.parametrize("kind", [Deviations, Ranges])
@pytest.mark.parametrize("rows", [X, sparse.csr_array(X)], ids=["dense", "sparse"])
def test_joined_parts_have_the_moments_of_the_whole(kind, rows):
    targets, parts = X[:, :1], (slice(0, 700), slice(700, 2500))
    first, last = (kind.of(rows[p], targets[p], WEIGHTS[p]) for p in parts)
    joined, whole = first.join(last), kind.of(rows, targets, WEIGHTS)
    assert_equal(joined.means, whole.means, rtol=1e-10)
    assert_equal(joined[1:], whole[1:], rtol=1e-10)


def test_caps_are_the_median_and_a_multiple_of_a_quantile():
    low, high = column_caps(X, ROWS, reach=10.0)
    middle = np.median(X, axis=0)
    spread = 10 * np.quantile(abs(X - middle), 0.95, axis=0)
    np.testing.assert_allclose([low, high], [middle - spread, middle + spread])
    constant = column_caps(np.ones((5, 1)), np.arange(5))
    assert constant == (-np.inf, np.inf)
