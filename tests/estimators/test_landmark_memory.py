"""`max_memory=` and `compress=` of kernels on landmarks."""

import re
import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from tunefree import KernelRidgeClassifier, KernelRidgeRegressor


def table(n, d=5, noise=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) * X[:, 1] + noise * rng.normal(size=n)


def peak(model, X, y):
    """Bytes at the peak beside the rows."""
    tracemalloc.start()
    try:
        model.fit(X, y)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "limit, n, d, more",
    [
        (60, 3000, 5, {}),
        (60, 3000, 5, {"n_landmarks": "all"}),
        (60, 2500, 5, {"loss": "log_loss"}),
        (150, 3000, 40, {"kernel": "laplacian"}),
        (60, 20000, 5, {"n_landmarks": 500}),
        (400, 4000, 3, {}),
    ],
)
def test_fits_stay_within_the_limit(limit, n, d, more):
    X, y = table(n, d)
    make = KernelRidgeClassifier if "loss" in more else KernelRidgeRegressor
    y = y > 0 if "loss" in more else y
    model = make(max_memory=f"{limit}MB", random_state=0, **more)
    assert peak(model, X, y) <= limit * 1e6


def test_a_limit_that_binds_costs_little():
    X, y = table(4200, noise=0.3)
    few, whole = (KernelRidgeRegressor(max_memory=m, random_state=0) for m in ("40MB", None))
    X, y, new, true = X[:3000], y[:3000], X[3000:], y[3000:]
    assert peak(few, X, y) <= 40e6 < peak(whole, X, y)
    errors = [np.mean((m.predict(new) - true) ** 2) for m in (few, whole)]
    assert errors[0] < 1.05 * errors[1]
    again = KernelRidgeRegressor(max_memory=4e7, n_jobs=1, random_state=0).fit(X, y)
    np.testing.assert_array_equal(again.dual_coef_, few.dual_coef_)


@pytest.mark.parametrize("more", [{}, {"loss": "log_loss"}, {"n_landmarks": 300}])
@pytest.mark.parametrize("n", [400, 2200])
def test_a_limit_larger_than_needed_changes_no_bit(n, more):
    X, y = table(n)
    one, two = (
        KernelRidgeClassifier(max_memory=m, random_state=0, **more).fit(X, y > 0)
        for m in (None, "2GB")
    )
    np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)
    np.testing.assert_array_equal(one.predict_proba(X[:50]), two.predict_proba(X[:50]))


@pytest.mark.parametrize("more", [{}, {"kernel": "linear"}, {"n_landmarks": 200}])
def test_too_small_a_limit_is_refused_and_names_what_would_do(more):
    X, y = table(600)
    KernelRidgeRegressor(**more).fit(X, y)  # compiling takes memory, too
    with pytest.raises(MemoryError, match="max_memory=1 MB is too little: KernelRidgeReg") as told:
        KernelRidgeRegressor(max_memory="1MB", **more).fit(X, y)
    enough = 1.01e6 * float(re.search(r"at least ([\d.]+) MB", str(told.value))[1])
    assert peak(KernelRidgeRegressor(max_memory=enough, **more), X, y) <= enough
    with pytest.raises(ValueError, match="max_memory="):
        KernelRidgeRegressor(max_memory="much").fit(X, y)


def test_a_source_is_learned_within_the_limit():
    X, y = table(9000)
    model = KernelRidgeRegressor(max_memory="40MB", random_state=0)
    tracemalloc.start()
    model.fit_source((X, y))
    size = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size <= 40e6 + 2 * X.nbytes and len(model.dual_coef_) < 4000
    assert model.score(X, y) > 0.2


@pytest.mark.parametrize("asked, tolerance", [(True, 1e-3), (0.02, 0.02)])
@pytest.mark.parametrize("loss", [None, "squared_error", "log_loss"])
def test_the_loss_changes_by_less_than_was_asked(asked, tolerance, loss):
    X, y = table(700, noise=0.3)
    if loss is None:
        make, more = KernelRidgeRegressor, {}
    else:
        make, more, y = KernelRidgeClassifier, {"loss": loss}, np.digitize(y, [-0.3, 0.3])
    full, small = (make(compress=c, random_state=0, **more).fit(X, y) for c in (None, asked))
    report, n = small.compression_, len(full.dual_coef_)
    assert full.compression_ is None and report.n_support == n
    assert report.n_landmarks == len(small.dual_coef_) == len(small.landmarks_.centers) < n / 2

    def risk(model):
        if loss is None:
            return np.mean((model.predict(X) - y) ** 2)
        return -np.mean(np.log(model.predict_proba(X)[np.arange(700), y]))

    null = np.var(y) if loss is None else 1.1
    # Predictions of regression end where targets do, which the report does not know.
    assert risk(full) == pytest.approx(report.loss_before, rel=0.02)
    assert risk(small) == pytest.approx(report.loss_after, rel=0.02)
    assert abs(report.loss_after - report.loss_before) <= tolerance * null * 1.05
    gap = small.predict(X) - full.predict(X)
    if loss is None:
        size = np.sqrt(np.mean((full.predict(X) - full.intercept_) ** 2))
        assert np.sqrt(np.mean(gap**2)) == pytest.approx(report.change * size, rel=0.05)


def test_numbers_of_landmarks_and_forms_of_rows():
    X, y = table(500)
    X[np.abs(X) < 0.5] = 0.0
    options = {"compress": 40, "random_state": 0}
    dense, csr = (KernelRidgeRegressor(**options).fit(rows, y) for rows in (X, sparse.csr_array(X)))
    np.testing.assert_array_equal(dense.dual_coef_, csr.dual_coef_)
    assert len(dense.dual_coef_) == dense.compression_.n_landmarks == 40
    order = np.random.default_rng(1).permutation(500)
    again = KernelRidgeRegressor(**options).fit(X[order], y[order])
    np.testing.assert_allclose(again.predict(X), dense.predict(X), atol=1e-6)
    single = KernelRidgeRegressor(**options).fit(X.astype(np.float32), y.astype(np.float32))
    assert single.dual_coef_.dtype == np.float32 and single.compression_.change < 0.2
    linear = KernelRidgeRegressor("linear", compress=40).fit(X, y)
    assert linear.compression_ is None
    with pytest.raises(ValueError, match="compress="):
        KernelRidgeRegressor(compress=0).fit(X, y)
