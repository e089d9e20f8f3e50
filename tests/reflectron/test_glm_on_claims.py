"""Frequency and severity of claims, as an actuary fits them, and what may be wrong in a table."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

from tunefree import BoostedTreesRegressor, GLMClassifier, GLMRegressor, TuneFreeRegressor
from tunefree.onnx import to_onnx

COLUMNS = ["region", "car", "age", "months"]


def policies(n=800):
    """Policies with text factors, an exposure in months, counts of claims and what was paid."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "region": rng.choice(["north", "south", "west"], n, p=[0.5, 0.3, 0.2]),
        "car": rng.choice(["A", "B", "C"], n),
        "age": rng.integers(18, 90, n),
        "months": rng.integers(1, 13, n),
    })  # fmt: skip
    dear = frame["car"] == "C"
    rate = np.exp(0.3 * (frame["region"] == "south") - 0.01 * (frame["age"] - 50.0) + 0.4 * dear)
    frame["claims"] = rng.poisson(frame["months"] / 12.0 * rate)
    shape = 2.0 * np.maximum(frame["claims"], 1)
    frame["paid"] = rng.gamma(shape, 500.0 * (1.0 + 0.3 * dear)) * (frame["claims"] > 0)
    return frame


DATA = policies()


def exact(family="poisson", **settings):
    return GLMRegressor(family, potential="none", **settings)


@pytest.fixture(scope="module")
def frequency():
    return exact().fit(DATA[COLUMNS], DATA["claims"], exposure="months")


def terms(reference):
    """The factors in the words of statsmodels, with these reference levels."""
    return " + ".join(f"C({name}, Treatment({level!r}))" for name, level in reference.items())


def test_frequency_and_severity_are_those_of_statsmodels(frequency):
    reference = frequency.summary().reference
    formula = f"claims ~ age + {terms(reference)}"
    given = {"family": sm.families.Poisson(), "exposure": DATA["months"]}
    peer = smf.glm(formula, DATA, **given).fit(tol=1e-13)
    np.testing.assert_allclose(frequency.predict(DATA[COLUMNS]), peer.mu, rtol=1e-8)
    assert frequency.summary().aic == pytest.approx(peer.aic, rel=1e-10)

    paid = DATA[DATA["claims"] > 0].assign(size=lambda rows: rows["paid"] / rows["claims"])
    X = paid[["region", "car", "age", "claims"]]
    severity = exact("gamma").fit(X, paid["size"], sample_weight="claims")
    table = severity.summary(
        X, paid["size"], weight_type="precision", cov_type="nonrobust", use_t=False
    )
    formula = f"size ~ age + {terms(table.reference)}"
    given = {"family": sm.families.Gamma(sm.families.links.Log()), "var_weights": paid["claims"]}
    peer = smf.glm(formula, paid, **given).fit(tol=1e-13)
    np.testing.assert_allclose(severity.predict(X), peer.mu, rtol=1e-8)
    np.testing.assert_allclose(sorted(table.standard_error), sorted(peer.bse), rtol=1e-6)
    whole = frequency.predict(DATA[COLUMNS]) * severity.predict(DATA[["region", "car", "age"]])
    assert whole.sum() == pytest.approx(DATA["paid"].sum(), rel=0.05)


@pytest.mark.parametrize("container", [lambda rows: rows, pl.from_pandas, pa.Table.from_pandas])
def test_a_new_level_counts_as_the_reference_level_and_is_told(frequency, container):
    new = DATA[COLUMNS].head(3).assign(region=["mars", "north", "mars"])
    known = new.assign(region="north")
    words = r"2 rows have a level .* count as the reference level \(region = north, car = [ABC]\)"
    with pytest.warns(UserWarning, match=words) as told:
        found = frequency.predict(container(new))
    assert len(told) == 1 and "'region' in 2 cells, the first 'mars' in row 0" in str(
        told[0].message
    )
    np.testing.assert_array_equal(found, frequency.predict(known))
    two = GLMClassifier(potential="none").fit(DATA[["region"]], DATA["claims"] > 0)
    with pytest.warns(UserWarning, match=r"2 rows have a level .* \(region = north\)"):
        two.predict(container(new[["region"]]))


def learners():
    return [
        lambda rows, y, e: exact().fit(rows, y, exposure=e),
        lambda rows, y, e: BoostedTreesRegressor(loss="poisson").fit(rows, y, exposure=e),
        lambda rows, y, e: TuneFreeRegressor(loss="poisson").fit(rows, y, exposure=e),
    ]


@pytest.mark.parametrize("fit", learners())
def test_errors_show_the_number_that_the_table_has(fit):
    rows, months = DATA[["region", "age"]], DATA["months"].astype(float)
    negative = DATA["claims"].where(DATA.index != 3, -2)
    with pytest.raises(ValueError, match="the first -2: they must be from 0 on"):
        fit(rows, negative, months)
    empty = months.where(DATA.index != 5, 0.0)
    words = "exposure must be positive and finite, and holds 0.0 at exposure[5]"
    with pytest.raises(ValueError, match=re.escape(words)):
        fit(rows, DATA["claims"], empty)


@pytest.mark.parametrize("fit", learners()[1:])
def test_a_name_for_numbers_is_refused_where_names_are_not_read(fit):
    with pytest.raises(ValueError, match="exposure='months' is text: give the numbers"):
        fit(DATA[COLUMNS], DATA["claims"], "months")


def test_a_level_without_claims_and_an_aliased_factor_are_named():
    none = DATA["claims"].where(DATA["region"] != "west", 0)
    with pytest.raises(ValueError, match=r"every row with region\[west\] = 1 has y = 0"):
        exact().fit(DATA[COLUMNS], none, exposure="months")
    again = DATA[COLUMNS].assign(zone=(DATA["region"] == "west").astype(float))
    with pytest.warns(UserWarning, match=r"region\[west\] has no coefficient, .*zone"):
        twice = exact().fit(again, DATA["claims"], exposure="months")
    once = exact().fit(DATA[COLUMNS], DATA["claims"], exposure="months")
    np.testing.assert_allclose(twice.predict(again), once.predict(DATA[COLUMNS]), rtol=1e-9)


def test_rows_of_weight_0_are_left_out():
    weights = np.where(DATA["region"] == "west", 0.0, 1.0)
    left = DATA[weights > 0.0]
    model = exact().fit(DATA[COLUMNS], DATA["claims"], weights, exposure="months")
    other = exact().fit(left[COLUMNS], left["claims"], exposure="months")
    assert model.summary().names == other.summary().names
    np.testing.assert_allclose(
        model.predict(left[COLUMNS]), other.predict(left[COLUMNS]), rtol=1e-12
    )


def test_a_graph_predicts_for_one_unit_of_exposure():
    runtime = pytest.importorskip("onnxruntime")
    X, y, months = DATA[["age"]].to_numpy(float), DATA["claims"], DATA["months"]
    made = {
        "glm": exact().fit(X, y, exposure=months),
        "trees": BoostedTreesRegressor(loss="poisson", random_state=0).fit(X, y, exposure=months),
    }
    for model in made.values():
        with pytest.warns(UserWarning, match="it predicts for exposure=1"):
            graph = to_onnx(model).SerializeToString()
        found = runtime.InferenceSession(graph).run(None, {"X": X[:5]})[0]
        np.testing.assert_allclose(found.ravel(), model.predict(X[:5], exposure=1.0), rtol=1e-5)
