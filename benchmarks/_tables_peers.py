"""Peers on tables with defaults, on one thread; kernel machines with a timed search.

Nothing is encoded or scaled for trees. Kernel machines get standardised columns, and C and gamma
by 5-fold cross-validation over the grid of the league. xRFM and RealMLP are included if pytabkit
(and, for the first, xrfm) is installed.
"""

import json
import time
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from threadpoolctl import threadpool_limits

from _league_peers import C_KERNEL, GAMMA, Standardised
from _peers import FOLDS, timed

# Lower probabilities count as this.
LEAST = 1e-6


def catboost(task):
    import catboost

    kind = getattr(catboost, f"CatBoost{task}")
    return kind(verbose=0, thread_count=1, allow_writing_files=False)


def lightgbm(task):
    import lightgbm

    return getattr(lightgbm, f"LGBM{task}")(verbose=-1, n_jobs=1)


def boosting(task):
    kinds = {
        "Classifier": HistGradientBoostingClassifier,
        "Regressor": HistGradientBoostingRegressor,
    }
    return kinds[task](random_state=0)


def forest(task):
    kind = RandomForestClassifier if task == "Classifier" else RandomForestRegressor
    return kind(random_state=0, n_jobs=1)


class KernelMachine:
    """SVC or SVR, whose grid depends on the number of columns."""

    def __init__(self, task):
        self.task = task

    def fit(self, X, y):
        classify = self.task == "Classifier"
        name, kind = ("svc", SVC) if classify else ("svr", SVR)
        grid = {f"{name}__C": C_KERNEL, f"{name}__gamma": [g / X.shape[1] for g in GAMMA]}
        folds = (StratifiedKFold if classify else KFold)(FOLDS, shuffle=True, random_state=0)
        search = GridSearchCV(
            make_pipeline(StandardScaler(), kind(cache_size=1000)), grid, cv=folds,
            scoring=None if classify else "neg_mean_squared_error",
        )  # fmt: skip
        self.model = (search if classify else Standardised(search)).fit(X, y)
        return self

    def predict(self, X):
        return self.model.predict(X)


def pytabkit(name):
    def make(task):
        import pytabkit

        return getattr(pytabkit, f"{name}_{task}")(device="cpu", n_threads=1, random_state=0)

    return make


PEERS = {
    "CatBoost": catboost,
    "LightGBM": lightgbm,
    "HistGB": boosting,
    "Forest": forest,
    "SVM CV": KernelMachine,
    "xRFM": pytabkit("XRFM_D"),
    "RealMLP": pytabkit("RealMLP_TD"),
}


# Peers that refuse sparse rows.
NO_SPARSE_ROWS = ("HistGB", "SVM CV", "xRFM", "RealMLP")


def dense(data):
    """The data with dense rows."""
    if not sparse.issparse(data.X_train):
        return data
    return data._replace(X_train=data.X_train.toarray(), X_test=data.X_test.toarray())


def measured(make, data):
    """Losses of every test row, their means, CPU seconds to fit and microseconds a row predicted.

    Losses are mistakes or squared errors; with probabilities also log-losses.
    """
    model, cpu = timed(lambda: make().fit(data.X_train, data.y_train), repeats=1)
    proba = getattr(model, "predict_proba", None)
    start = time.process_time()
    output = (proba or model.predict)(data.X_test)
    row = {"cpu": cpu, "predict": 1e6 * (time.process_time() - start) / len(data.y_test)}
    if proba:
        shares = np.asarray(output, dtype=float)
        classes = np.asarray(model.classes_)
        right = np.where(classes == data.y_test[:, None], shares, 0.0).sum(axis=1)
        row["log_loss"] = float(-np.log(np.maximum(right / shares.sum(axis=1), LEAST)).mean())
        output = classes[shares.argmax(axis=1)]
    predicted, y = np.ravel(output), data.y_test
    losses = (predicted - y) ** 2 if data.task == "Regressor" else 1.0 * (predicted != y)
    return {**row, "loss": float(losses.mean()), "losses": [float(f"{v:.5g}") for v in losses]}


class Peers:
    """The requested peers, and their rows of earlier runs if a file holds them."""

    def __init__(self, wanted, path):
        self.wanted, self.path, self.kept = list(wanted), Path(path) if path else None, set()
        found = self.path is not None and self.path.exists()
        self.rows = json.loads(self.path.read_text()) if found else {}

    def __call__(self, data):
        """Yield (peer, row) of one table; peers that are not installed are skipped."""
        known = self.rows.setdefault(data.name, {})
        for name in self.wanted:
            if name in known:
                self.kept.add(name)
            else:
                try:
                    with threadpool_limits(1):
                        rows = dense(data) if name in NO_SPARSE_ROWS else data
                        known[name] = measured(lambda name=name: PEERS[name](data.task), rows)
                except ImportError:
                    continue
                if self.path is not None:
                    self.path.write_text(json.dumps(self.rows))
            yield name, known[name]
