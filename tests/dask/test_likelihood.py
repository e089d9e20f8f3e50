"""Maximum likelihood on a cluster is that of one machine, with its table, however rows are cut."""

import numpy as np
import pytest

import tunefree
from tunefree.parts.families import NegativeBinomial

pd = pytest.importorskip("pandas")
pytest.importorskip("dask")
pytest.importorskip("distributed")
dd = pytest.importorskip("dask.dataframe")

import dask.array as da  # noqa: E402

from tunefree import dask as tfd  # noqa: E402
from tunefree.dask import likelihood  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
RNG = np.random.default_rng(0)
N = 300
TABLE = pd.DataFrame({"x": RNG.normal(size=N), "z": 3.0 + 0.1 * RNG.normal(size=N)})
TABLE["city"] = RNG.choice(["Rome", "Oslo", "Bern"], N)
TABLE.loc[::9, "city"] = None
YEARS = pd.Series(RNG.uniform(0.5, 2.0, N))
INDEX = 0.5 * TABLE.x + 0.3 * (TABLE.city == "Rome")
COUNTS = pd.Series(RNG.poisson(YEARS * np.exp(INDEX)).astype(float))
WEIGHTS = {
    "repetitions": pd.Series(RNG.integers(0, 3, N).astype(float)),
    "precisions": pd.Series(RNG.uniform(0.5, 2.0, N)),
}
TARGETS = {
    "gaussian": INDEX + RNG.normal(size=N),
    "poisson": COUNTS,
    "gamma": pd.Series(RNG.gamma(3.0, np.exp(INDEX) / 3.0)),
    "binomial": pd.Series(RNG.binomial(1, 1.0 / (1.0 + np.exp(-INDEX))).astype(float)),
}


def parts(values, n=2):
    return dd.from_pandas(values, npartitions=n)


def assert_same(there, local, rtol=1e-8):
    """The predictor and its table are those of one machine."""
    np.testing.assert_allclose(there.coef_, local.coef_, rtol=rtol, atol=1e-8)
    np.testing.assert_allclose(there.intercept_, local.intercept_, rtol=rtol, atol=1e-8)
    for cov_type in ("nonrobust", "HC0", "HC1", "HC2", "HC3"):
        ours, own = (m.summary(cov_type=cov_type) for m in (there.to_local(), local))
        assert ours.names == own.names and ours.reference == own.reference
        assert ours.note == own.note
        np.testing.assert_allclose(ours.coef, own.coef, rtol=rtol, atol=1e-8)
        np.testing.assert_allclose(ours.standard_error, own.standard_error, rtol=1e-6)
    for one, other in zip(ours.statistics, own.statistics, strict=True):
        assert one == pytest.approx(other, rel=1e-7)


@pytest.mark.parametrize(
    "family, weights",
    [
        ("gaussian", "precisions"),
        ("poisson", "repetitions"),
        ("gamma", "precisions"),
        ("binomial", "repetitions"),
    ],
)
def test_the_fit_and_its_table_are_those_of_one_machine(client, family, weights):
    y, w = TARGETS[family], WEIGHTS[weights]
    local = tunefree.GLMRegressor(family, potential="none").fit(TABLE, y, w)
    there = tfd.DaskGLMRegressor(family, potential="none")
    there.fit(parts(TABLE, 3), parts(y, 3), parts(w, 3))
    assert_same(there, local)
    lazy = there.predict(parts(TABLE)).compute()
    np.testing.assert_allclose(lazy, local.predict(TABLE), rtol=1e-7)


@pytest.mark.parametrize(
    "family, names",
    [
        ("poisson", ("exposure", "offset")),
        (NegativeBinomial(0.5), ("exposure", "offset")),
        (NegativeBinomial(), ("exposure",)),
    ],
)
def test_exposures_and_offsets(client, family, names):
    """Also with a parameter of the family that is learned with the coefficients."""
    given = {"exposure": YEARS, "offset": 0.2 * TABLE.z}
    terms = {name: given[name] for name in names}
    y = pd.Series(RNG.negative_binomial(2.0, 2.0 / (2.0 + YEARS * np.exp(INDEX))).astype(float))
    local = tunefree.GLMRegressor(family, potential="none").fit(TABLE, y, **terms)
    far = {name: parts(values) for name, values in terms.items()}
    there = tfd.DaskGLMRegressor(family, potential="none").fit(parts(TABLE), parts(y), **far)
    learned = isinstance(family, NegativeBinomial) and family.dispersion is None
    if learned:
        assert there.family_.dispersion == pytest.approx(local.family_.dispersion, rel=1e-5)
        np.testing.assert_allclose(there.coef_, local.coef_, atol=1e-5)
    else:
        assert_same(there, local)
    lazy = there.predict(parts(TABLE), **far).compute()
    np.testing.assert_allclose(lazy, there.to_local().predict(TABLE, **terms), rtol=1e-10)


