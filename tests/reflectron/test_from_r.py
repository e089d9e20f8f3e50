"""Every line of the page "From R and statsmodels" runs as it stands."""

import re
import warnings
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "from_r.md").read_text()
SETUP = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]
LINES = re.findall(r"^\| ([^|]+) \| `[^|]+` \| `([^|]+)` \|$", PAGE, re.MULTILINE)


@pytest.fixture(scope="module")
def names():
    pytest.importorskip("formulaic")
    names = {}
    exec(SETUP, names)
    return names


def test_there_are_thirty_jobs():
    assert len(LINES) >= 30


@pytest.mark.parametrize("line", [line for _, line in LINES], ids=[job for job, _ in LINES])
def test_a_line_runs(line, names):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert eval(line, dict(names)) is not None
