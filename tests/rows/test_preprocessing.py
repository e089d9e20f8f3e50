"""Mixed tables become the same numbers from whatever they are held in."""

import numpy as np
import pytest
from scipy import sparse

from tunefree import DataWarning, TablePreprocessor, load_model, save_model
from tunefree.rows.phrases import Phrases

COLUMNS = {
    "age": [30.0, None, 50.0, 41.0, 30.0, 22.0],
    "city": ["Rome", "Oslo", "Rome", None, "Oslo", "Rome"],
    "member": [True, False, True, True, None, False],
    "visits": [1, 2, 3, 4, 5, 6],
}
NAMES = [
    "age", "age is missing", "city=Oslo", "city=Rome", "city=(rare)",
    "member", "member is missing", "visits",
]  # fmt: skip
EXPECTED = np.array([
    [30, 0, 0, 1, 0, 1, 0, 1],
    [30, 1, 1, 0, 0, 0, 0, 2],
    [50, 0, 0, 1, 0, 1, 0, 3],
    [41, 0, 0, 0, 1, 1, 0, 4],
    [30, 0, 1, 0, 0, 1, 1, 5],
    [22, 0, 0, 1, 0, 0, 0, 6],
])  # fmt: skip


def frame(kind):
    if kind == "array":
        return np.array(list(zip(*COLUMNS.values(), strict=True)), dtype=object)
    if kind == "pandas extension":
        return pytest.importorskip("pandas").DataFrame(COLUMNS).convert_dtypes()
    if kind == "pyarrow":
        return pytest.importorskip(kind).table(COLUMNS)
    return pytest.importorskip(kind).DataFrame(COLUMNS)


@pytest.mark.parametrize("kind", ["array", "pandas", "pandas extension", "polars", "pyarrow"])
def test_every_container_gives_the_same_numbers(kind):
    table = TablePreprocessor()
    out = table.fit_transform(frame(kind))
    np.testing.assert_array_equal(out, EXPECTED)
    if kind != "array":
        assert list(table.get_feature_names_out()) == NAMES


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_level_not_seen_is_zeros_and_a_new_gap_is_the_median(library):
    library = pytest.importorskip(library)
    table = TablePreprocessor().fit(
        library.DataFrame({"a": ["x", "y", "x", "y"], "b": [1, 2, 4, 9]})
    )
    with pytest.warns(DataWarning, match="not seen .*: column 'a' in 1 cell, the first 'z' in row"):
        out = table.transform(library.DataFrame({"a": ["z", "x"], "b": [None, 3.0]}))
    np.testing.assert_array_equal(out, [[0, 0, 2], [1, 0, 3]])


DAYS = ["1970-01-02", "1970-01-03 12:00", None, "1971-02-01"]
WRITTEN = {
    "iso": DAYS,
    "zoned": ["1970-01-02T00:00Z", "1970-01-03 12:00+02:00", "", "1971-02-01T00:00-0500"],
    "dotted": ["02.01.1970", "3.1.1970 12:00", None, "01.02.1971"],
    "slashes": ["01/02/1970", "1/3/1970 12:00 PM", "N/A", "2/1/1971"],
    "day first": ["2/1/1970", "03/01/1970 12:00", None, "1/2/1971", "31/1/1970"],
}


def dates(kind):
    pandas = pytest.importorskip("pandas")
    if kind in WRITTEN:
        return pandas.DataFrame({"t": WRITTEN[kind]})
    times = pandas.to_datetime(pandas.Series(DAYS), format="mixed")
    if kind == "objects":
        return np.array([[None if v is pandas.NaT else v.to_pydatetime()] for v in times], object)
    X = pandas.DataFrame({"t": times.dt.tz_localize("Europe/Rome") if "zone" in kind else times})
    if "polars" in kind:
        return pytest.importorskip("polars").from_pandas(X)
    return pytest.importorskip("pyarrow").Table.from_pandas(X) if "arrow" in kind else X


