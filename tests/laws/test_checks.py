"""Warnings about tables: each names what was put into a table, and clean tables have none."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse, stats
from sklearn import datasets
from sklearn.model_selection import KFold, TimeSeriesSplit

from tunefree import (
    DataWarning,
    TablePreprocessor,
    TuneFreeClassifier,
    TuneFreeRegressor,
    load_model,
    save_model,
)
from tunefree.rows.checks import (
    ColumnShares,
    SourceColumn,
    constant_columns,
    dependence,
    messages,
    near_levels,
    training_findings,
)
from tunefree.rows.preprocessing import source_layout

N = 120


def table(seed=0, n=N):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "a": rng.normal(size=n),
        "b": rng.integers(0, 9, n),
        "city": rng.choice(["Berlin", "Hamburg"], n),
    })  # fmt: skip
    return frame, frame["a"] + rng.normal(size=n), rng


def layout_of(X):
    return source_layout(TablePreprocessor().fit(X))


def findings_of(frame, y, *, loss="regression", cv=None):
    """The messages of one fit."""
    model = TuneFreeRegressor if loss == "regression" else TuneFreeClassifier
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model(candidates=("linear",), cv=cv, random_state=0).fit(frame, y)
    assert all(issubclass(one.category, DataWarning) for one in caught)
    assert all(one.filename == __file__ for one in caught)
    return [str(one.message) for one in caught]


def copied(frame, y, rng):
    return frame.assign(usd=1.1 * y), y, "Column 'usd': alone enough to predict nearly all"


def copied_classes(frame, y, rng):
    y = pd.Series(np.where(y > 0, "high", "low"))
    return frame.assign(level=y.replace({"high": "A", "low": "B"})), y, "Column 'level': alone"


def numbered(frame, y, rng):
    return frame.assign(id=rng.permutation(N) + 7000), y, "Column 'id': whole numbers that identify"


def constant(frame, y, rng):
    return frame.assign(c=3.0, d="DE"), y, "Columns 'c', 'd': all values are equal"


def misspelt(frame, y, rng):
    city = frame["city"].mask(frame.index == 5, "Berlni")
    return frame.assign(city=city), y, "Column 'city': nearly equal levels: 'Berlni' and 'Berlin'"


def repeated(frame, y, rng):
    frame = pd.concat([frame, frame[:4]], ignore_index=True)
    return frame, pd.concat([y, y[:4] + 1], ignore_index=True), "8 of 124 rows equal another row"


SPOILT = [copied, copied_classes, numbered, constant, misspelt, repeated]


@pytest.mark.parametrize("spoil", SPOILT)
def test_each_check_finds_what_was_put_into_a_table_and_nothing_else(spoil):
    frame, y, words = spoil(*table())
    loss = "regression" if y.dtype == float else "classification"
    found = findings_of(frame, y, loss=loss)
    assert len(found) == 1 and words in found[0], found
    assert findings_of(pl.DataFrame(frame.to_dict("list")), y.to_numpy(), loss=loss) == found


@pytest.mark.parametrize("form", [np.float32, sparse.csr_matrix])
def test_arrays_and_sparse_rows_are_checked_too(form):
    frame, y, _ = table()
    X = np.column_stack([frame["a"], y, np.ones(N), np.zeros(N)]).astype(np.float32)
    found = findings_of(form(X) if form is sparse.csr_matrix else X, y.to_numpy(np.float32))
    assert "Column 'x1': alone" in found[1]
    ones = "Column 'x2': all" if form is sparse.csr_matrix else "Columns 'x2', 'x3': all"
    assert ones in found[0] and len(found) == 2  # zeros are natural in sparse rows


@pytest.mark.parametrize("seed", range(20))
def test_noise_raises_no_warning(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 400))
    X = np.column_stack([rng.normal(size=n), rng.integers(0, 3, n), rng.poisson(1.0, n) * 100])
    for classify, y in ((True, rng.integers(0, 2, n)), (False, rng.standard_cauchy(n))):
        assert training_findings(layout_of(X), X, y, n, classify) == []


def clean_tables(data):
    for file in sorted((data / "tables").glob("*.npz")):
        parts = np.load(file)
        yield file.stem, parts["X"], parts["y"], str(parts["task"]) != "regression"
    for name in ("breast_cancer", "diabetes", "digits", "iris", "wine"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        yield name, X, y, name != "diabetes"


def test_what_is_found_in_real_tables_is_true(data):
    """30 tables: constant columns of two are all."""
    found = {}
    for name, X, y, classify in clean_tables(data):
        codes = np.unique(y, return_inverse=True)[1] if classify else y
        distinct = np.unique(np.column_stack([X, codes]), axis=0, return_index=True)[1]
        rows = np.random.default_rng(0).permutation(distinct)
        here = training_findings(layout_of(X), X[rows], codes[rows], len(y), classify)
        found[name] = [(f.column, f.message.split(".")[0]) for f in here]
        for column, message in found[name]:
            assert message == "all values are equal" and np.ptp(X[:, int(column[1:])]) == 0
    assert len(found) == 30
    assert {n for n, f in found.items() if f} == {"segmentation", "digits"}


@pytest.mark.parametrize("sort", [True, False])
def test_rows_sorted_by_target_matter_where_cv_holds_them_out_in_this_order(sort):
    X, y = datasets.load_diabetes(return_X_y=True)
    order = np.argsort(y) if sort else np.arange(len(y))
    shuffled = KFold(3, shuffle=True, random_state=0)
    cases = [(None, False), (3, True), (shuffled, False), (TimeSeriesSplit(3), True)]
    for cv, is_in_order in cases:
        found = findings_of(X[order], y[order], cv=cv)
        assert len(found) == (sort and is_in_order)
        assert all("sorted by the target, and cv= holds them out in this order" in f for f in found)
    X, y = datasets.load_iris(return_X_y=True)  # splits of classes are stratified
    assert findings_of(X, y, loss="classification") == []
    assert findings_of(X, y, loss="classification", cv=5) == []


@pytest.mark.skipif(not hasattr(stats, "chatterjeexi"), reason="SciPy 1.15 has the coefficient")
def test_the_dependence_is_chatterjees_coefficient():
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    for y in (rng.normal(size=300), x**2, rng.poisson(1.0, 300).astype(float)):
        assert dependence(y[np.argsort(x)], False) == pytest.approx(
            stats.chatterjeexi(x, y).statistic, abs=1e-12
        )


def test_coarse_tables_may_repeat_rows():
    """Three columns of few values: rows repeat by chance, with other targets, without a finding."""
    rng = np.random.default_rng(0)
    for levels in (3, 6, 9):
        X = rng.integers(0, levels, (400, 3)).astype(float)
        y = rng.normal(size=400)
        assert training_findings(layout_of(X), X, y, len(y), False) == []


def test_a_constant_in_the_rows_looked_at_is_no_finding_if_other_rows_differ(monkeypatch):
    monkeypatch.setattr("tunefree.rows.checks._MOST_ROWS", 30)
    X = np.random.default_rng(0).normal(size=(300, 2))
    X[:, 1] = 5.0
    y = X[:, 0] ** 2
    (finding,) = training_findings(layout_of(X), X, y, len(y), False)
    assert finding.column == "x1"
    X[299, 1] = 6.0
    assert training_findings(layout_of(X), X, y, len(y), False) == []


def test_near_levels_are_those_of_typing_errors():
    same = {"Berlin": ["berlin", "BERLIN", " Berlin ", "Berlni", "Berln", "Berllin", "Bervin"],
            "New York": ["new-york", "New  York", "New_York", "New Yoork"] }  # fmt: skip
    for model, others in same.items():
        for other in others:
            found = near_levels([model, other], [40, 4])
            assert found == ({} if other == "New Yoork" else {other: model}), other  # short words
    apart = [("Gambia", "Zambia"), ("Iran", "Iraq"), ("class a", "class b"), ("A-", "A+")]
    apart += [("item 10", "item 11"), ("FuseA", "FuseP"), ("male", "female"), ("<5", ">5")]
    for pair in apart:
        assert near_levels(pair, [40, 4]) == {}
    assert near_levels(["Marie", "Maria"], [40, 30]) == {}  # both are frequent


def test_merged_levels_give_the_table_without_typing_errors(tmp_path):
    frame, y, _ = table()
    spoilt = frame.assign(city=frame["city"].mask(frame.index == 5, "berlin "))
    frame = frame.assign(city=frame["city"].mask(frame.index == 5, "Berlin"))
    for X in (spoilt, pl.DataFrame(spoilt.to_dict("list"))):
        plain, merged = TablePreprocessor().fit(frame), TablePreprocessor(merge_levels=True).fit(X)
        assert merged.merged_ == {"2": {"berlin": "Berlin"}}
        np.testing.assert_array_equal(merged.transform(X), plain.transform(frame))
    model = TuneFreeRegressor(("linear",), merge_levels=True, random_state=0).fit(spoilt, y)
    clean = TuneFreeRegressor(("linear",), random_state=0).fit(frame, y)
    np.testing.assert_array_equal(model.predict(spoilt), clean.predict(frame))
    assert "Merged levels of city: 'berlin' into 'Berlin'." in str(model.report_)
    save_model(model, tmp_path / "m")
    np.testing.assert_array_equal(load_model(tmp_path / "m").predict(spoilt), clean.predict(frame))


def test_merged_levels_are_exported(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    from tunefree.onnx import to_onnx

    frame, y, _ = table()
    frame["city"] = frame["city"].mask(frame.index == 5, "berlin")
    model = TuneFreeRegressor(("linear",), merge_levels=True, random_state=0).fit(frame, y)
    to_onnx(model, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    inputs = {
        name: frame[[name]].to_numpy(object if name == "city" else np.float64) for name in frame
    }
    out = session.run(None, inputs)[0].ravel()
    np.testing.assert_allclose(out, model.predict(frame), rtol=1e-5)


def shares_of(frame):
    """How to count other rows, and the shares of these."""
    preprocessor = TablePreprocessor().fit(frame)
    layout, X = source_layout(preprocessor), preprocessor.transform(frame)
    shares = ColumnShares.of(layout, X, X, np.ones(len(X)))

    def different(other):
        counts = shares.count(layout, preprocessor.transform(other))
        return [one.column for one in shares.drift(layout, counts) if one.differs]

    return preprocessor, layout, shares, different


def test_counts_of_parts_add_up_in_any_order_and_weights_are_repetitions():
    frame, _, rng = table(n=500)
    preprocessor, layout, shares, _ = shares_of(frame)
    X = preprocessor.transform(frame.sample(300, random_state=0))
    whole = shares.count(layout, X)
    parts = sum(shares.count(layout, part) for part in (X[200:], X[:50], X[50:200]))
    np.testing.assert_array_equal(whole, parts)
    assert (whole.sum(axis=1) == 300).all()
    np.testing.assert_array_equal(whole, shares.count(layout, sparse.csr_array(X)))
    weights = rng.integers(0, 4, 300)
    again = shares.count(layout, np.repeat(X, weights, axis=0))
    np.testing.assert_array_equal(shares.count(layout, X, weights), again)


@pytest.mark.parametrize("n_new", [30, 1000])
def test_rows_of_the_same_distribution_do_not_differ(n_new):
    """In 200 draws at most one alarm: each column's test has a level of .001 / 3."""
    *_, different = shares_of(table(n=1000)[0])
    assert sum(different(table(seed + 1, n_new)[0]) != [] for seed in range(200)) <= 1


