"""What must not matter: order, storage, units, repetition, chunks, files, frames."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

from cases import NAMES, assert_same, case, decide, predictor, rows, stored, targets
from tunefree import PiSTOLRegressor

DENSE = [name for name in NAMES if name.endswith("dense")]


@pytest.mark.parametrize("name", NAMES)
def test_a_weight_is_a_repetition(name):
    for seed in range(20):
        model, X, y = case(name, 60, seed)
        weights = np.random.default_rng(seed).integers(0, 4, len(y))
        repeated = clone(model).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
        model.fit(X, y, sample_weight=weights)
        for a, b in zip(predictor(model), predictor(repeated), strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_the_rows_changes_no_bit(name):
    for seed in range(3):
        model, X, y = case(name, 240, seed)
        p = np.random.default_rng(seed).permutation(len(y))
        assert_same(clone(model).fit(X[p], y[p]), model.fit(X, y))


@pytest.mark.parametrize("kind", ["int32 matrix", "int64 matrix", "int32 array", "int64 array"])
@pytest.mark.parametrize("name", NAMES)
def test_storage_makes_no_difference(name, kind):
    model, X, y = case(name)
    other = clone(model).fit(stored(X, kind), y)
    model.fit(X, y)
    for a, b in zip(predictor(model), predictor(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(decide(model, stored(X, kind)), decide(model, X), atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_float32_in_float32_out_learned_in_float64(name):
    model, X, y = case(name)
    X = X.astype(np.float32)
    wide, narrow = clone(model).fit(X.astype(float), y), model.fit(X, y)
    assert narrow.coef_.dtype == narrow.intercept_.dtype == np.float32
    assert wide.coef_.dtype == np.float64
    np.testing.assert_allclose(narrow.coef_, wide.coef_, rtol=1e-5, atol=1e-7)
    if name.startswith("regressor"):
        assert narrow.predict(X).dtype == np.float32


@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1e8])
@pytest.mark.parametrize("name", NAMES)
def test_the_unit_of_the_data_makes_no_difference(name, scale):
    model, X, y = case(name)
    X_test = rows(name.split()[1], 500, seed=9)
    scaled = clone(model).fit(scale * X, y)
    model.fit(X, y)
    np.testing.assert_allclose(
        decide(scaled, scale * X_test), decide(model, X_test), rtol=1e-6, atol=1e-6
    )
    assert np.mean(scaled.predict(scale * X_test) == model.predict(X_test)) == 1 or (
        name.startswith("regressor")
    )


@pytest.mark.parametrize("name", NAMES)
def test_units_of_columns_make_no_difference_of_a_percent(name):
    model, X, y = case(name)
    units = np.logspace(-6, 6, X.shape[1])
    units = np.random.default_rng(0).permutation(units)
    scaled = clone(model).fit(X * units, y)
    assert scaled.score(X * units, y) == pytest.approx(model.fit(X, y).score(X, y), abs=0.01)


def test_affine_maps_of_columns_and_targets_make_no_difference():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rows("dense", seed=seed)
        y = targets(X, seed=seed)
        model = PiSTOLRegressor(random_state=0).fit(X, y)
        slope = rng.normal(size=5) * np.logspace(-3, 3, 5)
        shift = slope * X.std(axis=0) * rng.normal(size=5)
        moved = PiSTOLRegressor(random_state=0).fit(X * slope + shift, 3.0 - 1e3 * y)
        back = (3.0 - moved.predict(X * slope + shift)) / 1e3
        np.testing.assert_allclose(back, model.predict(X), rtol=0, atol=1e-10 * y.std())


@pytest.mark.parametrize("kind", ["dense", "int32 matrix"])
@pytest.mark.parametrize("name", NAMES)
def test_chunks_of_a_stream_change_no_bit(name, kind):
    model, X, y = case(name)
    weights = np.random.default_rng(0).choice([0.5, 1.0, 2.0], len(y))
    announced = {} if name.startswith("regressor") else {"classes": np.unique(y)}
    streams = []
    for size in (1, 7, 64, len(y)):
        streams.append(clone(model))
        for start in range(0, len(y), size):
            chunk = slice(start, start + size)
            streams[-1].partial_fit(
                stored(X[chunk], kind), y[chunk], sample_weight=weights[chunk], **announced
            )
    for stream in streams[:-1]:
        assert_same(stream, streams[-1])


@pytest.mark.parametrize("name", NAMES)
def test_a_pickle_goes_on_as_the_model_would(name):
    model, X, y = case(name)
    for learn in ("fit", "partial_fit"):
        model = getattr(clone(model), learn)(X[:150], y[:150])
        copy = pickle.loads(pickle.dumps(model))
        assert_same(copy, model)
        np.testing.assert_array_equal(copy.predict(X), model.predict(X))
        assert_same(copy.partial_fit(X[150:], y[150:]), model.partial_fit(X[150:], y[150:]))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("name", DENSE)
def test_frames_are_rows_with_names(name, frame):
    model, X, y = case(name)
    names = [f"column {j}" for j in range(X.shape[1])]
    table = frame(dict(zip(names, X.T, strict=True)))
    series = pd.Series(y) if frame is pd.DataFrame else pl.Series(y)
    framed = clone(model).fit(table, series)
    assert_same(framed, model.fit(X, y))
    assert list(framed.feature_names_in_) == names
    np.testing.assert_array_equal(framed.predict(table), model.predict(X))


@pytest.mark.parametrize("name", NAMES)
def test_fit_leaves_data_and_parameters_alone(name):
    model, X, y = case(name)
    before, parameters = (X.copy(), y.copy()), model.get_params()
    model.fit(X, y).predict(X)
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(y, before[1])
    assert model.get_params() == parameters
