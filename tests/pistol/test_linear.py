"""The classifier: labels and classes, streams, validation, probabilities, degenerate data."""

import pickle

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.metrics import log_loss

from cases import assert_same, case, classes, rows, stored
from tunefree import PiSTOLClassifier, PiSTOLRegressor
from tunefree.parts.averaging import AVERAGES, Geometric, Suffix, Tail
from tunefree.parts.losses import LOSSES, Huber
from tunefree.pistol.linear import SETTINGS

CLASSIFIERS = ["classifier dense", "classifier sparse", "multiclass dense"]
MARGIN = [name for name, loss in LOSSES.items() if loss.task == "classification"]


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_labels_are_names(name):
    """Strings and numbers in the same order give the same coefficients."""
    model, X, y = case(name)
    names = np.array(["ash", "beech", "oak"])
    named = clone(model).fit(X, names[y])
    np.testing.assert_array_equal(named.coef_, model.fit(X, y).coef_)
    np.testing.assert_array_equal(named.predict(X), names[model.predict(X)])
    assert named.score(X, names[y]) > 0.8


@pytest.mark.parametrize("shape", ["dense", "int32 matrix"])
@pytest.mark.parametrize("k", [2, 3, 4])
def test_classes_that_appear_later_are_as_good_as_announced(k, shape):
    """A class unseen so far is the output that has seen negatives only."""
    X = rows("dense", 300)
    y = classes(X, k)
    y = y[order := np.argsort(y > 0, kind="stable")] if k == 2 else y
    X = X[order] if k == 2 else X
    # The last class stays away for 200 rows; two at least are known from the start.
    late = (np.arange(300) < 200) & (y == k - 1) if k > 2 else np.zeros(300, bool)
    X, y = X[~late], y[~late]
    y = np.array(["b", "d", "a", "c"])[y]
    known = np.unique(y[:100]) if k > 2 else np.unique(y)
    announced = PiSTOLClassifier().partial_fit(stored(X[:100], shape), y[:100], np.unique(y))
    surprised = PiSTOLClassifier().partial_fit(stored(X[:100], shape), y[:100], known)
    for start in range(100, len(y), 20):
        chunk = slice(start, start + 20)
        announced.partial_fit(stored(X[chunk], shape), y[chunk])
        surprised.partial_fit(stored(X[chunk], shape), y[chunk])
    assert len(surprised.classes_) == k
    assert_same(surprised, announced)


def test_two_classes_become_four():
    X = rows("dense", 400)
    y = classes(X, 4)
    start = np.flatnonzero(y < 2)[:80]
    rest = np.setdiff1d(np.arange(400), start)
    announced = PiSTOLClassifier().partial_fit(X[start], y[start], classes=range(4))
    surprised = PiSTOLClassifier().partial_fit(X[start], y[start])
    assert len(surprised.classes_) == 2
    assert surprised.coef_.shape == (1, 5)
    for chunk in np.array_split(rest, 10):
        announced.partial_fit(X[chunk], y[chunk])
        surprised.partial_fit(X[chunk], y[chunk])
    assert_same(surprised, announced)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_class_weights_multiply_weights(name):
    model, X, y = case(name)
    by_class = clone(model).set_params(class_weight={0: 3, 1: 1, 2: 2}).fit(X, y)
    assert_same(by_class, clone(model).fit(X, y, sample_weight=np.array([3, 1, 2])[y]))
    weights = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    balanced = clone(model).set_params(class_weight="balanced").fit(X, y, weights)
    total = np.bincount(y, weights)
    each = total.sum() / (len(total) * total)
    assert_same(balanced, clone(model).fit(X, y, weights * each[y]))


