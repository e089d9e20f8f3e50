"""Code in the documentation and the README runs."""

import re
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _names():
    """What the pages take for granted: rows, labels, new rows, and chunks of a stream."""
    X, y = load_breast_cancer(return_X_y=True)
    X, y, X_new = X[:300], y[:300], X[300:]
    chunks = [(X[:100], y[:100]), (X[100:], y[100:])]
    return {"X": X, "y": y, "X_new": X_new, "X_val": X, "y_val": y, "chunks": chunks, "np": np}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_the_code_on_a_page_runs(page, tmp_path, monkeypatch):
    blocks = BLOCK.findall(page.read_text())
    if not blocks:
        pytest.skip("no Python on this page")
    monkeypatch.chdir(tmp_path)
    names = _names()
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
def test_an_example_runs(example, tmp_path, monkeypatch):
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    exec(compile(example.read_text(), str(example), "exec"), names)
    matplotlib.pyplot.close("all")


def test_there_are_examples():
    assert EXAMPLES
