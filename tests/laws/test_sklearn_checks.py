"""Every public estimator keeps scikit-learn's contract, with no exception."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from tunefree.core.registry import estimator_classes
from tunefree.trees import boosting

# Where the checks' rows at random would use up all passes, fewer say the same.
FEWER = {
    "DynamicsReflectron": {"max_iter": 5},
    "GLMClassifier": {"max_iter": 20},
    "GLMRegressor": {"max_iter": 20},
    "KernelOptimisticPerceptron": {"max_iter": 200},
    "OptimisticPerceptron": {"max_iter": 200},
    "ReflectronClassifier": {"max_iter": 20},
    "ReflectronRegressor": {"max_iter": 20},
    "SharedReflectron": {"max_iter": 20},
}
ESTIMATORS = [made(**FEWER.get(name, {})) for name, made in estimator_classes().items()]


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch):
    """Trees end sooner: what is checked does not depend on their number."""
    monkeypatch.setattr(boosting, "_PATIENCE", 5)


@pytest.mark.filterwarnings("default")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
