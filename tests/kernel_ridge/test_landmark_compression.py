"""`compress=` of kernels on landmarks."""

import numpy as np
import pytest
from scipy import sparse

from tunefree import KernelRidgeClassifier, KernelRidgeRegressor


def table(n, d=5, noise=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) * X[:, 1] + noise * rng.normal(size=n)


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
