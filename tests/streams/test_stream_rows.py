"""Rows and labels of streams: any width, any order of names, missing labels, all or nothing."""

import collections
import datetime
import decimal
import enum
import math
import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

from tunefree import StreamClassifier, StreamRegressor, load_model, save_model
from tunefree.bounds import stream_coverage
from tunefree.streams.learner import Mixture

BOTH = pytest.mark.parametrize("make", [StreamClassifier, StreamRegressor])


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


def learned(model):
    """What a stream has learned, as bytes."""
    mixture = model.mixture_
    return mixture.state.tobytes(), mixture.past.tobytes(), mixture.trace.tobytes()


def answers(model, row):
    """What is predicted of a row."""
    return model._predict_row(row).tolist()


def targets_of(make, n, rng):
    """Targets for an estimator."""
    numbers = rng.normal(size=n)
    return numbers.tolist() if make is StreamRegressor else (numbers > 0.0).tolist()


# --- widths and orders ----------------------------------------------------------------------------


@BOTH
def test_dicts_of_any_width_in_any_order_are_the_array(make):
    """Dicts of 1 to 300 names have the bits of the array, whatever the order of their names.

    The first row orders the columns. Beyond 32 names the array is a sparse one.
    """
    rng = np.random.default_rng(0)
    for width in range(1, 301):
        X, y = rng.normal(size=(4, width)), targets_of(make, 4, rng)
        named = make()
        for t in range(4):
            order = rng.permutation(width) if t else range(width)
            named.learn_one({f"c{j}": float(X[t, j]) for j in order}, y[t])
        array = make().partial_fit(X if width <= 32 else sparse.csr_array(X), y)
        x = {f"c{j}": float(X[0, j]) for j in rng.permutation(width)}
        assert answers(named, x) == answers(array, X[0]), width


@BOTH
def test_text_and_gaps_of_any_width_are_numbers(make):
    """Text is a column of its own that is 1, and None is NaN: in any mixture, at any width."""
    rng = np.random.default_rng(1)
    for width in range(1, 301, 3):
        mixed, numeric = make(), make()
        kinds = rng.choice(["number", "text", "gap"], width)
        for y in targets_of(make, 4, rng):
            row, plain = {}, {}
            for j in rng.permutation(width):
                value = float(rng.normal())
                word = "uv"[value > 0.0]
                pair = {"number": (value, value), "text": (word, 1.0), "gap": (None, math.nan)}
                name = f"c{j}={word}" if kinds[j] == "text" else f"c{j}"
                row[f"c{j}"], plain[name] = pair[kinds[j]]
            mixed.learn_one(row, y)
            numeric.learn_one(plain, y)
            assert mixed.columns_ == numeric.columns_
            assert answers(mixed, row) == answers(numeric, plain)
        assert learned(mixed) == learned(numeric)


def test_names_that_replace_others_are_new_names():
    """A row of as many names as the stream has is not the stream's row unless the names are.

    Counters and defaultdicts have a value for every name.
    """
    for kind in (dict, collections.Counter, lambda x: collections.defaultdict(float, x)):
        model = StreamClassifier()
        model.learn_one({"a": 1.0, "b": 2.0}, True)
        row = kind({"a": 1.0, "z": 3.0})
        model.predict_one(row)
        assert model.columns_ == ["a", "b"]
        model.learn_one(row, False)
        assert model.columns_ == ["a", "b", "z"] and dict(row) == {"a": 1.0, "z": 3.0}


def test_kernels_refuse_rows_of_another_shape():
    """No row reads or writes beyond the arrays of a stream."""
    none = np.empty(0, dtype=np.int64)
    for form, late in ((0, 0), (1, 2), (2, 0), (2, 2)):
        mixture = Mixture(3, 1, form, False, late)
        columns = np.arange(3) if form == 2 else none
        good = (np.array([0, 3]), columns, np.ones(3)), np.array([1]), np.ones(1)
        mixture.learn(*good)
        before = mixture.state.tobytes(), mixture.past.tobytes()
        bad = [
            ((np.array([0, 4]), np.arange(4) if form == 2 else none, np.ones(4)), *good[1:]),
            ((np.array([0, 3]), columns, np.ones(2)), *good[1:]),
            ((np.array([0]), columns, np.ones(3)), *good[1:]),
            (good[0], np.array([2]), np.ones(1)),
            (good[0], np.array([-1]), np.ones(1)),
            (good[0], np.empty(0, dtype=np.int64), np.ones(1)),
        ]
        if form == 2:
            bad.append(((np.array([0, 3]), np.array([0, 1, 3]), np.ones(3)), *good[1:]))
            bad.append(((np.array([0, 3]), np.array([-1, 1, 2]), np.ones(3)), *good[1:]))
        else:
            bad.append(((np.array([0, 2]), none, np.ones(2)), *good[1:]))
        for rows, codes, weights in bad:
            with pytest.raises(ValueError, match="shape of this stream"):
                mixture.learn(rows, codes, weights)
        assert (mixture.state.tobytes(), mixture.past.tobytes()) == before


