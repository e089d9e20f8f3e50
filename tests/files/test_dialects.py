"""Delimited text as people have it: one table, however it is written, is read as the same table."""

import io
import itertools
import random

import numpy as np
import pytest

from tunefree.files import DataError, read
from tunefree.files.dialect import sniffed
from tunefree.files.files import Skipped
from tunefree.files.mixed import read_mixed
from tunefree.files.quotes import cells_of, last_row, regular
from tunefree.files.records import records

NAMES = ["age", "town", "income", "y"]
TOWNS = ["Rome", "Oslo", "Bonn", "Köln"]
DELIMITERS = [",", ";", "\t", "|", " "]
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252"]
ENDS = ["\n", "\r\n", "\r"]


def rows(seed, n=30):
    rng = np.random.default_rng(seed)
    ages, incomes = rng.integers(18, 90, n), rng.normal(size=n).round(3)
    towns = rng.choice(TOWNS, size=n)
    return [
        [str(a), t, str(i), str(int(a > 40))] for a, t, i in zip(ages, towns, incomes, strict=True)
    ]


def text_of(table, delimiter=",", header=NAMES, quoted=False, end="\n"):
    """A table in a dialect."""
    lines = [*([header] if header else []), *table]
    if quoted:
        lines = [[f'"{cell}"' for cell in line] for line in lines]
    return "".join(delimiter.join(line) + end for line in lines)


def cells(found):
    """The cells of a table that was read, as text."""
    if not hasattr(found.X, "column_names"):
        columns = found.X.T.tolist()
    else:
        columns = [column.to_pylist() for column in found.X.columns]

    def plain(cell):
        return cell if isinstance(cell, str) and cell.isalpha() else float(cell)

    return [[plain(cell) for cell in column] for column in [*columns, found.y.tolist()]]


def expected(table):
    columns = [list(column) for column in zip(*table, strict=True)]
    return [column if column[0] in TOWNS else [*map(float, column)] for column in columns]


def streamed(content, **options):
    found = list(records([content], "csv", **options))
    return [[*map(str, row.x.values()), str(row.y)] for row in found]


@pytest.mark.filterwarnings("ignore:.*not UTF-8")
@pytest.mark.parametrize("seed", range(60))
def test_a_table_is_the_same_in_every_dialect(seed):
    rng = np.random.default_rng(seed)
    table = rows(seed)
    delimiter, end = rng.choice(DELIMITERS), ENDS[rng.integers(3)]
    header = NAMES if rng.random() < 0.7 else None
    text = text_of(table, delimiter, header, quoted=rng.random() < 0.3, end=end)
    comment = rng.choice(["", "#", "%", "//"])
    if comment:
        text = f"{comment} a station, by hand{end}{end}{text}"
    content = text.encode(ENCODINGS[rng.integers(len(ENCODINGS))])
    found = read_mixed([content], format="csv")
    assert found.feature_names == (header and NAMES[:-1])
    assert cells(found) == expected(table)
    assert [[row[0], row[1], row[3]] for row in streamed(content)] == [
        [row[0], row[1], row[3]] for row in table
    ]
    pieces = [content[i : i + 7] for i in range(0, len(content), 7)]
    assert cells(read_mixed(pieces, format="csv")) == cells(found)


TABLE = rows(7)
BODY = text_of(TABLE, header=None)
PLAIN = ",".join(NAMES) + "\n" + BODY
ODD = {
    "prose above": "Report of the station\nunits: years\n\n" + PLAIN,
    "keys and values above": "Station: 7\nFrom: 2020-01-01, to: 2021-01-01\n\n" + PLAIN,
    "a block above": "-BEGIN-\n" + "Parameter(s): all of them\n" * 9 + "-END-\n" + PLAIN,
    "comments between": PLAIN.replace("\n", "\n# checked\n", 9),
    "names in a comment": "# made by hand\n# age,town,income,y\n" + BODY,
    "trailing delimiters": "".join(line + ",,\n" for line in PLAIN.splitlines()),
    "trailing in the header": PLAIN.replace("y\n", "y,,\n", 1),
    "trailing in the rows": "".join(
        line + "," * (k > 0) + "\n" for k, line in enumerate(PLAIN.splitlines())
    ),
    "lines quoted as a whole": "".join(f'"{line}"\n' for line in PLAIN.splitlines()),
    "lines and cells quoted": "".join(
        '"' + ",".join(f'""{cell}""' for cell in line.split(",")) + '"\n'
        for line in PLAIN.splitlines()
    ),
    "units below the names": PLAIN.replace("y\n", "y\nyears,,euros,(0/1)\n", 1),
    "blanks around cells": PLAIN.replace(",", " , "),
    "NUL bytes": PLAIN.replace(",", ",\0"),
    "another delimiter in the header": ",".join(NAMES) + "\n" + text_of(TABLE, " ", None),
    "many blanks": text_of(TABLE, "    "),
    "blanks at both ends": "".join(f"  {line} \n" for line in text_of(TABLE, " ").splitlines()),
    "a line for Excel": "sep=;\n" + text_of(TABLE, ";"),
}


