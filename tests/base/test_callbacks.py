"""Scikit-learn's callbacks: what they see of a fit, may stop and never change."""

import io
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
import rich
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tunefree
from hidden import with_settings
from papers import baselines

callback = pytest.importorskip("sklearn.callback")
rng = np.random.default_rng(0)
X = rng.normal(size=(150, 4))
SIGNS = (X @ [1.0, -2.0, 0.5, 0.0] > 0.1).astype(int)
THREE = np.digitize(X[:, 0] - X[:, 1], [-0.5, 0.5])
REAL = X @ [1.0, -2.0, 0.5, 0.0] + rng.normal(size=150)
MEAN = 1.0 / (1.0 + np.exp(-REAL))
WEIGHTS = rng.integers(1, 4, size=150).astype(float)

# Estimators that show a model after every pass, and targets for them.
SHOWN = {
    "PiSTOL": (tunefree.PiSTOLClassifier(random_state=0), SIGNS),
    "PiSTOL, three classes": (tunefree.PiSTOLClassifier(random_state=0), THREE),
    "PiSTOL, one rule": (tunefree.PiSTOLClassifier("global", max_iter=4, random_state=0), SIGNS),
    "PiSTOL, regression": (tunefree.PiSTOLRegressor(random_state=0), REAL),
    "PiSTOL, Huber": (tunefree.PiSTOLRegressor(loss="huber", random_state=0), REAL),
    "PiSTOL, two targets": (tunefree.PiSTOLRegressor(random_state=0), np.c_[REAL, -REAL]),
    "SGD": (tunefree.RidgePathRegressor(solver="sgd", max_iter=5, random_state=0), REAL),
    "Reflectron": (tunefree.GLMClassifier(random_state=0), SIGNS),
    "Reflectron, mean": (tunefree.ReflectronRegressor("logit", random_state=0), MEAN),
    "Reflectron, last": (
        with_settings(
            tunefree.ReflectronRegressor,
            link="logit",
            potential="euclidean",
            validation_fraction=0,
            max_iter=30,
            random_state=0,
        ),
        MEAN,
    ),
}
# Estimators that tell of their passes or candidates.
COUNTED = SHOWN | {
    "Reflectron, stochastic": (
        tunefree.ReflectronClassifier(solver="stochastic", max_iter=8, random_state=0), SIGNS,
    ),
    "Optimistic Perceptron": (tunefree.OptimisticPerceptron(), SIGNS),
    "Perceptron, three classes": (tunefree.OptimisticPerceptron("auto", max_iter=40), THREE),
    "Classical Perceptron": (tunefree.perceptron.ClassicalPerceptron(max_iter=50), SIGNS),
    "kernel Perceptron with a proof": (
        tunefree.perceptron.KernelOptimisticPerceptron(max_iter=50),
        SIGNS,
    ),
    "trees": (tunefree.BoostedTreesClassifier(random_state=0), SIGNS),
    "trees, two targets": (tunefree.BoostedTreesRegressor(random_state=0), np.c_[REAL, -REAL]),
    "kernel PiSTOL": (tunefree.KernelPiSTOLClassifier(random_state=0), SIGNS),
    "kernel PiSTOL, regression": (tunefree.KernelPiSTOLRegressor(random_state=0), REAL),
    "kernel Perceptron": (baselines.KernelPerceptron(max_iter=3, random_state=0), SIGNS),
    "kernel SGD": (baselines.KernelAveragedSGDRegressor(max_iter=3, random_state=0), REAL),
    "TuneFree": (tunefree.TuneFreeClassifier(candidates=("linear",), random_state=0), SIGNS),
    "TuneFree, regression": (
        tunefree.TuneFreeRegressor(candidates=("linear",), random_state=0),
        REAL,
    ),
}  # fmt: skip
# Others tell of their beginning and end.
WHOLE = {
    "exact ridge": (tunefree.RidgePathRegressor(random_state=0), REAL),
    "landmarks": (tunefree.KernelRidgeClassifier(random_state=0), SIGNS),
    "shared": (tunefree.reflectron.SharedReflectron(random_state=0), np.c_[MEAN, 1.0 - MEAN]),
}
EVERY = COUNTED | WHOLE


class Log:
    """Notes what it is told, and stops or raises after some tasks."""

    def __init__(self, stop=np.inf, error=np.inf):
        self.stop, self.error = stop, error
        self.predictions, self.models, self.weights = [], [], None

    def setup(self, estimator, context):
        self.predictions.append("setup")

    def teardown(self, estimator, context):
        self.predictions.append("teardown")

    def on_fit_task_begin(self, estimator, context, *, X=None):
        self.predictions.append(("begin", context.task_name, context.task_id, context.max_subtasks))

    def on_fit_task_end(self, estimator, context, *, metadata=None, fitted_estimator=None):
        self.predictions.append(("end", context.task_name, context.task_id, context.max_subtasks))
        self.models.append(fitted_estimator)
        self.weights = metadata
        if len(self.ended()) >= self.error:
            raise RuntimeError("enough")
        return len(self.ended()) >= self.stop

    def ended(self):
        """Tasks below the fit that have ended."""
        return [s for s in self.predictions if s[0] == "end" and s[1] != "fit"]


def fit(name, *callbacks, **options):
    model, y = EVERY[name]
    model = clone(model)
    if callbacks:
        model.set_callbacks(*callbacks)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y, **options), y


def decisions(model):
    return getattr(model, "decision_function", model.predict)(X)