# --- chunks ---------------------------------------------------------------------------------------


def records(n, rng, n_names=45):
    """Rows whose names come and go: numbers, text and gaps."""
    rows = []
    for t in range(n):
        x = {"size": float(rng.normal()), "kind": "uvw"[rng.integers(3)], "count": int(t % 3)}
        for j in rng.integers(n_names, size=2):
            x[f"n{j}"] = None if rng.random() < 0.1 else float(rng.normal())
        rows.append(x)
    return rows


@BOTH
@pytest.mark.parametrize("delay", [0, 3])
def test_no_split_of_records_changes_a_bit(make, delay):
    """Chunks of any sizes are the rows one by one: new names and classes, gaps, weights."""
    rng = np.random.default_rng(2)
    rows, y = records(200, rng), targets_of(make, 200, rng)
    if make is StreamClassifier:
        y = [str(label) if t < 90 else "third" for t, label in enumerate(y)]
    y = [None if rng.random() < 0.2 else label for label in y]
    weights = rng.choice([0.0, 0.5, 1.0, 3.0], 200)
    one = make(delay)
    for x, label, w in zip(rows, y, weights, strict=True):
        one.learn_one(x, label, w)
    for _ in range(3):
        chunks, start = make(delay), 0
        while start < 200:
            stop = start + int(rng.integers(1, 70))
            chunk = slice(start, stop)
            if weights[chunk].any():
                chunks.partial_fit(rows[chunk], y[chunk], sample_weight=weights[chunk])
            else:  # a chunk without weight is refused
                for x, label in zip(rows[chunk], y[chunk], strict=True):
                    chunks.learn_one(x, label, 0.0)
            start = stop
        assert learned(chunks) == learned(one)
        assert chunks.columns_ == one.columns_


BAD_VALUES = {
    "class": datetime.time,
    "a far datetime64": np.datetime64(10**6, "Y"),
    "object": object(),
    "list": [1.0],
    "dict": {"a": 1.0},
    "bytes": b"x",
    "complex": 1j,
    "too large": 10**400,
}


@BOTH
@pytest.mark.parametrize("name", BAD_VALUES)
def test_a_refused_row_changes_nothing(make, name, tmp_path):
    """One bad value, at any place in a chunk or a row: the saved file is the same as before."""
    rng = np.random.default_rng(3)
    y = targets_of(make, 20, rng)
    model = make().partial_fit(records(20, rng), y)
    save_model(model, tmp_path / "before")
    before = pickle.dumps(model), (tmp_path / "before").read_bytes()
    new = "new class" if make is StreamClassifier else 1e9
    for place in (0, 4, 9):
        chunk = [{"new": 1.0, **x} for x in records(10, rng)]
        chunk[place]["size"] = BAD_VALUES[name]
        with pytest.raises(ValueError, match=rf"X\[{place}\]\['size'\]"):
            model.partial_fit(chunk, [new] * 10)
        with pytest.raises(ValueError, match=r"x\['size'\]"):
            model.learn_one(chunk[place], new, key=None)
        with pytest.raises(ValueError, match=rf"X\[{place}\]\['size'\]"):
            model.predict(chunk)
        with pytest.raises(ValueError, match=r"x\['size'\]"):
            model.predict_one(chunk[place], key="a")
    save_model(model, tmp_path / "after")
    assert (pickle.dumps(model), (tmp_path / "after").read_bytes()) == before
    assert load_model(tmp_path / "after").columns_ == model.columns_
    fresh = make()
    with pytest.raises(ValueError, match=r"x\['size'\]"):
        fresh.learn_one(chunk[9], new)
    assert vars(fresh) == vars(make())


