"""Kernel PiSTOL on streams: chunks make no difference, classes may come late, memory is bounded."""

import numpy as np
import pytest
from scipy import sparse

from tunefree import KernelPiSTOLClassifier, KernelPiSTOLRegressor, load_model, save_model

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1500, 2))
RADIUS = np.hypot(*X.T)
Y = {"two": (RADIUS > 1.2).astype(int), "three": np.digitize(RADIUS, [0.8, 1.5])}
WAVE = np.stack([np.sin(2 * X[:, 0]), 10.0 * X[:, 1]], axis=1)


def stream(model, X, y, size, w=None, **options):
    for start in range(0, len(X), size):
        part = slice(start, start + size)
        model.partial_fit(X[part], y[part], sample_weight=None if w is None else w[part], **options)
    return model


def classifier(**options):
    return KernelPiSTOLClassifier(random_state=0, **options)


@pytest.mark.parametrize("labels", Y)
def test_chunks_make_no_difference_and_reading_changes_nothing(labels):
    y, found = Y[labels], []
    for size in (1, 7, 64, 128, len(X)):
        model = classifier(n_jobs=1 + size % 2)
        if size == 7:
            # Someone looks at the predictor in the middle of a block.
            stream(model, X[:200], y[:200], 7, classes=np.unique(y)).predict(X[:3])
            stream(model, X[200:300], y[200:300], 7)
        else:
            stream(model, X[:300], y[:300], size, classes=np.unique(y))
        found.append(model.decision_function(X[300:400]))
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@pytest.mark.parametrize("labels", Y)
def test_learns_drops_bandwidths_and_is_calibrated(labels):
    y = Y[labels]
    model = stream(classifier(), X[:1200], y[:1200], 100)
    assert model.score(X[1200:], y[1200:]) > 0.93
    assert sum(row["dropped"] for row in model.leaderboard_) == 3
    assert sum(row["chosen"] for row in model.leaderboard_) == 3
    p = model.predict_proba(X[1200:])
    assert np.log(p[np.arange(300), y[1200:]]).mean() > -0.3


def test_classes_that_appear_late_are_as_if_announced():
    y = Y["three"][np.argsort(Y["three"], kind="stable")]
    order = np.argsort(Y["three"], kind="stable")
    late = stream(classifier(), X[order][:600], y[:600], 50, classes=[0, 1])
    late = stream(late, X[order][600:], y[600:], 50)
    early = stream(classifier(), X[order], y, 50, classes=[0, 1, 2])
    np.testing.assert_array_equal(late.classes_, [0, 1, 2])
    np.testing.assert_array_equal(late.predict(X), early.predict(X))


def test_a_weight_of_two_is_the_row_twice():
    w = RNG.integers(0, 3, 300).astype(float)
    one = stream(classifier(), X[:300], Y["two"][:300], 50, w)
    r = np.repeat(np.arange(300), w.astype(int))
    other = stream(classifier(), X[r], Y["two"][r], 64)
    np.testing.assert_array_equal(one.decision_function(X), other.decision_function(X))


def test_a_budget_bounds_the_support():
    model = stream(classifier(max_support=100), X, Y["two"], 60)
    assert len(model.expansion_.support) <= 100
    assert model.score(X, Y["two"]) > 0.9


@pytest.mark.parametrize("budget", [0, 1, -3, 2.5, True, "all"])
def test_a_budget_of_nothing_is_refused(budget):
    with pytest.raises(ValueError, match="max_support"):
        stream(classifier(max_support=budget), X, Y["two"], 60)


def test_sizes_of_chunks_change_no_prediction_of_numbers():
    found = []
    for size in (1, 50, len(X)):
        model = stream(KernelPiSTOLRegressor(random_state=0), X[:500], WAVE[:500], size)
        found.append(model.predict(X))
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])
    model = stream(KernelPiSTOLRegressor(random_state=0), X[:1200], WAVE[:1200], 100)
    assert model.score(X[1200:], WAVE[1200:]) > 0.9


def test_model_files_hold_what_a_stream_has_learned(tmp_path):
    model = stream(classifier(), X[:300], Y["two"][:300], 50)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))


def test_a_stream_after_fit_is_a_new_model():
    fitted, fresh = classifier().fit(X[:90], Y["three"][:90]), classifier()
    with pytest.warns(UserWarning, match="new model"):
        fitted.partial_fit(X, Y["two"])
    fresh.partial_fit(X, Y["two"])
    np.testing.assert_array_equal(fitted.decision_function(X), fresh.decision_function(X))


def test_what_a_stream_refuses():
    with pytest.raises(ValueError, match="precomputed"):
        classifier(kernel="precomputed").partial_fit(X[:5] @ X[:5].T, [0, 1, 0, 1, 0])
    with pytest.raises(ValueError, match="one class"):
        classifier().partial_fit(X, np.zeros(len(X)))


@pytest.mark.parametrize("make", [KernelPiSTOLClassifier, KernelPiSTOLRegressor])
def test_how_chunks_are_stored_makes_no_difference(make):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 6)) * (rng.random((600, 6)) < 0.5)
    y = X @ np.arange(6.0)
    y = y > 0 if make is KernelPiSTOLClassifier else y
    told = []
    for kinds in ([0], [1], [0, 1], [1, 1, 0]):
        model = make(random_state=0)
        for k, start in enumerate(range(0, 600, 50)):
            chunk = X[start : start + 50]
            chunk = sparse.csr_array(chunk) if kinds[k % len(kinds)] else chunk
            model.partial_fit(chunk, y[start : start + 50])
        told.append(model.predict(sparse.csr_array(X[:40])))
        np.testing.assert_array_equal(told[-1], model.predict(X[:40]))
    assert all((other == told[0]).all() for other in told)
