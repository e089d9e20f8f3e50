"""The page about a model: complete, well-formed, without the network, and readable by a browser."""

import json
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import numpy as np
import pytest
from typer.testing import CliRunner

from tunefree.cli import app
from tunefree.cli.drawing import Chart

HEADINGS = [
    "Data as read",
    "Scores",
    "Columns",
    "Partial effects",
    "Explanations",
    "Leaderboard",
    "Model",
]
OF_CLASSES = ["Classes and confusion matrix", "ROC and precision-recall", "Reliability",
              "Prediction sets"]  # fmt: skip
OF_NUMBERS = ["Predicted and actual", "Prediction intervals"]


def headings(text):
    return re.findall("<h2 id='[^']+'>([^<]+)</h2>", text)


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
        assert summary["setting"] and summary["validation_risk"] >= 0
    return folder


@pytest.fixture(scope="module")
def pages(folder):
    """The page of classes and the page of numbers."""
    pages = []
    for model, data in (("model", "test.csv"), ("regression", "test_r.csv")):
        pages.append(folder / f"{model}.html")
        arguments = ["report", str(folder / model), str(folder / data), "-o", str(pages[-1])]
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
    return pages


def test_the_page_has_every_part_and_no_link_to_elsewhere(pages):
    for page, own in zip(pages, (OF_CLASSES, OF_NUMBERS), strict=True):
        text = page.read_text()
        assert set(headings(text)) == {*HEADINGS, *own}
        assert not re.search(r"https?://|src=|@import|<script|<link", text)
        assert "y<es&" not in text and "c<d" not in text
        named = re.findall('<div role="img" aria-label="[^"]+"><svg', text)
        assert len(named) == text.count("<svg") >= 5
        assert "<th>" not in text and "scope=row" in text and "prefers-color-scheme: dark" in text
        assert "the model is better than that" in text.split("</p>")[0]


