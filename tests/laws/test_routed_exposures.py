"""Cross-validation splits exposures and offsets, or says that it cannot: no score without them."""

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.inspection import permutation_importance
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    cross_val_score,
    cross_validate,
    learning_curve,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tunefree import BoostedTreesRegressor, GLMRegressor

RNG = np.random.default_rng(0)
N = 150
X = pd.DataFrame({"x": RNG.normal(size=N), "months": RNG.uniform(0.5, 12.0, N)})
Y = RNG.poisson(X["months"] * np.exp(0.5 * X["x"]))
MONTHS = X["months"].to_numpy()
FEATURES = X[["x"]]
CV = KFold(3)
MODELS = {
    "glm": lambda: GLMRegressor("poisson", potential="none"),
    "trees": lambda: BoostedTreesRegressor(loss="poisson", random_state=0),
}
TERMS = {"exposure": MONTHS, "offset": np.log(MONTHS)}
CASES = [("glm", "exposure"), ("glm", "offset"), ("trees", "exposure")]


def by_hand(make, term):
    scores = []
    for train, test in CV.split(FEATURES):
        model = make().fit(FEATURES.iloc[train], Y[train], **{term: TERMS[term][train]})
        own = {term: TERMS[term][test]}
        scores.append(model.score(FEATURES.iloc[test], Y[test], **own))
    return scores


@pytest.mark.parametrize(("name", "term"), CASES)
def test_routed_terms_are_split_for_fit_and_score(name, term):
    make, given = MODELS[name], {term: TERMS[term]}
    with config_context(enable_metadata_routing=True):
        model = make()
        with pytest.raises(UnsetMetadataPassedError, match=term):
            cross_val_score(model, FEATURES, Y, cv=CV, params=given)
        model.set_fit_request(**{term: True}).set_score_request(**{term: True})
        found = cross_val_score(model, FEATURES, Y, cv=CV, params=given)
        np.testing.assert_allclose(found, by_hand(make, term))
        grid = {"link": [None, "softplus"]} if name == "glm" else {"random_state": [0]}
        search = GridSearchCV(model, grid, cv=CV).fit(FEATURES, Y, **given)
        assert max(search.cv_results_["mean_test_score"]) >= np.mean(found) - 1e-9
        assert search.score(FEATURES, Y, **given) > 0.0


@pytest.mark.parametrize(("name", "term"), CASES)
def test_without_routing_no_score_lacks_its_terms(name, term):
    given, words = {term: TERMS[term]}, f"was fitted with {term}=: give {term}="
    model = MODELS[name]()
    with pytest.raises(ValueError, match=words):
        cross_val_score(model, FEATURES, Y, cv=CV, params=given, error_score="raise")
    with pytest.raises(ValueError, match=words):
        model.fit(FEATURES, Y, **given).score(FEATURES, Y)


@pytest.mark.parametrize("formula", [None, "x", "x + offset(log(months))"])
def test_a_name_of_a_column_needs_no_routing(formula):
    """The rows of a split have their own exposure, for scikit-learn's scorers, too."""
    model = GLMRegressor("poisson", formula=formula, potential="none")
    in_formula = formula is not None and "offset" in formula
    given = {} if in_formula else {"exposure": "months"}
    scoring = {"d2": None, "poisson": "neg_mean_poisson_deviance"}
    found = {
        name: cross_validate(model, X, Y, cv=CV, params=given, scoring=own)["test_score"]
        for name, own in scoring.items()
    }
    term = "offset" if in_formula else "exposure"
    np.testing.assert_allclose(found["d2"], by_hand(MODELS["glm"], term), atol=1e-9)
    assert (found["poisson"] > -1.5).all()
    assert GridSearchCV(model, {"link": [None]}, cv=CV).fit(X, Y, **given).best_score_ > 0.0


@pytest.mark.parametrize(("name", "term"), CASES)
def test_no_tool_of_scikit_learn_compares_rates_with_counts(name, term):
    """They call predict without the terms: an error, not a number."""
    words = f"was fitted with {term}=: give {term}="
    model = MODELS[name]().fit(FEATURES, Y, **{term: TERMS[term]})
    scoring = "neg_mean_poisson_deviance"
    with pytest.raises(ValueError, match=words):
        model.predict(FEATURES)
    with pytest.raises(ValueError, match=words):
        permutation_importance(model, FEATURES, Y, scoring=scoring)
    with pytest.raises(ValueError, match=words):
        own = {"cv": CV, "scoring": scoring, "error_score": "raise"}
        cross_val_score(model, FEATURES, Y, params={term: TERMS[term]}, **own)
    neutral = {"exposure": 1, "offset": 0}[term]
    rates = model.predict(FEATURES, **{term: neutral})
    np.testing.assert_allclose(rates * MONTHS, model.predict(FEATURES, **{term: TERMS[term]}))


def test_a_model_that_takes_names_says_so():
    model = GLMRegressor("poisson", potential="none").fit(FEATURES, Y, exposure=MONTHS)
    with pytest.raises(ValueError, match="name a column of X instead"):
        model.predict(FEATURES)


def test_a_pipeline_and_a_curve_split_what_is_routed():
    given = {"exposure": MONTHS}
    with config_context(enable_metadata_routing=True):
        model = MODELS["glm"]().set_fit_request(exposure=True).set_score_request(exposure=True)
        pipe = make_pipeline(StandardScaler(), model)
        found = cross_val_score(pipe, FEATURES, Y, cv=CV, params=given)
        np.testing.assert_allclose(found, by_hand(MODELS["glm"], "exposure"))
        curve = learning_curve(model, FEATURES, Y, cv=CV, train_sizes=[1.0], params=given)
        np.testing.assert_allclose(curve[2][0], by_hand(MODELS["glm"], "exposure"))
