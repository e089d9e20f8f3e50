import gzip
import io
import pickle
import sys
import zipfile

import numpy as np
import pytest
import zstandard
from typer.testing import CliRunner

from tunefree import open_source
from tunefree.cli import app
from tunefree.files import DataError, read
from tunefree.files.files import chunks, whole_lines

TEXT = b"1 1:0.5 2:1\n-1 3:2\n" * 500


def test_an_excel_file_is_named(tmp_path):
    path = tmp_path / "a.xlsx"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("[Content_Types].xml", "")
        archive.writestr("xl/workbook.xml", "")
    with pytest.raises(DataError, match="workbook"):
        read(path)


def test_gzip_is_recognised_by_content(tmp_path):
    plain, packed = tmp_path / "data", tmp_path / "packed"
    plain.write_bytes(TEXT)
    packed.write_bytes(gzip.compress(TEXT[:5000]) + gzip.compress(TEXT[5000:]))
    for size in (1, 100, 1 << 20):
        assert b"".join(chunks(plain, size)) == TEXT
        assert b"".join(chunks(packed, size)) == TEXT
        assert all(0 < len(piece) <= max(size, 4) for piece in chunks(packed, size))


def test_standard_input_and_open_files(tmp_path, monkeypatch):
    for content in (TEXT, gzip.compress(TEXT)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        table = read("-")
        assert table.path == "<stdin>" and table.X.shape == (1000, 3)
        stream = io.BytesIO(content)
        assert read(stream).X.shape == (1000, 3)
        assert not stream.closed


@pytest.mark.parametrize("cut", [3, 12, 50, -9, -4, -1])
def test_a_truncated_gzip_is_refused(tmp_path, cut):
    path = tmp_path / "short.gz"
    path.write_bytes(gzip.compress(TEXT)[:cut])
    with pytest.raises(DataError, match="short.gz: the gzip data end too early"):
        read(path)


def test_a_damaged_gzip_is_refused(tmp_path):
    content = bytearray(gzip.compress(np.random.default_rng(0).bytes(10_000)))
    content[5000] ^= 1
    path = tmp_path / "bad.gz"
    path.write_bytes(content)
    with pytest.raises(DataError, match="bad.gz: the gzip data are damaged"):
        list(chunks(path))


def test_zstd_round_trip_and_truncation(tmp_path):
    content = zstandard.ZstdCompressor().compress(TEXT)
    path = tmp_path / "data.zst"
    path.write_bytes(content + content)
    assert b"".join(chunks(path)) == TEXT + TEXT
    path.write_bytes(content[:-3])
    with pytest.raises(DataError, match="zst: the zstd data end too early"):
        list(chunks(path))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
@pytest.mark.parametrize("text", [b"", b"\n", b"a", b"\xef\xbb\xbfa\nbc\n\nd", b"\xef\xbb", b"a\n"])
def test_whole_lines_keep_every_byte_but_the_mark(text, size):
    regrouped = list(whole_lines([text[i : i + size] for i in range(0, len(text), size)]))
    assert all(piece.endswith(b"\n") for piece in regrouped)
    expected = text.removeprefix(b"\xef\xbb\xbf")
    assert b"".join(regrouped) == expected + b"\n" * (bool(text) and not text.endswith(b"\n"))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (b"# note\n\n1 1:2 # c\n", "libsvm"),
        (b"1\n2\n", "libsvm"),
        (b"+1 qid:7 3:4.5\n", "libsvm"),
        (b"1\t3:4\n", "libsvm"),
        (b"1 2 3:1\n", "libsvm"),  # malformed, and no csv either
        (b"1,2\n3,4\n", "csv"),
        (b"a;b\n3;4\n", "csv"),
        (b"1\t2\n3\t4\n", "csv"),
        (b"10:30,1\n", "csv"),
    ],
)
def test_the_format_is_sniffed_from_the_first_line(text, kind):
    if kind == "libsvm":
        expected = "index:value" if b"1 2 3" in text else None
    else:
        expected = "column 1" if b":" in text else None
    try:
        table = read(io.BytesIO(text))
    except DataError as problem:
        assert expected is not None and expected in problem.message
    else:
        assert expected is None and isinstance(table.X, np.ndarray) == (kind == "csv")


def test_the_suffix_decides_first(tmp_path):
    path = tmp_path / "data.csv.gz"
    path.write_bytes(gzip.compress(b"1 1:1,2\n"))
    with pytest.raises(DataError, match="column 1: not a finite number"):
        read(path)
    with pytest.raises(ValueError, match="format must be one of"):
        read(path, format="word")


def test_an_error_survives_pickling():
    error = pickle.loads(pickle.dumps(DataError("wrong", "a.csv", 3, 4)))
    assert str(error) == "a.csv:3:4: wrong" and error.line == 3
    assert str(DataError("wrong")) == "wrong"
    assert str(DataError("wrong", "a.csv")) == "a.csv: wrong"


@pytest.mark.parametrize("name", ["a.csv", "b.parquet", "c.xlsx", "d.npy", "e.libsvm", "f"])
@pytest.mark.parametrize("place", ["https://example.org/", "s3://bucket/", "file:///data/"])
def test_an_address_is_refused_with_what_to_do(place, name):
    for open_it in (read, open_source):
        with pytest.raises(DataError, match="addresses are not read: download the file"):
            open_it(place + name)
    shell = CliRunner().invoke(app, ["look", place + name])
    assert shell.exit_code == 3
    assert f"{place}{name}: addresses are not read" in shell.stderr
