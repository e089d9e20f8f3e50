"""One row at a time: the predictions of all rows, as an array and as a frame."""

import numpy as np
import pandas as pd
import pytest

import tunefree
from tunefree import KernelRidgeRegressor, TablePreprocessor, TuneFreeRegressor
from tunefree.kernels.coordinates import coordinates
from tunefree.rows.matrices import plain_rows

NAMES = ["a", "b", "c"]


def table(n=120):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=n), np.exp(2 * rng.normal(size=n)), rng.integers(0, 5, n)])
    return X, np.sin(2.0 * X[:, 0]) + (X[:, 2] == 3) + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("name", ["TuneFree", "KernelRidge", "BoostedTrees", "PiSTOL", "GLM"])
@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
def test_a_row_alone_has_the_prediction_that_it_has_among_others(name, kind):
    X, y = table()
    model = getattr(tunefree, name + kind)(random_state=0).fit(X, y > 0.5 if "C" in kind else y)
    output = model.predict if kind == "Regressor" else model.decision_function
    together = output(X)
    alone = np.concatenate([output(X[i : i + 1]) for i in range(len(X))])
    np.testing.assert_allclose(alone, together, atol=1e-9 * np.abs(together).max())


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "linear"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_rows_and_many_have_the_same_kernel_values(kernel, dtype):
    X, y = table()
    X, y = X.astype(dtype), np.column_stack([y, X[:, 0]])
    model = KernelRidgeRegressor(kernel, random_state=0).fit(X, y)
    few, many = model.predict(X[:3]), model.predict(X)[:3]
    assert few.dtype == many.dtype
    np.testing.assert_allclose(few, many, atol=1e-3 if dtype == np.float32 else 1e-10)


@pytest.mark.parametrize("model", [KernelRidgeRegressor, TuneFreeRegressor])
def test_a_frame_is_its_array(model):
    X, y = table()
    frame = pd.DataFrame(X, columns=NAMES).astype({"c": int})
    found = model(random_state=0).fit(frame, y).predict(frame[:1])
    np.testing.assert_array_equal(found, model(random_state=0).fit(X, y).predict(X[:1]))


def test_rows_that_need_a_check_are_checked():
    X, _ = table()
    frame = pd.DataFrame(X, columns=NAMES)
    by_name, by_place = TablePreprocessor().fit(frame), TablePreprocessor().fit(X)
    np.testing.assert_array_equal(plain_rows(by_name, frame), X)
    assert plain_rows(by_place, X) is X
    gaps = frame.mask(frame > 1.0)
    for rows in (frame[NAMES[::-1]], frame[:0], frame.astype(str), frame.astype("category"), gaps):
        assert plain_rows(by_name, rows) is None
    for rows in (X[:, :2], X[0], X[:0], X.astype(str), X > 0, X + np.inf, X.tolist(), frame):
        assert plain_rows(by_place, rows) is None
    assert plain_rows(by_name, X) is None  # scikit-learn warns of it
    assert plain_rows(by_place, gaps.to_numpy(), missing=True) is not None
    with pytest.raises(ValueError, match="same order"):
        by_name.transform(frame[NAMES[::-1]])


def test_coordinates_are_those_of_numpy():
    X, _ = table()
    view, (other, _) = coordinates(X, np.ones(len(X))), table(40)
    other = np.vstack([1.5 * other, X[:40]])
    for i, found in enumerate(view.show(other).T):
        x, part = other[:, view.source[i]], slice(view.start[i], view.start[i + 1])
        z = np.clip((x - view.center[i]) / view.scale[i], -6.0, 6.0)
        expected = z, None, x == view.center[i]
        if view.kind[i] == 1:
            expected = None, np.interp(x, view.knots[part], view.heights[part]), None
        np.testing.assert_array_equal(found, expected[view.kind[i]])
    for wrong in (view.source + 3, -view.source - 1):
        with pytest.raises(ValueError, match="coordinates do not fit"):
            view._replace(source=wrong).show(other)
    with pytest.raises(ValueError, match="coordinates do not fit"):
        view._replace(start=view.start + 10**6).show(other)
