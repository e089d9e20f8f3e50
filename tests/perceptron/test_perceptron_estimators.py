"""The separating estimators: scikit-learn's contract, published proofs, inputs of all kinds."""

from io import BytesIO
from itertools import islice

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Perceptron
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from papers.datasets import make_perceptron_hard
from tunefree import OptimisticPerceptron
from tunefree.perceptron import ClassicalPerceptron
from tunefree.perceptron.estimators import KernelOptimisticPerceptron
from tunefree.perceptron.optimistic import PLAYERS

METHODS = ["optimistic", "accelerated", "min-norm", "auto"]
every_method = pytest.mark.parametrize("method", METHODS)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        OptimisticPerceptron("auto", stop="margin"),
        OptimisticPerceptron("accelerated"),
        OptimisticPerceptron(potential="euclidean", fit_intercept=False),
        ClassicalPerceptron(),
        KernelOptimisticPerceptron("precomputed", method="auto", max_iter=200),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 6))
    scores = X @ rng.normal(size=6) + 0.4
    keep = np.abs(scores) > 0.3
    return X[keep], np.where(scores[keep] > 0, "yes", "no")


def check_proof(model, X, y, positive):
    """The two published vectors prove the two published bounds."""
    signs = np.where(y == positive, 1.0, -1.0)
    Z = signs[:, None] * np.column_stack([X, np.full(len(X), model.intercept_scale_)])
    w = model.coef_[0], model.intercept_ / (model.intercept_scale_ or 1.0)
    w = np.concatenate(w).astype(float)
    lower, upper, certified = model.margin_bounds_
    assert certified
    assert lower <= (Z @ w).min() / np.linalg.norm(w) * (1 + 1e-12) or not model.separated_
    p = model.support_weights_
    assert p.min() >= 0 and p.sum() == pytest.approx(1)
    assert upper == pytest.approx(np.linalg.norm(Z.T @ p), rel=1e-9)
    return lower, upper


