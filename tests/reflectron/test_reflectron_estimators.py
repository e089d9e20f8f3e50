"""ReflectronRegressor and ReflectronClassifier: contracts, invariances, bad input."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

from hidden import with_settings
from tunefree import GLMClassifier, GLMRegressor, ReflectronClassifier, ReflectronRegressor
from tunefree.parts.links import LINKS
from tunefree.reflectron import descent
from tunefree.reflectron.constraints import Box, L1Ball, NonNegative, NuclearBall
from tunefree.reflectron.mirror import Mirror
from tunefree.reflectron.potentials import POTENTIALS, Euclidean, Hypentropy, Spectral
from tunefree.rows.units import Units


def _sparse_problem(n=200, d=40, seed=0, outputs=1):
    rng = np.random.default_rng(seed)
    X, theta = rng.uniform(-1, 1, (n, d)), np.zeros((outputs, d))
    theta[:, :3] = 3.0 * rng.standard_normal((outputs, 3))
    mean = 1.0 / (1.0 + np.exp(-(X @ theta.T) - 0.5))
    y = mean + 0.1 * rng.uniform(-1, 1, mean.shape)
    return (X, y[:, 0], mean[:, 0]) if outputs == 1 else (X, y, mean)


def _logit(**parameters):
    settings = {"link": "logit", "random_state": 0} | parameters
    return with_settings(ReflectronRegressor, **settings)


@pytest.mark.parametrize("seed", range(50))
def test_weights_are_repetitions(seed):
    rng = np.random.default_rng(seed)
    X, y, _ = _sparse_problem(30, 5, seed)
    weights = rng.integers(0, 4, 30)
    repeated = rng.permutation(np.repeat(np.arange(30), weights))
    a = _logit(max_iter=40).fit(X, y, sample_weight=weights)
    b = _logit(max_iter=40).fit(X[repeated], y[repeated])
    assert np.abs(a.coef_ - b.coef_).max() <= 1e-10
    assert abs(a.intercept_ - b.intercept_) <= 1e-10


def test_the_order_of_rows_makes_no_difference():
    X, y, _ = _sparse_problem()
    order = np.random.default_rng(1).permutation(len(y))
    a, b = _logit().fit(X, y), _logit().fit(X[order], y[order])
    assert np.array_equal(a.coef_, b.coef_)


@pytest.mark.parametrize("intercept", [True, False])
def test_dense_and_sparse_rows_agree(intercept):
    X, y, _ = _sparse_problem()
    X[np.abs(X) < 0.5] = 0.0
    parameters = {"fit_intercept": intercept, "max_iter": 50, "potential": "hypentropy"}
    dense = _logit(**parameters).fit(X, y)
    for form in (sparse.csr_array(X), sparse.csr_matrix(X), sparse.coo_array(X)):
        stored = _logit(**parameters).fit(form, y)
        assert np.allclose(stored.coef_, dense.coef_, rtol=1e-6, atol=1e-9)
        assert np.allclose(stored.predict(form), dense.predict(X), atol=1e-9)


def test_float32_in_float32_out():
    X, y, _ = _sparse_problem()
    model = _logit().fit(X.astype(np.float32), y.astype(np.float32))
    assert model.coef_.dtype == model.predict(X.astype(np.float32)).dtype == np.float32
    wide = _logit().fit(X.astype(np.float32).astype(float), y.astype(np.float32).astype(float))
    # Columns in their units are rounded to 6e-8, and the duals add that up over a time of 400.
    assert np.allclose(model.coef_, wide.coef_, rtol=2e-4, atol=1e-6)


def test_float32_rows_are_swept_over_as_float32():
    X, _, _ = _sparse_problem()
    for rows in (X.astype(np.float32), sparse.csr_array(X.astype(np.float32))):
        design = Units.of(rows, np.ones(len(X)), not sparse.issparse(rows), True).design(rows)
        assert design.apply(np.ones((40, 2))).dtype == np.float32
        assert design.adjoint(np.ones((200, 2))).dtype == np.float32


def test_the_fit_is_the_priors_projection_onto_the_interpolating_predictors():
    """Theorem 4.2 from a nonzero start, with the Euclidean potential: a least-norm change."""
    X, y, _ = _sparse_problem(15, 40)
    y = np.clip(y, 0.05, 0.95)
    prior = np.random.default_rng(2).uniform(-0.5, 0.5, 40)
    model = _logit(
        potential="euclidean", fit_intercept=False, standardize=False, warm_start=True,
        validation_fraction=0.0, patience=10**6, max_iter=3000,
    )  # fmt: skip
    model.coef_, model.intercept_ = prior, 0.0
    model.fit(X, y)
    margins = np.log(y / (1.0 - y))
    expected = prior + np.linalg.pinv(X) @ (margins - X @ prior)
    assert np.allclose(model.coef_, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("factor", [1e-8, 1e8])
def test_the_unit_of_the_columns_makes_no_difference(factor):
    X, y, _ = _sparse_problem()
    units = np.where(np.arange(X.shape[1]) % 2 == 0, factor, 1.0)
    a, b = _logit().fit(X, y), _logit().fit(X * units, y)
    assert np.mean((a.predict(X) - b.predict(X * units)) ** 2) <= 0.01 * np.mean(
        (a.predict(X) - y) ** 2
    )


def test_sparse_truth_is_found_with_a_sparse_geometry():
    X, y, mean = _sparse_problem(1200, 500)
    fresh, fresh_mean, X, y = X[200:], mean[200:], X[:200], y[:200]
    auto = _logit().fit(X, y)
    euclidean = _logit(potential="euclidean").fit(X, y)
    errors = [np.mean((m.predict(fresh) - fresh_mean) ** 2) for m in (auto, euclidean)]
    assert isinstance(auto.potential_, Hypentropy)
    assert errors[0] < 0.2 * errors[1]
    assert auto.leaderboard_[0]["risk"] < auto.leaderboard_[-1]["risk"]


def test_rows_given_for_validation_choose():
    X, y, _ = _sparse_problem(500)
    X, y, X_val, y_val = X[:200], y[:200], X[200:], y[200:]
    model = _logit().fit(X, y, X_val=X_val, y_val=y_val)
    assert np.mean((model.predict(X_val) - y_val) ** 2) == pytest.approx(
        model.leaderboard_[0]["risk"], rel=1e-9
    )
    assert model.trace_["held_risk"].shape == (model.n_iter_, len(model.leaderboard_))
    with pytest.raises(ValueError, match="without y_val"):
        _logit().fit(X, y, X_val=X_val)


def test_several_outputs_and_spectral_geometry():
    X, y, mean = _sparse_problem(300, 20, outputs=3)
    model = _logit(potential=["hypentropy", Spectral(Hypentropy(1e-3))]).fit(X, y)
    assert model.coef_.shape == (3, 20) and model.intercept_.shape == (3,)
    assert np.mean((model.predict(X) - mean) ** 2) < 1e-3
    ball = _logit(potential="spectral", constraint=NuclearBall(0.5), standardize=False).fit(X, y)
    assert np.linalg.norm(ball.coef_, "nuc") <= 0.5 * (1 + 1e-9)


@pytest.mark.parametrize("name", LINKS)
def test_every_link_fits_its_own_data(name):
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (300, 5))
    y = LINKS[name].mean(X @ np.array([1.0, -0.5, 0.0, 0.0, 0.5]) + 0.2)
    model = ReflectronRegressor(link=name, random_state=0, max_iter=150).fit(X, y)
    assert model.score(X, y) > 0.98


@pytest.mark.parametrize("name", sorted(set(POTENTIALS) - {"entropy", "spectral"}))
def test_every_potential_learns(name):
    X, y, mean = _sparse_problem()
    assert np.mean((_logit(potential=name).fit(X, y).predict(X) - mean) ** 2) < 2e-3


def test_constraints_hold_in_the_units_learned_in():
    X, y, _ = _sparse_problem()
    parameters = {"standardize": False, "potential": "euclidean"}
    one = _logit(constraint=L1Ball(2.0), **parameters).fit(X, y)
    assert np.abs(one.coef_).sum() <= 2.0 * (1 + 1e-9)
    assert _logit(constraint="non_negative", **parameters).fit(X, y).coef_.min() >= 0.0
    assert np.abs(_logit(constraint=Box(-0.5, 0.5), **parameters).fit(X, y).coef_).max() <= 0.5
    several = _logit(constraint=[L1Ball(0.1), L1Ball(8.0), NonNegative()], **parameters).fit(X, y)
    assert several.constraint_ == L1Ball(8.0)


def test_a_users_own_link():
    class Cauchit:
        def mean(self, s):
            return 0.5 + np.arctan(s) / np.pi

    X, y, mean = _sparse_problem()
    assert np.mean((_logit(link=Cauchit()).fit(X, y).predict(X) - mean) ** 2) < 2e-3
    labels = (y > 0.5).astype(int)
    assert (
        ReflectronClassifier(link=Cauchit(), random_state=0).fit(X, labels).score(X, labels) > 0.9
    )


@pytest.mark.parametrize("load, least", [(load_breast_cancer, 0.95), (load_iris, 0.9),
                                         (load_wine, 0.9)])  # fmt: skip
def test_classification_of_raw_data(load, least):
    X, y = load(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y, cut = X[order], y[order], int(0.7 * len(y))
    names = np.array(["a", "b", "c"])[y]
    model = GLMClassifier(random_state=0).fit(X[:cut], names[:cut])
    assert model.score(X[cut:], names[cut:]) >= least
    p = model.predict_proba(X[cut:])
    assert np.allclose(p.sum(axis=1), 1.0) and (p >= 0.0).all()


@pytest.mark.parametrize("link", ["probit", "cloglog", "tanh", "identity", "clipped_identity"])
def test_classification_through_other_links(link):
    X, y = load_breast_cancer(return_X_y=True)
    model = ReflectronClassifier(link=link, random_state=0, max_iter=300).fit(X, y)
    assert model.score(X, y) > 0.95
    if link == "identity":
        assert not hasattr(model, "predict_proba")
    else:
        agreed = (model.predict_proba(X)[:, 1] > 0.5) == (model.predict(X) == 1)
        assert agreed.mean() > 0.999


def test_regression_of_raw_data():
    X, y = load_diabetes(return_X_y=True, scaled=False)
    model = ReflectronRegressor(link="identity", random_state=0).fit(X[:300], y[:300])
    assert model.score(X[300:], y[300:]) > 0.45


def test_warm_start_goes_on_from_the_last_coefficients():
    X, y, _ = _sparse_problem()
    parameters = {"potential": "euclidean", "validation_fraction": 0.0, "patience": 1000}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = _logit(max_iter=30, warm_start=True, **parameters).fit(X, y)
        first = model.trace_["risk"][-1, 0]
        model.fit(X, y)
    assert model.trace_["risk"][0, 0] == pytest.approx(first, rel=1e-9)


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"link": "logistic"}, "is none of identity, logit"),
        ({"potential": "l1"}, "is none of auto, euclidean"),
        ({"potential": [Euclidean(), 3]}, "has no inverse"),
        ({"constraint": "l3"}, "is none of l1, l2"),
        ({"step": 0.0}, "neither 'auto' nor a positive number"),
        ({"validation_fraction": 0.0}, "needs rows held out"),
        ({"max_iter": 0}, "not a positive integer"),
        ({"max_iter": 1.5}, "not a positive integer"),
        ({"potential": "entropy", "constraint": "l1"}, "There is no rule"),
        ({"potential": "entropy", "constraint": Box()}, "There is no rule"),
    ],
)
def test_bad_parameters_are_refused_in_one_sentence(parameters, message):
    X, y, _ = _sparse_problem(50)
    with pytest.raises(ValueError, match=message):
        _logit(**parameters).fit(X, y)


def test_targets_outside_the_range_are_accepted_and_mostly_outside_are_warned_of():
    X, y, _ = _sparse_problem()
    assert ((y < 0) | (y > 1)).mean() > 0.03
    _logit(max_iter=5).fit(X, y)
    with pytest.warns(UserWarning, match="link='identity'"):
        _logit(max_iter=5).fit(X, 100.0 * y)


def test_a_diverging_fixed_step_is_reported():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    with pytest.raises(ValueError, match="step"):
        ReflectronRegressor(
            link="exp", potential=Hypentropy(1.0), step=1e300, standardize=False
        ).fit(X * 1e100, np.full(40, 1e5) + X[:, 0])


@pytest.mark.parametrize("beta", [1e-50, 1e-100, 1e-200])
@pytest.mark.parametrize("constraint", [None, L1Ball(20.0)], ids=repr)
def test_hypentropy_comes_up_from_a_tiny_beta(beta, constraint):
    """One parameter that has arrived, or the intercept, does not end the others' way."""
    rng, theta = np.random.default_rng(5), np.array([2.0, -1.0, 1.5, 1.0] + 16 * [0.0])
    X = rng.uniform(-1.0, 1.0, (500, 20))
    y = 1.0 / (1.0 + np.exp(-X @ theta))
    model = ReflectronRegressor("logit", potential=Hypentropy(beta), constraint=constraint).fit(
        X, y
    )
    assert np.abs(model.coef_ - theta).max() < 1e-5


