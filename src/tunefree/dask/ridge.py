"""Least squares on a cluster: exactly from sums, or by averages of independent runs."""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from tunefree._array import seed_of
from tunefree.averaging import Geometric
from tunefree.dask.distributed import Distributed
from tunefree.dask.sums import Extent, joined
from tunefree.engine.order import hashed_visits
from tunefree.estimators import ridge
from tunefree.estimators.least_squares import (
    Distinct,
    Folded,
    Problem,
    Run,
    descend,
    folds,
    held_out_risks,
    passes,
    penalties,
    read,
)
from tunefree.learners.sgd.path import Spectrum

_BLOCK = 4096


def _rows(part):
    """Rows of positive weight, and their targets in columns."""
    part = part.positive()
    return part.X, part.y.reshape(len(part.y), -1).astype(np.float64), part.weights


def _extent(part):
    return Extent.of(*_rows(part))


def _added(a, b, *_):
    return tuple(x + y for x, y in zip(a, b, strict=True))


class Listed(NamedTuple):
    """The distinct rows of a partition: where they are, not a copy of them.

    Attributes
    ----------
    X : ndarray or csr_array of shape (m, d)
    targets : ndarray of shape (m, n_outputs)
    rows : ndarray of int
    weights : ndarray of float
        The total weight of each of `rows`.
    """

    X: object
    targets: np.ndarray
    rows: np.ndarray
    weights: np.ndarray

    def blocks(self, view):
        """Rows in the coordinates of a view and their targets, times the roots of the weights."""
        for start in range(0, len(self.rows), _BLOCK):
            at = slice(start, start + _BLOCK)
            X, root = self.X[self.rows[at]], np.sqrt(self.weights[at])[:, None]
            Z = view.show(X.toarray() if sparse.issparse(X) else X)
            Z *= root
            yield Z, root * (self.targets[self.rows[at]] - view.target), self.weights[at]


def _listed(part, seed):
    X, targets, weights = _rows(part)
    rows, totals = hashed_visits(X, targets, weights, seed).unique()
    return Listed(X, targets, rows, totals * (weights.sum() / totals.sum()))


def _products(listed, view):
    """Z'WZ and Z'Wy."""
    gram = products = 0.0
    for Z, y, _ in listed.blocks(view):
        gram, products = gram + Z.T @ Z, products + Z.T @ y
    return gram, products


def _left_out(listed, view, spectrum, alphas, per_weight):
    """Squared errors of every penalty at rows left out."""
    return (
        sum(
            spectrum.left_out(Z @ spectrum.right, y, weights * per_weight, alphas)
            for Z, y, weights in listed.blocks(view)
        ),
    )


class Ran(NamedTuple):
    """A partition's run of SGD; it stays on its worker.

    Attributes
    ----------
    problem : Problem
    state : NamedTuple
        Of the learner.
    n_folds, n_passes : int
    weight : float
    """

    problem: Problem
    state: tuple
    n_folds: int
    n_passes: int
    weight: float

    def schemes(self, alphas, others, total):
        """The averages, with this partition's share of the penalties."""
        return self.problem.schemes(alphas * (self.weight / total), others)


def _scaling_risks(part, seed, intercept):
    risks = Distinct.of(*_rows(part), seed).scaling_risks(intercept)
    return tuple(part.weights.sum() * np.asarray(risks))


def _ran(part, view, seed, intercept, scaling, max_iter, choose):
    X, targets, weights = _rows(part)
    rows = Distinct.of(X, targets, weights, seed)
    problem = rows.pose(intercept=intercept, scaling=scaling, view=view)
    n_passes = passes(max_iter, int(problem.visits.repeats.sum()))
    n_folds = folds(problem)[1] if choose and len(problem.totals) > 1 else 0
    state = descend(problem, n_passes, n_folds)
    return Ran(problem, state, n_folds, n_passes, float(weights.sum()))


def _size(ran):
    """Squared norms, the step and the passes, as sums."""
    return ran.problem.sized(), ran.weight * ran.problem.step(), ran.weight * ran.n_passes


def _risks(ran, *schemes):
    """Held-out errors of every scheme times the partition's weight, and that."""
    if not ran.n_folds:
        return 0.0, 0.0
    risks = held_out_risks(ran.problem, ran.state, ran.schemes(*schemes))
    return ran.weight * risks, ran.weight


