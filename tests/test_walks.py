"""The walks that the report of the house counts see what is entered, and what climbs."""

import numpy as np

import tunefree
from walks import HOME, floor_of, floors, walk


def test_the_walk_sees_what_is_entered():
    """The estimator's and the loop's files are in it."""
    X = np.random.default_rng(0).normal(size=(400, 8))
    y = (X[:, 0] > 0).astype(int)
    files = walk(lambda: tunefree.PiSTOLClassifier(random_state=0).fit(X, y)).files
    assert {"pistol/classifier.py", "engine/run.py", "pistol/linear.py"} <= set(files)


def test_the_walk_sees_climbs():
    """A function of a loss that calls one of an estimator is a climb; the way down is none."""
    made = {}
    exec(compile("def low(f): f()", str(HOME / "parts" / "losses.py"), "exec"), made)
    exec(compile("def high(f): f()", str(HOME / "base" / "base.py"), "exec"), made)
    low, high = made["low"], made["high"]
    assert walk(lambda: low(lambda: high(int))).climbs == [
        "tunefree.parts.losses: low -> tunefree.base.base: high"
    ]
    assert walk(lambda: high(lambda: low(int))).climbs == []


def test_floors_are_those_of_the_import_contract():
    table = floors()
    levels = [
        floor_of(f"tunefree.{name}", table) for name in ("parts.losses", "engine.run", "cli.train")
    ]
    assert levels == sorted(set(levels))
    assert floor_of("tunefree", table) is None
