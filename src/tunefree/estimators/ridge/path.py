"""The regularization path of least squares as a function, in the style of `enet_path`."""

from scipy import sparse

from tunefree._threads import one_blas_thread
from tunefree.estimators.ridge.estimator import AveragedSGDRegressor
from tunefree.estimators.ridge.problem import (
    check_parameters,
    descend,
    exact_path,
    passes,
    penalties,
    read,
)


@one_blas_thread()
def sgd_ridge_path(
    X,
    y,
    *,
    alphas=None,
    sample_weight=None,
    solver="sgd",
    max_iter="auto",
    scaling="auto",
    fit_intercept=True,
    random_state=None,
):
    r"""The ridge path by geometric averages of one run of SGD.

    The average with weights :math:`(1 + \eta\alpha/n)^{-t}` for every alpha, from the scalars of
    one run and one product.

    Parameters
    ----------
    X : array-like or CSR of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
    alphas : array-like of shape (n_alphas,), optional
        As in `AveragedSGDRegressor`, like all that follows.
    sample_weight : array-like of shape (n_samples,), optional
    solver : {'sgd', 'exact'}, default='sgd'
    max_iter : int or 'auto', default='auto'
    scaling : bool or 'auto', default='auto'
        'auto' scales dense columns only.
    fit_intercept : bool, default=True
    random_state : int, RandomState or None, default=None

    Returns
    -------
    alphas : ndarray of shape (n_alphas,)
    coefs : ndarray of shape (n_features, n_alphas) or (n_targets, n_features, n_alphas)
    intercepts : ndarray of shape (n_alphas,) or (n_targets, n_alphas)

    References
    ----------
    Neu and Rosasco 2018, section 4.1.

    Examples
    --------
    >>> import numpy as np
    >>> from tunefree import sgd_ridge_path
    >>> x = np.linspace(-1, 1, 201)
    >>> alphas, coefs, _ = sgd_ridge_path(x[:, None], x, alphas=[x @ x / 20], random_state=0)
    >>> bool(abs(coefs[0, 0] - 20 / 21) < 0.05)  # x'x / (x'x + alpha)
    True
    """
    if solver not in ("sgd", "exact"):
        raise ValueError(f"solver={solver!r} is none of sgd, exact.")
    model = AveragedSGDRegressor(
        "geometric",
        solver=solver,
        alphas=alphas,
        max_iter=max_iter,
        scaling=not sparse.issparse(X) if scaling == "auto" else scaling,
        fit_intercept=fit_intercept,
        random_state=random_state,
    )
    check_parameters(model)
    problem, _ = model._pose(X, y, sample_weight)
    alphas = penalties(alphas, problem.sized())
    if solver == "exact":
        path, _ = exact_path(problem, alphas)
    else:
        n_passes = passes(max_iter, int(problem.visits.repeats.sum()))
        path = read(problem, descend(problem, n_passes), problem.schemes(alphas))
    coef, intercept = path.fold(problem.columns, dtype=model._dtype)
    return alphas, *((coef[0], intercept[0]) if model._flat else (coef, intercept))
