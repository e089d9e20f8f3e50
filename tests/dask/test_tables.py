"""Tables as they are: one schema of all partitions, however they are cut."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import tunefree
from tunefree.core.registry import estimator_class
from tunefree.parts.families import NegativeBinomial
from tunefree.rows import summaries
from tunefree.rows.columns import of_array, raw_columns
from tunefree.rows.schema import Schema
from tunefree.rows.summaries import ColumnSummary, ReadSummaries

pd = pytest.importorskip("pandas")
pytest.importorskip("dask")
pytest.importorskip("distributed")
dd = pytest.importorskip("dask.dataframe")

import dask.array as da  # noqa: E402

from tunefree import dask as tfd  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning",
    "ignore::DeprecationWarning",
    "ignore::sklearn.exceptions.ConvergenceWarning",
)
N = 240


def table(seed=0):
    """A table with a column of each kind; the last rows alone show some of the kinds."""
    rng = np.random.default_rng(seed)
    day = pd.Timestamp(2020, 1, 1) + pd.to_timedelta(rng.integers(0, 900, N), "D")
    found = pd.DataFrame(
        {
            "size": rng.normal(size=N).round(2),
            "new": rng.random(N) < 0.5,
            "city": rng.choice(["Rome", "Oslo", "Bern"], N),
            "day": day,
            "sent": day.strftime("%d.%m.%Y"),
            "price": [f"${v:,.2f}" for v in rng.uniform(500.0, 2000.0, N)],
            "sensor": np.where(np.arange(N) > N - 9, -999.0, rng.uniform(0.0, 9.0, N).round(1)),
            "words": [f"{a} for {b} rooms" for a, b in rng.integers(0, 12, (N, 2))],
        }
    )
    found["grade"] = pd.Categorical(
        rng.choice(["low", "mid", "high"], N), ["low", "mid", "high"], ordered=True
    )
    found.loc[N - 2, ["size", "city", "day"]] = None
    found.loc[N - 1, "price"] = "broken"
    return found


def targets(rows):
    return 2.0 * rows["size"].fillna(0.0) + rows.new + (rows.city == "Rome")


ROWS = table()
Y = targets(ROWS)
QUICK = {
    "TuneFreeRegressor": ({"candidates": ("linear",)}, list(ROWS)),
    "BoostedTreesRegressor": ({}, ["size", "city", "price"]),
}


def parts(values, n=3):
    """A frame or a series on the cluster."""
    return dd.from_pandas(values, npartitions=n)


def objects(rows):
    """An array of objects that holds a table."""
    return rows.astype(object).where(rows.notna(), None).to_numpy()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["BoostedTreesRegressor", "TuneFreeRegressor"])
def test_a_table_on_a_cluster_is_read_as_in_memory(client, name):
    """Two cuts and two containers give the schema and the predictions of one table in memory."""
    options, columns = QUICK[name]
    rows = ROWS[columns]
    local = estimator_class(name)(random_state=0, **options).fit(rows, Y)
    kind, expected = getattr(tfd, f"Dask{name}"), local.predict(rows)
    for n in (2, 5) if name.startswith("TuneFree") else (3,):
        there = kind(random_state=0, **options).fit(parts(rows, n), parts(Y, n))
        assert there.schema_ == local.schema_
        assert there.feature_names_in_.tolist() == columns
        np.testing.assert_allclose(there.predict(parts(rows)).compute(), expected, rtol=1e-9)
    plain = rows.drop(columns="grade", errors="ignore")  # an array knows no order of levels
    d = plain.shape[1]
    there = kind(random_state=0, **options)
    there.fit(
        da.from_array(objects(plain), chunks=(100, d)), da.from_array(Y.to_numpy(), chunks=100)
    )
    assert there.schema_ == Schema.of(objects(plain))
    lazy = there.predict(da.from_array(objects(plain), chunks=(60, d))).compute()
    np.testing.assert_allclose(lazy, there.to_local().predict(objects(plain)), rtol=1e-12)


def test_one_warning_for_all_partitions(client):
    rows, y = ROWS[["size", "city", "price"]].copy(), dd.from_pandas(Y, npartitions=4)
    rows.loc[[3, 80, 150], "price"] = ["bad", "worse", "bad"]
    model = tfd.DaskTuneFreeRegressor(("linear",), random_state=0)
    with pytest.warns(tunefree.DataWarning) as found:
        model.fit(dd.from_pandas(rows, npartitions=4), y)
    words = [str(one.message) for one in found if "price" in str(one.message)]
    assert len(words) == 1 and "'price': 4 cells are no number, such as 'bad'" in words[0]
    model.set_params(on_bad_cell="error")
    with pytest.raises(ValueError, match="4 cells are no number.*on_bad_cell='error'"):
        model.fit(dd.from_pandas(rows, npartitions=4), y)


def test_a_schema_and_categories_are_given(client):
    rows = pd.DataFrame({"code": np.arange(N) % 3, "size": ROWS["size"].fillna(0.0)})
    parts = dd.from_pandas(rows, npartitions=2), dd.from_pandas(Y, npartitions=2)
    for options in ({"schema": {"code": "category"}}, {"categorical_features": ["code"]}):
        there = tfd.DaskBoostedTreesRegressor(random_state=0, **options).fit(*parts)
        local = tunefree.BoostedTreesRegressor(random_state=0, **options).fit(rows, Y)
        assert there.schema_ == local.schema_ and there.schema_.columns[0].kind == "category"
        np.testing.assert_allclose(there.predict(parts[0]).compute(), local.predict(rows))


# --- generalized linear models --------------------------------------------------------------------

LEVELS = ROWS[["city", "size", "new"]].fillna({"size": 0.0, "city": "Oslo"})
YEARS = pd.Series(np.random.default_rng(1).uniform(0.5, 2.0, N), name="years")
COUNTS = pd.Series(
    np.random.default_rng(2).poisson(YEARS * np.exp(0.3 * LEVELS["size"] + LEVELS.new)), name="n"
)
PLAIN = {"validation_fraction": 0.0, "potential": "euclidean", "max_iter": 40, "random_state": 0}


@pytest.mark.parametrize(
    "family, names",
    [
        ("poisson", ()),
        ("poisson", ("exposure", "offset")),  # an exposure that is a weight
        (NegativeBinomial(0.5), ("exposure",)),  # and one that is an offset
        ("gaussian", ("offset",)),  # of mean 0
    ],
)
def test_levels_exposures_and_offsets_are_those_of_the_local_fit(client, family, names):
    given = {"exposure": YEARS, "offset": np.log(YEARS) - np.log(YEARS).mean()}
    terms = {name: given[name] for name in names}
    far = {name: parts(values) for name, values in terms.items()}
    local = tunefree.GLMRegressor(family, **PLAIN).fit(LEVELS, COUNTS, **terms)
    there = tfd.DaskGLMRegressor(family, **PLAIN).fit(parts(LEVELS), parts(COUNTS), **far)
    np.testing.assert_allclose(there.coef_, local.coef_, atol=1e-5)
    np.testing.assert_allclose(there.intercept_, local.intercept_, atol=1e-5)
    names = there.to_local().coef_names_.tolist()
    assert names == local.coef_names_.tolist()
    lazy = there.predict(parts(LEVELS), **far).compute()
    np.testing.assert_allclose(lazy, there.to_local().predict(LEVELS, **terms), rtol=1e-12)
    expected = there.to_local().score(LEVELS, COUNTS, **terms)
    assert there.score(parts(LEVELS), parts(COUNTS), **far) == pytest.approx(expected)


def test_terms_are_columns_by_name_or_arrays(client):
    rows = LEVELS.assign(years=YEARS)
    by_name = tfd.DaskGLMRegressor("poisson", **PLAIN)
    by_name.fit(parts(rows), parts(COUNTS), exposure="years")
    assert by_name.feature_names_in_.tolist() == list(LEVELS)
    X, y, years = objects(LEVELS), COUNTS.to_numpy(), YEARS.to_numpy()
    arrays = da.from_array(X, chunks=(80, 3)), da.from_array(y, chunks=80)
    exposure = da.from_array(years, chunks=80)
    by_array = tfd.DaskGLMRegressor("poisson", **PLAIN).fit(*arrays, exposure=exposure)
    np.testing.assert_allclose(by_array.coef_, by_name.coef_, rtol=1e-9)
    of_names = by_name.predict(parts(rows), exposure="years").compute()
    np.testing.assert_array_equal(by_name.predict(parts(rows)).compute(), of_names)
    np.testing.assert_array_equal(by_name.to_local().predict(rows), of_names)
    with pytest.raises(ValueError, match="fitted with exposure=: give exposure="):
        by_array.score(*arrays)
    of_arrays = by_array.predict(arrays[0], exposure=exposure).compute()
    np.testing.assert_allclose(of_arrays, of_names, rtol=1e-9)
    with pytest.raises(ValueError, match="'year' is no column of X"):
        by_name.fit(parts(rows), parts(COUNTS), exposure="year")
    with pytest.raises(ValueError, match=r"partition 0: exposure must be positive"):
        by_name.fit(parts(rows), parts(COUNTS), exposure=parts(0.0 * YEARS))
    model = tfd.DaskGLMRegressor("negative_binomial")
    with pytest.raises(ValueError, match="are not learned with an offset or columns of text"):
        model.fit(parts(rows), parts(COUNTS), offset=parts(YEARS))


def test_classes_of_text(client):
    rows, labels = LEVELS.drop(columns="size"), pd.Series(np.where(COUNTS > 1, "a", "b"))
    local = tunefree.GLMClassifier(**PLAIN).fit(rows, labels)
    there = tfd.DaskGLMClassifier(**PLAIN).fit(parts(rows), parts(labels))
    np.testing.assert_allclose(there.coef_, local.coef_, atol=1e-5)
    assert (there.predict(parts(rows)).compute() == local.predict(rows)).all()


# --- summaries ------------------------------------------------------------------------------------


def summary_of(values, weights=None, n_parts=1, order=None):
    """The summary of a column, joined from parts."""
    order = np.arange(len(values)) if order is None else order
    weights = np.ones(len(values)) if weights is None else weights
    found = None
    for rows in np.array_split(order, n_parts):
        one = ColumnSummary.of(of_array(values[rows]), weights[rows])
        found = one if found is None else found.join(one)
    return found


@pytest.mark.parametrize("kind", ["numbers", "texts", "mixed"])
def test_a_summary_depends_neither_on_cuts_nor_on_order(monkeypatch, kind):
    """Also of more distinct values than are kept: their weights are exact."""
    monkeypatch.setattr(summaries, "_MOST_VALUES", 50)
    rng = np.random.default_rng(0)
    values = rng.integers(0, 200, 600).astype(float)
    if kind != "numbers":
        values = np.array([f"v{v:.0f}" if v > 20 else v for v in values], dtype=object)
        values = values if kind == "mixed" else np.array([str(v) for v in values], dtype=object)
    weights = rng.integers(1, 4, 600).astype(float)
    whole = summary_of(values, weights)
    for n in (2, 7):
        other = summary_of(values, weights, n, rng.permutation(600))
        for one, two in zip(whole, other, strict=True):
            np.testing.assert_array_equal(one, two)
    assert len(whole.values) <= 53 and whole.total == weights.sum()
    texts = np.array([f"{v:g}" if isinstance(v, float) else v for v in values.tolist()])
    for value, weight in zip(whole.values, whole.weights, strict=True):
        name = f"{value:g}" if isinstance(value, float) else value
        assert weight == weights[texts == name].sum()


def test_the_lowest_numbers_are_kept_and_may_stand_for_missing_values(monkeypatch):
    monkeypatch.setattr(summaries, "_MOST_VALUES", 50)
    values = np.append(np.random.default_rng(0).uniform(0.0, 9.0, 990), np.full(10, -999.0))
    read = ReadSummaries.of(["a"], [summary_of(values, n_parts=5)])
    assert read.schema.columns[0].sentinels == (-999.0,)


@pytest.mark.filterwarnings("ignore")
def test_the_schema_of_summaries_is_that_of_the_table():
    weights = np.random.default_rng(0).integers(1, 3, N).astype(float)
    rows = ROWS.drop(columns="grade")  # the type knows the order of its levels
    found = [ColumnSummary.of(raw, weights) for raw in raw_columns(rows)]
    assert ReadSummaries.of(list(rows), found).schema == Schema.of(rows, list(rows), weights)


# --- estimators of numbers ------------------------------------------------------------------------

LABELS = pd.Series(np.where(ROWS.new, "a", "b"))
FEW = {"potential": "euclidean", "max_iter": 5, "random_state": 0}
OF_NUMBERS = {
    "RidgePathRegressor": ({"solver": "exact"}, Y),
    "KernelRidgeRegressor": ({"random_state": 0}, Y),
    "ReflectronRegressor": ({"link": "identity", **FEW}, Y),
    "ReflectronClassifier": (FEW, LABELS),
    "OptimisticPerceptron": ({}, LABELS),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OF_NUMBERS)
def test_estimators_of_numbers_prepare_tables(client, name):
    """They learn what they learn of the numbers of a `TablePreprocessor`, cut alike."""
    options, y = OF_NUMBERS[name]
    rows, n = ROWS.drop(columns="words"), 3
    table = tunefree.TablePreprocessor(sparse_output=False)
    numbers = pd.DataFrame(table.fit_transform(rows), columns=table.get_feature_names_out())
    there, plain = (
        getattr(tfd, f"Dask{name}")(**options).fit(parts(X, n), parts(y, n))
        for X in (rows, numbers)
    )
    assert there.table_.schema_ == table.schema_ and plain.table_ is None
    assert there.n_features_in_ == rows.shape[1]
    assert there.feature_names_in_.tolist() == list(rows)
    lazy, expected = (m.predict(parts(X, 2)) for m, X in ((there, rows), (plain, numbers)))
    lazy, expected = lazy.compute().to_numpy(), expected.compute().to_numpy()
    local = there.to_local()
    assert local[1].n_features_in_ == numbers.shape[1]
    assert (local.predict(rows) == lazy).all()
    if y is LABELS:
        assert (lazy == expected).all()
    else:
        np.testing.assert_allclose(lazy, expected, rtol=1e-9, atol=1e-9)
    assert there.score(parts(rows), parts(y)) == pytest.approx(local.score(rows, y))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["RidgePathRegressor", "KernelRidgeRegressor"])
def test_exact_estimators_of_numbers_equal_a_pipeline_in_memory(client, name):
    """However the partitions are cut, and in an array."""
    options, _ = OF_NUMBERS[name]
    rows = ROWS.drop(columns=["words", "grade"])
    made = make_pipeline(tunefree.TablePreprocessor(), getattr(tunefree, name)(**options))
    expected = made.fit(rows, Y).predict(rows)
    kind = getattr(tfd, f"Dask{name}")
    X = objects(rows)
    there = kind(**options).fit(parts(rows, 5), parts(Y, 5))
    np.testing.assert_allclose(there.predict(parts(rows)), expected, rtol=1e-6, atol=1e-6)
    cut = da.from_array(X, chunks=(100, X.shape[1]))
    there = kind(**options).fit(cut, da.from_array(Y.to_numpy(), chunks=100))
    np.testing.assert_allclose(there.predict(cut), expected, rtol=1e-6, atol=1e-6)


def test_missing_numbers_of_an_array_are_those_of_the_table(client):
    X = np.random.default_rng(0).normal(size=(N, 3))
    y = X @ [1.0, -1.0, 0.5]
    X[::7, 1] = np.nan
    far = da.from_array(X, chunks=(70, 3)), da.from_array(y, chunks=70)
    there = tfd.DaskRidgePathRegressor(solver="exact").fit(*far)
    local = make_pipeline(tunefree.TablePreprocessor(), tunefree.RidgePathRegressor(solver="exact"))
    np.testing.assert_allclose(there.predict(far[0]), local.fit(X, y).predict(X), rtol=1e-9)
    there.fit(da.from_array(np.nan_to_num(X), chunks=(70, 3)), far[1])
    assert there.table_ is None and isinstance(there.to_local(), tunefree.RidgePathRegressor)
