"""Files that are not text, and malformed rows: the same rows whatever holds them."""

import numpy as np
import pytest
from scipy import sparse

from tunefree import open_source
from tunefree.files import DataError, Skipped, read

RNG = np.random.default_rng(0)
X = np.round(RNG.standard_normal((300, 4)), 3)
Y = np.arange(300) % 3 * 1.0


def write(folder, kind, X=X, y=Y):
    path = folder / f"data.{kind}"
    if kind == "npy":
        np.save(path, np.column_stack([X, y]))
    elif kind == "npz":
        np.savez(path, X=X, y=y)
    elif kind == "packed.npz":
        np.savez_compressed(path, X=X, y=y)
    elif kind == "sparse.npz":
        S = sparse.csr_array(X)
        np.savez(path, data=S.data, indices=S.indices, indptr=S.indptr, shape=S.shape, y=y)
    else:
        import pyarrow as pa
        from pyarrow import feather, parquet

        table = pa.table({**{f"x{j}": X[:, j] for j in range(4)}, "y": y})
        if kind == "parquet":
            parquet.write_table(table, path, row_group_size=70)
        else:
            feather.write_feather(table, path, chunksize=64, compression="lz4")
    return path


KINDS = ["npy", "npz", "packed.npz", "sparse.npz", "parquet", "feather"]


def test_json_lines_need_no_suffix(tmp_path):
    path = tmp_path / "rows"
    path.write_text('{"a": 1, "y": 3}\n{"a": 2, "y": 4}\n')
    chunk = next(open_source(str(path)).chunks())
    assert chunk.X.tolist() == [[1.0], [2.0]] and chunk.y.tolist() == [3.0, 4.0]


@pytest.mark.parametrize("kind", KINDS)
def test_every_format_gives_the_same_rows(tmp_path, kind):
    table = read(write(tmp_path, kind))
    found = table.X.toarray() if sparse.issparse(table.X) else table.X
    assert np.array_equal(found, X) and np.array_equal(table.y, Y) and table.weight is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_number_that_is_not_finite_names_its_row(tmp_path, kind, bad):
    spoilt = X.copy()
    spoilt[[123, 200], 2] = bad
    path = write(tmp_path, kind, spoilt)
    with pytest.raises(DataError, match="data.*: row 124 has a feature that is not finite"):
        read(path)
    skipped = Skipped()
    assert read(path, skipped=skipped).X.shape[0] == 298
    assert skipped.count == 2 and "row 124" in str(skipped.first)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_truncated_file_is_refused(tmp_path, kind, share):
    path = write(tmp_path, kind)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(DataError, match=r"data\."):
        read(path)


def test_text_targets_and_columns_by_name(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    kinds = np.where(Y > 0, "up", "down")
    table = pa.table({"kind": kinds, "b": X[:, 1], "a": X[:, 0], "w": np.ones(300)})
    parquet.write_table(table, tmp_path / "t.parquet")
    found = read(tmp_path / "t.parquet", target="kind", weight_column="w", columns=["a", "b"])
    assert np.array_equal(found.X, X[:, :2]) and found.y.tolist() == kinds.tolist()
    assert found.weight.tolist() == [1.0] * 300 and found.feature_names == ["a", "b"]
    with pytest.raises(DataError, match="column 'kind' holds text, not numbers"):
        read(tmp_path / "t.parquet", target="a")


def test_nothing_in_a_numpy_file_is_unpickled(tmp_path):
    np.save(tmp_path / "o.npy", np.array([[object()]]), allow_pickle=True)
    np.savez(tmp_path / "o.npz", X=np.array([[{}]]), y=np.ones(1))
    for name in ("o.npy", "o.npz"):
        with pytest.raises(DataError, match="not a valid"):
            read(tmp_path / name)


GOOD = [f"{i % 2} 1:{i} 3:0.5" for i in range(1000)]


@pytest.mark.parametrize("size", [7, 100, 1 << 20])
@pytest.mark.parametrize("bad", [(), (0,), (999,), (3, 4, 5, 500), tuple(range(1000))])
def test_malformed_lines_are_left_out_and_counted(size, bad):
    lines = [("x 1:1" if i in bad else line) for i, line in enumerate(GOOD)]
    text = ("\n".join(lines) + "\n").encode()
    skipped = Skipped()
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    if len(bad) == 1000:
        with pytest.raises(DataError, match=":1:1: the label must be a finite number"):
            read(pieces, format="libsvm", skipped=skipped)
    else:
        table = read(pieces, format="libsvm", skipped=skipped)
        kept = [i for i in range(1000) if i not in bad]
        assert table.X[:, [0]].toarray().ravel().tolist() == kept
    assert skipped.count == len(bad)
    assert not bad or skipped.first.line == bad[0] + 1


@pytest.mark.parametrize("size", [7, 1 << 20])
def test_malformed_csv_lines_are_left_out_and_counted(size):
    lines = ["a,b,y", *(f"{i},1,{i % 2}" for i in range(500))]
    lines[100], lines[200] = "1,2", "oops,1,1"
    text = ("\n".join(lines) + "\n").encode()
    skipped = Skipped()
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    table = read(pieces, format="csv", skipped=skipped)
    assert table.X.shape == (498, 2) and skipped.count == 2
    assert str(skipped.first).startswith("<stream>:101:")


def test_a_file_that_shrinks_while_it_is_read_is_refused(tmp_path):
    from tunefree.files.files import chunks

    path = tmp_path / "shrinking.svm"
    path.write_bytes(b"1 1:1\n" * 100_000)
    pieces = chunks(path, 1000)
    next(pieces)
    with open(path, "r+b") as file:
        file.truncate(50_000)
    with pytest.raises(DataError, match="shrank while it was read: 50000 of 600000 bytes"):
        list(pieces)


def test_a_libsvm_file_of_labels_alone_has_no_features(tmp_path):
    path = tmp_path / "labels.libsvm"
    path.write_text("1\n-1\n" * 10)
    assert read(str(path)).X.shape == (20, 0)
    with pytest.raises(DataError, match="labels.libsvm: the file has no features"):
        list(open_source(str(path)).chunks())
    assert next(iter(open_source(str(path), n_features=3).chunks())).X.shape == (20, 3)
