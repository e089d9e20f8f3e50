"""Every public estimator keeps scikit-learn's contract, with no exception."""

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

import tunefree

# Where the checks' rows at random would use up all passes, fewer say the same.
FEWER = {
    "DynamicsReflectron": {"max_iter": 20},
    "KernelOptimisticPerceptron": {"max_iter": 500},
}
ESTIMATORS = [
    getattr(tunefree, name)(**FEWER.get(name, {}))
    for name in tunefree.__all__
    if isinstance(getattr(tunefree, name), type)
    and issubclass(getattr(tunefree, name), BaseEstimator)
]


@pytest.mark.filterwarnings("default")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
