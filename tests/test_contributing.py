"""CONTRIBUTING's tree has every folder of the library, and each is on one floor of the contract."""

import pkgutil
import re
from itertools import chain
from pathlib import Path

import tunefree
from house import ROOT
from walks import floors

HIDDEN = {"__main__", "_version"}


def contract():
    """The modules of all floors, without the library's name."""
    return {name.removeprefix("tunefree.") for name in chain.from_iterable(floors())}


def library():
    """The folders and modules of the library, and the folder of the papers."""
    modules = pkgutil.iter_modules([str(Path(tunefree.__file__).parent)])
    return {"papers", *(module.name for module in modules)} | {"__main__"}


def test_every_folder_is_on_one_floor():
    assert contract() == library()


def test_the_tree_has_every_folder_with_a_sentence():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    tree = text.split("```\n")[1]
    lines = tree.splitlines()[1:]
    named = [re.findall(r"(\w+)(?:/|\.py)", line.split("   ")[0].strip() or line) for line in lines]
    found = set(chain.from_iterable(named))
    assert found == library() - HIDDEN


def test_the_tests_of_a_folder_are_in_the_folder_of_its_name():
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()}
    others = {"browser", "laws", "corpus", "golden", "__pycache__"}
    assert folders - others <= library()
