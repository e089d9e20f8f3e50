"""The order of learning: a pure function of what the rows hold."""

import numpy as np
import pytest
from scipy import sparse

from tunefree.rows import order as order_module
from tunefree.rows.order import content_hash, given_visits, hashed_visits, visit_weights

RNG = np.random.default_rng(0)
X = np.round(RNG.normal(size=(200, 5)), 1) * (RNG.random((200, 5)) < 0.6)
X[150:] = X[:50]  # equal rows, some with another label
Y = (RNG.random((200, 1)) < 0.5).astype(float)
WEIGHTS = RNG.integers(1, 4, 200).astype(float)


def passes(X, Y, weights, seed=0, **kwargs):
    """The rows, labels and weights of two passes, in the order in which they are learned."""
    visits, out = hashed_visits(X, Y, weights, seed, **kwargs), []
    for epoch in (0, 1):
        rows, w = visits.order(epoch)
        block = X[rows].toarray() if sparse.issparse(X) else X[rows]
        out.append(np.column_stack([block, Y[rows], w]))
    return out


def test_the_order_of_the_rows_makes_no_difference():
    expected = passes(X, Y, WEIGHTS)
    for seed in range(5):
        p = np.random.default_rng(seed).permutation(len(X))
        np.testing.assert_array_equal(passes(X[p], Y[p], WEIGHTS[p]), expected)


def test_a_weight_of_two_is_a_row_given_twice():
    rows = np.repeat(np.arange(len(X)), WEIGHTS.astype(int))
    repeated = passes(X[rows], Y[rows], np.ones(len(rows)))
    np.testing.assert_array_equal(passes(X, Y, WEIGHTS), repeated)


def test_a_weight_of_zero_is_a_row_left_out():
    kept = np.arange(len(X)) % 3 > 0
    kept[abs(X).argmax(axis=0)] = True  # values are rounded in units of the largest of all rows
    np.testing.assert_array_equal(
        passes(X, Y, WEIGHTS * kept), passes(X[kept], Y[kept], WEIGHTS[kept])
    )


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_dense_and_sparse_rows_have_the_same_keys(dtype):
    csr = sparse.csr_array(X)
    csr.indices = csr.indices.astype(dtype)
    for a, b in zip(content_hash(X, Y, 3), content_hash(csr, Y, 3), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("options", [{}, {"affine": True}, {"signed": True}, {"anchor": 3}])
def test_few_rows_have_the_keys_that_they_have_among_many(dtype, options, monkeypatch):
    rows = -np.pi * X.astype(dtype)
    few = content_hash(rows, np.hstack([Y, -Y]), 2**40, **options)
    monkeypatch.setattr(order_module, "_FEW_VALUES", -1)  # compiled
    np.testing.assert_array_equal(few, content_hash(rows, np.hstack([Y, -Y]), 2**40, **options))


def test_units_make_no_difference():
    expected, _ = content_hash(X, Y, 0)
    for scale in (1e-8, 1e8, 3.7 ** np.arange(-2, 3)):
        np.testing.assert_array_equal(content_hash(X * scale, Y, 0)[0], expected)


def test_affine_maps_make_no_difference():
    expected, _ = content_hash(X, Y, 0, affine=True)
    for scale, shift in ((-1.0, 0.0), (1e-3, 5.0), (np.array([2.0, -3.0, 1.0, 0.1, -9.0]), 1.0)):
        moved, _ = content_hash(X * scale + shift, 2.0 - 7.0 * Y, 0, affine=True)
        np.testing.assert_array_equal(moved, expected)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_mirror_images_are_told_apart_in_any_unit(d):
    """Their coarse hashes are equal: x = -1 and 1, or the least and the largest of all."""
    rng = np.random.default_rng(d)
    X, labels = rng.integers(-2, 3, size=(40, d)).astype(float), rng.integers(0, 2, (40, 1)) * 1.0
    real = X.sum(axis=1, keepdims=True) + rng.normal(size=(40, 1))
    for affine, y in ((False, labels), (False, real), (True, real)):
        visits = hashed_visits(X, y, np.ones(40), 0, affine=affine)
        for scale, shift in ((3.7 ** np.arange(d), 0.0), (1e-8, 0.0), (-0.3, 7.0)):
            if shift and not affine:
                continue
            moved = hashed_visits(X * scale + shift, y, np.ones(40), 0, affine=affine)
            assert len(visits.unique()[0]) == len(np.unique(np.column_stack([X, y]), axis=0))
            order, other = visits.order(1)[0], moved.order(1)[0]
            np.testing.assert_array_equal(X[order], X[other])
            np.testing.assert_array_equal(y[order], y[other])


def test_seed_and_pass_change_the_order_and_nothing_else():
    first, second = passes(X, Y, WEIGHTS)
    other, _ = passes(X, Y, WEIGHTS, seed=1)
    as_set = sorted(map(tuple, first))
    for rows in (second, other):
        assert not np.array_equal(rows, first)
        assert sorted(map(tuple, rows)) == as_set


@pytest.mark.parametrize("weights", [WEIGHTS, RNG.exponential(size=200), 1000 * WEIGHTS])
def test_visits_carry_the_whole_weight(weights):
    """Of each distinct row, up to a common factor."""
    visits = hashed_visits(X, Y, weights, 0)
    rows, w = visits.order(0)
    content, group = np.unique(np.column_stack([X, Y]), axis=0, return_inverse=True)
    visited = np.bincount(group[rows], w, minlength=len(content))
    given = np.bincount(group, weights, minlength=len(content))
    np.testing.assert_allclose(visited / visited.sum(), given / given.sum(), rtol=1e-12)
    unique, total = visits.unique()
    assert len(unique) == len(content)
    np.testing.assert_allclose(np.bincount(group[unique], total), visited, rtol=1e-12)
    assert np.all(w <= 1.0 + 1e-9)


def test_one_heavy_row_is_spread_over_the_pass():
    weights = np.ones(150)
    weights[0] = 50.0
    rows, w = hashed_visits(X[:150], Y[:150], weights, 0).order(0)
    at = np.flatnonzero(rows == np.bincount(rows).argmax())
    assert w[at].sum() == pytest.approx(50.0)
    assert np.count_nonzero(np.diff(at) > 1) > 5


@pytest.mark.parametrize(
    "weights, units",
    [
        ([2.0, 4.0], [1.0, 2.0]),
        ([1.0, 3.0], [1.0, 3.0]),
        ([0.25, 0.75], [1.0, 3.0]),
        ([0.5, 0.75], [2.0, 3.0]),
        ([1.0, 1.37], [2.0 / 2.37, 2.74 / 2.37]),
        ([1.0, 255.0], [0.5, 127.5]),
    ],
)
def test_units_in_which_whole_weights_are_repetitions(weights, units):
    np.testing.assert_allclose(visit_weights(np.array(weights)), units)


def test_the_given_order_repeats_whole_weights_and_scales_fractions():
    rows, w = given_visits(np.array([1.0, 0.0, 2.0, 0.5, 3.5])).order(0)
    np.testing.assert_array_equal(rows, [0, 2, 2, 3, 4, 4, 4, 4])
    np.testing.assert_array_equal(w, [1.0, 1.0, 1.0, 0.5, 1.0, 1.0, 1.0, 0.5])