@pytest.mark.parametrize("name", EVERY)
def test_callbacks_change_nothing_and_hear_every_task_begin_and_end(name):
    log = Log()
    quiet, _ = fit(name, sample_weight=WEIGHTS) if "Classical" not in name else fit(name)
    told, _ = fit(name, log, sample_weight=WEIGHTS) if "Classical" not in name else fit(name, log)
    np.testing.assert_array_equal(decisions(quiet), decisions(told))
    assert log.predictions[0] == "setup" and log.predictions[-1] == "teardown"
    tasks = log.predictions[1:-1]
    assert tasks[0][:2] == ("begin", "fit") and tasks[-1][:2] == ("end", "fit")
    begun, ended = tasks[1:-1:2], tasks[2:-1:2]
    assert [t[1:3] for t in begun] == [t[1:3] for t in ended]
    assert len(ended) <= tasks[0][3] and (len(ended) > 0) == (name in COUNTED)
    # Nothing of it stays behind.
    assert set(vars(told)) - set(vars(quiet)) == {"_skl_callbacks"}
    if "Classical" not in name:
        assert log.weights["sample_weight"] is WEIGHTS


@pytest.mark.parametrize("name", SHOWN)
def test_scores_of_every_pass_end_with_that_of_the_model(name):
    scoring = "accuracy" if is_classifier(EVERY[name][0]) else "r2"
    monitor = callback.ScoringMonitor(scoring=scoring)
    model, y = fit(name, monitor)
    rows = monitor.get_logs().data
    (whole,) = [r[scoring] for r in rows if r["task_name"] == "fit"]
    scores = [r[scoring] for r in rows if r["task_name"] == "pass"]
    assert len(scores) == model.n_iter_
    assert whole == scores[-1] == model.score(X, y)
    assert len(set(scores)) > 1


@pytest.mark.parametrize("name", SHOWN)
def test_the_model_shown_after_a_pass_is_what_a_stop_there_leaves(name):
    stopped, _ = fit(name, Log(stop=2))
    log = Log()
    fit(name, log)
    shown = log.models[1]
    assert stopped.n_iter_ == 2
    np.testing.assert_array_equal(decisions(stopped), decisions(shown))
    assert decisions(shown).any()


@pytest.mark.parametrize("name", COUNTED)
def test_a_stop_leaves_a_usable_model(name):
    log = Log(stop=1)
    model, y = fit(name, log)
    assert np.isfinite(decisions(model)).all() and np.isfinite(model.score(X, y))
    # Classes are separated one after another; a race is followed by a last fit.
    assert len(log.ended()) <= 4
    pickle.loads(pickle.dumps(clone(model).set_callbacks()))


@pytest.mark.parametrize("name", COUNTED)
def test_an_error_in_a_callback_leaves_the_model_as_it_was(name):
    model, y = fit(name)
    before, log = vars(model).copy(), Log(error=1)
    model.set_callbacks(log)
    with pytest.raises(RuntimeError, match="enough"):
        model.fit(X[:100], y[:100])
    assert log.predictions[-1] == "teardown"
    assert {n: id(v) for n, v in vars(model.set_callbacks()).items()} == {
        n: id(v) for n, v in before.items()
    }


def test_many_passes_are_told_of_in_groups(monkeypatch):
    monkeypatch.setattr("tunefree.base.progress._MOST_TASKS", 10)
    log = Log()
    model = tunefree.RidgePathRegressor(solver="sgd", max_iter=25, random_state=0)
    model.set_callbacks(log).fit(X[:5], REAL[:5])
    assert model.n_iter_ == 25 and len(log.ended()) == 9  # threes, and what is left


def test_estimators_on_a_cluster_have_no_callbacks():
    on_cluster = pytest.importorskip("tunefree.dask")
    assert not hasattr(on_cluster.DaskGLMClassifier(), "set_callbacks")


def test_progress_bar_counts_passes(monkeypatch):
    text = io.StringIO()
    monkeypatch.setattr(rich, "_console", rich.console.Console(file=text, width=100))
    fit("PiSTOL", callback.ProgressBar())
    assert "PiSTOLClassifier - fit" in text.getvalue() and "100%" in text.getvalue()


def test_grid_search_passes_callbacks_on(monkeypatch):
    text = io.StringIO()
    monkeypatch.setattr(rich, "_console", rich.console.Console(file=text, width=200))
    model = make_pipeline(StandardScaler(), tunefree.PiSTOLClassifier(max_iter=2, random_state=0))
    search = GridSearchCV(model, {"pistolclassifier__average": ["last", "uniform"]}, cv=2)
    bar = callback.ProgressBar(max_propagation_depth=None)
    search.set_callbacks(bar).fit(X, SIGNS)
    assert "PiSTOLClassifier - fit" in text.getvalue()
    assert not hasattr(search.best_estimator_[-1], "_skl_callbacks")
    monitor = callback.ScoringMonitor(scoring="accuracy")
    model = tunefree.PiSTOLClassifier(max_iter=2, random_state=0).set_callbacks(monitor)
    GridSearchCV(model, {"average": ["last", "uniform"]}, cv=2).fit(X, SIGNS)
    rows = monitor.get_logs().data
    assert sum(r["task_name"] == "pass" for r in rows) == 2 * (2 * 2 + 1)


def test_scikit_learn_without_callbacks():
    code = (
        "import sys, numpy as np, sklearn.pipeline, sklearn.model_selection, sklearn.linear_model\n"
        "for name in [n for n in sys.modules if n.startswith('sklearn.callback')]:\n"
        "    sys.modules[name] = None\n"
        "import tunefree\n"
        "model = tunefree.perceptron.ClassicalPerceptron(fit_intercept=False)\n"
        "assert not hasattr(model, 'set_callbacks')\n"
        "print(model.fit(np.array([[1.0], [-1.0]]), [0, 1]).separated_)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "True", done.stderr
