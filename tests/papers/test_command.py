"""``python -m papers``: names, tables and exit codes."""

import subprocess
import sys
from pathlib import Path

import pytest

from papers import EXPERIMENTS
from papers.command import main

ROOT = Path(__file__).parents[2]


def refused(arguments, capsys):
    """What is written to stderr by a command that is refused."""
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_without_a_name_every_figure_is_listed_with_its_paper(capsys):
    main([])
    listing = capsys.readouterr().out
    assert all(name in listing for name in EXPERIMENTS)
    assert "Neu and Rosasco 2018" in listing


def test_help_lists_the_names():
    command = [sys.executable, "-m", "papers", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert all(name in done.stdout for name in EXPERIMENTS)


def test_tables_are_printed_with_a_summary(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    names = ["pistol-bound", "pistol-learning-curves"]
    main([*names, "--quick", "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    assert "what" in printed and "exponent at T = 1e8" in printed
    assert "pistol-learning-curves: skipped, needs a9a.gz" in printed and "--data DIR" in printed
    assert printed.splitlines()[-1].startswith("all ")
    assert (tmp_path / "pistol-bound" / "pistol-bound.png").is_file()


def test_unknown_names_and_folders_are_refused(tmp_path, capsys):
    assert "no experiment 'nothing'" in refused(["nothing"], capsys)
    missing = str(tmp_path / "none")
    assert "no such folder" in refused(["pistol-bound", "--data", missing], capsys)
