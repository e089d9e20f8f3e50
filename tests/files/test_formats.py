"""One table in every format is read as the same table; files that are no tables are named."""

import bz2
import datetime
import gzip
import json
import pickle
import sqlite3
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import zstandard
from pyarrow import orc

from tunefree.files import DataError, read
from tunefree.files.files import detected
from tunefree.files.json_tables import flat
from tunefree.files.mixed import read_mixed
from tunefree.files.records import records
from tunefree.rows.schema import Schema, read_columns, typed

PACKED = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "zst": lambda content: zstandard.ZstdCompressor().compress(content),
}


def frame(seed=0, n=20):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "size": rng.normal(size=n).round(3),
            "town": rng.choice(["Rome", "Oslo", "Bonn"], size=n),
            "rooms": rng.integers(1, 9, n),
            "y": rng.normal(size=n).round(3),
        }
    )


def write_arff(table, path):
    kinds = ["numeric", "{Bonn, 'Oslo', Rome}", "INTEGER", "real"]
    lines = ["% by hand", "@RELATION 'a b'"]
    lines += [f"@attribute '{n}' {k}" for n, k in zip(table.columns, kinds, strict=True)]
    lines += ["@DATA", *(",".join(map(str, row)) for row in table.to_numpy().tolist())]
    path.write_text("\n".join(lines) + "\n")


def write_xlsx(table, path, sheets=("Sheet1",), above=()):
    """A workbook of strings and numbers; every sheet but the last is empty."""

    def cell(value):
        if isinstance(value, str):
            return f'<c t="inlineStr"><is><t>{value}</t></is></c>'
        return f"<c><v>{value}</v></c>"

    rows = [*above, [*table.columns], *table.to_numpy().tolist()]
    lines = "".join("<row>" + "".join(map(cell, row)) + "</row>" for row in rows)
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    link = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    listed = "".join(
        f'<sheet name="{name}" sheetId="{k}" r:id="rId{k}"/>' for k, name in enumerate(sheets, 1)
    )
    links = "".join(
        f'<Relationship Id="rId{k}" Type="{link}/worksheet" Target="worksheets/sheet{k}.xml"/>'
        for k in range(1, len(sheets) + 1)
    )
    with zipfile.ZipFile(path, "w") as book:
        book.writestr("[Content_Types].xml", f'<Types xmlns="{package}/content-types"></Types>')
        book.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{package}/relationships"><Relationship Id="rId1" '
            f'Type="{link}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        )
        book.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{main}" xmlns:r="{link}"><sheets>{listed}</sheets></workbook>',
        )
        book.writestr(
            "xl/_rels/workbook.xml.rels",
            f'<Relationships xmlns="{package}/relationships">{links}</Relationships>',
        )
        for k, name in enumerate(sheets, 1):
            data = lines if name == sheets[-1] else ""
            sheet = f'<worksheet xmlns="{main}"><sheetData>{data}</sheetData></worksheet>'
            book.writestr(f"xl/worksheets/sheet{k}.xml", sheet)


def write_spss(table, path):
    pyreadstat = pytest.importorskip("pyreadstat", reason="the extra stat is not installed")
    pyreadstat.write_sav(table, str(path))


def write_sas(table, path):
    pyreadstat = pytest.importorskip("pyreadstat", reason="the extra stat is not installed")
    pyreadstat.write_xport(table, str(path))


def write_workbook(table, path):
    pytest.importorskip("python_calamine", reason="the extra excel is not installed")
    write_xlsx(table, path)


def records_of(table):
    return table.to_dict(orient="records")


def write_objects(between, **how):
    """Objects one after the other, not one a line."""
    return lambda t, p: p.write_text(between.join(json.dumps(r, **how) for r in records_of(t)))


def write_below(key, **beside):
    """An object that holds the table below a key, and other things."""
    return lambda t, p: p.write_text(json.dumps({**beside, key: records_of(t)}))


def write_named_arrays(table, path):
    rows = table.to_numpy().tolist()
    path.write_text(json.dumps({"title": "t", "names": [*table.columns], "rows": rows}))