@BOTH
def test_bad_labels_and_weights_change_nothing(make):
    rng = np.random.default_rng(4)
    model = make().partial_fit(records(20, rng), targets_of(make, 20, rng))
    before, new = pickle.dumps(model), {"new": 1.0, "newer": "text"}
    bad_labels = [math.inf, (1, 2), [1], object(), b"x"]
    bad_labels += [datetime.date(2024, 1, 1), datetime.timedelta(1), np.timedelta64(1, "h")]
    if make is StreamRegressor:
        bad_labels += ["3", 10**400]
    for label in bad_labels:
        with pytest.raises(ValueError, match="y"):
            model.learn_one(new, label)
        if label != "3":  # in an array text is read as a number
            with pytest.raises((ValueError, TypeError)):
                model.partial_fit([new, new], [1.0, label])
    for w in (-1.0, math.nan, "heavy", None, 1e11):
        with pytest.raises(ValueError, match="is not a weight"):
            model.learn_one(new, 1.0, w)
    with pytest.raises(ValueError, match="sample_weight"):
        model.partial_fit([new, new], [1.0, 0.0], sample_weight=[1.0, 1e11])
    with pytest.raises(ValueError, match="y has 1 rows, and X has 2"):
        model.partial_fit([new, new], [1.0])
    with pytest.raises(ValueError, match=r"X\[1\] is a list"):
        model.partial_fit([new, [1.0, 2.0]], [1.0, 0.0])
    assert pickle.dumps(model) == before


def test_keys_that_would_be_one_column_are_named():
    """0 and "0", and a text value beside the name of its column."""
    for x, keys in (
        ({0: 1.0, "0": 2.0}, "keys 0 and '0'"),
        ({"a": "b", "a=b": 2.0}, "keys 'a' and 'a=b'"),
        ({1.5: 1.0, "1.5": "x", "1.5 ": 2.0, "1.5=x": 3.0}, "keys '1.5' and '1.5=x'"),
    ):
        model = StreamClassifier()
        with pytest.raises(ValueError, match=keys):
            model.learn_one(x, True)
        with pytest.raises(ValueError, match=r"X\[1\] has the " + keys):
            model.partial_fit([{"a": 1.0}, x], [True, False])
        assert vars(model) == vars(StreamClassifier())


# --- kinds of rows, values and labels -------------------------------------------------------------


def test_values_and_names_of_any_library():
    """Text, numbers and names mean the same in the types of Python and of NumPy."""
    plain, other = StreamClassifier(), StreamClassifier()
    plain.learn_one({"a": "red", "b": 1.5, "c": None, "0": 1, "d": True}, "red")
    row = {np.str_("a"): Colour.RED, "b": np.float32(1.5), "c": np.nan, np.int64(0): np.int8(1)}
    other.learn_one(row | {"d": np.array(1.0)}, Colour.RED)
    for model in (plain, other):
        model.learn_one({"a": "blue", "b": decimal.Decimal(2)}, np.str_("blue"))
    assert learned(plain) == learned(other)
    assert plain.columns_ == other.columns_ and set(map(type, other.columns_)) == {str}
    assert other.classes_.tolist() == ["blue", "red"]
    assert type(other.predict_one({"b": 1.5})) is str


