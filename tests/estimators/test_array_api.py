"""Arrays of any namespace: models and predictions are those of NumPy, and live where X lives."""

import array_api_strict as strict
import numpy as np
import pytest
from sklearn import config_context

import tunefree
from tunefree._registry import estimator_class

DEVICES = [strict.Device("CPU_DEVICE"), strict.Device("device1")]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4))
Y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=300)
CASES = [
    ("RidgePathRegressor", {}),
    ("ReflectronRegressor", {"link": "identity"}),
    ("GLMRegressor", {"family": "gaussian", "potential": "euclidean", "n_splits": 1}),
    ("ReflectronClassifier", {}),
    ("KernelRidgeRegressor", {}),
    ("KernelRidgeRegressor", {"n_landmarks": 50}),
    ("KernelRidgeRegressor", {"n_landmarks": 50, "kernel": "laplacian"}),
    ("KernelRidgeRegressor", {"n_landmarks": 50, "kernel": "linear"}),
    ("KernelRidgeClassifier", {"n_landmarks": 50}),
]


def there(a):
    return strict.asarray(a, device=DEVICES[1])


def back(a):
    assert a.device == DEVICES[1]
    return np.asarray(strict.asarray(a, device=DEVICES[0]))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name, options", CASES, ids=str)
def test_models_are_those_of_numpy(name, options, dtype):
    rows, y = X.astype(dtype), (Y > 0).astype(int) if "Classifier" in name else Y.astype(dtype)
    model = estimator_class(name)(random_state=0, **options)
    told = "decision_function" if "Classifier" in name else "predict"
    local = model.fit(rows, y)
    # NumPy's single precision shows the size of a kernel's coefficients: its double is the measure.
    expected, score = getattr(local, told)(rows.astype(float)), local.score(rows, y)
    with config_context(array_api_dispatch=True):
        model = estimator_class(name)(random_state=0, **options).fit(there(rows), there(y))
        found = back(getattr(model, told)(there(rows)))
        assert model.score(there(rows), there(y)) == pytest.approx(score, abs=1e-4)
    assert found.dtype == dtype
    tolerance = 1e-6 if dtype == np.float64 else 1e-3
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_a_model_of_numpy_predicts_arrays_of_others_but_not_the_other_way_round():
    model = tunefree.RidgePathRegressor().fit(X, Y)
    expected = model.predict(X)
    with config_context(array_api_dispatch=True):
        np.testing.assert_allclose(back(model.predict(there(X))), expected, rtol=1e-12)
        model.fit(there(X), there(Y))
        with pytest.raises(ValueError, match="must use the same namespace"):
            model.predict(X)


@pytest.mark.parametrize(
    "rows, message",
    [(np.full((3, 4), np.nan), "NaN or infinity"), (X[:, :3], "4 features are expected")],
)
def test_rows_that_cannot_be_predicted_are_refused(rows, message):
    model = tunefree.RidgePathRegressor().fit(X, Y)
    with config_context(array_api_dispatch=True), pytest.raises(ValueError, match=message):
        model.predict(there(rows))
