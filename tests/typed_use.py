"""What a type checker knows of the public names: read by it (test_house), never run."""

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
