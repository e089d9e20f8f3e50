"""Names of columns that are no text: every estimator fits and predicts by position."""

import numpy as np
import pandas as pd
import pytest

import tunefree as tf

NAMES = {
    "numbers": pd.Index([0, 1, 2]),
    "years": pd.Index([2019, 2020, 2021]),
    "pairs": pd.MultiIndex.from_tuples([("a", "x"), ("a", "y"), ("b", "x")]),
    "dates": pd.date_range("2020-01-01", periods=3),
}
TABLES = [
    tf.TuneFreeRegressor,
    tf.BoostedTreesRegressor,
    tf.GLMRegressor,
    tf.StreamRegressor,
    tf.BoostedTreesClassifier,
    tf.GLMClassifier,
    tf.StreamClassifier,
]


def table(n=60):
    rng = np.random.default_rng(0)
    city = rng.choice(["Oslo", "Rome"], n)
    frame = pd.DataFrame({"size": rng.normal(size=n), "city": city, "age": rng.normal(size=n)})
    return frame, frame["size"] + (city == "Rome") + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("make", TABLES)
def test_columns_may_have_names_that_are_no_text(make, names):
    X, y = table()
    y = y > 0.5 if make.__name__.endswith("Classifier") else y
    model = make()
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    expected = model.fit(X, y).predict(X)
    X = X.set_axis(NAMES[names], axis=1)
    np.testing.assert_array_equal(model.fit(X, y).predict(X), expected)
