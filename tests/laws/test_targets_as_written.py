"""Targets and weights of text that nothing can be learned from are refused by what they are."""

import numpy as np
import pytest

from tunefree.core.registry import ESTIMATORS, estimator_class

REGRESSORS = [
    name
    for name in sorted(ESTIMATORS)
    if name.endswith("Regressor") and not name.startswith(("Stream", "Dask"))
]
RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 2))
TARGETS = {
    "dates such as": [f"2021-{1 + i % 12:02d}-{1 + i % 28:02d}" for i in range(N)],
    "dates such as '1 ": [f"{1 + i % 28} May {2000 + i}" for i in range(N)],
    "durations such as": [f"{20 + i}:{i:02d}:00" for i in range(N)],
    "numbers as text such as": [f"${1000 + i:,}.50" for i in range(N)],
    "numbers as text, but also 'tbd'": ["tbd" if i % 4 == 0 else f"{i}.5" for i in range(N)],
    "text such as 'red'": ["red", "blue"] * (N // 2),
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_a_regressor_names_what_its_targets_are(name):
    for words, y in TARGETS.items():
        with pytest.raises(ValueError, match=f"y holds {words}"):
            estimator_class(name)().fit(X, y)


@pytest.mark.parametrize("name", REGRESSORS)
def test_weights_of_text_are_named(name):
    with pytest.raises(ValueError, match=r"sample_weight holds text such as '2 kg', at .*\[1\]"):
        estimator_class(name)().fit(X, np.exp(X[:, 0]), sample_weight=["1.5", *["2 kg"] * (N - 1)])