def _average(ran, k, *schemes):
    """The path, or the scheme k of it, in the user's units and times the partition's weight."""
    chosen = ran.schemes(*schemes)
    model = read(ran.problem, ran.state, chosen if k is None else [chosen[k]])
    return tuple(ran.weight * a for a in model.fold(ran.problem.columns))


class AveragedSGDRegressor(Distributed, ridge.AveragedSGDRegressor):
    """`tunefree.AveragedSGDRegressor` on rows of a Dask cluster.

    With at most 1000 columns, however many rows, ridge regression is solved exactly: products of
    columns are summed over the partitions, a further round sums the leave-one-out errors, and the
    result is that of the local ``solver="exact"`` up to the order of the sums. (Equal rows of one
    partition are left out together, those of two are not.)

    Otherwise each partition is learned by a run of its own, in common units of the columns and with
    its share of every penalty; errors on rows held out and paths are averaged by the partitions'
    weights. That needs two or three rounds, and is another predictor than that of one long run.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from tunefree.dask import AveragedSGDRegressor
    >>> X = da.random.default_rng(0).normal(size=(400, 3), chunks=(100, 3))
    >>> y = X[:, 0] - 2.0 * X[:, 1] + 5.0
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     model = AveragedSGDRegressor().fit(X, y)
    >>> model.coef_.round(2) + 0.0, round(float(model.intercept_), 2), model.solver_
    (array([ 1., -2.,  0.]), 5.0, 'exact')
    """

    def _fit_on(self, cluster):
        self._check()
        self._stream = self._path = self.range_ = None
        self._dtype, self._flat = cluster.dtype, not cluster.facts[0].n_outputs
        d = cluster.n_columns
        # What is decomposed are the products of columns, however many rows there are.
        self._choose_solver((d, d))
        extent = cluster.total("extent", _extent, merge=joined)
        fit = self._exactly if self.solver_ == "exact" else self._by_runs
        fit(cluster, extent.columns(self.fit_intercept), extent.weight)

    def _exactly(self, cluster, view, total):
        view = view if self.scaling else view.unscaled()
        listed = cluster.each("rows", _listed, seed_of(self.random_state))
        gram, products = cluster.total("products", _products, view, merge=_added, parts=listed)
        self.alphas_ = penalties(self.alphas, float(np.trace(gram)))
        spectrum = Spectrum.of(gram, products)
        per_weight = bool(self.fit_intercept) / total
        (sums,) = cluster.total(
            "leaving out", _left_out, view, spectrum, self.alphas_, per_weight,
            merge=_added, parts=listed,
        )  # fmt: skip
        model = Run(spectrum.path(self.alphas_), np.eye(len(self.alphas_)))
        self._choose_exact(view, model, sums / total)

    def _by_runs(self, cluster, view, total):
        seed, scaling = seed_of(self.random_state), self.scaling
        if scaling == "auto":
            scaling = True
            if any(f.sparse for f in cluster.facts):
                scaled, raw = cluster.total(
                    "scaling", _scaling_risks, seed, self.fit_intercept, merge=_added
                )
                scaling = scaled < raw
        grid, others = self._grid()
        choose = grid and (others or self.alphas is None or np.size(self.alphas) > 1)
        runs = cluster.each(
            "run", _ran, view, seed, self.fit_intercept, scaling, self.max_iter, bool(choose)
        )
        size, step, n_passes = cluster.total("size", _size, merge=_added, parts=runs)
        self.alphas_ = penalties(self.alphas, size)
        sent, risks, k = (self.alphas_, others, total), None, len(self.alphas_)
        if grid:
            k = int(np.argmax(self.alphas_))
        if choose:
            sums, weight = cluster.total("risks", _risks, *sent, merge=_added, parts=runs)
            if weight:
                risks = sums / weight
                k = int(np.argmin(risks))
        few = len(self.alphas_) * cluster.n_columns * cluster.n_outputs <= ridge.MOST_KEPT
        path = cluster.total(
            "average", _average, None if few else k, *sent, merge=_added, parts=runs
        )
        model = Folded(*(a / total for a in path))
        # Partitions have steps of their own: the averages are told by the mean of them.
        rates = step / total * self.alphas_ / total
        schemes = [*(Geometric(float(rate)) for rate in rates), *others]
        self._choose(view, model, schemes, risks, k, round(n_passes / total))
