"""Classes are the same in any format, and however a file spells truth values."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import tunefree
from tunefree.cli import app

N = 60
RNG = np.random.default_rng(0)
X = pd.DataFrame({"a": RNG.normal(size=N).round(3), "b": RNG.integers(0, 5, N)})
IS_ONE = (X.a + 0.3 * RNG.normal(size=N) > 0).to_numpy()
LABELS = {
    "truth values": IS_ONE,
    "missing truth values": np.where(np.arange(N) % 9 == 0, None, IS_ONE),
    "0 and 1": IS_ONE.astype(int),
    "floats": IS_ONE.astype(float),
    "blanks around words": np.where(IS_ONE, " Ja", "nein "),
    "zeros in front": np.where(IS_ONE, "007", "010"),
    "percents": np.where(IS_ONE, "50%", "10%"),
    "signs": np.where(IS_ONE, "+", "-"),
}
FORMATS = {
    "csv": lambda table, path: table.to_csv(path, index=False),
    "tsv": lambda table, path: table.to_csv(path, index=False, sep="\t"),
    "jsonl": lambda table, path: table.to_json(path, orient="records", lines=True),
    "parquet": lambda table, path: table.to_parquet(path),
}


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, (result.exit_code, result.output, result.exception)
    return result


def saved(y, folder):
    """The table in every format."""
    paths = [folder / f"data.{name}" for name in FORMATS]
    for path, save in zip(paths, FORMATS.values(), strict=True):
        save(X.assign(y=y), path)
    return paths


@pytest.mark.parametrize("kind", sorted(LABELS))
@pytest.mark.parametrize("command", ["train", "stream"])
def test_labels_are_the_same_in_every_format(command, kind, tmp_path):
    answers = set()
    paths = saved(LABELS[kind], tmp_path)
    for trained in paths:
        model = tmp_path / f"{trained.suffix}.model"
        how = "--target", "y", "--task", "classification"
        if command == "train":
            run("train", trained, model, *how, "--estimator", "glm")
        else:
            run("stream", trained, "--model", model, *how)
        for path in paths:
            answers.add((run("predict", model, path).stdout, run("eval", model, path).stdout))
    assert len(answers) == 1


@pytest.mark.parametrize("spelling", ["True False", "TRUE FALSE", "true false", "1 0"])
def test_truth_values_are_compared_in_any_spelling(spelling, tmp_path):
    is_true, is_false = spelling.split()
    path, model = tmp_path / "new.csv", tmp_path / "a.model"
    X.assign(y=np.where(IS_ONE, is_true, is_false)).to_csv(path, index=False)
    errors = set()
    for y in IS_ONE, IS_ONE.astype(str):
        tunefree.save_model(tunefree.GLMClassifier(random_state=0).fit(X, y), model)
        errors.add(run("eval", model, path).stdout)
        assert "0" in run("compare", model, model, path).stdout
    assert len(errors) == 1


def test_another_column_as_the_target_is_refused_by_every_comparison(tmp_path):
    path, model = tmp_path / "new.csv", tmp_path / "a.model"
    X.assign(y=np.where(IS_ONE, "yes", "no"), other="red").to_csv(path, index=False)
    run("train", path, model, "--target", "y", "--drop", "other", "--estimator", "glm")
    for command in (["eval", model], ["compare", model, model]):
        output = run(*command, path, "--target", "other", code=3).output
        assert "is another column the target?" in " ".join(output.split())
