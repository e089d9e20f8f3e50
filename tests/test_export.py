"""ONNX graphs say what the models say."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import tunefree
from tunefree.files.model import ModelError
from tunefree.kernels.kernels import KERNELS
from tunefree.onnx import to_onnx
from tunefree.parts import links
from tunefree.uncertainty.calibration import Slopes

onnxruntime = pytest.importorskip("onnxruntime")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(160, 4)) * [1.0, 10.0, 0.1, 1.0] + [0.0, 3.0, 0.0, 0.0]
Z = X / X.std(axis=0)
Y = Z @ [1.0, -1.0, 0.5, 0.0] + 0.1 * RNG.normal(size=160)
BINARY, THREE = (Y > -2.0).astype(int), np.array(["a", "b", "ç"])[np.digitize(Y, [-3.5, -1.5])]


def outputs(model, rows, tmp_path):
    path = tmp_path / "model.onnx"
    to_onnx(model, path)
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    dtype = np.float32 if "float)" in session.get_inputs()[0].type else np.float64
    return dict(zip(names, session.run(None, {"X": rows.astype(dtype)}), strict=True))


def assert_same(model, rows, tmp_path):
    out = outputs(model, rows, tmp_path)
    if "variable" in out:
        expected = model.predict(rows)
        assert out["variable"].shape == expected.shape
        size = np.abs(expected).max()
        np.testing.assert_allclose(out["variable"], expected, rtol=0, atol=1e-5 * size)
        return
    values = model.decision_function(rows)
    clear = np.abs(values) > 1e-6 * np.abs(values).max()
    clear = clear if values.ndim == 1 else np.ptp(values, axis=1) > 0
    assert out["label"][clear].tolist() == model.predict(rows)[clear].tolist()
    if "probabilities" in out:
        np.testing.assert_allclose(out["probabilities"], model.predict_proba(rows), atol=1e-5)
    else:
        scores = out["scores"].reshape(values.shape)
        np.testing.assert_allclose(scores, values, rtol=0, atol=1e-5 * np.abs(values).max())


def trees(y, X=X, **options):
    kind = tunefree.BoostedTreesRegressor if y is Y else tunefree.BoostedTreesClassifier
    return kind(random_state=0, **options).fit(np.where(X > 12.0, np.nan, X), y)


MODELS = {
    "trees": lambda: trees(BINARY),
    "trees of classes": lambda: trees(THREE),
    "trees for numbers": lambda: trees(Y),
    "trees for targets": lambda: tunefree.BoostedTreesRegressor(random_state=0).fit(
        X, np.c_[Y, 100.0 - Y]
    ),
    "trees for quantiles": lambda: trees(Y, loss="quantile", quantile=0.8),
    "trees for several quantiles": lambda: trees(Y, loss="quantile", quantile=(0.2, 0.5)),
    "stack of quantiles": lambda: tunefree.TuneFreeRegressor(
        loss="quantile", quantile=(0.2, 0.8), random_state=0
    ).fit(X, Y),
    "trees in single precision": lambda: trees(BINARY, X.astype("f")),
    "trees for counts": lambda: tunefree.BoostedTreesRegressor(loss="poisson").fit(X, Y**2),
    "linear": lambda: tunefree.PiSTOLClassifier(random_state=0).fit(X, BINARY),
    "single": lambda: tunefree.PiSTOLClassifier(random_state=0).fit(X.astype("f"), BINARY),
    "classes": lambda: tunefree.PiSTOLClassifier(random_state=0).fit(X, THREE),
    "one-vs-rest": lambda: tunefree.PiSTOLClassifier("global", loss="log_loss").fit(X, THREE),
    "hinge": lambda: tunefree.PiSTOLClassifier("global").fit(X, BINARY == 1),
    "regression": lambda: tunefree.PiSTOLRegressor(random_state=0).fit(X, Y),
    "targets": lambda: tunefree.PiSTOLRegressor(random_state=0).fit(X, np.c_[Y, -Y]),
    "ridge": lambda: tunefree.RidgePathRegressor(random_state=0).fit(X, Y),
    "separator": lambda: tunefree.OptimisticPerceptron(margin=0.3).fit(Z, THREE),
    "glm": lambda: tunefree.GLMClassifier(random_state=0, max_iter=50).fit(X, BINARY),
    "glm classes": lambda: tunefree.GLMClassifier(random_state=0, max_iter=50).fit(X, THREE),
    "kernel": lambda: tunefree.KernelPiSTOLClassifier(random_state=0, max_iter=1).fit(X, THREE),
    "kernel regression": lambda: tunefree.KernelPiSTOLRegressor(random_state=0, max_iter=1).fit(
        X, Y
    ),
    "landmarks": lambda: tunefree.KernelRidgeRegressor(random_state=0).fit(X, Y),
    "landmark classes": lambda: tunefree.KernelRidgeClassifier(random_state=0).fit(X, BINARY),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_a_graph_predicts_what_the_model_predicts(tmp_path, name):
    model = MODELS[name]()
    # Rows far beyond those of the training, too: limits and ranges are part of the model.
    assert_same(model, np.vstack([Z if name == "separator" else X, 3.0 * X[:20]]), tmp_path)


@pytest.mark.parametrize("name", ["regression", "ridge"])
def test_entries_outside_the_input_limits_count_as_in_the_model(tmp_path, name):
    """PiSTOL clips them, ridge regression takes the middle of the column."""
    model = MODELS[name]()
    assert np.abs(model.input_limits_).max() < 1e5
    assert_same(model, X[:4] + 1e6 * np.eye(4), tmp_path)


@pytest.mark.parametrize("name", links.LINKS)
def test_every_link_is_exported(tmp_path, name):
    link = links.LINKS[name]
    low, high = link.range
    y = np.clip(Y / 4, low if np.isfinite(low) else -9, high if np.isfinite(high) else 9)
    model = tunefree.ReflectronRegressor(name, potential="euclidean", random_state=0, max_iter=20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    assert_same(model, X, tmp_path)


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_is_exported(tmp_path, name):
    model = tunefree.perceptron.KernelOptimisticPerceptron(name, max_iter=20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(Z[:60], BINARY[:60])
    assert_same(model, Z, tmp_path)


def a_kernel(A, B):
    return np.asarray(A @ B.T)


def test_what_no_graph_can_hold_is_named():
    model = tunefree.perceptron.KernelOptimisticPerceptron(a_kernel, margin=0.5).fit(
        Z[:40], BINARY[:40]
    )
    with pytest.raises(ModelError, match="kernel cannot be exported: .* has no ONNX form"):
        to_onnx(model)
    with pytest.raises(ModelError, match="not fitted"):
        to_onnx(tunefree.PiSTOLClassifier())
    with pytest.raises(ModelError, match="only predictors of tunefree"):
        to_onnx(object())


def gaps(rows):
    rows = rows.copy()
    rows[::7, 1] = np.nan
    return rows


@pytest.mark.parametrize("candidate", ["linear", "kernel", "trees"])
@pytest.mark.parametrize("with_gaps", [False, True])
@pytest.mark.parametrize("y", [THREE, BINARY, Y], ids=["three", "binary", "real"])
def test_what_tunefree_chose_is_exported(tmp_path, candidate, with_gaps, y):
    kind = tunefree.TuneFreeRegressor if y is Y else tunefree.TuneFreeClassifier
    rows = gaps(X) if with_gaps else X
    model = kind((candidate,), random_state=0).fit(rows, y)
    assert_same(model, np.vstack([rows, 3.0 * rows[:20]]), tmp_path)


def test_stacks_of_many_classes_are_exported(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 12, 200)
    rows = 1.5 * rng.normal(size=(12, 10))[y] + rng.normal(size=(200, 10))
    model = tunefree.TuneFreeClassifier(candidates=("linear",), random_state=0).fit(rows, y)
    assert len(model.weights_) > 1
    assert_same(model, rows, tmp_path)


def test_slopes_of_classes_are_exported(tmp_path):
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(150, 3)), np.arange(150) % 3
    model = tunefree.TuneFreeClassifier(random_state=0).fit(rows, y)
    model.calibration_ = Slopes(np.array([0.5, 1.0, 2.0]), np.array([0.0, 0.3, -0.3]))
    assert_same(model, rows, tmp_path)


@pytest.mark.filterwarnings("ignore:Levels that fit has not seen")
@pytest.mark.parametrize("candidate", ["linear", "kernel"])
def test_tables_of_categories_dates_and_gaps_are_exported(candidate):
    pandas = pytest.importorskip("pandas")
    days = pandas.to_datetime("1999-12-20") + pandas.to_timedelta(17.3 * RNG.permutation(160), "D")
    table = pandas.DataFrame({"a": gaps(X)[:, 1], "day": days,
                              "c": np.array(["u", "v", None, "rare"])[np.r_[0, 0, 3, :157] % 3],
                              "n": pandas.Categorical(RNG.integers(0, 3, 160))})  # fmt: skip
    y = Y + (days.month == 2) + (table["c"] == "u")
    model = tunefree.TuneFreeRegressor((candidate,), random_state=0).fit(table, y)
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString())
    fed = {
        "a": table["a"].to_numpy(), "c": table["c"].fillna("(missing)").to_numpy(),
        "day": ((days - pandas.Timestamp(0)) / pandas.Timedelta(1, "D")).to_numpy(),
        "n": table["n"].astype(str).to_numpy(),
    }  # fmt: skip
    fed["c"][5] = "new"
    table.loc[5, "c"] = "new"
    (said,) = session.run(None, {name: values[:, None] for name, values in fed.items()})
    np.testing.assert_allclose(said, model.predict(table), atol=1e-5 * np.abs(y).max())


@pytest.mark.filterwarnings("ignore:Column .x0.. numbers stand within")
def test_a_column_that_no_graph_can_hold_is_named():
    texts = [f"some words that say {i}" for i in range(160)]
    model = tunefree.TuneFreeRegressor(candidates=("linear",), random_state=0)
    model.fit(np.array([texts, X[:, 0]], object).T, Y)
    with pytest.raises(ModelError, match="column 'x0' holds sentences"):
        to_onnx(model)
