"""Laws of all estimators on tables of any shape, type and storage, as hypothesis finds them."""

import pickle
import tempfile
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone, is_classifier

import tunefree
from papers import baselines

SEEDED = {"random_state": 0}
KINDS = {
    "PiSTOL": tunefree.PiSTOLClassifier(**SEEDED),
    "PiSTOL, regression": tunefree.PiSTOLRegressor(**SEEDED),
    "ridge": tunefree.RidgePathRegressor(**SEEDED),
    "SGD": tunefree.RidgePathRegressor(solver="sgd", max_iter=3, **SEEDED),
    # One geometry: where two have the same risk, rounding chooses between them.
    "Reflectron": tunefree.ReflectronClassifier(potential="euclidean", max_iter=20, **SEEDED),
    "Reflectron, regression": tunefree.ReflectronRegressor(
        "identity", potential="euclidean", max_iter=20, **SEEDED
    ),
    "Perceptron": tunefree.OptimisticPerceptron(max_iter=30),
    "kernel Perceptron with a proof": tunefree.perceptron.KernelOptimisticPerceptron(max_iter=30),
    "kernel PiSTOL": tunefree.KernelPiSTOLClassifier(**SEEDED),
    "kernel PiSTOL, regression": tunefree.KernelPiSTOLRegressor(**SEEDED),
    "kernel Perceptron": baselines.KernelPerceptron(**SEEDED),
    "kernel SGD": baselines.KernelAveragedSGDClassifier(**SEEDED),
    "kernel SGD, regression": baselines.KernelAveragedSGDRegressor(**SEEDED),
    "landmarks": tunefree.KernelRidgeClassifier(**SEEDED),
    "landmarks, regression": tunefree.KernelRidgeRegressor(**SEEDED),
    "TuneFree": tunefree.TuneFreeClassifier(candidates=("linear",), **SEEDED),
    "TuneFree, regression": tunefree.TuneFreeRegressor(candidates=("linear",), **SEEDED),
}
STREAMS = [name for name, model in KINDS.items() if hasattr(model, "partial_fit") and name != "SGD"]
# Proofs rest on sums in the order given; all others learn in the order of a hash of the rows.
PROVEN = ["Perceptron", "kernel Perceptron with a proof"]
# Whose columns may have any unit each. Kernels look at columns as they are, too.
FREE = [n for n in KINDS if "ernel" not in n and n not in PROVEN]
ONE_UNIT = [n for n in KINDS if n not in PROVEN]
# Whose targets may have any unit and origin.
AFFINE = [n for n, model in KINDS.items()
          if not is_classifier(model) and n not in ("SGD", "Reflectron, regression")]  # fmt: skip
PROBABLE = [n for n, model in KINDS.items() if hasattr(model, "predict_proba")]


