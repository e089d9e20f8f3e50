"""How many files of the library a reader passes who follows one fit: a fit stays a short walk."""

import sys
from pathlib import Path

import numpy as np
import pytest

import tunefree

HOME = Path(tunefree.__file__).parent
# Most files a fit may enter, by estimator; all of them count, the bridge to kernels, the checks of
# parameters and the turns that threads take, too.
MOST = {
    "KernelPiSTOLClassifier": 20,  # its tiles, which threads would hide from the count
    "OptimisticPerceptron": 15,
    "PiSTOLClassifier": 16,
    # A family, the rounds that learn it, the team that sweeps, and the atoms of intervals.
    "ReflectronRegressor": 22,
}


def walked(run):
    """The files of the library whose Python functions are entered, as paths below its folder."""
    found = set()

    def note(frame, event, argument):
        code = frame.f_code
        if event == "call" and code.co_name != "<module>":
            found.add(code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    homes = (Path(name) for name in found)
    return sorted(str(p.relative_to(HOME)) for p in homes if p.is_relative_to(HOME))


@pytest.fixture
def rows():
    """Rows and labels of two classes, with noise."""
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 8))
    return X, (X[:, 0] + 0.3 * random.normal(size=400) > 0).astype(int)


@pytest.mark.parametrize("name", MOST)
def test_a_fit_is_a_short_walk(name, rows):
    """A compiled fit passes few files: a concept is in one place, and has one name."""
    estimator = getattr(tunefree, name)
    estimator().fit(*rows)  # compiles what is not
    files = walked(lambda: estimator().fit(*rows))
    assert len(files) <= MOST[name], files


def test_the_walk_sees_what_is_entered(rows):
    """The count cannot pass for want of seeing: the estimator's and the loop's files are in it."""
    files = walked(lambda: tunefree.PiSTOLClassifier(random_state=0).fit(*rows))
    assert {"estimators/pistol.py", "engine/run.py", "learners/pistol/linear.py"} <= set(files)
