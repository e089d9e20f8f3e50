"""The Reflectron's differential equation, integrated."""

from typing import Any

import numpy as np
from sklearn.utils import check_array, check_consistent_length

from tunefree.core.parameters import seed_of
from tunefree.core.process import one_blas_thread
from tunefree.core.protocols import Link, MatrixLike, Seed, TargetLike
from tunefree.parts.links import LINKS, check_increasing
from tunefree.reflectron.flow_integrators import EVENTS, Flow, Sample, Trajectory, follow
from tunefree.reflectron.potentials import POTENTIALS
from tunefree.rows.designs import Shared, design_of
from tunefree.rows.missing import complete


@one_blas_thread()
def flow(
    X: MatrixLike,
    y: TargetLike,
    *,
    link: str | Link = "logit",
    potential: Any = "euclidean",
    natural: bool = False,
    horizon: float = 100.0,
    method: Any = "DOP853",
    rtol: float = 1e-6,
    atol: float | None = None,
    X_val: MatrixLike = None,
    y_val: TargetLike = None,
    until: Any = (),
    init: Any = None,
    fit_intercept: bool = False,
    random_state: Seed = None,
) -> Trajectory:
    r"""Follow the Reflectron's flow and return the whole trajectory.

    .. math:: \frac{d}{dt}\nabla\psi(\theta) = -\frac1n \sum_i A(x_i)^\top (u(A(x_i)\theta) - y_i)

    Parameters
    ----------
    X : array-like, CSR, array of shape (n_samples, k, p) or `tunefree.rows.designs.Shared`
        Rows of shape (n_samples, n_features), parameters for each output; or one matrix (k, p) a
        sample, whose p parameters the k outputs share: an array of them, or ``Shared.of(A)`` for
        lists, sparse matrices and functions of a row.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
    link : str or link, default='logit'
    potential : str or potential, default='euclidean'
    natural : bool, default=False
        Follow the natural-gradient flow of theta, not the mirror flow of the dual: the same curve,
        with other rounding. Where it cannot leave 0, it starts from normal random numbers with
        standard deviation 1e-3.
    horizon : float, default=100.0
        The last time. A step of length lambda of the batch iteration is the time lambda.
    method : str or `scipy.integrate.OdeSolver`, default='DOP853'
        'RK23', 'RK45', 'DOP853', 'Radau', 'BDF' or 'LSODA' of `scipy.integrate.solve_ivp`, or a
        class of your own. 'Radau' and 'BDF' factor a matrix of all unknowns; for thousands of
        unknowns and a stiff flow take 'LSODA'.
    rtol : float, default=1e-6
        Relative tolerance of a step.
    atol : float or None, default=None
        Absolute tolerance; None is 1e-9 for the dual. For the natural-gradient flow it is at most
        that, and so small that duals are resolved to 1e-4: parameters near 0 may have duals that
        are not near 0 (1e-9 has 0.14, with the power 1.1).
    X_val, y_val : optional
        Rows on which the risk is measured.
    until : collection of 'rise' and 'stationary', default=()
        Events that end the flow: the risk on X_val begins to rise, or the pseudogradient has fallen
        to a millionth of the first. Both are recorded in any case.
    init : array-like of shape (n_outputs, n_features), optional
        The parameters to start from; the potential's minimiser by default.
    fit_intercept : bool, default=False
        Learn an intercept, free of the potential.
    random_state : int, RandomState or None, default=None
        Seed of a random start.

    Returns
    -------
    Trajectory

    Raises
    ------
    ValueError
        For an unknown name, an event without X_val, a natural flow that cannot leave `init`, or an
        integrator that fails.

    References
    ----------
    Boffi and Slotine 2020, "The Reflectron: Exploiting geometry for learning generalized linear
    models" (arXiv 2006.08575v1), eq. 5, 7 and 8.

    Examples
    --------
    >>> from tunefree.reflectron import flow
    >>> X = np.random.default_rng(0).uniform(-1, 1, (40, 60))
    >>> y = 1 / (1 + np.exp(-4 * X[:, 0]))
    >>> path = flow(X, y, potential="p_norm", horizon=1000.0, until=("stationary",))
    >>> coef, _ = path.at(path.times[-1])
    >>> int(abs(coef[0]).argmax())
    0
    """
    until = {until} if isinstance(until, str) else set(until)
    if not until <= set(EVENTS):
        raise ValueError(f"until={until!r} holds something other than 'rise' and 'stationary'.")
    if "rise" in until and X_val is None:
        raise ValueError("until='rise' needs rows to measure the risk on: give X_val, y_val.")
    if not (isinstance(horizon, int | float) and 0.0 < horizon < np.inf):
        raise ValueError(f"horizon={horizon!r} is not a positive number.")
    link = LINKS.find(link)
    check_increasing(link)
    potential = POTENTIALS.find(potential)
    learn = _sample(X, y, "X", "y")
    held = None if X_val is None else _sample(X_val, y_val, "X_val", "y_val")
    whole = Flow(learn, link, potential, natural, fit_intercept)
    if init is not None:
        init = check_array(np.reshape(init, whole.shape), input_name="init")
    start = whole.start(init, rng=np.random.default_rng(seed_of(random_state)))
    integrator = {"method": method, "rtol": rtol, "atol": atol}
    return follow(whole, start, float(horizon), held, until=until, **integrator)


def _sample(X, y, name, y_name):
    """Rows and targets, checked."""
    if y is None:
        raise ValueError(f"{name} is given without {y_name}.")
    y = check_array(complete(y, y_name), ensure_2d=False, input_name=y_name, dtype=np.float64)
    X = Shared.of(X) if isinstance(X, np.ndarray) and X.ndim == 3 else X
    if not isinstance(X, Shared):
        X = check_array(X, accept_sparse="csr", dtype=np.float64, order="C", input_name=name)
        check_consistent_length(X, y)
        return Sample(design_of(X), y.reshape(len(y), -1), np.ones(len(y)))
    n = X.shape[0] // X.outputs
    if y.size != X.shape[0]:
        raise ValueError(f"{name} holds {n} x {X.outputs} equations, {y_name} {y.size} values.")
    return Sample(X, y.reshape(-1, 1), np.ones(y.size))