@BOTH
def test_a_row_of_a_frame_is_read_by_its_names(make):
    """A Series with names, and a frame of one row, in any order of names."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"a": rng.normal(size=30), "b": rng.normal(size=30), "t": ["u", "v"] * 15})
    y = targets_of(make, 30, rng)
    dicts = frame.to_dict("records")
    named = make().partial_fit(dicts, y)
    by_series, by_frame = make(), make()
    for t in range(30):
        by_series.learn_one(frame.iloc[t], y[t])
        order = ["a", "b", "t"] if t == 0 else rng.permutation(["a", "b", "t"]).tolist()
        by_frame.learn_one(frame[order].iloc[[t]], y[t])
    assert learned(by_series) == learned(by_frame) == learned(named)
    assert learned(make().partial_fit([row for _, row in frame.iterrows()], y)) == learned(named)
    assert named.predict_one(frame.iloc[3][["t", "b", "a"]]) == named.predict_one(dicts[3])
    numbers = make().partial_fit(frame[["a", "b"]], y)
    assert answers(numbers, frame.iloc[3][["b", "a"]]) == answers(numbers, [*frame.iloc[3][:2]])
    with pytest.raises(ValueError, match="x has 2 rows: give one"):
        named.predict_one(frame.iloc[:2])
    with pytest.raises(ValueError, match="x has a column 't"):
        numbers.predict_one(frame.iloc[3])


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_rows_of_other_frames_are_dicts(library):
    make = pytest.importorskip(library)
    columns = {"a": [1.0, None, 3.0, 2.0], "t": ["u", "v", None, "u"]}
    table = make.table(columns) if library == "pyarrow" else make.DataFrame(columns)
    rows = table.to_pylist() if library == "pyarrow" else table.to_dicts()
    frames, dicts, scalars = StreamRegressor(), StreamRegressor(), StreamRegressor()
    frames.partial_fit(table, [1.0, 2.0, 3.0, 4.0])
    for t, x in enumerate(rows):
        dicts.learn_one(x, t + 1.0)
        cells = {name: table[name][t] for name in columns}
        scalars.learn_one(cells, t + 1.0)
    assert learned(frames) == learned(dicts) == learned(scalars)


def test_arrays_of_objects_are_numbers_or_refused():
    model, plain = StreamRegressor(), StreamRegressor()
    model.learn_one([1, None], 1.0)
    model.learn_one(np.array([2, decimal.Decimal(3)], dtype=object), 2.0)
    for x, y in (([1.0, math.nan], 1.0), ([2.0, 3.0], 2.0)):
        plain.learn_one(x, y)
    assert learned(model) == learned(plain)
    for x, text in (
        (["a", 1], r"x\[0\] is 'a': text needs a name"),
        ([1, datetime.date(2024, 1, 1)], r"x\[1\] is '2024-01-01.*a date needs a name"),
        (np.array(["2024", "2025"], dtype="M8[ns]"), r"x\[0\] is '2024-01-01.*a date needs a name"),
    ):
        with pytest.raises(ValueError, match=text):
            model.learn_one(x, 1.0)
    assert learned(model) == learned(plain)


def test_a_chunk_without_values_in_a_column_is_missing():
    """In a stream of numbers a column of None is missing, not text."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    model = StreamRegressor().partial_fit(frame, [1.0, 2.0])
    empty = pd.DataFrame({"a": [1.0], "b": pd.Series([None], dtype=object)})
    assert model.predict(empty) == model.predict_one({"a": 1.0, "b": None})


# --- labels that are not known --------------------------------------------------------------------


def _containers(labels):
    """The same labels in many containers; None is missing."""
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    for missing in (None, math.nan, pd.NA, pd.NaT, np.float32("nan"), decimal.Decimal("NaN")):
        values = [missing if label is None else label for label in labels]
        yield f"list of {missing}", values
        objects = np.empty(len(values), dtype=object)
        objects[:] = values
        yield f"objects of {missing}", objects
    yield "tuple", tuple(labels)
    yield "Series", pd.Series(labels)
    yield "Series of objects", pd.Series(labels, dtype=object)
    yield "categories", pd.Series(labels).astype("category")
    yield "nullable", pd.Series(labels).convert_dtypes()
    yield "polars", pl.Series(labels)
    yield "Arrow", pa.array(labels)
    yield "chunks of Arrow", pa.chunked_array([labels[:3], labels[3:]])


LABELS = {
    "text": ["u", None, "v", "u", None, "w", "v", None],
    "integers": [1, None, 0, 1, None, 2, 0, None],
    "truth": [True, None, False, True, None, False, False, None],
    "numbers": [1.5, None, 0.5, 1.0, None, -2.0, 3.0, None],
}


