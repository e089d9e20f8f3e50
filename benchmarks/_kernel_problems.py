"""The problems of the kernel benchmark: prepared rows, shuffles, and how a prediction is scored."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.preprocessing import StandardScaler

from _data import load

SENSIT = "stand-in for SensIT Vehicle"
NEWS20 = "stand-in for news20.binary"
REGRESSION = {"kin40k": 10_000, "protein": 10_000, "pol": None}


class Problem(NamedTuple):
    """Prepared rows; ``gamma`` is the bandwidth of both sides on a learning curve."""

    name: str
    task: str
    X_train: Any
    y_train: np.ndarray
    X_test: Any
    y_test: np.ndarray
    kernel: str = "rbf"
    gamma: float | None = None
    note: str = ""

    @property
    def n_train(self):
        return len(self.y_train)

    def rows(self, size, shuffle):
        """Return the first rows of a shuffle of the training rows."""
        order = np.random.default_rng(shuffle).permutation(self.n_train)[:size]
        return self.X_train[order], self.y_train[order]

    def score(self, predicted):
        """Return the test error, or R2."""
        if self.task == "regression":
            residual = np.mean((predicted - self.y_test) ** 2)
            return float(1 - residual / self.y_test.var())
        return float(np.mean(predicted != self.y_test))


def standardised(data, rows=None):
    """Standardise columns, and targets, on the training rows (the first ones of shuffle 0)."""
    order = np.random.default_rng(0).permutation(len(data.y_train))[:rows]
    X, y, y_test = data.X_train[order], data.y_train[order], data.y_test
    scaler = StandardScaler().fit(X)
    if data.task == "regression":
        mean, deviation = y.mean(), y.std()
        y, y_test = (y - mean) / deviation, (y_test - mean) / deviation
    return Problem(
        data.name, data.task, scaler.transform(X), y, scaler.transform(data.X_test), y_test
    )


def problem(name, directory):
    """Read and prepare one problem."""
    if name == "mnist even/odd":
        full = problem("mnist", directory)
        even = [2 * (y % 2) - 1 for y in (full.y_train, full.y_test)]
        return full._replace(
            name=name, task="binary", y_train=even[0], y_test=even[1], gamma=0.02, note=SENSIT
        )
    data = load(name, directory)
    if name == "a9a":
        return Problem(*data[:2], data.X_train, data.y_train, *data[4:6], gamma=0.04)
    if name == "newsgroups":
        return Problem(*data[:6], kernel="linear", note=NEWS20)
    if name == "mnist":
        X_train, X_test = (np.float32(X) / 255 for X in (data.X_train, data.X_test))
        return Problem(*data[:2], X_train, data.y_train, X_test, data.y_test)
    return standardised(data, REGRESSION.get(name))
