"""Code in the documentation and the README runs as it stands, page by page."""

import re
from itertools import chain
from pathlib import Path

import matplotlib.pyplot
import pytest

import house

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
MADE = {"_build", "api", "auto_examples"}
WRITTEN = [p for p in sorted((ROOT / "docs").rglob("*.md")) if not MADE & {*p.parts}]
PAGES = [p for p in (ROOT / "README.md", *WRITTEN) if BLOCK.search(p.read_text())]
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_the_code_on_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    names = {}
    for block in BLOCK.findall(page.read_text()):
        exec(compile(block, str(page), "exec"), names)
    matplotlib.pyplot.close("all")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
def test_an_example_runs(example, tmp_path, monkeypatch):
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    exec(compile(example.read_text(), str(example), "exec"), names)
    matplotlib.pyplot.close("all")


def test_there_are_examples():
    assert EXAMPLES


def _anchors(text):
    """What headings of a page are linked to by: lower case, without punctuation, with hyphens."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}


def _broken(page):
    """Links of a page to files or headings that do not exist."""
    text = page.read_text()
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        name, _, anchor = link.partition("#")
        if "://" in link or link.startswith("mailto:") or MADE & {*Path(name).parts}:
            continue
        target = page.parent / name if name else page
        if not target.exists():
            yield link
        elif anchor and target.suffix == ".md" and anchor not in _anchors(target.read_text()):
            yield link


@pytest.mark.parametrize(
    "page", [*sorted(ROOT.glob("*.md")), *WRITTEN], ids=lambda page: str(page.relative_to(ROOT))
)
def test_links_lead_to_files_and_headings(page):
    assert list(_broken(page)) == []


@pytest.mark.parametrize(
    "page", [*sorted(ROOT.glob("*.md")), *WRITTEN], ids=lambda page: str(page.relative_to(ROOT))
)
def test_a_page_has_no_marks_of_a_merge(page):
    assert not re.search(r"^(<{7}|>{7}) ", page.read_text(), re.MULTILINE)


def test_troubleshooting_quotes_the_messages_of_the_library():
    page = (ROOT / "docs/troubleshooting.md").read_text().split("## Messages of scikit-learn")[0]
    messages = re.findall(r"^\| `(.+?)` \|", page, re.MULTILINE)
    strings = (house.names_and_strings(path)[1] for path in house.files("src"))
    texts = "\n".join(text for _, text in chain.from_iterable(strings))
    assert len(messages) > 40
    assert [p for m in messages for p in m.split("…") if p.strip() not in texts] == []
