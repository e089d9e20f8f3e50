"""Parameters that mean nothing are refused by name, before any work."""

import inspect
import warnings

import numpy as np
import pytest

import tunefree
from tunefree.core.parameters import seed_of
from tunefree.core.registry import estimator_class, estimator_classes

X = np.random.default_rng(0).standard_normal((60, 3))
Y = {True: (X[:, 0] > 0).astype(int), False: X[:, 0]}

WRONG = [
    *(
        (name, "loss", value)
        for name in (
            "KernelPiSTOLClassifier", "KernelPiSTOLRegressor", "PiSTOLClassifier",
            "PiSTOLRegressor",
        )
        for value in ("bogus", -3, None)
    ),
    *(("ClassicalPerceptron", "max_iter", value) for value in ("bogus", -3, 0)),
    ("ClassicalPerceptron", "intercept_scaling", -3),
    ("OptimisticPerceptron", "margin", "bogus"),
    ("PiSTOLRegressor", "cap", "bogus"),
    *(("PiSTOLClassifier", "random_state", value) for value in ("bogus", -1, 0.5)),
]  # fmt: skip


@pytest.mark.parametrize("name, parameter, value", WRONG)
def test_the_message_names_the_parameter(name, parameter, value):
    y = Y[name.endswith(("Classifier", "Perceptron"))]
    with pytest.raises(ValueError, match=f"^{parameter}={value!r} is"):
        estimator_class(name)(**{parameter: value}).fit(X, y)


def wrong_values():
    """Of every parameter of every public estimator: text that it does not know, and more."""
    for name, cls in estimator_classes().items():
        for parameter, given in inspect.signature(cls).parameters.items():
            yield name, parameter, "bogus"
            if isinstance(given.default, bool):
                number = -1 if parameter == "verbose" else 1  # verbose may be 1, as in scikit-learn
                yield from ((name, parameter, value) for value in ("False", None, number, [True]))
            elif isinstance(given.default, int | float):
                yield from ((name, parameter, value) for value in (np.nan, [1, 2]))


@pytest.mark.parametrize("name, parameter, value", list(wrong_values()))
def test_every_parameter_is_refused_by_name_and_leaves_no_trace(name, parameter, value):
    model = estimator_class(name)(**{parameter: value})
    y = Y[name.endswith(("Classifier", "Perceptron"))]
    given = (np.cumsum(X, axis=0),) if name == "DynamicsReflectron" else (X, 0.5 + 0.0 * y)
    given = (X, y) if name.endswith(("Classifier", "Perceptron")) else given
    before = vars(model).copy()
    with pytest.raises((ValueError, TypeError), match=parameter):
        model.fit(*given)
    assert vars(model) == before


def test_seeds_are_drawn_from_generators_of_both_kinds():
    for make in (np.random.default_rng, np.random.RandomState):
        source = make(7)
        first, second = seed_of(source), seed_of(source)
        assert first == seed_of(make(7)) != second
        assert 0 <= first < 2**31


@pytest.mark.parametrize("unit", [1e-100, 1e100])
def test_kernel_machines_take_columns_of_any_unit(unit):
    """Also where a square, or the column itself, is no number of single precision."""
    y = Y[False]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaled = tunefree.KernelPiSTOLRegressor(random_state=0).fit(X * unit, y).predict(X * unit)
    plain = tunefree.KernelPiSTOLRegressor(random_state=0).fit(X, y).predict(X)
    assert np.mean((scaled - plain) ** 2) < 0.05 * np.var(plain)


def test_a_single_row_is_fitted_without_a_warning():
    model = tunefree.RidgePathRegressor().fit(X[:1], [2.0])
    np.testing.assert_allclose(model.predict(X[:1]), [2.0])


def test_kernel_streams_take_sparse_rows_after_dense_ones_and_keep_their_targets():
    from scipy import sparse

    mixed = tunefree.KernelPiSTOLRegressor().partial_fit(X[:30], Y[False][:30])
    mixed.partial_fit(sparse.csr_array(X[30:]), Y[False][30:])
    dense = tunefree.KernelPiSTOLRegressor().partial_fit(X, Y[False])
    np.testing.assert_array_equal(mixed.predict(X), dense.predict(X))
    with pytest.raises(ValueError, match="y has 2 targets, but this model learns 1"):
        mixed.partial_fit(X, np.c_[X[:, 0], X[:, 1]])
