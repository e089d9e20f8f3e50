"""An option that has no effect on a file is refused by every command, not ignored."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from tunefree import open_source
from tunefree.cli import app
from tunefree.files import read

RNG = np.random.default_rng(3)
ROWS = [(round(a, 2), round(2.0 * a + e, 2)) for a, e in RNG.normal(size=(40, 2))]
OF_LIBSVM = {"target": "1", "drop": "1", "weights": "1"}
OPTIONS = {"sheet": "x", "delimiter": ";", "header": None}
# For each file the options that have an effect on it, of those above.
FILES = {"t.csv": {"delimiter", "header"}, "t.jsonl": set(), "t.json": set(), "t.svm": set()}
COMMANDS = {
    "look": ("look", "{data}"),
    "train": ("train", "{data}", "new"),
    "predict": ("predict", "{model}", "{data}"),
    "eval": ("eval", "{model}", "{data}"),
    "stream": ("stream", "{data}"),
    "drift": ("drift", "{model}", "{data}"),
}


def arguments(command, data, model="m"):
    return [word.format(data=data, model=model) for word in COMMANDS[command]]


def run(*arguments, stdin=None):
    return CliRunner().invoke(app, [str(a) for a in arguments], input=stdin)


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    folder = tmp_path_factory.mktemp("options")
    records = [{"a": a, "y": y} for a, y in ROWS]
    (folder / "t.csv").write_text("a,y\n" + "".join(f"{a},{y}\n" for a, y in ROWS))
    (folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in records))
    (folder / "t.json").write_text(json.dumps(records))
    (folder / "t.svm").write_text("".join(f"{y} 1:{a}\n" for a, y in ROWS))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run("train", "t.csv", "m", "--estimator", "ridge").exit_code == 0
        assert run("train", "t.svm", "of libsvm", "--estimator", "ridge").exit_code == 0
        yield folder


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("data", FILES)
@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_without_effect_is_refused(here, command, data, option):
    if option in FILES[data]:
        return
    flag = [f"--{option}", *filter(None, [OPTIONS[option]])]
    found = run(*arguments(command, data), *flag)
    assert found.exit_code == 2, found.output
    assert f"--{option}" in found.stderr and ("libsvm" in found.stderr or data in found.stderr)


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_without_effect_on_a_pipe_is_refused(here, option):
    flag = [f"--{option}", *filter(None, [OPTIONS[option]])]
    found = run("predict", "m", "-", *flag, stdin='{"a": 1.5}\n')
    assert found.exit_code == 2 and "<stdin> is jsonl" in found.stderr


@pytest.mark.parametrize("command", ["look", "train", "eval"])
@pytest.mark.parametrize("option", OF_LIBSVM)
def test_libsvm_has_no_columns_to_choose(here, command, option):
    if (command, option) in [("look", "weights"), ("eval", "drop")]:
        return
    found = run(*arguments(command, "t.svm", "of libsvm"), f"--{option}", OF_LIBSVM[option])
    assert found.exit_code == 2 and "t.svm is libsvm" in found.stderr, found.output


@pytest.mark.parametrize("reader", [read, open_source], ids=["read", "open_source"])
def test_python_refuses_them_too(here, reader):
    with pytest.raises(ValueError, match="sheet= is for workbooks, but t.csv is csv"):
        reader("t.csv", sheet="x")
    with pytest.raises(ValueError, match="delimiter= is for csv, but t.jsonl is jsonl"):
        reader("t.jsonl", delimiter=";")
    with pytest.raises(ValueError, match="target= is for csv and other tables, but t.svm is"):
        reader("t.svm", target="y")
    assert reader("t.svm", target=False, drop=()) is not None
