"""What was learned is believed as far as rows left out speak for it."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import log_loss

import tunefree
from tunefree.core.registry import estimator_class
from tunefree.held_out.shrinkage import limits_of_predictions, shrinkage_factor
from tunefree.rows.outliers import within_limits

LINEAR = ["RidgePathRegressor", "GLMRegressor"]
REGRESSORS = [*LINEAR, "KernelRidgeRegressor", "KernelPiSTOLRegressor", "PiSTOLRegressor"]

CLASSIFIERS = [
    "PiSTOLClassifier",
    "KernelPiSTOLClassifier",
    "KernelRidgeClassifier",
    "GLMClassifier",
    "TuneFreeClassifier",
]


def fitted(name, X, y):
    model = estimator_class(name)()
    if hasattr(model, "random_state"):
        model.set_params(random_state=0)
    return model.fit(X, y)


@pytest.mark.parametrize("name", REGRESSORS)
def test_two_rows_tell_the_mean(name):
    X = np.random.default_rng(0).normal(size=(2, 8))
    told = fitted(name, X, np.array([1.0, 3.0])).predict(-3.0 * X)
    np.testing.assert_allclose(told, 2.0, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:X has entries")
@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("kind", ["exp", "spoilt"])
def test_far_columns_lose_no_more_than_the_mean(name, kind):
    """Rows far beyond those learned, and entries that learning would take as missing."""
    ratios = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(900, 8))
        y = X[:, 0] - 2.0 * X[:, 1] + rng.normal(size=900)
        X = np.exp(40.0 * X) if kind == "exp" else X * np.where(rng.random(X.shape) < 0.02, 1e5, 1)
        errors = np.square(y[300:] - fitted(name, X[:300], y[:300]).predict(X[300:]))
        ratios.append(errors.mean() / np.square(y[300:] - y[:300].mean()).mean())
    assert np.max(ratios) < 1.1


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_an_entry_beyond_the_reach_is_missing(name, form):
    """The prediction is that of the row without it; within the reach it is that of a line."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=200)
    model = fitted(name, form(X), y)
    far, middle = X[:5].copy(), X[:5].copy()
    far[:, 1], middle[:, 1] = 1e9, model.input_limits_[:, 1].mean()
    np.testing.assert_allclose(model.predict(form(far)), model.predict(form(middle)), rtol=1e-12)
    assert within_limits(X, model.input_limits_) is X
    np.testing.assert_allclose(
        model.predict(form(X)),
        np.clip(X @ model.coef_ + model.intercept_, *model.prediction_limits_),
        rtol=1e-9,
    )


def test_rare_classes_are_not_found_everywhere():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1300, 8))
    y = np.arange(1300) % 300 == 7
    for name in ("KernelRidgeClassifier", "TuneFreeClassifier"):
        assert not fitted(name, X[:300], y[:300]).predict(X[300:]).any()


def noise(n, d, positives, seed):
    """Rows and labels that have nothing to do with each other, and 1,000 more."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n + 1000, d)), rng.random(n + 1000) < positives / n
    y[:n] = rng.permutation(n) < positives
    return X, y


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_noise_is_not_learned_by_classes(name):
    """Log-losses on new rows over those of the classes' shares, in the mean of some draws."""
    for n, d, positives, most in ((200, 4, 2, 1.1), (100, 10, 5, 1.1), (8, 4, 4, 1.7)):
        ratios = []
        for seed in range(6):
            X, y = noise(n, d, positives, seed)
            p = fitted(name, X[:n], y[:n]).predict_proba(X[n:])
            ratios.append(log_loss(y[n:], p) / log_loss(y[n:], np.full(1000, positives / n)))
        assert np.mean(ratios) < most, (n, d, positives)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_signal_in_few_rows_is_learned(name):
    X = np.random.default_rng(0).normal(size=(1060, 3))
    y = X[:, 0] + 0.3 * X[:, 1] > 0.0
    p = fitted(name, X[:60], y[:60]).predict_proba(X[60:])
    assert log_loss(y[60:], p) < 0.45


