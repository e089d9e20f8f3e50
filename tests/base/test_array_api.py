"""Arrays of other libraries become NumPy's by their own rules, or are refused in a sentence."""

import array_api_strict as strict
import numpy as np
import pytest
from sklearn import config_context

import tunefree

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = X[:, 0] + 0.1 * RNG.normal(size=60)
NAMES = (
    "BoostedTreesRegressor", "GLMRegressor", "KernelPiSTOLRegressor", "KernelRidgeRegressor",
    "PiSTOLRegressor", "ReflectronRegressor", "RidgePathRegressor", "TuneFreeRegressor",
)  # fmt: skip


@pytest.mark.filterwarnings("ignore::tunefree.DataWarning")
@pytest.mark.parametrize("name", NAMES)
def test_predictions_are_those_of_numpy(name):
    estimator = getattr(tunefree, name)(random_state=0)
    expected = estimator.fit(X, Y).predict(X)
    for dispatch in (False, True):
        with config_context(array_api_dispatch=dispatch):
            estimator.fit(strict.asarray(X), strict.asarray(Y))
            found = estimator.predict(strict.asarray(X))
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, expected)


class OnADevice:
    """An array that NumPy cannot read, as a tensor on a GPU."""

    shape, ndim, dtype, device = X.shape, 2, X.dtype, "cuda:0"

    def __len__(self):
        return len(X)

    def __array__(self, dtype=None, copy=None):
        raise TypeError("can't convert cuda:0 device type tensor to numpy: use .cpu() first")


@pytest.mark.parametrize("name", NAMES)
def test_an_array_on_a_device_is_refused_in_a_sentence(name):
    with pytest.raises(TypeError, match="use .cpu"):
        getattr(tunefree, name)().fit(OnADevice(), Y)
