"""`compress=` of the kernel estimators."""

import numpy as np
import pytest
from scipy import sparse

from tunefree import KernelPiSTOLClassifier
from tunefree.kernels.kernels import RBF


def spirals(n, seed, n_classes=2):
    rng = np.random.default_rng(seed)
    y, t = rng.integers(0, n_classes, n), rng.uniform(0.5, 3.0, n)
    angle = 2.0 * t + 2.0 * np.pi * y / n_classes
    X = np.stack([t * np.cos(angle), t * np.sin(angle)], axis=1)
    # A tenth of the labels is drawn anew, so that there are support rows everywhere.
    y = np.where(rng.random(n) < 0.1, rng.integers(0, n_classes, n), y)
    return X + 0.1 * rng.normal(size=X.shape), y


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("asked, tolerance", [(True, 1e-3), (0.02, 0.02)])
def test_the_log_loss_changes_by_less_than_was_asked(n_classes, asked, tolerance):
    X, y = spirals(600, 0, n_classes)
    full = KernelPiSTOLClassifier(random_state=0).fit(X, y)
    small = KernelPiSTOLClassifier(random_state=0, compress=asked).fit(X, y)
    report = small.compression_
    assert full.compression_ is None and report.n_support == len(full.support_)
    assert report.n_landmarks == len(small.support_) < len(full.support_) / 2
    losses = [
        -np.mean(m.predict_log_proba(X)[np.arange(600), np.searchsorted(m.classes_, y)])
        for m in (full, small)
    ]
    # All rows are checked here; a row of training holds each of the support rows.
    assert losses[0] == pytest.approx(report.loss_before, rel=1e-5)
    assert losses[1] == pytest.approx(report.loss_after, rel=1e-5)
    assert abs(losses[1] - losses[0]) <= tolerance * np.log(n_classes)
    assert set(small.support_) <= set(full.support_)
    np.testing.assert_array_equal(small.dual_coef_.shape[-1], report.n_landmarks)


def test_a_number_of_landmarks():
    X, y = spirals(400, 0)
    model = KernelPiSTOLClassifier(random_state=0, compress=25).fit(X, y)
    assert len(model.support_) == model.compression_.n_landmarks == 25


def test_forms_of_rows_give_the_same_landmarks():
    X, y = spirals(300, 0)
    options = {"random_state": 0, "compress": 20, "precision": "double"}
    dense = KernelPiSTOLClassifier(gamma=1.0, **options).fit(X, y)
    csr = KernelPiSTOLClassifier(gamma=1.0, **options).fit(sparse.csr_array(X), y)
    np.testing.assert_array_equal(dense.support_, csr.support_)


def test_precomputed_values_are_refused():
    X, y = spirals(50, 0)
    with pytest.raises(ValueError, match="compress= needs rows"):
        KernelPiSTOLClassifier(kernel="precomputed", compress=30).fit(RBF(1.0).gram(X, X), y)


@pytest.mark.parametrize("value", [0, -3, 0.0, 1.0, 2.5, "some", float("nan")])
def test_what_is_no_compression_is_refused(value):
    X, y = spirals(50, 0)
    with pytest.raises(ValueError, match="compress="):
        KernelPiSTOLClassifier(compress=value).fit(X, y)