@pytest.mark.parametrize("name", ODD)
def test_an_oddity_changes_nothing(name):
    content = ODD[name].encode()
    found = read_mixed([content], format="csv")
    assert found.feature_names == NAMES[:-1] and cells(found) == expected(TABLE)
    assert [row[:2] for row in streamed(content)] == [row[:2] for row in TABLE]
    if name not in ("blanks around cells", "NUL bytes", "many blanks", "a line for Excel"):
        assert found.notes or name in ("blanks at both ends", "trailing in the header")


def names_of(text):
    return sniffed(text).names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "name,2019,2020,grade\nann,1.5,2,7\nbob,2.5,3,8\nkim,0.5,9,9\n",
            ["name", "2019", "2020", "grade"],
        ),
        (
            "gene,1,call,2,call\n" + "g1,-3,A,5,P\ng2,4,A,6,A\ng3,7,P,8,P\n" * 3,
            ["gene", "1", "call", "2", "call.1"],
        ),
        ("red,small\nblue,large\nred,large\nblue,small\nred,small\n", None),
        ("colour,size\nblue,large\nred,large\nblue,small\nred,small\n", ["colour", "size"]),
        ("3,?,alfa,gas\n1,7,audi,gas\n2,8,alfa,oil\n", None),
        ("#,Name,HP\n1,a,45\n2,b,50\n3,c,60\n", ["#", "Name", "HP"]),
        ("x,x,,x.1\n1,2,3,4\n", ["x", "x.2", "column 3", "x.1"]),
        ('"a" "b"\n"r1" 1 2\n"r2" 3 4\n"r3" 5 6\n', ["column 1", "a", "b"]),
        (",0,1,2\n0,1,4,2\n1,2,5,3\n2,9,8,7\n", ["column 1", "0", "1", "2"]),
        ("0,1,2\n1.5,4,2\n1,2.5,3\n2,9,7\n", ["0", "1", "2"]),
        ("0,1,2\n1,4,2\n1,2,3\n2,9,7\n", None),
        ("when,n\n2020-01-01,1\n2020-01-02,2\n", ["when", "n"]),
        ("q,,\nResponse,Yes,No\n1,7,a\n2,8,b\n3,9,c\n4,9,d\n", ["q", "Yes", "No"]),
    ],
)
def test_the_header_is_what_does_not_fit_the_columns(text, names):
    assert names_of(text) == names


def test_columns_of_nothing_are_matched_by_name():
    train = read([b"y,msg,x,,\n1,4,2,,\n2,5,3,,\n3,6,9,,\n"], format="csv", target="y")
    assert train.feature_names == ["msg", "x"] and "4, 5" in train.notes[0]
    new = read([b"x,msg,,\n7,8,,\n"], format="csv", target=False, columns=train.feature_names)
    assert new.X.tolist() == [[8, 7]]
    # A column with contents and without a name moves when the target is absent.
    table = b"y,a,,b\n1,2,3,4\n2,3,4,5\n5,6,7,8\n"
    first = read([table], format="csv", target="y")
    assert first.feature_names == ["a", "column 3", "b"]
    again = read([b"a,,b\n2,3,4\n"], format="csv", target=False, columns=first.feature_names)
    assert again.X.tolist() == [[2, 3, 4]]


def test_one_of_two_columns_of_a_name_is_dropped():
    found = read([b"x,x,y\n1,2,3\n4,5,6\n"], format="csv", drop=["x.1"])
    assert found.feature_names == ["x"] and found.X.tolist() == [[1], [4]]
    assert "'x'" in found.notes[0]


def test_a_stray_quote_is_text():
    words = {3: b'"hi', 9: b'bye"'}
    rows = [b"%d\t%s\t%d\n" % (i, words.get(i, b"ok"), i % 2) for i in range(20)]
    text = b"x\tw\ty\n" + b"".join(rows)
    found = read_mixed([text], format="csv", target="y")
    assert len(found.y) == 20
    assert found.X["w"].to_pylist()[3] == '"hi' and found.X["w"].to_pylist()[9] == 'bye"'
    assert [row.x["w"] for row in records([text], "csv", target="y")][3] == '"hi'
    lines = b'a,n,y\n"one\ntwo, ""x""",1,1\nz,2,0\n"no "end" here",3,1\n'
    found = read_mixed([lines], format="csv")
    assert found.X["a"].to_pylist() == ['one\ntwo, "x"', "z", 'no "end" here']
    assert [row.x["a"] for row in records([lines], "csv")] == found.X["a"].to_pylist()


