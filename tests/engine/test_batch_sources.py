"""Batch learners pass over a source as they pass over memory: the same model up to rounding."""

from unittest import mock

import numpy as np
import pytest
from scipy import sparse

from hidden import with_settings
from tunefree import (
    GLMClassifier,
    GLMRegressor,
    OptimisticPerceptron,
    ReflectronRegressor,
    open_source,
)
from tunefree.reflectron import descent
from tunefree.reflectron.constraints import L1Ball
from tunefree.reflectron.potentials import Hypentropy
from tunefree.rows.order import hashed_visits, row_hash

RNG = np.random.default_rng(0)
ROWS, COLUMNS = 1300, 12
DENSE = RNG.standard_normal((ROWS, COLUMNS)) * np.logspace(-2, 3, COLUMNS) + np.arange(COLUMNS)
SPARSE = sparse.random_array((ROWS, COLUMNS), density=0.3, rng=RNG, format="csr")
SCORES = (DENSE - np.arange(COLUMNS)) / np.logspace(-2, 3, COLUMNS) @ RNG.standard_normal(COLUMNS)
MEANS = 1.0 / (1.0 + np.exp(-SCORES))
SHARES = 1.0 / (1.0 + np.exp(-4.0 * (SPARSE @ np.linspace(-1.0, 1.0, COLUMNS))))
LABELS = np.where(SCORES > 1, "high", np.where(SCORES > -1, "middle", "low"))
COUNTS = np.floor(np.exp(1.0 + 0.3 * SCORES))
WEIGHTS = RNG.integers(0, 3, ROWS) * 1.0


def pieces_of(X, y, weights=None, size=170):
    def pieces():
        for start in range(0, X.shape[0], size):
            part = slice(start, start + size)
            yield (X[part], y[part]) if weights is None else (X[part], y[part], weights[part])

    return pieces


def holding_out_the_same(estimator, X, seed):
    """The estimator, with the rows held out in memory that a source holds out."""

    members_of = descent.HeldOutFolds.members

    class Same(estimator):
        def _fit(self, setup, training):
            rows = training.positive()
            order = hashed_visits(rows.X, rows.targets, rows.weights, seed).unique()[0]

            def members(folds, places):
                turn = (row_hash(rows.X[order], seed) % np.uint64(folds.number)).astype(int)
                return members_of(folds, turn)

            with mock.patch.object(descent.HeldOutFolds, "members", members):
                return super()._fit(setup, training)

    return Same


def close(one, other):
    assert np.allclose(one.coef_, other.coef_, rtol=1e-6, atol=1e-9 * np.abs(other.coef_).max())
    assert np.allclose(one.intercept_, other.intercept_, rtol=1e-6, atol=1e-9)
    assert one.potential_ == other.potential_ and one.n_iter_ == other.n_iter_


