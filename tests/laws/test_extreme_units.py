"""Any unit and origin of columns and targets: the same quality, or a sentence with the way out."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.metrics import accuracy_score, r2_score

import tunefree
from tunefree import DataWarning, GLMRegressor
from tunefree.base.sizes import check_entries, check_target_sizes

NAMES = [
    name
    for name in tunefree.__all__
    if name.endswith(("Classifier", "Regressor")) and hasattr(getattr(tunefree, name), "predict")
]
ONE = np.array([1.0, 0.0, 0.0])  # one column only
# Changes of rows and of targets.
UNITS = {
    "rows 1e200": (lambda X: X * 1e200, None),
    "a column 1e200": (lambda X: X * 1e200**ONE, None),
    "rows 1e-200": (lambda X: X * 1e-200, None),
    "a column 1e-200": (lambda X: X * 1e-200**ONE, None),
    "rows 1e145": (lambda X: X * 1e145, None),
    "rows 1e-145": (lambda X: X * 1e-145, None),
    "rows 1e100": (lambda X: X * 1e100, None),
    "rows 1e-100": (lambda X: X * 1e-100, None),
    "rows + 1e13": (lambda X: X + 1e13, None),
    "a column + 1e13": (lambda X: X + 1e13 * ONE, None),
    "targets 1e160": (None, lambda y: y * 1e160),
    "targets 1e-160": (None, lambda y: y * 1e-160),
    "targets 1e300": (None, lambda y: y * 1e300),
    "targets 1e70": (None, lambda y: y * 1e70),
    "targets 1e-70": (None, lambda y: y * 1e-70),
    "targets + 1e13": (None, lambda y: y + 1e13),
    "float32, rows 1e30": (lambda X: (X * 1e30).astype("f"), None),
    "float32, rows 1e-30": (lambda X: (X * 1e-30).astype("f"), None),
}
DRAWN = 4


def _table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(140, 3))
    return X, X[:, 0] - 2.0 * X[:, 1] + 0.3 * rng.normal(size=140)


def _score(model, X, y):
    """The score on new rows, and the sentences about columns and targets."""
    measure = accuracy_score if is_classifier(model) else r2_score
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        predicted = model.fit(X[:100], y[:100]).predict(X[100:])
    assert all(issubclass(w.category, DataWarning) for w in seen), [str(w.message) for w in seen]
    assert np.isfinite(predicted).all()
    unit = 1.0 if is_classifier(model) else np.std(y[100:])
    origin = 0.0 if is_classifier(model) else np.mean(y[100:])
    return measure((y[100:] - origin) / unit, (predicted - origin) / unit), [
        str(w.message) for w in seen
    ]


@pytest.mark.parametrize("name", NAMES)
def test_units_and_origins(name):
    kind = getattr(tunefree, name)
    make = kind if "random_state" not in kind().get_params() else lambda: kind(random_state=0)
    X, y = _table()
    targets = (y > 0.0).astype(int) if is_classifier(make()) else y
    usual, _ = _score(make(), X, targets)
    rng = np.random.default_rng(len(name))
    changes = [u for u in UNITS if UNITS[u][1] is None or not is_classifier(make())]
    for unit in rng.choice(changes, DRAWN, replace=False):
        of_rows, of_targets = UNITS[unit]
        Z = X if of_rows is None else of_rows(X)
        t = targets if of_targets is None else of_targets(targets)
        as_sparse = rng.random() < 0.3 and "+" not in unit
        try:
            score, sentences = _score(make(), sparse.csr_array(Z) if as_sparse else Z, t)
        except ValueError as error:
            score, sentences = -np.inf, [str(error)]
        named = any(s.startswith(("Column ", "y[", "y has")) for s in sentences)
        assert score > usual - 0.1 or named, (unit, score, usual, sentences)


def test_sentences_name_the_column_and_the_way_out():
    X = np.ones((5, 2)) * [1.0, 2e200]
    with pytest.raises(ValueError, match=r"^Column 'b' of X has .* Divide the column by 1e\+200"):
        check_entries(X, ["a", "b"])
    with pytest.raises(ValueError, match=r"^Column 1 of X has"):
        check_entries(sparse.csr_array(X))
    X = np.arange(10.0).reshape(5, 2) * [1.0, 1e-201]
    with pytest.warns(DataWarning, match=r"^Column 1 of X has no entry beyond 9e-201"):
        check_entries(X, fresh=True)
    with pytest.warns(DataWarning, match=r"^Column 0 of X .* Subtract 10000000000000 from it"):
        check_entries(np.arange(5.0)[:, None] + 1e13, fresh=True)
    with pytest.raises(ValueError, match=r"^y\[2\] = -3e\+160 .* Divide y by 1e\+160"):
        check_target_sizes(np.array([1.0, 2.0, -3e160]))
    with pytest.raises(ValueError, match=r"^y has no target beyond 3e-160"):
        check_target_sizes(np.array([0.0, 3e-160]))
    check_entries(np.array([[0.1 + 0.2], [0.3]]), fresh=True)  # constant, up to rounding


def test_a_stream_goes_on_after_a_target_beyond_its_limit():
    X, y = _table()
    model = tunefree.StreamRegressor().fit(X, y)
    before = model.predict(X)
    with pytest.warns(
        DataWarning, match=r"^y\[0\] = 1e\+160 is beyond 1e\+140, and is not learned"
    ):
        model.learn_one(X[0], 1e160)
    with pytest.warns(DataWarning, match=r"^y\[1\] = 1e\+160"):
        model.partial_fit(X[:2], [y[0], 1e160])
    assert np.abs(model.predict(X) - before).max() < 0.3


@pytest.mark.parametrize("unit", [1e-119, 1e-80, 1e80, 1e139])
def test_a_stream_of_targets_in_any_unit_within_its_limits_learns_the_same(unit):
    X, y = _table()
    usual = tunefree.StreamRegressor().fit(X, y).predict(X)
    y = np.clip(y, -9.9, 9.9)
    assert np.allclose(tunefree.StreamRegressor().fit(X, unit * y).predict(X) / unit, usual)


@pytest.mark.parametrize("unit", [1e-70, 1e-25, 1e-15, 1e-10])
def test_amounts_in_a_large_unit_are_no_shares(unit):
    """Of positive targets below 1 a GLM took all for shares, and predicted 0 of tiny ones."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.exp(X[:, 0])
    assert GLMRegressor(random_state=0).fit(X, unit * y).score(X, unit * y) > 0.99
