"""One absurd row does not ruin a stream; clean rows pass as they are."""

import warnings
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_diabetes

from tunefree import (
    KernelPiSTOLClassifier,
    KernelPiSTOLRegressor,
    KernelRidgeClassifier,
    KernelRidgeRegressor,
    PiSTOLClassifier,
    PiSTOLRegressor,
    ReflectronRegressor,
    RidgePathRegressor,
    TuneFreeRegressor,
)
from tunefree.rows import outliers
from tunefree.rows.outliers import OutlierFilter, clip_outliers

REFLECTRON = partial(ReflectronRegressor, "identity")
ESTIMATORS = [PiSTOLClassifier, PiSTOLRegressor, RidgePathRegressor, REFLECTRON]
STREAMS = [*ESTIMATORS, KernelPiSTOLClassifier, KernelPiSTOLRegressor]


def problem(estimator, kind, seed=0, n=1400):
    """Rows, targets and test rows; columns in units that differ by 10^4."""
    rng = np.random.default_rng(seed)
    if kind == "sparse":
        X = rng.exponential(size=(n, 20)) * (rng.random((n, 20)) < 0.2)
    else:
        X = (rng.normal(size=(n, 8)) @ rng.normal(size=(8, 8)) + 5.0) * np.logspace(-2, 2, 8)
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    y = z @ rng.normal(size=X.shape[1]) + 0.3 * rng.normal(size=n)
    y = (y > 0).astype(int) if "Classifier" in getattr(estimator, "__name__", "") else y
    return X[:800], y[:800], X[800:], y[800:]


def absurd(kind, d, seed):
    rng = np.random.default_rng(seed)
    if kind == "huge":
        return np.full(d, 1e149)
    if kind == "tiny":
        return np.full(d, 1e-300)
    return rng.choice([-1, 1], d) * 10.0 ** rng.uniform(-300, 149.9, d)


def decide(model, X):
    return getattr(model, "decision_function", model.predict)(X)


def kept(X, kind):
    return sparse.csr_array(X) if kind == "sparse" else X


