"""`n_jobs` changes no bit: of every estimator that takes it, with few rows told to be many."""

import numpy as np
import pytest
from scipy import sparse

from cases import decide
from tunefree.core.registry import estimator_class, estimator_classes

NAMES = [  # TuneFreeClassifier runs what TuneFreeRegressor does, at twice the cost
    name
    for name, made in estimator_classes().items()
    if "n_jobs" in made._get_param_names() and name != "TuneFreeClassifier"
]


@pytest.mark.parametrize("name", NAMES)
def test_threads_change_no_bit(name, monkeypatch):
    monkeypatch.setattr("tunefree.stack.suited._PILOTED", 1000)
    monkeypatch.setattr("tunefree.stack.candidates._KERNEL_PILOT_ROWS", 500)
    monkeypatch.setattr("tunefree.kernel_ridge.solvers.EXACT_ROWS", 500)
    monkeypatch.setattr("tunefree.kernel_ridge.choice._START", 50)
    monkeypatch.setattr("tunefree.kernels.factors._WHOLE", 100)
    monkeypatch.setattr("tunefree.reflectron.mirror._PIECE", 300)
    monkeypatch.setattr("tunefree.rows.designs._MANY", 0)
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (2100 if "TuneFree" in name else 1000, 3))
    y = np.sin(4.0 * X[:, 0]) * X[:, 1] + 0.3 * np.random.default_rng(1).normal(size=len(X))
    y = y > 0.0 if "Classifier" in name else y
    found = []
    for n_jobs in (1, 2):
        model = estimator_class(name)(n_jobs=n_jobs, random_state=0).fit(X, y)
        found.append([np.asarray(decide(model, X))])
        if name.startswith("Reflectron"):
            found[-1].append(model.fit(sparse.csr_array(X), y).coef_)
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)


def test_kernels_of_few_rows_side_by_side_are_those_one_after_the_other():
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (200, 3))
    y = np.sin(4.0 * X[:, 0]) * X[:, 1]
    made = estimator_class("TuneFreeRegressor")
    models = [
        made(candidates=["kernel"], random_state=0, **options).fit(X, y)
        for options in ({"n_jobs": 1}, {"n_jobs": 2}, {"max_memory": "1GB"})
    ]
    first, *others = [model.predict(X) for model in models]
    assert len(models[0].leaderboard_) == 3
    for other in others:
        np.testing.assert_array_equal(other, first)