@pytest.mark.parametrize("delay", [0, 2])
@pytest.mark.parametrize("kind", LABELS)
def test_a_missing_label_is_not_known(kind, delay):
    """In every container of labels and of rows: its row is not learned, and it is no class.

    Without delay nothing remains of the row.
    """
    pd = pytest.importorskip("pandas")
    labels = LABELS[kind]
    makes = [StreamClassifier, StreamRegressor]
    if kind != "integers":
        makes = [StreamRegressor] if kind == "numbers" else [StreamClassifier]
    X = np.random.default_rng(6).normal(size=(8, 2))
    dicts = [dict(zip("ab", x, strict=True)) for x in X.tolist()]
    for make in makes:
        one = make(delay)
        for t, (x, label) in enumerate(zip(dicts, labels, strict=True)):
            one.learn_one(x, [None, math.nan, pd.NA, pd.NaT][t % 4] if label is None else label)
        expected = learned(one)
        assert one.mixture_.rows == 5
        if make is StreamClassifier:
            assert one.classes_.tolist() == sorted({y for y in labels if y is not None})
        if not delay:
            known = [t for t in range(8) if labels[t] is not None]
            only = make().partial_fit(X[known], [labels[t] for t in known])
            assert learned(only) == expected
        for name, y in _containers(labels):
            for rows in (X, X.tolist(), dicts, pd.DataFrame(X, columns=["a", "b"])):
                model = make(delay).partial_fit(rows, y)
                assert learned(model) == expected, name
                if make is StreamClassifier:
                    assert model.classes_.tolist() == one.classes_.tolist(), name
                    is_float = name in ("Series", "categories")  # of integers and NaN
                    assert is_float or model.classes_.dtype == one.classes_.dtype, name


@BOTH
def test_late_labels_some_of_which_never_come(make):
    """`delay=n` is what keys are where each label comes n rows later, if at all."""
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(200, 3)), targets_of(make, 200, rng)
    y = [None if rng.random() < 0.4 else label for label in y]
    if make is StreamClassifier:
        y[:2] = [True, False]
    keyed, late = make(), make(delay=9).partial_fit(X, y)
    for t in range(209):
        if t < 200:
            keyed.predict_one(X[t], key=t)
        if t >= 9:
            keyed.learn_one(X[t - 9], y[t - 9], key=t - 9)
    ours, theirs = late.mixture_.learned, keyed.mixture_.learned
    assert ours.tobytes() == theirs.tobytes()
    assert keyed._waiting == {}


@BOTH
def test_a_chunk_without_any_label_teaches_nothing(make):
    """It is read, and nothing is learned: before the first label there are no predictions."""
    X = np.random.default_rng(8).normal(size=(5, 2))
    for rows in (X, [dict(zip("ab", x, strict=True)) for x in X.tolist()]):
        model = make().partial_fit(rows, [None] * 5)
        with pytest.raises(NotFittedError):
            model.predict(rows)
        assert model.predict_one(rows[0]) is None
        y = targets_of(make, 5, np.random.default_rng(9))
        assert learned(model.partial_fit(rows, y)) == learned(make().partial_fit(rows, y))
    with pytest.raises(ValueError, match=r"X\[1\]\['a'\]"):
        make().partial_fit([{"a": 1.0}, {"a": object()}], [None, None])
    for missing in (None, math.nan):  # a fit has no row to predict only
        with pytest.raises(ValueError, match=r"The first is y\[1\]: drop the rows"):
            make().fit(X, [0, missing, 1, 0, 1])


@BOTH
def test_the_delay_of_a_stream_does_not_change(make):
    """`set_params(delay=)` after the first row is refused; `fit` begins again."""
    rng = np.random.default_rng(10)
    X, y = rng.normal(size=(20, 2)), targets_of(make, 20, rng)
    for began, later in ((0, 3), (3, 0), (3, 5)):
        model = make(began).partial_fit(X, y)
        before = learned(model)
        model.set_params(delay=later)
        refusal = f"delay={later}, but .* began with delay={began}"
        with pytest.raises(ValueError, match=refusal):
            model.learn_one(X[0], y[0])
        with pytest.raises(ValueError, match=refusal):
            model.partial_fit(X, y)
        assert learned(model) == before
        model.predict(X)
        assert learned(model.fit(X, y)) == learned(make(later).fit(X, y))


def test_expected_classes_count_for_records_too():
    """`classes` counts for lists of dicts as for arrays; a missing value is none."""
    rows = [{"a": 1.0}, {"a": 2.0}]
    model = StreamClassifier().partial_fit(rows, ["u", "v"], classes=["u", "v", "w"])
    assert model.classes_.tolist() == ["u", "v", "w"]
    with pytest.raises(ValueError, match="classes=.* has a missing value"):
        StreamClassifier().partial_fit(rows, [0, 1], classes=[0.0, 1.0, math.nan])


# --- numbers stay numbers, rates stay rates -------------------------------------------------------


def _beyond(t, model, rng):
    """Just above the end of the interval."""
    high = model.predict_interval_one(rng.normal(size=2))[1]
    return 1.01 * high if t >= 80 and high < 1e300 else rng.normal()


