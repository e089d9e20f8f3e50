"""Compression: fewer support rows, at a loss that was asked for."""

import numpy as np
import pytest
from scipy import sparse

from tunefree.kernels import compression as projection
from tunefree.kernels.compression import compress
from tunefree.kernels.expansion import Expansion
from tunefree.kernels.kernels import RBF


@pytest.fixture
def smooth():
    """A smooth function over 300 rows, the rows to check it on, and its mean squared loss there."""
    rng = np.random.default_rng(0)
    S, rows = rng.normal(size=(300, 3)), rng.normal(size=(200, 3))
    f = Expansion((RBF(0.1),), S, (rng.normal(size=(300, 2)),))
    target = f(rows) + rng.normal(size=(200, 2))
    return f, rows, lambda values: float(np.mean((values - target) ** 2))


@pytest.mark.parametrize("tolerance", [1e-1, 1e-2, 1e-3, 1e-4])
def test_the_loss_changes_by_less_than_was_asked(smooth, tolerance):
    f, rows, loss = smooth
    small, kept, report = compress(f, rows, loss, tolerance=tolerance)
    assert report.n_landmarks == small.support.shape[0] == len(kept) < 150
    np.testing.assert_array_equal(small.support, f.support[kept])
    assert report.loss_before == loss(f(rows)) and report.loss_after == loss(small(rows))
    assert abs(report.loss_after - report.loss_before) <= tolerance * loss(0.0 * f(rows)) * 1.001


def test_a_smaller_tolerance_keeps_more(smooth):
    counts = [compress(*smooth, tolerance=t)[2].n_landmarks for t in (1e-1, 1e-2, 1e-3, 1e-5)]
    assert counts == sorted(counts) and counts[0] < counts[-1]


def test_the_number_of_landmarks_can_be_given(smooth):
    f, rows, loss = smooth
    small, kept, report = compress(f, rows, loss, count=40)
    assert report.n_landmarks == small.support.shape[0] == 40
    # The projection interpolates on its landmarks.
    np.testing.assert_allclose(small(small.support), f(small.support), atol=1e-5)


def test_as_many_landmarks_as_rows_change_nothing(smooth):
    f, rows, loss = smooth
    small, _, report = compress(f, rows, loss, count=10_000)
    np.testing.assert_allclose(small(rows), f(rows), atol=1e-6 * np.abs(f(rows)).max())
    assert report.change <= 1e-6


def test_an_unreachable_tolerance_leaves_the_predictor(smooth, monkeypatch):
    f, rows, loss = smooth
    monkeypatch.setattr(projection, "CANDIDATES", 4)
    small, kept, report = compress(f, rows, loss, tolerance=1e-6)
    assert small is f and report.n_landmarks == 300
    assert report.loss_before == report.loss_after and report.change == 0.0


def test_sparse_rows_give_the_same_landmarks(smooth):
    f, rows, loss = smooth
    csr = f._replace(support=sparse.csr_array(f.support))
    _, again, report = compress(csr, sparse.csr_array(rows), loss, tolerance=1e-3)
    np.testing.assert_array_equal(again, compress(f, rows, loss, tolerance=1e-3)[1])


def test_compressed_single_precision_stays_single(smooth):
    f, rows, loss = smooth
    single = f._replace(support=f.support.astype(np.float32))
    small, _, report = compress(single, rows, loss, tolerance=1e-3)
    assert small.dtype == np.float32 and small.coefs[0].dtype == np.float32
    assert abs(loss(small(rows)) - loss(f(rows))) <= 1.1e-3 * loss(0.0 * f(rows))


def test_bandwidths_that_share_a_support_are_compressed_together(smooth):
    f, rows, loss = smooth
    c = np.random.default_rng(1).normal(size=(300, 2))
    both = Expansion((RBF(0.1), RBF(0.2)), f.support, (f.coefs[0], 0.3 * c))
    small, kept, report = compress(both, rows, loss, tolerance=1e-3)
    assert small.support.shape[0] == report.n_landmarks < 300
    assert abs(report.loss_after - report.loss_before) <= 1.001e-3 * loss(0.0 * f(rows))
