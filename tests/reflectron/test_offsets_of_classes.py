"""Several classes without an order: known terms of every class's index."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
import statsmodels.api as sm
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.model_selection import GridSearchCV, cross_val_score

from tunefree import GLMClassifier, load_model, save_model
from tunefree.onnx import to_onnx

LABELS = ["bus", "car", "train"]


def commuters(n=400):
    """Rows, what is known of each way to work, and the way that was taken."""
    rng = np.random.default_rng(0)
    X, known = rng.normal(size=(n, 2)), rng.normal(size=(n, 3))
    index = X @ [[0.5, -1.0, 0.3], [0.0, 0.4, -0.2]] + known + [0.2, 0.0, -0.3]
    chance = softmax(index, axis=1).cumsum(axis=1)
    return X, known, np.array(LABELS)[(rng.random((n, 1)) > chance).sum(axis=1)]


X, KNOWN, Y = commuters()
BY_CLASS = {label: f"cost_{label}" for label in LABELS}
FRAME = pd.DataFrame(X, columns=["age", "income"]).assign(
    **{name: KNOWN[:, j] for j, name in enumerate(BY_CLASS.values())}
)


def exact(**settings):
    return GLMClassifier(potential="none", **settings)


@pytest.fixture(scope="module")
def model():
    return exact().fit(X, Y, offset=KNOWN)


def most_likely():
    """Log-odds against the first class by SciPy, and the log-likelihood there."""
    A = np.column_stack([X, np.ones(len(X))])
    is_class = Y[:, None] == LABELS

    def cost(parameters):
        B = np.column_stack([np.zeros(3), parameters.reshape(2, 3).T])
        logs = log_softmax(A @ B + KNOWN, axis=1)
        return -logs[is_class].sum(), -(A.T @ (is_class - np.exp(logs)))[:, 1:].T.ravel()

    found = minimize(cost, np.zeros(6), jac=True, method="BFGS", options={"gtol": 1e-8})
    return found.x, -found.fun


def test_offsets_of_classes_are_those_of_a_minimisation_by_scipy(model):
    table = model.summary()
    coef, log_likelihood = most_likely()
    np.testing.assert_allclose(table.coef, coef, atol=1e-6)
    assert table.llf == pytest.approx(log_likelihood, abs=1e-8)
    again = model.summary(X, Y, offset=KNOWN)
    np.testing.assert_allclose(again.standard_error, table.standard_error, rtol=1e-9)
    index = X @ model.coef_.T + model.intercept_ + KNOWN
    np.testing.assert_allclose(model.predict_proba(X, KNOWN), softmax(index, axis=1), atol=1e-12)
    assert model.score(X, Y, offset=KNOWN) == np.mean(model.predict(X, KNOWN) == Y)


def test_what_is_added_to_all_classes_changes_nothing(model):
    shifted = KNOWN + np.linspace(-5.0, 5.0, len(X))[:, None]
    other = exact().fit(X, Y, offset=shifted)
    np.testing.assert_allclose(other.summary().coef, model.summary().coef, atol=1e-9)
    np.testing.assert_allclose(
        other.predict_proba(X, shifted), model.predict_proba(X, KNOWN), atol=1e-9
    )


def test_a_column_of_constants_is_in_the_intercepts_alone(model):
    other = exact().fit(X, Y, offset=KNOWN + [0.0, 1.0, -2.0])
    shift = np.array([0.0, 0.0, 1.0, 0.0, 0.0, -2.0])  # against the first class
    np.testing.assert_allclose(other.summary().coef, model.summary().coef - shift, atol=1e-8)


def test_an_offset_that_tells_the_classes_apart_does_not_make_them_separable():
    """Only columns with coefficients can make coefficients infinite."""
    offset = 8.0 * (Y[:, None] == LABELS)
    model = exact().fit(X, Y, offset=offset)
    assert np.all(model.predict(X, offset) == Y)
    assert np.isfinite(model.summary().standard_error).all()


@pytest.mark.parametrize("potential", ["none", "auto"])
def test_any_container_and_any_order_of_columns_give_equal_bits(potential, tmp_path):
    def fitted(rows, offset):
        return GLMClassifier(potential=potential, random_state=0).fit(rows, Y, offset=offset)

    bare = FRAME[["age", "income"]]
    wanted = fitted(bare, KNOWN).predict_proba(bare, KNOWN)
    turned = pd.DataFrame(KNOWN, columns=LABELS)[["train", "bus", "car"]]
    for offset in (turned, pl.from_pandas(turned), pa.table(dict(turned))):
        found = fitted(bare, offset).predict_proba(bare, offset)
        np.testing.assert_array_equal(found, wanted)
    frames = [FRAME, pl.from_pandas(FRAME), pa.Table.from_pandas(FRAME, preserve_index=False)]
    for rows in frames:
        for names in (list(BY_CLASS.values()), dict(reversed(BY_CLASS.items()))):
            model = fitted(rows, names)
            assert list(model.feature_names_in_) == ["age", "income"]
            save_model(model, tmp_path / "model")
            for one in (model, load_model(tmp_path / "model")):
                np.testing.assert_array_equal(one.predict_proba(rows), wanted)
    p = exact().fit(X, Y, offset=KNOWN).predict_proba(X, KNOWN)
    assert np.abs(wanted - p).max() < 0.15


def test_each_class_alone_has_its_column():
    """With another link than the softmax every class is one output."""
    model = exact(link="probit").fit(X, Y, offset=KNOWN)
    A = np.column_stack([X, np.ones(len(X))])
    ours = model.summary().coef.reshape(3, 3)
    family = sm.families.Binomial(sm.families.links.Probit())
    for j, label in enumerate(LABELS):
        peer = sm.GLM(1.0 * (label == Y), A, family, offset=KNOWN[:, j]).fit(tol=1e-13)
        np.testing.assert_allclose(ours[j], peer.params, rtol=1e-6, atol=1e-8)


def test_every_method_needs_the_offset_of_the_fit(model, tmp_path):
    learned = GLMClassifier(random_state=0).fit(X, Y, offset=KNOWN)
    sets, pairs = learned.predict_set(X, offset=KNOWN)[1], learned.predict_venn_abers(X, KNOWN)
    assert np.mean(sets[np.arange(len(X)), np.searchsorted(LABELS, Y), 0]) > 0.85
    assert np.all(pairs[..., 0] <= pairs[..., 1])
    save_model(learned, tmp_path / "model")
    for one in (model, learned, load_model(tmp_path / "model")):
        asks = [one.predict, one.predict_proba, one.decision_function]
        asks += [one.predict_venn_abers, one.predict_set] if one is not model else []
        for ask in asks:
            with pytest.raises(ValueError, match="fitted with offset=: give offset="):
                ask(X)
        for ask in (one.score, one.summary, one.anova):
            with pytest.raises(ValueError, match="fitted with offset=: give offset="):
                ask(X, Y)


def test_a_graph_predicts_for_the_offset_0(model):
    runtime = pytest.importorskip("onnxruntime")
    with pytest.warns(UserWarning, match="columns of X only: it predicts for offset=0"):
        graph = to_onnx(model).SerializeToString()
    found = runtime.InferenceSession(graph).run(None, {"X": X[:5]})[1]
    np.testing.assert_allclose(found, model.predict_proba(X[:5], 0.0), atol=1e-6)


def test_offsets_of_classes_can_be_routed(model):
    with sklearn.config_context(enable_metadata_routing=True):
        routed = exact().set_fit_request(offset=True).set_score_request(offset=True)
        turned = pd.DataFrame(KNOWN, columns=LABELS)[["car", "train", "bus"]]
        scores = [cross_val_score(routed, X, Y, params={"offset": o}) for o in (KNOWN, turned)]
        np.testing.assert_array_equal(*scores)
        assert scores[0].mean() > cross_val_score(exact(), X, Y).mean() + 0.1
        search = GridSearchCV(routed, {"fit_intercept": [True]}).fit(X, Y, offset=KNOWN)
        assert search.best_score_ == scores[0].mean()
        with pytest.raises(ValueError, match="offset.* not explicitly set as requested"):
            cross_val_score(exact(), X, Y, params={"offset": KNOWN})


def unlike(frame):
    return pd.DataFrame(frame, columns=["bus", "car", "tram"])


@pytest.mark.parametrize(
    ("rows", "offset", "words"),
    [
        (X, KNOWN[:, 0], "one number a row, which changes nothing for 3 classes"),
        (X, KNOWN[:, :2], "shape (400, 2)"),
        (X, KNOWN[:5], "shape (5, 3)"),
        (X, unlike(KNOWN), "columns bus, car, tram: give one for each of the classes bus, car,"),
        (X, np.where(KNOWN == KNOWN.max(), np.inf, KNOWN), "offset must be finite"),
        (X, np.where(KNOWN == KNOWN.max(), np.nan, KNOWN), "offset contains NaN"),
        (X, ["cost_bus", "cost_car", "cost_train"], "X is not a frame"),
        (FRAME, ["cost_bus", "cost_car", "cost_tram"], "no such column (did you mean 'cost_t"),
        (FRAME, {"bus": "cost_bus", "car": "cost_car"}, "columns bus, car: give one for each"),
        (FRAME.rename(columns=dict(zip(BY_CLASS.values(), LABELS, strict=True))),
         ["train", "car", "bus"], "names of the classes in another order"),
    ],
)  # fmt: skip
def test_offsets_that_are_not_of_the_classes_are_refused(rows, offset, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        exact().fit(rows, Y, offset=offset)


@pytest.mark.parametrize("of", ["likelihood", "predictions"])
def test_residuals_and_bands_are_of_the_probabilities_with_the_offset(model, of):
    p = model.predict_proba(X, KNOWN)
    r = model.residuals(X, Y, "response", offset=KNOWN, of=of)
    np.testing.assert_allclose(r, (Y[:, None] == LABELS) - p, atol=1e-8)
    mean, ends = model.predict_mean_interval(X, offset=KNOWN)
    np.testing.assert_allclose(mean, p, atol=1e-8)
    assert ((ends[:, :, 0, 0] < p) & (p < ends[:, :, 1, 0])).all()
    assert model.influence(X, Y, offset=KNOWN).leverage.sum() == pytest.approx(6.0)
    named = exact().fit(FRAME, Y, offset=BY_CLASS)
    np.testing.assert_allclose(named.predict_mean_interval(FRAME)[0], p, atol=1e-6)
