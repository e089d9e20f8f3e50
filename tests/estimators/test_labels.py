"""Classes on streams: balanced weights that rest on the rows so far, whatever the chunks."""

import numpy as np
import pytest
from sklearn.utils.class_weight import compute_class_weight

from tunefree import KernelPiSTOLClassifier, PiSTOLClassifier
from tunefree.estimators.labels import stream_labels

STREAMS = [KernelPiSTOLClassifier, PiSTOLClassifier]


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
