"""The peers of the league: cross-validated, with the whole search timed.

Preparation is that of `_peers`. Every search has 5 folds; the winner is refitted. Kernel machines
search on the first 6,000 (classification) or 4,000 (regression) rows of a seed-0 permutation and
are refitted on these rows and, if that takes less than `_peers.PATIENCE` by quadratic
extrapolation, on all rows ("all"), which is more accurate and more expensive. A search that would
take more than ten minutes, estimated from one fit, is not run: its seconds are those of that fit (C
= 1, the default bandwidth) times the number of fits ("estimated").
"""

import time

import numpy as np
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC

import _peers
from _peers import C_GRID, FOLDS, PATIENCE, error_row, prepared, searched, timed

ROWS_SVC, ROWS_REGRESSION = 6000, 4000
LONGEST = 600.0
C_KERNEL = (0.1, 1.0, 10.0, 100.0)
GAMMA = (0.25, 1.0, 4.0)  # times 1 / (columns x variance), the default of SVC
RIDGE_GRID = np.logspace(-3, 5, 17)
ALPHA_KERNEL = (1e-3, 1e-2, 1e-1, 1.0)


def classification(data):
    """Yield (peer, row): error and CPU seconds."""
    models = {
        "LinearSVC CV": LinearSVC(random_state=0),
        "LogisticRegressionCV": LogisticRegression(max_iter=1000),
    }
    for name, model in models.items():
        one = error_row(prepared(model, data), data)
        yield name, searched(model, data, {"C": C_GRID}, one)
    chosen = np.random.default_rng(0).permutation(len(data.y_train))[:ROWS_SVC]
    small = data._replace(X_train=data.X_train[chosen], y_train=data.y_train[chosen])
    gamma = scale_gamma(small)
    pipeline = prepared(SVC(cache_size=1000), small)
    grid = {"svc__C": C_KERNEL, "svc__gamma": [g * gamma for g in GAMMA]}
    one = error_row(pipeline, small)
    fits = FOLDS * len(C_KERNEL) * len(GAMMA) * (1 - 1 / FOLDS) ** 2 + 1
    if one["cpu"] * fits > LONGEST:
        yield "SVC rbf CV", {**one, "cpu": one["cpu"] * fits, "estimated": True}
        return
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    yield from kernel_rows("SVC rbf CV", GridSearchCV(pipeline, grid, cv=folds), small, data)


def regression(data):
    """Yield (peer, row): test MSE and CPU seconds."""
    ridge = make_pipeline(StandardScaler(), RidgeCV(alphas=RIDGE_GRID))
    yield "RidgeCV", squared_row(ridge, data)
    chosen = np.random.default_rng(0).permutation(len(data.y_train))[:ROWS_REGRESSION]
    small = data._replace(X_train=data.X_train[chosen], y_train=data.y_train[chosen])
    folds, d = KFold(FOLDS, shuffle=True, random_state=0), data.X_train.shape[1]
    models = {
        "SVR CV": (SVR(cache_size=1000), {"svr__C": C_KERNEL}),
        "kernel ridge CV": (
            KernelRidge(kernel="rbf"),
            {"kernelridge__alpha": ALPHA_KERNEL, "kernelridge__gamma": [g / d for g in GAMMA]},
        ),
    }
    for name, (model, grid) in models.items():
        score = "neg_mean_squared_error"
        search = GridSearchCV(make_pipeline(StandardScaler(), model), grid, scoring=score, cv=folds)
        exact = name == "kernel ridge CV"  # all rows would need their whole Gram matrix
        whole = data if not exact else None
        yield from kernel_rows(name, Standardised(search), small, whole, squared_row)


class Standardised:
    """A regressor on targets of mean 0 and standard deviation 1."""

    def __init__(self, model):
        self.model = model

    def fit(self, X, y):
        self.mean, self.sd = y.mean(), y.std()
        self.model.fit(X, (y - self.mean) / self.sd)
        return self

    def predict(self, X):
        return self.mean + self.sd * self.model.predict(X)

    @property
    def best_estimator_(self):
        return Standardised(self.model.best_estimator_)

    best_params_ = property(lambda self: self.model.best_params_)
    refit_time_ = property(lambda self: self.model.refit_time_)


def kernel_rows(name, search, small, whole, row=None):
    """Yield the row of a search, and of its winner refitted on all rows."""
    found = (row or error_row)(search, small)
    yield name, {**found, "chosen": {k: float(v) for k, v in search.best_params_.items()}}
    if whole is None or len(whole.y_train) == len(small.y_train):
        return
    if search.refit_time_ * (len(whole.y_train) / len(small.y_train)) ** 2 <= PATIENCE:
        more = (row or error_row)(search.best_estimator_, whole)
        yield f"{name}, all", {**more, "cpu": more["cpu"] + found["cpu"]}


def scale_gamma(data):
    """The default bandwidth of SVC on prepared rows."""
    step = _peers.preparation(data.X_train) or FunctionTransformer()
    X = step.fit_transform(data.X_train)
    mean_square = X.multiply(X).mean() if hasattr(X, "multiply") else np.mean(X * X)
    return float(1.0 / (X.shape[1] * (mean_square - X.mean() ** 2)))


def squared_row(model, data):
    """Test MSE, its standard error over the test rows, and CPU seconds to train."""
    model, cpu = timed(lambda: model.fit(data.X_train, data.y_train))
    start = time.process_time()
    square = (data.y_test - model.predict(data.X_test)) ** 2
    spent = time.process_time() - start
    se = square.std() / np.sqrt(len(square))
    return {"mse": float(square.mean()), "se": float(se), "cpu": cpu, "predict": spent}