WRITERS = {
    "csv": lambda t, p: t.to_csv(p, index=False),
    "tsv": lambda t, p: t.to_csv(p, index=False, sep="\t"),
    "txt": lambda t, p: t.to_csv(p, index=False, sep=" "),
    "json": lambda t, p: t.to_json(p, orient="records"),
    "columns.json": lambda t, p: t.to_json(p),
    "lists.json": lambda t, p: p.write_text(json.dumps(t.to_dict(orient="list"), indent=1)),
    "split.json": lambda t, p: t.to_json(p, orient="split"),
    "index.json": lambda t, p: t.to_json(p, orient="index"),
    "lines.json": lambda t, p: t.to_json(p, orient="records", lines=True),
    "within.json": lambda t, p: p.write_text(json.dumps({"data": t.to_dict(orient="records")})),
    "jsonl": lambda t, p: t.to_json(p, orient="records", lines=True),
    "printed.json": write_objects("\n", indent=2),
    "printed.jsonl": write_objects("\n\n", indent=1),
    "commas.json": write_objects(",\n", indent=1),
    "joined.json": write_objects(""),
    "sequence.json": write_objects("\n\x1e", indent=1),
    "metadata.json": write_below("rows", meta={"n": 20}, source="us", errors=[]),
    "named.json": write_named_arrays,
    "arrays.jsonl": lambda t, p: p.write_text(
        "".join(json.dumps(row) + "\n" for row in [[*t.columns], *t.to_numpy().tolist()])
    ),
    "pages.json": lambda t, p: p.write_text(
        "\n".join(json.dumps(records_of(page)) for page in (t[:7], t[7:8], t[8:]))
    ),
    "parquet": lambda t, p: t.to_parquet(p),
    "shuffled.parquet": lambda t, p: t.set_index(np.arange(len(t))[::-1]).to_parquet(p),
    "orc": lambda t, p: orc.write_table(pa.Table.from_pandas(t, preserve_index=False), p),
    "feather": lambda t, p: t.to_feather(p),
    "dta": lambda t, p: t.to_stata(p, write_index=False),
    "arff": write_arff,
    "xlsx": write_workbook,
    "sav": write_spss,
    "xpt": write_sas,
}  # fmt: skip


def contents(found):
    schema = Schema.of(found.X, found.X.column_names)
    columns = typed(schema, read_columns(schema, found.X)).to_pydict()
    return columns | {"y": found.y.tolist()}


def same(found, table):
    assert [*found] == [*table.columns]
    assert found["town"] == table["town"].tolist()
    for name in ("size", "rooms", "y"):
        np.testing.assert_allclose(found[name], table[name], rtol=1e-12)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("form", WRITERS)
def test_a_table_is_the_same_in_every_format(tmp_path, form):
    table, path = frame(len(form)), tmp_path / f"t.{form}"
    WRITERS[form](table, path)
    same(contents(read_mixed(path)), table)
    kind, source = detected(path, None)
    rows = [row.x | {"y": row.y} for row in records(source, kind, target="y")]
    same({name: [row[name] for row in rows] for name in rows[0]}, table)
    bare = tmp_path / "bare"  # the name does not matter
    bare.write_bytes(path.read_bytes())
    same(contents(read_mixed(bare)), table)
    for suffix, pack in PACKED.items():
        packed = tmp_path / f"t.{form}.{suffix}"
        packed.write_bytes(pack(path.read_bytes()))
        same(contents(read_mixed(packed)), table)
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.write(path, path.name)
    same(contents(read_mixed(tmp_path / "t.zip")), table)


def test_a_stream_continues_in_typed_files(tmp_path):
    path = tmp_path / "t.parquet"
    frame().to_parquet(path)
    layout = []
    whole = list(records(str(path), "parquet", layout=layout))
    assert list(records(str(path), "parquet", layout=layout, place=whole[6].place)) == whole[7:]


def test_the_index_of_pandas_is_skipped_and_named(tmp_path):
    path = tmp_path / "t.parquet"
    frame().sample(frac=1, random_state=0).to_parquet(path)
    found = read_mixed(path)
    assert "__index_level_0__" in found.notes[0] and "__index_level_0__" not in found.feature_names
    frame().set_index("town").to_parquet(path)
    assert "'town'" in read_mixed(path).notes[0]
    assert read_mixed(path, target="town").y.tolist() == frame()["town"].tolist()


def test_records_within_records_are_flat():
    row = {"id": 1, "at": {"x": 1.5, "box": {"w": 2}}, "tags": ["a", "b"], "y": 3}
    assert flat(row) == {"id": 1, "at.x": 1.5, "at.box.w": 2, "tags.count": 2, "y": 3}
    rows = [row, row | {"at": None, "tags": []}, row | {"tags": None}]
    for text in (json.dumps(rows), "\n".join(map(json.dumps, rows))):
        found = read_mixed([text.encode()], format="json")
        assert {"id", "at.x", "at.box.w", "tags.count"} <= {*found.feature_names}
        assert contents(found)["tags.count"] == [2, 0, None]
    with pytest.warns(UserWarning, match="of lists the number of entries is read"):
        assert next(records([text.encode()], "jsonl")).x["at.box.w"] == 2


def test_a_column_of_numbers_and_texts_is_text():
    found = read_mixed([b'{"a": 1, "y": 1}\n{"a": "n.a.", "y": 2}\n'], format="jsonl")
    assert found.X["a"].to_pylist() == ["1", "n.a."]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b'[{"a": 1, "y": 2},\n {"a": }]', ":2:8: the JSON is damaged"),
        (b"[1, 2]", ": item 1 of the array is no record"),
        (b'{"a": 1,\n "b": {"c": 2}}', ": the JSON holds neither"),
    ],
)
def test_damaged_json_is_named(text, words):
    with pytest.raises(DataError) as caught:
        read_mixed([text], format="json")
    assert words in str(caught.value)


