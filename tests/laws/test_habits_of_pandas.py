"""Tables, targets and what is given beside them, as people have them: labels, objects, indexes."""

import warnings
from decimal import Decimal
from uuid import UUID

import numpy as np
import pytest
from sklearn.base import is_classifier
from sklearn.model_selection import KFold, cross_val_score
from test_same_table import made

import tunefree
from tunefree import BoostedTreesRegressor, DataWarning, TuneFreeRegressor
from tunefree.core.registry import ESTIMATORS, estimator_class

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

N = 60
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(N, 2)), columns=["a", "b"], index=RNG.permutation(N))
TARGETS = np.exp(0.3 * FRAME["a"] + 0.3 * RNG.normal(size=N))
IS_HIGH = (TARGETS > 1.0).to_numpy()
OTHERS = ("DynamicsReflectron", "SharedReflectron", "TablePreprocessor")
OF_TARGETS = [name for name in sorted(ESTIMATORS) if name not in OTHERS]
CLASSIFIERS = [name for name in OF_TARGETS if is_classifier(estimator_class(name)())]

# --- labels ---------------------------------------------------------------------------------------

LABELS = {
    "objects": lambda is_high: pd.Series(is_high.tolist(), dtype=object, index=FRAME.index),
    "whole objects": lambda is_high: np.array(is_high.astype(int).tolist(), dtype=object),
    "of two types": lambda is_high: [True if v else 0 for v in is_high],
    "decimals": lambda is_high: [Decimal(int(v)) for v in is_high],
    "texts of any length": lambda is_high: np.where(is_high, "v", "u").astype(
        np.dtypes.StringDType()
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_score_takes_the_labels_and_weights_of_a_fit(name):
    X, weights = FRAME.to_numpy(), 1 + np.arange(N) % 3
    plain = made(name).fit(X, IS_HIGH)
    expected = plain.score(X, IS_HIGH), plain.score(X, IS_HIGH, weights)
    for kind, labels_of in LABELS.items():
        labels = labels_of(IS_HIGH)
        model = made(name).fit(X, labels)
        scores = model.score(X, labels), model.score(X, labels, weights.astype(str))
        assert scores == expected, kind
        assert model.score(X, labels, 2) == expected[0], kind
    with pytest.raises(ValueError, match=r"Input y contains None. The first is y\[1\]"):
        plain.score(X[:2], [True, None])


def test_labels_that_are_objects_have_a_score_in_cross_validation():
    found = [
        cross_val_score(made("PiSTOLClassifier"), FRAME, labels_of(IS_HIGH), cv=KFold(3))
        for labels_of in (LABELS["objects"], lambda is_high: is_high)
    ]
    np.testing.assert_array_equal(*found)


def test_labels_of_several_types_are_refused_in_words():
    plans = np.where(IS_HIGH, "u", "v")
    labels = pd.DataFrame({"plan": plans, "paid": IS_HIGH.astype(int)}, index=FRAME.index)
    with pytest.raises(ValueError, match="y has 2 columns that are not 0 and 1"):
        made("TuneFreeClassifier").fit(FRAME, labels)


@pytest.mark.parametrize("name", ["PiSTOLRegressor", "BoostedTreesRegressor", "GLMRegressor"])
def test_targets_may_have_a_name_twice(name):
    both = pd.concat([TARGETS, TARGETS], axis=1)
    assert list(both.columns) == [TARGETS.name] * 2
    found = made(name).fit(FRAME, both).predict(FRAME)
    np.testing.assert_array_equal(found, made(name).fit(FRAME, both.to_numpy()).predict(FRAME))


@pytest.mark.parametrize("name", ["TuneFreeClassifier", "PiSTOLClassifier", "GLMClassifier"])
def test_classes_that_are_neither_text_nor_numbers_are_named_with_the_way_out(name):
    for labels in (
        pd.cut(TARGETS, 2),
        pd.Series(pd.PeriodIndex(["2024-01", "2024-02"] * 30, freq="M"), index=FRAME.index),
    ):
        first = str(labels.iloc[0])
        with pytest.raises(ValueError, match=r"y\[0\] is .*neither a number nor text") as caught:
            made(name).fit(FRAME, labels)
        assert f"such as '{first}'" in str(caught.value)


@pytest.mark.parametrize("name", ["TuneFreeClassifier", "GLMClassifier", "KernelRidgeClassifier"])
@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
def test_weights_of_classes_are_finite_and_not_negative(name, weight):
    model = made(name).set_params(class_weight={False: 1.0, True: weight})
    with pytest.raises(
        ValueError, match=f"class_weight= gives the class 'True' the weight {weight:g}"
    ):
        model.fit(FRAME, IS_HIGH)


# --- indexes --------------------------------------------------------------------------------------


def _of(name):
    """Targets of an estimator."""
    if name == "SharedReflectron":
        return np.c_[TARGETS, TARGETS]
    return IS_HIGH if name in CLASSIFIERS else TARGETS.to_numpy()


def _answers(model, X):
    return model.predict(X) if hasattr(model, "predict") else model.transform(X)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*OF_TARGETS, "TablePreprocessor"])
