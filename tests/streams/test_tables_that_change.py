"""A table whose columns change under a stream: what is lost is named, and is missing, not 0."""

import numpy as np
import pandas as pd
import pytest

from tunefree import DataWarning, StreamClassifier, StreamRegressor

STREAMS = [StreamRegressor, StreamClassifier]


def table(n=80, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n)
    city = rng.choice(["Oslo", "Rome", "Lima"], n)
    frame = pd.DataFrame({"age": age, "city": city, "size": rng.normal(50.0, 3.0, n)})
    return frame, age + 10.0 * (city == "Rome") + rng.normal(size=n)


def learned(make):
    X, y = table()
    return X, make().fit(X, y if make is StreamRegressor else y > 60.0)


def answers(model, X):
    return model.predict(X) if isinstance(model, StreamRegressor) else model.predict_proba(X)


@pytest.mark.parametrize("make", STREAMS)
def test_a_number_that_comes_as_text_is_missing_and_counted(make):
    X, model = learned(make)
    new = X[:5].assign(age=["old", 30, 31, "n/a", "older"])
    with pytest.warns(DataWarning, match="'age': 2 cells are no number, the first 'old' in row 0"):
        found = answers(model, new)
    missing = new.assign(age=[None, 30, 31, None, None])
    np.testing.assert_array_equal(found, answers(model, missing))


@pytest.mark.parametrize("make", STREAMS)
def test_a_column_that_a_frame_lacks_is_missing_and_named(make):
    X, model = learned(make)
    with pytest.warns(DataWarning, match="X lacks 'size'"):
        found = answers(model, X[:5].drop(columns="size"))
    np.testing.assert_array_equal(found, answers(model, X[:5].assign(size=None)))


@pytest.mark.parametrize("make", STREAMS)
def test_rows_of_no_known_column_are_counted(make):
    X, model = learned(make)
    records = X[:3].to_dict("records")
    records[1] = {key.upper(): value for key, value in records[1].items()}
    with pytest.warns(DataWarning, match=r"1 of 3 rows have no column .* X\[1\] with 'AGE'"):
        answers(model, records)


@pytest.mark.parametrize("make", STREAMS)
def test_new_levels_and_words_are_no_finding(make, recwarn):
    X, model = learned(make)
    answers(model, X[:5].assign(city="Paris"))
    model.predict_one({"city": "Paris"})
    model.predict_one({})
    assert not recwarn.list


@pytest.mark.parametrize("make", STREAMS)
def test_text_in_a_column_of_numbers_learns_alike_in_chunks_and_rows(make):
    X, y = table()
    y = y if make is StreamRegressor else y > 60.0
    rows = X.to_dict("records")
    for i in (3, 17, 40):
        rows[i]["age"] = "unknown"
    words = "'age': 1 cell is no number, the first 'unknown' in row 3"
    with pytest.warns(DataWarning, match=words):
        whole, one_by_one = make().fit(rows, y), make()
    with pytest.warns(DataWarning, match=words):
        for row, target in zip(rows, y, strict=True):
            one_by_one.learn_one(row, target)
    np.testing.assert_array_equal(answers(whole, rows), answers(one_by_one, rows))


@pytest.mark.parametrize("make", STREAMS)
@pytest.mark.parametrize("kind", ["datetime64[s]", "timedelta64[s]"])
def test_dates_are_no_targets(make, kind):
    X, _ = table()
    with pytest.raises(ValueError, match="y holds dates or times"):
        make().fit(X, np.arange(len(X)).astype(kind))
