"""A sample of the rows of a pass depends on the rows: not on chunks, passes or interruptions."""

import numpy as np
import pytest
from scipy import sparse

from tunefree.engine.sources import RowSample, open_source

X = np.random.default_rng(0).normal(size=(5000, 3)) * (np.arange(15_000).reshape(-1, 3) % 4 > 0)


def drawn(source, most=200, passes=1):
    source.sample = RowSample(most, 10)
    for _ in range(passes):
        for _ in source.chunks():
            pass
    return source.sample.rows()


def pieces(size, as_rows=np.asarray):
    y = np.ones(len(X))
    return open_source(
        lambda: ((as_rows(X[a : a + size]), y[a : a + size]) for a in range(0, len(X), size))
    )


@pytest.mark.parametrize("as_rows", [np.asarray, sparse.csr_array])
def test_a_sample_is_the_same_in_chunks_of_any_size_and_in_any_number_of_passes(as_rows):
    whole = drawn(open_source((as_rows(X), np.ones(len(X)))))
    for size, passes in ((7, 1), (333, 2), (4999, 1)):
        found = drawn(pieces(size, as_rows), passes=passes)
        if sparse.issparse(whole):
            assert (found != whole).nnz == 0
        else:
            assert found.tobytes() == whole.tobytes()
    assert whole.shape == (200, 3)
    assert drawn(pieces(100, as_rows), most=9000).shape[0] == len(X)


def test_a_sample_that_is_saved_and_resumed_is_that_of_one_run():
    whole, one, two = (RowSample(50, 10) for _ in range(3))
    for a in range(0, 5000, 100):
        whole.add(X[a : a + 100], a)
        (one if a < 1200 else two).add(X[a : a + 100], a)
        if a == 1100:
            two.resume(one.state)
    two.add(X[4000:4100], 4000)  # rows that come again
    assert two.rows().tobytes() == whole.rows().tobytes() and two.n_seen == 5000


def test_every_tenth_of_the_rows_gives_a_tenth_of_the_sample():
    sample, numbers = RowSample(20_000, 1), np.arange(400_000.0)[:, None]
    for a in range(0, len(numbers), 50_000):
        sample.add(numbers[a : a + 50_000], a)
    counts, _ = np.histogram(sample.rows(), 10, (0, len(numbers)))
    assert (np.abs(counts - 2000) < 4 * np.sqrt(2000 * 0.9)).all()
    steps = np.diff(sample.rows()[:, 0])
    assert (steps > 0).all() and steps.std() == pytest.approx(20.0, rel=0.05), "as at random"


def test_dense_rows_of_many_columns_are_not_kept():
    sample = RowSample(50, 2)
    sample.add(X, 0)
    assert sample.rows() is None and sample.n_seen == len(X)
