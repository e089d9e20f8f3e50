"""The candidates of `TuneFreeClassifier` and `TuneFreeRegressor`, and what each costs.

Prices are in passes: one is a multiply-add for every stored entry and output of the data.
"""

import warnings
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import clone

from tunefree.choose.tournament import SCOUTED, VISITS
from tunefree.columns.squash import squash_of
from tunefree.estimators import base
from tunefree.learners.kernel.nystroem import show

# Wider rows are not given to kernels on landmarks; sparse rows must fit when stored densely.
_MOST_COLUMNS, _MOST_CELLS = 2000, 2e8
LEADER = "kernel on landmarks"
# The Reflectron, which looks for few weights, takes part from so many columns on, and with
# fewer rows a column.
_WIDE, _WIDEST, _NARROW = 100, 10_000, 20
# Kernel PiSTOL is judged on the first rows up to so many: those whose kernel values can be kept.
MOST_ROWS = 16_384


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
    leads : bool
        Whether it is the kernel on landmarks.
    follows : bool
        Whether it takes over the view of the columns that the kernel on landmarks found, and can
        learn all rows while it judges itself on some.
    known : estimator or None
        Itself after a rehearsal, whose bandwidths are taken over.
    rehearsal : float
        Seconds of that.
    early : float
        Its risk after the few rows of that, NaN without.
    """

    name: str
    family: str
    squashed: bool
    estimator: object
    work: object
    leads: bool = False
    follows: bool = False
    known: object = None
    rehearsal: float = 0.0
    early: float = np.nan

    def passes(self, shape, **rows):
        """The price of one fit: multiply-adds over those of one pass."""
        return float(self.work(shape, **rows) / max(shape.pass_work, 1.0))

    def fit(self, X, y, weights, leader=None, **more):
        """A `Fitted` candidate on rows in random order.

        Parameters
        ----------
        X, y, weights : ndarray
        leader : estimator, optional
            A fitted kernel on landmarks: one more of these takes over its view and bandwidth, a
            candidate that follows its view.
        more
            For the estimator's own `fit`.
        """
        view, model = (), clone(self.estimator)
        if self.leads:
            more["like"] = leader
        elif self.follows and leader is not None:
            view = leader.parts_
            model.set_params(standardize=False)
            more["like"] = self.known
        elif self.squashed:
            view = (squash_of(X),)
        fitted = Fitted(view, model)
        with warnings.catch_warnings():
            # A guard counts the rows of the race, which are not those of the user.
            warnings.filterwarnings("ignore", message=".*ten times as far from the middle")
            model.fit(fitted.show(X), y, sample_weight=weights, **more)
        return fitted

    def small(self, n_landmarks):
        """The kernel on landmarks with few of these, for a rehearsal."""
        return self._replace(estimator=clone(self.estimator).set_params(n_landmarks=n_landmarks))


class Fitted(NamedTuple):
    """A fitted model and what its columns go through first."""

    view: tuple
    model: object

    def show(self, X):
        """Rows as the model takes them."""
        return show(self.view, X.toarray() if self.view and sparse.issparse(X) else X)


class Recalled(NamedTuple):
    """What a model said of left-out rows while it learned the others, for these rows only."""

    values: np.ndarray
    classes_: np.ndarray | None = None

    @classmethod
    def of(cls, model):
        """What a model kept; it forgets it."""
        return cls(vars(model).pop("held_values_"), getattr(model, "classes_", None))

    def show(self, X):
        """Nothing needs to be shown."""
        return X

    @property
    def model(self):
        """Itself."""
        return self

    def predict(self, X):
        """Classes, or targets."""
        return (
            self.values
            if self.classes_ is None
            else self.classes_[base.chosen(self.values.reshape(len(self.values), -1))]
        )

    def predict_proba(self, X):
        """Probabilities of the classes."""
        scores = self.values[:, 0] if self.values.shape[1] == 1 else self.values
        return base.probabilities(scores, joint=True)


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


def _reflectron_work(shape):
    # Five folds and all rows, four potentials, some hundred steps of two sweeps each.
    return 6 * 4 * 200 * shape.pass_work


def _landmark_work(shape):
    n = min(shape.n, 50_000)
    few = min(shape.n, 3000)
    search = 25 * few * 300 * (300 + 2 * shape.d) * min(1.0, (few / 1500) ** 2)
    return search + (1e10 + 2e6 * n) * min(1.0, (n / 1500) ** 2) + n * 700 * 2 * shape.d


def _kernel_work(shape, most=None):
    # Values of the kernel cost as much as many multiply-adds.
    n = min(shape.n, most or MOST_ROWS)
    passes = min(12, max(1, VISITS // n))
    scouts = 8 * min(n, SCOUTED) ** 2 * (30 + 2 * shape.k)
    return n**2 * (shape.d + 60 + passes * (6 * shape.k + 60)) + scouts


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
        if (
            _WIDE <= shape.d <= _WIDEST
            and shape.n < _NARROW * shape.d
            and (kind[0] == "C" or shape.k == 1)
        ):
            link = "logistic" if task == "classification" else "identity"
            make = getattr(tunefree, f"Reflectron{kind}")(link=link, random_state=seed)
            out.append(Candidate("Reflectron", "linear", False, make, _reflectron_work))
        else:
            left["Reflectron"] = "many rows a column, or too few or many columns"
    if family in ("auto", "kernel"):
        make = getattr(tunefree, f"Landmark{kind}")(random_state=seed)
        if shape.d <= _MOST_COLUMNS and shape.n * shape.d <= _MOST_CELLS:
            out.append(Candidate(LEADER, "kernel", False, make, _landmark_work, leads=True))
        else:
            left[LEADER] = f"{shape.d} columns are too many"
        if f"KernelPiSTOL{kind}" in tunefree.__all__ and shape.n * shape.d <= _MOST_CELLS:
            make = getattr(tunefree, f"KernelPiSTOL{kind}")(random_state=seed)
            name = "kernel PiSTOL"
            out.append(Candidate(name, "kernel", False, make, _kernel_work, follows=True))
    return sorted(out, key=lambda c: (c.follows, c.passes(shape))), left
