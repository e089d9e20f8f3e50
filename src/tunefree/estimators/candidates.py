"""The candidates of `TuneFreeClassifier` and `TuneFreeRegressor`, and what each costs.

Prices are in passes: one is a multiply-add for every stored entry and output of the data.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import clone

from tunefree.estimators.landmark_search import show
from tunefree.squash import squash_of

# Wider rows are not given to kernels on landmarks; sparse rows must fit when stored densely.
_MOST_COLUMNS, _MOST_CELLS = 2000, 2e8
LEADER = "kernel on landmarks"


class Candidate(NamedTuple):
    """An estimator and how it takes part.

    Attributes
    ----------
    name : str
    family : {'linear', 'kernel'}
    squashed : bool
        Whether it is shown squashed columns.
    estimator : estimator
    work : callable
        Shape -> multiply-adds of one fit.
    dear : bool
        Whether it is tried only where the kernel on landmarks pays, if that came before.
    leads : bool
        Whether it is the kernel on landmarks.
    """

    name: str
    family: str
    squashed: bool
    estimator: object
    work: object
    dear: bool = False
    leads: bool = False

    def passes(self, shape):
        """The price of one fit: multiply-adds over those of one pass."""
        return float(self.work(shape) / max(shape.pass_work, 1.0))

    def fit(self, X, y, weights, leader=None):
        """A `Fitted` candidate on rows in random order.

        Parameters
        ----------
        X, y, weights : ndarray
        leader : estimator, optional
            A fitted kernel on landmarks: one more of these takes over its view and bandwidth.
        """
        view, more = (), {}
        if self.leads and leader is not None:
            more["like"] = leader
        elif self.squashed:
            view = (squash_of(X),)
        model = clone(self.estimator)
        return Fitted(view, model.fit(show(view, X), y, sample_weight=weights, **more))


class Fitted(NamedTuple):
    """A fitted model and what its columns go through first."""

    view: tuple
    model: object

    def show(self, X):
        """Rows as the model takes them."""
        return show(self.view, X.toarray() if self.view and sparse.issparse(X) else X)


class Shape(NamedTuple):
    """Rows, columns, stored entries and outputs of the data."""

    n: int
    d: int
    entries: float
    k: int

    @property
    def pass_work(self):
        """Multiply-adds of one pass."""
        return self.entries * self.k

    def rows(self, n):
        """The same data with other rows."""
        return self._replace(n=n, entries=self.entries * n / self.n)


def shape_of(X, n_outputs):
    """The shape of rows held densely or sparsely."""
    entries = X.nnz if sparse.issparse(X) else X.size
    return Shape(X.shape[0], X.shape[1], float(max(entries, 1)), n_outputs)


def _portfolio_work(shape):
    most = 3.2e4 / shape.n
    passes = np.clip(most, 3, 12)
    return (5 + 2 * passes) * shape.pass_work + 2 * shape.n * min(shape.d, 1000) * shape.d


def _ridge_work(shape):
    return 2 * shape.n * shape.d * min(shape.n, shape.d)


def _landmark_work(shape):
    n = min(shape.n, 50_000)
    few = min(shape.n, 3000)
    search = 10 * 4 * few * min(200, few) ** 2 + 15 * 4 * few * min(300, few) ** 2
    return search + (2e10 + 3e6 * n) * min(1.0, (n / 1500) ** 2) + n * 1000 * 2 * shape.d


def _kernel_work(shape):
    return 20 * shape.n**2 * (shape.d + 2 * shape.k + 20)


def candidates(task, family, X, n_outputs, seed):
    """The candidates for some data, from cheap to dear, and why others are left out.

    Returns
    -------
    list of Candidate
    dict of str to str
    """
    import tunefree

    shape, out, left = shape_of(X, n_outputs), [], {}
    kind = "Classifier" if task == "classification" else "Regressor"
    is_sparse = sparse.issparse(X)
    dense = shape.entries >= 0.25 * shape.n * shape.d
    if family in ("auto", "linear"):
        make = getattr(tunefree, f"PiSTOL{kind}")(random_state=seed)
        if task == "regression" and (not is_sparse or shape.d <= 1000):
            ridge = tunefree.AveragedSGDRegressor(random_state=seed)
            out.append(Candidate("ridge", "linear", False, ridge, _ridge_work))
        out.append(Candidate("linear", "linear", False, make, _portfolio_work))
        if dense and not is_sparse:
            name = "linear, squashed columns"
            out.append(Candidate(name, "linear", True, make, _portfolio_work))
        else:
            left["linear, squashed columns"] = "most entries are zero"
    if family in ("auto", "kernel"):
        make = getattr(tunefree, f"Landmark{kind}")(random_state=seed)
        if shape.d <= _MOST_COLUMNS and shape.n * shape.d <= _MOST_CELLS:
            out.append(Candidate(LEADER, "kernel", False, make, _landmark_work, leads=True))
        else:
            left[LEADER] = f"{shape.d} columns are too many"
        if f"KernelPiSTOL{kind}" in tunefree.__all__ and shape.n * shape.d <= _MOST_CELLS:
            make = getattr(tunefree, f"KernelPiSTOL{kind}")(random_state=seed)
            out.append(Candidate("kernel PiSTOL", "kernel", False, make, _kernel_work, dear=True))
    return sorted(out, key=lambda c: c.passes(shape)), left
