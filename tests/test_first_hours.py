"""Every line of the pages for a reader's first hour runs, in the order of the page."""

import re
import shlex
from pathlib import Path

import matplotlib.pyplot
import pytest
from typer.testing import CliRunner

from tunefree.cli import app

GUIDE = Path(__file__).parents[1] / "docs/guide"


def _parts(name):
    """The code of a page, and the last cells of its table."""
    text = (GUIDE / name).read_text()
    code = re.search(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[1]
    return code, re.findall(r"^\|.*\| `([^`]+)` \|$", text, re.MULTILINE)


def test_lines_for_users_of_scikit_learn_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    code, lines = _parts("from_sklearn.md")
    names = {}
    exec(code, names)
    assert len(lines) > 20
    for line in lines:
        assert eval(line, names) is not None, line
    matplotlib.pyplot.close("all")


def test_commands_for_users_of_vw_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, lines = _parts("from_vw.md")
    exec(code, {})
    assert len(lines) > 12
    for line in lines:
        program, *words = shlex.split(line)
        result = CliRunner().invoke(app, words)
        assert (program, result.exit_code) == ("tunefree", 0), f"{line}\n{result.output}"
        written = words[words.index("-o") + 1] if "-o" in words else None
        assert written is None or (tmp_path / written).stat().st_size


@pytest.mark.parametrize("page", ("from_sklearn.md", "from_vw.md", "from_r.md"))
def test_the_guide_lists_the_page(page):
    assert page.removesuffix(".md") in (GUIDE / "index.md").read_text().split()
