"""Text is parsed once, and nothing else is to be noticed of it."""

import contextlib
import os
import re

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from numpy.testing import assert_array_equal

from tunefree import Checkpoint, PiSTOLClassifier, ReflectronRegressor, open_source
from tunefree.engine.sources import Mark, parsed_cache
from tunefree.files import files

RNG = np.random.default_rng(0)
ROWS = {
    "data.svm": lambda i: f"{i % 3} 1:{RNG.normal():.3f} {2 + i % 7 * (i > 40)}:{i % 5}\n",
    "data.csv": lambda i: f"{RNG.normal():.4f},{i % 4},{'abc'[i % 3]}\n",
}


@pytest.fixture(params=ROWS)
def path(request, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "CHUNK", 256)  # several blocks
    path = tmp_path / request.param
    path.write_text("".join(map(ROWS[request.param], range(100))))
    return str(path)


def read(source, mark=None):
    for chunk in source.chunks(mark):
        X = chunk.X.toarray() if hasattr(chunk.X, "indptr") else chunk.X
        yield X.tolist(), X.dtype, chunk.y.tolist(), chunk.y.dtype.kind, chunk.mark


def test_what_is_kept_is_what_was_parsed_from_any_place_on(path):
    parsed = list(read(open_source(path)))
    assert len(parsed) > 3
    source = open_source(path)
    with source.parsed_once():
        assert list(read(source)) == parsed
        place = source.reader.kept.path
        written = os.stat(place)
        for _ in range(2):
            assert list(read(source)) == parsed
        assert os.stat(place).st_mtime_ns == written.st_mtime_ns
        for k, (*_, mark) in enumerate(parsed):
            assert list(read(source, Mark(*mark))) == parsed[k + 1 :]
    assert source.reader.kept is None and not os.path.exists(place)


def test_a_damaged_or_foreign_file_of_blocks_is_written_anew(path, tmp_path):
    place, parsed = tmp_path / "c.blocks", list(read(open_source(path)))
    for damage in (b"", b"ARROW1\0\0 and then nothing", None):
        source = open_source(path)
        with source.parsed_once(Checkpoint(tmp_path / "c")):
            if damage is None:
                source.reader.kept.identity = b"another"
                list(read(source))
                source.reader.kept.identity = b"this"
            else:
                place.write_bytes(damage)
            assert list(read(source)) == parsed == list(read(source))


def test_a_full_disk_is_no_reason_to_stop(path, monkeypatch):
    parsed, source = list(read(open_source(path))), open_source(path)
    monkeypatch.setattr(parsed_cache, "_FREE_BYTES", np.inf)
    with source.parsed_once():
        assert source.reader.kept is None
    monkeypatch.undo()

    class Full:
        def write_batch(self, batch):
            raise OSError(28, "No space left on device")

    parsed = list(read(open_source(path)))
    with source.parsed_once():
        monkeypatch.setattr(parsed_cache.pa.ipc, "new_file", lambda *_: Full())
        assert list(read(source)) == parsed == list(read(source))
        assert not os.path.exists(source.reader.kept.path)


def test_an_interrupted_run_goes_on_from_blocks_beside_its_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "CHUNK", 512)
    path = tmp_path / "data.svm"
    path.write_text("".join(map(ROWS["data.svm"], range(300))))

    def stop(model, row, epoch):
        if epoch == 1 and row > 150:
            raise KeyboardInterrupt

    saved, make = tmp_path / "run", lambda: PiSTOLClassifier(max_iter=3, random_state=0)
    whole = make().fit_source(path)
    with pytest.raises(KeyboardInterrupt):
        make().fit_source(path, checkpoint=Checkpoint(saved, every=50), on_chunk=stop)
    assert (tmp_path / "run.blocks").exists()
    parsed = open_source(path)
    monkeypatch.setattr(type(parsed.reader), "_parsed", None)  # it is not needed again
    again = make().fit_source(parsed, checkpoint=Checkpoint(saved, resume=True))
    assert_array_equal(again.coef_, whole.coef_)
    assert not (tmp_path / "run.blocks").exists()


def test_batch_learners_parse_once(tmp_path, monkeypatch):
    path, calls = tmp_path / "data.csv", []
    path.write_text("".join(f"{RNG.normal():.4f},{RNG.normal():.4f},{i % 7}\n" for i in range(80)))
    source = open_source(path)
    parse = source.reader._parsed
    monkeypatch.setattr(source.reader, "_parsed", lambda *a: calls.append(a) or parse(*a))
    ReflectronRegressor("identity", max_iter=20).fit_source(source)
    assert len(calls) <= 2  # a look at the first rows, and all of them


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps"), reason="the system does not tell")
@pytest.mark.parametrize("kind", ["csv", "npy", "arrow"])
def test_pages_that_were_read_do_not_stay_in_memory(tmp_path, kind):
    path, rows = str(tmp_path / f"data.{kind}"), np.arange(2_100_000.0).reshape(-1, 3)
    columns = pa.table(dict(zip("abc", rows.T, strict=True)))
    if kind == "npy":
        np.save(path, rows)
    elif kind == "csv":
        pyarrow.csv.write_csv(columns, path)
    else:
        with pa.ipc.new_file(path, columns.schema) as file:
            file.write_table(columns)
    source = open_source(path)
    with source.parsed_once() if kind == "csv" else contextlib.nullcontext():
        if kind == "csv":
            assert sum(map(len, source.chunks())) == len(rows)
            path = source.reader.kept.path
        pieces = source.reader.pieces((), None)
        for X, *_ in pieces:
            last = X[-1, 0]
            resident = mapped_kilobytes(path)
        assert last == rows[-1, 0]
        assert resident < os.path.getsize(path) / 2048


def mapped_kilobytes(path):
    """How much of the maps of a file is in memory."""
    with open("/proc/self/smaps") as file:
        text = file.read()
    found = [part for part in re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", text) if path in part]
    assert found
    return sum(int(re.search(r"\nRss: +(\d+) kB", part)[1]) for part in found)
