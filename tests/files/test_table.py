import csv
import io

import numpy as np
import pytest

from tunefree.files import Column, DataError, read
from tunefree.files.tables import read_table

HEADED = b"age,income,kind\n30,1.5,yes\n40,2.5,no\n"


def table(text, **options):
    return read([text], format="csv", **options)


def test_the_last_column_is_the_target_and_names_are_kept():
    X, y, weight, names, path = table(HEADED)[:5]
    assert X.tolist() == [[30, 1.5], [40, 2.5]]
    assert y.tolist() == ["yes", "no"]
    assert (weight, names, path) == (None, ["age", "income"], "<stream>")


@pytest.mark.parametrize("target", ["age", 0, "0", -3, "-3"])
def test_a_target_can_be_named_or_counted(target):
    X, y, _, names, _ = table(b"age,income,net\n30,1.5,5\n40,2.5,6\n", target=target)[:5]
    assert y.tolist() == [30, 40] and y.dtype == float
    assert names == ["income", "net"]
    assert X.tolist() == [[1.5, 5], [2.5, 6]]


def test_a_name_comes_before_a_position():
    assert table(b"x,1,y\n1,2,3\n", target="1", header=True).y.tolist() == [2]


def test_a_file_without_a_target():
    result = table(b"1,2\n3,4\n", target=False)
    assert result.y is None and result.X.tolist() == [[1, 2], [3, 4]]
    assert table(b"1,2\n3,4\n", n_features=2).y is None
    assert table(b"1,2\n3,4\n", n_features=1).y.tolist() == [2, 4]


def test_weights_have_their_own_column():
    result = table(b"w,x,y\n1,2,3\n0.5,3,4\n", weight_column="w")
    assert result.weight.tolist() == [1, 0.5]
    assert result.X.tolist() == [[2], [3]] and result.feature_names == ["x"]


def test_columns_are_matched_by_name():
    text = b"note,income,kind,age\nfine,1.5,yes,30\n"
    result = table(text, columns=["age", "income"], target=False)
    assert result.X.tolist() == [[30, 1.5]] and result.y is None
    assert result.feature_names == ["age", "income"]
    assert table(text, columns=["age", "income"], target="kind").y.tolist() == ["yes"]
    assert table(text, columns=["age", "income"]).y is None  # the last column is a feature
    with pytest.raises(DataError, match=r":1: the header lacks 'height'"):
        table(text, columns=["age", "height"])


def test_a_column_of_another_file_is_found_by_name_or_position_or_not_at_all():
    first = table(b"kind,w,age\na,1,30\nb,2,40\n", target="kind", weight_column="w")
    assert (first.target, first.weight_column) == (Column("kind", 0), Column("w", 1))
    same = {"target": first.target, "weight_column": first.weight_column, "n_features": 1}
    named = table(b"age,kind\n30,b\n", columns=["age"], **same)
    assert (named.X.tolist(), named.y.tolist(), named.weight) == ([[30]], ["b"], None)
    assert table(b"age,x\n30,5\n", columns=["age"], **same).y is None
    counted = table(b"a,1,30\n", columns=["age"], **same)
    assert (counted.X.tolist(), counted.y.tolist(), counted.weight.tolist()) == ([[30]], ["a"], [1])
    bare = table(b"30\n", columns=["age"], **same)
    assert (bare.X.tolist(), bare.y, bare.weight) == ([[30]], None, None)
    with pytest.raises(DataError, match="4 columns hold 2 features, but 1 are expected"):
        table(b"a,1,30,5\n", columns=["age"], **same)


@pytest.mark.parametrize("delimiter", [b",", b";", b"\t"])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_delimiter_newline_and_byte_order_mark_do_not_matter(delimiter, newline, mark):
    text = HEADED.replace(b",", delimiter).replace(b"\n", newline)
    X, y, _, names, _ = table(mark + text)[:5]
    assert names == ["age", "income"]
    assert X.tolist() == [[30, 1.5], [40, 2.5]] and y.tolist() == ["yes", "no"]


def test_a_header_may_hold_quotes_and_stray_carriage_returns():
    names = table(b'"a, ""b""", c\r d ,"e"f,y\n1,2,3,4\n').feature_names
    assert names == ['a, "b"', "c  d", '"e"f']
    assert table(b"a," + b"b" * 200_000 + b",y\n1,2,3\n").feature_names[1] == "b" * 200_000


@pytest.mark.parametrize(
    ("first", "header"), [(b"a,b", True), (b"1,b", False), (b"1,2", False), (b'"a","2x"', True)]
)
def test_a_header_is_a_first_line_without_numbers(first, header):
    result = table(first + b"\n3,4\n")
    assert (result.feature_names is not None) == header
    assert len(result.X) == (1 if header else 2)


def test_the_guess_about_the_header_can_be_overruled():
    assert table(b"2020,2021\n3,4\n", header=True).feature_names == ["2020"]
    with pytest.raises(DataError, match=r":1:1: column 1: not a finite number: 'a'"):
        table(b"a,b\n3,4\n", header=False)


def random_cell(rng):
    kind = rng.integers(4)
    if kind == 0:
        return str(rng.integers(-1000, 1000))
    if kind == 1:
        return repr(float(rng.standard_normal()))
    if kind == 2:
        return f"{rng.standard_normal() * 10.0 ** rng.integers(-300, 300):.{rng.integers(25)}e}"
    return f'" {rng.standard_normal():.5f}"'