def test_balanced_classes_are_found_more_often():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    y = (X[:, 0] + rng.normal(size=2000) > 2.2).astype(int)
    plain = PiSTOLClassifier(random_state=0).fit(X, y)
    balanced = PiSTOLClassifier(class_weight="balanced", random_state=0).fit(X, y)
    assert balanced.predict(X)[y == 1].mean() > plain.predict(X)[y == 1].mean() + 0.2


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_warm_start_goes_on(name):
    """Another fit on the same rows is a continuation, not a repetition, and forgets no class."""
    model, X, y = case(name)
    model.set_params(warm_start=True, max_iter=2).fit(X, y)
    first, score = model.coef_.copy(), model.score(X, y)
    model.fit(X, y)
    assert not np.array_equal(model.coef_, first)
    assert model.score(X, y) > score - 0.05
    cold = clone(model).set_params(warm_start=False).fit(X, y)
    np.testing.assert_array_equal(cold.coef_, first)
    np.testing.assert_array_equal(cold.fit(X, y).coef_, first)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_fitted_model_learns_from_what_comes(name):
    """The stream tells the opposite, and wins."""
    model, X, y = case(name, 400)
    model.fit(X, y)
    flipped = (y + 1) % (y.max() + 1)
    before = model.score(X, flipped)
    for _ in range(20):
        model.partial_fit(X, flipped)
    assert model.score(X, flipped) > before + 0.3


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_setting_fits_and_streams(name, setting):
    model, X, y = case(name, 400)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    majority = np.bincount(y).max() / len(y)
    model = model.set_params(setting=setting)
    assert clone(model).fit(X, y).score(X, y) > majority
    assert model.fit(X, y).leaderboard_[0]["name"] == setting
    stream = clone(model).set_params(horizon=len(y)).partial_fit(X, y)
    slack = 0.1 if setting in ("theorem-1", "guaranteed") else 0.0
    assert stream.score(X, y) > majority - slack


@pytest.mark.parametrize("average", ["auto", "uniform", "tail", "last", "polynomial"])
@pytest.mark.parametrize("loss", MARGIN)
def test_every_loss_and_read_out_learns(loss, average):
    _, X, y = case("classifier dense", 400)
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    model = PiSTOLClassifier("global", loss=loss, average=average, random_state=0).fit(z, y)
    assert model.score(z, y) > 0.85


@pytest.mark.parametrize("k", [2, 3])
def test_probabilities_add_up_and_agree_with_the_labels(k):
    _, X, _ = case("classifier dense")
    y = classes(X, k)
    model = PiSTOLClassifier(random_state=0).fit(X, y)
    for m in (model, clone(model).partial_fit(X, y)):
        p = m.predict_proba(X)
        np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
        assert np.all(p >= 0)
        np.testing.assert_array_equal(m.classes_[p.argmax(axis=1)], m.predict(X))
        np.testing.assert_allclose(np.exp(m.predict_log_proba(X)), p)


@pytest.mark.parametrize("kind", ["fit", "partial_fit"])
def test_probabilities_are_calibrated_on_a_logistic_model(kind):
    """Close to the log-loss of the true probabilities, and right on average in every tenth."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 4)) * [1.0, 10.0, 0.1, 3.0]
    truth = expit(1.5 * X[:, 0] - 0.1 * X[:, 1] + 5.0 * X[:, 2] - 0.7)
    y = (rng.random(6000) < truth).astype(int)
    model = getattr(PiSTOLClassifier(random_state=0), kind)(X[:4000], y[:4000])
    p = model.predict_proba(X[4000:])[:, 1]
    assert log_loss(y[4000:], p) < log_loss(y[4000:], truth[4000:]) + 0.02
    for tenth in np.array_split(np.argsort(p), 10):
        assert p[tenth].mean() == pytest.approx(truth[4000:][tenth].mean(), abs=0.06)


def test_probabilities_need_a_loss_that_has_them():
    assert hasattr(PiSTOLClassifier("global", loss="log_loss"), "predict_proba")
    assert not hasattr(PiSTOLClassifier("global"), "predict_proba")


@pytest.mark.parametrize("kind", ["dense", "int32 matrix"])
def test_degenerate_columns_and_rows_do_no_harm_to_classes(kind):
    """Constant and empty columns, rows of zeros, duplicates, a single feature."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 1)) + 1.0
    y = (x[:, 0] > 1.0).astype(int)
    zeros, ones = np.zeros((200, 1)), np.ones((200, 1))
    x[::10] = 0.0
    y[::10] = 0
    for X in (x, np.hstack([x, zeros, 5e6 * ones]), np.hstack([x, x, x])):
        model = PiSTOLClassifier(random_state=0).fit(stored(X, kind), y)
        assert np.isfinite(model.coef_).all()
        assert model.score(stored(X, kind), y) > 0.9
    for X in (zeros, ones):
        model = PiSTOLClassifier(random_state=0).fit(stored(X, kind), y)
        assert model.score(stored(X, kind), y) == pytest.approx(max(y.mean(), 1 - y.mean()))