@every_method
@pytest.mark.parametrize("stop", ["separated", "margin"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_published_vectors_prove_the_bounds(data, method, stop, fit_intercept):
    X, y = data
    if not fit_intercept:
        X, y = X[y == "yes"], y.copy()
        half = np.arange(len(X)) % 2 == 0
        X, y = np.where(half[:, None], X, -X), np.where(half, "yes", "no")
    model = OptimisticPerceptron(method, stop=stop, fit_intercept=fit_intercept).fit(X, y)
    lower, upper = check_proof(model, X, y, "yes")
    assert model.separated_ and model.score(X, y) == 1.0
    assert model.status_.startswith("separated with a margin of at least")
    if stop == "margin":
        assert upper - lower <= 0.01 * upper
        svc = SVC(kernel="linear", C=1e8, tol=1e-6)
        Z = np.column_stack([X, np.full(len(X), model.intercept_scale_)])
        gram = svc.fit(Z, y)  # its intercept is free: its margin is at least ours
        assert lower <= 1.0 / np.linalg.norm(gram.coef_) * 1.001


def test_updates_and_operations_are_those_of_the_paper():
    X, y = make_perceptron_hard(8)
    optimistic = OptimisticPerceptron(step="paper", fit_intercept=False).fit(X, y)
    assert (optimistic.n_updates_, optimistic.n_operations_) == (489, 8810)
    classical = ClassicalPerceptron(fit_intercept=False, max_iter=10**6).fit(X, y)
    assert (classical.n_updates_, classical.n_operations_) == (21_845, 109_230)
    assert classical.n_iter_ == -(-(109_230 - 21_845) // 8)


def test_classical_perceptron_is_scikit_learns():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(50, 4))
    y = (X @ rng.normal(size=4) > 0).astype(int)
    ours = ClassicalPerceptron(fit_intercept=False).fit(X, y)
    theirs = Perceptron(shuffle=False, fit_intercept=False, tol=None, max_iter=ours.n_iter_ + 5)
    np.testing.assert_allclose(ours.coef_, theirs.fit(X, y).coef_, rtol=1e-9)


@pytest.mark.filterwarnings("default::sklearn.exceptions.ConvergenceWarning")
def test_passes_are_limited_with_a_warning():
    X, y = make_perceptron_hard(8)
    for passes in (1, 2, 7, 100):
        with pytest.warns(ConvergenceWarning, match="did not separate"):
            model = ClassicalPerceptron(max_iter=passes, fit_intercept=False).fit(X, y)
        assert model.n_iter_ == passes
    with pytest.warns(ConvergenceWarning, match="largest margin lies in"):
        model = OptimisticPerceptron(max_iter=5, step="paper", fit_intercept=False).fit(X, y)
    assert model.n_updates_ == 5 and not model.margin_bounds_.certified


@every_method
def test_rows_that_are_not_separable_are_named_so(data, method):
    X, y = data
    y = y.copy()
    y[::15] = np.where(y[::15] == "yes", "no", "yes")
    model = OptimisticPerceptron(method).fit(X, y)
    lower, upper = check_proof(model, X, y, "yes")
    assert not model.separated_ and lower == 0.0
    assert model.status_.startswith("no separator with a margin above")
    radius = np.sqrt((X**2).sum(axis=1).max() + model.intercept_scale_**2)
    assert upper <= 1e-4 * radius
    assert model.score(X, y) >= 0.85


def test_a_given_margin_is_reached_or_proved_impossible(data):
    X, y = data
    reference = OptimisticPerceptron("min-norm", stop="margin", tol=1e-6).fit(X, y)
    margin = reference.margin_bounds_.lower
    possible = OptimisticPerceptron(step="paper", margin=0.9 * margin).fit(X, y)
    assert possible.separated_
    X, y = np.vstack([X, X[:1]]), np.append(y, "no" if y[0] == "yes" else "yes")
    impossible = OptimisticPerceptron(step="paper", margin=margin).fit(X, y)
    assert not impossible.separated_ and impossible.margin_bounds_.certified
    assert impossible.margin_bounds_.upper <= margin


@every_method
def test_scale_of_the_rows_does_not_matter(data, method):
    X, y = data
    model = OptimisticPerceptron(method, stop="margin").fit(X, y)
    scaled = OptimisticPerceptron(method, stop="margin").fit(2.0**20 * X, y)
    assert scaled.n_updates_ == model.n_updates_
    np.testing.assert_allclose(scaled.coef_, model.coef_, rtol=1e-9)
    np.testing.assert_allclose(
        scaled.margin_bounds_.upper, 2.0**20 * model.margin_bounds_.upper, rtol=1e-9
    )


@pytest.mark.parametrize(
    "convert",
    [
        pd.DataFrame,
        pl.DataFrame,
        sparse.csr_matrix,
        sparse.csr_array,
        sparse.csc_array,
        lambda X: sparse.csr_array(X).astype(float),
    ],
)
@pytest.mark.parametrize(
    "model", [OptimisticPerceptron(), ClassicalPerceptron(), KernelOptimisticPerceptron("linear")]
)
def test_every_container_gives_the_same_decisions(data, convert, model):
    X, y = data
    if convert in (pd.DataFrame, pl.DataFrame):
        converted = convert({f"x{j}": X[:, j] for j in range(X.shape[1])})
    else:
        converted = convert(X)
        if converted.format == "csr":
            converted.indices = converted.indices.astype(np.int64)
            converted.indptr = converted.indptr.astype(np.int64)
    expected = model.fit(X, y).decision_function(X)
    scores = model.fit(converted, y).decision_function(converted)
    np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-9)


def test_float32_is_computed_in_float64(data):
    X, y = data
    X = X.astype(np.float32)
    for model in (OptimisticPerceptron(), ClassicalPerceptron()):
        single, double = model.fit(X, y).coef_, model.fit(X.astype(float), y).coef_
        assert single.dtype == np.float32 and double.dtype == np.float64
        np.testing.assert_array_equal(single, double.astype(np.float32))
    model = KernelOptimisticPerceptron().fit(X, y)
    assert model.dual_coef_.dtype == model.decision_function(X).dtype == np.float32


def test_several_classes_are_one_separator_each():
    rng = np.random.default_rng(2)
    centres = 6.0 * np.array([[0, 1], [1, -1], [-1, -1]])
    X = np.vstack([c + rng.normal(size=(30, 2)) for c in centres])
    y = np.repeat(["a", "b", "c"], 30)
    model = OptimisticPerceptron(stop="margin").fit(X, y)
    assert model.coef_.shape == (3, 2) and model.support_weights_.shape == (3, 90)
    assert model.separated_.all() and model.score(X, y) == 1.0 and len(model.status_) == 3
    for k, name in enumerate("abc"):
        one = OptimisticPerceptron(stop="margin").fit(X, y == name)
        assert model.margin_bounds_.upper[k] == one.margin_bounds_.upper
        np.testing.assert_array_equal(model.coef_[k], one.coef_[0])


def test_rows_of_weight_zero_are_left_out(data):
    X, y = data
    extra = X[:3]
    flipped = np.where(y[:3] == "yes", "no", "yes")
    weights = np.append(np.zeros(3), np.full(len(y), 2.0))
    for model in (OptimisticPerceptron(), KernelOptimisticPerceptron("linear")):
        expected = model.fit(X, y).decision_function(X)
        upper = model.margin_bounds_.upper
        model.fit(np.vstack([extra, X]), np.append(flipped, y), weights)
        assert (model.support_weights_[:3] == 0).all() and model.margin_bounds_.upper == upper
        np.testing.assert_allclose(model.decision_function(X), expected)


def test_rows_of_a_file_are_never_kept(data, tmp_path):
    X, y = data
    X[np.abs(X) < 0.3] = 0.0
    dump_svmlight_file(X, y == "yes", str(tmp_path / "rows.txt"), zero_based=True)
    lines, passes = (tmp_path / "rows.txt").read_bytes().splitlines(keepends=True), []
    X, _ = load_svmlight_file(str(tmp_path / "rows.txt"), zero_based=True)  # as text rounds it

    def blocks():
        passes.append(0)
        with open(tmp_path / "rows.txt", "rb") as file:
            while piece := b"".join(islice(file, 16)):
                yield load_svmlight_file(BytesIO(piece), n_features=6, zero_based=True)

    assert len(lines) == len(y)
    whole = OptimisticPerceptron(stop="margin").fit(X, y)
    streamed = OptimisticPerceptron(stop="margin").fit_source(blocks)
    assert streamed.n_updates_ == whole.n_updates_ and streamed.support_weights_ is None
    assert len(passes) == whole.n_iter_ + 2  # one for the first rows, one for the longest row
    np.testing.assert_allclose(streamed.coef_, whole.coef_, rtol=1e-9)
    np.testing.assert_allclose(streamed.margin_bounds_, whole.margin_bounds_, rtol=1e-9)
    assert streamed.status_ == whole.status_
    np.testing.assert_array_equal(streamed.predict(X), whole.predict(X) == "yes")
    assert set(OptimisticPerceptron().fit_source(blocks, classes=[0, 2]).classes_) == {0, 1, 2}


def test_blocks_give_the_separators_of_all_rows():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(90, 3))
    y = (X + 0.1 * rng.normal(size=X.shape)).argmax(axis=1)
    pieces = [(X[i : i + 25], y[i : i + 25], np.ones(len(y[i : i + 25]))) for i in (0, 25, 50, 75)]
    whole = OptimisticPerceptron().fit(X, y)
    streamed = OptimisticPerceptron().fit_source(lambda: pieces)
    np.testing.assert_allclose(streamed.coef_, whole.coef_, rtol=1e-7, atol=1e-12)
    assert streamed.n_updates_ == whole.n_updates_
    unused = (-X[:5], y[:5], np.zeros(5))
    streamed.fit_source(lambda: [unused, *pieces])
    np.testing.assert_allclose(streamed.coef_, whole.coef_, rtol=1e-7, atol=1e-12)
    with pytest.raises(ValueError, match="negative"):
        streamed.fit_source(lambda: [(X, y, -np.ones(90))])
    empty = OptimisticPerceptron(fit_intercept=False)
    empty.fit_source(lambda: [(np.zeros((4, 2)), np.array([0, 0, 1, 1]))])
    assert empty.margin_bounds_ == (0.0, 0.0, True)


