"""A model with a formula is the model of statsmodels, and that of the formula's columns."""

import pickle
import sys
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from tunefree import (
    DataWarning,
    GLMClassifier,
    GLMRegressor,
    RidgePathRegressor,
    load_model,
    save_model,
)
from tunefree.files.model import Decoder, ModelError
from tunefree.onnx import to_onnx
from tunefree.rows.formula_columns import is_plain

formulaic = pytest.importorskip("formulaic")
sm = pytest.importorskip("statsmodels.api")
smf = pytest.importorskip("statsmodels.formula.api")


def _executions():
    data = sm.datasets.cpunish.load_pandas().data
    return data.assign(REGION=np.where(data["SOUTH"] > 0, "south", "other"))


def _affairs():
    data = sm.datasets.fair.load_pandas().data.iloc[::8].reset_index(drop=True)
    return data.assign(had=(data["affairs"] > 0).astype(int))


EXECUTIONS = "EXECUTIONS ~ C(REGION) * DEGREE + np.log(INCOME)"
AFFAIRS = "had ~ C(occupation, Treatment(1.0)) + C(rate_marriage):age + np.sqrt(yrs_married)"
SETS = {
    "cpunish": (_executions, EXECUTIONS, GLMRegressor("poisson"), sm.families.Poisson()),
    "fair": (_affairs, AFFAIRS, GLMClassifier(), sm.families.Binomial()),
    "fair, no intercept": (
        _affairs,
        "yrs_married ~ C(occupation) + center(age)",
        GLMRegressor("gaussian", fit_intercept=False),
        sm.families.Gaussian(),
    ),
}


def _fitted(formula=EXECUTIONS, **options):
    return GLMRegressor("poisson", formula=formula, random_state=0, **options).fit(_executions())


@pytest.mark.parametrize("name", SETS)
def test_the_table_is_that_of_statsmodels(name):
    read, formula, model, family = SETS[name]
    frame = read()
    model = clone(model).set_params(formula=formula, random_state=0).fit(frame)
    table = model.summary(frame, cov_type="nonrobust")
    theirs = formula if model.fit_intercept else f"{formula} - 1"
    peer = smf.glm(theirs, frame, family=family).fit(tol=1e-13)
    names = ["Intercept" if name == "intercept" else name for name in table.names]
    assert set(names) == set(peer.params.index)
    np.testing.assert_allclose(table.coef, peer.params[names], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(table.standard_error, peer.bse[names], rtol=1e-6)
    np.testing.assert_allclose([table.llf, table.aic], [peer.llf, peer.aic], rtol=1e-6)
    np.testing.assert_allclose(model.coef_interval(frame)[0], table.coef[: model.coef_.size])


def test_terms_are_tested_as_a_whole():
    frame = _affairs()
    terms = ["C(occupation)", "C(rate_marriage)", "np.log(age)"]
    model = GLMClassifier(formula="had ~ " + " + ".join(terms), random_state=0).fit(frame)
    tests = model.anova(frame)
    assert tests.terms == terms and tests.df.tolist() == [5, 4, 1]
    family = sm.families.Binomial()
    full = smf.glm(model.formula, frame, family=family).fit(tol=1e-13).llf
    for term, statistic in zip(terms, tests.lr_statistic, strict=True):
        others = " + ".join(other for other in terms if other != term)
        smaller = smf.glm(f"had ~ {others}", frame, family=family).fit(tol=1e-13).llf
        np.testing.assert_allclose(statistic, 2.0 * (full - smaller), rtol=1e-6)


def test_the_model_is_that_of_the_columns_to_the_bit():
    frame, model = _executions(), _fitted()
    columns = formulaic.model_matrix(EXECUTIONS, frame).rhs.drop(columns="Intercept")
    y = frame["EXECUTIONS"]
    plain = GLMRegressor("poisson", random_state=0).fit(columns, y)
    assert list(model.feature_names_in_) == list(plain.feature_names_in_)
    assert np.array_equal(model.coef_, plain.coef_)
    for ours, theirs in zip(
        model.predict_interval(frame), plain.predict_interval(columns), strict=True
    ):
        assert np.array_equal(ours, theirs)
    assert model.score(frame) == model.score(frame, y) == plain.score(columns, y)
    right_side = GLMRegressor("poisson", formula=EXECUTIONS.split("~")[1], random_state=0)
    assert np.array_equal(right_side.fit(frame, y).coef_, model.coef_)
    assert np.array_equal(model.predict(pl.DataFrame(frame)), model.predict(frame))


def test_new_rows_keep_what_fit_learned():
    """Levels and means are those of the fit, whatever rows are predicted together."""
    frame = _executions()
    model = _fitted("EXECUTIONS ~ C(REGION) + scale(DEGREE)")
    each = [model.predict(frame.iloc[[i]])[0] for i in range(len(frame))]
    np.testing.assert_allclose(each, model.predict(frame), rtol=1e-12)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(frame), model.predict(frame))


