"""`StreamClassifier` and `StreamRegressor`: dicts and arrays, late labels, what they tell."""

import copy
import math
import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

import tunefree
from tunefree import StreamClassifier, StreamRegressor, load_model, save_model
from tunefree.bounds import stream_coverage


def rows(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) * [1.0, 1e-3, 1e3, 1.0]
    score = np.where(np.arange(n) < n // 2, X[:, 0], X[:, 3] - X[:, 0])
    return X, np.where(score + 0.3 * rng.normal(size=n) > 0, "up", "down"), score


def same(one, other):
    return one.mixture_.state.tobytes() == other.mixture_.state.tobytes()


def test_nothing_is_said_before_any_label():
    """River's protocol: None and {} until there is something to say."""
    assert StreamClassifier().predict_one({"a": 1.0}) is None
    assert StreamClassifier().predict_proba_one({"a": 1.0}) == {}
    assert StreamRegressor().predict_one({"a": 1.0}) is None
    model = StreamClassifier()
    model.learn_one({"a": 1.0}, None)  # no label, nothing learned
    assert model.predict_proba_one({"a": 1.0}) == {}
    model.learn_one({"a": 1.0}, "x")
    assert model.predict_proba_one({"a": 5.0}) == {"x": 1.0}


def test_rivers_evaluation_runs_unchanged():
    """`progressive_val_score`, with and without delay, for classes and for numbers."""
    pytest.importorskip("river")
    from river import evaluate, metrics

    X, y, score = rows(600)
    dicts = [dict(zip("abcd", x, strict=True)) for x in X.tolist()]
    labels = y.tolist()
    pairs = list(zip(dicts, labels, strict=True))
    model = StreamClassifier()
    accuracy = evaluate.progressive_val_score(pairs, model, metrics.Accuracy())
    assert accuracy.get() > 0.8
    assert accuracy.get() == pytest.approx(1.0 - model.progressive_error_, abs=2 / 600)
    loss = evaluate.progressive_val_score(
        zip(dicts, labels, strict=True), StreamClassifier(delay=9), metrics.CrossEntropy(), delay=10
    )
    assert loss.get() < 0.6
    numbers = zip(dicts, score.tolist(), strict=True)
    error = evaluate.progressive_val_score(numbers, StreamRegressor(), metrics.MAE())
    assert error.get() < 0.5


def test_arrays_dicts_frames_and_sparse_rows_say_the_same():
    """A whole row is the same row however it is written down."""
    pd = pytest.importorskip("pandas")
    X, y, _ = rows()
    model = StreamClassifier().partial_fit(X, y)
    assert same(model, StreamClassifier().partial_fit(sparse.csr_array(X), y))
    assert same(model, StreamClassifier().partial_fit(sparse.csr_matrix(X), y))
    assert same(model, StreamClassifier().fit(X.tolist(), y.tolist()))
    frame = StreamClassifier().partial_fit(pd.DataFrame(X, columns=list("abcd")), y)
    assert same(model, frame)
    x = dict(zip("abcd", X[3].tolist(), strict=True))
    assert frame.predict_proba_one(x)["up"] == pytest.approx(model.predict_proba(X[3:4])[0, 1])
    with pytest.raises(ValueError, match="that this stream does not have"):
        frame.predict_one(x | {"e": 1.0})
    dicts = [dict(zip("abcd", x, strict=True)) for x in X.tolist()]
    named = StreamClassifier().partial_fit(dicts, y)
    one_by_one = StreamClassifier()
    for x, label in zip(dicts, y.tolist(), strict=True):
        one_by_one.learn_one(x, label)
    assert same(named, one_by_one)
    np.testing.assert_allclose(named.predict_proba(dicts), model.predict_proba(X), rtol=1e-9)


def _mixed(n=300):
    """Rows of numbers, text with gaps and truth values, and targets."""
    rng = np.random.default_rng(0)
    number, kind = rng.normal(size=n).tolist(), rng.choice(["x", "y", "z"], n).tolist()
    town = [None if t % 7 == 0 else f"town {t % 5}" for t in range(n)]
    flag = (rng.random(n) < 0.5).tolist()
    columns = {"number": number, "kind": kind, "town": town, "flag": flag}
    return columns, np.array(number) + [k == "x" for k in kind]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_text_in_frames_is_a_category(library):
    """Frames with text give the bits of the list of dicts of the same rows, in any chunks."""
    columns, y = _mixed()
    make = pytest.importorskip(library)
    frame = make.table(columns) if library == "pyarrow" else make.DataFrame(columns)
    dicts = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    piece = frame.slice if library != "pandas" else lambda a, n: frame.iloc[a : a + n]
    for model, other, target in (
        (StreamClassifier(), StreamClassifier(), y > 0.3),
        (StreamRegressor(), StreamRegressor(), y),
    ):
        other.partial_fit(dicts, target)
        for start in range(0, 300, 70):
            model.partial_fit(piece(start, 70), target[start : start + 70])
        assert same(model, other)
        np.testing.assert_array_equal(model.predict(frame), other.predict(dicts))
    assert model.predict_interval(frame)[1].shape == (300, 2, 1)
    fitted = StreamClassifier().fit(frame, y > 0.3)
    np.testing.assert_array_equal(fitted.predict_proba(frame), fitted.predict_proba(dicts))


def test_columns_of_frames_that_a_stream_does_not_take():
    pd = pytest.importorskip("pandas")
    columns, y = _mixed(20)
    frame = pd.DataFrame(columns)
    with pytest.raises(ValueError, match=r"'pair' holds \(1, 2\): give numbers, text or dates"):
        StreamRegressor().partial_fit(frame.assign(pair=[(1, 2)] * 20), y)
    with pytest.raises(ValueError, match="2 columns named"):
        StreamRegressor().partial_fit(frame[["kind", "number", "kind"]], y)
    numbers = StreamRegressor().partial_fit(frame[["number", "flag"]], y)
    with pytest.raises(ValueError, match="'kind' is not numeric, but this stream began without"):
        numbers.predict(frame[["number", "kind"]])
    with pytest.raises(ValueError, match="y has 19 rows, and X has 20"):
        StreamRegressor().partial_fit(frame, y[:19])


def test_labels_of_any_kind_whenever_they_come():
    """Names of classes do not matter; announced or not, every class that comes is learned."""
    X, y, _ = rows()
    y = np.where(X[:, 3] > 1.2, "off", y)
    model = StreamClassifier().partial_fit(X, y)
    assert model.classes_.tolist() == ["down", "off", "up"]
    numbers = {"down": 7, "off": -2, "up": 3}
    other = StreamClassifier().partial_fit(X, [numbers[label] for label in y])
    assert same(model, other)
    assert other.classes_.tolist() == [-2, 3, 7]
    np.testing.assert_array_equal(
        other.predict(X), [numbers[label] for label in model.predict(X).tolist()]
    )
    chances = model.predict_proba_one(X[0])
    assert list(chances.values()) != [] and sum(chances.values()) == pytest.approx(1.0)
    np.testing.assert_allclose(
        model.predict_proba(X[:1])[0], [chances[c] for c in model.classes_.tolist()]
    )
    announced = StreamClassifier().partial_fit(X[:50], y[:50], classes=["off", "up", "down"])
    assert announced.predict_proba(X).shape == (400, 3)


def test_categories_gaps_and_columns_that_come_late():
    """Text is a category, None is missing, absent is 0; the 33rd column makes rows sparse."""
    rng = np.random.default_rng(0)
    model, right = StreamClassifier(), 0
    for t in range(1200):
        town = f"town {rng.integers(5)}"
        x = {"town": town, "noise": None if t % 9 == 0 else rng.normal()}
        if t >= 600:
            x[f"word {rng.integers(60)}"] = 1
        y = town in ("town 1", "town 3")
        right += t < 100 or model.predict_one(x) == y
        model.learn_one(x, y)
    assert right > 1150
    assert model.mixture_.form == 2
    assert model.predict_one({"town": "town 3", "never seen": 1.0}) is True
    assert model.predict([{"town": "town 3"}, {"town": "town 2"}]).tolist() == [True, False]


@pytest.mark.parametrize("make", [StreamClassifier, StreamRegressor])
def test_labels_that_come_late_are_told_by_key(make):
    """`delay=n` is what keys say where each label comes n rows later, to the last bit.

    The first rows are asked before any label, and outliers among targets are refused.
    """
    X, y, score = rows()
    score[[50, 51, 90]] = 1e9
    y = y if make is StreamClassifier else score
    late = make(delay=9).partial_fit(X, y)
    keyed = make()
    for t in range(len(X) + 9):
        if t < len(X):
            told = keyed.predict_one(X[t], key=t)
            assert (told is None) == (t <= 9)
        if t >= 9:
            keyed.learn_one(X[t - 9], y.tolist()[t - 9], key=t - 9)
    assert same(late, keyed)
    assert keyed._waiting == {}


def test_a_question_before_the_first_label_fits_nothing():
    model = StreamClassifier()
    assert model.predict_proba_one([1.0, 2.0], key="first") == {}
    with pytest.raises(NotFittedError):
        model.predict([[1.0, 2.0]])


def test_late_labels_are_not_believed_early():
    """Labels that repeat are no help where they come late; without delay they are."""
    y = np.arange(2000) // 20 % 2 == 1
    X = np.random.default_rng(0).normal(size=(2000, 1))
    assert StreamClassifier().partial_fit(X, y).progressive_error_ < 0.1
    late = StreamClassifier(delay=30).partial_fit(X, y)
    assert late.mixture_.numbers["loss"] / 2000 < 0.8  # log loss of the answers: not overconfident
    with pytest.raises(ValueError, match="delay=-1 is not a number of rows"):
        StreamClassifier(-1).partial_fit(X, y)
    with pytest.raises(ValueError, match="give keys"):
        StreamClassifier(10**7).partial_fit(X, y)


def test_absurd_rows_do_little():
    """One row in fifty has entries of 1e3 to 1e100, NaN or infinity; scales jump and shrink."""
    X, y, _ = rows(3000)
    clean = StreamClassifier().partial_fit(X, y).progressive_error_
    rng, hostile, model = np.random.default_rng(1), X.copy(), StreamClassifier()
    for t in range(0, 3000, 50):
        hostile[t + 1, rng.integers(4)] *= 10.0 ** rng.uniform(3, 100)
        hostile[t + 7, rng.integers(4)] = (np.nan, np.inf)[t % 100 // 50]
    for x, label in zip(hostile, y.tolist(), strict=True):
        model.learn_one(x, label)
    assert 1.0 - model.progressive_error_ > 0.98 * (1.0 - clean)
    assert model.n_outlier_rows_ > 30
    for factor in (1e5, 1e-5):
        scaled = X.copy()
        scaled[1000:] *= factor
        error = StreamClassifier().partial_fit(scaled, y).progressive_error_
        assert error < clean + 0.03
    X[1] = 1e50
    assert StreamClassifier().partial_fit(X, y).progressive_error_ < clean + 0.03


def test_numbers_keep_to_their_range_and_wild_targets_say_nothing():
    X, _, score = rows(800)
    clean = StreamRegressor().partial_fit(X, score)
    wild = score.copy()
    wild[50::200] = 1e9
    model = StreamRegressor().partial_fit(X, wild)
    assert model.n_outlier_rows_ == 4
    np.testing.assert_allclose(model.predict(X), clean.predict(X), atol=0.2)
    assert model.predict(1e3 * X).max() <= score.max()
    units = StreamRegressor().partial_fit(X, 1e6 * score - 1e8)
    np.testing.assert_allclose(units.predict(X), 1e6 * clean.predict(X) - 1e8, atol=2e3)


def test_intervals_and_sets_keep_their_rate_under_drift():
    X, y, score = rows(3000)
    noise = np.random.default_rng(2).normal(size=3000) * (1 + 4 * (np.arange(3000) > 1500))
    model, held = StreamRegressor(), 0
    for t, target in enumerate((score + noise).tolist()):
        low, high = model.predict_interval_one(X[t], alpha=0.2)
        held += low <= target <= high
        model.learn_one(X[t], target)
    assert abs(held / 3000 - 0.8) < 0.03
    middle, ends = model.predict_interval(X[:5], alpha=0.1)
    assert ends.shape == (5, 2, 1) and (ends[:, 0, 0] < middle).all()
    classes, held = StreamClassifier(), 0
    for x, label in zip(X, y.tolist(), strict=True):
        held += label in classes.predict_set_one(x, alpha=0.05)
        classes.learn_one(x, label)
    assert held / 3000 > 0.94
    best, sets = classes.predict_set(X[:7], alpha=0.05)
    assert sets.shape == (7, 2, 1) and (best == classes.predict(X[:7])).all()
    with pytest.raises(ValueError, match="alpha=0.07 is none of"):
        model.predict_interval(X, alpha=0.07)


TARGETS = {
    "alternating": lambda t, high, rng: 1e6 if t % 2 else rng.normal(),
    "spikes": lambda t, high, rng: 1e3 if rng.random() < 0.2 else rng.normal(),
    "rare spikes": lambda t, high, rng: 1e9 if rng.random() < 0.05 else rng.normal(),
    "beyond": lambda t, high, rng: min(max(1.001 * high, 1.0), 1e4),
    "beyond or near": lambda t, high, rng: 1e6 if high < 1e6 else rng.normal(),
}


@pytest.mark.parametrize("name", TARGETS)
def test_targets_that_are_refused_count(name):
    """They are misses and errors, so that the theorem holds on every stream of targets."""
    rng, model, n = np.random.default_rng(0), StreamRegressor(), 2000
    missed, wrong, scores, first = 0, 0.0, [], []
    for t in range(n):
        x = rng.normal(size=2)
        low, high = model.predict_interval_one(x, alpha=0.1)
        said, scale = model._predict_row(x)[:2].tolist() if t else (0.0, 1.0)
        y = TARGETS[name](t, high, rng) if t > 100 else x[0] + rng.normal()
        if t >= 2:
            first.append(abs(y - said) / scale)
        if math.isfinite(high):
            missed += not low <= y <= high
            scores.append(abs(y - said) / scale)
        wrong += (y - said) ** 2 if t >= 2 else 0.0  # two targets tell a unit
        model.learn_one(x, y)
    unit = model.mixture_.learned["bets"]["unit"]
    assert unit == np.median(first[:64]) and len(scores) == n - 66
    least, most = stream_coverage(len(scores), 0.1, largest=max(scores), unit=unit)
    assert least <= missed / len(scores) <= most
    assert model.progressive_error_ == pytest.approx(wrong / n)
    told = model.drift_
    assert told["rows"][-1] == n and told["error_so_far"][-1] == model.progressive_error_


def test_targets_that_keep_coming_are_learned():
    """Every second target is far off: in the end they are no outliers. One in fifty stays one."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1000, 2)), rng.normal(size=1000)
    often, seldom = y.copy(), y.copy()
    often[101::2] = 1e6
    seldom[101::50] = 1e6
    assert StreamRegressor().partial_fit(X, often).n_outlier_rows_ < 100
    model = StreamRegressor().partial_fit(X, seldom)
    assert model.n_outlier_rows_ == len(seldom[101::50])
    assert np.abs(model.predict(X)).max() < 5.0


def test_intervals_hold_from_their_first_rows_on():
    """Rows 64 to 200 of 32 columns: the bettors' prior covers at about the rate that is asked for.

    With the prior of half a miss in one row .175 were missed.
    """
    missed = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, line, model = rng.normal(size=(200, 32)), rng.normal(size=32), StreamRegressor()
        for t, y in enumerate((X @ line + rng.normal(size=200)).tolist()):
            low, high = model.predict_interval_one(X[t], alpha=0.1)
            missed.append(t >= 66 and not low <= y <= high)
            model.learn_one(X[t], y)
    assert 0.08 < np.sum(missed) / (20 * 134) < 0.135


@pytest.mark.parametrize("make", [StreamClassifier, StreamRegressor])
def test_a_copy_goes_on_with_the_same_bits(make, tmp_path):
    """Model files, pickles and deep copies; dicts and arrays; with answers under way."""
    X, y, score = rows()
    y = (y if make is StreamClassifier else score).tolist()
    dicts = [dict(zip("abcd", x, strict=True)) | {"kind": "ab"[i % 2]} for i, x in enumerate(X)]
    for data, delay in ((X, 0), (X, 3), (dicts, 0)):
        model = make(delay).partial_fit(data[:100], y[:100])
        save_model(model, tmp_path / "model")
        others = load_model(tmp_path / "model"), pickle.loads(pickle.dumps(model))
        model_copy = copy.deepcopy(model)
        model.partial_fit(data[100:], y[100:])
        for other in (*others, model_copy):
            other.partial_fit(data[100:], y[100:])
            assert same(model, other)
            np.testing.assert_array_equal(model.predict(data), other.predict(data))


def test_a_forged_state_is_refused(tmp_path):
    X, y, _ = rows()
    for name, value in (("points", 1e9), ("stride", 0.0), ("rows", -5.0)):
        model = StreamClassifier().partial_fit(X, y)
        model.mixture_.numbers[name] = value
        save_model(model, tmp_path / "model")
        with pytest.raises(ValueError, match="is inconsistent|does not fit together"):
            load_model(tmp_path / "model").predict(X)


def test_what_it_tells_of_drift():
    """The half-life is long on a line that stays, short where it turns; errors add up."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 2))
    still = StreamRegressor().partial_fit(X, X[:, 0] + rng.normal(size=4000))
    angle = np.arange(4000) / 30
    turning = (X * np.c_[np.cos(angle), np.sin(angle)]).sum(axis=1) + 0.1 * rng.normal(size=4000)
    moved = StreamRegressor().partial_fit(X, turning)
    assert still.half_life_ > 300 > 30 > moved.half_life_
    told = moved.drift_
    assert told["rows"][-1] == 4000 and np.all(np.diff(told["rows"]) > 0)
    whole = np.sum(told["error"] * np.diff(told["rows"], prepend=0.0))
    assert whole / 4000 == pytest.approx(moved.progressive_error_)
    assert told["error_so_far"][-1] == pytest.approx(moved.progressive_error_)
    assert sum(moved.members_.values()) == pytest.approx(1.0)
    assert math.isfinite(moved.excess(1000, 2000)["excess"])


def test_refusals_name_the_argument():
    X, y, score = rows()
    model = StreamClassifier().partial_fit(X, y)
    before = model.mixture_.state.tobytes()
    with pytest.raises(ValueError, match="x has 3 columns, but this stream has 4"):
        model.learn_one(X[0, :3], "up")
    with pytest.raises(ValueError, match="infinity"):
        model.partial_fit(np.full((1, 4), np.inf), ["up"])
    with pytest.raises(ValueError, match="give an array"):
        model.predict_one({"a": 1.0})
    with pytest.raises(ValueError, match="y=inf is not finite"):
        StreamRegressor().learn_one(X[0], math.inf)
    assert model.mixture_.state.tobytes() == before


def test_the_electricity_market_is_predicted(data):
    """The target of the stream that the mixture was designed on: at least 93.5 %."""
    import gzip

    with gzip.open(data / "elec2.csv.gz", "rt") as file:
        table = np.genfromtxt(file, delimiter=",", skip_header=1, dtype=str)
    X, y = table[:, 1:-1].astype(float), table[:, -1]
    assert tunefree.StreamClassifier().partial_fit(X, y).progressive_error_ < 0.065


@pytest.mark.parametrize("x", [None, 5.0, "red", np.zeros((2, 2)), [[1.0], [2.0]], iter([1.0])])
def test_what_is_not_one_row_is_refused(x):
    begun = StreamRegressor().partial_fit(np.zeros((3, 4)), [1.0, 2.0, 3.0])
    calls = (
        lambda: StreamRegressor().learn_one(x, 1.0),
        lambda: begun.learn_one(x, 1.0),
        lambda: begun.predict_one(x),
    )
    for call in calls:
        with pytest.raises(ValueError, match="give one row, a dict or an array"):
            call()
