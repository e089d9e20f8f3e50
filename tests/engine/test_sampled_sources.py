"""Kernels on landmarks and `TuneFree*` learn a source, or a cluster, from a sample and sums."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from tunefree import (
    BoostedTreesClassifier,
    BoostedTreesRegressor,
    KernelRidgeClassifier,
    KernelRidgeRegressor,
    TuneFreeClassifier,
    TuneFreeRegressor,
)
from tunefree.base.from_source import SourceSample
from tunefree.core.blas import eigh
from tunefree.kernel_ridge import solvers as ridge
from tunefree.kernels.nystroem import accumulate, make_landmarks, solve
from tunefree.trees import estimator as trees

RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, (900, 2))
Y = np.sin(2.0 * X[:, 0]) * X[:, 1] + 0.1 * RNG.normal(size=900)
LABELS = np.where(Y > 0.3, "b", np.where(Y < -0.5, "a", "c"))


def pieces_of(X, y, size=170):
    return lambda: ((X[a : a + size], y[a : a + size]) for a in range(0, len(y), size))


@pytest.fixture
def few(monkeypatch):
    """Samples of 300 rows."""
    monkeypatch.setattr(ridge, "EXACT_ROWS", 300)


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("as_rows", [np.asarray, sparse.csr_array])
def test_a_sample_of_parts_is_the_sample_of_all(labels, as_rows):
    rows = as_rows(X[np.r_[:900, :300]])  # the first rows twice
    y, weights = (LABELS if labels else Y)[np.r_[:900, :300]], np.ones(1200)
    whole = SourceSample.of(rows, y, weights, 1, 200, labels)
    cuts = [0, 100, 777, 1200]
    parts = [
        SourceSample.of(rows[a:b], y[a:b], weights[a:b], 1, 200, labels)
        for a, b in zip(cuts[:-1], cuts[1:], strict=True)
    ]
    joined = parts[2].join(parts[0]).join(parts[1])
    for one, other in zip(whole, joined, strict=True):
        one, other = (a.toarray() if sparse.issparse(a) else a for a in (one, other))
        assert np.array_equal(one, other)
    assert len(whole.y) == 200 and set(whole.weights) == {1.0, 2.0}
    assert not whole.whole and SourceSample.of(rows, y, weights, 1, 5000, labels).whole


@pytest.mark.parametrize("most", [400, 100_000])
def test_trees_learn_an_even_sample(monkeypatch, most):
    monkeypatch.setattr(trees, "_MOST_SAMPLED", most)
    for kind, y in ((BoostedTreesRegressor, Y), (BoostedTreesClassifier, LABELS)):
        model = kind(random_state=0).fit_source(pieces_of(X, y))
        other = kind(random_state=0).fit_source(pieces_of(X[::-1], y[::-1], 333))
        assert (model.predict(X) == other.predict(X)).all()
        if most > len(y):
            assert (model.predict(X) == kind(random_state=0).fit(X, y).predict(X)).all()
        assert model.score(X, y) > 0.8


def test_a_sample_has_rows_of_every_class():
    y = np.zeros(900, dtype=int)
    y[[17, 800]] = 1
    assert np.bincount(SourceSample.of(X, y, np.ones(900), 0, 50, True).y).tolist() == [50, 2]


def test_sums_over_parts_are_those_over_all_and_solve_the_same():
    geometry = KernelRidgeRegressor(random_state=0).fit(X[:200], Y[:200]).geometry_
    A, y, weights = np.ascontiguousarray(geometry.show(X)), Y[:, None], np.ones(900)
    marks = make_landmarks(A[:40], geometry)

    def sums(part):
        A_, y_, w = A[part], y[part], weights[part]
        return accumulate(marks, lambda a, b: A_[a:b], y_, w)

    parts = sums(slice(500)).plus(sums(slice(500, 900)))
    given = A[:100], y[:100], weights[:100]
    merged = solve(marks, lambda a, b: given[0][a:b], *given[1:], sums=parts)
    whole = solve(marks, lambda a, b: A[a:b], y, weights, most=100)
    np.testing.assert_allclose(merged.held_out, whole.held_out, rtol=1e-6, atol=1e-6)


def test_a_solution_from_sums_takes_the_memory_of_three_matrices():
    """The matrix of the eigenvectors, and twice as much for the decomposition."""
    geometry = KernelRidgeRegressor(random_state=0).fit(X[:200], Y[:200]).geometry_
    A, y, weights = np.ascontiguousarray(geometry.show(X)), Y[:, None], np.ones(900)
    marks = make_landmarks(A, geometry)
    few, y, weights = (lambda a, b: A[a:b]), y[:90], weights[:90]
    tracemalloc.start()
    solve(marks, few, y, weights, sums=accumulate(marks, few, y, weights))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3.5 * 8 * 900**2


def test_the_eigendecomposition_in_place_is_numpys():
    A = np.cov(RNG.normal(size=(60, 90)))
    expected = np.linalg.eigh(A)
    for found, numbers in zip(eigh(np.array(A, order="F")), expected, strict=True):
        np.testing.assert_allclose(found, numbers, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind, y", [(KernelRidgeRegressor, Y), (KernelRidgeClassifier, LABELS)])
def test_a_source_of_few_rows_is_memory(kind, y):
    model = kind(random_state=0).fit_source(pieces_of(X, y))
    expected = kind(random_state=0).fit(X, y)
    assert model.dual_coef_.tobytes() == expected.dual_coef_.tobytes()


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_many_rows_say_more_than_their_sample_in_chunks_of_any_size(few, kernel):
    models = [
        KernelRidgeRegressor(kernel, random_state=0).fit_source(pieces_of(X, Y, size))
        for size in (170, 13)
    ]
    one, other = (model.predict(X) for model in models)
    np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    sample = SourceSample.of(X, Y, np.ones(900), 0, 300)
    alone = KernelRidgeRegressor(kernel, random_state=0).fit(sample.X, sample.y)
    assert models[0].leave_one_out_risk_ <= alone.leave_one_out_risk_
    assert (models[0].prediction_limits_ == [[Y.min()], [Y.max()]]).all()


@pytest.mark.parametrize("kind, y", [(TuneFreeRegressor, Y), (TuneFreeClassifier, LABELS)])
def test_tune_free_races_on_a_sample_and_has_all_rows_learned(few, kind, y):
    model = kind(candidates=("kernel",), random_state=0).fit_source(pieces_of(X, y))
    assert "Chosen on a sample of 300 rows. Fitted on all 900 rows: " in model.report_.reason
    assert model.score(X, y) > 0.9


def test_linear_models_of_a_stack_learn_a_source_by_themselves(few):
    y = np.where(X @ [1.0, -2.0] > 0.1, "yes", "no")
    model = TuneFreeClassifier(candidates=("linear",), random_state=0).fit_source(pieces_of(X, y))
    assert model.score(X, y) > 0.97
    assert "Fitted on all 900 rows: linear" in model.report_.reason


def test_a_glm_of_a_stack_learns_a_source_by_itself(few):
    rows = np.random.default_rng(0).normal(size=(600, 100))
    y = rows[:, :3].sum(axis=1) + 0.1 * np.random.default_rng(1).normal(size=600)
    model = TuneFreeRegressor(candidates=("linear",), random_state=0).fit_source(pieces_of(rows, y))
    assert "Fitted on all 600 rows: GLM" in model.report_.reason
    assert model.score(rows, y) > 0.99


def test_class_weights_are_weights_of_all_rows():
    """Beyond the sample, too: the models of the stack learn all rows with weights of classes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9000, 3))
    y = (X[:, 0] + rng.normal(size=9000) > 1.8).astype(int)
    options = {"candidates": ("linear",), "random_state": 0}
    one = TuneFreeClassifier(class_weight={0: 1, 1: 9}, **options).fit_source((X, y))
    two = TuneFreeClassifier(**options).fit_source(lambda: [(X, y, 1.0 + 8.0 * y)])
    assert "Fitted on all 9000 rows: linear" in one.report_.reason
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    model = TuneFreeClassifier(class_weight="balanced", **options)
    weights = np.where(y == 1, 1.0 / y.mean(), 1.0 / (1.0 - y.mean()))
    in_memory, of_a_source = (
        np.average(found.predict_proba(X)[:, 1], weights=weights)
        for found in (clone(model).fit(X, y), model.fit_source((X, y)))
    )
    assert of_a_source == pytest.approx(in_memory, abs=0.1)