@st.composite
def tables(draw):
    """Rows, class numbers, targets, weights and a generator; zeros, whole numbers, rows twice."""
    n, d, k = draw(st.integers(6, 60)), draw(st.integers(1, 5)), draw(st.integers(2, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < draw(st.sampled_from([0.2, 0.7, 1.0])))
    if draw(st.booleans()):
        X = np.round(X)
    y = np.concatenate([np.arange(k), rng.integers(0, k, size=n - k)])
    X = (X + 0.5 * y[:, None] * rng.normal(size=d)).astype(draw(st.sampled_from(["f4", "f8"])))
    weights = rng.integers(0, 4, size=n).astype(float)
    weights[:k] = 1.0 + rng.integers(0, 3, size=k)
    return X, y, 3.0 * X.astype(float).sum(axis=1) + rng.normal(size=n), weights, rng


def targets_of(name, labels, real):
    return labels if is_classifier(KINDS[name]) else real


def fit(name, X, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(KINDS[name]).fit(X, y, **options)


def decide(model, X):
    return np.asarray(getattr(model, "decision_function", model.predict)(X))


def assert_near(one, other, name):
    """Equal to the last bit, or up to rounding for the estimators that sum rows as given."""
    if name in PROVEN:
        digits = 1e-5 if one.dtype == np.float32 else 1e-8
        np.testing.assert_allclose(one, other, rtol=0, atol=digits * np.abs(other).max())
    else:
        np.testing.assert_array_equal(one, other)


def law(names):
    """A law of some estimators on a few tables."""
    few = settings(max_examples=4, deadline=None, derandomize=True, database=None)
    return lambda test: pytest.mark.parametrize("name", names)(few(given(table=tables())(test)))


@law(KINDS)
def test_weights_are_repetitions_and_zeros_are_absent(name, table):
    X, labels, real, weights, _ = table
    y, twice = targets_of(name, labels, real), np.repeat(np.arange(len(X)), weights.astype(int))
    weighted = decide(fit(name, X, y, sample_weight=weights), X)
    assert_near(weighted, decide(fit(name, X[twice], y[twice]), X), name)
    kept = weights > 0
    without = decide(fit(name, X, y, sample_weight=kept.astype(float)), X)
    assert_near(without, decide(fit(name, X[kept], y[kept]), X), name)


@law(KINDS)
def test_neither_the_order_of_rows_nor_the_storage_tells(name, table):
    X, labels, real, _, rng = table
    y, mixed = targets_of(name, labels, real), rng.permutation(len(X))
    expected = decide(fit(name, X, y), X)
    assert_near(decide(fit(name, X[mixed], y[mixed]), X), expected, name)
    if name == "SGD" or name.startswith("TuneFree"):
        return  # the first centres columns of arrays only, the others rescale those only
    csr = sparse.csr_array(X)
    csr.indices, csr.indptr = csr.indices.astype(np.int64), csr.indptr.astype(np.int64)
    # Sums over stored entries end in other last digits, which twenty steps carry on.
    digits = 1e-4 if X.dtype == np.float32 else 1e-8
    for rows in (csr, sparse.csr_matrix(X)):
        stored = decide(fit(name, rows, y), rows)
        np.testing.assert_allclose(stored, expected, rtol=0, atol=digits * np.abs(expected).max())


@law(ONE_UNIT)
def test_units_of_columns_do_not_tell(name, table):
    """Powers of two change no bit."""
    X, labels, real, _, rng = table
    y = targets_of(name, labels, real)
    units = 2.0 ** rng.integers(-9, 10, size=X.shape[1] if name in FREE else 1)
    scaled = X * units.astype(X.dtype)
    np.testing.assert_array_equal(decide(fit(name, scaled, y), scaled), decide(fit(name, X, y), X))


@law(AFFINE)
def test_units_and_origins_of_targets_do_not_tell(name, table):
    X, _, y, _, _ = table
    expected, digits = decide(fit(name, X, y), X), 1e-5 if X.dtype == np.float32 else 1e-9
    size = digits * np.abs(y).max()
    scaled, moved = fit(name, X, 1024.0 * y), fit(name, X, y + 64.0)
    np.testing.assert_allclose(decide(scaled, X) / 1024.0, expected, rtol=0, atol=size)
    np.testing.assert_allclose(decide(moved, X) - 64.0, expected, rtol=0, atol=size + 64.0 * digits)


@law(PROBABLE)
def test_probabilities_add_up_and_agree_with_the_labels(name, table):
    X, y, *_ = table
    model = fit(name, X, y)
    p = model.predict_proba(X)
    assert p.shape == (len(X), len(model.classes_)) and (p >= 0.0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=0, atol=1e-6)
    second, first = np.sort(p, axis=1)[:, -2:].T
    clear = first - second > 1e-6
    np.testing.assert_array_equal(model.predict(X)[clear], model.classes_[p.argmax(axis=1)][clear])


@law(KINDS)
def test_pickles_keep_every_bit_and_types_stay(name, table):
    X, labels, real, *_ = table
    model = fit(name, X, targets_of(name, labels, real))
    expected = decide(model, X)
    assert expected.dtype == X.dtype
    assert decide(pickle.loads(pickle.dumps(model)), X).tobytes() == expected.tobytes()


@law([name for name, model in KINDS.items() if hasattr(tunefree, type(model).__name__)])
def test_files_keep_every_bit(name, table):
    X, labels, real, *_ = table
    model = fit(name, X, targets_of(name, labels, real))
    with tempfile.TemporaryDirectory() as folder:
        tunefree.save_model(model, f"{folder}/model")
        loaded = tunefree.load_model(f"{folder}/model")
    assert decide(loaded, X).tobytes() == decide(model, X).tobytes()


@law(STREAMS)
def test_chunks_of_a_stream_do_not_tell(name, table):
    X, labels, real, _, rng = table
    y, model = targets_of(name, labels, real), clone(KINDS[name])
    options = {"classes": np.unique(labels)} if is_classifier(model) else {}
    whole = clone(model).partial_fit(X, y, **options)
    cuts = np.sort(rng.integers(1, len(X), size=3))
    for rows in np.split(np.arange(len(X)), np.unique(cuts)):
        model.partial_fit(X[rows], y[rows], **options)
        model = pickle.loads(pickle.dumps(model))
    assert decide(model, X).tobytes() == decide(whole, X).tobytes()
