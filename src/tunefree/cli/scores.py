"""How good predictions are, as plain numbers."""

import numpy as np

_LEAST = 1e-15  # a probability below it counts as this, so that one sure mistake is not infinite


def score_classes(y, predicted, classes, *, probabilities=None, decisions=None, weight=None):
    """Score predicted classes.

    A row of a class that the model does not know counts as a mistake.

    Parameters
    ----------
    y, predicted : array of shape (n_rows,)
        True and predicted classes.
    classes : array of shape (n_classes,)
        The model's classes.
    probabilities : array of shape (n_rows, n_classes) or None
        For the log-loss.
    decisions : array of shape (n_rows,) or None
        For the AUC of two classes: higher for the second class.
    weight : array of shape (n_rows,) or None
        Row weights.

    Returns
    -------
    dict
        ``error``, ``log_loss``, ``auc`` (the last two where they exist) and ``n``.

    Examples
    --------
    >>> import numpy as np
    >>> from tunefree.cli.scores import score_classes
    >>> y, decisions = np.array([0, 0, 1]), np.array([-1.0, 1.0, 2.0])
    >>> score_classes(y, np.array([0, 1, 1]), np.array([0, 1]), decisions=decisions)
    {'error': 0.333..., 'auc': 1.0, 'n': 3}
    """
    scores = {"error": float(np.average(y != predicted, weights=weight))}
    if probabilities is not None:
        place = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
        known = classes[place] == y
        p = np.where(known, probabilities[np.arange(len(y)), place], 0.0)
        scores["log_loss"] = float(np.average(-np.log(np.maximum(p, _LEAST)), weights=weight))
    if decisions is not None and len(classes) == 2:
        positive = y == classes[1]
        if positive.any() and not positive.all():
            from sklearn.metrics import roc_auc_score

            scores["auc"] = float(roc_auc_score(positive, decisions, sample_weight=weight))
    return scores | {"n": len(y)}


def score_values(y, predicted, *, weight=None):
    """Score predicted numbers.

    Parameters
    ----------
    y, predicted : array of shape (n_rows,)
        True and predicted targets.
    weight : array of shape (n_rows,) or None
        Row weights.

    Returns
    -------
    dict
        ``mse``, ``mae``, ``r2`` (None if `y` is constant) and ``n``.

    Examples
    --------
    >>> import numpy as np
    >>> from tunefree.cli.scores import score_values
    >>> score_values(np.array([1.0, 3.0]), np.array([1.0, 2.0]))
    {'mse': 0.5, 'mae': 0.5, 'r2': 0.5, 'n': 2}
    """
    error = predicted - y
    mse = float(np.average(error**2, weights=weight))
    variance = float(np.average((y - np.average(y, weights=weight)) ** 2, weights=weight))
    return {
        "mse": mse,
        "mae": float(np.average(np.abs(error), weights=weight)),
        "r2": 1.0 - mse / variance if variance > 0 else None,
        "n": len(y),
    }
