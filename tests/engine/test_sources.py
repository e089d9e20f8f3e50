"""Sources: from any mark on come the rows that came after it, however they are cut or shuffled."""

import gzip
import threading

import numpy as np
import pytest
from scipy import sparse

from tunefree import open_source
from tunefree.engine.sources import Chunk, Mark
from tunefree.engine.sources.readers import Replay
from tunefree.engine.sources.source import ahead
from tunefree.files import DataError

ROWS = 2500
RNG = np.random.default_rng(0)
X = np.round(RNG.standard_normal((ROWS, 3)), 3)
Y = np.arange(ROWS) * 1.0


def libsvm(**gaps):
    lines = [f"{int(y)} 1:{a} 2:{b} 3:{c}" for y, (a, b, c) in zip(Y, X.tolist(), strict=True)]
    for at in gaps.get("bad", ()):
        lines.insert(at, "nonsense")
    return ("\ufeff" + "\n".join(lines)).encode()


def csv():
    lines = [f"{a},{b},{c},{int(y)}" for y, (a, b, c) in zip(Y, X.tolist(), strict=True)]
    return "\n".join(["a,b,c,y", *lines, ""]).encode()


def cut(text, size):
    return Replay("pieces", (text[i : i + size] for i in range(0, len(text), size)))


def from_npz(folder):
    np.savez(folder / "d.npz", X=X, y=Y)
    return folder / "d.npz"


def from_npy(folder):
    np.save(folder / "d.npy", np.column_stack([X, Y]))
    return folder / "d.npy"


def from_parquet(folder):
    import pyarrow as pa
    from pyarrow import parquet

    columns = {name: X[:, j] for j, name in enumerate("abc")}
    parquet.write_table(pa.table({**columns, "y": Y}), folder / "d.parquet", row_group_size=400)
    return folder / "d.parquet"


def packed(folder):
    (folder / "d.svm.gz").write_bytes(gzip.compress(libsvm()))
    return folder / "d.svm.gz"


def pieces():
    for start in range(0, ROWS, 170):
        yield X[start : start + 170], Y[start : start + 170]


