"""Frames of several types, partitions without rows, and rows that cannot be learned from."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

pd = pytest.importorskip("pandas")
pytest.importorskip("dask")
pytest.importorskip("distributed")
dd = pytest.importorskip("dask.dataframe")

import dask.array as da  # noqa: E402

from tunefree import dask as tfd  # noqa: E402
from tunefree.files.model import load_model, save_model  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning",
    "ignore::DeprecationWarning",
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore:X does not have valid feature names:UserWarning",
)
N = 240


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=N), "b": rng.integers(0, 5, N)})
    frame["flag"] = rng.random(N) < 0.5
    frame["whole"] = pd.array(rng.integers(0, 3, N), dtype="Int64")
    frame["text"] = np.where(frame.a + frame.flag > 0.3, "yes", "no")
    frame["when"] = pd.date_range("2020", periods=N)
    frame["label"] = frame.text.astype("category")
    frame["number"] = 2.0 * frame.a - frame.b
    frame["hole"] = frame.number.where(frame.a < 2.0)
    frame["gap"] = frame.text.where(frame.a < 1.5)
    return dd.from_pandas(frame, npartitions=3)


COLUMNS = ["a", "b", "flag", "whole"]
FAST = {"max_iter": 5, "potential": "euclidean"}


def test_columns_of_any_number_type_and_labels_of_any_kind(client, frame):
    model = tfd.DaskReflectronClassifier(**FAST).fit(frame[COLUMNS], frame["label"])
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.score(frame[COLUMNS], frame["label"]) > 0.9
    lazy = model.predict_proba(frame[COLUMNS])
    assert lazy.columns.tolist() == ["no", "yes"]
    here = model.to_local().predict_proba(frame[COLUMNS].compute())
    pd.testing.assert_frame_equal(
        lazy.compute(), pd.DataFrame(here, columns=["no", "yes"], index=lazy.compute().index)
    )
    lazy = model.predict(frame[COLUMNS])
    assert lazy.dtype == lazy.compute().dtype


def test_partitions_without_rows_are_learned_and_predicted(client, frame):
    some = frame.loc[frame.index < 100]  # the third partition is empty
    model = tfd.DaskReflectronClassifier(**FAST).fit(some[COLUMNS], some["text"])
    assert len(model.predict(some[COLUMNS]).compute()) == 100
    unknown = some[COLUMNS].to_dask_array()
    assert model.predict_proba(unknown).compute().shape == (100, 2)


@pytest.mark.parametrize(
    "kind, columns, target, message",
    [
        ("GLMClassifier", ["a", "when"], "text", "Column 'when' of X holds dates: give numbers"),
        ("GLMClassifier", ["a", "hole"], "text", r"partition \d: Input X contains NaN"),
        ("GLMClassifier", ["a"], "gap", r"partition \d: Input y contains N\w+. The first is"),
        ("ReflectronClassifier", ["a"], "number", r"partition \d: y holds fractions"),
        # partition 1 has fractions and no hole: the first partition's error is the one that is told
        ("ReflectronClassifier", ["a"], "hole", r"partition 0: Input y contains NaN"),
        ("ReflectronClassifier", ["a"], ["b", "flag"], r"partition \d: y should be a 1d array"),
        ("ReflectronRegressor", ["a"], "text", r"partition \d: y must hold numbers"),
    ],
)
def test_a_partition_that_cannot_be_learned_from_is_named(
    client, frame, kind, columns, target, message
):
    with pytest.raises(ValueError, match=message):
        getattr(tfd, f"Dask{kind}")().fit(frame[columns], frame[target])


def test_a_local_model_of_tables_can_be_saved(client, frame, tmp_path):
    rows = frame[["a", "text"]]
    local = tfd.DaskReflectronRegressor(**FAST).fit(rows, frame["b"]).to_local()
    save_model(local, tmp_path / "model")
    again = load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(rows.compute()), local.predict(rows.compute()))


def test_rows_of_another_shape_are_refused_before_work_starts(client, frame):
    with pytest.raises(NotFittedError):
        tfd.DaskReflectronRegressor("logit").predict(frame[["a"]])
    with pytest.raises(NotFittedError):
        tfd.DaskReflectronRegressor("logit").to_local()
    model = tfd.DaskReflectronRegressor(link="identity", **FAST).fit(
        frame[COLUMNS], frame["number"]
    )
    with pytest.raises(ValueError, match="(?s)missing.*flag"):
        model.predict(frame[["a", "b", "whole"]])
    with pytest.raises(ValueError, match="3 features, but ReflectronRegressor is expecting 4"):
        model.predict(da.zeros((4, 3), chunks=2))
    with pytest.raises(ValueError, match="X has 1 dimension"):
        model.predict(da.zeros(4, chunks=2))


def test_streams_are_for_the_local_estimators():
    assert not hasattr(tfd.DaskGLMClassifier(), "partial_fit")
    assert not hasattr(tfd.DaskRidgePathRegressor(), "fit_source")
