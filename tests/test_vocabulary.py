"""Parameters have one name, one meaning and one default: the table of CONTRIBUTING."""

import inspect
import re
from pathlib import Path
from typing import get_args

import pytest

import tunefree
from tunefree.core import protocols
from tunefree.core.registry import estimator_classes
from tunefree.kernels.kernels import KERNELS
from tunefree.parts.averaging import AVERAGES
from tunefree.parts.families import FAMILIES, OF_CLASSES
from tunefree.parts.links import LINKS
from tunefree.parts.losses import LOSSES
from tunefree.reflectron.potentials import POTENTIALS

PAGE = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text()
SECTION = PAGE.split("## One vocabulary")[1].split("\n## ")[0]
ROWS = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \|$", SECTION, re.MULTILINE)
DEFAULTS = {name: re.findall(r"`([^`]+)`", default) for name, _, default in ROWS}
ESTIMATORS = estimator_classes()


def parameters(name):
    return inspect.signature(ESTIMATORS[name]).parameters


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_parameter_is_in_the_table_with_its_default(name):
    for parameter in parameters(name).values():
        assert parameter.name in DEFAULTS, f"{name}: {parameter.name} is not in the table"
        assert repr(parameter.default) in DEFAULTS[parameter.name], parameter


def test_the_table_names_no_other_parameter():
    used = {parameter for name in ESTIMATORS for parameter in parameters(name)}
    assert set(DEFAULTS) == used and len(ROWS) == len(DEFAULTS)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_seed_comes_last(name):
    assert "random_state" not in list(parameters(name))[:-1]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_docstrings_name_every_parameter(name):
    text = inspect.getdoc(ESTIMATORS[name]).split("Attributes\n---")[0]
    documented = {n.strip() for line in re.findall(r"^([\w, ]+?)(?: :.*)?$", text, re.MULTILINE)
                  for n in line.split(",")}  # fmt: skip
    assert set(parameters(name)) <= documented


@pytest.mark.parametrize("synonym", FAMILIES.synonyms)
def test_synonyms_of_families_are_the_family(synonym):
    name = FAMILIES.synonyms[synonym]
    assert FAMILIES.find(synonym) is FAMILIES[name] and synonym not in FAMILIES


def test_sub_estimators_of_the_stack_are_chosen_by_kind():
    with pytest.raises(ValueError, match="candidates=.*neither 'all' nor some of"):
        tunefree.TuneFreeRegressor(candidates=("boosting",)).fit([[0.0], [1.0]], [0.0, 1.0])


@pytest.mark.parametrize(
    ("names", "table"),
    [
        ((protocols.FamilyOfNumbers, protocols.FamilyOfClasses), [*FAMILIES, *FAMILIES.synonyms]),
        ((protocols.LinkName,), LINKS),
        ((protocols.LossOfClasses, protocols.LossOfNumbers), LOSSES),
        ((protocols.PotentialName,), POTENTIALS),
        ((protocols.KernelName,), KERNELS),
        ((protocols.AverageName,), AVERAGES),
    ],
)
def test_the_types_of_choices_are_the_tables(names, table):
    """A checker knows the library's parts; another package gives its own as objects."""
    assert {name for literal in names for name in get_args(literal)} == set(table)


def test_the_types_of_losses_are_of_their_task():
    for literal, task in (
        (protocols.LossOfClasses, "classification"),
        (protocols.LossOfNumbers, "regression"),
    ):
        own = {name for name, part in LOSSES.items() if part.task in (task, "both")}
        assert set(get_args(literal)) == own
    assert {*get_args(protocols.FamilyOfClasses)} >= {*OF_CLASSES}