@pytest.mark.parametrize("suffix", ["json", "jsonl"])
def test_what_is_nearly_json_is_called_what_it_is(tmp_path, suffix):
    path, rows = tmp_path / f"t.{suffix}", records_of(frame())
    forms = {
        "print": [str(rows), "\n".join(map(str, rows))],
        "script": [f"var rows = {json.dumps(rows)};", f"callback({json.dumps(rows)});"],
    }
    for words, texts in forms.items():
        for text in texts:
            path.write_text(text)
            with pytest.raises(DataError, match=f"this is .*{words}"):
                read_mixed(str(path))


def test_two_tables_in_a_json_object_are_named(tmp_path):
    path = tmp_path / "t.json"
    for other in (frame(1), frame(1, 7)):
        path.write_text(json.dumps({"train": records_of(frame()), "test": records_of(other)}))
        with pytest.raises(DataError, match="several arrays of records: 'train', 'test'"):
            read_mixed(str(path), cells=True)


def test_a_list_of_fields_beside_the_records_is_no_table(tmp_path):
    table, path = frame(), tmp_path / "t.json"
    fields = [{"id": name, "type": "any"} for name in table.columns]
    path.write_text(json.dumps({"fields": fields, "records": records_of(table)}))
    with pytest.warns(UserWarning, match="'records' is read, of 'fields', 'records'"):
        found = read_mixed(str(path))
    same(contents(found), table)


def test_sheets(tmp_path):
    pytest.importorskip("python_calamine", reason="the extra excel is not installed")
    table, path = frame(), tmp_path / "t.xlsx"
    write_xlsx(table, path, sheets=("About", "Data"), above=[["A title", "", "", ""]])
    found = read_mixed(path)
    same(contents(found), table)
    assert "'Data'" in found.notes[0]
    same(contents(read_mixed(path, sheet="Data")), table)
    same(contents(read_mixed(path, sheet="2")), table)
    with pytest.raises(DataError, match="there is no sheet 'Daten': it has 'About', 'Data'"):
        read_mixed(path, sheet="Daten")


def test_dates_of_workbooks_are_dates():
    from tunefree.files.formats import table_of_columns

    days = [datetime.date(2020, 1, 1), None, datetime.datetime(2020, 1, 2, 10)]
    found = table_of_columns({"day": days, "mixed": [1, "x", None]})
    assert found["day"].to_pylist()[2] == days[2] and found["day"].null_count == 1
    assert found["mixed"].to_pylist() == ["1", "x", None]


ARFF = """% a comment
@relation weather

@attribute 'wind speed' NUMERIC
@attribute sky {sunny, 'partly cloudy', rain}
@attribute note string
@attribute play {no, yes}
@data
1.5,sunny,'it\\'s fine, really',no
?,'partly cloudy',?,yes
{0 3, 1 rain, 2 hi, 3 yes}
2,rain,"a b",no, {2}
"""


def test_arff():
    found = read_mixed([ARFF.encode()], format="arff")
    assert found.feature_names == ["wind speed", "sky", "note"]
    assert found.X["wind speed"].to_pylist() == [1.5, None, 3.0, 2.0]
    assert found.X["sky"].to_pylist() == ["sunny", "partly cloudy", "rain", "rain"]
    assert found.X["note"].to_pylist() == ["it's fine, really", None, "hi", "a b"]
    assert found.y.tolist() == ["no", "yes", "yes", "no"]
    head = ARFF[: ARFF.index("1.5,")]
    for line, words in (
        ("1,snow,x,no", ":9: column 'sky': 'snow' is none of the declared levels"),
        ("x,rain,x,no", ":9: column 'wind speed': not a number: 'x'"),
        ("1,rain,no", ":9: this row has 3 cells, but there are 4 attributes"),
    ):
        with pytest.raises(DataError) as caught:
            read_mixed([(head + line + "\n").encode()], format="arff")
        assert words in str(caught.value)


def write_sqlite(path):
    with sqlite3.connect(path) as base:
        base.execute("create table t (a)")
    base.close()


def write_archive(name):
    def write(path):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, "")

    return write


FOREIGN = {
    "a PDF document": lambda path: path.write_bytes(b"%PDF-1.7\n..."),
    "an image": lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n..."),
    "a pickle": lambda path: path.write_bytes(pickle.dumps({"a": 1})),
    "an SQLite database": write_sqlite,
    "a Word document": write_archive("word/document.xml"),
    "a file of R": lambda path: path.write_bytes(gzip.compress(b"X\n\0\0\0\x03\0...")),
    "an HDF5 file": lambda path: path.write_bytes(b"\x89HDF\r\n\x1a\n..."),
}


@pytest.mark.parametrize("suffix", ["csv", "dat", "json", "bin"])
@pytest.mark.parametrize("what", FOREIGN)
def test_a_file_that_is_no_table_is_called_what_it_is(tmp_path, what, suffix):
    path = tmp_path / f"a.{suffix}"
    FOREIGN[what](path)
    for reader in (read, read_mixed):
        with pytest.raises(DataError, match=what):
            reader(path)