@pytest.mark.parametrize("seed", range(300))
def test_regular_text_holds_the_same_cells(seed):
    import csv

    rng = np.random.default_rng(seed)
    bits = ['"', ",", "\n", "a", "b ", " ", '""', "\n"]
    text, width = "".join(rng.choice(bits, size=rng.integers(1, 25))) + "\n", int(rng.integers(4))
    ours, at = [], 0
    while at < len(text):
        row, at = cells_of(text, at, ",", width)
        ours.append([cell for *_, cell in row])
    plain = regular(text.encode(), ",", width).decode()
    theirs = [
        [cell.strip(" \t") for cell in row] for row in csv.reader(io.StringIO(plain, newline=""))
    ]
    assert [r for r in ours if r != [""]] == [r for r in theirs if r and r != [""]]
    end = last_row(text.encode(), ",", width)
    assert 0 <= end <= len(text) and (end == 0 or text[end - 1] == "\n")


@pytest.mark.parametrize("delimiter", [";", "|", " "])
def test_errors_have_their_place_in_every_dialect(delimiter):
    table = [*rows(1)[:9], ["40", "Rome", "oops", "1"]]
    text = "# by hand\n" + text_of(table, delimiter)
    found = read_mixed([text.encode()], format="csv")
    assert found.where(9, 2) == "<stream>:12:9"
    with pytest.raises(DataError) as caught:
        read_mixed(
            [text.encode() + delimiter.join(["40", "Rome", "1"]).encode()],
            format="csv",
            delimiter=delimiter,
        )
    assert (caught.value.line, caught.value.column) == (13, 10)


def test_a_row_alone_is_data_for_a_model_without_names():
    found = read_mixed([b"red,small\n"], format="csv", target=False, n_features=2, cells=True)
    assert found.X.num_rows == 1
    assert sniffed("red,small\n").names == ["red", "small"]


def test_a_given_delimiter_is_used():
    assert read([b"a:y\n1:2\n3:4\n"], format="csv", delimiter=":").X.tolist() == [[1], [3]]
    assert read([b"a\ty\n1\t2\n"], format="csv", delimiter="tab").X.tolist() == [[1]]
    with pytest.raises(ValueError, match="delimiter='::' is no delimiter"):
        read([b"a:y\n1:2\n3:4\n"], format="csv", delimiter="::")
    text = b"a;b,y\n1;2,3\n4;5,6\n"
    assert read_mixed([text], format="csv", delimiter=",").feature_names == ["a;b"]
    with pytest.raises(DataError, match="--delimiter"):
        read([b"a+y\n1+2\n3+4\n"], format="csv")


@pytest.mark.parametrize("delimiter", DELIMITERS)
def test_rows_continue_where_a_stream_was_interrupted(delimiter):
    content = ("# c\n" + text_of(rows(3), delimiter)).encode()
    layout = []
    whole = list(records([content], "csv", layout=layout))
    for k in (1, 13, 28):
        rest = list(records([content], "csv", place=whole[k].place, layout=layout))
        assert rest == whole[k + 1 :]


def test_pieces_do_not_matter():
    text = (PLAIN.replace("Rome", '"Ro\nme"')).encode()
    whole = list(itertools.chain(records([text], "csv")))
    for size in (1, 5, 64):
        pieces = [text[i : i + size] for i in range(0, len(text), size)]
        assert list(records(pieces, "csv")) == whole


@pytest.mark.parametrize("delimiter", [*",;\t| ", "   "])
@pytest.mark.parametrize("colours", [False, True])
def test_rows_of_another_length_are_skipped_and_counted(delimiter, colours):
    """With any delimiter, by the readers of tables and of streams; the first one is named."""
    draw = random.Random(f"{delimiter}{colours}")
    rows = [["a", "b", "c", "y"]]
    for _ in range(100):
        second = draw.choice(["red", "blue"]) if colours else str(draw.randint(0, 9))
        rows.append([f"{draw.gauss(0, 1):.3f}", second, str(draw.randint(0, 99)), "1"])
    odd = sorted(draw.sample(range(2, 101), 15))
    for k in odd:
        rows[k] = [*rows[k], "7"] if k % 2 else rows[k][:2]
    text = ("\n".join(map(delimiter.join, rows)) + "\n").encode()
    for count in (
        lambda skipped: read_mixed([text], format="csv", skipped=skipped).X.shape[0],
        lambda skipped: sum(1 for _ in records([text], "csv", skipped=skipped)),
    ):
        skipped = Skipped()
        assert (count(skipped), skipped.count, skipped.first.line) == (85, 15, odd[0] + 1)
        with pytest.raises(DataError, match="cells") as problem:
            count(None)
        assert problem.value.line == odd[0] + 1