def test_an_index_of_pandas_is_no_column(name):
    """Arrow, and what reads its files, has it as one."""
    table = pa.Table.from_pandas(FRAME)
    assert table.column_names == ["a", "b", "__index_level_0__"]
    y, tables = (
        _of(name),
        (table, pl.from_arrow(table), table.replace_schema_metadata().to_pandas()),
    )
    model = made(name).fit(FRAME, y)
    expected = _answers(model, FRAME)
    for rows in tables:
        np.testing.assert_array_equal(_answers(model, rows), expected)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        again = made(name).fit(tables[0], y)
    assert list(again.feature_names_in_) == ["a", "b"]
    np.testing.assert_array_equal(_answers(again, tables[1]), expected)
    words = "X has the index of pandas in the column '__index_level_0__', which is not learned"
    found = [w for w in caught if words in str(w.message)]
    assert [w.category for w in found] == [DataWarning] * (name != "TablePreprocessor")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OF_TARGETS)
def test_rows_and_targets_in_another_order_are_named(name):
    """Rows are matched by place; equal labels in another order are most likely a mistake."""
    y = pd.Series(_of(name), index=FRAME.index)
    others = {
        "same": (y, False),
        "another order": (y.sort_index(), True),
        "other labels": (y.set_axis(range(N, 2 * N)), False),
        "labels twice": (y.set_axis([0] * N), False),
        "an array": (y.to_numpy(), False),
    }
    for kind, (targets, is_named) in others.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            made(name).fit(FRAME, targets)
        found = [str(w.message) for w in caught if "row labels in another order" in str(w.message)]
        assert len(found) == is_named, kind
        assert all("y.loc[X.index]" in words for words in found)


def test_weights_in_another_order_are_named():
    weights = pd.Series(1.0 + np.arange(N) % 3, index=FRAME.index).sort_index()
    for name in ("PiSTOLRegressor", "TuneFreeRegressor"):
        with pytest.warns(DataWarning, match=r"sample_weight.loc\[X.index\]"):
            made(name).fit(FRAME, TARGETS, sample_weight=weights)
    with pytest.warns(DataWarning, match=r"groups.loc\[X.index\]"):
        made("TuneFreeRegressor").fit(FRAME, TARGETS, groups=weights)


# --- columns --------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [TuneFreeRegressor, BoostedTreesRegressor])
def test_signs_of_a_series_are_those_of_its_labels(kind):
    """In whatever order; labels that are no names are places."""
    rows = pd.DataFrame(np.random.default_rng(1).normal(size=(160, 2)), columns=["a", "b"])
    y = rows["a"] + 2.0 * np.random.default_rng(2).normal(size=160)
    options = {"candidates": ("trees",)} if kind is TuneFreeRegressor else {}
    signs = {"by name": {"a": -1}, "in another order": pd.Series({"b": 0, "a": -1})}
    signs["by place"] = pd.Series([-1, 0])
    found = [
        kind(monotonic_cst=one, random_state=0, **options).fit(rows, y).predict(rows)
        for one in signs.values()
    ]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)
    with pytest.raises(ValueError, match="monotonic_cst=1 is one number"):
        kind(monotonic_cst=1, **options).fit(rows, y)


@pytest.mark.filterwarnings("ignore")
def test_a_mask_of_categories_goes_by_its_labels():
    mask = pd.Series({"b": False, "a": True})
    table = tunefree.TablePreprocessor(categorical_features=mask).fit(FRAME.round())
    assert table.kinds_.tolist() == ["category", "number"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["BoostedTreesRegressor", "TuneFreeRegressor", "GLMRegressor"])
def test_a_column_of_truth_values_comes_back_as_ones_and_zeros(name):
    rows = FRAME.assign(new=IS_HIGH, city=np.where(np.arange(N) % 2, "u", "v"))
    model = made(name).fit(rows, TARGETS)
    forms = [IS_HIGH.astype(int), IS_HIGH.astype(float), IS_HIGH.astype(int).astype(str)]
    forms += [IS_HIGH.astype(str), IS_HIGH.astype(float).astype(str)]
    for form in forms:
        np.testing.assert_array_equal(model.predict(rows.assign(new=form)), model.predict(rows))
    with pytest.raises(ValueError, match="'new' held truth values in fit, but now holds text"):
        model.predict(rows.assign(new=np.where(IS_HIGH, "yes", "no")))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["BoostedTreesRegressor", "PiSTOLRegressor", "StreamRegressor"])
