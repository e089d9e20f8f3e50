"""Warnings name the user's line, however deep they arise."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tunefree import (
    KernelPiSTOLClassifier,
    OptimisticPerceptron,
    PiSTOLRegressor,
    TablePreprocessor,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = RNG.integers(0, 2, 40)


def dropped_column():
    names = [f"n{i}" for i in range(100)]
    X = np.array([["a", "b"] * 50, names], dtype=object).T
    TablePreprocessor().fit(X)


def new_stream():
    model = KernelPiSTOLClassifier().fit(X, Y)
    model.partial_fit(X, Y)


CALLS = {
    "perceptron": lambda: OptimisticPerceptron(max_iter=2).fit(X, Y),
    "in a pipeline": lambda: make_pipeline(StandardScaler(), OptimisticPerceptron(max_iter=2)).fit(
        X, Y
    ),
    "intervals": lambda: PiSTOLRegressor().fit(X, X[:, 0]).predict_interval(X, alpha=0.001),
    "a dropped column": dropped_column,
    "a new stream": new_stream,
}


@pytest.mark.parametrize("name", CALLS)
def test_warnings_name_the_users_line(name):
    with pytest.warns(UserWarning) as found:
        CALLS[name]()
    assert {warning.filename for warning in found} == {__file__}