def test_training_rows_that_are_repeated_do_not_differ_from_themselves():
    rng = np.random.default_rng(0)
    X = (rng.random((2000, 3)) < 0.1).astype(float)
    model = TuneFreeClassifier(("linear",), random_state=0).fit(X, rng.random(2000) < 0.3)
    assert [one.differs for one in model.column_drift(X)] == [False] * 3
    assert max(one.index for one in model.column_drift(X)) < 1e-12


@pytest.mark.filterwarnings("ignore:Levels that fit has not seen")
def test_other_distributions_are_found():
    frame, *_ = table(n=1000)
    frame.loc[::5, "a"] = np.nan
    *_, different = shares_of(frame)
    changes = {
        "a": frame["a"] + 1.0,
        "b": frame["b"].clip(upper=4),
        "city": np.where(frame.index % 4, "Hamburg", "Berlin"),
    }
    for column, values in changes.items():
        assert different(frame.assign(**{column: values}).sample(200, random_state=0)) == [column]
    assert different(frame.assign(a=frame["a"].mask(frame.index % 2 == 0))) == ["a"]  # more gaps
    assert different(frame.assign(city="Rome")) == ["city"]  # a level that is new


@pytest.mark.parametrize("form", ["pandas", "polars", "float32", "sparse"])
def test_column_drift_is_the_stability_index_and_scipys_chi_squared_test(form):
    frame, y, rng = table(n=900)
    frame["city"] = np.where(frame["city"] == "Berlin", 1, 0)
    new = frame.assign(b=rng.integers(0, 6, 900))[:300]
    as_given = {
        "pandas": lambda rows: rows,
        "polars": lambda rows: pl.DataFrame(rows.to_dict("list")),
        "float32": lambda rows: rows.to_numpy(np.float32),
        "sparse": lambda rows: sparse.csr_array(rows.to_numpy()),
    }[form]
    model = TuneFreeRegressor(("linear",), random_state=0).fit(as_given(frame), y)
    a, b, city = model.column_drift(as_given(new))
    assert (a.differs, b.differs, city.differs) == (False, True, False)
    assert a.column == ("a" if form in ("pandas", "polars") else "x0")
    one, other = (np.bincount(f["city"], minlength=2) for f in (frame, new))
    p, q = one / one.sum(), other / other.sum()
    assert city.index == pytest.approx(((p - q) * np.log(p / q)).sum())
    test = stats.chi2_contingency([one, other], correction=False)
    assert city.p_value == pytest.approx(test.pvalue)


def test_column_drift_of_very_wide_tables_is_refused():
    X = sparse.random_array((40, 2001), density=0.01, rng=np.random.default_rng(0), format="csr")
    model = TuneFreeRegressor(("linear",), random_state=0).fit(X, np.arange(40.0))
    with pytest.raises(ValueError, match="column_drift is for at most 2,000 columns"):
        model.column_drift(X)


def test_findings_do_not_depend_on_the_order_of_columns():
    frame, y, rng = table()
    frame = frame.assign(id=rng.permutation(N), c=1.0)
    one, other = (findings_of(f, y) for f in (frame, frame[frame.columns[::-1]]))
    assert sorted(one) == sorted(other)


def test_the_text_of_columns_that_are_many():
    columns = [SourceColumn(j, f"x{j}", "number", np.ones(30)) for j in range(8)]
    (message,) = messages(constant_columns(columns))
    assert message.startswith("Columns 'x0', 'x1', 'x2', 'x3', 'x4' and 3 more: all")
