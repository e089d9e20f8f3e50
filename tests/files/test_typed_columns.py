"""Columns with types: texts in any type of Arrow are texts, and whole numbers keep their digits."""

import datetime
import json
import warnings

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import ipc, parquet

from tunefree.files.files import DataError, Skipped, detected
from tunefree.files.mixed import read_mixed
from tunefree.files.records import records
from tunefree.rows.schema import learn_columns

N = 40
WORDS = ["red", "blue", None, "grün"]
RNG = np.random.default_rng(0)
TEXTS = [WORDS[k] for k in RNG.integers(0, 4, N)]
TIMES = [datetime.time(int(h), int(m)) for h, m in zip(*RNG.integers(0, 24, (2, N)), strict=True)]
X, Y = RNG.normal(size=(2, N))

TYPES = {
    "views": lambda: pa.array(TEXTS).cast(pa.string_view()),
    "large": lambda: pa.array(TEXTS, pa.large_string()),
    "bytes": lambda: pa.array(TEXTS).cast(pa.binary()),
    "large bytes": lambda: pa.array(TEXTS).cast(pa.large_binary()),
    "views of bytes": lambda: pa.array(TEXTS).cast(pa.binary()).cast(pa.binary_view()),
}


def write(path, column, form, target=Y):
    table = pa.table({"word": column, "x": X, "y": target})
    if form == "parquet":
        parquet.write_table(table, path)
        return
    with ipc.new_file(path, table.schema) as file:
        file.write_table(table)


