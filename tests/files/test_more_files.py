"""The same small table in more writings, layouts and packages is the same table."""

import io
import json
import lzma
import warnings
import zipfile

import numpy as np
import pytest

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


def test_a_web_page_is_called_so(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("\n<!DOCTYPE html><html><table><tr><td>1</td></tr></table></html>\n")
    with pytest.raises(DataError, match="this is a web page"):
        read(path)
