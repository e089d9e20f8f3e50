"""Tables of text, dates and gaps: what their cells mean, and where a bad one stands."""

import warnings

import numpy as np
import pyarrow as pa
import pytest

from tunefree.files import DataError, Skipped, read
from tunefree.files.mixed import mixed_parts, place_of, read_mixed
from tunefree.rows.columns import of_arrow
from tunefree.rows.schema import BadCells, Schema, numbers_among, read_columns, typed

TEXT = b'city,rooms,sold,garage,price\nRome,3,2026-01-31,True,1.5\n"Oslo, N",,NA,false,2.5\n'


def table(text, **options):
    return read_mixed([text], format="csv", **options)


def schema_of(found):
    return Schema.of(found.X, found.X.column_names)


def kinds_of(found):
    return [column.kind for column in schema_of(found).columns]


def contents(found):
    schema = schema_of(found)
    return typed(schema, read_columns(schema, found.X)).to_pydict()


def test_columns_are_what_their_cells_say():
    found = table(TEXT)
    assert kinds_of(found) == ["text", "number", "date", "truth"]
    assert found.X.column_names == found.feature_names == ["city", "rooms", "sold", "garage"]
    columns = contents(found)
    assert columns["city"] == ["Rome", "Oslo, N"] and columns["rooms"] == [3.0, None]
    assert columns["garage"] == [True, False] and str(columns["sold"][0])[:10] == "2026-01-31"
    assert columns["sold"][1] is None and found.y.tolist() == [1.5, 2.5]


@pytest.mark.parametrize("delimiter", [b",", b";", b"\t"])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_delimiter_newline_and_encoding_do_not_matter(delimiter, newline, encoding):
    text = b"stadt,b,y\nK\xc3\xb6ln,,1\nBonn,2,3\n".replace(b",", delimiter).replace(b"\n", newline)
    found = table(text.decode().encode(encoding))
    assert contents(found) == {"stadt": ["Köln", "Bonn"], "b": [None, 2.0]}
    assert found.y.tolist() == [1, 3]


def test_other_encodings_are_said_and_semicolons_allow_decimal_commas():
    with pytest.warns(UserWarning, match="not UTF-8: read as Windows-1252"):
        found = table("ort;wert;y\r\nKöln;-1,5;2,5\r\nBonn;1e3;,5\r\n".encode("cp1252"))
    assert contents(found) == {"ort": ["Köln", "Bonn"], "wert": [-1.5, 1000.0]}
    assert found.y.tolist() == [2.5, 0.5]
    assert kinds_of(table(b'a,b,y\n"1,5",x,1\n"2,5",y,2\n')) == ["number", "text"]


def test_a_cell_may_go_on_over_lines_and_hold_quotes():
    found = table(b'a,n,y\n"one\ntwo ""x"", 3",1,1\n\n 5" pipe ,2,2\n')
    assert found.X["a"].to_pylist() == ['one\ntwo "x", 3', '5" pipe']


def test_numbers_alone_are_an_array_and_read_as_ever():
    numbers = b"a,b,y\n1,2.5,3\n4,0.1,6\n"
    assert table(numbers).X.tobytes() == read([numbers], format="csv").X.tobytes()
    gaps = table(b"a,b,y\n1,,3\n4,nan,6\n7,8,9\n")
    assert contents(gaps) == {"a": [1.0, 4.0, 7.0], "b": [None, None, 8.0]}


@pytest.mark.parametrize(
    "cells, kind",
    [
        (["1", "-2.5", "+3.", ".5e-3", "?", "N/A"], "number"),
        (["TRUE", "false", ""], "truth"),
        (["2026-01-31", "2026-01-31 10:30", "2026-01-31T10:30:05.25Z"], "date"),
        (["2026-02-30"], "text"),
        (["31.12.2026", "2026/12/31 10:30+02:00"], "date"),
        (["12/31/2026", "1/2/2026 12:59 am"], "date"),
        (["31/12/2026", "1/2/2026 12:59 am"], "date"),
        (["31.12.26"], "date"),
        (["13/31/2026"], "text"),
        (["1,234", "-$5,000.25"], "number"),
        (["7 %", "12%"], "number"),
        (["12,34"], "number"),
        (["", "NA"], "nothing"),
        (["1", "x"], "text"),
        ([str(i) for i in range(50)] + ["1O"], "number"),
        ([str(i % 20) for i in range(50)] + ["1O"], "text"),
    ],
)
def test_the_kind_of_a_column(cells, kind):
    assert Schema.of(pa.table({"a": cells})).columns[0].kind == kind