def random_table(seed):
    rng = np.random.default_rng(seed)
    width = rng.integers(2, 6)
    rows = []
    for _ in range(rng.integers(1, 20)):
        label = rng.choice(['"a, ""b"""', "plain", "é", '""""', "12", " two words "])
        cells = [random_cell(rng).replace('" ', '"') for _ in range(width)]
        rows.append(", ".join([*cells, label]) + rng.choice(["", " ", "\r"]))
        if rng.random() < 0.1:
            rows.append(" ")
    return ("\n".join(rows) + "\n" * int(rng.integers(2))).encode()


@pytest.mark.parametrize("seed", range(100))
def test_a_random_table_reads_as_the_csv_module_and_float_read_it(seed):
    text = random_table(seed)
    lines = csv.reader(io.StringIO(text.decode()), skipinitialspace=True)
    expected = [[cell.strip() for cell in line] for line in lines if any(c.strip() for c in line)]
    X, y, _, _ = read_table([text], header=False, target_type=str)
    assert X.tolist() == [[float(cell) for cell in line[:-1]] for line in expected]
    assert [label.strip() for label in y.tolist()] == [line[-1] for line in expected]


@pytest.mark.parametrize("seed", range(10))
def test_where_the_text_is_cut_changes_nothing(seed):
    text = random_table(seed)
    X, y, _, _ = read_table([text], header=False)
    for size in (1, 3, 64):
        pieces = [text[i : i + size] for i in range(0, len(text), size)]
        again, labels, _, _ = read_table(pieces, header=False)
        assert np.array_equal(X, again) and y.tolist() == labels.tolist()


def test_numbers_and_text_in_a_target():
    assert table(b"1,1\n1,A\n1,2\n").y.tolist() == ["1", "A", "2"]
    assert table(b"1,1\n1,2\n", target_type=str).y.tolist() == ["1", "2"]
    with pytest.raises(DataError, match=r":2:3: column 2: not a finite number: 'A'"):
        table(b"1,1\n1,A\n1,2\n", target_type=float)
    many = b"".join(b"1,%d\n" % i for i in range(50))
    with pytest.raises(DataError, match=r":51:3: column 2: not a finite number: 'NA'"):
        table(many + b"1,NA\n" + many)


MALFORMED = {
    "a word for a number": (b"a,b,y\n1,2,3\n1,x,3\n", ":3:3: column 'b': not a finite number: 'x'"),
    "nan": (b"a,b,y\n1,2,3\n1,nan,3\n", ":3:3: column 'b': not a finite number: 'nan'"),
    "inf": (b"1,2,3\n1,2,3\n1,-inf,3\n", ":3:3: column 2: not a finite number: '-inf'"),
    "beyond float64": (
        b"1,2,3\n1,2,3\n1, 1e999,3\n",
        ":3:4: column 2: not a finite number: '1e999'",
    ),
    "junk after a number": (b"1,2,3\n1,2,3\n1,2x,3\n", ":3:3: column 2: not a finite number: '2x'"),
    "two points in a long number": (
        b"1,2,3\n1,2,3\n0.12345678901234567890.5,2,3\n",
        ":3:1: column 1: not a finite number: '0.12345678901234567890.5'",
    ),
    "an empty cell": (b"a,b,y\n1,,3\n", ":2:3: column 'b': the cell is empty"),
    "an empty last cell": (b"a,b,y\n1,2,\n", ":2:5: column 'y': the cell is empty"),
    "a nan target": (b"a,y\n1,2\n1,2\n1,NaN\n", ":4:3: column 'y': not a finite number: 'NaN'"),
    "an infinite target": (
        b"a,y\n1,2\n1,1e999\n",
        ":3:3: column 'y': not a finite number: '1e999'",
    ),
    "a short row": (b"1,2,3\n1,2\n", ":2:4: this row has 2 cells, the first one has 3"),
    "a long row": (b"1,2,3\n1,2,3,4\n", ":2:6: this row has more than the 3 cells"),
    "a wide character before": (b"1,2,y\n1,2,\xc3\xa9,4\n", ":2:6: this row has more than the 3"),
    "a lost quote": (b'1,2,"a\n1,2,b"\n', ":1:6: column 3: the quote is not closed on this line"),
    "a negative weight": (b"w,x,y\n-1,1,1\n", ":2:1: column 'w': a weight must not be negative"),
    "a huge label": (b"1,2\n1," + b"x" * 300 + b"\n", ":2:3: column 2: a target of more than 256"),
    "one column": (b"y\n1\n", ":1: the file has no feature column"),
    "a header alone": (b"a,b\n", ": the file has a header and no rows"),
    "nothing": (b"\n \n", ": the file has no rows"),
}


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_a_malformed_table_is_refused_with_its_place(tmp_path, name, size):
    text, words = MALFORMED[name]
    weight = "w" if name == "a negative weight" else None
    path = tmp_path / "bad.csv"
    path.write_bytes(text)
    with pytest.raises(DataError) as caught:
        read(path, weight_column=weight)
    assert str(caught.value).startswith(f"{path}{words}")
    with pytest.raises(DataError) as again:
        pieces = [text[i : i + size] for i in range(0, len(text), size)]
        read(pieces, format="csv", weight_column=weight)
    assert str(again.value) == str(caught.value).replace(str(path), "<stream>")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"target": "z"}, "there is no column 'z': the header has 'a', 'b', 'y'"),
        ({"target": 3}, "there is no column 3: the file has 3"),
        ({"weight_column": "w"}, "there is no column 'w'"),
        ({"target": "a", "weight_column": "a"}, "one column cannot be both target and weight"),
        ({"n_features": 7}, "3 columns hold 2 features, but 7 are expected"),
    ],
)
def test_a_column_that_does_not_fit_is_named(options, words):
    with pytest.raises(DataError, match=f"<stream>:1: {words}"):
        table(b"a,b,y\n1,2,3\n", **options)
