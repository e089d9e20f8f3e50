"""Tables as programs export them: joined files, other quotes, pairs above, sums below."""

import csv
import io
import warnings

import numpy as np
import pyarrow as pa
import pytest

from tunefree.files.dialect import sniffed
from tunefree.files.files import DataError, Skipped
from tunefree.files.formats import _table_of_cells, notes_of
from tunefree.files.mixed import read_mixed
from tunefree.files.records import records
from tunefree.rows.schema import learn_columns, read_columns, typed

NAMES = ["size", "word", "n", "y"]
WORDS = ["red", "blue, or so", 'the "big" one', "it's", "a;b"]
MARKS = [",", ";", "\t", "|"]


def table(seed, n=30):
    rng = np.random.default_rng(seed)
    sizes, counts = rng.normal(5.0, 1.0, n), rng.integers(0, 90, n)
    words = rng.choice(WORDS, n)
    return [
        [f"{a:.3f}", str(word), str(k), f"{a + k:.3f}"]
        for a, word, k in zip(sizes, words, counts, strict=True)
    ]


def written(rows, mark=",", **how):
    out = io.StringIO()
    csv.writer(out, delimiter=mark, lineterminator="\n", **how).writerows(rows)
    return out.getvalue()


def read(text, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = read_mixed([text.encode()], format="csv", cells=True, **options)
    names = found.feature_names, found.target.name
    return names, [column.to_pylist() for column in found.X.columns], found.y.tolist()


def streamed(text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(records([text.encode()], "csv"))
    return [[*row.x.values(), row.y] for row in found]


@pytest.mark.parametrize("target", ["y", "word"])
@pytest.mark.parametrize("mark", MARKS)
def test_files_that_were_joined_are_one_table(mark, target):
    rows = table(1)
    parts = [[NAMES, *rows[:4]], [NAMES, *rows[4:20]], [NAMES, *rows[20:]]]
    whole = written([NAMES, *rows], mark)
    for between in ("", "\ufeff", "\n"):
        joined = between.join(written(part, mark) for part in parts)
        assert read(joined, target=target) == read(whole, target=target)
        assert streamed(joined) == streamed(whole)
    quoted = "".join(written(part, mark, quoting=csv.QUOTE_ALL) for part in parts)
    assert read(quoted, target=target) == read(whole, target=target)


def test_a_repeated_header_is_told_with_its_line():
    text = written([NAMES, *table(2)])
    with pytest.warns(UserWarning, match="line 32 repeats the header"):
        read_mixed([(text + text).encode()], format="csv")


def test_numbers_that_repeat_names_are_data():
    """pandas names columns 0, 1, 2, and a row may hold these numbers."""
    found = read("0,1,2\n1.5,4,2\n1,2.5,3\n0,1,2\n2,9,7\n")
    assert found[1][0] == ["1.5", "1", "0", "2"]


@pytest.mark.parametrize("mark", MARKS)
def test_a_backslash_before_quotes_within_cells(mark):
    """So MySQL and Spark write them."""
    rows = table(3)
    usual = written([NAMES, *rows], mark)
    how = {"doublequote": False, "escapechar": "\\", "quoting": csv.QUOTE_ALL}
    text = written([NAMES, *rows], mark, **how)
    assert '\\"' in text
    assert read(text) == read(usual)
    assert streamed(text) == streamed(usual)


def test_a_backslash_may_end_a_cell():
    rows = [[a, f"C:\\{k}\\", k, y] for (a, _, k, y) in table(4)]
    text = written([NAMES, *rows], quoting=csv.QUOTE_ALL)
    assert read(text)[1][1] == [row[1] for row in rows]
    assert not sniffed(text).quoting


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("how", [csv.QUOTE_ALL, csv.QUOTE_MINIMAL])
def test_apostrophes_around_cells(mark, how):
    rows = [[a, word.replace("'", "").replace('"', ""), k, y] for a, word, k, y in table(5)]
    usual = written([NAMES, *rows], mark)
    text = written([NAMES, *rows], mark, quotechar="'", quoting=how)
    assert read(text) == read(usual)
    assert streamed(text) == streamed(usual)


def test_apostrophes_within_words_are_letters():
    rows = [[a, f"'s {k}" if int(k) % 2 else f"{k} o'", k, y] for a, _, k, y in table(6)]
    text = written([NAMES, *rows])
    assert read(text)[1][1] == [row[1] for row in rows]


def test_the_quotes_of_a_checkpoint_are_those_of_the_file():
    how = {"doublequote": False, "escapechar": "\\", "quoting": csv.QUOTE_ALL}
    text = written([NAMES, *table(7)], **how).encode()
    layout: list = []
    whole = list(records([text], "csv", layout=layout))
    rest = records([text], "csv", layout=layout, place=whole[9].place)
    assert [row.x for row in rest] == [row.x for row in whole[10:]]


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("target", ["y", "word"])
def test_pairs_above_a_table_are_no_rows(mark, target):
    """A spreadsheet fills their lines with delimiters."""
    table_text = written([NAMES, *table(8)], mark)
    above = [["Station", "Oslo", "", ""], ["Height", "52.5", "", ""], [""] * 4]
    for lines in (above, above[:2], above[1:]):
        assert read(written(lines, mark) + table_text, target=target) == read(
            table_text, target=target
        )


def test_a_header_with_few_names_is_no_pair():
    rows = "".join(f"{a},{k},{y},{k}\n" for a, _, k, y in table(9))
    assert read("size,n,,\n" + rows)[0] == (["size", "n", "column 3"], "column 4")


@pytest.mark.parametrize("first", ["{a}", "red", "{k}"])
def test_names_are_shifted_only_beside_names_of_rows(first):
    """A header that lacks a name is refused, unless the first cells name the rows, as in R."""
    rows = table(10)
    body = [[first.format(a=a, k=int(k) % 3), a, k, y] for a, _, k, y in rows]
    with pytest.raises(DataError, match="more than the 3 cells"):
        read(written([["size", "n", "y"], *body]))
    named = [[f"row {i}", *row[1:]] for i, row in enumerate(body)]
    assert read(written([["size", "n", "y"], *named]))[0] == (["column 1", "size", "n"], "y")


@pytest.mark.parametrize(
    "note", ["Übrige: geschätzt", "Источник: служба", "© the office", "注：暂定", "Note: see"]
)
def test_notes_below_a_table_in_any_script(tmp_path, note):
    path = tmp_path / "t.csv"
    text = written([NAMES, *table(11)])
    path.write_text(text + "\n" + note + "\n", encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = read_mixed(str(path), skipped=Skipped(malformed=False))
    assert len(found.y) == 30


@pytest.mark.parametrize(
    "below",
    [
        [["Total", None, 1234, 999.5]],
        [["Total", None, 1234, 999.5], ["Source: the office", None, None, None]],
        [["Mean", None, None, 9.5], ["Numbers are provisional here", None, None, None]],
    ],
)
def test_a_sheet_is_read_as_its_text(below):
    rows = [[float(a), word, int(k), float(y)] for a, word, k, y in table(12)]
    whole = _table_of_cells([NAMES, *rows], None, None)[0]
    above = [["Station", "Oslo", None, None], ["Height", 52.5, None, None]]
    page = [[*above, NAMES, *rows[:15], NAMES, *rows[15:], *below]]
    found, notes = _table_of_cells(page[0], None, None)
    assert found.equals(whole) and len(notes) == 3
    assert not notes_of(whole)


def sums_of(rows, name="Total", divisor=1.0):
    """A full row of sums, or of means, below rows of (size, word, n, y)."""
    sizes, counts, ys = (sum(float(row[j]) for row in rows) / divisor for j in (0, 2, 3))
    return [name, f"{sizes:.2f}", f"{counts:.6g}", f"{ys:.3f}"]


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("kind", ["Total", "Sum", "Gesamt", "Grand total", "Mean"])
def test_a_full_row_of_sums_is_no_row(tmp_path, mark, kind):
    rows = table(21)
    named = [[row[1], row[0], *row[2:]] for row in rows]
    last = sums_of(rows, kind, len(rows) if kind == "Mean" else 1.0)
    whole = written([["word", "size", "n", "y"], *named, last], mark)
    whole = whole.replace(".", ",") if mark == ";" else whole
    path = tmp_path / "t.csv"
    for below in ("", "\n", written([["Source: the office", "", "", ""]], mark)):
        path.write_text(whole + below)
        with pytest.warns(UserWarning, match="below the table: not read"):
            found = read_mixed(str(path), cells=True)
        assert found.X.column("word").to_pylist() == [row[0] for row in named]
    cells = [[word, *map(float, rest)] for word, *rest in named]
    head = ["word", "size", "n", "y"]
    sheet, notes = _table_of_cells([head, *cells, [kind, *map(float, last[1:])]], None, None)
    assert sheet.num_rows == len(rows) and "the last row is below the table" in notes[0]


@pytest.mark.parametrize("change", [1.01, -1.0, 0.5])
def test_a_row_that_holds_no_sums_is_read_and_told(tmp_path, change):
    rows = table(22)
    named = [[row[1], row[0], *row[2:]] for row in rows]
    name, *last = sums_of(rows)
    last = [f"{change * float(cell):.3f}" for cell in last]
    path = tmp_path / "t.csv"
    path.write_text(written([["word", "size", "n", "y"], *named, [name, *last]]))
    with pytest.warns(UserWarning, match="1 row begins like a row of sums, the first in line 32"):
        found = read_mixed(str(path), cells=True)
    assert len(found.y) == len(rows) + 1


def test_a_last_row_with_a_name_alone_is_a_row(tmp_path):
    """A name of three words without values is no note."""
    names = ["The Grand Hotel", "The Old Inn"]
    rows = [[f"{names[k % 2]} {k}", k, k + 0.5] for k in range(30)]
    path = tmp_path / "t.csv"
    path.write_text(written([["name", "a", "b"], *rows, ["The New Inn 7", "", ""]]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_mixed(str(path), cells=True, target=False).X.num_rows == 31
    marked = [[f"Room: {k}", k, k + 0.5] for k in range(30)]
    path.write_text(written([["name", "a", "b"], *marked, ["Room: 31", "", ""]]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_mixed(str(path), cells=True, target=False).X.num_rows == 31


def in_groups(numbers):
    return [f"{k:,}".replace(",", ".") for k in numbers]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("most", [9000, 2_000_000])
@pytest.mark.parametrize("beside", ["words", "numbers"])
@pytest.mark.parametrize("mark", [";", ",", "\t"])
def test_points_between_thousands_are_no_decimals(seed, most, beside, mark):
    """1.250 beside 410 is more than it: else a column has values a thousand times too small."""
    rng = np.random.default_rng(seed)
    numbers, targets = np.exp(rng.uniform(3.0, np.log(most), (2, 80))).astype(int)
    numbers[:2], targets[:2] = (1250, 410), (410, 3120)
    others = rng.choice(WORDS[:1] + WORDS[3:4] if beside == "words" else ["1", "2"], 80)
    rows = zip(others, in_groups(numbers), in_groups(targets), strict=True)
    text = written([["word", "n", "y"], *rows], mark)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = read_mixed([text.encode()], format="csv")
        schema, columns = learn_columns(found.X, found.X.column_names)
        streams = [*records([text.encode()], "csv")]
    assert found.y.tolist() == targets.tolist()
    assert columns[1].values.tolist() == numbers.tolist()
    if most < 1_000_000:  # two points in a cell leave no doubt
        texts = learn_columns(pa.table({"n": in_groups(numbers)}))[0].columns[0]
        assert "points stand between thousands" in texts.note
    assert [row.x["n"] for row in streams] == numbers.tolist()
    assert [row.y for row in streams] == targets.tolist()
    # One row alone is read by what is known.
    one = typed(schema, read_columns(schema, found.X.slice(0, 1)))
    assert one.column("n").to_pylist() == [1250.0]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("form", ["{:.3f}", "{:.4g}", "{}", "{:.2f}"])
def test_decimal_points_stay_decimal_points(seed, form):
    rng = np.random.default_rng(seed)
    values = rng.uniform(1.0, 900.0, (80, 2)).round(3)
    values[::7] = np.floor(values[::7])
    cells = [[form.format(a), form.format(b)] for a, b in values.tolist()]
    found = read(written([["a", "y"], *cells]))
    assert found[2] == [float(b) for _, b in cells]
    frame = pa.table({"a": [a for a, _ in cells]})
    assert learn_columns(frame)[1][0].values.tolist() == [float(a) for a, _ in cells]


@pytest.mark.parametrize("mark", ["\ufeff", "\ufeff\ufeff", "\ufeff\ufeff\ufeff"])
def test_marks_of_the_byte_order_are_no_part_of_a_name(mark):
    whole = written([NAMES, *table(31)])
    assert read(mark + whole) == read(whole)
    assert streamed(mark + whole) == streamed(whole)


@pytest.mark.parametrize("marker", ["\\N", "NULL", "#N/A"])
def test_the_null_of_a_database_is_no_level(marker):
    rows = [
        [marker if k % 5 == j else cell for j, cell in enumerate(row)]
        for k, row in enumerate(table(32, 60))
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = read_mixed([written([NAMES, *rows]).encode()], format="csv", skipped=Skipped())
        _, columns = learn_columns(found.X)
    assert len(found.y) == 48  # the others have no target
    for j, column in enumerate(columns):
        assert np.flatnonzero(column.missing).tolist() == [
            place for place, k in enumerate(k for k in range(60) if k % 5 != 3) if k % 5 == j
        ]


@pytest.mark.parametrize("marker", ["#WERT!", "#NV", "#VALEUR!", "#¡REF!", "k.A.", ".a"])
def test_errors_of_spreadsheets_among_numbers_are_missing_whatever_their_share(marker):
    cells = [marker if k % 3 == 0 else f"{k}.5" for k in range(60)]
    schema, (column,) = learn_columns(pa.table({"a": cells}))
    assert schema.columns[0].kind == "number" and column.missing.sum() == 20


OTHERS = {
    "of another width": [["key", "meaning"], ["u", "1"], ["v", "2"]],
    "of the same width": [["key", "meaning", "rank", "share"], ["u", "up", "1", "2.5"]],
    "wider": [["a", "b", "c", "d", "e"], [*"12345"]],
}


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("gap", ["\n", "\n\n", ",,,\n"])
def test_another_table_below_the_first_is_not_read(tmp_path, mark, other, gap):
    rows = table(41)
    whole = written([NAMES, *rows], mark)
    path = tmp_path / "t.csv"
    path.write_text(whole + gap.replace(",", mark) + written(OTHERS[other], mark))
    with pytest.warns(UserWarning, match="another table begins in line 3[3-4]: not read"):
        found = read_mixed(str(path), cells=True)
    assert found.y.tolist() == read(whole)[2]
    path.write_text(whole)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_mixed(str(path), cells=True).X.equals(found.X)


@pytest.mark.parametrize("mark", MARKS)
def test_empty_lines_between_rows_and_in_cells_part_no_tables(tmp_path, mark):
    rows = table(42)
    rows[7][1] = "a text\n\nof, two; parts | and\tmore"
    lines = [written([row], mark) for row in rows]
    path = tmp_path / "t.csv"
    for n in (5, 20):
        text = "".join([written([NAMES], mark), *lines[:n], "\n", *lines[n:]])
        path.write_text(text)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = read_mixed(str(path), cells=True)
        assert len(found.y) == len(rows)