def test_classes_come_from_the_left_hand_side():
    frame = _affairs()
    frame["had"] = pd.Categorical(np.where(frame["had"] > 0, "yes", "no"))
    model = GLMClassifier(formula="had ~ age + religious", random_state=0).fit(frame)
    plain = GLMClassifier(random_state=0).fit(frame[["age", "religious"]], frame["had"])
    assert model.classes_.tolist() == ["no", "yes"]
    assert np.array_equal(model.coef_, plain.coef_)
    assert model.score(frame) == plain.score(frame[["age", "religious"]], frame["had"])
    assert np.array_equal(
        model.predict_set(frame)[1], plain.predict_set(frame[["age", "religious"]])[1]
    )


def test_targets_may_be_transformed_and_several():
    frame = _affairs()
    model = GLMRegressor("gaussian", formula="np.log(age) + children ~ religious", random_state=0)
    targets = np.column_stack([np.log(frame["age"]), frame["children"]])
    plain = GLMRegressor("gaussian", random_state=0).fit(frame[["religious"]], targets)
    assert np.array_equal(model.fit(frame).coef_, plain.coef_)
    assert model.coef_interval(frame)[0].shape == (2, 1)


def test_a_search_chooses_among_formulas():
    model = GLMRegressor("gaussian", random_state=0)
    formulas = ["children ~ religious", "children ~ religious + yrs_married"]
    search = GridSearchCV(model, {"formula": formulas}, cv=3).fit(_affairs())
    assert search.best_params_["formula"] == formulas[1]
    assert search.score(_affairs()) > 0.2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"REGION": "west"},
            r"has the level 'west', which fit has not seen; it knows other, south",
        ),
        ({"REGION": None}, r"`C\(REGION\)` contains null values"),
        ({"DEGREE": np.nan}, "`DEGREE` contains null values"),
        ({"INCOME": 0}, "infinity"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_new_rows_without_an_encoding_are_refused(change, words):
    """No row is dropped, and no level is taken for another."""
    model, frame = _fitted(), _executions()
    with pytest.raises(ValueError, match=words):
        model.predict(frame.assign(**change))
    with pytest.raises(ValueError, match="DEGREE.* not present"):
        model.predict(frame.drop(columns="DEGREE"))
    with pytest.raises(ValueError, match="needs a frame"):
        model.predict(frame.to_numpy())


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        ("C(REGION)", "no left-hand side: give y="),
        ("EXECUTIONS ~ DEGREE - 1", "no intercept: with it give fit_intercept=False"),
        ("EXECUTIONS ~ 1", "has no column"),
        ("EXECUTIONS ~ DEGREE +* INCOME", "is incorrectly used"),
        ("EXECUTIONS ~ DEGREE | INCOME", "parts apart from"),
        ("EXECUTIONS ~ nothing", "Unable to evaluate factor `nothing`"),
        ("nothing ~ DEGREE", "Unable to evaluate factor `nothing`"),
        (3, "formula=3 is neither None nor text"),
    ],
)
def test_invalid_formulas_are_named(formula, words):
    with pytest.raises(ValueError, match=words):
        _fitted(formula)


