"""Ten raw data sets with the defaults: never below the constant predictor, never not finite."""

import numpy as np
import pytest
from sklearn import datasets
from sklearn.base import is_classifier

from tunefree import PiSTOLClassifier, PiSTOLRegressor


def lognormal(regression):
    """Columns and targets over many orders of magnitude."""
    rng = np.random.default_rng(0)
    X = np.exp(3 * rng.normal(size=(500, 6))) * np.logspace(-6, 6, 6)
    signal = np.log(X[:, 0]) + np.log(X[:, 3]) + rng.normal(size=500)
    return X, signal if regression else (signal > np.median(signal)).astype(int)


def rare(regression):
    """One row in twenty is different; columns are almost equal."""
    rng = np.random.default_rng(1)
    y = (rng.random(600) < 0.05).astype(int)
    X = rng.normal(size=(600, 1)) + 1e-3 * rng.normal(size=(600, 8)) + 0.5 * y[:, None]
    return X + 1e4, X.sum(axis=1) ** 3 if regression else y


DATA = {
    "breast cancer": (PiSTOLClassifier, lambda: datasets.load_breast_cancer(return_X_y=True)),
    "wine": (PiSTOLClassifier, lambda: datasets.load_wine(return_X_y=True)),
    "iris": (PiSTOLClassifier, lambda: datasets.load_iris(return_X_y=True)),
    "digits": (PiSTOLClassifier, lambda: [a[:600] for a in datasets.load_digits(return_X_y=True)]),
    "rare class": (PiSTOLClassifier, lambda: rare(False)),
    "lognormal classes": (PiSTOLClassifier, lambda: lognormal(False)),
    "diabetes": (PiSTOLRegressor, lambda: datasets.load_diabetes(return_X_y=True, scaled=False)),
    "linnerud": (PiSTOLRegressor, lambda: datasets.load_linnerud(return_X_y=True)),
    "friedman": (PiSTOLRegressor, lambda: datasets.make_friedman2(400, noise=50, random_state=0)),
    "lognormal targets": (PiSTOLRegressor, lambda: lognormal(True)),
    "cubes": (PiSTOLRegressor, lambda: rare(True)),
}


@pytest.mark.parametrize("verb", ["fit", "partial_fit"])
@pytest.mark.parametrize("name", DATA)
def test_never_below_the_constant_predictor(name, verb):
    """On the rows learned: the largest class, or the mean of the targets."""
    estimator, load = DATA[name]
    X, y = load()
    for seed in range(4):
        p = np.random.default_rng(seed).permutation(len(y))
        model = getattr(estimator(random_state=seed), verb)(X[p], y[p])
        assert np.isfinite(model.coef_).all()
        constant = np.bincount(y).max() / len(y) if is_classifier(model) else 0.0
        assert model.score(X, y) >= constant


@pytest.mark.parametrize(
    "name, score", [("breast cancer", 0.96), ("wine", 0.95), ("digits", 0.9), ("diabetes", 0.42)]
)
def test_useful_on_rows_not_seen(name, score):
    """The last two fifths of the rows, on average over orders."""
    estimator, load = DATA[name]
    X, y = load()
    found = []
    for seed in range(4):
        p = np.random.default_rng(seed).permutation(len(y))
        train, test = np.split(p, [3 * len(p) // 5])
        found.append(estimator(random_state=0).fit(X[train], y[train]).score(X[test], y[test]))
    assert np.mean(found) > score
