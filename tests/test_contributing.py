"""CONTRIBUTING's table of floors is the import contract, and each module is on one floor."""

import pkgutil
import re
from itertools import chain
from pathlib import Path

import tunefree
from house import ROOT
from walks import floors

HEADER = "| modules | what they hold |\n|---|---|\n"
ROW = re.compile(r"\| (`.+`) \| (\S.*) \|")


def contract():
    """The modules of each floor, without the library's name; the highest floor first."""
    return [[name.removeprefix("tunefree.") for name in names] for names in reversed(floors())]


def test_the_table_of_floors_is_the_import_contract():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    rows = text.split(HEADER)[1].split("\n\n")[0].splitlines()
    found = [ROW.fullmatch(row) for row in rows]
    assert None not in found
    assert [re.findall(r"`(\w+)`", row[1]) for row in found] == contract()


def test_every_module_is_on_one_floor():
    library = pkgutil.iter_modules([str(Path(tunefree.__file__).parent)])
    modules = [module.name for module in library]
    assert sorted(chain.from_iterable(contract())) == sorted(["papers", *modules])