MAKERS = {
    "libsvm": lambda folder: cut(libsvm(), 5000),
    "csv": lambda folder: cut(csv(), 5000),
    "gzip": packed,
    "npz": from_npz,
    "npy": from_npy,
    "parquet": from_parquet,
    "arrays": lambda folder: (X, Y),
    "sparse arrays": lambda folder: (sparse.csr_array(X), Y),
    "function": lambda folder: pieces,
    "iterator": lambda folder: pieces(),
    "list": lambda folder: list(pieces()),
}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("options", [{}, {"window": 300}], ids=["plain", "window"])
@pytest.mark.parametrize("rows", [None, 128])
def test_rows_continue_from_every_mark(tmp_path, name, options, rows):
    whole = list(open_source(MAKERS[name](tmp_path), **options).chunks(rows=rows))
    y = np.concatenate([c.y for c in whole])
    found = sparse.vstack([c.X for c in whole]) if name[0] in "lgs" else None
    values = found.toarray() if sparse.issparse(found) else np.concatenate([c.X for c in whole])
    assert np.array_equal(np.sort(y), Y) and np.array_equal(values, X[y.astype(int)])
    assert np.array_equal(y, Y) == (not options)
    marks = [c.mark for c in whole]
    for mark in [marks[0], marks[len(marks) // 2], marks[-1]]:
        rest = [c.y for c in open_source(MAKERS[name](tmp_path), **options).chunks(mark, rows=rows)]
        assert np.array_equal(np.concatenate([[], *rest]), y[mark.row :])


def test_malformed_rows_are_left_out_before_and_after_a_mark():
    bad = (0, 7, 8, 1200, 2400)
    source = open_source(cut(libsvm(bad=bad), 4000), on_bad_row="skip")
    whole = list(source.chunks())
    assert np.array_equal(np.concatenate([c.y for c in whole]), Y) and source.skipped.count == 5
    for mark in [c.mark for c in whole]:
        again = open_source(cut(libsvm(bad=bad), 4000), on_bad_row="skip")
        rest = [c.y for c in again.chunks(mark)]
        assert np.array_equal(np.concatenate([[], *rest]), Y[mark.row :])
        assert again.skipped.count == 5
    with pytest.raises(DataError, match="pieces:1:1: the label must be a finite number"):
        list(open_source(cut(libsvm(bad=bad), 4000)).chunks())


def test_an_error_comes_again_after_the_mark_of_the_rows_before_it():
    """A run with a checkpoint does not step over it."""
    marks, error = [], "pieces:8:1: the label must be a finite number"
    for mark in (None, -1):
        with pytest.raises(DataError, match=error):
            source = open_source(cut(libsvm(bad=(7,)), 4000), zero_based=False)
            for chunk in source.chunks(mark and marks[mark]):
                marks.append(chunk.mark)
    assert marks[-1].row == 7


def test_windows_depend_on_seed_and_pass_and_hold_their_rows():
    def order(**options):
        epoch = options.pop("epoch", 0)
        source = open_source((X, Y), window=500, **options)
        return np.concatenate([c.y for c in source.chunks(epoch=epoch)])

    first = order()
    for start in range(0, ROWS, 500):
        assert np.array_equal(np.sort(first[start : start + 500]), Y[start : start + 500])
    assert np.array_equal(first, order())
    assert not np.array_equal(first, order(epoch=1))
    assert not np.array_equal(first, order(seed=1))


def test_a_grid_does_not_depend_on_how_the_text_was_cut():
    for rows in (1, 64, 1000):
        sizes = [[len(c) for c in open_source(cut(libsvm(), s)).chunks(rows=rows)]
                 for s in (100, 5000, 1 << 20)]  # fmt: skip
        assert sizes[0] == sizes[1] == sizes[2]


def test_an_error_in_the_thread_comes_where_it_belongs():
    def broken():
        yield 1
        raise RuntimeError("here")

    items = ahead(broken())
    assert next(items) == 1
    with pytest.raises(RuntimeError, match="here"):
        next(items)


def test_a_reader_that_is_left_ends_its_thread():
    before = threading.active_count()
    items = ahead(iter(range(10**9)))
    next(items)
    items.close()
    for _ in range(100):
        if threading.active_count() == before:
            break
        threading.Event().wait(0.05)
    assert threading.active_count() == before


def test_hashed_rows_are_those_of_the_feature_hasher(tmp_path):
    from sklearn.feature_extraction import FeatureHasher

    rows = [{"city": "Rome", "age": 3.0}, {"city": "Oslo", "age": None}]
    (chunk,) = open_source([(rows, [1, 0])], hashed=64).chunks()
    expected = FeatureHasher(64).transform([rows[0], {"city": "Oslo"}])
    assert np.array_equal(chunk.X.toarray(), expected.toarray())
    (tmp_path / "d.csv").write_text("city,age,y\nRome,3.0,1\nOslo,,0\n")
    (chunk,) = open_source(tmp_path / "d.csv", hashed=64).chunks()
    assert np.array_equal(chunk.X.toarray(), expected.toarray()) and chunk.y.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        (3, {}, "no path, arrays or iterable"),
        ([], {"on_bad_row": "guess"}, "on_bad_row='guess'"),
        ("x.bin", {"format": "bin"}, "format='bin'"),
        ((X, Y), {"hashed": 8}, "hashed="),
    ],
)
def test_what_is_no_source_is_named(data, options, words):
    with pytest.raises(ValueError, match=words):
        open_source(data, **options)


def test_pieces_that_do_not_fit_are_named():
    for items, words in [
        ([(X[:3], Y[:2])], "piece 1 has X and y of different lengths"),
        ([(X, Y), ([["a"]], [1])], r"piece 2: .* \(hashed=2\*\*18 takes text\)"),
        ([(X, Y), (X * np.nan, Y)], "row 2501 has a feature that is not finite"),
        ([(X, Y), (X[:, :2], Y)], "from row 2501 on there are rows of 2 columns, and before it"),
        ([(X, Y), (sparse.csr_array(X), Y)], "from row 2501 on there are sparse rows, and before"),
    ]:
        with pytest.raises(DataError, match=words):
            list(open_source(items).chunks())


def test_a_chunk_takes_rows_with_all_that_belongs_to_them():
    chunk = Chunk(X, Y, Y + 1, Mark()).take(slice(2, 5), Mark(rows=5))
    assert chunk.y.tolist() == [2, 3, 4] and chunk.weight.tolist() == [3, 4, 5]
    assert len(chunk) == 3 and chunk.mark.row == 5
