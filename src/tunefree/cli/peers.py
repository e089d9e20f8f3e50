"""The demo's contest: real data as it comes, our defaults beside scikit-learn's tools."""

import time
import warnings
from functools import partial
from typing import NamedTuple

import numpy as np


class Contest(NamedTuple):
    """One data set, split once.

    Parameters
    ----------
    name : str
        What to call it.
    classify : bool
        Whether the targets are classes.
    train, test : tuple of arrays
        Features and targets.
    """

    name: str
    classify: bool
    train: tuple
    test: tuple


class Outcome(NamedTuple):
    """What one method did on one data set.

    Parameters
    ----------
    data, method : str
        Their names.
    classify : bool
        Whether `score` is a test error or else R².
    score : float
        Test error, or R².
    seconds : float
        What fitting took.
    """

    data: str
    method: str
    classify: bool
    score: float
    seconds: float

    @property
    def loss(self):
        """Error, or the unexplained share of the variance: less is better."""
        return self.score if self.classify else 1.0 - self.score


def contests():
    """Make the demo's data sets: three that scikit-learn ships, raw and with the units changed.

    Returns
    -------
    list of Contest
        Each split 70/30 with seed 0.
    """
    from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

    made = []
    for name, load, classify in (
        ("cancer", load_breast_cancer, True),
        ("digits", load_digits, True),
        ("diabetes", lambda **o: load_diabetes(scaled=False, **o), False),
    ):
        X, y = load(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(y))
        test, train = np.split(order, [int(0.3 * len(y))])
        units = 10.0 ** np.random.default_rng(1).integers(-4, 5, X.shape[1])
        for title, data in ((name, X), (f"{name}, rescaled", X * units)):
            made.append(Contest(title, classify, (data[train], y[train]), (data[test], y[test])))
    return made


def _ours(classify):
    from tunefree import PiSTOLClassifier, PiSTOLRegressor

    return (PiSTOLClassifier if classify else PiSTOLRegressor)(random_state=0)


def _untuned(classify):
    from sklearn.linear_model import SGDClassifier, SGDRegressor

    return (SGDClassifier if classify else SGDRegressor)(random_state=0)


def _tuned(classify):
    from sklearn.linear_model import RidgeCV
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    if not classify:
        return make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 2, 5)))
    svm = make_pipeline(StandardScaler(), LinearSVC(random_state=0))
    return GridSearchCV(svm, {"linearsvc__C": [0.01, 0.1, 1.0, 10.0, 100.0]}, cv=5)


def methods(classify):
    """Name the contestants for one kind of task, ours first.

    Parameters
    ----------
    classify : bool
        Whether the targets are classes.

    Returns
    -------
    dict
        Name to a function that makes the estimator.
    """
    names = ("SGDClassifier", "LinearSVC, CV") if classify else ("SGDRegressor", "RidgeCV")
    makers = zip(("tunefree", *names), (_ours, _untuned, _tuned), strict=True)
    return {name: partial(make, classify) for name, make in makers}


def warm_up():
    """Compile what a first fit compiles.

    Returns
    -------
    float
        The seconds it took.
    """
    start = time.perf_counter()
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    for y in (X[:, 0] > 0, np.arange(60) % 3):
        _ours(True).fit(X, y).predict(X)
    _ours(False).fit(X, X[:, 0]).predict(X)
    return time.perf_counter() - start


def compete(contest, method):
    """Fit one method and score it on the test rows.

    Parameters
    ----------
    contest : Contest
        The data.
    method : str
        One of `methods`.

    Returns
    -------
    Outcome
        Score and seconds.
    """
    estimator = methods(contest.classify)[method]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the peers' complaints about convergence
        start = time.perf_counter()
        estimator.fit(*contest.train)
        seconds = time.perf_counter() - start
        X, y = contest.test
        predicted = estimator.predict(X)
    if contest.classify:
        score = float(np.mean(predicted != y))
    else:
        score = float(1.0 - np.mean((predicted - y) ** 2) / np.var(y))
    return Outcome(contest.name, method, contest.classify, score, seconds)
