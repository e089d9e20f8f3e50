"""Pieces of an iterator that differ in form: they are the rows of one table, or refused by name."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tunefree import (
    DataWarning,
    PiSTOLClassifier,
    PiSTOLRegressor,
    TuneFreeRegressor,
    open_source,
)
from tunefree.files import DataError

N = 90
RNG = np.random.default_rng(0)
X = pd.DataFrame({"a": RNG.normal(size=N), "b": RNG.normal(50.0, 9.0, N), "c": RNG.random(N) < 0.4})
Y = X["a"].to_numpy() + 0.2 * X["b"].to_numpy() - 3.0 * X["c"]
W = RNG.integers(1, 4, N) * 1.0

LIBRARIES = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
}


def pieces(library, seed, weighted=False):
    """Frames of one table, cut anywhere, each with its columns in an order of its own."""
    rng = np.random.default_rng(seed)
    cuts = [0, *np.sort(rng.choice(np.arange(1, N), 4, replace=False)), N]
    for k, (start, stop) in enumerate(zip(cuts[:-1], cuts[1:], strict=True)):
        names = [*X.columns] if k == 0 else [*rng.permutation(X.columns)]
        part = slice(start, stop)
        weights = (W[part],) if weighted else ()
        yield LIBRARIES[library](X[part][names].reset_index(drop=True)), Y[part], *weights


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("weighted", [False, True])
def test_frames_are_matched_by_the_names_of_their_columns(library, weighted):
    for seed in range(3):
        found = [*open_source(lambda s=seed: pieces(library, s, weighted)).chunks()]
        np.testing.assert_array_equal(
            np.concatenate([chunk.X for chunk in found]), X.to_numpy(float)
        )


@pytest.mark.parametrize("make", [PiSTOLRegressor, TuneFreeRegressor])
def test_learners_of_frames_in_pieces_know_the_names(make):
    model = make().fit_source(lambda: pieces("pandas", 1))
    assert model.feature_names_in_.tolist() == [*X.columns]
    whole = make().fit_source((X.to_numpy(float), Y.to_numpy()))
    np.testing.assert_allclose(model.predict(X), whole.predict(X.to_numpy(float)), rtol=1e-6)


def test_arrays_that_are_frames_keep_their_names():
    assert PiSTOLRegressor().fit_source((X, Y)).feature_names_in_.tolist() == [*X.columns]


A, B = X.to_numpy(float)[:30], X.to_numpy(float)[30:60]
YA, YB = Y.to_numpy()[:30], Y.to_numpy()[30:60]
DIFFERENT = {
    "another name": ([(X[:30], YA), (X[30:60].rename(columns={"b": "d"}), YB)], "lacks .* 'b'"),
    "one more name": ([(X[:30], YA), (X[30:60].assign(d=1), YB)], "column 'd'"),
    "no names": ([(X[:30], YA), (B, YB)], "no names"),
    "weights that end": ([(A, YA, W[:30]), (B, YB)], "row 31 on there are no weights"),
    "weights that begin": ([(A, YA), (B, YB, W[:30])], "row 31 on there are weights"),
    "text as targets": ([(A, YA), (B, YB.astype(str))], "row 31 on there are targets of text"),
    "text beside numbers": ([(A, np.array(["x", 1] * 15, dtype=object))], "'x' and such as 1"),
    "two targets": ([(A, YA), (B, np.c_[YB, YB])], "2 targets, and before it rows of one"),
    "masked rows": ([(np.ma.masked_greater(A, 50.0), YA)], "MaskedArray"),
    "four parts": ([(A, YA, W[:30], 1)], "no pair"),
    "a frame alone": ([X], "no pair"),
    "a dict": ([{"X": A, "y": YA}], "no pair"),
}


@pytest.mark.parametrize("name", DIFFERENT)
@pytest.mark.parametrize("window", [0, 50])
def test_pieces_of_another_form_are_refused_by_name(name, window):
    given, words = DIFFERENT[name]
    with pytest.raises(DataError, match=f"the iterator: .*{words}"):
        [*open_source(lambda: iter(given), window=window).chunks()]


def test_one_class_at_first_and_labels_of_another_type_later_are_not_mixed():
    labels = [np.zeros(30, int), np.repeat(["0", "1"], 15)]
    with pytest.raises(DataError, match="targets of text"):
        PiSTOLClassifier().fit_source(lambda: zip([A, B], labels, strict=True))


def test_masked_targets_are_missing_and_counted():
    y = np.ma.masked_array(YA, np.arange(30) < 3)
    with pytest.warns(DataWarning, match="skipped 3 rows without a target"):
        chunks = [*open_source(lambda: iter([(A, y), (B, YB)])).chunks()]
    assert sum(map(len, chunks)) == 57
    with pytest.warns(DataWarning, match="skipped 3 rows without a target"):
        chunks = [*open_source((A, y)).chunks()]
    assert sum(map(len, chunks)) == 27


def test_targets_whose_row_labels_are_in_another_order_are_named():
    y = pd.Series(YA, index=range(29, -1, -1))
    with pytest.warns(DataWarning, match="same row labels in another order"):
        [*open_source(lambda: iter([(X[:30], y)])).chunks()]


def test_pieces_without_rows_and_targets_as_columns_are_no_finding(recwarn):
    given = [(np.empty((0, 3)), np.empty(0)), (A, YA), (B, YB[:, None])]
    chunks = [*open_source(lambda: iter(given)).chunks()]
    assert [chunk.y.shape for chunk in chunks] == [(30,), (30,)]
    assert not recwarn.list