def test_missing_rows_are_refused_by_fit():
    for name, words in (("DEGREE", "`DEGREE` contains null"), ("EXECUTIONS", r"y\[2\]")):
        frame = _executions()
        frame.loc[2, name] = np.nan
        with pytest.raises(ValueError, match=words):
            GLMRegressor("poisson", formula=EXECUTIONS).fit(frame)


def test_rows_in_chunks_have_no_formula():
    model = GLMRegressor("poisson", formula="DEGREE")
    X, y = np.ones((9, 1)), np.ones(9)
    with pytest.raises(AttributeError, match="formula= needs a frame in memory"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match="formula= needs a frame in memory"):
        model.fit_source((X, y))


def test_targets_are_needed_without_a_formula():
    X, y = _executions()[["DEGREE"]], _executions()["EXECUTIONS"]
    for model in (GLMRegressor("poisson"), RidgePathRegressor()):
        with pytest.raises(ValueError, match="y is missing"):
            model.fit(X, y).summary(X)


CODE = [
    "EXECUTIONS ~ lag(DEGREE)",
    "EXECUTIONS ~ print(1)",
    "EXECUTIONS ~ DEGREE.__class__",
    "EXECUTIONS ~ DEGREE.mean()",
    "EXECUTIONS ~ {(lambda: 1)()}",
    "EXECUTIONS ~ I([print(i) for i in (1,)][0])",
    "EXECUTIONS ~ np.log.__reduce__()",
    "EXECUTIONS ~ np.lib.npyio.format.os.system('true')",
    "EXECUTIONS ~ (log)(DEGREE)",
    "EXECUTIONS ~ I(f'{print(1)}')",
    "`a` ~ `b`(1)",
    "y ~ I([print][0](1))",
]


def test_no_file_holds_code(tmp_path):
    """Other functions than known ones are code: no file is written with it, nor read."""
    model, path = _fitted("EXECUTIONS ~ hashed(REGION, levels=2) + DEGREE"), tmp_path / "model"
    with pytest.raises(ModelError, match=r"is code, which.*formulaic.model_matrix"):
        save_model(model, path)
    assert not path.exists()
    with pytest.raises(ModelError, match="formula"):
        to_onnx(model)
    model = _fitted()
    for formula in CODE:
        assert not is_plain(formula), formula
        setting = model.get_params() | {"formula": formula}
        with pytest.raises(ModelError, match="is code, which"):
            Decoder(b"", {})._estimator(GLMRegressor, setting, {}, {})


def _motors():
    rng = np.random.default_rng(0)
    age, region = rng.uniform(18, 90, 300), rng.choice(["north", "south", "west"], 300)
    frame = pd.DataFrame({"age": age, "region": region, "months": rng.uniform(1, 12, 300)})
    rate = 0.3 * np.exp(np.sin(age / 12.0) + 0.5 * (region == "south"))
    return frame.assign(claims=rng.poisson(rate * frame["months"]), power=rng.integers(1, 4, 300))


SPLINES = [
    "claims ~ bs(age, knots=[30, 50]) * C(region, Treatment('north'))",
    "claims ~ cr(age, df=4) - 1",
    "claims ~ poly(age, 3) + C(region):power",
    "claims ~ C(region, contr.sum) + center(age):power + I(age > 40) + {age / 10}",
    "claims ~ cc(age, df=4, constraints='center') + np.log(age) + scale(power)",
]


