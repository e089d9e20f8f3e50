"""How far a reader goes who follows one fit: few files, and hardly ever back up to a caller."""

import numpy as np
import pytest
from typer.testing import CliRunner

import tunefree
from tunefree._registry import estimator_class
from walks import HOME, floor_of, floors, long_functions, walk

# Most files and most climbs of a fit. They only fall: who shortens a walk lowers its line.
MOST = {
    "PiSTOLClassifier": (15, 0),
    "KernelPiSTOLClassifier": (18, 0),
    "KernelRidgeRegressor": (17, 0),
    "ReflectronRegressor": (16, 0),
    "RidgePathRegressor": (13, 0),
    "OptimisticPerceptron": (12, 0),
    "StreamClassifier.learn_one": (3, 0),
    "BoostedTreesClassifier": (12, 1),
    "DynamicsReflectron": (15, 0),
    "TuneFreeClassifier": (32, 1),
    "train --checkpoint": (29, 3),
}
# Functions of a walk with more than 60 code lines; none joins them.
LONG = {"_scan_diagonal", "recursion", "scan_number"}


@pytest.fixture(scope="module")
def rows():
    """Rows and labels of two classes, with noise."""
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 8))
    return X, (X[:, 0] + 0.3 * random.normal(size=400) > 0).astype(int)


def prepared(name, rows, folder):
    """A function that runs a fit, and may run twice."""
    X, y = rows
    if name == "train --checkpoint":
        return trained(X, y, folder)
    if name == "StreamClassifier.learn_one":
        dicts = [dict(zip("abcdefgh", row, strict=True)) for row in X.tolist()]
        model = tunefree.StreamClassifier()
        for x, label in zip(dicts, y, strict=True):
            model.learn_one(x, label)
        return lambda: model.learn_one(dicts[0], y[0])
    if name == "DynamicsReflectron":
        paths = np.cumsum(0.3 * np.random.default_rng(1).normal(size=(12, 6, 5)), axis=1)
        return lambda: tunefree.dynamics.DynamicsReflectron().fit(paths)
    estimator = estimator_class(name)
    return lambda: estimator().fit(X, y)


def trained(X, y, folder):
    """`tunefree train` of a csv file, with a checkpoint."""
    from tunefree.cli import app

    np.savetxt(folder / "rows.csv", np.column_stack([X, y]), delimiter=",")
    paths = [str(folder / name) for name in ("rows.csv", "model", "state")]
    command = ["train", *paths[:2], "--estimator", "pistol", "--checkpoint", paths[2]]

    def run():
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output

    return run


@pytest.fixture(scope="module", params=MOST)
def walked(request, rows, tmp_path_factory):
    """A fit's name, and what its second run entered: the first compiles what is not."""
    run = prepared(request.param, rows, tmp_path_factory.mktemp("walk"))
    run()
    return request.param, walk(run)


@pytest.mark.filterwarnings("ignore")
def test_a_fit_is_a_short_walk(walked):
    name, found = walked
    assert len(found.files) <= MOST[name][0], found.files


@pytest.mark.filterwarnings("ignore")
def test_a_fit_hardly_climbs(walked):
    name, found = walked
    assert len(found.climbs) <= MOST[name][1], found.climbs


@pytest.mark.filterwarnings("ignore")
def test_no_function_on_the_way_is_long(walked):
    assert long_functions(walked[1].functions).keys() <= LONG


def test_the_walk_sees_what_is_entered(rows):
    """The count cannot pass for want of seeing: the estimator's and the loop's files are in it."""
    files = walk(lambda: tunefree.PiSTOLClassifier(random_state=0).fit(*rows)).files
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