def test_numbers_mean_what_python_makes_of_them():
    rng = np.random.default_rng(0)
    cells = [f"{x:.{d}e}" for x, d in zip(rng.normal(size=200), rng.integers(0, 20, 200))]  # noqa: B905
    values = numbers_among(of_arrow(pa.array([*cells, "1e999", "-inf", "x", None])))
    assert values[:200].tolist() == [float(c) for c in cells]
    assert np.isnan(values[200:]).all()


NUMBERS = b"".join(b"%d,x,%d\n" % (i, i % 2) for i in range(30))
BAD = {
    "a short row": (b"a,b,y\nx,2,3\n\ny,2\n", ":4:4: this row has 2 cells, the first one has 3"),
    "a long row": (b"a,b,y\nx,2,3\ny,2,3,4\n", ":3:6: this row has more than the 3 cells"),
    "no target": (b'a,b,y\n"x\nx",2,3\ny,2,\n', ":4:5: column 'y': the cell is empty"),
    "a target among numbers": (
        b"a,y\n" + b"".join(b"x,%d\n" % i for i in range(30)) + b"x,1O\n",
        ":32:3: column 'y': not a finite number: '1O'",
    ),
    "a header alone": (b"a,b\n", ": the file has a header and no rows"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_row_is_named_or_left_out_and_counted(tmp_path, name):
    text, words = BAD[name]
    path = tmp_path / "bad.csv"
    path.write_bytes(text)
    with pytest.raises(DataError) as caught:
        read_mixed(str(path))
    assert str(caught.value).startswith(f"{path}{words}")
    if "alone" in name:
        return
    skipped = Skipped()
    found = read_mixed(str(path), skipped=skipped)
    counts = [skipped.count, skipped.n_unlabelled]
    first = skipped.first or skipped.first_unlabelled
    assert counts == ([0, 1] if name == "no target" else [1, 0]) and str(first) == str(caught.value)
    sound = 30 if name == "a target among numbers" else 1
    assert len(found.y) == found.X.shape[0] == sound


def test_weights_are_checked():
    found = table(b"w,a,y\n1,x,3\n.5,y,4\n", weight_column="w")
    assert found.weight.tolist() == [1, 0.5] and found.feature_names == ["a"]
    for cell in (b"-1", b"", b"x"):
        with pytest.raises(DataError, match=":2:1: column 'w': "):
            table(b"w,a,y\n" + cell + b",x,3\n1,y,3\n", weight_column="w")


def test_a_cell_that_is_no_number_is_missing_and_counted():
    for cell in (b"1O", b"oops"):
        found = table(b"a,b,y\n" + NUMBERS + cell + b",x,1\n")
        assert kinds_of(found) == ["number", "text"] and found.where(30, 0) == "<stream>:32:1"
        with pytest.warns(BadCells, match=f"'a': 1 cell is no number, the first '{cell.decode()}'"):
            assert contents(found)["a"] == [*range(30), None]


def test_a_later_table_is_read_as_the_first():
    schema = schema_of(table(b"zip,n,y\n0123,,1\nA5,2,2\n"))
    later = table(b"extra,y,n,zip\nq,1,3,0123\n", columns=schema.names, cells=True)
    columns = read_columns(schema, later.X)
    assert typed(schema, columns).to_pydict() == {"zip": ["0123"], "n": [3.0]}
    with pytest.raises(DataError, match=":1: the header lacks 'zip'"):
        table(b"n,y\n1,1\n", columns=schema.names)


def test_parts_are_the_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("tunefree.files.mixed._PART", 100)
    monkeypatch.setattr("tunefree.files.tables.HEAD", 100)
    text = b"a,n,y\n" + b"".join(b'"x\n%d",,%d\n' % (i, i) for i in range(60)) + b"x,oops\n"
    pieces, whole = [text[i : i + 23] for i in range(0, len(text), 23)], table(text[:-7])
    parts = []
    with pytest.raises(DataError, match=":122:7: this row has 2 cells"):
        for part in mixed_parts(pieces, format="csv"):
            parts.append(part)
    assert len(parts) > 3
    again = pa.concat_tables([p.X for p in parts])
    assert again["a"].to_pylist() == whole.X["a"].to_pylist()[: len(again)]


def test_categories_of_parquet_are_their_values(tmp_path):
    from pyarrow import parquet

    path = str(tmp_path / "a.parquet")
    cells = {"city": ["Rome", "Oslo", "Rome"], "kind": ["b", "a", "b"]}
    parquet.write_table(
        pa.table({n: pa.array(c).dictionary_encode() for n, c in cells.items()}), path
    )
    found = read_mixed(path)
    assert contents(found) == {"city": cells["city"]} and found.y.tolist() == cells["kind"]


def test_parquet_keeps_its_types_and_names_bad_rows(tmp_path):
    from pyarrow import parquet

    columns = {
        "c": pa.array(["x", None, "y"]).dictionary_encode(),
        "n": pa.array([1, None, 3]),
        "t": pa.array([True, None, False]),
        "d": pa.array([1, 2, None], pa.date32()),
        "y": [1.5, 2.5, 3.5],
    }
    path = str(tmp_path / "a.parquet")
    parquet.write_table(pa.table(columns), path)
    found = read_mixed(path)
    assert kinds_of(found) == ["category", "number", "truth", "date"]
    assert found.y.tolist() == [1.5, 2.5, 3.5]
    assert contents(found)["c"] == ["x", None, "y"] and contents(found)["n"] == [1.0, None, 3.0]
    parquet.write_table(pa.table(columns | {"n": [1.0, np.inf, 2.0]}), path)
    with pytest.raises(ValueError, match="infinity .* in column 'n'"):
        contents(read_mixed(path))
    parquet.write_table(pa.table(columns | {"c": [[1], [2, 4], None]}), path)
    assert contents(read_mixed(path))["c.count"] == [1.0, 2.0, None]


@pytest.mark.parametrize("seed", range(20))
def test_places_are_those_of_the_cells(seed):
    rng = np.random.default_rng(seed)
    words = ["a", '"b"', '"c, d"', '"e\nf"', '"g""h"', " i ", ""]
    text, wanted = "", []
    for record in range(8):
        text += "\n" * int(rng.integers(2))
        row = [*rng.choice(words, size=3).tolist(), "z"]
        for position, cell in enumerate(row):
            at = len(text) + len(",".join([*row[:position], ""])) + cell.startswith('"')
            at += len(cell) - len(cell.lstrip())
            before = (text + ",".join(row) + "\n")[:at]
            wanted.append((record, position, before.count("\n") + 1, at - before.rfind("\n")))
        text += ",".join(row) + "\n"
    for record, position, line, column in wanted:
        assert place_of(text.encode(), 1, record, position, ",") == (line, column)


@pytest.mark.filterwarnings("ignore:.*not UTF-8")
@pytest.mark.parametrize("seed", range(200))
def test_damaged_text_is_read_or_refused_in_words(seed):
    rng, text = np.random.default_rng(seed), bytearray(TEXT)
    pieces = [b'"', b",", b"\n", b"\r", b"\0", b";", b"\xff", b"\xfe", b"1e999", b"NA", b"9" * 400]
    for _ in range(rng.integers(1, 5)):
        at = int(rng.integers(len(text) + 1))
        if rng.random() < 0.6:
            text[at:at] = pieces[rng.integers(len(pieces))]
        else:
            del text[at : at + 4]
    for skipped in (None, Skipped()):
        try:
            found = table(bytes(text), skipped=skipped)
        except DataError as problem:
            assert str(problem).startswith("<stream>:")
        else:
            assert found.y is None or len(found.y) == found.X.shape[0]


def test_nothing_is_said_of_a_sound_table():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table(TEXT)
