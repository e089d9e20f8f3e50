"""Progress costs nothing when silent, is one line on a terminal, and never on stdout."""

import io
import logging
import threading

import numpy as np
import pytest

from tunefree import BoostedTreesRegressor, TuneFreeRegressor
from tunefree.core import clock, progress
from tunefree.files import read


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown_by(display, *tasks, at=100.0):
    """What a display writes after a look at a time after the start of its tasks."""
    display.tasks += tasks
    display.tick(tasks[0].start + at)
    return display._stream.getvalue()


def test_a_task_tells_percent_speed_and_the_time_left():
    one = progress.Job("reading", "rows", 1000)
    assert one.words(one.start + 1.0) == "reading" and one.words(one.start + 9.0) == "reading, 9 s"
    one.advance(250)
    assert one.words(one.start + 10.0) == "reading: 250 rows, 25 %, 25 rows a second, 30 s left"
    one.at(900, 0.5)  # as by the bytes of a file
    assert one.words(one.start + 10.0) == "reading: 900 rows, 50 %, 90 rows a second, 10 s left"


def test_a_terminal_has_one_line_which_others_erase():
    display = progress.Screen(Terminal(), True)
    text = shown_by(display, progress.Job("fit", "rows", 10), progress.Job("trees"))
    assert text == "\r\x1b[2Kfit: trees, 100 s"
    display.clear()
    assert display._stream.getvalue().endswith("\r\x1b[2K")
    display.close()
    display.tick(1e9)
    assert "\n" not in display._stream.getvalue()


def test_elsewhere_there_is_a_line_every_thirty_seconds():
    display = progress.Screen(io.StringIO(), False)
    one = progress.Job("fit")
    display._last = one.start
    assert shown_by(display, one, at=29.0) == ""
    display.tick(one.start + 31.0)
    display.tick(one.start + 60.0)
    display.tick(one.start + 62.0)
    assert display._stream.getvalue() == "fit, 31 s\nfit, 62 s\n"


def test_compiling_is_said_at_once_and_once():
    display = progress.Screen(io.StringIO(), False)
    one = progress.Job("fit")
    with clock.compiling():
        shown_by(display, one, at=0.5)
        display.tick(one.start + 1.0)
    assert display._stream.getvalue() == "fit; compiling to machine code, once\n"


def rows(n=100):
    """Rows, and a target with noise: trees end after few rounds."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, X[:, 0] * X[:, 1] + rng.normal(size=n)


@pytest.mark.parametrize("make", [BoostedTreesRegressor, TuneFreeRegressor])
def test_a_silent_fit_has_no_thread_and_writes_nothing(make, capfd):
    before = []

    class Seen(np.ndarray):
        def __array_finalize__(self, other):
            before.append([t.name for t in threading.enumerate()])

    X, y = rows()
    make(random_state=0).fit(X.view(Seen), y)
    assert not any("progress" in name for names in before for name in names)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("make", [BoostedTreesRegressor, TuneFreeRegressor])
def test_the_logger_has_what_is_done_and_bits_do_not_change(make, caplog, monkeypatch, capfd):
    X, y = rows()
    silent = make(random_state=0).fit(X, y)
    monkeypatch.setattr(progress, "_TICK", 0.001)
    monkeypatch.setattr(progress, "_EVERY", 0.0)
    with caplog.at_level(logging.INFO, "tunefree"):
        told = make(random_state=0).fit(X, y)
    lines = [record.getMessage() for record in caplog.records]
    assert lines and all(line.startswith(make.__name__) for line in lines)
    assert any("boosted trees" in line for line in lines)
    np.testing.assert_array_equal(silent.predict(X), told.predict(X))
    assert capfd.readouterr() == ("", "")


def test_reading_a_file_tells_rows_and_its_share(tmp_path, monkeypatch):
    seen = []
    path = tmp_path / "rows.csv"
    path.write_text("a,y\n" + "1,2\n" * 5000)
    monkeypatch.setattr(progress.Job, "at", lambda self, *given: seen.append(given))
    read(str(path))
    assert not seen  # nobody asked
    monkeypatch.setattr(progress.sys, "stderr", io.StringIO())
    with progress.shown("training"):
        read(str(path))
    assert seen[-1] == (5001, 1.0)
    assert progress._OPEN == []