def test_an_array_of_bytes_is_one_of_text(name):
    text = FRAME.to_numpy().astype(str)
    expected = made(name).fit(FRAME.to_numpy(), TARGETS).predict(FRAME.to_numpy())
    model = made(name).fit(text.astype("S"), TARGETS)
    np.testing.assert_array_equal(model.predict(text.astype("S")), expected)


NO_CELLS = {
    "a list": ([1, 2], "give its entries as columns"),
    "a dict": ({"a": 1}, "give its entries as columns"),
    "an identifier": (UUID(int=7), r"make text of it with str\(\)"),
}


@pytest.mark.parametrize("kind", NO_CELLS)
@pytest.mark.parametrize("name", OF_TARGETS)
def test_cells_of_other_kinds_are_named_with_the_way_out(name, kind):
    cell, way_out = NO_CELLS[kind]
    rows = FRAME.assign(c=pd.Series([cell] * N, dtype=object, index=FRAME.index))
    with pytest.raises((TypeError, ValueError), match=f"'c' holds .*; {way_out}"):
        made(name).fit(rows, _of(name))


CONTAINERS = {
    "pandas": lambda rows: rows,
    "polars": pl.DataFrame,
    "Arrow": lambda rows: pa.Table.from_pandas(rows, preserve_index=False),
    "text": lambda rows: rows.astype(str).replace("nan", ""),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("name", ["PiSTOLRegressor", "GLMRegressor", "KernelRidgeRegressor"])
def test_the_first_entry_that_is_no_number_is_named(name, container):
    rows = FRAME.copy()
    rows.iloc[[7, 9], 1] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN.* in column 'b', row 7"):
        made(name).fit(CONTAINERS[container](rows), TARGETS)
    if container != "text":  # where "inf" is a missing value
        with pytest.raises(ValueError, match="X contains infinity.* in column 'b', row 7"):
            made(name).fit(CONTAINERS[container](rows.fillna(np.inf)), TARGETS)


def test_the_first_infinite_entry_or_target_is_named():
    rows, y = FRAME.copy(), TARGETS.to_numpy().copy()
    rows.iloc[7, 1] = y[5] = np.inf
    with pytest.raises(ValueError, match="infinity.* in column 'b', row 7: give NaN"):
        made("TuneFreeRegressor").fit(rows, TARGETS)
    with pytest.raises(ValueError, match=r"y contains infinity.*y\[5\]"):
        made("TuneFreeRegressor").fit(FRAME, y)


def test_a_schema_that_does_not_fit_is_named_at_once():
    rows = FRAME.assign(city=np.where(np.arange(N) % 2, "u", "v"))
    for schema, words in {
        "number": "schema= has the kind 'number' for 'city', which holds text such as",
        "truth": "schema= has the kind 'truth' for 'city', which holds text such as",
        0: "schema= has 0 for 'city': give a kind",
    }.items():
        with pytest.raises(ValueError, match=words):
            made("TuneFreeRegressor").set_params(schema={"city": schema}).fit(rows, TARGETS)


def test_a_frame_of_dask_is_refused_with_the_way_out():
    dd = pytest.importorskip("dask.dataframe")
    rows = dd.from_pandas(FRAME.reset_index(drop=True), npartitions=2)
    for name in ("PiSTOLRegressor", "TuneFreeRegressor", "StreamRegressor"):
        with pytest.raises(
            TypeError, match=r"of Dask, which is not loaded yet: give X.compute\(\)"
        ):
            made(name).fit(rows, TARGETS)


CODES = {
    "names": (["01234", "80331", "00501"], True),
    "names beside gaps": (["01234", "80331", "NA"], True),
    "numbers": (["0", "12", "20000"], False),
    "of several lengths": (["0123", "12345", "7"], False),
    "few digits": (["007", "123", "010"], False),
    "no zeros in front": (["1234", "4567", "9876"], False),
    "with a point": (["0.00", "1.00", "2.00"], False),
}


@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("container", ["pandas", "polars", "Arrow"])
def test_digits_with_zeros_in_front_are_noted(kind, container):
    cells, is_noted = CODES[kind]
    rows = CONTAINERS[container](FRAME.assign(zip=cells * (N // 3)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = tunefree.TablePreprocessor().fit(rows)
    assert table.schema_.columns[2].kind == "number"
    found = [str(w.message) for w in caught if "zeros in front" in str(w.message)]
    assert [f"'{min(cells)}'" in words for words in found] == [True] * is_noted
