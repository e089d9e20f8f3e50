"""What a type checker knows of the public names: read by it (test_house), never run."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from typing import assert_type

import numpy as np

import tunefree
from tunefree import PiSTOLRegressor, TuneFreeClassifier

X, y = np.zeros((2, 1)), np.array([0, 1])


def test_estimators_keep_their_class():
    assert_type(TuneFreeClassifier().fit(X, y), TuneFreeClassifier)
    assert_type(PiSTOLRegressor().partial_fit(X, y), PiSTOLRegressor)
    assert_type(tunefree.OptimisticPerceptron().fit(X, y), tunefree.OptimisticPerceptron)


def test_predictions_are_arrays():
    assert_type(TuneFreeClassifier().fit(X, y).predict_proba(X), np.ndarray)
    assert_type(PiSTOLRegressor().fit(X, y).predict(X), np.ndarray)


def test_choices_are_names_or_parts():
    """A misspelt name is an error: without one, its comment would be one."""
    tunefree.GLMRegressor(family="poisson", link="log", potential="hypentropy")
    tunefree.GLMRegressor(family="lin")  # pyright: ignore[reportArgumentType]
    tunefree.GLMClassifier(family="poisson")  # pyright: ignore[reportArgumentType]
    tunefree.GLMClassifier(link="logistic")  # pyright: ignore[reportArgumentType]
    tunefree.BoostedTreesRegressor(loss="median")  # pyright: ignore[reportArgumentType]
    PiSTOLRegressor(loss="hinge")  # pyright: ignore[reportArgumentType]
    tunefree.KernelRidgeClassifier("gaussian")  # pyright: ignore[reportArgumentType]
    TuneFreeClassifier(("trees", "forests"))  # pyright: ignore[reportArgumentType]
    tunefree.RidgePathRegressor(solver="lbfgs")  # pyright: ignore[reportArgumentType]


def test_a_loaded_model_is_a_model():
    model = tunefree.load_model("model")
    assert_type(model.predict(X), np.ndarray)
    assert_type(model.score(X, y), float)
    model.predict(X, X, X)  # pyright: ignore[reportCallIssue]
    if isinstance(model, TuneFreeClassifier):
        assert_type(model.predict_proba(X), np.ndarray)