STREAMS = {
    "doubling": lambda t, model, rng: 2.0**t,
    "doubling with signs": lambda t, model, rng: (-2.0) ** t,
    "powers of 1e9": lambda t, model, rng: 1e9 ** min(t, 34),
    "beyond": _beyond,
    "any": lambda t, model, rng: rng.choice([-1.0, 1.0]) * 10.0 ** rng.uniform(-308, 308),
    "largest": lambda t, model, rng: 1.7e308 * (-1.0) ** t,
    "tiny": lambda t, model, rng: rng.normal() * 1e-162,
    "tiny, then huge": lambda t, model, rng: rng.normal() * (1e-300 if t < 100 else 1e300),
    "constant, then huge": lambda t, model, rng: 0.0 if t < 100 else 1e139,
    "halving": lambda t, model, rng: 2.0**-t,
    "all units": lambda t, model, rng: rng.normal() * 10.0 ** (t % 280 - 140),
}


@pytest.mark.filterwarnings("ignore::tunefree.DataWarning")  # of targets beyond 1e140
@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("weight", [1.0, 1e10, 1e-10, None])
def test_any_finite_targets_leave_numbers(name, weight):
    """Targets of any size, growing at any rate, with any weights: all that is learned is finite."""
    rng, model = np.random.default_rng(0), StreamRegressor()
    for t in range(400):
        x, y = rng.normal(size=2), float(STREAMS[name](t, model, rng))
        model.learn_one(x, y, weight or 10.0 ** rng.uniform(-10, 10))
        assert not math.isnan(sum(map(abs, model.predict_interval_one(x))))
    assert np.isfinite(model.mixture_.state).all() and np.isfinite(model.mixture_.trace).all()
    assert math.isfinite(model.progressive_error_)
    assert math.isfinite(model.excess()["excess"]) and math.isfinite(
        model.excess(50, 300)["excess"]
    )
    prediction = model.predict_one(x)
    assert prediction is None or math.isfinite(prediction)


def test_ordinary_targets_after_growing_ones_are_learned():
    rng, model = np.random.default_rng(1), StreamRegressor()
    for t in range(220):
        model.learn_one(rng.normal(size=2), 2.0**t)
    for _ in range(300):
        x = rng.normal(size=2)
        model.learn_one(x, 2.0**219 * x[0])
    X = rng.normal(size=(50, 2))
    assert np.corrcoef(model.predict(X), X[:, 0])[0, 1] > 0.9


@pytest.mark.filterwarnings("ignore::tunefree.DataWarning")  # of the column
@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e-150, 1e138, 1e300])
def test_columns_in_any_unit_leave_numbers(scale):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(200, 3)) * [scale, 1.0, 1.0]
    y = X[:, 1] + 0.1 * rng.normal(size=200)
    for rows in (X, sparse.csr_array(X)):
        model = StreamRegressor().partial_fit(rows, y)
        assert np.isfinite(model.mixture_.state).all() and model.progressive_error_ < 0.5
        assert np.isfinite(model.predict(rows)).all()


@BOTH
@pytest.mark.parametrize("weight", [1e-3, 0.2, 5.0, 1e3, None])
def test_errors_are_rates_whatever_rows_weigh(make, weight):
    """Every prediction counts once, in `progressive_error_`, `drift_` and the interval of risk."""
    rng, model, wrong = np.random.default_rng(3), make(), []
    for _ in range(400):
        x = rng.normal(size=2)
        y = x[0] + rng.normal()
        y = y if make is StreamRegressor else y > 0.0
        guess = model.predict_one(x)
        if make is StreamRegressor:
            wrong.append(0.0 if len(wrong) < 2 else (guess - y) ** 2)  # two targets have a unit
        else:
            wrong.append(guess is not None and guess != y)
        model.learn_one(x, y, weight or 10.0 ** rng.uniform(-3, 3))
    drift = model.drift_
    assert model.progressive_error_ == pytest.approx(np.mean(wrong))
    assert drift["error_so_far"][-1] == pytest.approx(np.mean(wrong))
    ends = drift["rows"].astype(int)
    pieces = np.split(np.array(wrong, dtype=float), ends[:-1])
    np.testing.assert_allclose(drift["error"], [piece.mean() for piece in pieces], atol=1e-12)
    if make is StreamClassifier:
        low, high = model.online_risk_interval_
        assert low <= np.mean(wrong) <= high