@pytest.mark.parametrize(
    "kind", [*WRITTEN, "objects", "pandas", "pandas zone", "polars zone", "arrow", "arrow zone"]
)
def test_dates_are_days_and_a_calendar_of_local_time_however_they_are_held(kind):
    # Day and month could be either way round, of which a warning would speak.
    given = {"t": {"day_first": False}} if kind == "slashes" else None
    X, table = dates(kind), TablePreprocessor(schema=given)
    out = table.fit(X).transform(X[:4])
    # days, missing, month, day of month, weekday, weekend, hour; a gap is the median
    rows = [[1, 0, 1, 2, 4, 0, 0], [2.5, 0, 1, 3, 5, 1, 12], [2.5, 1, 1, 3, 5, 1, 12],
            [396, 0, 2, 1, 0, 0, 0]]  # fmt: skip
    np.testing.assert_allclose(out, rows)
    name = "x0" if kind == "objects" else "t"
    assert list(table.get_feature_names_out()[[1, 4]]) == [f"{name} is missing", f"{name}: weekday"]


def test_numbers_as_people_write_them_and_categories_by_their_type():
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame({"a": ["1,234", "5", "n/a", "-1,000.5"], "b": ["7%", "8 %", "1%", "100%"],
                          "c": ["$5,000", "$7", "3 $", "$1"],
                          "d": pandas.Categorical([1, 2, 1, 2])})  # fmt: skip
    table = TablePreprocessor()
    out = table.fit_transform(X)
    np.testing.assert_allclose(out[:, :4], [[1234, 0, 0.07, 5000], [5, 0, 0.08, 7],
                                            [5, 1, 0.01, 3], [-1000.5, 0, 1, 1]])  # fmt: skip
    assert table.kinds_.tolist() == ["number"] * 3 + ["category"]
    with pytest.raises(
        ValueError, match="'b' held numbers in parts of one in fit, but now holds text"
    ):
        table.transform(X.assign(b="x"))


def test_sentences_become_numbers_weights_repeat_them_and_files_hold_them(tmp_path):
    rng = np.random.default_rng(0)
    words = np.array(["good", "bad", "fast", "slow", "phone", "chair", "table", "very"])
    texts = [" ".join(rng.choice(words, 5)) + f" {i}" for i in range(60)]
    X = np.array([texts, rng.normal(size=60)], object).T
    X[3, 0] = None
    w = rng.choice([0, 1, 1, 1, 2], 60)
    table = TablePreprocessor().fit(X, sample_weight=w)
    assert table.kinds_.tolist() == ["text", "number"] and not table.dropped_
    out = table.transform(X)
    assert out.shape[1] == 1 + len(table.get_feature_names_out()) - 1 > 3
    np.testing.assert_array_equal(out[3, :-1], 0.0)
    again = TablePreprocessor().fit(np.repeat(X, w, axis=0)).transform(X)
    np.testing.assert_allclose(again, out, atol=1e-5)
    save_model(table, tmp_path / "table")
    np.testing.assert_array_equal(load_model(tmp_path / "table").transform(X), out)


def test_rare_levels_share_a_column():
    levels = ["a"] * 50 + ["b"] * 30 + [f"r{i}" for i in range(20)]
    X = np.array(levels, dtype=object)[:, None]
    table = TablePreprocessor(sparse_output=False).fit(X)
    assert list(table.get_feature_names_out()) == ["x0=a", "x0=b", "x0=(rare)"]
    np.testing.assert_array_equal(table.transform(X).sum(axis=0), [50, 30, 20])
    few = TablePreprocessor(max_levels=2, sparse_output=False).fit(X)
    np.testing.assert_array_equal(few.transform(X).sum(axis=0), [50, 50])


def test_a_level_not_seen_is_a_rare_one_and_text_that_never_repeats_gives_nothing():
    names = [f"n{i}" for i in range(100)]
    X = np.array([["a"] * 60 + ["b"] * 30 + names[:10], names], dtype=object).T
    with pytest.warns(UserWarning, match="High-cardinality text columns dropped: 'x1'"):
        table = TablePreprocessor(sparse_output=False).fit(X)
    assert list(table.get_feature_names_out()) == ["x0=a", "x0=b", "x0=(rare)"]
    assert table.dropped_ == ["x1"]
    new = np.array([["new", "n1"], ["n3", "n1"], ["a", "z"]], dtype=object)
    np.testing.assert_array_equal(table.transform(new), [[0, 0, 1], [0, 0, 1], [1, 0, 0]])
    with pytest.raises(ValueError, match="only high-cardinality text"):
        TablePreprocessor().fit(X[:, 1:])