@pytest.mark.parametrize("formula", SPLINES)
def test_a_file_keeps_what_a_formula_has_learned(formula, tmp_path, monkeypatch):
    """Splines, polynomials, contrasts and interactions need no formulaic once they are learned."""
    frame, intercept = _motors(), "- 1" not in formula
    model = GLMRegressor("poisson", formula=formula, potential="none", fit_intercept=intercept).fit(
        frame
    )
    table = model.summary()
    design = formulaic.model_matrix(formula, frame).rhs
    peer = sm.GLM(frame["claims"], design, sm.families.Poisson()).fit(tol=1e-13)
    names = ["Intercept" if name == "intercept" else name for name in table.names]
    np.testing.assert_allclose(table.coef, peer.params[names], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(model.predict(frame), peer.mu, rtol=1e-8)
    save_model(model, tmp_path / "model")
    monkeypatch.setitem(sys.modules, "formulaic", None)
    monkeypatch.setitem(sys.modules, "formulaic.errors", None)
    again = load_model(tmp_path / "model")
    few = frame.iloc[[5, 3]]
    assert np.array_equal(again.predict(few), model.predict(frame)[[5, 3]])
    assert again.score(frame) == model.score(frame)
    assert str(again.summary()) == str(table) and str(again.anova()) == str(model.anova())
    with pytest.raises(ValueError, match="'age' is not present"):
        again.predict(frame.drop(columns="age"))


@pytest.mark.parametrize("term", ["bs(age, df=5)", "cr(age, df=4, constraints='center')"])
def test_beyond_its_knots_a_spline_is_extended_with_a_warning(term):
    frame = _motors()
    model = GLMRegressor("gaussian", formula=f"claims ~ {term}", potential="none").fit(frame)
    old = pd.DataFrame({"age": [85.0, 95.0, 96.0, 97.0, 98.0]})
    with pytest.warns(
        UserWarning, match=r"4 values lie beyond the outer knots 18.* of " + term[:2]
    ):
        p = model.predict(old)
    third = np.diff(p[1:], 3)[0]
    assert np.isfinite(p).all() and (term[0] == "b" or abs(np.diff(p[1:], 2)).max() < 1e-9)
    step = model.predict(pd.DataFrame({"age": [frame["age"].max()]}))[0]
    with pytest.warns(UserWarning, match="beyond"):
        near = model.predict(pd.DataFrame({"age": [frame["age"].max() + 1e-7]}))[0]
    assert abs(near - step) < 1e-5 and np.isfinite(third)


@pytest.mark.parametrize("name", ["age", "my age"])
def test_beyond_its_rows_a_polynomial_warns_by_name_and_count(name):
    frame = _motors().rename(columns={"age": name})
    formula = f"claims ~ poly(`{name}`, 2)"
    model = GLMRegressor("gaussian", formula=formula, potential="none").fit(frame)
    words = rf"2 values lie beyond the least and largest value 18.* of poly\(`?{name}"
    with pytest.warns(UserWarning, match=words):
        model.predict(pd.DataFrame({name: [15.0, 95.0, 50.0]}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        few = model.predict(frame.iloc[:3])
    np.testing.assert_allclose(few, model.predict(frame)[:3])


@pytest.mark.parametrize("kind", ["text", "categories", "numbers", "truth"])
def test_a_factor_has_one_reference_with_and_without_a_formula(kind):
    """It is the level of most rows; of several the first by name; a level without rows is none."""
    u, v, w = {"numbers": [1, 2, 3], "truth": [False, True, True]}.get(kind, list("uvw"))
    frame = pd.DataFrame({"a": [w, v, u, v, w] * 40, "x": np.arange(200.0) % 7})
    if kind == "categories":
        frame["a"] = pd.Categorical(frame["a"], categories=list("zwuvy"))
    y = np.random.default_rng(0).poisson(2.0, 200)
    for term in ("C(a)", "C(a) * x", "x + C(a)"):
        model = GLMRegressor("poisson", formula=term, potential="none").fit(frame, y)
        table = model.summary()
        assert list(table.reference.values()) == [str(v)]
        assert not table.aliased
    text = frame if kind == "categories" else frame.assign(a="n" + frame["a"].astype(str))
    plain = GLMRegressor("poisson", potential="none").fit(text, y).summary()
    model = GLMRegressor("poisson", formula="x + C(a)", potential="none").fit(frame, y)
    assert plain.reference["a"].removeprefix("n") == str(v)
    np.testing.assert_allclose(np.sort(plain.coef), np.sort(model.summary().coef), atol=1e-9)
    own = GLMRegressor("poisson", formula=f"C(a, Treatment({w!r}))", potential="none").fit(frame, y)
    assert list(own.summary().reference.values()) == [str(w)]
    if kind == "text":
        own = GLMRegressor("poisson", formula="C(a, levels=['w', 'u', 'v'])", potential="none")
        assert list(own.fit(frame, y).summary().reference.values()) == ["w"]


@pytest.mark.parametrize("term", ["bs(`my x`, df=4)", "`my x`", "np.log(`my x`)", "C(`my x` > 2)"])
def test_names_with_blanks_are_those_of_other_names(term):
    """Whatever rows are predicted together; two alike names with a state are refused."""
    frame = pd.DataFrame({"my x": np.linspace(1.0, 4.0, 100), "my-x": np.arange(100.0)})
    y = np.random.default_rng(0).poisson(2.0, 100)
    model = GLMRegressor("poisson", formula=term, potential="none").fit(frame, y)
    renamed = frame.rename(columns={"my x": "x"})
    plain = GLMRegressor("poisson", formula=term.replace("`my x`", "x"), potential="none")
    assert np.array_equal(model.predict(frame)[:3], plain.fit(renamed, y).predict(renamed.iloc[:3]))
    with pytest.raises(ValueError, match="cannot be kept for new rows"):
        GLMRegressor("poisson", formula="scale(`my x`) + center(`my-x`)").fit(frame, y)


def test_an_offset_in_a_formula_is_that_of_statsmodels():
    frame = _motors()
    formula = "claims ~ age + C(region) + offset(log(months))"
    model = GLMRegressor("poisson", formula=formula, potential="none").fit(frame)
    offset = np.log(frame["months"])
    peer = smf.glm("claims ~ age + C(region)", frame, family=sm.families.Poisson(), offset=offset)
    peer = peer.fit()
    np.testing.assert_allclose(model.predict(frame), peer.mu, rtol=1e-7)
    np.testing.assert_allclose(model.summary().llf, peer.llf)
    assert "C(region) = west" in str(model.summary())  # that of most rows
    bare = GLMRegressor("poisson", formula=formula.split(" + off")[0], potential="none")
    bare = bare.fit(frame, offset=offset)
    np.testing.assert_allclose(bare.coef_, model.coef_, rtol=1e-9)
    assert model.score(frame) == pytest.approx(bare.score(frame, offset=offset))
    half = GLMRegressor("poisson", formula=formula.replace("log(", "0.5*log("), potential="none")
    half = half.fit(frame, offset=0.5 * offset)
    np.testing.assert_allclose(half.coef_, model.coef_, rtol=1e-9)
    default = GLMRegressor("poisson", formula=formula, random_state=0).fit(frame)
    theirs = GLMRegressor("poisson", formula=bare.formula, random_state=0)
    theirs = theirs.fit(frame, offset=offset)
    for one, other in zip(
        default.predict_interval(frame),
        theirs.predict_interval(frame, offset=offset),
        strict=True,
    ):
        np.testing.assert_allclose(one, other)


@pytest.mark.parametrize("formula", [None, "claims ~ age + C(region)"])
@pytest.mark.parametrize("made", [lambda frame: frame, pl.from_pandas, pa.Table.from_pandas])
def test_a_name_of_a_column_is_its_numbers(formula, made):
    frame = _motors().assign(w=1.0 + np.arange(300) % 3)
    features = frame[["age", "region"]]
    given = {"exposure": frame["months"], "sample_weight": frame["w"]}
    plain = GLMRegressor("poisson", formula=formula, random_state=0)
    plain.fit(features, frame["claims"], **given)
    own = given | {"sample_weight": frame["w"].to_numpy()}
    model = GLMRegressor("poisson", formula=formula, random_state=0)
    rows = made(frame[["age", "months", "region", "w"]])
    model.fit(rows, frame["claims"], exposure="months", sample_weight="w")
    assert np.array_equal(model.coef_, plain.coef_)
    exposure = {"exposure": frame["months"]}
    assert np.array_equal(model.predict(rows), plain.predict(features, **exposure))
    assert model.score(rows, frame["claims"]) == plain.score(features, frame["claims"], **own)
    for ours, theirs in zip(
        model.predict_interval(rows), plain.predict_interval(features, **exposure), strict=True
    ):
        assert np.array_equal(ours, theirs)
    table = plain.summary(features, frame["claims"], **own)
    assert np.array_equal(model.summary(rows, frame["claims"]).coef, table.coef)
    with pytest.raises(ValueError, match="exposure='months': X has no such column"):
        model.predict(made(features))
    assert np.array_equal(model.predict(made(features), exposure=2.0), plain.predict(features, 2.0))
    with pytest.raises(ValueError, match="did you mean 'months'"):
        model.fit(rows, frame["claims"], exposure="month")
    with pytest.raises(ValueError, match="X is not a frame"):
        GLMRegressor("poisson").fit(np.ones((3, 1)), [0, 1, 2], exposure="months")


def test_without_formulaic_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "formulaic", None)
    with pytest.raises(ImportError, match=r"tunefree\[formula\]"):
        _fitted()


def _flats():
    rng = np.random.default_rng(0)
    size, region = rng.normal(size=150), rng.choice(["a", "b", "c"], 150)
    rate = np.exp(0.3 * size + 0.4 * (region == "b") * size + 1.0)
    frame = pd.DataFrame({"size": size, "age": rng.normal(size=150), "region": region})
    return frame.assign(rent=rate + rng.normal(size=150), visits=rng.poisson(rate))


INTERACTIONS = [
    "size * C(region)",
    "size * C(region) * age",
    "C(region):age + size",
    "age + size:age + C(region):size",
]


@pytest.mark.parametrize("terms", INTERACTIONS)
@pytest.mark.parametrize("robust", [None, "hc0", "hc1", "hc3"])
def test_interactions_are_tested_as_by_anova_lm(terms, robust):
    """Type II: without the terms that contain a term."""
    frame = _flats()
    model = GLMRegressor("gaussian", formula=f"rent ~ {terms}", max_iter=5, random_state=0)
    tests = model.fit(frame).anova(frame, cov_type=robust.upper() if robust else "nonrobust")
    peer = smf.ols(model.formula, frame).fit()
    theirs = sm.stats.anova_lm(peer, typ=2, robust=robust).iloc[:-1]
    # formulaic and patsy may order the factors of a term differently.
    place = {frozenset(name.split(":")): name for name in theirs.index}
    theirs = theirs.loc[[place[frozenset(term.split(":"))] for term in tests.terms]]
    np.testing.assert_array_equal(tests.df, theirs["df"])
    np.testing.assert_allclose(tests.wald_statistic, theirs["F"], rtol=1e-6)
    np.testing.assert_allclose(tests.wald_p_value, theirs["PR(>F)"], rtol=1e-5)
    if robust is None:
        np.testing.assert_allclose(tests.lr_statistic, theirs["F"], rtol=1e-6)
        np.testing.assert_allclose(tests.lr_p_value, theirs["PR(>F)"], rtol=1e-5)


def test_interactions_of_counts_are_differences_of_deviances():
    frame = _flats()
    model = GLMRegressor("poisson", formula="visits ~ size * C(region)", random_state=0).fit(frame)
    tests = model.anova(frame)
    deviance = {
        right: smf.glm(f"visits ~ {right}", frame, family=sm.families.Poisson()).fit().deviance
        for right in ("size", "C(region)", "size + C(region)", "size * C(region)")
    }
    both = deviance["size + C(region)"]
    wanted = {
        "size": deviance["C(region)"] - both,
        "C(region)": deviance["size"] - both,
        "size:C(region)": both - deviance["size * C(region)"],
    }
    np.testing.assert_allclose(tests.lr_statistic, [wanted[t] for t in tests.terms], rtol=1e-6)


@pytest.mark.parametrize("cov_type", ["nonrobust", "HC3"])
@pytest.mark.parametrize("made", [GLMRegressor("gaussian"), GLMRegressor("poisson")])
def test_terms_do_not_depend_on_a_coding(made, cov_type):
    """Another origin of a column, and other contrasts of a category, are the same terms."""
    target = "rent" if made.family == "gaussian" else "visits"
    codings = ["C(region)", "C(region, contr.sum)", 'C(region, contr.treatment(base="c"))']
    frame, found = _flats(), []
    for coding in codings:
        for shift in (0.0, 10.0):
            moved = frame.assign(size=frame["size"] + shift)
            model = clone(made).set_params(
                formula=f"{target} ~ size * {coding} + age", max_iter=5, random_state=0
            )
            tests = model.fit(moved).anova(moved, cov_type=cov_type)
            found.append(np.stack([tests.df, *tests[2:6]]))
    np.testing.assert_allclose(found, np.broadcast_to(found[0], np.shape(found)), rtol=1e-4)


def test_terms_of_classes_do_not_depend_on_a_coding():
    frame = _flats()
    frame["grade"] = np.digitize(frame["rent"], [2.0, 4.0])
    for family in ("multinomial", "ordinal"):
        found = []
        for shift in (0.0, 10.0):
            moved = frame.assign(size=frame["size"] + shift)
            model = GLMClassifier(family, formula="grade ~ size * C(region)", max_iter=5)
            tests = model.fit(moved).anova(moved)
            found.append(np.stack([tests.df, *tests[2:6]]))
        np.testing.assert_allclose(*found, rtol=1e-4)


TYPES = {
    "objects": lambda frame: frame.astype(object),
    "decimals": lambda frame: frame.assign(x=[Decimal(repr(v)) for v in frame["x"].tolist()]),
    "nullable types": lambda frame: frame.convert_dtypes(),
    "types of Arrow": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "large text": lambda frame: frame.assign(
        city=frame["city"].astype(pd.ArrowDtype(pa.large_string()))
    ),
}


@pytest.mark.parametrize("kind", TYPES)
def test_a_formula_reads_columns_of_any_type(kind):
    """Objects and the types of pandas' extensions are numbers if their cells are."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=90), "k": rng.integers(0, 3, 90)})
    frame["new"], frame["city"] = rng.random(90) < 0.5, rng.choice(["u", "v"], 90)
    y = frame["x"] + frame["k"] + 0.3 * rng.normal(size=90)
    model = GLMRegressor("gaussian", formula="x + C(k) + new + city", random_state=0)
    expected = model.fit(frame, y).predict(frame)
    table = TYPES[kind](frame)
    np.testing.assert_array_equal(model.predict(table), expected)
    again = model.fit(table, y)
    np.testing.assert_array_equal(again.predict(frame), expected)
    assert again.coef_.size == 5
    table.loc[3, "x"] = None
    with pytest.raises(ValueError, match="null|missing"):
        again.predict(table)


def test_numbers_as_text_are_levels_of_a_formula_and_named():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.integers(0, 9, 90), "s": rng.choice(["u", "1"], 90)})
    y, text = frame["x"] + rng.normal(size=90), frame.astype(str)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GLMRegressor("gaussian", formula="x + s").fit(frame, y)
        GLMRegressor("gaussian", formula="C(x) + s").fit(text, y)
    for table in (text, text.astype(object), pl.DataFrame(text)):
        with pytest.warns(DataWarning, match="column 'x' holds numbers as text such as"):
            GLMRegressor("gaussian", formula="x + s").fit(table, y)


def test_what_a_formula_does_not_read_is_named():
    frame = pd.DataFrame({"x": np.arange(9.0), "d": pd.date_range("2024-01-01", periods=9)})
    with pytest.raises(ValueError, match="column 'd' holds dates: give numbers"):
        GLMRegressor("gaussian", formula="x + d").fit(frame, frame["x"])
    with pytest.raises(ValueError, match="'.' for all columns is not read: name the columns"):
        GLMRegressor("gaussian", formula="x ~ .").fit(frame)
