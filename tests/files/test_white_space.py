"""One definition of a line and of white space: the same in memory, as a stream and as a table.

A line ends with a newline; vertical tabs, form feeds and a single return read as spaces.
"""

import re

import numpy as np
import pytest
from scipy import sparse

from tunefree import open_source
from tunefree.files import DataError, Skipped, read
from tunefree.files.mixed import mixed_parts, read_mixed
from tunefree.rows.schema import Schema, read_columns

ODD = [b"\r", b"\v", b"\f", b"\r\n", b" ", b"\t", b"\x1c", b"\xc2\x85", b"\xc2\xa0", b"\n"]
SOUND = {
    "libsvm": b"1 1:0.5 3:2\n-1 2:1 # a\n1 3:7\n-1 1:1 2:2\n",
    "csv": b'a,b,y\n1,2.5,3\n4,"5",6\n7,8,9\n-1,.5,0\n',
}


def damaged(seed, format):
    rng, text = np.random.default_rng(seed), SOUND[format]
    for _ in range(rng.integers(1, 6)):
        at, odd = int(rng.integers(len(text) + 1)), ODD[rng.integers(len(ODD))]
        text = text[:at] + odd + text[at + int(rng.integers(2)) :]
    return text


def told(X, y):
    X = X.toarray() if sparse.issparse(X) else np.asarray(X)
    return X.shape, X.tolist(), np.asarray(y).tolist()


def numbers_of(X):
    """The numbers of a table of cells."""
    if not hasattr(X, "column_names"):
        return X
    columns = read_columns(Schema.of(X, X.column_names), X)
    return np.column_stack([np.where(c.missing, np.nan, c.values) for c in columns])


def outcome(reading):
    """What is read, or that it is refused, and where."""
    try:
        return told(*reading())
    except DataError as refusal:
        return re.sub(r"the first: .*?:\d+:\d+: ", "", str(refusal).partition(": ")[2])


def streamed(path):
    """All rows of a source."""
    found = list(open_source(path).chunks())
    width = max((c.X.shape[1] for c in found), default=0)
    X = [np.pad(told(c.X, [])[1], ((0, 0), (0, width - c.X.shape[1]))) for c in found if len(c)]
    if not X:
        raise DataError("the file has no rows", str(path))
    return np.concatenate(X), np.concatenate([c.y for c in found])


@pytest.mark.parametrize("format", SOUND)
@pytest.mark.parametrize("seed", range(300))
def test_a_file_reads_the_same_in_every_way(tmp_path, seed, format):
    text, path = damaged(seed, format), tmp_path / f"odd.{format}"
    path.write_bytes(text)

    def whole(pieces):
        skipped = Skipped(malformed=False)
        table = read(pieces, format=format, skipped=skipped)
        skipped.check(len(table.y), path)
        return table.X, table.y

    expected = outcome(lambda: whole([text]))
    assert outcome(lambda: whole([bytes([b]) for b in text])) == expected
    assert outcome(lambda: whole([text.translate(bytes.maketrans(b"\r\v\f", b"   "))])) == expected
    assert outcome(lambda: streamed(path)) == expected
    plain = not {0x1C, 0x85, 0xA0} & {*text}  # which cells of people may have
    if format == "csv" and isinstance(expected, tuple) and plain:  # and as a table of anything
        table = read_mixed([text], format="csv")
        assert told(numbers_of(table.X), table.y) == expected
        (part,) = mixed_parts([text], format="csv")
        assert told(numbers_of(part.X), part.y) == expected


def test_what_ends_a_line_and_what_parts_words():
    for odd in (b"\v", b"\f", b"\v \f"):
        X, y = read([b"1%s1:2%s2:3%s\n" % (odd, odd, odd)], format="libsvm")[:2]
        assert told(X, y) == ((1, 2), [[2.0, 3.0]], [1.0])
        X, y = read([b"%s1%s,%s2,3%s\n" % (odd, odd, odd, odd)], format="csv")[:2]
        assert told(X, y) == ((1, 2), [[1.0, 2.0]], [3.0])
        table = read_mixed([b"a,b,y\nx%sy,%s2%s,3\nz,,4\n" % (odd, odd, odd)], format="csv")
        assert table.X["a"][0].as_py() == "x" + " " * len(odd) + "y"
        assert table.X["b"].to_pylist() == ["2", None]


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
@pytest.mark.parametrize("last", ["", "\n", "\r", "\r\n"])
@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_lines_end_as_in_any_system_and_the_file_as_in_another(end, last, size):
    rows = ['"a",b,"y"', *(f'"{i} x",{i / 7},{i % 5}' for i in range(40))]
    text = (end.join(rows) + last).encode()
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    frame, y, *_ = read_mixed(pieces)
    assert frame.shape == (40, 2)
    assert [str(cell) for cell in frame.column(0)] == [f"{i} x" for i in range(40)]
    assert np.asarray(y).tolist() == [i % 5 for i in range(40)]
