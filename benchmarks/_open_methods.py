"""The methods of the open benchmark (`open.py`): one class each. A new class is one more method.

A class has a `name` and `model(task, X)`: an unfitted estimator, for the `task` "Classifier" or
"Regressor". `fit` gets a frame of numbers (NaN: missing) and text (None: missing), and numbers or
class codes 0, 1, ... All is at its defaults, with one thread and seed 0, but for methods
with `searches`: they run only if they are named. What a method does not read itself is encoded as
its documentation advises.
"""

import numpy as np
from scipy.stats import loguniform, randint, uniform
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
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, KFold, ParameterSampler, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.metaestimators import available_if

from _frames import _is_text
from _league_peers import ALPHA_KERNEL, C_KERNEL, GAMMA, RIDGE_GRID, Standardised
from _peers import C_GRID, FOLDS

METHODS = {}
# Kernel machines search on at most so many random rows, and learn at most so many.
SEARCHED, LEARNED = 3_000, 8_000
# Rarer levels of text are one column if a column has more.
LEVELS = 100
# Random settings of CatBoost, as its documentation's page on tuning names them.
TRIALS = 50
CATBOOST_SPACE = {
    "learning_rate": loguniform(0.01, 0.3),
    "depth": randint(3, 11),
    "l2_leaf_reg": loguniform(0.5, 30.0),
    "random_strength": loguniform(0.1, 10.0),
    "bagging_temperature": uniform(0.0, 1.0),
    "iterations": [300, 1000, 2000],
}


class Method:
    """A method; `tasks` are those that it can do."""

    name = ""
    tasks = ("Classifier", "Regressor")
    searches = False  # minutes to hours of search: not at its defaults
    longest = 600  # CPU seconds of a fit with its prediction

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


class TunedCatBoost(Method):
    """CatBoost, the best of 50 random settings in five folds, refitted to all rows."""

    name, searches, longest = "CatBoost, 50 trials", True, 24 * 3600

    def model(self, task, X):
        return RandomSearch(task, X)


def _is_classifier(model):
    return model.task == "Classifier"


class RandomSearch(BaseEstimator):
    """CatBoost with the settings of least held-out loss; scikit-learn cannot copy CatBoost's."""

    def __init__(self, task, X):
        self.task, self.X = task, X

    def fit(self, X, y):
        folds = list(_folds(self.task).split(X, y))
        trials = ParameterSampler(CATBOOST_SPACE, TRIALS, random_state=0)
        best = min(trials, key=lambda settings: self._loss(settings, X, y, folds))
        self.model_ = self._fitted(best, X, y)
        self.classes_ = getattr(self.model_[-1], "classes_", None)
        return self

    def _fitted(self, settings, X, y):
        model = CatBoost().model(self.task, self.X)
        model[-1].set_params(**settings, random_seed=0)
        return model.fit(X, y)

    def _loss(self, settings, X, y, folds):
        losses = []
        for learned, held in folds:
            model = self._fitted(settings, X.iloc[learned], y[learned])
            if self.task == "Classifier":
                p, labels = model.predict_proba(X.iloc[held]), model[-1].classes_
                losses.append(log_loss(y[held], p, labels=labels))
            else:
                losses.append(np.mean((y[held] - model.predict(X.iloc[held])) ** 2))
        return np.mean(losses)

    def predict(self, X):
        return self.model_.predict(X)

    @available_if(_is_classifier)
    def predict_proba(self, X):
        return self.model_.predict_proba(X)


class AutoGluon(Method):
    """AutoGluon's preset `best_quality` with a minute of wall time on one core."""

    name, searches, longest = "AutoGluon, 60 s", True, 1800

    def model(self, task, X):
        import autogluon.tabular  # noqa: F401

        return Gluon(task)


class Gluon(BaseEstimator):
    """AutoGluon's predictor as an estimator; its files lie in the current folder."""

    def __init__(self, task):
        self.task = task

    def fit(self, X, y):
        from autogluon.tabular import TabularPredictor

        classify, n_classes = self.task == "Classifier", len(np.unique(y))
        kind = ("binary" if n_classes == 2 else "multiclass") if classify else "regression"
        metric = "log_loss" if classify else "root_mean_squared_error"
        self.names_ = [f"c{j}" for j in range(X.shape[1])]
        predictor = TabularPredictor("y", problem_type=kind, eval_metric=metric, verbosity=0)
        self.predictor_ = predictor.fit(
            self._frame(X).assign(y=y),
            presets="best_quality",
            time_limit=60,
            dynamic_stacking=False,  # the trial of it needs Ray, and a part of the minute
            num_cpus=1,
            num_gpus=0,
            ag_args_ensemble={"fold_fitting_strategy": "sequential_local"},  # folds in this process
        )
        if classify:
            self.classes_ = np.array(self.predictor_.class_labels)
        return self

    def _frame(self, X):
        return X.set_axis(self.names_, axis=1)

    def predict(self, X):
        if self.task == "Classifier":  # the most likely class: no threshold is moved
            return self.classes_[self.predict_proba(X).argmax(axis=1)]
        return self.predictor_.predict(self._frame(X)).to_numpy()

    @available_if(_is_classifier)
    def predict_proba(self, X):
        return self.predictor_.predict_proba(self._frame(X))[list(self.classes_)].to_numpy()


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
