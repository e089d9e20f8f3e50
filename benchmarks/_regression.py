"""The regression tables: clean targets, contaminated targets, invariance; ours and the peers."""

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import HuberRegressor, QuantileRegressor, RidgeCV, SGDRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from _peers import timed

RIDGE_GRID = np.logspace(-3, 5, 17)  # leave-one-out over 17 penalties costs one factorisation
QUANTILE_ROWS = 5000  # an exact linear program on all rows would take many minutes
PASSES = (1, 3, 5)


def ridge():
    return make_pipeline(StandardScaler(), RidgeCV(alphas=RIDGE_GRID))


class ClippedRidge(RegressorMixin, BaseEstimator):
    """Ridge with the recipe's clipping of columns and predictions, to separate the two gains."""

    def fit(self, X, y):
        centre = np.median(X, axis=0)
        reach = 10 * np.quantile(np.abs(X - centre), 0.95, axis=0)
        reach[reach == 0] = np.inf
        self.low_, self.high_, self.prediction_limits_ = (
            centre - reach,
            centre + reach,
            (y.min(), y.max()),
        )
        self.ridge_ = ridge().fit(np.clip(X, self.low_, self.high_), y)
        return self

    def predict(self, X):
        return np.clip(
            self.ridge_.predict(np.clip(X, self.low_, self.high_)), *self.prediction_limits_
        )


class SubsampledQuantile(QuantileRegressor):
    """The median by linear programming on the first rows of a seed-0 permutation."""

    def fit(self, X, y):
        rows = np.random.default_rng(0).permutation(len(y))[:QUANTILE_ROWS]
        return super().fit(X[rows], y[rows])


def peers(data):
    """Yield (peer, row) on the clean targets, then with 1 % of the training targets outliers."""
    yield "RidgeCV", r2_row(ridge(), data)
    yield "ridge clipped", r2_row(ClippedRidge(), data)
    sgd = SGDRegressor(random_state=0)
    yield "SGD", r2_row(make_pipeline(StandardScaler(), sgd), data)
    yield "SGD raw", r2_row(sgd, data)
    dirty = contaminated(data)
    huber = make_pipeline(StandardScaler(), HuberRegressor(max_iter=1000))
    quantile = make_pipeline(StandardScaler(), SubsampledQuantile(alpha=0.0, solver="highs"))
    yield "RidgeCV dirty", r2_row(ridge(), dirty)
    yield "Huber dirty", r2_row(huber, dirty)
    yield "quantile dirty", r2_row(quantile, dirty)


def contaminated(data):
    """Move 1 % of the training targets by 1e6 standard deviations, up or down."""
    rng = np.random.default_rng(0)
    y = data.y_train.copy()
    rows = rng.permutation(len(y))[: len(y) // 100]
    y[rows] += 1e6 * y.std() * rng.choice([-1.0, 1.0], len(rows))
    return data._replace(y_train=y)


def ours(data, make, passes=PASSES):
    """Yield ("tunefree", row) and one row for each number of passes and for contamination."""
    yield "tunefree", r2_row(make(), data)
    for count in passes:
        yield f"tunefree x{count}", r2_row(make(max_iter=count), data)
    dirty = contaminated(data)
    yield "tunefree dirty", r2_row(make(), dirty)
    yield "tunefree absolute dirty", r2_row(make(loss="absolute_error"), dirty)
    yield "tunefree affine", {"shift": affine_shift(data, make)}


def affine_shift(data, make):
    """Largest change of a prediction, in SDs of y, when y and every column change units.

    The rows keep their order: a shuffle by their content would change with the units.
    """
    rng = np.random.default_rng(0)
    d = data.X_train.shape[1]
    scale, shift = 10.0 ** rng.uniform(-3, 3, d) * rng.choice([-1, 1], d), rng.normal(size=d)
    moved = data._replace(
        X_train=(data.X_train + shift) * scale,
        X_test=(data.X_test + shift) * scale,
        y_train=7.0 - 1e4 * data.y_train,
    )
    before = make(shuffle=False).fit(data.X_train, data.y_train).predict(data.X_test)
    after = make(shuffle=False).fit(moved.X_train, moved.y_train).predict(moved.X_test)
    return float(np.max(np.abs((7.0 - after) / 1e4 - before)) / data.y_train.std())


def r2_row(model, data):
    """R2 on the test rows, and their mean absolute error as a multiple of the median's."""
    model, cpu = timed(lambda: model.fit(data.X_train, data.y_train))
    off = data.y_test - model.predict(data.X_test)
    spread = data.y_test - data.y_test.mean()
    constant = np.abs(data.y_test - np.median(data.y_train)).mean()
    return {
        "r2": float(1 - off @ off / (spread @ spread)),
        "mae": float(np.abs(off).mean() / constant),
        "cpu": cpu,
    }