@pytest.mark.parametrize("n", [2, 3, 5])
def test_a_handful_of_rows_is_half_right(n):
    X, y = np.eye(n), np.arange(n) % 2
    assert PiSTOLClassifier(random_state=0).fit(X, y).score(X, y) >= 0.5


def test_a_users_own_loss_and_the_given_order():
    _, X, y = case("classifier dense")
    model = PiSTOLClassifier("global", loss=Huber(1.0), shuffle=False)
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    assert model.fit(z, y).score(z, y) > 0.8
    np.testing.assert_array_equal(model.fit(z, y, 2 * np.ones(240)).classes_, [0, 1])


@pytest.mark.parametrize("name", [name for name in LOSSES if name != "squared_error"])
def test_a_named_loss_is_its_part(name):
    loss = LOSSES[name]
    model = PiSTOLRegressor() if loss.task == "regression" else PiSTOLClassifier("global")
    _, X, y = case("classifier dense", 200)
    named, part = (clone(model).set_params(loss=v, random_state=0).fit(X, y) for v in (name, loss))
    assert_same(named, part)
    assert hasattr(named, "predict_proba") == hasattr(part, "predict_proba")


def test_a_loss_without_a_bounded_slope_is_bounded_for_targets_and_refused_for_classes():
    _, X, y = case("classifier dense", 200)
    squared = PiSTOLRegressor(loss=LOSSES["squared_error"], random_state=0).fit(X, y)
    assert_same(squared, PiSTOLRegressor(random_state=0).fit(X, y))
    for loss in ("squared_error", LOSSES["squared_error"]):
        with pytest.raises(ValueError, match="has no bound"):
            PiSTOLClassifier(loss=loss).fit(X, y)


ODD = [Suffix(30.0), Geometric(0.0), Tail(0.25)]


@pytest.mark.parametrize("average", [*AVERAGES, *ODD], ids=str)
@pytest.mark.parametrize("model", [PiSTOLClassifier("global"), PiSTOLRegressor("per-coordinate")])
def test_every_average_is_taken_by_name_and_as_a_part(model, average):
    _, X, y = case("classifier dense", 200)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    for verb in ("fit", "partial_fit"):
        model = clone(model).set_params(average=average, max_iter=4, random_state=0)
        found = getattr(model, verb)(X, y).coef_.tobytes()
        assert model.score(X, y) > 0.2
        part = clone(model).set_params(average=AVERAGES.get(average, average))
        assert getattr(part, verb)(X, y).coef_.tobytes() == found
        if average == "tail" and verb == "partial_fit":  # nobody knows where a stream's end begins
            later = clone(model).set_params(average="polynomial")
            assert later.partial_fit(X, y).coef_.tobytes() == found


def test_an_average_that_is_none_is_refused():
    for average, words in (("suffix", "none of auto, uniform.*tail"), (3, "no mass")):
        with pytest.raises(ValueError, match=words):
            PiSTOLClassifier(average=average).fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize("name", ["classifier dense", "multiclass dense", "regressor dense"])
def test_single_rows_that_wait_are_learned_to_the_same_bits(name):
    """Rows one by one, read now and then, with a doubtful one between: the bits of one chunk."""
    model, X, y = case(name, n=200)
    whole, _, _ = case(name, n=200)
    known = {"classes": np.unique(y)} if "regressor" not in name else {}
    whole.partial_fit(X, y, **known)
    model.partial_fit(X[:1], y[:1], **known)
    for i in range(1, len(X)):
        model.partial_fit(X[i : i + 1], y[i : i + 1].tolist() if i % 3 else y[i : i + 1])
        if i in (3, 120):
            assert np.isfinite(model.coef_).all()
        if i == 40:
            with pytest.raises(ValueError, match="NaN"):
                model.partial_fit(np.full((1, X.shape[1]), np.nan), y[:1])
    assert 0 < len(vars(model)["_waiting"]) < 64
    copied = pickle.loads(pickle.dumps(model))
    for one in (model, copied):
        assert_same(one, whole)
        assert one.leaderboard_ == whole.leaderboard_
    model.set_params(max_iter=-1)  # what was checked once is checked again where it changed
    with pytest.raises(ValueError, match="max_iter"):
        model.partial_fit(X[:1], y[:1])