CASES = {
    "dense": (ReflectronRegressor, DENSE, MEANS, None, {}),
    "sparse": (ReflectronRegressor, SPARSE, SHARES, None, {}),
    "weights": (ReflectronRegressor, DENSE, MEANS, WEIGHTS, {}),
    "two outputs": (ReflectronRegressor, DENSE, np.stack([MEANS, 1 - MEANS], axis=1), None, {}),
    "classes": (GLMClassifier, DENSE, LABELS, WEIGHTS, {"n_splits": 1}),
    "few rows": (GLMClassifier, DENSE[:400], LABELS[:400], None, {}),
    "own units": (ReflectronRegressor, SPARSE, SHARES, None, {"standardize": False}),
    "constraint": (
        ReflectronRegressor, SPARSE, SHARES, None,
        {"constraint": [None, L1Ball(3.0)], "potential": Hypentropy(1e-4), "fit_intercept": False},
    ),
    "counts": (GLMRegressor, DENSE, COUNTS, None, {"family": "poisson", "n_splits": 1}),
    "nothing held out": (ReflectronRegressor, DENSE, MEANS, None,
                         {"validation_fraction": 0.0, "potential": "euclidean", "max_iter": 60}),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", CASES)
def test_the_batch_reflectron_finds_what_it_finds_in_memory(name):
    estimator, X, y, weights, options = CASES[name]
    link = {"link": "logit"} if estimator is ReflectronRegressor else {}
    options = {"random_state": 3, "max_iter": 150} | link | options
    expected = with_settings(holding_out_the_same(estimator, X, 3), **options)
    expected.fit(X, y, sample_weight=weights)
    model = with_settings(estimator, **options).fit_source(pieces_of(X, y, weights))
    close(model, expected)
    assert model.coef_.shape == expected.coef_.shape
    again = with_settings(estimator, **options).fit_source(pieces_of(X, y, weights, size=ROWS))
    assert again.coef_.tobytes() == model.coef_.tobytes()


def test_the_batch_reflectron_reads_a_file_whose_columns_grow(tmp_path):
    X = SPARSE.tolil()
    X[:700, 8:] = 0.0
    X = sparse.csr_array(X)
    rows = np.split(np.stack([X.indices + 1, X.data], axis=1), X.indptr[1:-1])
    lines = [
        f"{y!r} " + " ".join(f"{int(j)}:{v!r}" for j, v in row.tolist())
        for y, row in zip(SHARES.tolist(), rows, strict=True)
    ]
    (tmp_path / "data.svm").write_text("\n".join(lines))
    model = ReflectronRegressor("logit", random_state=3).fit_source(tmp_path / "data.svm")
    close(
        model,
        holding_out_the_same(ReflectronRegressor, X, 3)("logit", random_state=3).fit(X, SHARES),
    )


def test_what_a_batch_learner_cannot_learn_from_is_said():
    with pytest.raises(ValueError, match="solver='batch' needs many passes"):
        ReflectronRegressor("logit", solver="batch").fit_source(iter([(DENSE, MEANS)]))
    with pytest.raises(ValueError, match="only one class"):
        GLMClassifier().fit_source((DENSE, np.zeros(ROWS)))
    with pytest.raises(ValueError, match="no row with a positive weight"):
        ReflectronRegressor("logit").fit_source((DENSE, MEANS, np.zeros(ROWS)))


SEPARABLE = np.abs(SCORES) > 1
NEAR = DENSE[SEPARABLE] / np.abs(DENSE).max(axis=0)
SIDES = np.where(SCORES[SEPARABLE] > 0, 1, -1)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    "options",
    [
        {"method": "min-norm", "stop": "margin"},
        {"method": "auto", "stop": "margin"},
        {"method": "accelerated", "max_iter": 40},
        {"potential": "euclidean", "max_iter": 40},
        {"max_iter": 40},
    ],
    ids=str,
)
def test_separators_find_what_they_find_in_memory(kind, options):
    X, y = kind(NEAR), SIDES
    weights = np.where(np.arange(len(y)) % 50 == 7, 0.0, 1.0)
    expected = OptimisticPerceptron(**options).fit(X, y, sample_weight=weights)
    model = OptimisticPerceptron(**options).fit_source(pieces_of(X, y, weights, size=230))
    assert np.allclose(model.coef_, expected.coef_, atol=1e-7)
    assert np.allclose(model.margin_bounds_[:2], expected.margin_bounds_[:2], rtol=1e-6)
    assert model.separated_ == expected.separated_ and model.n_updates_ == expected.n_updates_
    if options.get("method"):
        kept = expected.support_weights_[weights > 0.0]
        assert np.allclose(model.support_weights_, kept, atol=1e-6)


def test_a_separator_fetches_the_rows_that_support_it(tmp_path):
    source = open_source((NEAR, SIDES))
    model = OptimisticPerceptron("min-norm", stop="margin").fit_source(source)
    assert model.separated_ and model.margin_bounds_.certified
    three = OptimisticPerceptron("auto").fit_source(pieces_of(DENSE[:100], LABELS[:100]))
    assert three.classes_.tolist() == ["high", "low", "middle"]
