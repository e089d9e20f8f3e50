"""Scorers with and without weights, verbose as a number, classes of no weight, importances."""

import inspect
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.metrics import accuracy_score, get_scorer_names, make_scorer

import tunefree
from tunefree import BoostedTreesClassifier, BoostedTreesRegressor, TuneFreeClassifier
from tunefree.core.registry import estimator_classes
from tunefree.uncertainty.intervals import HeldOutProbabilities

WITHOUT_WEIGHTS = "rand_score", "mutual_info_score", "v_measure_score"


def rows(n=120, seed=0):
    """Rows and two classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] + 0.5 * rng.normal(size=n) > 0.0).astype(int)


def own(estimator, X, y):
    """A scorer of one's own: it takes no weights."""
    return accuracy_score(y, estimator.predict(X))


def stack(scoring):
    """A quick stack."""
    return TuneFreeClassifier(("linear",), scoring=scoring, random_state=0)


@pytest.mark.parametrize(
    "scoring", [*WITHOUT_WEIGHTS, own, make_scorer(lambda y, p: (y == p).mean())]
)
def test_scorers_without_weights_choose_and_the_report_names_what_is_used(scoring):
    X, y = rows()
    model = stack(scoring).fit(X, y)
    board = {row["candidate"]: row for row in model.leaderboard_}
    shares = {name: f"{share:.0%}" for name, share in model.chosen_.items()}
    named = dict(re.findall(r"'([^']+)' (\d+%)", model.report_.reason.split("Best")[0]))
    assert named == shares and {board[n]["share"] for n in named} == {*model.chosen_.values()}
    scores = [row["score"] for row in model.leaderboard_ if row["score"] is not None]
    if len(model.chosen_) == 1 and "for the stack of least loss" in model.report_.reason:
        assert board[next(iter(model.chosen_))]["score"] == max(scores)


def test_a_scorer_gets_the_rows_of_the_table_as_often_as_it_has_them():
    X, y = rows(60)
    again = np.repeat(np.arange(60), np.arange(60) % 3 + 1)
    frame = pd.DataFrame(X[again], columns=list("abc"))
    seen = []

    def reads(estimator, X, y):
        seen.append((sorted(X["a"]), sorted(y)))
        return own(estimator, X, y)

    stack(reads).fit(frame, y[again])
    assert seen[0] == (sorted(frame["a"]), sorted(y[again]))


@pytest.mark.parametrize("scoring", [own, "rand_score"])
def test_weights_that_a_scorer_does_not_take_are_named(scoring):
    X, y = rows()
    weights = np.random.default_rng(0).uniform(size=len(y))
    with pytest.warns(UserWarning, match="takes no sample_weight"):
        stack(scoring).fit(X, y, sample_weight=weights)
    alike = stack(scoring).fit(X, y, sample_weight=np.full(len(y), 0.25))  # no warning
    assert alike.leaderboard_[0]["score"] is not None
    stack("accuracy").fit(X, y, sample_weight=weights)


def test_a_scorer_of_other_rows_or_of_many_scores_is_an_error():
    X, y = rows()
    with pytest.raises(ValueError, match="held-out predictions"):
        stack(lambda estimator, X, y: own(estimator, X[:5], y[:5])).fit(X, y)
    with pytest.raises(ValueError, match="scoring="):
        stack(["accuracy", "roc_auc"]).fit(X, y)
    assert "accuracy" in get_scorer_names()


VERBOSE = [c for c in estimator_classes().values() if "verbose" in inspect.signature(c).parameters]


@pytest.mark.parametrize("cls", VERBOSE, ids=lambda cls: cls.__name__)
def test_verbose_is_a_truth_value_or_a_whole_number(cls, capfd):
    X, y = rows(30)
    cls(verbose=1).fit(X, y)
    assert "fitted" in capfd.readouterr().err
    for wrong in (-1, 0.5, "yes"):
        with pytest.raises(ValueError, match="verbose"):
            cls(verbose=wrong).fit(X, y)


WEIGHTED = [
    "TuneFreeClassifier", "BoostedTreesClassifier", "KernelRidgeClassifier", "PiSTOLClassifier",
    "KernelPiSTOLClassifier", "GLMClassifier",
]  # fmt: skip


@pytest.mark.parametrize("name", WEIGHTED)
def test_a_class_of_weight_0_is_as_rows_of_weight_0(name):
    X, _ = rows()
    y = np.array(["low", "mid", "top"])[np.digitize(X[:, 0] + X[:, 1], [-0.5, 0.5])]
    few = {"candidates": ("linear",)} if name.startswith("Tune") else {}
    cls = getattr(tunefree, name)
    none = {"low": 0.0, "mid": 1.0, "top": 1.0}
    by_class = cls(class_weight=none, random_state=0, **few).fit(X, y)
    assert by_class.classes_.tolist() == ["mid", "top"]
    by_rows = cls(random_state=0, **few).fit(X, y, sample_weight=(y != "low").astype(float))
    np.testing.assert_array_equal(by_class.predict_proba(X), by_rows.predict_proba(X))
    alone = none | {"mid": 0.0}
    with pytest.raises(ValueError, match="class_weight"):
        cls(class_weight=alone, random_state=0, **few).fit(X, y)


def test_classes_of_few_rows_are_named_where_sets_are_class_conditional():
    X, y = rows(100)
    labels = np.where(np.arange(100) < 4, "rare", np.where(y, "b", "a"))
    model = BoostedTreesClassifier(random_state=0).fit(X, labels)
    with pytest.warns(UserWarning, match="'rare'"):
        sets = model.predict_set(X, class_conditional=True)[1]
    assert sets[:, 2].all()
    model.predict_set(X, alpha=0.4, class_conditional=True)  # enough rows: no warning


@pytest.mark.parametrize("n_classes", [2, 4])
def test_sets_by_aps_cover_as_asked_and_are_never_empty(n_classes):
    """The share covered is 1 - alpha where the likeliest class alone covers less."""
    rng, alpha = np.random.default_rng(0), 0.1
    share = []
    for _ in range(100):
        p = rng.dirichlet(np.ones(n_classes), size=800)
        codes = (rng.random((800, 1)) > p.cumsum(axis=1)).sum(axis=1).clip(max=n_classes - 1)
        held_out = HeldOutProbabilities(p[:400], codes[:400], np.ones(400))
        sets = held_out.sets(p[400:], np.array([alpha]), "aps")[..., 0]
        assert sets.any(axis=1).all() and sets[np.arange(400), p[400:].argmax(axis=1)].all()
        share.append(sets[np.arange(400), codes[400:]].mean())
    # A mean of 100 draws: the quantile of 400 rows and 400 new rows give .021 each time.
    assert abs(np.mean(share) - (1.0 - alpha)) < 0.01


@pytest.mark.parametrize("cls", [BoostedTreesRegressor, BoostedTreesClassifier])
def test_trees_have_the_importances_that_selection_needs(cls):
    X, y = rows()
    model = cls(random_state=0)
    with pytest.raises(AttributeError):
        _ = model.feature_importances_
    model.fit(X, y)
    np.testing.assert_array_equal(model.feature_importances_, model.feature_relevances_)
    assert RFE(cls(random_state=0), n_features_to_select=1).fit(X, y).support_.tolist()[0]
    assert SelectFromModel(cls(random_state=0)).fit(X, y).get_support()[0]