_WIDE_FITS = [
    (GLMClassifier(), 2),
    (GLMClassifier(), 3),
    (GLMRegressor(potential=Hypentropy(1e-4)), 2),
    (GLMRegressor(family="poisson", standardize=False), 4),
]


def _wide(n=90, used=40, d=3000, seed=0):
    """Sparse rows, a margin that they explain, and the few columns that have an entry."""
    rng = np.random.default_rng(seed)
    places = np.sort(rng.choice(d, used, replace=False))
    few = sparse.random(n, used, 0.3, format="csr", rng=rng, data_rvs=rng.standard_normal)
    X = sparse.csr_array((few.data, places[few.indices], few.indptr), shape=(n, d))
    return X, few @ rng.standard_normal(used), places


@pytest.mark.parametrize("model, levels", _WIDE_FITS)
def test_columns_without_an_entry_cost_nothing_and_change_nothing(model, levels, monkeypatch):
    X, margin, places = _wide()
    y = np.argsort(np.argsort(margin)) * levels // len(margin)
    widths, init = [], Mirror.init

    def counted(self, d, *rest):
        widths.append(d)
        return init(self, d, *rest)

    monkeypatch.setattr(Mirror, "init", counted)
    fitted = clone(model).set_params(random_state=0, max_iter=8).fit(X, y)
    assert max(widths) == len(np.unique(X.indices))
    monkeypatch.setattr(descent, "columns_with_entries", lambda *_: None)
    whole = clone(fitted).fit(X, y)
    assert widths[-1] == X.shape[1]
    close = {"rtol": 1e-10, "atol": 1e-12}  # sums over other numbers of zeros round otherwise
    np.testing.assert_allclose(fitted.coef_, whole.coef_, **close)
    np.testing.assert_allclose(fitted.intercept_, whole.intercept_, **close)
    assert np.abs(fitted.coef_).max() > 0.0
    assert not np.delete(fitted.coef_, places, axis=-1).any()


@pytest.mark.parametrize(
    "parameters",
    [{"potential": "entropy"}, {"warm_start": True}, {"constraint": L1Ball(1.0)}],
)
def test_columns_without_an_entry_are_learned_where_their_coefficients_may_move(parameters):
    X, margin, _ = _wide()
    model = with_settings(ReflectronClassifier, **({"potential": "euclidean"} | parameters))
    assert descent.columns_with_entries(model._setup(model._law()), X) is None
