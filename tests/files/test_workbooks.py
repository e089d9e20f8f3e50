"""Workbooks as people make them: sheets of notes, merged cells, formulas without values."""

import warnings
import zipfile

import numpy as np
import pytest

from tunefree.files.mixed import read_mixed
from tunefree.files.records import records

pytest.importorskip("python_calamine", reason="the extra excel is not installed")

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
LINK = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"


def written(value, place):
    if value is None:
        return ""
    if isinstance(value, str) and value.startswith("="):
        return f'<c r="{place}"><f>{value[1:]}</f><v></v></c>'
    if isinstance(value, str):
        return f'<c r="{place}" t="inlineStr"><is><t>{value}</t></is></c>'
    return f'<c r="{place}"><v>{value}</v></c>'


def write(path, merged=(), **sheets):
    """A workbook of sheets of rows; `merged` are ranges of the last one."""
    files = {}
    for k, rows in enumerate(sheets.values(), 1):
        lines = "".join(
            f'<row r="{i}">'
            + "".join(written(v, f"{chr(65 + j)}{i}") for j, v in enumerate(row))
            + "</row>"
            for i, row in enumerate(rows, 1)
        )
        ranges = "".join(f'<mergeCell ref="{r}"/>' for r in merged) if k == len(sheets) else ""
        ranges = f"<mergeCells>{ranges}</mergeCells>" if ranges else ""
        sheet = f'<worksheet xmlns="{MAIN}"><sheetData>{lines}</sheetData>{ranges}</worksheet>'
        files[f"xl/worksheets/sheet{k}.xml"] = sheet
    names = "".join(f'<sheet name="{n}" sheetId="{k}" r:id="r{k}"/>' for k, n in enumerate(sheets))
    links = "".join(
        f'<Relationship Id="r{k}" Type="{LINK}/worksheet" Target="worksheets/sheet{k + 1}.xml"/>'
        for k in range(len(sheets))
    )
    of = f'<Relationships xmlns="{PACKAGE}/relationships">'
    files["[Content_Types].xml"] = f'<Types xmlns="{PACKAGE}/content-types"></Types>'
    own = f'<Relationship Id="r1" Type="{LINK}/officeDocument" Target="xl/workbook.xml"/>'
    files["_rels/.rels"] = f"{of}{own}</Relationships>"
    files["xl/_rels/workbook.xml.rels"] = f"{of}{links}</Relationships>"
    book = f'<workbook xmlns="{MAIN}" xmlns:r="{LINK}"><sheets>{names}</sheets></workbook>'
    files["xl/workbook.xml"] = book
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return str(path)


def table(seed, n=40):
    rng = np.random.default_rng(seed)
    return [
        [str(rng.choice(["u", "v", "w"])), *rng.normal(size=3).round(3).tolist()] for _ in range(n)
    ]


NAMES = ["town", "size", "age", "price"]
NOTES = {
    "prose": [["This workbook"], ["is ours"]],
    "who made it": [["Author", "me"], ["Date", 2020], ["Version", 3]],
    "a list of columns": [["Column", "Meaning"], *([name, f"the {name}"] for name in NAMES)],
    "a list with ranges": [["Field", "Least", "Most"], *([name, 0, 9] for name in NAMES)],
    "one sum": [["rows", "mean"], [40, 0.25]],
}


def read(path, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read_mixed(path, cells=True, **options)


@pytest.mark.parametrize("notes", NOTES)
@pytest.mark.parametrize("seed", range(2))
def test_notes_before_the_data_are_not_learned(tmp_path, notes, seed):
    rows = table(seed)
    path = write(tmp_path / "t.xlsx", Notes=NOTES[notes], Data=[NAMES, *rows])
    found = read(path)
    assert found.X.column_names == NAMES[:-1]
    assert found.y.tolist() == [row[-1] for row in rows]
    assert "the sheet 'Data' is read, of 'Notes', 'Data'" in found.notes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [r.y for r in records(path, "excel")] == found.y.tolist()
    assert read(path, sheet="Notes").X.num_rows < 10 if len(NOTES[notes][0]) > 1 else True


@pytest.mark.parametrize("after", [*NOTES])
def test_the_first_table_is_read_whatever_follows(tmp_path, after):
    rows = table(3, 12)
    path = write(
        tmp_path / "t.xlsx", Data=[NAMES, *rows], More=NOTES[after], Old=[NAMES, *table(4)]
    )
    assert read(path).y.tolist() == [row[-1] for row in rows]


def test_the_sheet_has_the_columns_of_the_model(tmp_path):
    """A few new rows beside the many of the training are predicted, not taken for a note."""
    few = [row[:-1] for row in table(5, 3)]
    sheets = {"Codes": [["u", "up"], ["v", "down"]], "New": [NAMES[:-1], *few]}
    path = write(tmp_path / "t.xlsx", **sheets, Old=[NAMES, *table(6, 200)])
    found = read(path, target=False, columns=NAMES[:-1])
    assert found.X.column("size").to_pylist() == [row[1] for row in few]
    assert len(read(path, target="price").y) == 200


def test_two_rows_of_names_below_merged_cells(tmp_path):
    rows = [[*row[1:], row[1]] for row in table(7)]
    heads = [["Size", None, "Sales", None], ["w", "h", 2019, "2020"]]
    path = write(tmp_path / "t.xlsx", ["A1:B1", "C1:D1"], Data=[*heads, *rows])
    found = read(path)
    assert found.X.column_names == ["Size w", "Size h", "Sales 2019"]
    assert found.y.tolist() == [row[-1] for row in rows]
    assert any("two rows of names" in words for words in found.notes)


def test_a_merged_title_is_no_name(tmp_path):
    rows = table(8)
    path = write(tmp_path / "t.xlsx", ["A1:D1"], Data=[["Prices of all towns"], NAMES, *rows])
    found = read(path)
    assert found.X.column_names == NAMES[:-1] and len(found.y) == len(rows)


@pytest.mark.parametrize("seed", range(3))
def test_merged_cells_have_their_value_in_every_row(tmp_path, seed):
    rng = np.random.default_rng(seed)
    rows, merged, once = table(seed), [], []
    for first in range(0, len(rows), 4):
        size = int(rng.integers(2, 5))
        merged.append(f"A{first + 2}:A{first + 1 + size}")
        for k, row in enumerate(rows[first : first + 4]):
            if k < size:
                row[0] = rows[first][0]
            once.append([None if 0 < k < size else row[0], *row[1:]])
    found = read(write(tmp_path / "t.xlsx", merged, Data=[NAMES, *once]))
    assert found.X.column("town").to_pylist() == [row[0] for row in rows]
    assert any("merged cells" in words for words in found.notes)


def test_formulas_without_values_are_counted(tmp_path):
    rows = [[*row[:2], f"=B{k}*2", row[3]] for k, row in enumerate(table(9), 2)]
    path = write(tmp_path / "t.xlsx", Notes=NOTES["prose"], Data=[NAMES, *rows])
    with pytest.warns(UserWarning, match=r"without a stored value.*column C \(40 cells\).*'Data'"):
        read_mixed(path, cells=True)
    rows[0][2] = None  # an empty cell is none
    path = write(tmp_path / "n.xlsx", Data=[NAMES, *([*row[:2], 1.0, row[3]] for row in rows)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_mixed(path, cells=True)
