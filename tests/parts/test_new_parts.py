"""A new part is one new file: laws, estimators, the command line and the export follow.

A package outside the library brings a link, a potential, an averaging scheme, a loss and a kernel,
a file each; CONTRIBUTING shows these files. Nothing else knows of them.
"""

import importlib.util
import itertools
import json
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tunefree import ReflectronRegressor
from tunefree.cli import app
from tunefree.core import parts
from tunefree.onnx import to_onnx
from tunefree.parts.links import LINKS

ROOT = Path(__file__).resolve().parents[2]
NAMES = "cauchit", "hyperbolic", "quadratic", "hyperbola", "rational"


# The laws of these kinds compile nothing.
PLAIN = [("links", "cauchit"), ("potentials", "hyperbolic"), ("averages", "quadratic"),
         ("kernel_parts", "rational")]  # fmt: skip
COMPILED = [("losses", "hyperbola"), ("averaging_schemes", "quadratic")]


def _files():
    """The files of CONTRIBUTING by name."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    files = dict(re.findall(r"```python\n# (\w+)\.py\n(.*?)```", text, flags=re.DOTALL))
    assert sorted(files) == sorted(NAMES)
    return files


@pytest.fixture
def tables():
    """The tables of parts, which are what they were after the test."""
    before = [dict(table) for table in parts._TABLES]
    yield
    for table, those in zip(parts._TABLES, before, strict=True):
        table.clear()
        table.update(those)


@pytest.fixture
def entered(tables, monkeypatch):
    """The files of CONTRIBUTING, imported."""
    for name, source in _files().items():
        module = types.ModuleType(f"newparts_{name}")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(compile(source, f"{name}.py", "exec"), vars(module))


def laws_that_hold(law, names):
    """Call the tests of a file with each case that has one of some names; the cases' texts."""
    (file,) = (ROOT / "tests").rglob(f"test_{law}.py")
    spec = importlib.util.spec_from_file_location(f"{law}_again", file)
    spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    passed = []
    for test in list(vars(module).values()):
        marks = [m.args for m in getattr(test, "pytestmark", ()) if m.name == "parametrize"]
        for case in itertools.product(*(values for _, values in marks)):
            if marks and any(name in str(case).lower() for name in names):
                given = {}
                for (arguments, _), value in zip(marks, case, strict=True):
                    several = [name.strip() for name in arguments.split(",")]
                    given |= zip(several, value if len(several) > 1 else [value], strict=True)
                test(**given)
                passed.append(f"{test.__name__}{case}".lower())
    return passed


@pytest.mark.parametrize("law, name", PLAIN)
def test_laws_hold_for_them_in_the_process_that_imports_them(entered, law, name):
    assert len(laws_that_hold(law, [name])) > (3 if law != "kernel_parts" else 0)


def test_a_wrong_part_breaks_a_law(tables):
    wrong = _files()["cauchit"].replace("return 1.0 / np.pi", "return 0.9 / np.pi")
    exec(wrong, {"__name__": "wrong"})
    with pytest.raises(AssertionError):
        laws_that_hold("links", ["cauchit"])