@pytest.mark.parametrize("family, n", [("auto", 2), ("multinomial", 3), ("ordinal", 3)])
def test_classes(client, family, n):
    noise = np.random.default_rng(1).logistic(size=N)
    y = pd.Series(np.digitize(INDEX + noise, [0.0, 1.0][: n - 1]))
    local = tunefree.GLMClassifier(family, potential="none").fit(TABLE, y)
    there = tfd.DaskGLMClassifier(family, potential="none").fit(parts(TABLE), parts(y))
    assert_same(there, local)
    assert there.class_count_.tolist() == local.class_count_.tolist()
    lazy = there.predict_proba(parts(TABLE)).compute()
    np.testing.assert_allclose(lazy, local.predict_proba(TABLE), rtol=1e-6)
    ends = there.to_local().predict_mean_interval(TABLE)[1]
    np.testing.assert_allclose(ends, local.predict_mean_interval(TABLE)[1], rtol=1e-6)


def test_arrays_several_targets_aliased_columns_and_no_intercept(client):
    X = np.column_stack([TABLE.x, TABLE.z, TABLE.x + TABLE.z])
    Y = X[:, :2] @ [[1.0, 0.0], [0.5, 2.0]] + np.random.default_rng(2).normal(size=(N, 2))
    for intercept in (True, False):
        options = {"family": "gaussian", "potential": "none", "fit_intercept": intercept}
        with pytest.warns(UserWarning, match="x2 has no coefficient"):
            local = tunefree.GLMRegressor(**options).fit(X, Y)
        with pytest.warns(UserWarning, match="x2 has no coefficient"):
            there = tfd.DaskGLMRegressor(**options)
            there.fit(da.from_array(X, chunks=(70, 3)), da.from_array(Y, chunks=(70, 2)))
        np.testing.assert_allclose(there.coef_, local.coef_, atol=1e-9)
        ours, own = there.to_local().summary(), local.summary()
        np.testing.assert_allclose(ours.standard_error, own.standard_error, rtol=1e-7)


def test_a_model_of_a_cluster_is_saved(client, tmp_path):
    there = tfd.DaskGLMRegressor("poisson", potential="none").fit(parts(TABLE), parts(COUNTS))
    tunefree.save_model(there.to_local(), tmp_path / "m.tunefree")
    again = tunefree.load_model(tmp_path / "m.tunefree")
    np.testing.assert_array_equal(again.summary().coef, there.summary().coef)
    with pytest.raises(ValueError, match="were not kept by fit: give X and y"):
        again.anova()


def test_what_has_no_fit_is_named(client):
    rows = parts(TABLE)
    apart = parts((TABLE.x > 0.0).astype(float))
    model = tfd.DaskGLMRegressor("binomial", potential="none")
    with pytest.raises(ValueError, match=r"separable.*columns [+-]1 x"):
        model.fit(rows, apart)
    with pytest.raises(ValueError, match="y has targets outside the range of Poisson"):
        model.set_params(family="poisson").fit(rows, parts(-COUNTS))
    with pytest.raises(ValueError, match="y holds zeros only"):
        model.fit(rows, parts(0.0 * COUNTS))
    model.fit(rows, parts(COUNTS.where(TABLE.index > 150, 0.0)))  # a partition of zeros
    bent = tfd.DaskGLMRegressor(NegativeBinomial(0.5), link="softplus")
    with pytest.raises(ValueError, match="^exposure= with family=.* needs link='log'"):
        bent.fit(rows, parts(COUNTS), exposure=parts(YEARS))
    with pytest.raises(ValueError, match="is not for family='huber' on a cluster"):
        model.set_params(family="huber").fit(rows, parts(COUNTS))


def test_a_worker_that_is_killed_changes_nothing(kill, monkeypatch):
    """In the midst of the fit; it is the last test here, since another worker has to start."""
    plain, calls = likelihood.ClusterFit._total, []

    def killing(self, *arguments):
        calls.append(arguments[0])
        if len(calls) == 5:  # in Newton's steps
            kill()
        return plain(self, *arguments)

    monkeypatch.setattr(likelihood.ClusterFit, "_total", killing)
    local = tunefree.GLMRegressor("poisson", potential="none").fit(TABLE, COUNTS)
    there = tfd.DaskGLMRegressor("poisson", potential="none")
    there.fit(parts(TABLE, 4), parts(COUNTS, 4))
    assert calls[4] == "step"
    np.testing.assert_allclose(there.coef_, local.coef_, rtol=1e-8, atol=1e-8)
