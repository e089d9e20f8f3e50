"""Every public estimator keeps scikit-learn's contract, with no exception."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from tunefree.core.registry import estimator_classes

# Where the checks' rows at random would use up all passes, fewer say the same.
FEWER = {
    "DynamicsReflectron": {"max_iter": 20},
    "KernelOptimisticPerceptron": {"max_iter": 500},
}
ESTIMATORS = [made(**FEWER.get(name, {})) for name, made in estimator_classes().items()]


@pytest.mark.filterwarnings("default")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
