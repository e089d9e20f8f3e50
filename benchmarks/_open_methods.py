"""The methods of the open benchmark (`open.py`): one class each. A new class is one more method.

A class has a `name` and `model(task, X)`: an unfitted estimator, for the `task` "Classifier" or
"Regressor". `fit` gets a frame of numbers (NaN: missing) and text (None: missing), and numbers or
class codes 0, 1, ... All is at its defaults, with one thread and seed 0. What a method does not
read itself is encoded as its documentation advises.
"""

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC

from _frames import _is_text
from _league_peers import ALPHA_KERNEL, C_KERNEL, GAMMA, RIDGE_GRID, Standardised
from _peers import C_GRID, FOLDS

METHODS = {}
# Kernel machines search on at most so many random rows, and learn at most so many.
SEARCHED, LEARNED = 3_000, 8_000
# Rarer levels of text are one column if a column has more.
LEVELS = 100


class Method:
    """A method; `tasks` are those that it can do."""

    name = ""
    tasks = ("Classifier", "Regressor")

    def __init_subclass__(cls):
        METHODS[cls.name] = cls

    def model(self, task, X):
        raise NotImplementedError


class Constant(Method):
    """The most frequent class with the shares of the classes, or the mean."""

    name = "Constant"

    def model(self, task, X):
        return DummyClassifier(strategy="prior") if task == "Classifier" else DummyRegressor()


class TuneFree(Method):
    name = "TuneFree"

    def model(self, task, X):
        import tunefree

        return getattr(tunefree, f"TuneFree{task}")(random_state=0)


class BoostedTrees(Method):
    name = "BoostedTrees"

    def model(self, task, X):
        import tunefree

        trees = getattr(tunefree, f"BoostedTrees{task}")(random_state=0)
        return make_pipeline(_indicators(X), trees)


class CatBoost(Method):
    name = "CatBoost"

    def model(self, task, X):
        import catboost

        options = {"verbose": 0, "thread_count": 1, "allow_writing_files": False}
        trees = getattr(catboost, f"CatBoost{task}")(cat_features=_text(X), **options)
        return make_pipeline(FunctionTransformer(_without_none), trees)


class LightGBM(Method):
    name = "LightGBM"

    def model(self, task, X):
        import lightgbm

        return make_pipeline(Categories(), getattr(lightgbm, f"LGBM{task}")(verbose=-1, n_jobs=1))


class XGBoost(Method):
    name = "XGBoost"

    def model(self, task, X):
        import xgboost

        trees = getattr(xgboost, f"XGB{task}")(enable_categorical=True, n_jobs=1)
        return make_pipeline(Categories(), trees)


class HistGradientBoosting(Method):
    name = "HistGradientBoosting"

    def model(self, task, X):
        classify = task == "Classifier"
        kind = HistGradientBoostingClassifier if classify else HistGradientBoostingRegressor
        return make_pipeline(Categories(most=255), kind(random_state=0))


class RandomForest(Method):
    name = "Random forest"

    def model(self, task, X):
        kind = RandomForestClassifier if task == "Classifier" else RandomForestRegressor
        return make_pipeline(_indicators(X), kind(random_state=0, n_jobs=1))


class RealMLP(Method):
    """A network; it reads categories, but no missing numbers."""

    name = "RealMLP"

    def model(self, task, X):
        import pytabkit

        options = {"device": "cpu", "n_threads": 1, "random_state": 0}
        network = getattr(pytabkit, f"RealMLP_TD_{task}")(**options)
        return make_pipeline(Categories(impute=True), network)


class Linear(Method):
    """Logistic regression with a search for C, or ridge regression with one for alpha."""

    name = "Logistic / ridge CV"

    def model(self, task, X):
        if task == "Regressor":
            return make_pipeline(_encoder(X), RidgeCV(RIDGE_GRID))
        model = make_pipeline(_encoder(X), LogisticRegression(max_iter=1000))
        return GridSearchCV(model, {"logisticregression__C": C_GRID}, cv=_folds(task))


class LinearSupportVectors(Method):
    name = "LinearSVC CV"
    tasks = ("Classifier",)

    def model(self, task, X):
        model = make_pipeline(_encoder(X), LinearSVC(random_state=0))
        return GridSearchCV(model, {"linearsvc__C": C_GRID}, cv=_folds(task))


class Kernel(Method):
    """SVC, or kernel ridge regression, with a search for the penalty and the bandwidth."""

    name = "SVC / kernel ridge CV"

    def model(self, task, X):
        if task == "Classifier":
            return KernelMachine(X, task, SVC(cache_size=1000), "svc", {"C": C_KERNEL})
        ridge = KernelRidge(kernel="rbf")
        return Standardised(KernelMachine(X, task, ridge, "kernelridge", {"alpha": ALPHA_KERNEL}))


class KernelMachine(BaseEstimator):
    """A search on some rows, and a fit of its winner on more."""

    def __init__(self, X, task, model, name, penalties):
        self.X, self.task, self.model = X, task, model
        self.name, self.penalties = name, penalties

    def fit(self, X, y):
        model = make_pipeline(_encoder(self.X), self.model)
        wide = _encoder(self.X).fit_transform(X).shape[1]
        grid = {f"{self.name}__{key}": values for key, values in self.penalties.items()}
        grid[f"{self.name}__gamma"] = [g / wide for g in GAMMA]
        scoring = None if self.task == "Classifier" else "neg_mean_squared_error"
        search = GridSearchCV(model, grid, scoring=scoring, cv=_folds(self.task), refit=False)
        order = np.random.default_rng(0).permutation(len(y))
        few, more = order[:SEARCHED], order[:LEARNED]
        best = search.fit(X.iloc[few], y[few]).best_params_
        self.model_ = model.set_params(**best).fit(X.iloc[more], y[more])
        return self

    def predict(self, X):
        return self.model_.predict(X)


class Categories(TransformerMixin, BaseEstimator):
    """Text as the type "category" with the levels of the training rows; columns get plain names.

    ``most``: the most frequent levels that stay. ``impute``: missing numbers become the mean.
    """

    def __init__(self, most=None, impute=False):
        self.most, self.impute = most, impute

    def fit(self, X, y=None):
        self.levels_ = {c: sorted(X[c].value_counts().index[: self.most]) for c in _text(X)}
        self.means_ = X.drop(columns=_text(X)).mean().fillna(0.0)
        return self

    def transform(self, X):
        import pandas as pd

        known = X.fillna(self.means_) if self.impute else X
        levels = {name: pd.CategoricalDtype(found) for name, found in self.levels_.items()}
        kept = {name: known[name].where(known[name].isin(self.levels_[name])) for name in levels}
        out = known.assign(**kept).astype(levels)
        return out.set_axis([f"c{j}" for j in range(X.shape[1])], axis=1)


def _text(X):
    """Names of the columns of text."""
    return [name for name in X.columns if _is_text(X[name])]


def _without_none(X):
    return X.fillna({name: "missing" for name in _text(X)})


def _one_hot():
    return OneHotEncoder(
        handle_unknown="infrequent_if_exist", max_categories=LEVELS, sparse_output=False
    )


def _indicators(X):
    """Text as 0/1 columns, and numbers as they are."""
    return make_column_transformer((_one_hot(), _text(X)), remainder="passthrough")


def _encoder(X):
    """Text as 0/1 columns, and numbers imputed and standardised."""
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    return make_column_transformer((_one_hot(), _text(X)), remainder=numbers)


def _folds(task):
    kind = StratifiedKFold if task == "Classifier" else KFold
    return kind(FOLDS, shuffle=True, random_state=0)