def test_the_verdict_counts_the_rows_of_the_matrix_and_training_rows_are_told(folder, pages):
    page, first = folder / "again.html", pages[0]
    text = first.read_text()
    right, wrong, also, more = map(int, re.findall(r"%'>(\d+)</td>", text))
    assert right + wrong + also + more == 90
    assert f"{100 * (right + more) / 90:.1f}" in text.split("class=verdict>")[1].split("%")[0]
    assert "was trained on" not in text
    arguments = ["report", str(folder / "model"), str(folder / "train.csv"), "-o", str(page)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert "About 100\u00a0% of the rows that the model was trained on" in page.read_text()


class Balance(HTMLParser):
    """Opens and closes every element."""

    VOID = {"meta"}

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        """Of SVG."""

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_its_elements_are_balanced(pages):
    for page in pages:
        parser = Balance()
        parser.feed(page.read_text())
        assert parser.open == []


def test_eval_writes_the_same_page(folder, pages):
    page = folder / "eval.html"
    arguments = ["eval", str(folder / "model"), str(folder / "test.csv"), "--html", str(page)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert page.read_text() == pages[0].read_text()


def test_a_page_without_data_and_of_a_plain_model(folder):
    model = str(folder / "plain")
    done = CliRunner().invoke(
        app, ["train", str(folder / "train.csv"), model, "--estimator", "pistol"]
    )
    assert done.exit_code == 0, done.output
    assert CliRunner().invoke(app, ["report", model]).exit_code == 0
    text = (folder / "plain.html").read_text()
    assert {"Largest weights", "Leaderboard"} < {*headings(text)}
    assert "held out in training" in text
    assert "its space is taken by" in text


def test_points_of_a_chart_are_where_the_axes_say():
    """The ticks on the axis and the points of the same values have the same positions."""
    chart = Chart((1.0, 1e4), (-1.0, 3.0), "x <", "y")
    ticks = [tick for tick, _ in chart.x.ticks()]
    chart.line(ticks, np.linspace(-1.0, 3.0, len(ticks)), 1, "curve $2$")
    chart.dots([np.nan, 1.0], [0.0, 3.0])
    drawn = ElementTree.fromstring(chart.svg())
    points = drawn.findall("polyline")[0].get("points", "").split()
    places = [t.get("x") for t in drawn.findall("text") if t.get("text-anchor") == "middle"]
    assert [p.split(",")[0] for p in points] == places[: len(ticks)]
    assert "x &lt;" in chart.svg() and "curve $2$" in chart.svg()
    assert float(points[-1].split(",")[1]) < float(points[0].split(",")[1])


def test_titles_of_drawings_are_escaped(pages):
    page = pages[0].read_text()
    assert 'aria-label="Partial effect of a on the probability of y&lt;es&amp;"' in page


def test_drawings_have_colours_for_light_and_dark_and_dashes(pages):
    text = pages[0].read_text()
    light, dark = text.split("</style>")[0].split("prefers-color-scheme: dark")
    for k in range(1, 6):
        assert f"--c{k}: #" in light and f"--c{k}: #" in dark and f"var(--c{k})" in dark
    drawings = "".join(re.findall("<svg.*?</svg>", text, re.DOTALL))
    assert "#" not in re.sub("&#x?[0-9a-f]+;", "", drawings)  # no colour of their own


def test_the_page_is_drawn_without_matplotlib(folder, pages, monkeypatch):
    drawn, page = pages[0].read_text(), folder / "bare.html"
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # an import raises an error
    arguments = ["report", str(folder / "model"), str(folder / "test.csv"), "-o", str(page)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert page.read_text() == drawn and "<svg" in drawn


def test_cells_of_a_narrow_table_have_the_names_of_their_columns(pages):
    text = pages[0].read_text()
    row = re.findall(r"<tr><th scope=row data-label=\"score\">.*?</tr>", text, re.DOTALL)[0]
    assert re.findall('<td data-label="([^"]+)"', row) == ["this model", "best constant"]


def test_a_browser_finds_drawings_and_nothing_wider_than_a_phone(folder, pages):
    names = ("chromium", "chromium-browser", "google-chrome", "chrome", "headless_shell")
    browser = next(filter(None, map(shutil.which, names)), None)
    if browser is None:
        pytest.skip(f"no browser found ({', '.join(names)})")
    frames = "".join(f"<iframe src='{page.name}' width=390></iframe>" for page in pages)
    script = """<script>onload = () => {
        const pages = [...document.querySelectorAll("iframe")].map(f => f.contentDocument)
        const fits = e => e.scrollWidth <= e.clientWidth
        document.title = pages.map(d => d.querySelectorAll("svg").length > 4 &&
            [d.documentElement, ...d.querySelectorAll(".scroll")].every(fits)).join() }</script>"""
    (folder / "frames.html").write_text(frames + script)
    dom = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files",
         "--virtual-time-budget=2000", "--dump-dom", (folder / "frames.html").as_uri()],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert "<title>true,true</title>" in dom.stdout


def test_text_that_looks_like_mathematics_or_controls_a_terminal_is_shown_as_text(tmp_path):
    rng, odd = np.random.default_rng(0), "$\\frac{$ \x9b31m"
    a, word = rng.normal(size=80), rng.choice([odd, "plain"], 80)
    y = np.where(a + (word == odd) + 0.3 * rng.normal(size=80) > 0.5, f"yes {odd}", "no")
    rows = [f"{v:.4f},{w},{t}" for v, w, t in zip(a, word, y, strict=True)]
    data, model = tmp_path / "data.csv", tmp_path / "model"
    data.write_text("\n".join([f"a {odd},word {odd},answer", *rows]))
    for command in (["train", data, model], ["report", model, data]):
        done = CliRunner().invoke(app, [str(c) for c in command])
        assert done.exit_code == 0, done.output
    page = (tmp_path / "model.html").read_text()
    assert not re.search("[\0-\x08\x0b-\x1f\x7f-\x9f]", page)
    assert "<svg" in page and page.count("$\\frac{$ \ufffd31m") > 10


_WITHOUT_PANDAS = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "pandas":
            raise ImportError(name)

sys.meta_path.insert(0, Absent())
from tunefree.cli import app
app(sys.argv[1:])
"""


@pytest.mark.parametrize("target", ["numbers", "classes"])
def test_the_page_of_a_mixed_table_is_the_same_without_pandas(tmp_path, target):
    rng = np.random.default_rng(0)
    for name, n in (("train", 120), ("new", 60)):
        x, kinds = rng.normal(size=n), rng.choice(["red", "blue"], n)
        y = x + (kinds == "red") + 0.3 * rng.normal(size=n)
        y = np.where(y > 0.4, "yes", "no") if target == "classes" else y.round(3)
        gaps = ["" if i % 9 == 0 else f"{v:.3f}" for i, v in enumerate(rng.normal(size=n))]
        days = [f"2024-01-{1 + i % 28:02d}" for i in range(n)]
        columns = x.round(3).astype(str), gaps, kinds, days, y.astype(str)
        lines = map(",".join, zip(*columns, strict=True))
        (tmp_path / f"{name}.csv").write_text("\n".join(["x,gaps,kind,day,y", *lines]))
    train, new, model = (str(tmp_path / name) for name in ("train.csv", "new.csv", "model"))
    assert CliRunner().invoke(app, ["train", train, model, "--target", "y"]).exit_code == 0
    page = tmp_path / "page.html"
    report = ["report", model, new, "-o", str(page)]
    assert CliRunner().invoke(app, report).exit_code == 0
    text = page.read_text()
    subprocess.run([sys.executable, "-c", _WITHOUT_PANDAS, *report], check=True)
    assert page.read_text() == text
    own = OF_CLASSES if target == "classes" else OF_NUMBERS
    assert set(headings(text)) == {*HEADINGS, *own}
    for column in ("x", "kind"):
        assert f"Partial effect of {column} on" in text