def test_shares_of_noise_are_small_and_of_a_signal_one():
    rng = np.random.default_rng(0)
    y, noise, w = rng.normal(size=(400, 200)), rng.normal(size=(400, 200)), np.ones(400)
    assert shrinkage_factor(0.3 * noise, y, w).mean() < 0.05
    assert (shrinkage_factor(y + noise, y, w) == 0.0).mean() < 0.01
    assert (shrinkage_factor(0.5 * y, y, w) == 1.0).all()


def test_shares_count_weights_as_they_count_distinct_rows():
    """The unit of the weights is free, and an empty gain goes nowhere."""
    rng = np.random.default_rng(0)
    step, y, w = rng.normal(size=(50, 3)), rng.normal(size=(50, 3)), rng.uniform(1, 2, 50)
    np.testing.assert_allclose(
        shrinkage_factor(step, y, w), shrinkage_factor(step, y, 7.0 * w), rtol=1e-12
    )
    assert (shrinkage_factor(0.0 * step, y, w) == 0.0).all()


def test_ends_hold_all_that_was_fitted():
    rng = np.random.default_rng(0)
    fitted, y = rng.normal(size=(60, 2)), rng.normal(size=(60, 2))
    low, high = limits_of_predictions(fitted + rng.normal(size=(60, 2)), fitted, y, np.ones(60))
    assert (low <= fitted.min(axis=0)).all() and (high >= fitted.max(axis=0)).all()


def test_few_rows_do_not_decide():
    """Two giants among 300 rows that are met, while the rest are told wrong, give no share."""
    rng = np.random.default_rng(0)
    y, step, w = rng.normal(size=(300, 1)), 3.0 * rng.normal(size=(300, 1)), np.ones(300)
    assert shrinkage_factor(step, y, w)[0] == 0.0
    y[:2] = step[:2] = 1e3
    assert shrinkage_factor(step, y, w)[0] == 0.0
    step[2:] = 0.9 * y[2:]
    assert shrinkage_factor(step, y, w)[0] == 1.0


def test_ten_rows_of_their_own_decide():
    rng = np.random.default_rng(1)
    y = rng.normal(size=(10, 50))
    assert (shrinkage_factor(0.9 * y, y, np.ones(10)) == 1.0).all()


def test_what_a_search_gains_on_noise_is_deducted():
    """The best fit of p columns of noise follows it by p/n of its variance (Mallows)."""
    rng = np.random.default_rng(2)
    n, p, plain, less = 200, 20, [], []
    for _ in range(100):
        X, y = rng.normal(size=(n, p)), rng.normal(size=(n, 1))
        step = X @ np.linalg.lstsq(X, y, rcond=None)[0]
        plain.append(shrinkage_factor(step, y, np.ones(n))[0])
        less.append(shrinkage_factor(step, y, np.ones(n), spent=p / n)[0])
    assert np.mean(plain) > 0.9
    assert np.mean(less) < 0.1


@pytest.mark.parametrize("seed", [2, 4, 5])
def test_a_searched_pattern_in_noise_is_not_believed(seed):
    rng = np.random.default_rng(1000 + seed)
    X, y = rng.normal(size=(2300, 20)), rng.integers(0, 20, 2300).astype(float)
    told = fitted("KernelRidgeRegressor", X[:300], y[:300]).predict(X[300:])
    ratio = np.square(told - y[300:]).mean() / np.square(y[:300].mean() - y[300:]).mean()
    assert ratio < 1.05


def test_the_first_rows_of_a_stream_lose_no_more_than_their_mean():
    ratios = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(303, 8))
        y = X[:, 0] - 2.0 * X[:, 1] + rng.normal(size=303)
        told = tunefree.StreamRegressor().fit(X[:3], y[:3]).predict(X[3:])
        ratios.append(np.square(told - y[3:]).mean() / np.square(y[:3].mean() - y[3:]).mean())
    assert np.mean(ratios) < 1.02