@pytest.mark.filterwarnings("ignore:.* levels in:tunefree.DataWarning")
@pytest.mark.parametrize("kind", ["number", "text", "both"])
def test_intervals_of_rows_with_new_names_keep_their_rate(kind):
    """The interval that was shown is the one that is bet on: it ignores the new names."""
    rng, model, missed, scores, first = np.random.default_rng(4), StreamRegressor(), 0, [], []
    for t in range(700):
        x = {"a": rng.normal()}
        if kind != "text":
            x[f"n{t}"] = rng.normal()
        if kind != "number":
            x["id"] = f"u{t}"
        y = x["a"] + rng.normal()
        low, high = model.predict_interval_one(x)
        guess, scale = model._predict_row(x)[:2].tolist() if t else (0.0, 1.0)
        if t >= 2:
            first.append(abs(y - guess) / scale)
        if math.isfinite(high):
            missed += not low <= y <= high
            scores.append(abs(y - guess) / scale)
        model.learn_one(x, y)
    unit = model.mixture_.learned["bets"]["unit"]
    assert unit == np.median(first[:64])
    least, most = stream_coverage(len(scores), 0.1, largest=max(scores), unit=unit)
    assert least <= missed / len(scores) <= most


# --- dates and durations --------------------------------------------------------------------------

ZONE = datetime.timezone(datetime.timedelta(hours=2))
DATES = {
    "text": lambda t: str(t),
    "text of ISO": lambda t: t.isoformat(),
    "text with a zone": lambda t: t.isoformat() + "+02:00",
    "text with hours of a zone": lambda t: f"{t}+02",
    "text in UTC": lambda t: t.isoformat() + ".000000000Z",
    "text with bars": lambda t: f"{t:%Y/%m/%d %H:%M}",
    "datetime": lambda t: t,
    "datetime with a zone": lambda t: t.replace(tzinfo=ZONE),
    "datetime64 in us": lambda t: np.datetime64(t, "us"),
    "datetime64 in ns": lambda t: np.datetime64(t, "ns"),
    "Arrow": lambda t: pytest.importorskip("pyarrow").scalar(t),
    "pandas": lambda t: pytest.importorskip("pandas").Timestamp(t),
}


def moments(n):
    minutes = np.random.default_rng(0).integers(0, 10**6, n)
    minutes[::5] = minutes[::5] // 1440 * 1440  # midnights
    return [datetime.datetime(2023, 1, 1) + datetime.timedelta(minutes=int(m)) for m in minutes]


def learned_dates(cells, size=2.0):
    model = StreamRegressor()
    for i, cell in enumerate(cells):
        model.learn_one({"when": cell, "size": size}, float(i % 7))
    return model


@pytest.mark.parametrize("kind", DATES)
def test_dates_have_the_same_bits_however_they_come(kind):
    cells = moments(60)
    cells[7] = None
    given = [None if t is None else DATES[kind](t) for t in cells]
    model, plain = learned_dates(given), learned_dates(cells)
    assert learned(model) == learned(plain)
    assert model.columns_ == plain.columns_
    assert "when=" not in "".join(model.columns_)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_dates_in_frames_are_those_in_dicts(library):
    library_, cells = pytest.importorskip(library), [*moments(40), None]
    columns = {"when": cells, "size": [2.0] * 41}
    make = library_.table if library == "pyarrow" else library_.DataFrame
    frame, y = make(columns), np.arange(41) % 7.0
    model = StreamRegressor()
    for rows in (slice(0, 13), slice(13, 41)):
        part = frame.slice(rows.start, rows.stop - rows.start) if library != "pandas" else None
        model.partial_fit(frame.iloc[rows] if part is None else part, y[rows])
    plain = learned_dates(cells)
    assert learned(model) == learned(plain)
    assert model.predict(frame).tolist() == [
        plain.predict_one({"when": cell, "size": 2.0}) for cell in cells
    ]


def test_days_alone_are_midnights():
    """What a day alone does not show, its time, is what midnight has: zeros."""
    cells = [t.replace(hour=0, minute=0) for t in moments(30)]
    days = learned_dates([t.date() for t in cells])
    assert learned(days) == learned(learned_dates(cells)) == learned(learned_dates(map(str, cells)))
    assert not any("day, " in name for name in days.columns_)