def read(path, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read_mixed(str(path), cells=True, **options)


@pytest.mark.parametrize("form", ["parquet", "arrow"])
@pytest.mark.parametrize("kind", TYPES)
def test_a_text_of_any_type_is_a_text(tmp_path, kind, form):
    path = tmp_path / f"t.{form}"
    write(path, TYPES[kind](), form)
    assert read(path).X.column("word").to_pylist() == TEXTS
    assert [row.x["word"] for row in records(str(path), form)] == TEXTS
    found = read(path, target="word", skipped=Skipped(malformed=False))
    assert found.y.tolist() == [text for text in TEXTS if text is not None]


def test_levels_of_views_keep_their_order(tmp_path):
    """So polars writes categories."""
    path = tmp_path / "t.arrow"
    codes = pa.array([k % 3 if k % 7 else None for k in range(N)], pa.int32())
    levels = pa.array(["red", "blue", "grün"]).cast(pa.string_view())
    write(path, pa.DictionaryArray.from_arrays(codes, levels, ordered=True), "arrow")
    schema, _ = learn_columns(read(path).X, ["word", "x"])
    assert schema.columns[0].levels == ("red", "blue", "grün")


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_of_the_day_are_read_as_in_text(tmp_path, unit):
    kind = pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    write(tmp_path / "t.arrow", pa.array(TIMES, pa.time64("us")).cast(kind), "arrow")
    write(tmp_path / "u.arrow", pa.array([str(time) for time in TIMES]), "arrow")
    found = [
        learn_columns(read(tmp_path / f"{name}.arrow").X, ["word", "x"])[1][0].values
        for name in "tu"
    ]
    np.testing.assert_allclose(*found)


def test_durations_are_read(tmp_path):
    path = tmp_path / "t.parquet"
    write(path, pa.array([datetime.timedelta(hours=k) for k in range(N)]), "parquet")
    schema, values = learn_columns(read(path).X, ["word", "x"])
    assert schema.columns[0].kind == "duration"
    np.testing.assert_allclose(np.diff(values[0].values), 1 / 24)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    path = tmp_path / "t.parquet"
    write(path, pa.array([b"\xff\xfe"] * N), "parquet")
    with pytest.raises(DataError, match="'word' holds large_binary: neither"):
        read(path)


@pytest.mark.parametrize("cells", [False, True])
@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_whole_numbers_beyond_floats_keep_their_digits(tmp_path, form, cells):
    ids = [2**60 + k for k in range(N)]
    path = tmp_path / f"t.{form}"
    rows = [{"id": k, "y": float(y)} for k, y in zip(ids, Y, strict=True)]
    if form == "csv":
        path.write_text("id,y\n" + "".join(f"{row['id']},{row['y']}\n" for row in rows))
    elif form == "jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    else:
        parquet.write_table(pa.table({"id": ids, "y": Y}), path)
    found = read_mixed(str(path), cells=cells, target="y")
    assert [int(k) for k in found.X.column("id").to_pylist()] == ids


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_large_whole_target_is_a_number(tmp_path, form):
    y = [10**18 + 10**15 * k for k in range(N)]
    path = tmp_path / f"t.{form}"
    if form == "jsonl":
        path.write_text("\n".join(json.dumps({"x": k, "y": v}) for k, v in enumerate(y)))
    else:
        parquet.write_table(pa.table({"x": X, "y": y}), path)
    assert read_mixed(str(path), target="y").y.tolist() == [float(v) for v in y]


@pytest.mark.parametrize(
    "line",
    [
        "{y} |f size:{x} n:{k} word={w}",
        "{y} 0.5 tag{k}| size:{x}",
        "{y} 2 'tag|a size:{x} |b:0.5 n:{k} {w}",
        "|f size:{x}",
        "1:{y}:0.5 | size:{x} n:{k}",
    ],
)
def test_text_for_vowpal_wabbit_is_called_so(tmp_path, line):
    """It was a table of blanks or bars, whose last feature was the target."""
    text = "".join(line.format(y=k % 2, x=X[k], k=k, w="red") + "\n" for k in range(N))
    for name in ("t.vw", "t.txt"):
        (tmp_path / name).write_text(text)
        with pytest.raises(DataError, match="text for Vowpal Wabbit"):
            detected(str(tmp_path / name), None)


@pytest.mark.parametrize(
    "line", ["{k} | {w} | {x}", "{k}|{w}:{k}|{x}", "{k} |10:30 |{x}", "{w} {x} a:{k}|"]
)
def test_bars_and_colons_are_those_of_a_table(line):
    text = "".join(line.format(x=X[k], k=k, w="red") + "\n" for k in range(N))
    assert detected([text.encode()], None)[0] == "csv"


def test_a_libsvm_file_without_a_sound_row_names_the_first_fault(tmp_path):
    path = tmp_path / "t.libsvm"
    path.write_text("cat 1:2\ndog 1:3\n")
    with pytest.raises(DataError, match="2 malformed .* not 'cat'"):
        read_mixed(str(path), skipped=Skipped())


def _write_records(path, rows, form):
    if form in ("parquet", "arrow"):
        table = pa.Table.from_pylist(rows)
        if form == "parquet":
            parquet.write_table(table, path)
        else:
            with ipc.new_file(path, table.schema) as file:
                file.write_table(table)
    elif form == "json":
        path.write_text(json.dumps(rows))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


# A column of JSON may hold numbers and text.
@pytest.mark.parametrize("odd", [False, True], ids=["numbers", "numbers and text"])
@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_lists_of_json_are_named(tmp_path, form, odd):
    check_that_lists_are_named(tmp_path, form, odd)


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_lists_of_which_only_the_length_is_read_are_named(tmp_path, form):
    check_that_lists_are_named(tmp_path, form, odd=False)


def check_that_lists_are_named(tmp_path, form, odd):
    """An embedding was a column of equal numbers, without a word."""
    rows = [{"x": float(a), "emb": [1.0, 2.0], "of": {"tags": ["u"]}, "y": float(a)} for a in X]
    if odd:
        rows[1]["x"] = "1.5"
    path = tmp_path / f"t.{form}"
    _write_records(path, rows, form)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = read_mixed(str(path), target="y")
    (note,) = table.notes
    assert note == "of lists the number of entries is read, not the entries: 'emb', 'of.tags'"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kind, source = detected(str(path), None)
        layout: list = []
        for _ in range(2):  # the second pass says nothing more
            assert len(list(records(source, kind, layout=layout, target="y"))) == len(rows)
    assert [str(one.message).partition(": ")[2] for one in caught] == [note]
    for row in rows:
        row["emb"], row["of"]["tags"] = 2, 1
    _write_records(path, rows, form)
    assert not read_mixed(str(path), target="y").notes


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_truth_values_beside_0_and_1_are_one_column_of_numbers(tmp_path, form):
    """They were four levels of text."""
    mixed = [(True, 1, 1.0, False, 0)[k % 5] for k in range(N)]
    path = tmp_path / f"t.{form}"
    _write_records(path, [{"is": v, "y": float(a)} for v, a in zip(mixed, Y, strict=True)], form)
    table = read_mixed(str(path), target="y")
    np.testing.assert_array_equal(np.ravel(table.X).astype(float), np.array(mixed, float))