@pytest.mark.parametrize("row", ["mixed", "huge", "tiny", "target"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("estimator", STREAMS)
def test_an_absurd_row_costs_a_stream_at_most_a_twentieth(estimator, kind, row):
    X, y, X_test, y_test = problem(estimator, kind)
    clean = estimator(random_state=0).partial_fit(kept(X, kind), y)
    bound = 0.95 * clean.score(kept(X_test, kind), y_test)
    for place in (100, 600):  # 600: the last 200 rows are clean
        label = y[0]
        if row == "target":
            if estimator in (PiSTOLClassifier, KernelPiSTOLClassifier):
                return
            odd, label = X[0], 1e30
        else:
            odd = absurd(row, X.shape[1], place)
        dirty, labels = np.insert(X, place, odd, axis=0), np.insert(y, place, label)
        one = estimator(random_state=0).partial_fit(kept(dirty, kind), labels)
        assert one.score(kept(X_test, kind), y_test) >= bound
        many = estimator(random_state=0)
        for start in range(0, len(labels), 67):
            part = slice(start, start + 67)
            many.partial_fit(kept(dirty[part], kind), labels[part])
        same = decide(one, kept(X_test, kind)), decide(many, kept(X_test, kind))
        assert same[0].tobytes() == same[1].tobytes()


@pytest.mark.parametrize("row", ["mixed", "huge", "tiny"])
def test_an_absurd_row_costs_sparse_rows_in_memory_at_most_a_twentieth(row):
    X, y, X_test, y_test = problem(PiSTOLClassifier, "sparse")
    clean = PiSTOLClassifier(random_state=0).fit(sparse.csr_array(X), y)
    dirty = sparse.csr_array(np.insert(X, 5, absurd(row, X.shape[1], 1), axis=0))
    model = PiSTOLClassifier(random_state=0).fit(dirty, np.insert(y, 5, 1))
    assert model.score(X_test, y_test) >= 0.95 * clean.score(X_test, y_test)


@pytest.mark.parametrize("row", ["mixed", "huge", "tiny", "target"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("estimator", [RidgePathRegressor, REFLECTRON])
def test_an_absurd_row_costs_least_squares_in_memory_at_most_a_twentieth(estimator, kind, row):
    X, y, X_test, y_test = problem(estimator, kind)
    clean = estimator(random_state=0).fit(kept(X, kind), y).score(kept(X_test, kind), y_test)
    odd, label = X[0], 1e30 if row == "target" else y[0]
    if row != "target":
        odd = absurd(row, X.shape[1], 1)
    dirty, labels = kept(np.insert(X, 5, odd, axis=0), kind), np.insert(y, 5, label)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = estimator(random_state=0).fit(dirty, labels)
    assert model.score(kept(X_test, kind), y_test) >= 0.95 * clean
    name = "y" if row == "target" else "X"
    told = [str(w.message) for w in caught if str(w.message).startswith(f"{name} has entries")]
    assert [("in row 5 " in t, "taken as missing" in t) for t in told] == [(True, True)] * (
        row != "tiny"
    )


ROBUST = [PiSTOLRegressor, KernelRidgeRegressor, KernelRidgeClassifier, KernelPiSTOLClassifier,
          KernelPiSTOLRegressor]  # fmt: skip


@pytest.mark.parametrize("row", ["mixed", "huge", "target"])
@pytest.mark.parametrize("estimator", ROBUST)
def test_an_absurd_row_costs_learners_of_dense_rows_at_most_a_twentieth(estimator, row):
    X, y, X_test, y_test = problem(estimator, "dense")
    X, y, odd, label = X[:400], y[:400], X[0], 1e30
    if row != "target":
        odd, label = absurd(row, X.shape[1], 1), y[0]
    elif "Classifier" in estimator.__name__:
        return
    clean = estimator(random_state=0).fit(X, y).score(X_test, y_test)
    model = estimator(random_state=0).fit(np.insert(X, 5, odd, axis=0), np.insert(y, 5, label))
    assert model.score(X_test, y_test) >= 0.95 * clean


@pytest.mark.parametrize("candidates", [("linear",), "all"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("value", [1e30, -1e30, 1e12])
def test_an_extreme_target_costs_the_stack_a_twentieth_at_most(
    value, n_outputs, weighted, candidates
):
    X, targets = load_diabetes(return_X_y=True, scaled=False)
    targets = np.column_stack([targets, X[:, 2] + 0.1 * targets])[:, :n_outputs]
    X, targets, X_test, targets_test = X[:300], targets[:300], X[300:], targets[300:]
    weights = np.random.default_rng(0).integers(1, 4, 301) if weighted else np.ones(301)
    model = TuneFreeRegressor(candidates, random_state=0).fit(X, targets, weights[:300])
    clean = model.score(X_test, targets_test)
    odd = np.vstack([targets, targets[:1]])
    odd[300, 0] = value
    with pytest.warns(UserWarning, match="row 300 and column 0") as found:
        model.fit(np.vstack([X, X[:1]]), odd, weights)
    assert [warning.filename for warning in found] == [__file__]
    assert model.score(X_test, targets_test) >= 0.95 * clean
    assert np.isfinite(model.risk_interval_).all()


def test_an_extreme_count_costs_the_stack_of_deviances_a_twentieth_at_most():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = rng.poisson(np.exp(0.5 * X[:, 0] + 1.0)).astype(float)
    model = TuneFreeRegressor(("linear",), loss="poisson", random_state=0).fit(X[:300], y[:300])
    clean = model.score(X[300:], y[300:])
    y[7] = 1e30
    with pytest.warns(UserWarning, match="row 7 and column 0"):
        model.fit(X[:300], y[:300])
    assert model.score(X[300:], y[300:]) >= 0.95 * clean


def test_a_solver_by_its_name_learns_what_it_is_given():
    X, y, X_test, y_test = problem(RidgePathRegressor, "dense")
    labels = y.copy()
    labels[7] = 1e6
    with pytest.warns(UserWarning, match="row 7 and column 0.* learned as it is"):
        model = RidgePathRegressor(solver="exact", alphas=[1e-9]).fit(X, labels)
    design = np.column_stack([X, np.ones(len(X))])
    exact = np.linalg.lstsq(design, labels, rcond=None)[0]
    np.testing.assert_allclose(model.coef_, exact[:-1], rtol=1e-6)
    far = 1e9 * X_test
    np.testing.assert_allclose(model.predict(far), far @ model.coef_ + model.intercept_)


@pytest.mark.parametrize("verb", ["fit", "partial_fit"])
def test_a_row_far_from_all_others_is_not_extrapolated(verb):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    y = X @ [1.0, 2.0, 0.5] + 0.1 * rng.normal(size=500)
    model = getattr(RidgePathRegressor(random_state=0), verb)(X, y)
    low, high = model.prediction_limits_[:, 0]
    width = np.ptp(y)
    assert low >= y.min() - 2.0 * width and high <= y.max() + 2.0 * width
    far = model.predict([[1e9, 0.0, 0.0], [0.0, -1e200, 0.0], [1.0, 1.0, 1.0]])
    # What `fit` would take as missing is missing; after `partial_fit` lines go on to their ends.
    np.testing.assert_allclose(far[:2], [high, low] if verb == "partial_fit" else 0.0, atol=0.3)
    assert far[2] == pytest.approx(3.5, abs=0.5)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_after_a_fit_a_stream_is_guarded_too(estimator):
    X, y, X_test, y_test = problem(estimator, "dense")
    model = estimator(random_state=0).fit(X[:400], y[:400])
    before = model.score(X_test, y_test)
    model.partial_fit(X[400:600], y[400:600])
    model.partial_fit(np.full((1, 8), 1e149), y[:1])
    model.partial_fit(X[600:], y[600:])
    assert model.score(X_test, y_test) >= 0.95 * before


def test_clean_rows_pass_as_they_are():
    rng = np.random.default_rng(0)
    for X in (
        rng.normal(size=(2000, 5)),
        rng.exponential(size=(2000, 5)),
        rng.standard_t(3, (2000, 5)),
    ):
        guard = OutlierFilter.opened(X[:64])
        assert guard.screen(X) is X
        rows = sparse.csr_array(X)
        assert clip_outliers(rows, np.arange(2000)) is rows


@pytest.mark.parametrize("factor", [1e-6, 1e3, 1e140])
def test_the_unit_of_a_column_makes_no_difference(factor):
    rng = np.random.default_rng(1)
    X = rng.standard_cauchy(size=(500, 4))
    X[300, :3] *= 1e12
    X[400] *= 1e5
    unit = 2.0 ** np.round(np.log2([1.0, factor, 1.0, 1.0 / factor]))
    one, other = OutlierFilter.opened(X[:64]), OutlierFilter.opened(X[:64] * unit)
    first, second = one.screen(X), other.screen(X * unit)
    assert one.n_outliers == 1 and one.clipped > 0
    np.testing.assert_array_equal(first * unit, second)


def ordinary(law, rng, n=3000, d=10):
    """Rows of laws that a robust rule finds hard; none of their entries is absurd."""
    if law == "student":
        return rng.standard_t(1.5, (n, d))
    if law == "pareto":
        return rng.pareto(1.2, (n, d))
    if law == "log-normal":
        return rng.lognormal(0.0, 3.0, (n, d))
    if law == "decades":
        return 10.0 ** rng.uniform(-6.0, 0.0, (n, d))
    if law == "late":
        return np.where(np.arange(n)[:, None] < n // 2, 0.0, rng.normal(size=(n, d)))
    if law == "growing":
        return rng.normal(size=(n, d)) * np.exp(np.arange(n) / 300.0)[:, None]
    if law == "mixture":
        return rng.normal(size=(n, d)) * np.where(rng.random((n, d)) < 0.01, 1e3, 1.0)
    return rng.zipf(1.8, (n, d)).astype(float)


LAWS = ["student", "pareto", "log-normal", "decades", "late", "growing", "mixture", "counts"]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("kind", ["dense", "sparse", "rare"])
def test_no_ordinary_row_is_struck(law, kind):
    rng = np.random.default_rng(0)
    X = ordinary(law, rng)
    if kind != "dense":  # of rare columns the first rows show next to nothing
        X = sparse.csr_array(X * (rng.random(X.shape) < (0.3 if kind == "sparse" else 0.005)))
    guard = OutlierFilter.opened(X[:64])
    rows = guard.screen(X)
    assert guard.n_outliers == 0
    assert guard.clipped <= 0.05 * X.shape[0]
    assert (rows is X) == (guard.clipped == 0)
    if law not in ("mixture", "growing"):  # in memory, one entry of 10^4 times the others is absurd
        assert (clip_outliers(X, np.arange(X.shape[0])) != 0).sum() == (X != 0).sum()


def test_columns_whose_first_entries_are_small_lose_nothing():
    """Zipf columns with values in (0, 1): later values are up to a thousand times the first."""
    rng = np.random.default_rng(0)
    columns = np.minimum((5000 ** rng.random((4000, 20))).astype(int), 4999)
    at = np.repeat(np.arange(4000), 20), columns.ravel()
    X = sparse.csr_array((rng.integers(1, 1000, at[0].size) / 1000.0, at), shape=(4000, 5000))
    X.sum_duplicates()
    guard = OutlierFilter.opened(X[:64])
    assert guard.screen(X) is X and clip_outliers(X, np.arange(4000)) is X


@pytest.mark.parametrize("value", [1e-300, 1e-8, 1e9, 1e30, 1e149])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_an_absurd_value_changes_at_most_its_own_row(kind, value):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(500, 6)) * (1.0 if kind == "dense" else rng.random((500, 6)) < 0.3)
    for place in (70, 300):
        dirty = np.insert(X, place, [value, -value, *X[place, 2:]], axis=0)
        rows = kept(dirty, kind)
        guard = OutlierFilter.opened(rows[:64])
        out = guard.screen(rows)
        out = out.toarray() if kind == "sparse" else out
        np.testing.assert_array_equal(np.delete(out, place, axis=0), X)
        assert guard.n_outliers == (value > 1.0) and guard.clipped == 0
        centre = guard.centre[:2] if value > 1.0 else dirty[place, :2]
        np.testing.assert_array_equal(np.abs(out[place, :2]), np.abs(centre))


@pytest.mark.parametrize("law", ["student", "pareto", "log-normal", "mixture"])
def test_a_stream_of_heavy_tails_is_learned_as_well_as_in_memory(law):
    """One pass in any chunks against several: within three points of the errors."""
    rng = np.random.default_rng(5)
    X = ordinary(law, rng, n=4000)
    score = X @ rng.normal(size=10)
    score -= np.median(score)
    y = (score / np.median(np.abs(score)) + 0.5 * rng.logistic(size=4000) > 0).astype(int)
    memory = PiSTOLClassifier(random_state=0).fit(X[:2000], y[:2000])
    one = PiSTOLClassifier(random_state=0).partial_fit(X[:2000], y[:2000])
    assert one.score(X[2000:], y[2000:]) >= memory.score(X[2000:], y[2000:]) - 0.03
    many = PiSTOLClassifier(random_state=0)
    for start in range(0, 2000, 173):
        many.partial_fit(X[start : min(start + 173, 2000)], y[start : min(start + 173, 2000)])
    assert decide(one, X).tobytes() == decide(many, X).tobytes()


def test_the_limits_of_a_stream_follow_a_jump_within_256_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1024, 3))
    X[600:, 0] += 100.0
    y = (X[:, 1] > 0).astype(int)
    model = PiSTOLClassifier().partial_fit(X[:600], y[:600])
    assert model._stream.caps[1][0] < 50.0
    assert model.partial_fit(X[600:900], y[600:900])._stream.caps[1][0] > 100.0


@pytest.mark.parametrize("value", [11.0, 1e3, 1e6])
def test_what_is_merely_far_counts_as_the_farthest_and_lets_the_reach_grow_tenfold(value):
    guard = OutlierFilter.of(np.zeros(1))
    guard.screen(np.ones((100, 1)))
    out = guard.screen(np.full((9, 1), -value)).ravel()
    expected = [-min(value, 10.0**k) if value > 10.0 ** (k + 1) else -value for k in range(9)]
    np.testing.assert_allclose(out, expected)
    assert guard.n_outliers == 0


@pytest.mark.parametrize("jump", [1e2, 1e5, 1e100, 1e300])
def test_a_real_change_of_scale_is_followed(jump):
    """After log2(log10(jump)) struck rows in a row, or log10(jump) clipped ones."""
    guard = OutlierFilter.of(np.zeros(1))
    guard.screen(np.full((100, 1), 1e-150))
    out = guard.screen(np.full((20, 1), 1e-150 * jump)).ravel()
    assert np.count_nonzero(out == 0.0) <= np.ceil(np.log2(np.log10(jump))) + 1
    assert out[-1] == 1e-150 * jump
    if jump > 1e5:
        return
    guard = OutlierFilter.of(np.zeros(1))
    guard.screen(np.full((100, 1), 1.0))
    out = guard.screen(np.tile([[jump], [1.0]], (20, 1)))[::2].ravel()
    assert np.count_nonzero(out != jump) <= np.ceil(np.log10(jump))
    assert out[-1] == jump


def test_absurd_rows_that_keep_coming_are_struck_for_long():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(10_000, 2))
    X[50::100] = 1e140
    out = OutlierFilter.opened(X[:64]).screen(X)
    assert np.abs(out).max() < 10.0


@pytest.mark.parametrize("power", [0, 2, 5, 7, 9, 20])
def test_what_is_plainly_not_struck_is_not_struck(power):
    rng = np.random.default_rng(power)
    X = rng.normal(size=(60, 4)) * 10.0 ** rng.uniform(0, power, size=(60, 4))
    if outliers._no_outliers(X, np.zeros(4)):
        for _ in range(20):
            guard = OutlierFilter.of(np.zeros(4))
            guard._sweep(X, rng.permutation(60), False)
            assert not guard.n_outliers
    else:
        assert power >= 5


@pytest.mark.parametrize("spoilt", [None, 7, 900])
def test_what_ends_a_sweep_early_changes_nothing(spoilt, monkeypatch):
    X = np.random.default_rng(0).normal(size=(1000, 3))
    X[:, 2] = 1.0
    if spoilt is not None:
        X[spoilt, 1] = 1e9
    whole = clip_outliers(X, np.arange(1000))
    monkeypatch.setattr(outliers, "_FIRST_ROWS", 100)
    monkeypatch.setattr(outliers, "_FEW_ENTRIES", 0)
    early = clip_outliers(X, np.arange(1000))
    assert (early is X) == (spoilt is None) and np.array_equal(early, whole)


@pytest.mark.parametrize("outlier", [1.0, 30.0, 1e6, 1e17])
@pytest.mark.parametrize("unit", [1.0, 1e-17])
def test_a_scan_of_the_uneven_columns_is_one_of_all(outlier, unit, monkeypatch):
    rng = np.random.default_rng(0)
    X = 10.0 ** rng.uniform(-0.3, 0.3, (300, 40)) * (rng.random((300, 40)) < 0.2)
    X[:, 0] *= 10.0 ** rng.uniform(-1.0, 1.0, 300)
    X[:, 1] *= unit
    X[200, 2] = outlier
    X, rows = sparse.csr_array(X), rng.permutation(300)
    some = outliers._uneven_columns(X)
    assert 0 in some and (len(some) < 40) == (unit == 1.0 and outlier < 1e16)
    given = clip_outliers(X, rows)
    monkeypatch.setattr(outliers, "_uneven_columns", lambda X: np.arange(X.shape[1]))
    whole = clip_outliers(X, rows)
    assert (given is X) == (whole is X) == (outlier == 1.0)
    assert np.array_equal(given.data, whole.data)