def test_a_model_the_export_and_the_command_line_take_their_names(entered, tmp_path):
    X = np.random.default_rng(0).normal(size=(80, 3))
    share = np.arctan(X[:, 0]) / np.pi + 0.5
    glm, part = (
        ReflectronRegressor(link, potential="hyperbolic", random_state=0).fit(X, share)
        for link in ("cauchit", LINKS["cauchit"])
    )
    assert glm.score(X, share) > 0.95 and np.array_equal(glm.coef_, part.coef_)
    with pytest.raises(ValueError, match="(?i)cauchit"):
        to_onnx(glm)
    np.savetxt(tmp_path / "rows.csv", np.c_[X, share], delimiter=",")
    train = ["train", str(tmp_path / "rows.csv"), str(tmp_path / "m"), "--estimator", "reflectron",
             "--task", "regression", "--potential", "hyperbolic", "--link"]  # fmt: skip
    done = CliRunner().invoke(app, [*train, "cauchit"])
    assert done.exit_code == 0, done.stderr
    done = CliRunner().invoke(app, [*train, "cauchy"])
    assert done.exit_code == 2 and "cauchit" in done.stderr


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The files of CONTRIBUTING as an installed package, found by its entry point."""
    site, files = tmp_path_factory.mktemp("site"), _files()
    (site / "newparts").mkdir()
    for name, source in files.items():
        (site / "newparts" / f"{name}.py").write_text(source)
    imports = "".join(f"import newparts.{name}\n" for name in NAMES)
    (site / "newparts" / "__init__.py").write_text(imports)
    info = site / "newparts-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: newparts\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tunefree]\nnewparts = newparts\n")
    return site


def _python(package, *arguments, **more):
    path = os.pathsep.join([str(package), str(ROOT / "src")])
    environment = os.environ | {"PYTHONPATH": path} | more
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, cwd=ROOT
    )


def test_the_laws_hold_for_them(package):
    done = _python(
        package, "-m", "pytest", "-p", "newparts", "-p", "no:xdist", "-q", "-rA",
        "-k", " or ".join([*NAMES, "Hyperbolic", "Quadratic", "Hyperbola"]),
        *(str(path) for law, _ in COMPILED for path in (ROOT / "tests").rglob(f"test_{law}.py")),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    passed = [line for line in done.stdout.splitlines() if line.startswith("PASSED")]
    for law, name in COMPILED:  # each is in its table's laws
        assert any(f"test_{law}.py" in line and name in line.lower() for line in passed), (
            done.stdout
        )


PROGRAM = """
import json
import numpy as np
from tunefree import *
from tunefree.parts.averaging import AVERAGES
from tunefree.parts.links import LINKS
from tunefree.onnx import to_onnx

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 4))
share = 0.5 + np.arctan(X[:, 0] - X[:, 1]) / np.pi
y = (X[:, 0] > X[:, 1]).astype(int)
glm = ReflectronRegressor("cauchit", potential="hyperbolic", random_state=0).fit(X, share)
part = ReflectronRegressor(LINKS["cauchit"], potential="hyperbolic", random_state=0).fit(X, share)
stream = ReflectronRegressor("cauchit", average="quadratic").partial_fit(X, share)
linear = PiSTOLClassifier(loss="hyperbola", setting="global", random_state=0).fit(X, y)
kernel = KernelPiSTOLClassifier("rational", gamma=0.3, random_state=0).fit(X, y)
try:
    form = to_onnx(glm).graph.node[-1].op_type
except ValueError as refusal:
    form = str(refusal)
print(json.dumps({
    "glm": glm.score(X, share), "same": bool((glm.coef_ == part.coef_).all()),
    "stream": stream.score(X, share), "linear": linear.score(X, y),
    "kernel": kernel.score(X, y), "form": form,
}))
"""


def test_estimators_and_the_export_take_their_names(package):
    done = _python(package, "-c", PROGRAM)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["glm"] > 0.95 and found["stream"] > 0.9
    assert found["linear"] > 0.9 and found["kernel"] > 0.9
    assert found["same"]
    assert "cauchit" in found["form"].lower()  # a sentence that it has no form


def test_the_command_line_takes_their_names(package, tmp_path):
    X = np.random.default_rng(0).normal(size=(80, 3))
    np.savetxt(tmp_path / "rows.csv", np.c_[X, np.arctan(X[:, 0]) / 4 + 0.5], delimiter=",")
    train = ["-m", "tunefree", "train", str(tmp_path / "rows.csv"), str(tmp_path / "m"),
             "--estimator", "reflectron", "--task", "regression"]  # fmt: skip
    done = _python(package, *train, "--link", "cauchit", "--potential", "hyperbolic")
    assert done.returncode == 0, done.stderr
    done = _python(package, *train, "--link", "cauchy")
    assert done.returncode == 2 and "cauchit" in done.stderr
