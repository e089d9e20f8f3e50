"""CONTRIBUTING's "Your first part in twenty minutes", followed word by word on a copy."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_new_parts import laws_that_hold

from tunefree.parts import links

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
PAGE = PAGE.split("## Your first part in twenty minutes\n")[1].split("\n## ")[0]
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, flags=re.DOTALL)
EDIT = re.compile(r"# In (\S+), (above|below) the line: (.*)\n")
NEEDED = "src", "tests", "papers", "pyproject.toml", "CONTRIBUTING.md"


def _insert(folder, block):
    """Insert a block of the page where its first line asks for it."""
    found = EDIT.match(block)
    file, side, anchor = found.groups()
    path = folder / file
    lines = path.read_text().splitlines(keepends=True)
    (at,) = (i for i, line in enumerate(lines) if line.strip() == anchor)
    code = block[found.end() :]
    if side == "above":  # a class or a function, with two empty lines after it
        lines.insert(at, code + "\n\n")
    else:
        lines.insert(at + 1, code)
    path.write_text("".join(lines))


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the library with the page's part, and the blocks that are left to run."""
    folder = tmp_path_factory.mktemp("copy")
    for name in NEEDED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    for _, block in BLOCKS:
        if EDIT.match(block):
            _insert(folder, block)
    return folder


def _run(folder, *command):
    """Run a command in the copy."""
    environment = os.environ | {"PYTHONPATH": str(folder / "src")}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)


def test_the_page_edits_three_files_of_the_library_and_its_tests():
    files = [found[1] for _, block in BLOCKS if (found := EDIT.match(block))]
    links, types = "src/tunefree/parts/links.py", "src/tunefree/core/protocols.py"
    assert files == [links, links, types, "tests/parts/test_links.py"]


@pytest.fixture
def entered(monkeypatch):
    """The part in its table: the first two blocks of the page without their files."""
    (part,) = (EDIT.sub("", block) for _, block in BLOCKS if "class Loglog" in block)
    exec(part, vars(links) | {"__name__": "page"}, found := {})
    monkeypatch.setitem(links.LINKS, "loglog", found["Loglog"]())


def test_the_laws_of_links_and_the_test_of_the_page_hold_for_the_part(entered):
    assert len(laws_that_hold("links", ["loglog"])) >= 5
    (test,) = (EDIT.sub("", block) for _, block in BLOCKS if "def test_" in block)
    exec(test, space := {"np": np, "LINKS": links.LINKS, "S": np.linspace(-6.0, 6.0, 241)})
    space["test_the_log_log_link_mirrors_the_complementary_one"]()


def test_the_last_block_uses_the_part_by_name(entered, capsys):
    (script,) = (block for kind, block in BLOCKS if kind == "python" and "import numpy" in block)
    exec(script, {})
    assert capsys.readouterr().out == "True\n"


def test_the_tests_that_the_page_names_pass_and_cover_the_part(copy):
    (command,) = (block for kind, block in BLOCKS if kind == "sh")
    chosen = "loglog or Loglog or log_log or choices_are_the_tables"
    done = _run(copy, sys.executable, *command.split()[1:], "-n", "0", "-rA", "-k", chosen)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = [line for line in done.stdout.splitlines() if line.startswith("PASSED")]
    laws = [line for line in passed if line.endswith("[loglog]")]
    assert len(laws) >= 5
    for name in ("links.Loglog", "mirrors_the_complementary_one", "choices_are_the_tables"):
        assert any(name in line for line in passed), (name, done.stdout)


def test_the_part_is_used_by_name(copy):
    (script,) = (block for kind, block in BLOCKS if kind == "python" and "import numpy" in block)
    done = _run(copy, sys.executable, "-c", script)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_the_style_of_the_page_is_the_repositorys(copy):
    edited = sorted({EDIT.match(block)[1] for _, block in BLOCKS if EDIT.match(block)})
    done = _run(copy, sys.executable, "-m", "ruff", "check", *edited)
    assert done.returncode == 0, done.stdout