@every_method
@pytest.mark.parametrize("scale", [1e-35, 1e35])
def test_bounds_hold_at_the_ends_of_the_range(data, method, scale):
    X, y = data
    exact = OptimisticPerceptron("min-norm", stop="margin", tol=1e-6).fit(X, y).margin_bounds_
    lower, upper, certified = (
        OptimisticPerceptron(method, stop="margin").fit(scale * X, y).margin_bounds_
    )
    assert certified
    assert lower <= scale * exact.upper * (1 + 1e-9)
    assert upper >= scale * exact.lower * (1 - 1e-9)


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_rows_beyond_the_range_are_refused(data, scale):
    X, y = data
    for model in (OptimisticPerceptron(), ClassicalPerceptron(), KernelOptimisticPerceptron()):
        with pytest.raises(ValueError, match="largest entry of X"):
            model.fit(scale * X, y)


@every_method
def test_the_linear_kernel_gives_the_linear_separator(data, method):
    X, y = data
    linear = OptimisticPerceptron(method, stop="margin").fit(X, y)
    kernel = KernelOptimisticPerceptron("linear", method=method, stop="margin").fit(X, y)
    assert kernel.n_updates_ == linear.n_updates_
    np.testing.assert_allclose(
        kernel.decision_function(X), linear.decision_function(X), rtol=1e-6, atol=1e-7
    )
    np.testing.assert_allclose(kernel.dual_coef_ @ X[kernel.support_], linear.coef_, atol=1e-7)