def test_durations_are_days():
    hours = np.random.default_rng(0).integers(0, 1000, 30).tolist()
    numbers = learned_dates([h / 24 for h in hours])
    for make in (
        lambda h: datetime.timedelta(hours=h),
        lambda h: np.timedelta64(h, "h"),
        lambda h: f"{h // 24} days {h % 24:02}:00:00",
        lambda h: f"{h // 24} day{'s' * (h >= 48)}, {h % 24}:00:00",
    ):
        assert learned(learned_dates(map(make, hours))) == learned(numbers)


def test_times_of_a_day_are_the_same_in_frames_and_in_dicts():
    pd = pytest.importorskip("pandas")
    times, y = [t.time() for t in moments(40)], np.arange(40) % 7.0
    by_frame = StreamRegressor().partial_fit(pd.DataFrame({"when": times, "size": 2.0}), y)
    assert "when: day, sine" in by_frame.columns_
    for make in (lambda t: t, str, lambda t: f"{t:%H:%M}".removeprefix("0")):
        assert learned(learned_dates(map(make, times))) == learned(by_frame)


@pytest.mark.parametrize("cell", ["24:00", "7:5", "3:10 pm", "3 days ago", "days", "2 d"])
def test_text_that_is_no_time_or_duration_is_a_category(cell):
    assert f"when={cell}" in learned_dates([cell]).columns_


def test_text_that_is_no_day_is_a_category():
    cells = ["2024-02-30", "2024-13-01", "2024-01-01x", "24-01-01", "01.02.2024", "2024-01"]
    cells += ["2024/01-01", "1/2/2024", "2024-01-01 25:00"]
    model = learned_dates(cells)
    assert {f"when={cell}" for cell in cells} <= set(model.columns_)


def test_the_hour_of_a_date_is_learned():
    """A load that depends on the hour and the weekday alone is predicted from the date."""
    start, rng, errors = datetime.datetime(2024, 1, 1), np.random.default_rng(0), []
    model = StreamRegressor()
    for i in range(2000):
        when = start + datetime.timedelta(hours=i)
        angle = 2.0 * np.pi * when.hour / 24.0
        load = 5.0 * np.sin(angle) + 2.0 * (when.weekday() >= 5) + rng.normal()
        errors.append((model.predict_one({"when": when}) or 0.0) - load)
        model.learn_one({"when": when}, load)
    assert np.mean(np.square(errors[500:])) < 1.15  # the variance of the noise is 1


@pytest.mark.parametrize("size", [1, 37, 400])
def test_text_that_is_another_one_in_most_rows_is_named(size):
    """Once, at the same row however large the chunks are; a few levels are nothing to speak of."""
    rng = np.random.default_rng(0)
    rows = [{"weight": f"{w:.3f} kg", "kind": "ab"[int(w < 5.0)]} for w in rng.uniform(0, 10, 400)]
    model = StreamRegressor()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for start in range(0, 400, size):
            chunk = rows[start : start + size]
            model.partial_fit(chunk, np.arange(len(chunk), dtype=float))
    (only,) = [str(one.message) for one in found if "levels" in str(one.message)]
    assert only.startswith("'weight' has 100 levels in 100 rows, such as '")
    assert "each is a column" in only
    again = pickle.loads(pickle.dumps(model))
    assert learned(again) == learned(model)


@pytest.mark.parametrize("cell", ["2024-01-05", datetime.date(2024, 1, 5), 5.0, "soon", None])
@pytest.mark.parametrize("learned_cells", ["numbers", "dates"])
def test_a_cell_of_another_kind_than_its_column_is_missing_and_counted(learned_cells, cell):
    """A date among numbers is no number of days, and a number among dates is none in 1970."""
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(i) for i in range(30)]
    model = learned_dates(days if learned_cells == "dates" else range(30))
    is_date = cell not in (5.0, "soon", None)
    is_sound = cell is None or (is_date == (learned_cells == "dates") and cell != "soon")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        one = model.predict_one({"when": cell, "size": 2.0})
    assert len(found) == (0 if is_sound else 1)
    if not is_sound:
        kind = "no date" if learned_cells == "dates" else "no number"
        assert kind in str(found[0].message) and "'when'" in str(found[0].message)
        assert one == model.predict_one({"when": None, "size": 2.0})
