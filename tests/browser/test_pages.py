"""Pages in a real browser: at two widths, in light and dark, and in print."""

import re
from pathlib import Path

import chromium
import numpy as np
import pytest
from matplotlib.image import imread
from typer.testing import CliRunner

from tunefree.cli import app

BUILT = Path(__file__).parents[2] / "docs/_build/html"
DOCS = """index start tour performance reliability troubleshooting guide/index guide/tables
guide/glm guide/sure interpretation api/index api/generated/tunefree.TuneFreeClassifier""".split()
WIDTHS, SCHEMES = (390, 1280), ("light", "dark")
# What sticks out of the window, with its class: an empty list where nothing scrolls sideways.
WIDE = """(() => {
  const room = document.documentElement.clientWidth;
  if (document.scrollingElement.scrollWidth <= room) return [];
  const out = [...document.querySelectorAll("body *")].filter(e => {
    const box = e.getBoundingClientRect();
    return box.width && box.right > room + 1 && getComputedStyle(e).visibility !== "hidden"; });
  return [`the page is ${document.scrollingElement.scrollWidth} wide`,
    ...out.slice(0, 5).map(e => `${e.tagName} ${e.className} ${e.textContent.slice(0, 40)}`)];
})()"""
BROKEN = "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
# Tables that are wider than their place.
CUT = """[...document.querySelectorAll(".scroll > table")].filter(e =>
  e.scrollWidth > e.parentNode.clientWidth + 1).map(e => e.textContent.slice(0, 60))"""
# The corner of the first figure of a page: where it is, once it is in sight.
CORNER = """(() => { const figure = document.querySelector("article p > img");
  figure.scrollIntoView({block: "center", behavior: "instant"});
  const box = figure.getBoundingClientRect(); return [box.left + 3, box.top + 3]; })()"""
# Links of the contents whose text is cut by what they are in.
CLIPPED = """[...document.querySelectorAll(".bd-sidebar-secondary a")].filter(a =>
  a.getClientRects().length && (a.scrollWidth > a.clientWidth + 1 && a.clientWidth
  || a.getBoundingClientRect().right > document.documentElement.clientWidth)).map(a => a.text)"""

if not chromium.found():
    pytest.skip("no Chromium is installed", allow_module_level=True)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = chromium.Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Report pages of classes and of numbers."""
    folder, rng = tmp_path_factory.mktemp("reports"), np.random.default_rng(0)
    a, b = rng.normal(size=(2, 200))
    kinds = np.where(a + b + rng.normal(size=200) > 0, "up", "down")
    places = rng.choice(["a rather long name of a place", "north", "south"], 200)
    pages = {}
    for name, target in (("classes", kinds), ("numbers", 3.0 * a + rng.normal(size=200))):
        table, model, page = (folder / f"{name}.{s}" for s in ("csv", "model", "html"))
        rows = zip(a, b, places, target, strict=True)
        lines = "".join(f"{u:.3f},{v:.3f},{p},{y}\n" for u, v, p, y in rows)
        table.write_text(f"a_column_with_quite_a_long_name,b,place,y\n{lines}")
        train, report = ["train", table, model, "--estimator", "trees"], ["report", model, table]
        steps = (train, [*report, "-o", page])
        for step in steps:
            result = CliRunner().invoke(app, [str(word) for word in step])
            assert result.exit_code == 0, result.output
        pages[name] = page
    return pages


def _page(name):
    page = BUILT / f"{name}.html"
    if not page.exists():
        pytest.skip(f"the documentation is not built: no {page.name}")
    return page


def _faults(browser, page):
    """What is wrong with a page at both widths, in light and dark."""
    for width in WIDTHS:
        for scheme in SCHEMES:
            browser.look(width, scheme)
            browser.open(page)
            found = {"wide": browser.run(WIDE), "errors": browser.errors()}
            found |= {"broken": browser.run(BROKEN), "clipped": browser.run(CLIPPED)}
            yield from ((width, scheme, kind, what) for kind, what in found.items() if what)


@pytest.mark.parametrize("name", DOCS)
def test_a_page_of_the_documentation_fits_its_window(browser, name):
    assert list(_faults(browser, _page(name))) == []


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", ("index", "performance", "algorithms/kernel"))
def test_a_figure_has_the_colour_of_its_page(browser, tmp_path, name, scheme):
    browser.look(1280, scheme)
    browser.open(_page(name))
    left, top = map(int, browser.run(CORNER))
    browser.picture(tmp_path / "window.png")
    seen = (255 * imread(tmp_path / "window.png")[:, :, :3]).round()
    assert abs(seen[top, left] - seen[top, left - 12]).max() <= 12


@pytest.mark.parametrize("name", ("classes", "numbers"))
def test_a_report_fits_its_window(browser, reports, name):
    assert list(_faults(browser, reports[name])) == []


def test_a_report_in_dark_has_light_text_on_dark_paper(browser, reports):
    style, light = "getComputedStyle(document.body)", {}
    for scheme in SCHEMES:
        browser.look(1280, scheme)
        browser.open(reports["classes"])
        found = browser.run(f"[{style}.color, {style}.backgroundColor]")
        light[scheme] = [sum(map(int, re.findall(r"\d+", text)[:3])) for text in found]
    assert light["dark"][0] > 500 > light["dark"][1]
    assert light["light"][0] < 200 < light["light"][1]


@pytest.mark.parametrize("name", ("classes", "numbers"))
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_report_is_printed_dark_on_white(browser, reports, name, scheme):
    browser.look(718, scheme, media="print")  # A4 within its margins
    browser.open(reports[name])
    assert browser.run(WIDE) == []
    assert browser.run(CUT) == []  # paper does not scroll
    assert browser.run("getComputedStyle(document.body).color") == "rgb(29, 33, 38)"
    assert browser.pdf().count(b"/Type /Page\n") > 0


def test_a_page_about_drift_fits_its_window(browser, reports):
    table = reports["numbers"].with_suffix(".csv")
    moved = table.with_name("moved.csv")
    moved.write_text(table.read_text().replace("south", "a place that nobody has seen before"))
    page = table.with_name("drift.html")
    model = table.with_suffix(".model")
    result = CliRunner().invoke(app, ["drift", str(model), str(moved), "--page", str(page)])
    assert result.exit_code == 5, result.output
    assert list(_faults(browser, page)) == []
