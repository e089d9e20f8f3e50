"""Models of rows that are read in parts, of sparse rows and of formulas know their rows, too."""

import json

import numpy as np
import pytest
from scipy import sparse
from typer.testing import CliRunner

from tunefree.cli import app
from tunefree.cli.drift_sparse import ENTRIES, SparseNames, columns_like, reference_columns
from tunefree.cli.drift_streams import RecordSample, columns_of_cells
from tunefree.files.model import describe_model
from tunefree.uncertainty.drift import DriftReference

pytestmark = pytest.mark.filterwarnings("ignore")
N, D = 1500, 80


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, (result.exit_code, result.output, result.exception)
    return result


def drifting(*arguments, code):
    found = json.loads(run("drift", *arguments, "--json", code=code).stdout)
    return [one["column"] for one in found["columns"] if one["drifts"]]


def write_csv(path, seed, shift=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 3)) + [0.0, shift, 0.0]
    rows = np.column_stack([X, X @ [1.0, 2.0, 0.0] + rng.normal(size=N)]).round(3)
    path.write_text("\n".join(["a,b,c,y", *(",".join(map(str, row)) for row in rows.tolist())]))
    return path


def write_libsvm(path, seed, share=0.1):
    rng = np.random.default_rng(seed)
    X = rng.random((N, D)) < np.where(np.arange(D) == 6, share, 0.1)
    y = np.where(X[:, :3].sum(axis=1) + rng.random(N) > 0.7, 1, -1)
    rows = (" ".join(f"{j + 1}:1" for j in np.flatnonzero(row)) for row in X)
    path.write_text("".join(f"{t} {row}\n" for t, row in zip(y, rows, strict=True)))
    return path


@pytest.mark.parametrize(
    "how", [("--checkpoint", "c"), ("--estimator", "glm", "--formula", "y ~ a + b")]
)
def test_models_of_parts_and_of_formulas_find_a_shifted_column(how, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    old, same = write_csv(tmp_path / "old.csv", 0), write_csv(tmp_path / "same.csv", 1)
    moved = write_csv(tmp_path / "moved.csv", 2, shift=1.5)
    run("train", old, "m", "--target", "y", *how)
    assert drifting("m", same, code=0) == []
    assert drifting("m", moved, code=5) == ["b"]
    assert "drift: b" in run("predict", "m", moved, "--check", code=5).stderr


@pytest.mark.parametrize("how", [("--checkpoint", "c"), ("--estimator", "glm")])
def test_models_of_sparse_rows_find_a_feature_that_comes_more_often(how, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    old, same = write_libsvm(tmp_path / "old.svm", 0), write_libsvm(tmp_path / "same.svm", 1)
    moved = write_libsvm(tmp_path / "moved.svm", 2, share=0.6)
    run("train", old, "m", *how)
    assert drifting("m", same, code=0) == []
    assert drifting("m", moved, code=5) == ["feature 7"]
    run("drift", "m", moved, "--page", "page.html", code=5)
    assert "feature 7" in (tmp_path / "page.html").read_text()
    note = describe_model("m")["notes"]["drift_reference"]
    assert len(note["columns"]) == 51 and len(repr(note)) < 50_000


def test_without_drift_one_sparse_column_in_twenty_has_a_p_value_below_a_twentieth():
    """Although those with most entries were chosen, of 400 with equal shares."""
    names, n_draws, p = SparseNames("feature", 1), 24, []
    for seed in range(n_draws):
        rng = np.random.default_rng(seed)
        old, new = (sparse.csr_array((rng.random((500, 400)) < 0.1) * 1.0) for _ in range(2))
        reference = DriftReference.of(reference_columns(old, names))
        report = reference.compare(columns_like(reference, new, names))
        p += [one.p_value for one in report.columns]
        assert not report.drifts
    assert (np.array(p) < 0.05).mean() < 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / len(p))


def test_rows_that_have_more_entries_drift_in_their_number():
    names, rng = SparseNames("feature", 1), np.random.default_rng(0)
    old, new = (sparse.csr_array((rng.random((600, 2000)) < p) * 1.0) for p in (0.01, 0.02))
    reference = DriftReference.of(reference_columns(old, names))
    report = reference.compare(columns_like(reference, new, names))
    assert ENTRIES in [one.column for one in report.columns if one.drifts]


def test_streams_find_a_shifted_column_and_resume_to_the_same_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tunefree.cli.stream._SAMPLED", 400)
    old, same = write_csv(tmp_path / "old.csv", 0), write_csv(tmp_path / "same.csv", 1)
    moved = write_csv(tmp_path / "moved.csv", 2, shift=1.5)
    lines = old.read_text().splitlines(keepends=True)
    options = ["--target", "y", "--every", 100]
    run("stream", old, "--target", "y", "--model", "whole")
    old.write_text("".join(lines[:700]))
    run("stream", old, *options, "--checkpoint", "c")
    old.write_text("".join(lines))
    run("stream", old, *options, "--checkpoint", "c", "--resume", "--model", "resumed")
    assert (tmp_path / "resumed").read_bytes() == (tmp_path / "whole").read_bytes()
    assert drifting("whole", same, code=0) == []
    assert drifting("whole", moved, code=5) == ["b"]
    assert drifting("whole", moved, "--reference", same, code=5) == ["b"]


def test_a_sample_of_records_is_even_and_that_of_one_run_after_resuming():
    whole, one, two = (RecordSample(500, 9) for _ in range(3))
    for number in range(20_000):
        whole.add({"a": number})
        (one if number < 7001 else two).add({"a": number})
        if number == 7000:
            two.resume(one.state)
    assert two.state == whole.state and len(whole.rows()) == 500
    counts, _ = np.histogram([x["a"] for x in whole.rows()], 5, (0, 20_000))
    assert (np.abs(counts - 100) < 4 * np.sqrt(80)).all()


def test_cells_are_numbers_if_all_are_and_then_others_are_missing():
    cells = {"n": ["1", 2.5, None], "t": ["1", "red", None], "none": [None, None, None]}
    columns = columns_of_cells(cells)
    np.testing.assert_array_equal(columns["n"], [1.0, 2.5, np.nan])
    assert columns["t"].tolist() == ["1", "red", None] and columns["none"].dtype == float
    known = DriftReference.of(columns).facts["columns"]
    new = columns_of_cells({"n": ["x", "3"], "t": ["2", "3"], "none": ["a", "1"]}, known)
    np.testing.assert_array_equal(new["n"], [np.nan, 3.0])
    assert new["t"].tolist() == ["2", "3"] and new["none"].dtype == float
    assert DriftReference(DriftReference.of(columns).facts).compare(new).rows == 2
