"""Several labels: every method and attribute works label by label, or names the way."""

import inspect
import re
import warnings

import numpy as np
import pytest

import tunefree
from tunefree import TuneFreeClassifier
from tunefree.onnx import to_onnx

N_LABELS = 2


def rows(n=120, seed=0):
    """Rows and labels of 0 and 1."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (X[:, :N_LABELS] + 0.8 * rng.normal(size=(n, N_LABELS)) > 0.0).astype(int)


@pytest.fixture(scope="module")
def model():
    X, Y = rows()
    return TuneFreeClassifier(("trees",), random_state=0).fit(X, Y)


def public_names(model):
    """Public methods, and attributes that the class documents or its models have."""
    text = inspect.getdoc(type(model)) or ""
    entries = re.findall(r"^([\w, ]+_)(?: :|$)", text, re.MULTILINE)
    documented = {name.strip() for entry in entries for name in entry.split(",")}
    fitted = {name for name in vars(model.label_models_[0]) if name.endswith("_")}
    methods = {name for name in dir(type(model)) if not name.startswith("_")}
    return sorted(documented | {name for name in fitted if name[0] != "_"} | methods)


ARGUMENTS = {
    "predict": 1, "predict_proba": 1, "predict_log_proba": 1, "decision_function": 1, "explain": 1,
    "predict_set": 1, "predict_venn_abers": 1, "column_drift": 1, "interactions": 0, "score": 2,
}  # fmt: skip


def test_every_method_and_attribute_works_or_names_the_models_of_the_labels(model):
    X, Y = rows(seed=1)
    names = public_names(model)
    assert {"explain", "report_", "feature_importances_", "coef_", "models_"} <= set(names)
    for name in names:
        try:
            found = getattr(model, name)
            if name in ARGUMENTS:
                found(*(X, Y)[: ARGUMENTS[name]])
        except (AttributeError, ValueError) as error:
            one_sentence = "label_models_" in str(error) or "stack of linear models" in str(error)
            assert one_sentence or name == "feature_names_in_", (name, str(error))


def test_what_is_joined_is_what_each_label_has(model):
    X, _ = rows(seed=1)
    models = model.label_models_
    found = model.explain(X)
    assert found.values.shape == (len(X), 3, N_LABELS)
    np.testing.assert_allclose(found.base_value + found.values.sum(axis=1), found.score)
    predicted, sets = model.predict_set(X, alpha=[0.1, 0.2])
    np.testing.assert_array_equal(predicted, model.predict(X))
    assert sets.shape == (len(X), N_LABELS, 2, 2)
    for j, one in enumerate(models):
        np.testing.assert_array_equal(found.values[..., j], one.explain(X).values)
        np.testing.assert_array_equal(sets[:, j], one.predict_set(X, alpha=[0.1, 0.2])[1])
        np.testing.assert_array_equal(model.predict_venn_abers(X)[:, j], one.predict_venn_abers(X))
        for name in ("feature_relevances_", "feature_importances_", "permutation_importances_"):
            np.testing.assert_array_equal(getattr(model, name)[j], getattr(one, name))
        for name in ("risk_interval_", "leaderboard_", "report_", "group_importances_"):
            assert getattr(model, name)[j] == getattr(one, name)
        assert model.interactions(2)[j] == one.interactions(2)
        assert str(one.report_) in str(model.report_)
    assert model.column_drift(X) == models[0].column_drift(X)
    assert model._repr_html_inner().count("<table") >= N_LABELS


def test_sets_of_each_label_cover(model):
    X, Y = rows(2000, seed=2)
    sets = model.predict_set(X)[1][..., 0]
    for j in range(N_LABELS):
        assert sets[np.arange(len(X)), j, Y[:, j]].mean() > 0.82


def test_files_and_copies_keep_the_labels_and_one_label_forgets_them(model, tmp_path):
    X, Y = rows()
    tunefree.save_model(model, tmp_path / "model")
    again = tunefree.load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.feature_relevances_, model.feature_relevances_)
    assert again.risk_interval_ == model.risk_interval_
    alone = TuneFreeClassifier(("linear",), random_state=0).fit(X, Y).fit(X, Y[:, 0])
    assert alone.feature_relevances_.shape == (3,) and alone.report_.estimator
    with pytest.raises(AttributeError, match="no attribute 'label_models_'"):
        _ = alone.label_models_


def test_what_takes_one_label_names_the_models_of_the_labels(model, tmp_path):
    from typer.testing import CliRunner

    from tunefree.cli import app
    from tunefree.plots import LeaderboardDisplay

    for use in (to_onnx, LeaderboardDisplay.from_estimator):
        with pytest.raises(ValueError, match="label_models_"):
            use(model)
    path = str(tmp_path / "model")
    tunefree.save_model(model, path)
    for command in (["inspect", path], ["report", path]):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 2 and "label_models_" in done.stderr
    X, Y = rows()
    with pytest.raises(ValueError, match="several labels"):
        TuneFreeClassifier(("linear",)).fit_source((X, Y))


@pytest.mark.parametrize("name", ["TuneFreeRegressor", "BoostedTreesRegressor"])
def test_several_targets_have_every_method(name):
    X, _ = rows()
    Y = X[:, :2] + np.random.default_rng(1).normal(size=(len(X), 2))
    model = getattr(tunefree, name)(random_state=0)
    if name.startswith("Tune"):
        model.set_params(candidates=("trees",))
    model.fit(X, Y)
    assert model.explain(X[:4]).values.shape == (4, 3, 2)
    assert model.predict_interval(X[:4], joint=True)[1].shape == (4, 2, 2, 1)
    assert model.feature_importances_.shape == (3,)
    assert np.isclose(model.feature_importances_.sum(), 1.0)
    assert len(model.risk_interval_) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert model.interactions(1)[0].columns
