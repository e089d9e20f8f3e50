"""Targets of new rows are read as those that the model has learned, whatever these rows show."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from tunefree import DataWarning
from tunefree.cli import app
from tunefree.files.mixed import mixed_parts, read_mixed

# How people write whole numbers from 1 to 9,999; alone, cells of some could mean something else.
WRITTEN = {
    "thousands with points": lambda v: f"{v:,}".replace(",", "."),
    "thousands with commas": lambda v: f"{v:,}",
    "thousands with blanks": lambda v: f"{v:,}".replace(",", " "),
    "money": lambda v: f"${v:,}",
    "percents": lambda v: f"{v}%",
    "letters": lambda v: f"{v // 1000}k" if v % 1000 == 0 else f"{v}",
    "sizes": lambda v: f"{v // 1000}GB" if v % 1000 == 0 else f"{v}MB",
}
SHARE = {"percents": 0.01}  # of a number that is written 1%
RNG = np.random.default_rng(0)
VALUES = np.concatenate([RNG.integers(1, 1000, 100), 1000 * RNG.integers(1, 10, 60)])


def file_of(written, values):
    """Delimited text: a number, and the target."""
    return "".join(["n\ty\n", *(f"{v}\t{WRITTEN[written](v)}\n" for v in values)]).encode()


def read(data, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return read_mixed([data], cells=True, target_type=float, format="csv", **more)


some = st.lists(st.sampled_from(VALUES.tolist()), min_size=1, max_size=8)


@settings(deadline=None)
@given(st.sampled_from(sorted(WRITTEN)), some)
def test_some_rows_have_the_targets_that_they_have_among_all(written, values):
    learned = read(file_of(written, VALUES))
    np.testing.assert_allclose(learned.y, SHARE.get(written, 1.0) * VALUES)
    found = read(file_of(written, values), target_written=learned.target_written)
    np.testing.assert_allclose(found.y, SHARE.get(written, 1.0) * np.array(values))


@pytest.mark.parametrize("written", sorted(WRITTEN))
def test_parts_of_a_file_have_the_targets_of_the_whole(written):
    data = [file_of(written, VALUES)[i : i + 50] for i in range(0, 10**4, 50)]
    whole = read(b"".join(data))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        parts = [*mixed_parts(data, part=1000, target_type=float, format="csv")]
    assert len(parts) > 1
    np.testing.assert_array_equal(np.concatenate([part.y for part in parts]), whole.y)


def run(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


SAVED = {
    "csv": lambda table, path: table.to_csv(path, sep="\t", index=False),
    "parquet": lambda table, path: table.to_parquet(path),
    "jsonl": lambda table, path: table.to_json(path, orient="records", lines=True),
}


@pytest.mark.parametrize("written", ["thousands with points", "sizes"])
@pytest.mark.parametrize("ending", sorted(SAVED))
@pytest.mark.parametrize("estimator", ["auto", "ridge"])
def test_a_model_is_evaluated_in_the_units_that_it_has_learned(
    written, ending, estimator, tmp_path
):
    def save(values, name):
        table = pd.DataFrame({"n": values, "y": [*map(WRITTEN[written], values)]})
        SAVED[ending](table, tmp_path / name)
        return tmp_path / name

    train, model = save(VALUES, f"train.{ending}"), tmp_path / "model.tf"
    run("train", train, model, "--target", "y", "--estimator", estimator, "--task", "regression")
    for values in VALUES[:8], VALUES[-8:]:
        output = run("eval", model, save(values, f"new.{ending}")).output
        assert float(re.search(r"r2 +(\S+)", output)[1].replace(",", "")) > 0.99


def test_a_target_with_points_between_thousands_is_noted(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(file_of("thousands with points", VALUES))
    words = "points stand between thousands"
    for command in (["look", path], ["stream", path], ["train", path, tmp_path / "model.tf"]):
        output = " ".join(run(*command, "--target", "y").output.split())
        assert words in output
