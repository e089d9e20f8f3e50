"""The walks that the report of the house counts see what is entered, and what climbs."""

import numpy as np

import tunefree
from walks import HOME, floor_of, floors, walk


def test_the_walk_sees_what_is_entered():
    """The estimator's and the loop's files are in it."""
    X = np.random.default_rng(0).normal(size=(400, 8))
    y = (X[:, 0] > 0).astype(int)
    files = walk(lambda: tunefree.PiSTOLClassifier(random_state=0).fit(X, y)).files
    assert {"estimators/pistol.py", "engine/run.py", "learners/pistol/linear.py"} <= set(files)


def test_the_walk_sees_climbs():
    """A function of a loss that calls one of an estimator is a climb; the way down is none."""
    made = {}
    exec(compile("def low(f): f()", str(HOME / "losses.py"), "exec"), made)
    exec(compile("def high(f): f()", str(HOME / "estimators" / "base.py"), "exec"), made)
    low, high = made["low"], made["high"]
    assert walk(lambda: low(lambda: high(int))).climbs == [
        "tunefree.losses: low -> tunefree.estimators.base: high"
    ]
    assert walk(lambda: high(lambda: low(int))).climbs == []


def test_floors_are_those_of_the_import_contract():
    table = floors()
    levels = [floor_of(f"tunefree.{name}", table) for name in ("losses", "engine.run", "cli.train")]
    assert levels == sorted(set(levels))
    assert floor_of("tunefree", table) is None