def test_medians_are_those_of_the_rows_even_where_nothing_was_missing():
    X = np.random.default_rng(0).normal(size=(21, 4))
    for weights in (None, np.r_[np.zeros(6), np.ones(15)]):
        rows = X if weights is None else X[6:]
        table = TablePreprocessor().fit(X, sample_weight=weights)
        np.testing.assert_array_equal(table.medians_, np.median(rows, axis=0))
        out = table.transform(np.full((1, 4), np.nan))
        np.testing.assert_array_equal(out[0], np.median(rows, axis=0))


def test_pyarrow_decimals_and_dictionaries():
    from decimal import Decimal

    import pyarrow as pa

    X = pa.table({"c": pa.array(["x", None, "x", "x"]).dictionary_encode(),
                  "d": [Decimal("1.5"), Decimal("2"), None, Decimal("3")]})  # fmt: skip
    table = TablePreprocessor()
    out = table.fit_transform(X)
    assert list(table.get_feature_names_out()[:2]) == ["c=x", "c=(rare)"]
    np.testing.assert_array_equal(out, [[1, 0, 1.5, 0], [0, 1, 2, 0], [1, 0, 2, 1], [1, 0, 3, 0]])


def test_weights_are_repetitions():
    rng = np.random.default_rng(0)
    X = np.array(
        [[rng.choice([1.0, 2.0, 7.0, np.nan]), str(rng.integers(9))] for _ in range(40)], object
    )
    w = rng.integers(0, 4, 40)
    one, two = (
        TablePreprocessor().fit(X, sample_weight=w),
        TablePreprocessor().fit(np.repeat(X, w, 0)),
    )
    assert one.levels_ == two.levels_ and np.array_equal(one.rare_, two.rare_)
    np.testing.assert_array_equal(one.medians_, two.medians_)


def test_plain_numbers_pass_and_sparse_stays_sparse():
    X = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)
    out = TablePreprocessor().fit_transform(X)
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out, X)
    S = sparse.random_array((50, 20), density=0.1, rng=np.random.default_rng(0), format="csr")
    assert (TablePreprocessor().fit_transform(S) != S).nnz == 0
    S.data[3] = np.nan
    out = TablePreprocessor().fit_transform(S)
    assert sparse.issparse(out) and out.shape == (50, 21) and np.isfinite(out.data).all()


def test_many_levels_are_stored_sparsely_unless_frames_are_wanted():
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame({"c": [f"s{i % 30}" for i in range(90)]})
    assert sparse.issparse(TablePreprocessor().fit_transform(X))
    out = TablePreprocessor().set_output(transform="pandas").fit_transform(X)
    assert list(out.columns[:2]) == ["c=s0", "c=s1"] and out.to_numpy().sum() == 90


def test_bad_values_are_named():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="infinity.*income"):
        TablePreprocessor().fit(pandas.DataFrame({"income": [1.0, np.inf]}))
    with pytest.raises(TypeError, match=r"Column 'pets' holds \['cat'\]"):
        TablePreprocessor().fit(pandas.DataFrame({"pets": [["cat"], ["dog"]]}))
    table = TablePreprocessor().fit(pandas.DataFrame({"n": [1.0, 2.0]}))
    with pytest.raises(ValueError, match="'n' held numbers in fit, but now holds text such as 'x'"):
        table.transform(pandas.DataFrame({"n": ["x", "y"]}))


def test_a_model_file_keeps_it(tmp_path):
    table = TablePreprocessor().fit(frame("array"))
    save_model(table, tmp_path / "table")
    again = load_model(tmp_path / "table").transform(frame("array"))
    np.testing.assert_array_equal(again, table.transform(frame("array")))


def declared_table():
    rng = np.random.default_rng(0)
    return np.column_stack([rng.integers(0, 3, 60), rng.normal(size=60), rng.integers(0, 2, 60)])


