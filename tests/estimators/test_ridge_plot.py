"""The display of a regularization path draws what the estimator holds."""

import numpy as np
import pytest

from tunefree.estimators.ridge import RidgePathRegressor
from tunefree.plots import RidgePathDisplay

pyplot = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def no_window():
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


@pytest.mark.parametrize("solver", ["sgd", "exact"])
def test_the_path_the_scores_and_the_chosen_point(solver):
    rng = np.random.default_rng(0)
    X, alphas = rng.normal(size=(60, 4)), np.logspace(2, -2, 5)
    y = X @ rng.normal(size=(4, 2)) + rng.normal(size=(60, 2))
    model = RidgePathRegressor("geometric", solver=solver, alphas=alphas, random_state=0)
    display = RidgePathDisplay.from_estimator(model.fit(X, y))
    assert len(display.lines_) == 8
    np.testing.assert_array_equal(display.lines_[5].get_ydata(), model.coefs_[:, 1, 1])
    np.testing.assert_array_equal(display.scores_.get_ydata(), model.validation_scores_)
    assert display.chosen_.get_xdata()[0] == model.alpha_
    ax = pyplot.figure().add_subplot()
    few = RidgePathDisplay.from_estimator(model, ax=ax, most=3)
    assert len(few.lines_) == 3 and few.ax_ is ax


def test_an_average_without_penalty_marks_no_point():
    X = np.random.default_rng(0).normal(size=(50, 2))
    model = RidgePathRegressor("last", alphas=[1.0, 0.1], random_state=0).fit(X, X[:, 0])
    display = RidgePathDisplay.from_estimator(model)
    assert display.chosen_ is None and display.scores_ is None and len(display.lines_) == 2
