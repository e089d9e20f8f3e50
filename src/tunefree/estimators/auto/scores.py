"""How candidates are scored on rows that they have not seen: a loss, and a proper score of it."""

from typing import NamedTuple

import numpy as np
from scipy.special import log_softmax, softmax

from tunefree.choose.risk import temperature

_LEAST = 1e-12  # probability


def weighted_mean(values, weights):
    """Mean and its standard error.

    Examples
    --------
    >>> mean, se = weighted_mean(np.array([0.0, 1.0]), np.ones(2))
    >>> float(mean), round(float(se), 3)
    (0.5, 0.354)
    """
    total = weights.sum()
    mean = weights @ values / total
    return mean, np.sqrt(np.square(weights * (values - mean)).sum()) / total


class Mistakes(NamedTuple):
    """Of classification: mistakes, and log-losses.

    Attributes
    ----------
    n_classes : int
    """

    n_classes: int

    @property
    def task(self):
        """What is learned."""
        return "classification"

    def of(self, fitted, X, y):
        """Mistakes, and what `proper` needs: logarithms of all probabilities."""
        shown, known = fitted.show(X), fitted.model.classes_
        p = np.full((len(y), self.n_classes), _LEAST)
        p[:, known] = np.maximum(fitted.model.predict_proba(shown), _LEAST)
        return (fitted.model.predict(shown) != y).astype(float), np.log(p)

    def proper(self, logs, y, weights):
        """Log-loss of every row, and the power of the probabilities that makes the least of them.

        The power is 1 unless another one is better by more than a standard error. Candidates are
        compared without it: those that need none turn out to err less on new rows.
        """
        right = np.arange(self.n_classes) == y[:, None]
        power = temperature(logs, np.where(right, 1.0, -1.0), weights)
        plain, mended = (-log_softmax(a * logs, axis=1)[right] for a in (1.0, power))
        gain, error = weighted_mean(plain - mended, weights)
        return -logs[right], power if gain > error else 1.0


class Squares(NamedTuple):
    """Of regression: squared errors, in units of the targets' variances if there are several.

    Attributes
    ----------
    spread : ndarray of shape (n_outputs,)
    """

    spread: np.ndarray

    @property
    def task(self):
        """What is learned."""
        return "regression"

    def of(self, fitted, X, y):
        """Squared errors, twice: nothing else breaks ties."""
        predicted = fitted.model.predict(fitted.show(X))
        off = predicted.reshape(len(y), -1) - y.reshape(len(y), -1)
        square = (np.square(off.astype(np.float64)) / self.spread).sum(axis=1)
        return square, square

    def proper(self, squares, y, weights):
        """The squared errors themselves."""
        return squares, 1.0


def raised(p, power):
    """Probabilities to a power, made to sum to 1.

    Examples
    --------
    >>> raised(np.array([[0.2, 0.8]]), 2.0).round(3)
    array([[0.059, 0.941]])
    """
    if power == 1.0:
        return p
    return softmax(power * np.log(np.maximum(p, np.finfo(p.dtype).tiny)), axis=1)
