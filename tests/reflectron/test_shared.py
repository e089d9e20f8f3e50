"""Weights that outputs share: forms of A(x), the unshared case, what the flow converges to."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize, root

from tunefree.parts.links import Logit
from tunefree.reflectron import flow
from tunefree.reflectron.potentials import Euclidean, Hypentropy, PNorm
from tunefree.rows.designs import Dense, Shared


def _block_diagonal(x, k=3):
    """The unshared model: k outputs with parameters of their own, one after another."""
    return np.kron(np.eye(k), x)


def _convolution(x, width=4):
    """A filter slides over x: output j sees x[j : j + width], and all share the filter."""
    return np.lib.stride_tricks.sliding_window_view(x, width)


def _arm(x):
    """A two-link arm: angles and their rates; inertias and frictions occur in both torques."""
    q1, q2, v1, v2 = x
    return np.array(
        [
            [v1, np.cos(q2) * (2.0 * v1 + v2), np.sin(q1), np.sin(q1 + q2), v1 - v2, 0.0],
            [0.0, np.cos(q2) * v1, 0.0, np.sin(q1 + q2), v2 - v1, v2],
        ]
    )


def _oracle(potential, A, margins, start):
    """min d_psi(theta, start) over A theta = margins, by its dual in as many unknowns as rows."""
    dual = potential.mirror(start)

    def value(a):
        w = dual + A.T @ a
        return potential.conjugate(w) - a @ margins, A @ potential.inverse(w) - margins

    rough = minimize(value, np.zeros(len(A)), jac=True, method="BFGS", options={"gtol": 1e-8})
    fine = root(lambda a: value(a)[1], rough.x, tol=1e-13)
    return potential.inverse(dual + A.T @ fine.x)


def test_all_forms_are_the_same_design():
    X = np.random.default_rng(0).standard_normal((5, 7))
    arrays = np.array([_convolution(x) for x in X])
    forms = [
        Shared.of(arrays),
        Shared.of([sparse.csr_array(a) for a in arrays]),
        Shared.of([sparse.coo_matrix(arrays[0]), *arrays[1:]]),
        Shared.of(_convolution, X),
        Shared.of(lambda x: sparse.csc_array(_convolution(x)), X),
    ]
    theta, r = np.arange(4.0), np.arange(20.0)
    for form in forms:
        assert form.outputs == 4 and form.shape == (20, 4)
        assert np.allclose(form.apply(theta), forms[0].apply(theta), rtol=1e-14)
        assert np.allclose(form.adjoint(r), forms[0].adjoint(r), rtol=1e-14)


@pytest.mark.parametrize("potential", [Euclidean(), PNorm(1.1), Hypentropy(1e-4)], ids=repr)
def test_a_block_diagonal_matrix_is_the_unshared_model(potential):
    rng = np.random.default_rng(1)
    X, Y = rng.uniform(-1, 1, (30, 6)), rng.uniform(0, 1, (30, 3))
    A = Shared.of(lambda x: sparse.csr_array(_block_diagonal(x)), X)
    shared = flow(A, Y, potential=potential, horizon=20.0, rtol=1e-9)
    apart = flow(X, Y, potential=potential, horizon=20.0, rtol=1e-9)
    for t in (1.0, 5.0, 20.0):
        assert np.allclose(shared.at(t)[0].reshape(3, 6), apart.at(t)[0], rtol=1e-9, atol=1e-12)
        assert np.allclose(shared.risk_at(t), apart.risk_at(t), rtol=1e-9)


def test_the_pseudogradient_is_that_of_equation_7():
    rng = np.random.default_rng(2)
    A, y = rng.standard_normal((8, 3, 5)), rng.uniform(0, 1, (8, 3))
    path = flow(Shared.of(A), y, potential="euclidean", horizon=1.0)
    theta = rng.standard_normal(5)
    g = np.mean([a.T @ (Logit().mean(a @ theta) - b) for a, b in zip(A, y, strict=True)], axis=0)
    found, _ = path._flow.gradient(theta[None], np.zeros(1))
    assert np.allclose(found[0], g, rtol=1e-13)


@pytest.mark.parametrize("potential", [Euclidean(), PNorm(1.5), Hypentropy(1e-1)], ids=repr)
@pytest.mark.parametrize("nonzero", [False, True])
def test_theorem_4_1_of_2020_implicit_regularization_with_shared_weights(potential, nonzero):
    """Of all that interpolate, the flow finds what is nearest to its start in the divergence."""
    rng = np.random.default_rng(3)
    A = np.array([_convolution(x, 20) for x in rng.uniform(-1, 1, (3, 22))])  # 9 equations
    theta = np.where(rng.random(20) < 0.2, rng.standard_normal(20), 0.0)
    y = Logit().mean(A @ theta)
    start = rng.uniform(-0.5, 0.5, 20) if nonzero else np.zeros(20)
    path = flow(
        Shared.of(A), y, potential=potential, init=start, horizon=1e5, rtol=1e-10, atol=1e-12,
        method="LSODA", until="stationary",
    )  # fmt: skip
    assert path.ended == "stationary"
    found, flat = path.at(path.times[-1])[0][0], A.reshape(9, 20)
    expected = _oracle(potential, flat, Logit().inverse(y.ravel()), start)
    assert np.allclose(flat @ expected, Logit().inverse(y.ravel()), atol=1e-9)
    assert np.linalg.norm(found - expected) <= 1e-4 * np.linalg.norm(expected)
    others = expected + np.linalg.svd(flat)[2][9:].T @ rng.standard_normal(11) * 0.1
    assert np.allclose(flat @ others, flat @ expected)
    assert potential.divergence(others, start) > potential.divergence(expected, start)


def test_parameters_with_a_meaning_in_several_equations_are_found():
    """Control-like: the arm's six parameters from few states, which no equation alone gives."""
    rng = np.random.default_rng(4)
    theta = np.array([1.0, 0.5, -1.5, 0.8, 0.3, 0.6])
    X = rng.uniform(-2.0, 2.0, (40, 4))
    A = Shared.of(_arm, X)
    y = Logit().mean(A.apply(theta)).reshape(40, 2)
    path = flow(A, y, horizon=1e5, method="LSODA", until="stationary")
    assert np.allclose(path.at(path.times[-1])[0][0], theta, atol=1e-3)


def test_bad_matrices_are_refused():
    with pytest.raises(ValueError, match="all of one shape"):
        Shared.of([np.ones((2, 3)), np.ones((3, 3))])
    with pytest.raises(ValueError, match="all of one shape"):
        Shared.of(np.ones((4, 3)))
    with pytest.raises(ValueError, match="NaN or infinity"):
        Shared.of(np.full((2, 2, 2), np.inf))
    with pytest.raises(ValueError, match="2 x 2 equations"):
        flow(Shared.of(np.ones((2, 2, 2))), np.ones((3, 2)))
    assert isinstance(Shared.of(np.ones((2, 2, 2))).design, Dense)
