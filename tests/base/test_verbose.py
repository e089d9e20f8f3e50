"""`verbose=True` prints the progress of a fit and changes nothing else."""

import numpy as np
import pytest

from tunefree.core.registry import estimator_classes

STEMS = ["TuneFree", "BoostedTrees", "PiSTOL", "GLM", "KernelPiSTOL", "KernelRidge"]
rng = np.random.default_rng(0)
X = rng.normal(size=(120, 3))
y = X[:, 0] ** 2 + 0.1 * rng.normal(size=120)


@pytest.mark.filterwarnings("ignore::tunefree.DataWarning")
@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
@pytest.mark.parametrize("stem", STEMS)
def test_progress_is_printed_on_stderr_and_changes_no_bit(stem, kind, capsys):
    cls, targets = estimator_classes()[stem + kind], y if kind == "Regressor" else y > 1.0
    quiet = cls(random_state=0).fit(X, targets)
    assert capsys.readouterr() == ("", "")
    loud = cls(random_state=0, verbose=True).fit(X, targets)
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") >= 1
    assert all(line.startswith(f"{stem}{kind}: ") for line in err.splitlines())
    assert "fitted" in err.splitlines()[-1]
    assert quiet.predict(X).tobytes() == loud.predict(X).tobytes()


@pytest.mark.filterwarnings("ignore::tunefree.DataWarning")
def test_candidates_and_passes_are_printed(capsys):
    classes = estimator_classes()
    classes["TuneFreeRegressor"](("linear",), random_state=0, verbose=True).fit(X, y)
    assert "held-out loss" in capsys.readouterr().err
    classes["PiSTOLRegressor"](random_state=0, verbose=True).fit(X, y)
    lines = capsys.readouterr().err.splitlines()
    assert ["pass 1 of", "pass 2 of", "pass 4 of"] == [
        line.split(": ")[1][:9] for line in lines[:3]
    ]


def test_callbacks_see_the_same_events(capsys):
    callback = pytest.importorskip("sklearn.callback")
    cls = estimator_classes()["PiSTOLRegressor"]

    def logged(verbose):
        monitor = callback.ScoringMonitor(scoring="r2")
        cls(random_state=0, verbose=verbose).set_callbacks(monitor).fit(X, y)
        return np.asarray(monitor.get_logs().data_as_pandas.iloc[:, -1])

    assert np.array_equal(logged(False), logged(True))
    assert "pass 1 of" in capsys.readouterr().err
