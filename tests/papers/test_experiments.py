"""Experiments run, resume where they stopped, and write what they promise."""

import csv
import json
import shutil

import numpy as np
import pytest

from papers import EXPERIMENTS, grid, load
from papers.averaging import DECAYS
from papers.runner import cell_file, missing, reproduce

pytest.importorskip("matplotlib")
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

# Their quick runs take most of a minute together: here one cell of each is computed, the shortest
# first.
LONG = (
    "reflectron-dimension",
    "pistol-learning-curves",
    "reflectron-risk",
    "reflectron-samples",
    "reflectron-weights",
    "low-rank-samples",
    "low-rank-dimension",
    "low-rank-grid",
    "flow-digits",
)


@pytest.mark.parametrize("name", LONG)
def test_a_cell_of_a_long_experiment_is_numbers(name, request):
    experiment = load(name)
    needs = experiment.NEEDS
    folder = request.getfixturevalue("data") if needs else None
    numbers = experiment.compute(experiment.cells(quick=True)[0], folder)
    values = np.concatenate([np.ravel(v) for v in numbers.values() if not isinstance(v, str)])
    assert len(values) and np.isfinite(values.astype(float)).all()


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name not in LONG])
def test_a_quick_run_writes_table_csv_and_png(name, tmp_path, request):
    if load(name).NEEDS:
        folder = request.getfixturevalue("data")
    else:
        folder = None
    outcome = reproduce(name, tmp_path, quick=True, data=folder)
    assert outcome.rows and all(len(row) == 4 and all(row) for row in outcome.rows)
    png, table, text = outcome.files
    assert png.read_bytes().startswith(b"\x89PNG")
    with table.open() as file:
        lines = list(csv.DictReader(file))
    assert {"quantity", "index", "value"} <= set(lines[0])
    assert all(line["value"] != "nan" for line in lines)
    assert load(name).TITLE in text.read_text() and "| what | paper | ours |" in text.read_text()


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    """A folder with all cells of an experiment of few rows, and its rows."""
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch)
        folder = tmp_path_factory.mktemp("finished")
        return folder, reproduce("averaging-variance", folder, quick=True).rows


@pytest.fixture
def finished(computed, monkeypatch):
    """What is computed, of an experiment of few rows."""
    make_small(monkeypatch)
    return computed


def make_small(patch):
    """Let `averaging-variance` have few rows."""
    small = grid(decay=DECAYS, n=(50, 100, 200))
    patch.setattr(type(load("averaging-variance")), "cells", lambda self, quick: small)


def stored(folder):
    """The files of the cells of `averaging-variance`, in order."""
    experiment = load("averaging-variance")
    return [cell_file(experiment, folder, cell) for cell in experiment.cells(quick=True)]


def test_an_interrupted_run_goes_on_where_it_stopped(finished, tmp_path):
    """Cells on disk are not computed again, missing ones are, and the results are equal."""
    folder, rows = finished
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    first, *_, last = stored(tmp_path)
    marked = json.loads(first.read_text())
    marked["numbers"]["ratio"] = [0.5] * 13
    first.write_text(json.dumps(marked))
    last.unlink()
    again = reproduce("averaging-variance", tmp_path, quick=True)
    assert again.rows[1:] == rows[1:]
    assert again.rows[0][2].startswith("0.500")  # taken from disk


def test_what_is_finished_is_shown_without_computing(finished, tmp_path):
    """After a kill: a table of the finished cells, which says how many there are."""
    name, (folder, rows) = "averaging-variance", finished
    assert "no cell" in reproduce(name, tmp_path, quick=True, finished=True).skipped
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    files = stored(tmp_path)
    for path in files[-2:]:
        path.unlink()
    some = reproduce(name, tmp_path, quick=True, finished=True)
    assert some.rows[:3] == rows[:3]
    assert some.rows[-1][:3] == ("cells finished", "-", f"{len(files) - 2} of {len(files)}")
    assert reproduce(name, tmp_path, quick=True).rows == rows


def test_every_cell_has_a_file_of_its_own(tmp_path):
    for name in EXPERIMENTS:
        experiment = load(name)
        for quick in (True, False):
            files = [cell_file(experiment, tmp_path, cell) for cell in experiment.cells(quick)]
            assert len(set(files)) == len(files)
            assert all(file.parent.parent == tmp_path / "cells" for file in files)
            assert max(len(file.name) for file in files) < 200


def test_figures_that_share_their_computation_share_cells(tmp_path):
    """Figures 1e and 1f have a point in common: it is computed once."""
    first, second = load("low-rank-samples"), load("low-rank-dimension")
    files = [{cell_file(e, tmp_path, c) for c in e.cells(False)} for e in (first, second)]
    assert len(files[0] & files[1]) == 3


def test_missing_data_skip_with_a_reason(tmp_path):
    for name in EXPERIMENTS:
        needs = load(name).NEEDS
        assert missing(load(name), tmp_path) == list(needs)
        if needs:
            assert needs[0] in reproduce(name, tmp_path, data=tmp_path).skipped


@pytest.mark.parametrize("sizes", [(50, 200, 800), (20, 60), (400, 700), (50, 400, 6400)])
def test_tick_labels_do_not_overlap(sizes):
    """Of the experiment with the narrowest panels."""
    experiment = load("averaging-schemes")
    results = [
        ({"decay": decay, "n": n}, {name: 1.0 / n for name in ("last", "uniform")})
        for decay in (0.0, 1.0, 2.0)
        for n in sizes
    ]
    figure = Figure(figsize=(8.0, 4.0), layout="constrained")
    renderer = FigureCanvasAgg(figure).get_renderer()
    experiment.draw(figure, results)
    figure.draw(renderer)
    for ax in figure.axes:
        labels = [t for t in (*ax.get_xticklabels(), *ax.get_xticklabels(minor=True))
                  if t.get_text() and t.get_visible()]  # fmt: skip
        low, high = ax.get_xlim()
        boxes = sorted(
            (b.x0, b.x1)
            for t in labels
            if low <= t.get_position()[0] <= high
            for b in [t.get_window_extent(renderer)]
        )
        assert len(boxes) >= 2
        assert all(left[1] < right[0] for left, right in zip(boxes, boxes[1:], strict=False))


def test_rates_stand_beside_the_theorem_with_a_verdict():
    experiment, marks = load("pistol-rates"), [2**k for k in range(5, 13)]
    results = [
        ({"beta": c["beta"], "rule": c["rule"]},
         {"T": marks, "excess": [t ** (-0.35 if c["seed"] < 9 else 0.0) for t in marks]})
        for c in experiment.cells(quick=True)
    ]  # fmt: skip
    table = experiment.table(results)
    theirs = [row for row in table if "theorem" in row[3]]
    verdicts = ["not at the rate" in row[2] for row in theirs]
    assert verdicts == [True, False, False]  # -0.50, -0.33 and -0.20 against -0.35
    assert all(row[1] == "nothing proved" for row in table if "ours" in row[3])
