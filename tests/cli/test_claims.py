"""Claims in the shell: from a file with text to a table with reference levels."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tunefree import GLMRegressor, load_model
from tunefree.cli import app

RNG = np.random.default_rng(0)
N = 200
CLAIMS = pd.DataFrame({
    "age": RNG.integers(18, 80, N),
    "region": RNG.choice(["north", "south", "west"], N, p=[0.3, 0.5, 0.2]),
    "months": RNG.integers(1, 13, N),
})  # fmt: skip
CLAIMS["claims"] = RNG.poisson(CLAIMS["months"] * np.exp(-2.0 + 0.01 * CLAIMS["age"]))
GLM = ("--estimator", "glm", "--family", "poisson")
FORMULA = "claims ~ bs(age, df=4) + C(region) + offset(log(months))"


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, (result.exit_code, result.output, result.exception)
    return result


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    CLAIMS.to_csv("claims.csv", index=False)
    return tmp_path


@pytest.mark.parametrize("level", [None, "north"])
def test_a_file_with_text_has_a_table_with_reference_levels(here, level):
    given = () if level is None else ("--reference", f"region={level}")
    exposed = ("--exposure", "months", "--potential", "none")
    run("train", "claims.csv", "model", *GLM, *exposed, *given)
    printed = run("inspect", "model").stdout
    assert f"Reference levels: region = {level or 'south'}." in printed
    table = json.loads(run("inspect", "model", "--json").stdout)["coefficients"]
    plain = GLMRegressor("poisson", potential="none")
    plain.fit(CLAIMS[["age", "region"]], CLAIMS["claims"], exposure=CLAIMS["months"])
    own = plain.summary(reference=level and {"region": level})
    assert table["names"] == own.names and table["reference"] == own.reference
    np.testing.assert_allclose(table["coef"], own.coef)
    assert table["llf"] == pytest.approx(own.llf)
    p = [float(line) for line in run("predict", "model", "claims.csv").stdout.split()]
    np.testing.assert_allclose(p, plain.predict(CLAIMS[["age", "region"]], CLAIMS["months"]))


def test_a_formula_is_that_of_python(here):
    pytest.importorskip("formulaic")
    run("train", "claims.csv", "model", *GLM, "--formula", FORMULA, "--reference", "region=west")
    factor = "C(region, contr.treatment(base='west'))"
    formula = FORMULA.partition("~")[2].replace("C(region)", factor)
    model = GLMRegressor("poisson", formula=formula, random_state=0)
    model.fit(CLAIMS, CLAIMS["claims"])
    assert f"Reference levels: {factor} = west." in run("inspect", "model").stdout
    assert np.array_equal(load_model("model").coef_, model.coef_)
    CLAIMS.drop(columns="claims")[::-1].to_csv("new.csv", index=False)
    p = [float(line) for line in run("predict", "model", "new.csv").stdout.split()]
    np.testing.assert_allclose(p, model.predict(CLAIMS)[::-1])
    run("eval", "model", "claims.csv")
    run("report", "model", "claims.csv")
    numbers = ("--drop", "region", "--formula", "claims ~ age")
    run("train", "claims.csv", "model", *GLM, *numbers, "--exposure", "months")
    assert len(run("predict", "model", "new.csv").stdout.split()) == N


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--reference", "region=nord"), "names the level 'nord' of region"),
        (("--reference", "region"), "write COLUMN=LEVEL"),
        (("--formula", "claims ~ age + C(region)", "--reference", "age=3"), "has no C(age)"),
        (("--formula", "log(claims) ~ age"), "log(claims) is no column"),
        (("--formula", "claims ~ age", "--target", "age"), "the target of --formula is claims"),
        (("--formula", "claims ~ aeg"), "--formula"),
        (("--formula", "claims ~ age", "--checkpoint", "c"), "not available with --checkpoint"),
    ],
)
def test_wrong_options_are_named(here, options, words):
    result = CliRunner().invoke(app, ["train", "claims.csv", "model", *GLM, *options])
    assert result.exit_code in (2, 3) and words in result.stderr, result.output
