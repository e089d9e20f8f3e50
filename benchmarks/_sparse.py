"""Peers in sparse recovery: l1-penalised paths, the penalty chosen by five-fold squared error."""

import importlib.util
import warnings

import numpy as np
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegressionCV

N_PENALTIES, N_FOLDS, LEAST = 30, 5, 1e-3


def logistic_cv(X, y):
    """Scikit-learn's l1-penalised logistic regression by cross-validation, on y above 1/2."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", FutureWarning)
        model = LogisticRegressionCV(
            Cs=10, cv=5, l1_ratios=(1.0,), solver="liblinear", fit_intercept=False,
            scoring="neg_log_loss", use_legacy_attributes=False,
        ).fit(X, y > 0.5)  # fmt: skip
    return model.coef_[0], None


def fista(X, y, penalty, theta, step, most=2000, tol=1e-6):
    """The l1-penalised matching loss by restarted accelerated proximal gradients."""
    ahead, momentum, passes = theta, 1.0, 0
    while passes < most:
        passes += 1
        moved = ahead - step * (X.T @ (expit(X @ ahead) - y)) / len(y)
        new = np.sign(moved) * np.maximum(np.abs(moved) - step * penalty, 0.0)
        change, following = new - theta, (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        if (ahead - new) @ change > 0.0:
            ahead, momentum = new, 1.0
        else:
            ahead, momentum = new + (momentum - 1.0) / following * change, following
        theta = new
        if np.abs(change).max() <= tol * max(1e-3, np.abs(theta).max()):
            break
    return theta, passes


def l1_path(X, y, penalties):
    """Warm-started along decreasing penalties: parameters and passes."""
    theta, path, passes = np.zeros(X.shape[1]), [], 0
    step = 4.0 * len(y) / np.linalg.norm(X, 2) ** 2
    for penalty in penalties:
        theta, more = fista(X, y, penalty, theta, step)
        path.append(theta)
        passes += more
    return np.array(path), passes


def cross_validated_path(X, y, n_folds=N_FOLDS, n_penalties=N_PENALTIES):
    """Five-fold choice of the penalty by squared error, then all rows."""
    top = np.abs(X.T @ (0.5 - y)).max() / len(y)
    penalties = top * np.geomspace(1.0, LEAST, n_penalties)
    fold, errors, passes = np.arange(len(y)) % n_folds, 0.0, 0
    for f in range(n_folds):
        path, more = l1_path(X[fold != f], y[fold != f], penalties)
        means = expit(X[fold == f] @ path.T)
        errors = errors + ((means - y[fold == f, None]) ** 2).sum(axis=0)
        passes += more
    path, more = l1_path(X, y, penalties[: int(np.argmin(errors)) + 1])
    return path[-1], passes + more


def _chosen(X, y, path):
    """A path on y above 1/2: `path(X, signs, penalties)` gives the parameters of each penalty."""
    signs, fold = np.where(y > 0.5, 1.0, -1.0), np.arange(len(y)) % N_FOLDS
    top = np.abs(X.T @ signs).max() / 2.0 / len(y)
    penalties, errors = top * np.geomspace(1.0, LEAST, N_PENALTIES), 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for f in range(N_FOLDS):
            thetas = path(X[fold != f], signs[fold != f], penalties)
            means = expit(X[fold == f] @ thetas.T)
            errors = errors + ((means - y[fold == f, None]) ** 2).sum(axis=0)
        return path(X, signs, penalties[: int(np.argmin(errors)) + 1])[-1], None


def _celer_path(X, signs, penalties):
    from celer.homotopy import celer_path

    # Its logistic loss is a sum over rows.
    X = np.asfortranarray(X)
    return celer_path(X, signs, "logreg", alphas=penalties * len(signs))[1].T


def _skglm_path(X, signs, penalties):
    from skglm.estimators import SparseLogisticRegression

    model, X, thetas = SparseLogisticRegression(fit_intercept=False), np.asfortranarray(X), []
    model.warm_start = True
    for penalty in penalties:
        thetas.append(model.set_params(alpha=penalty).fit(X, signs).coef_[0].copy())
    return np.array(thetas)


def _installed(name):
    return importlib.util.find_spec(name) is not None


# Functions (X, y) -> parameters, passes (or None).
PEERS = {"FISTA on the matching loss": cross_validated_path, "LogisticRegressionCV": logistic_cv}
if _installed("celer"):
    PEERS["celer"] = lambda X, y: _chosen(X, y, _celer_path)
if _installed("skglm"):
    PEERS["skglm"] = lambda X, y: _chosen(X, y, _skglm_path)
