"""Laws of the open benchmark: ranks, Elo, groups, failed fits, and going on after an end."""

from argparse import Namespace
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(autouse=True)
def path(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def ladder(n_tables=30):
    """Losses of methods, of which the first two do not differ and the last is always worse."""
    random = np.random.default_rng(0)
    a, b = random.uniform(1.0, 1.1, (2, n_tables))
    return pd.DataFrame({"a": a, "b": b, "Random forest": np.full(n_tables, 2.0)})


def test_the_sealed_list_is_what_the_rules_call_sealed():
    frames = import_module("_frames")
    lines = frames.in_list("sealed").values()
    assert len(lines) >= 60 and all(int(line["rows"]) >= 300 for line in lines)
    assert {line["kind"] for line in lines} == {"classes", "numbers", "counts"}
    assert not any(frames._is_open(line["package"]) for line in lines)
    assert not set(frames.in_list("sealed")) & set(frames.in_list("open"))


def test_the_second_list_has_one_table_of_a_folder():
    press = import_module("_press")
    lines = press.in_list()
    folders = [name.partition("/")[0] for name in lines]
    assert len(set(folders)) == len(folders) >= 40
    assert not press.KNOWN & set(folders)
    assert all(press.ROWS[0] <= int(line["rows"]) <= press.ROWS[1] for line in lines.values())


def test_a_folder_gives_its_first_table_that_has_a_target(tmp_path):
    press = import_module("_press")
    rows = "".join(f"{i % 7},{i % 5 + i / 1e3},{i % 11},{(i * i) % 97 + 0.5}\n" for i in range(400))
    (tmp_path / "b").mkdir()
    (tmp_path / "b/few.csv").write_text("p,q,r,s\n1,2,3,4\n")
    (tmp_path / "b/many.csv").write_text(f"p,q,r,s\n{rows}")
    (frame,) = press.frames(tmp_path)
    assert (frame.name, frame.target, frame.kind) == ("b/many.csv", "s", "numbers")


def test_methods_that_search_run_only_when_they_are_named():
    benchmark, methods = import_module("open"), import_module("_open_methods")
    searching = {name for name, method in methods.METHODS.items() if method.searches}
    assert searching and not searching & set(benchmark.AT_DEFAULTS)


def test_ranks_share_places_and_sum_to_a_constant():
    summary = import_module("_open_summary")
    losses = pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, 3.0], "c": [5.0, 1.0]})
    assert summary.mean_ranks(losses).to_dict() == {"a": 1.75, "b": 2.25, "c": 2.0}


def test_elo_is_the_odds_of_a_win():
    summary = import_module("_open_summary")
    wins = np.array([[0.0, 2999.5], [999.5, 0.0]])
    high, low = summary.ratings(wins)
    assert high - low == pytest.approx(400 * np.log10(3), rel=1e-6)
    found = summary.elo(ladder(), draws=50)
    assert found.elo["Random forest"] == 1000.0 < min(found.elo["a"], found.elo["b"])
    assert (found.low <= found.elo).all() and (found.elo <= found.high).all()


def test_a_group_holds_methods_that_do_not_differ():
    summary = import_module("_open_summary")
    assert [set(group) for group in summary.cliques(ladder())] == [{"a", "b"}]
    level = pd.DataFrame({name: np.ones(10) for name in "abc"})
    assert summary.different(level) == set() and len(summary.cliques(level)[0]) == 3


def test_a_failed_fit_counts_as_the_constant():
    summary = import_module("_open_summary")
    about = {"table": "t", "kind": "numbers", "rows": 300, "columns": 2, "tested": 75, "split": 0}
    rows = pd.DataFrame([
        {**about, "method": "Constant", "loss": 1.01, "log_loss": np.nan, "failure": np.nan},
        {**about, "method": "CatBoost", "loss": np.nan, "log_loss": np.nan, "failure": "x"},
    ])  # fmt: skip
    assert summary.losses(summary.completed(rows)).CatBoost["t"] == 1.01 + summary.FLOOR
    other = rows.iloc[:1].assign(table="u")
    assert set(summary.completed(pd.concat([rows, other])).table) == {"t"}  # u is not finished


def test_a_run_goes_on_where_it_ended(tmp_path):
    benchmark = import_module("open")
    path = tmp_path / "rows.csv"
    methods = ["Constant", "Logistic / ridge CV", "LinearSVC CV"]
    options = Namespace(
        half="open", data=None, only=["MASS/Boston"], methods=methods, jobs=2, rows=path
    )
    benchmark.run(options)
    whole = pd.read_csv(path)
    assert whole.failure.isna().all() and (whole.groupby("method").size() == 3).all()
    assert set(whole.method) == set(methods[:2])  # LinearSVC is for classes
    benchmark.run(options)
    assert pd.read_csv(path).equals(whole)
    part = whole[whole.method == "Constant"]
    part.to_csv(path, index=False)
    benchmark.run(options)
    again = pd.read_csv(path)
    columns = ["method", "split", "loss"]
    one, other = (rows[columns].sort_values(columns[:2]).to_numpy() for rows in (whole, again))
    assert (one == other).all()


def test_a_fit_without_a_result_has_failed():
    benchmark, frames = import_module("open"), import_module("_frames")
    frame = frames.load(frames.in_list("open")["MASS/Boston"])
    job = benchmark.Job(frame, "Constant", stalled=0.0)
    assert job.ended() and not job.process.is_alive()
    assert [row["failure"] for row in job.rows] == ["no result after 0 s"] * 3


@pytest.mark.parametrize("task", ["Classifier", "Regressor"])
def test_methods_read_text_and_gaps(task):
    benchmark, methods = import_module("open"), import_module("_open_methods").METHODS
    data = benchmark.made(task)
    assert data.X_train["text"].isna().any() and data.X_train["number"].isna().any()
    loss = {
        name: benchmark.fit(data, methods[name]())["loss"]
        for name in ("Constant", "TuneFree", "BoostedTrees", "HistGradientBoosting",
                     "Random forest", "SVC / kernel ridge CV")
    }  # fmt: skip
    assert all(value < 0.8 * loss["Constant"] for name, value in loss.items() if name != "Constant")


def test_splits_keep_the_shares_of_classes_and_cover_all_rows():
    benchmark, frames = import_module("open"), import_module("_frames")
    frame = frames.load(frames.in_list("open")["MASS/biopsy"])
    for data in benchmark.splits(frame):
        assert len(data.y_train) + len(data.y_test) == len(frame.y)
        assert np.mean(data.y_train) == pytest.approx(np.mean(data.y_test), abs=0.01)
