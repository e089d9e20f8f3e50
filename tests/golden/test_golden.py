"""Every public estimator gives the stored record's predictions and attributes: see `record.py`."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import record
from record_compare import Renames, compare
from record_values import as_json, digest

from tunefree.core.registry import ESTIMATORS

STORED = record.Stored.read()
SAME_ENVIRONMENT = STORED.environment == record.environment()


@pytest.mark.parametrize("name", record.kept_groups())
def test_the_record_is_kept(name):
    stored = {case: v for case, v in STORED.cases.items() if record.group_of(case) == name}
    found = record.kept_cases([name])
    assert stored and found
    comparison = record.compare_with_stored(stored, found, SAME_ENVIRONMENT)
    print(comparison)
    assert not comparison.counts


def test_every_public_estimator_is_in_the_record():
    assert set(ESTIMATORS) == set(record.SETTINGS)


def test_the_stored_cases_are_the_kept_ones():
    shell = {case for case in STORED.cases if case.startswith("shell/")}
    assert set(STORED.cases) - shell == set(record.KEPT)


# ------------------------------------------------------------------------------ settings, refusals


def test_a_misspelt_setting_raises(monkeypatch):
    monkeypatch.setitem(record.SETTINGS, "PiSTOLRegressor", ("numbers", {"los": "huber"}))
    with pytest.raises(TypeError, match="los"):
        record.record(["PiSTOLRegressor"])


def test_a_misspelt_setting_of_a_large_case_raises(monkeypatch):
    name = "large/PiSTOLRegressor/quantile"
    misspelt = record.LARGE[name]._replace(settings={"los": "huber"})
    monkeypatch.setitem(record.LARGE, name, misspelt)
    with pytest.raises(TypeError, match="los"):
        record.record([name])


class Refuses:
    """An estimator that refuses its rows, by the verb that it is given."""

    def __init__(self, verb, error):
        self.verb, self.error = verb, error

    def fit(self, X):
        return self._refuse("fit")

    def predict(self, X):
        return self._refuse("predict")

    def _refuse(self, verb):
        if verb == self.verb:
            raise self.error
        return self


@pytest.mark.parametrize("verb", ["fit", "predict"])
def test_a_refusal_has_its_verb_and_type_in_its_path(verb):
    form = record.Form("rows", lambda model: model.fit([]), [])
    leaves = record.outcome(Refuses(verb, ValueError("too few rows")), form)
    assert set(leaves) == {f"refused.{verb}.ValueError", "refused.message"}
    assert leaves["refused.message"] == "too few rows"


@pytest.mark.parametrize("verb", ["fit", "predict"])
def test_a_keyword_that_is_not_taken_is_no_refusal(verb):
    form = record.Form("rows", lambda model: model.fit([]), [])
    with pytest.raises(TypeError):
        record.outcome(Refuses(verb, TypeError("unexpected keyword")), form)


# ------------------------------------------------------------------------------ comparisons


def kept(cases):
    return {
        case: {p: digest(v if isinstance(v, str) else np.asarray(v)) for p, v in leaves.items()}
        for case, leaves in cases.items()
    }


OLD = {
    "Landmark/0/numbers/dense": {"left_out_.said": [1.0, 2.0], "solver_": "exact", "reach_": 3.0},
    "Landmark/1/numbers/dense": {"range_": 4.0, "reach_": 5.0},
}
NEW = {
    "Ridge/0/numbers/dense": {"held_out_.predicted": [1.0, 2.0], "solver_": "full", "range_": 3.0},
    "Other/0/numbers/dense": {"reach_": 4.0, "range_": 5.0},
}
TABLE = """
# classes
Landmark Ridge
Landmark/1 Other/0  # the longest name wins
left_out_.said held_out_.predicted
reach_ range_  # two names are exchanged
range_ reach_
"""


def main(tmp_path, *arguments, old=OLD, new=NEW, table=TABLE):
    """The exit status of a command on two records and a table."""
    (tmp_path / "old").write_text(as_json(kept(old)))
    (tmp_path / "new").write_text(as_json(kept(new)))
    (tmp_path / "table").write_text(table)
    files = {name: str(tmp_path / name) for name in ("old", "new", "table")}
    return record.main([files.get(a, a) for a in arguments])


def test_renamed_records_are_equal_and_texts_do_not_count(tmp_path, capsys):
    assert main(tmp_path, "compare", "--renames", "table", "old", "new") == 0
    assert capsys.readouterr().out.splitlines() == [
        "texts that differ: 1",
        "  Ridge/0/numbers/dense solver_: 'exact' (fa79d4746c21cd96) became 'full' "
        "(a18b869b2e81c0c5)",
        "numbers are equal",
    ]


def test_without_the_table_cases_are_missing(tmp_path, capsys):
    assert main(tmp_path, "compare", "old", "new") == 1
    assert "only in one record: 4" in capsys.readouterr().out


def test_a_number_that_differs_counts(tmp_path, capsys):
    changed = {"Landmark/0/numbers/dense": OLD["Landmark/0/numbers/dense"] | {"reach_": 3.5}}
    assert main(tmp_path, "compare", "old", "new", new=OLD | changed) == 1
    out = capsys.readouterr().out
    assert "numbers that differ: 1" in out and "texts" not in out


def test_a_path_that_is_missing_counts_even_if_it_is_a_text(tmp_path):
    less = {"Landmark/0/numbers/dense": {"left_out_.said": [1.0, 2.0], "reach_": 3.0}}
    assert main(tmp_path, "compare", "old", "new", new=OLD | less) == 1


def test_a_text_that_becomes_a_number_counts():
    assert compare(kept({"a": {"b": "1"}}), kept({"a": {"b": 1.0}})).numbers


def test_of_texts_with_several_lines_those_that_differ_are_shown():
    old, new = (kept({"a": {"b": f"one\n{word}\nthree"}}) for word in ("two", "2"))
    (line,) = compare(old, new).texts
    assert line == "a b: \n    - two\n    + 2"


def test_two_old_names_must_not_become_one():
    with pytest.raises(ValueError, match="become 'reach_'"):
        Renames("range_ reach_").of_cases(OLD)


@pytest.mark.parametrize("table", ["one", "one two three", "a b\na c"])
def test_a_line_that_is_no_rename_is_refused(table):
    with pytest.raises(ValueError, match="Line"):
        Renames(table)


def test_renames_of_names_that_nothing_has_are_shown(tmp_path, capsys):
    assert main(tmp_path, "compare", "--renames", "table", "old", "new", new=OLD, table="x y") == 0
    assert "the old record has not: x" in capsys.readouterr().out


# ------------------------------------------------------------------------------ the stored copy


def test_in_another_environment_predictions_alone_are_compared():
    old = kept({"a": {"predict": [100.0, 1.0], "coef_": 1.0}, "b": {"predict": "yes|no"}})
    near = kept({"a": {"predict": [100.1, 1.0], "coef_": 2.0}, "b": {"predict": "no|no"}})
    far = kept({"a": {"predict": [110.0, 1.0], "coef_": 1.0}, "b": {"predict": "yes|no"}})
    assert not record.compare_with_stored(old, near, same_environment=False).counts
    assert record.compare_with_stored(old, far, same_environment=False).counts
    assert record.compare_with_stored(old, near, same_environment=True).counts
