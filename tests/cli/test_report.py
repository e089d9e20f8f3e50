"""The page about a model: complete, well-formed, without the network, and readable by a browser."""

import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import numpy as np
import pytest
from typer.testing import CliRunner

from tunefree.cli import app
from tunefree.cli.page import bars, curves

HEADINGS = ["Leaderboard", "Timing", "Scores on", "Calibration"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    rng = np.random.default_rng(0)
    for name, n in (("train", 160), ("test", 90)):
        X = rng.normal(size=(n, 3))
        y = np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, "y<es&", "no")
        rows = [",".join([*(f"{v:.4f}" for v in r), t]) for r, t in zip(X, y, strict=True)]
        (folder / f"{name}.csv").write_text("\n".join(["a,b,c<d,answer", *rows]))
        lines = [",".join([*(f"{v:.4f}" for v in r), f"{r[0] ** 2:.3f}"]) for r in X]
        (folder / f"{name}_r.csv").write_text("\n".join(["a,b,c,target", *lines]))
    for model, data in (("model", "train.csv"), ("regression", "train_r.csv")):
        done = CliRunner().invoke(app, ["train", str(folder / data), str(folder / model), "--json"])
        assert done.exit_code == 0, done.output
        summary = json.loads(done.stdout.strip().splitlines()[-1])
        assert len(summary["setting"]) == 1 and summary["validation_risk"] >= 0
    return folder


def pages(folder):
    for model, data in (("model", "test.csv"), ("regression", "test_r.csv")):
        page = folder / f"{model}.html"
        arguments = ["report", str(folder / model), str(folder / data), "-o", str(page)]
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
        yield page


def test_the_page_has_every_part_and_no_link_to_elsewhere(folder):
    for page in pages(folder):
        text = page.read_text()
        for heading in HEADINGS:
            assert f"<h2>{heading}" in text
        assert not re.search(r"https?://|src=|@import|<script|<link", text)
        assert "y<es&" not in text and "c<d" not in text


class Balance(HTMLParser):
    """Opens and closes every element."""

    VOID = {"meta", "rect", "line", "path", "circle", "polyline"}

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_its_elements_are_balanced(folder):
    for page in pages(folder):
        parser = Balance()
        parser.feed(page.read_text())
        assert parser.open == []


def test_eval_writes_the_same_page(folder):
    page = folder / "eval.html"
    arguments = ["eval", str(folder / "model"), str(folder / "test.csv"), "--html", str(page)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    (other, _) = pages(folder)
    assert page.read_text() == other.read_text()


def test_a_page_without_data_and_of_a_plain_model(folder):
    model = str(folder / "plain")
    done = CliRunner().invoke(
        app, ["train", str(folder / "train.csv"), model, "--estimator", "pistol"]
    )
    assert done.exit_code == 0, done.output
    assert CliRunner().invoke(app, ["report", model]).exit_code == 0
    text = (folder / "plain.html").read_text()
    assert "Largest weights" in text and "Risk over rows seen" in text and "Scores" not in text


def test_drawings_are_sound_and_in_their_frame():
    drawn = (
        bars([("up", 2.0, 0.1), ("down", -1.0, None)], "unit"),
        curves({"one": ([1, 2, 4], [0.5, 0.3, 0.2])}, "x", "y"),
    )
    for text in drawn:
        root = ElementTree.fromstring(text)
        width, height = (float(root.get(name)) for name in ("width", "height"))
        for mark in root.iter("rect"):
            assert 0 <= float(mark.get("x")) <= width and float(mark.get("width")) >= 0
        for line in root.iter("polyline"):
            for point in line.get("points").split():
                x, y = map(float, point.split(","))
                assert 0 <= x <= width and 0 <= y <= height


def test_chromium_opens_it(folder):
    names = ("chromium", "chromium-browser", "google-chrome", "chrome", "headless_shell")
    browser = next(filter(None, map(shutil.which, names)), None)
    if browser is None:
        pytest.skip(f"no browser found ({', '.join(names)})")
    for page in pages(folder):
        shot = page.with_suffix(".png")
        done = subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--screenshot={shot}",
             "--window-size=1000,3000", "--virtual-time-budget=2000", page.as_uri()],
            capture_output=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0 and shot.stat().st_size > 10_000
        dom = subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", page.as_uri()],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert "<h2>Leaderboard</h2>" in dom.stdout and "<svg" in dom.stdout
