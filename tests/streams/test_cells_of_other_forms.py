"""Cells of one column in several forms: every way of learning gives the same bits, and nothing is
lost without a word.
"""

import datetime
import itertools
import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest

from tunefree import DataWarning, StreamClassifier, StreamRegressor
from tunefree.streams.rows import features

N = 60
HOURS = datetime.timedelta(hours=1)
FORMS = {
    "numbers": lambda i: i % 7 + 0.5,
    "text": lambda i: ["red", "blue", "green"][i % 3],
    "dates": lambda i: datetime.date(2024, 1, 1 + i % 28),
    "times": lambda i: datetime.time(i % 24, 5),
    "durations": lambda i: (i % 30) * HOURS,
    "truths": lambda i: i % 2 == 0,
    "missing": lambda i: None,
    "infinite": lambda i: (-1) ** i * math.inf,
}
SIZE = np.random.default_rng(0).normal(size=N)
Y = SIZE + np.arange(N) % 3


def rows(first, then):
    return [{"size": s, "c": FORMS[then if i >= N // 2 else first](i)} for i, s in enumerate(SIZE)]


def learned(make, X, size, copied=False):
    y = Y if make is StreamRegressor else Y > 1.0
    model = make()
    for start in range(0, N, size):
        part = slice(start, start + size)
        if size == 1:
            model.learn_one(X[start], y[start])
        else:
            model.partial_fit(X[part], y[part])
        if copied:
            model = pickle.loads(pickle.dumps(model))
    return model.mixture_.state.tobytes(), model.columns_


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [StreamRegressor, StreamClassifier])
def test_every_way_of_learning_has_the_same_bits(make):
    for first, then in itertools.product(FORMS, repeat=2):
        X = rows(first, then)
        expected = learned(make, X, 1)
        assert learned(make, X, 7, copied=True) == expected
        frame = pd.DataFrame({"size": SIZE, "c": pd.Series([x["c"] for x in X], dtype=object)})
        # A frame alone is one of numbers where it has nothing else, and refuses infinity.
        if not {first, then} <= {"numbers", "durations", "truths", "missing"}:
            if "infinite" not in (first, then):
                assert learned(make, frame, N) == expected


LOSE = [
    (first, then)
    for first, then in itertools.permutations(FORMS, 2)
    if then not in ("missing", first) and first not in ("missing", "text", "infinite")
    # What these two have in common are numbers.
    if not {first, then} <= {"numbers", "durations", "truths"}
    if not {first, then} <= {"dates", "times"}
]


@pytest.mark.parametrize(("first", "then"), LOSE)
@pytest.mark.parametrize("size", [1, 7])
def test_cells_that_are_lost_in_learning_are_counted(first, then, size):
    with pytest.warns(DataWarning, match=r"column 'c': \d+ cells? (is|are) no (number|date)"):
        learned(StreamRegressor, rows(first, then), size)


@pytest.mark.parametrize("then", ["numbers", "text", "dates", "durations"])
def test_a_column_that_was_missing_at_first_loses_nothing(then, recwarn):
    learned(StreamRegressor, rows("missing", then), 1)
    assert not recwarn.list


DURATIONS = {
    "PT1H30M": 1.5,
    "-PT30M": -0.5,
    "P1DT2H": 26.0,
    "P3D": 72.0,
    "PT90.5S": 90.5 / 3600,
    "PT0S": 0.0,
    "1 day, 2:00:00": 26.0,
    "-1 days +23:30:00": -0.5,
}


@pytest.mark.parametrize("text", DURATIONS)
def test_durations_as_text_are_those_of_python_to_the_bit(text):
    value = datetime.timedelta(hours=DURATIONS[text])
    assert features({"c": text}) == features({"c": value}) == {"c": value.total_seconds() / 86400}
    frame = pd.DataFrame({"c": pd.Series(["red", value], dtype=object)})  # beside a category
    assert StreamRegressor().partial_fit(frame, [1.0, 2.0]).columns_ == ["c=red", "c"]


@pytest.mark.parametrize("text", ["P", "PT", "P1", "PT1", "P1H", "T1H", "P1Y", "PT1H2", "XP1D"])
def test_text_that_is_no_duration_is_a_category(text):
    assert features({"c": text}) == {f"c={text}": 1.0}


WRITTEN = {
    "decimal commas": lambda i: f"{i % 7},{i % 10}",
    "days first": lambda i: f"{1 + i % 28:02d}/01/2024",
    "months": lambda i: f"Jan {1 + i % 28}, 2024",
    "units": lambda i: f"{i % 7} kg",
    "hours": lambda i: f"{25 + i % 9}:10:00",
}


@pytest.mark.parametrize("form", WRITTEN)
@pytest.mark.parametrize("size", [1, 7, N])
def test_text_that_a_table_reads_as_something_else_is_named_once(form, size):
    X = [{"size": s, "c": WRITTEN[form](i)} for i, s in enumerate(SIZE)]
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        learned(StreamRegressor, X, size, copied=True)
    assert len(found) == 1 and issubclass(found[0].category, DataWarning)
    assert "'c' has text such as" in str(found[0].message)


@pytest.mark.parametrize(
    "levels", [("a1", "a2", "a3"), ("red", "4 on", "blue"), ("v1.2", "v1.3", "x")]
)
def test_categories_are_no_finding(levels, recwarn):
    learned(StreamRegressor, [{"size": s, "c": levels[i % 3]} for i, s in enumerate(SIZE)], 1)
    assert not recwarn.list