def test_precomputed_kernel_is_the_named_one():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 2))
    y = (X**2).sum(axis=1) > 1.5
    named = KernelOptimisticPerceptron(gamma=0.5).fit(X[:60], y[:60])
    given = KernelOptimisticPerceptron("precomputed").fit(rbf_kernel(X[:60], gamma=0.5), y[:60])
    called = KernelOptimisticPerceptron(lambda a, b: np.exp(-0.5 * ((a - b) ** 2).sum()))
    called.fit(X[:60], y[:60])
    assert named.separated_ and named.score(X[60:], y[60:]) > 0.8
    scores = named.decision_function(X[60:])
    np.testing.assert_allclose(
        given.decision_function(rbf_kernel(X[60:], X[:60], gamma=0.5)), scores, rtol=1e-9
    )
    np.testing.assert_allclose(called.decision_function(X[60:]), scores, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("method", "fast"),
        ("stop", "soon"),
        ("potential", "cubic"),
        ("step", -1.0),
        ("step", "long"),
        ("step", "adaptive"),
        ("tol", 0.0),
        ("margin", -1.0),
        ("max_iter", 0),
        ("intercept_scaling", 0.0),
    ],
)
def test_wrong_parameters_are_named(data, name, value):
    with pytest.raises(ValueError, match=name):
        OptimisticPerceptron(**{name: value}).fit(*data)


@every_method
def test_rows_that_are_all_zero(method):
    X, y = np.zeros((4, 2)), np.array([0, 0, 1, 1])
    model = OptimisticPerceptron(method, fit_intercept=False).fit(X, y)
    assert model.margin_bounds_ == (0.0, 0.0, True) and not model.separated_
    model = OptimisticPerceptron(method).fit(X, y)
    assert not model.separated_ and np.isfinite(model.coef_).all()


def test_gamma_means_what_it_means_to_support_vector_machines(data):
    X, y = data
    scaled = KernelOptimisticPerceptron(max_iter=50).fit(X, y)
    assert scaled.gamma_ == pytest.approx(1.0 / (X.shape[1] * X.var()))
    given = KernelOptimisticPerceptron(gamma=scaled.gamma_, max_iter=50).fit(X, y)
    np.testing.assert_array_equal(given.decision_function(X), scaled.decision_function(X))
    for wrong in (None, "scale", "median", 0.0):
        with pytest.raises(ValueError, match="gamma"):
            KernelOptimisticPerceptron(gamma=wrong).fit(X, y)


@pytest.mark.parametrize("potential", PLAYERS)
def test_a_potential_is_its_part(data, potential):
    X, y = data
    named = OptimisticPerceptron(potential=potential).fit(X, y)
    part = OptimisticPerceptron(potential=PLAYERS[potential]).fit(X, y)
    np.testing.assert_array_equal(part.coef_, named.coef_)
    with pytest.raises(ValueError, match="potential"):
        OptimisticPerceptron(potential="simplex").fit(X, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("separator", [OptimisticPerceptron, KernelOptimisticPerceptron,
                                       ClassicalPerceptron])  # fmt: skip
def test_auto_is_ten_thousand_passes(separator):
    X, y = np.array([[1.0], [1.0], [2.0]]), [0, 1, 1]
    auto, named = (separator(**limit).fit(X, y) for limit in ({}, {"max_iter": 10_000}))
    np.testing.assert_array_equal(auto.decision_function(X), named.decision_function(X))
    assert auto.n_iter_ == named.n_iter_
