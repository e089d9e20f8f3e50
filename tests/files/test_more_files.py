"""The same small table in more writings, layouts and packages is the same table."""

import io
import json
import lzma
import tarfile
import warnings
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse

from tunefree.files import arrays
from tunefree.files.arrays import row_blocks
from tunefree.files.files import DataError, Skipped
from tunefree.files.mixed import read_mixed

RNG = np.random.default_rng(3)
N = 40
ROWS = [
    (f"{a:.3f}", f"{b:.3f}", str(c), f"{3 * a:.3f}")
    for a, b, c in zip(*RNG.normal(size=(2, N)) + 5, RNG.choice(["u", "v"], N), strict=True)
]
NAMES = ["a", "b", "l", "y"]


def text(mark=",", rows=ROWS):
    return "".join(mark.join(row) + "\n" for row in [NAMES, *rows])


def bars(rows, left="| ", right=" |"):
    return "".join(f"{left}{' | '.join(row)}{right}\n" for row in rows)


BORDER = "+----+----+---+---+\n"
RECORDS = [dict(zip(NAMES, [float(a), float(b), c, float(y)], strict=True)) for a, b, c, y in ROWS]


def zipped(**members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


FILES = {
    "carets.txt": text("^"),
    "tildes.csv": text("~"),
    "colons.txt": text(":"),
    "unit separators.txt": text("\x1f"),
    "mysql.txt": BORDER + bars([NAMES]) + BORDER + bars(ROWS) + BORDER,
    "psql.txt": bars([NAMES], " ", "") + "---+---+---+---\n" + bars(ROWS, " ", "") + "(40 rows)\n",
    "footer.csv": text() + "\nSource: the office\n\"Note: provisional, see there\"\n",
    "total.csv": text() + "Total,,,812.5\n",
    "total without an end.csv": text() + "Total,,,812.5",
    "total and mean.csv": text() + "Total,,,812.5\nMean,,,1.5\n",
    "table schema.json": json.dumps({
        "schema": {"fields": [], "primaryKey": ["index"], "pandas_version": "1.4.0"},
        "data": [{"index": k, **row} for k, row in enumerate(RECORDS)],
    }),
    "sum and source.csv": text(";") + "Summe;;;812.5\n\nQuelle: das Amt\n",
    "titles.csv": "Sales by region;;;\nExported 2024;;;\n;;;\n" + text(";"),
    "end of DOS.csv": text() + "\x1a",
    "table.csv.xz": lzma.compress(text().encode()),
    "beside.zip": zipped(**{"data/x.csv": text(), "README.txt": "hello", "data/.DS_Store": "x"}),
    "within.json": json.dumps({"status": "ok", "result": {"records": RECORDS}}),
    "named.json": json.dumps({f"id{k}": row for k, row in enumerate(RECORDS)}),
    "arrays.json": json.dumps([NAMES, *(list(row.values()) for row in RECORDS)]),
    "lines with commas.json": "".join(json.dumps(row) + ",\n" for row in RECORDS),
    "tabs.arff": "@relation x\n" + "".join(
        f"@attribute {name} {'{u,v}' if name == 'l' else 'numeric'}\n" for name in NAMES
    ) + "@data\n" + text("\t").partition("\n")[2],
}  # fmt: skip


def read(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read_mixed(str(path), target="y", skipped=Skipped(malformed=False))


@pytest.mark.parametrize("name", FILES)
def test_the_same_table(name, tmp_path):
    content = FILES[name]
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    table = read(path)
    assert table.X.column_names == NAMES[:3]
    np.testing.assert_array_equal(np.asarray(table.y, float), [float(row[3]) for row in ROWS])
    for j in (0, 1):
        cells = [float(cell) for cell in table.X.column(j).to_pylist()]
        assert cells == [float(row[j]) for row in ROWS]
    assert table.X.column(2).to_pylist() == [row[2] for row in ROWS]


@pytest.mark.parametrize("last", ["total,5,u,9", "5.0", "Total,1,v,3\nTotal,,,5"])
def test_a_last_row_that_may_be_data_stays_or_is_refused(last, tmp_path):
    """A full row, a broken one, and a level of that name."""
    path = tmp_path / "t.csv"
    path.write_text(text() + last + "\n")
    try:
        assert len(read(path).y) > N
    except DataError as problem:
        assert "this row has 1 cell" in str(problem)


def test_what_is_left_out_below_a_table_is_told(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(FILES["footer.csv"])
    with pytest.warns(
        UserWarning, match="the last 2 lines below the table: not read, such as 'Sou"
    ):
        read_mixed(str(path), target="y")


@pytest.mark.parametrize("suffix", ["csv", "parquet", "xlsx", "json", "svm"])
def test_a_pointer_of_git_lfs_is_called_so(suffix, tmp_path):
    path = tmp_path / f"table.{suffix}"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0f\nsize 1643\n")
    with pytest.raises(DataError, match="pointer of Git LFS.*git lfs pull"):
        read_mixed(path)


def test_a_web_page_is_called_so(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("\n<!DOCTYPE html><html><table><tr><td>1</td></tr></table></html>\n")
    with pytest.raises(DataError, match="this is a web page"):
        read(path)


def test_a_tar_archive_is_called_so(tmp_path):
    """Its header was the name of the first column."""
    path = tmp_path / "t.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo("t.csv")
        member.size = len(text())
        archive.addfile(member, io.BytesIO(text().encode()))
    with pytest.raises(DataError, match="this is a tar archive, not a table: unpack it"):
        read(path)


@pytest.mark.parametrize("kind", ["rows", "columns", "float32", "whole", "sparse"])
def test_arrays_of_an_archive_are_mapped_to_the_same_blocks(kind, tmp_path, monkeypatch):
    X = RNG.normal(size=(50, 4)).round(2)
    X = {"columns": np.asfortranarray(X), "float32": X.astype(np.float32)}.get(kind, X)
    X = (10 * X).astype(np.int32) if kind == "whole" else X
    path = tmp_path / "t.npz"
    if kind == "sparse":
        own = sparse.csr_array(X * (X > 0))
        parts = {"data": own.data, "indices": own.indices, "indptr": own.indptr, "shape": X.shape}
        np.savez(path, **parts, y=np.arange(50))
    else:
        np.savez(path, X=X, y=np.arange(50))

    def blocks():
        found = [(b[0].toarray() if sparse.issparse(b[0]) else b[0], b[1])
                 for b in row_blocks(str(path), "npz", target=None)]  # fmt: skip
        return [np.concatenate(arrays) for arrays in zip(*found, strict=True)]

    expected = blocks()
    monkeypatch.setattr(arrays, "_MAPPED", 0)
    monkeypatch.setattr(arrays, "_ENTRIES", 20)
    for one, other in zip(expected, blocks(), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    content = bytearray(path.read_bytes())
    content[300] ^= 4
    path.write_bytes(content)
    with pytest.raises(DataError, match="not a valid npz file"):
        blocks()


def test_records_and_lists_in_parquet_are_those_of_json(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    rows = [{"a": {"b": float(k), "l": "uv"[k % 2]}, "n": [1] * (k % 3), "y": k} for k in range(N)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "t.parquet")
    (tmp_path / "t.json").write_text(json.dumps(rows))
    one, other = read(tmp_path / "t.parquet"), read(tmp_path / "t.json")
    assert one.X.column_names == ["a.b", "a.l", "n.count"]
    assert one.X.to_pylist() == other.X.to_pylist()


def test_the_tables_of_an_archive_are_named(tmp_path):
    path = tmp_path / "t.zip"
    path.write_bytes(zipped(**{"train.csv": text(), "test.csv": text()}))
    with pytest.raises(DataError, match="holds 2: 'train.csv', 'test.csv' .unpack it"):
        read(path)
