"""Every command of the README runs on files of the names that it uses."""

import gzip
import re
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tunefree.cli import app

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
COMMANDS = re.findall(r"^    (tunefree .+?)(?: +#.*)?$", TEXT, re.MULTILINE)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    area, months = rng.normal(size=150), rng.integers(1, 13, 150)
    rows = [f"{a:.3f},{rng.choice(['north', 'south'])},{2 * a:.3f}\n" for a in area]
    header = "area,place,price\n"
    for name in ("data.csv.gz", "test.csv.gz"):
        with gzip.open(name, "wt") as file:
            file.write(header + "".join(rows))
    with gzip.open("new.csv.gz", "wt") as file:
        file.write(header + "".join(rows[:20]))
    counts = zip(area, months, rng.poisson(months * np.exp(area / 2 - 1)), strict=True)
    claims = "".join(f"{a:.3f},{m},{n}\n" for a, m, n in counts)
    Path("claims.csv").write_text("area,months,claims\n" + claims)
    with gzip.open("big.libsvm.gz", "wt") as file:
        file.writelines(
            f"{1 if a > 0 else -1} 1:{a:.3f} 2:{m}\n" for a, m in zip(area, months, strict=True)
        )


def test_the_commands_run_from_top_to_bottom(files):
    assert len(COMMANDS) >= 5
    for command in COMMANDS:
        result = CliRunner().invoke(app, shlex.split(command)[1:])
        assert result.exit_code == 0, f"{command}\n{result.output}"


def test_the_installs_name_extras_that_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = set(re.findall(r"pip install (?:-e )?'\.\[(\w+)\]'", TEXT))
    assert extras and extras <= set(project["optional-dependencies"])


def test_it_is_short():
    assert len(TEXT.splitlines()) <= 150
