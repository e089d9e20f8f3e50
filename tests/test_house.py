"""The house rules as tests: style, floors, a docstring with an example for each public name."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import tunefree

ROOT = Path(__file__).parent.parent
PUBLIC = [name for name in tunefree.__all__ if not name.startswith("__")]


def _run(*command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_ruff_finds_nothing():
    _run(sys.executable, "-m", "ruff", "check", ".")


def test_ruff_would_format_nothing():
    _run(sys.executable, "-m", "ruff", "format", "--check", ".")


def test_floors_import_only_lower_floors():
    _run(sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()")


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_are_documented(name):
    doc = inspect.getdoc(getattr(tunefree, name))
    assert doc, name
    assert "Examples\n--------" in doc, f"{name} has no example"


def test_every_public_name_is_in_the_changelog():
    text = (ROOT / "CHANGELOG.md").read_text()
    assert [name for name in PUBLIC if name not in text] == []


def test_names_of_test_files_are_unique():
    """Without packages in `tests` pytest imports them by their base name."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert len(names) == len(set(names)), sorted(n for n in names if names.count(n) > 1)
