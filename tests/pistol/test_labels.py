"""Classes on streams: balanced weights that rest on the rows so far, whatever the chunks."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.class_weight import compute_class_weight

from tunefree import (
    GLMClassifier,
    KernelPiSTOLClassifier,
    KernelRidgeClassifier,
    PiSTOLClassifier,
    ReflectronClassifier,
    open_source,
)
from tunefree.base.base import stream_labels
from tunefree.perceptron import KernelOptimisticPerceptron
from tunefree.reflectron.constraints import NonNegative

STREAMS = [GLMClassifier, KernelPiSTOLClassifier, PiSTOLClassifier]


def example(n=400, n_classes=3, seed=0):
    """Rows of classes of very different size."""
    rng = np.random.default_rng(seed)
    y = rng.choice(n_classes, n, p=np.r_[np.full(n_classes - 1, 0.1), 1.1 - 0.1 * n_classes])
    return rng.standard_normal((n, 4)) + np.eye(n_classes, 4)[y], y


def streamed(cls, X, y, size, **announced):
    model = cls(class_weight="balanced", random_state=0)
    for start in range(0, len(y), size):
        chunk = slice(start, start + size)
        model.partial_fit(X[chunk], y[chunk], **announced)
        announced = {}
    return model


def test_a_streams_row_weighs_what_scikit_learn_gives_it_at_that_time():
    _, y = example(60)
    _, _, weights, _ = stream_labels(
        PiSTOLClassifier(class_weight="balanced"), y, np.ones(60), None, None
    )
    for t in range(1, len(y) + 1):
        seen = y[:t]
        each = compute_class_weight("balanced", classes=np.unique(seen), y=seen)
        assert weights[t - 1] == pytest.approx(each[np.searchsorted(np.unique(seen), y[t - 1])])


@pytest.mark.parametrize("cls", STREAMS)
def test_balanced_streams_do_not_depend_on_their_chunks(cls):
    X, y = example()
    once = streamed(cls, X, y, len(y), classes=[0, 1, 2])
    pieces = streamed(cls, X, y, 7, classes=[0, 1, 2])
    np.testing.assert_array_equal(once.decision_function(X), pieces.decision_function(X))
    np.testing.assert_array_equal(once.class_count_, np.bincount(y))


@pytest.mark.parametrize("cls", STREAMS)
def test_balanced_streams_treat_late_classes_as_announced_ones(cls):
    X, y = example()
    y[:100] = np.where(y[:100] == 1, 0, y[:100])
    announced = streamed(cls, X, y, 20, classes=[0, 1, 2])
    late = streamed(cls, X, y, 20)
    np.testing.assert_allclose(
        announced.decision_function(X), late.decision_function(X), rtol=1e-6, atol=1e-9
    )


@pytest.mark.parametrize("options", [{}, {"average": "last"}, {"batch_size": 3}, {"link": "tanh"}])
@pytest.mark.parametrize("first", [(0, 2), (0, 1, 2)])
def test_a_reflectrons_late_classes_are_as_if_announced(first, options):
    """Of two classes, too, whose one output becomes two."""
    X, y = example(200, len(first) + 1)
    y[:61] = np.asarray(first)[y[:61] % len(first)]
    options = {"potential": "hypentropy", "step": 0.05} | options
    announced = ReflectronClassifier(**options).partial_fit(X, y, classes=np.unique(y))
    late = ReflectronClassifier(**options)
    for rows in np.split(np.arange(200), [61, 100]):
        late.partial_fit(X[rows], y[rows])
    np.testing.assert_allclose(late.coef_, announced.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(late.intercept_, announced.intercept_, rtol=1e-9, atol=1e-12)


def test_a_reflectrons_pair_without_a_mirror_image_takes_no_third_class():
    X, y = example(100)
    for options in ({"link": "cloglog"}, {"constraint": NonNegative()}):
        model = ReflectronClassifier(potential="hypentropy", **options)
        model.partial_fit(X[y < 2], y[y < 2])
        with pytest.raises(ValueError, match="announce all classes"):
            model.partial_fit(X, y)


def test_a_reflectron_learns_a_source_whose_classes_nobody_announced():
    X, y = example()
    source = open_source(lambda: ((X[i : i + 50], y[i : i + 50]) for i in range(0, 400, 50)))
    model = ReflectronClassifier(solver="stochastic").fit_source(source)
    np.testing.assert_array_equal(model.coef_, GLMClassifier().partial_fit(X, y).coef_)
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])
    with pytest.raises(ValueError, match="class_weight needs rows in memory"):
        GLMClassifier(class_weight="balanced").fit_source(source)


def test_a_glms_class_weights_are_weights_of_rows():
    X, y = example()
    each = compute_class_weight("balanced", classes=np.arange(3), y=y)
    balanced = GLMClassifier(class_weight="balanced", random_state=0).fit(X, y)
    spelt = GLMClassifier(class_weight=dict(enumerate(each)), random_state=0).fit(X, y)
    weighted = GLMClassifier(random_state=0).fit(X, y, sample_weight=each[y])
    np.testing.assert_allclose(balanced.coef_, weighted.coef_, rtol=1e-12)
    np.testing.assert_allclose(spelt.coef_, weighted.coef_, rtol=1e-12)


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
@pytest.mark.parametrize("n", [30, 200])  # 30 rows are shrunk by folds
def test_class_weights_of_kernel_ridge_are_weights_of_rows(n, loss):
    X, y = example(n)
    given = np.random.default_rng(1).integers(1, 4, n)
    totals = np.bincount(y, given)
    each = given.sum() / (3 * totals)
    model = KernelRidgeClassifier(loss=loss, compress=20, random_state=0)
    weighted = model.fit(X, y, given * each[y]).predict_proba(X)
    for class_weight in ("balanced", dict(enumerate(each))):
        named = clone(model).set_params(class_weight=class_weight)
        for fit in (named.fit, lambda *rows, named=named: named.fit_source(rows)):
            assert fit(X, y, given).predict_proba(X).tobytes() == weighted.tobytes()


def test_class_weights_of_kernel_ridge_need_rows_in_memory():
    X, y = example(8100)
    with pytest.raises(ValueError, match="class_weight needs all rows in memory"):
        KernelRidgeClassifier(class_weight="balanced").fit_source((X, y))


@pytest.mark.parametrize("cls", [*STREAMS, KernelRidgeClassifier])
def test_probabilities_have_logarithms(cls):
    X, y = example(100)
    model = cls(random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict_log_proba(X), np.log(model.predict_proba(X)))
    np.testing.assert_array_equal(model.predict(X), model.predict_proba(X).argmax(axis=1))


def test_without_probabilities_there_are_no_logarithms_and_the_message_says_why():
    assert not hasattr(KernelOptimisticPerceptron(), "predict_log_proba")
    with pytest.raises(AttributeError, match="predict_log_proba"):
        PiSTOLClassifier("paper").predict_log_proba(0)