@pytest.mark.parametrize("how", ["mask", "positions", "names", "sparse"])
def test_declared_columns_are_categories_however_they_are_named(how):
    X, given = declared_table(), {"mask": [True, False, True], "positions": [0, -1]}.get(how)
    shown = X
    if how == "names":
        shown, given = pytest.importorskip("pandas").DataFrame(X, columns=list("abc")), ["c", "a"]
    elif how == "sparse":
        shown, given = sparse.csr_array(X), [0, 2]
    table = TablePreprocessor(categorical_features=given, sparse_output=False).fit(shown)
    assert list(table.kinds_) == ["category", "number", "category"]
    assert table.levels_ == {"0": ["0", "1", "2"], "2": ["0", "1"]}
    np.testing.assert_array_equal(table.sources_, [0, 0, 0, 1, 2, 2])
    out = table.transform(shown)
    out = out.toarray() if sparse.issparse(out) else out
    expected = [X[:, 0] == k for k in range(3)] + [X[:, 1]] + [X[:, 2] == k for k in range(2)]
    np.testing.assert_array_equal(out, np.column_stack(expected))


def test_a_level_of_a_declared_column_that_was_not_seen_is_zeros():
    X = declared_table()
    table = TablePreprocessor(categorical_features=[0], sparse_output=False).fit(X)
    with pytest.warns(DataWarning, match="column 'x0' in 1 cell, the first '7' in row 0"):
        out = table.transform([[7.0, 0.5, 1.0]])
    np.testing.assert_array_equal(out, [[0, 0, 0, 0.5, 1]])


def test_a_declared_column_of_many_levels_shares_the_rare_and_the_unseen():
    rng = np.random.default_rng(0)
    X = np.r_[np.repeat(np.arange(300), 20), np.arange(300, 400)][:, None].astype(float)
    X = rng.permutation(X)
    table = TablePreprocessor(categorical_features=[0], sparse_output=False).fit(X)
    assert len(table.levels_["0"]) == 249 and table.rare_[0]
    assert table.transform([[399.0], [1e6]])[:, -1].tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "given", [[True, False], [3], ["a"], [0.5, 1.0], "a", [[0, 1]], [-4]], ids=str
)
def test_columns_declared_in_vain_are_named(given):
    with pytest.raises(ValueError, match="categorical_features"):
        TablePreprocessor(categorical_features=given).fit(declared_table())


@pytest.mark.parametrize("given", [None, "from_dtype", [], [False] * 3])
def test_nothing_declared_changes_nothing(given):
    X = declared_table()
    np.testing.assert_array_equal(TablePreprocessor(categorical_features=given).fit_transform(X), X)


def test_columns_out_are_counted_without_a_look_at_every_number(monkeypatch):
    X = np.array([[1.0, "red", "a"], [np.nan, "blue", "b"], [3.0, "red", "c"]], dtype=object)
    with pytest.warns(UserWarning, match="High-cardinality"):
        table = TablePreprocessor().fit(X)
    suffixes = [table._suffixes(j) for j in range(3)]
    assert table.sources_.tolist() == [j for j, found in enumerate(suffixes) for _ in found]
    assert table.dropped_ == ["x2"]
    wide = TablePreprocessor().fit(sparse.csr_array(np.eye(50)))
    monkeypatch.setattr(TablePreprocessor, "_suffixes", None)
    assert wide.sources_.tolist() == list(range(50)) and wide.dropped_ == []


def test_a_column_of_text_takes_as_much_as_the_pieces_that_it_has():
    words = ["red house", "blue house", "green garden", "old mill", "new mill at sea"]
    few = Phrases.of(np.array(words * 8, dtype=object), np.ones(40))
    assert few.numbers(np.array(words, dtype=object), np.zeros(5, dtype=bool)).any()
    assert len(few.pieces) == len(few.basis) < 200
    assert sum(part.nbytes for part in few) < 50_000
    unseen = few.numbers(np.array(["quick fox"], dtype=object), np.zeros(1, dtype=bool))
    assert not unseen.any()  # of no piece that was seen
