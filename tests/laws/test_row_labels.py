"""What methods take beside X is matched by place; row labels in another order are named."""

import inspect
import warnings
from contextlib import suppress

import numpy as np
import pytest
from sklearn.base import is_classifier
from test_same_table import made

from tunefree import DataWarning, GLMRegressor, ReflectronClassifier
from tunefree.core.registry import ESTIMATORS, estimator_class

pd = pytest.importorskip("pandas")

N = 40
RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(N, 2)), columns=["a", "b"], index=RNG.permutation(N))
COUNTS = RNG.poisson(np.exp(X["a"])).astype(float)
IS_HIGH = COUNTS + RNG.poisson(0.5, N) > 1.0
BESIDE = {
    "y": COUNTS,
    "sample_weight": 1.0 + np.arange(N) % 3,
    "exposure": np.ones(N),
    "offset": np.zeros(N),
    "groups": np.arange(N) // 4,
}
OTHERS = ("DynamicsReflectron", "SharedReflectron")
NAMES = [name for name in ESTIMATORS if name not in OTHERS]


def methods_of(kind):
    """The public methods with rows, and what they take beside these."""
    for name in dir(kind):
        if name.startswith(("_", "set_")) or not callable(getattr(kind, name, None)):
            continue
        parameters = inspect.signature(getattr(kind, name)).parameters
        if "X" in parameters and (taken := [b for b in BESIDE if b in parameters]):
            yield name, taken


def model_of(name):
    """An estimator, of counts if it can be."""
    model = made(name)
    of_counts = {"exposure", "family"} & {*inspect.signature(model.fit).parameters, *vars(model)}
    if of_counts and not is_classifier(model):
        option = "family" if hasattr(model, "family") else "loss"
        model.set_params(**{option: "poisson"})
    return model


def values_of(name, kind):
    return IS_HIGH.astype(int) if name == "y" and is_classifier(kind()) else BESIDE[name]


def found_labels(call, **given):
    """The warnings of row labels of a call, which may end with an error about something else."""
    with warnings.catch_warnings(record=True) as caught, suppress(ValueError, TypeError):
        warnings.simplefilter("always")
        call(X, **given)
    return [w for w in caught if "row labels in another order" in str(w.message)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_every_method_names_row_labels_in_another_order(name):
    kind = estimator_class(name)
    y = values_of("y", kind)
    model = model_of(name).fit(X, y)
    for method, taken in methods_of(kind):
        call = getattr(model, method)
        needed = {"y": y} if "y" in taken else {}
        needed |= {"column": "a"} if method == "partial_residuals" else {}
        for argument in taken:
            values = values_of(argument, kind)
            for order, is_named in ((X.index, False), (X.index.sort_values(), True)):
                found = found_labels(call, **needed | {argument: pd.Series(values, order)})
                assert len(found) == is_named, (method, argument)
                assert all(w.category is DataWarning for w in found)
                assert all(f"{argument}.loc[X.index]" in str(w.message) for w in found)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", [GLMRegressor("poisson", max_iter=5), ReflectronClassifier()])
def test_rows_to_validate_on_are_matched_by_place(model):
    y = values_of("y", type(model))
    y_val = pd.Series(y, X.index.sort_values())
    found = found_labels(model.fit, y=y, X_val=X, y_val=y_val)
    assert ["y_val.loc[X_val.index]" in str(w.message) for w in found] == [True]
