"""The Reflectron's problem: rows in units of their columns, or mapped; geometries and steps."""

from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import clone

from tunefree import averaging
from tunefree._array import check_frame
from tunefree._process import one_blas_thread
from tunefree._threads import team
from tunefree.bounds import reflectron_step
from tunefree.constraints import CONSTRAINTS
from tunefree.constraints.rules import is_odd, is_separable
from tunefree.designs import CSR, Categorical, Centred, Dense, Split
from tunefree.engine.order import content_hash
from tunefree.estimators.base import canonical
from tunefree.estimators.from_source import RepeatableSource, Sample
from tunefree.families import Matching
from tunefree.kernels import KERNELS, check_gram, make_kernel, median_gamma
from tunefree.learners.reflectron.mirror import NONE, Batch, Configuration, of_singular_values
from tunefree.learners.reflectron.subspace import LowRank
from tunefree.links import LINKS
from tunefree.potentials import POTENTIALS, Euclidean, Hypentropy
from tunefree.protocols import Source
from tunefree.select.halving import MULTIPLES, Pace

# The candidates of potential='auto'.
AUTO = (Euclidean(), *(Hypentropy(beta) for beta in (1e-4, 1e-6, 1e-8, 1e-12)))
# Steps by name: the theorems of Boffi, Tu and Slotine 2021.
THEOREMS = {"theorem-4.1": "4.1", "theorem-5.1": "5.1", "theorem-5.2": "5.2"}
# Smaller eigenvalues of a kernel matrix, relative to the largest, are rounding.
_SMALLEST = 1e-10
# From this many dense entries on, moments are computed in blocks of so many rows.
_LARGE, _BLOCK = 4_000_000, 4096
_LEAST_SPREAD = 1e-300


class Problem(NamedTuple):
    """The rows of a fit, and what is to be learned from them."""

    link: Any
    configurations: tuple
    scheme: Any
    X: Any
    targets: np.ndarray
    visits: Any
    rows: np.ndarray  # numbers of the distinct rows
    weights: np.ndarray  # their total weights
    held: np.ndarray  # the member that each distinct row is held out from, or NONE
    validation: tuple | None  # rows, targets and weights to choose by
    seed: int
    family: Any = None
    offset: Any = None  # of the margins of the distinct rows
    terms: Any = None  # `Terms` of rows with an exposure or an offset
    among: Any = None  # `Among` of the columns of X where empty columns were dropped

    @property
    def width(self):
        """The number of columns, dropped ones included."""
        return self.X.shape[1] if self.among is None else self.among.width

    @property
    def choosing(self):
        """Whether there are rows to choose by."""
        return self.validation is not None or bool(self.held.max() > NONE)

    @property
    def members(self):
        """The number of members: one that learns from all rows, and one for each fold."""
        return 1 + max(0, self.held.max())


class Among(NamedTuple):
    """The `places` of columns that have an entry, among `width` of sparse rows.

    Examples
    --------
    >>> Among(np.array([1, 3]), 5).whole(np.array([[2.0, 7.0]]))
    array([[0., 2., 0., 7., 0.]])
    """

    places: np.ndarray
    width: int

    @classmethod
    def of(cls, X, configurations):
        """None if all columns are to be learned, or more than half of them have an entry.

        If the potential is separable and keeps zeros, a column without an entry has the coefficient
        0 and does not affect other columns.
        """
        if not sparse.issparse(X) or not all(_keeps_zeros(c) for c in configurations):
            return None
        places = np.unique(X.indices)
        return cls(places, X.shape[1]) if 0 < 2 * len(places) < X.shape[1] else None

    def whole(self, values):
        """Values of these columns, and 0 for the others."""
        out = np.zeros((*values.shape[:-1], self.width), values.dtype)
        out[..., self.places] = values
        return out


def _keeps_zeros(configuration):
    potential, constraint, step, _ = configuration
    alone = is_separable(potential) and is_odd(potential)
    return alone and constraint is None and not isinstance(step, str)


class Terms(NamedTuple):
    """Rows with an exposure or an offset, before equal rows were merged."""

    place: np.ndarray  # the distinct row into which each row was merged
    exposure: np.ndarray  # of which the target is a rate; 1 if it is none
    weights: np.ndarray  # without the exposure

    @classmethod
    def of(cls, X, targets, weights, seed, distinct, exposure):
        """The terms of rows, given the numbers of `distinct` ones; weights include the exposure."""
        exposure = np.ones(len(targets)) if exposure is None else exposure
        keys = content_hash(X, targets, seed)[1]
        order = np.argsort(keys[distinct])
        place = order[np.searchsorted(keys[distinct], keys, sorter=order)]
        return cls(place, exposure, weights / exposure)

    def within(self, held):
        """The rows merged into some distinct rows, and the position of each among these."""
        positions = np.full(self.place.max() + 1, -1)
        positions[held] = np.arange(len(held))
        at = positions[self.place]
        rows = np.lexsort((self.exposure, at))
        rows = rows[at[rows] >= 0]
        return rows, at[rows]


class DescentResult(NamedTuple):
    """The result of a fit."""

    theta: np.ndarray
    offset: np.ndarray
    board: list  # (risk, time, configuration) of all configurations, the best first
    trace: dict
    n_iter: int


def link_range(link, unknown=(-np.inf, np.inf)):
    """The range of a link or of the link of a name; `unknown` if it has none."""
    return getattr(LINKS.get(link) if isinstance(link, str) else link, "range", unknown)


def family_range(family, link):
    """The range of targets of a family, or of the means of a link."""
    if isinstance(family, Matching):
        return link_range(link)
    low, high = family.range
    return (np.nextafter(low, np.inf) if family.open_below else low), high


class Score(NamedTuple):
    """The weight u'(s) / V(u(s)) that makes residuals the score of a family, at margins s."""

    family: Any
    link: Any

    def __call__(self, margins):
        """The weights."""
        mean = self.family.clipped(self.link.mean(margins))
        return self.link.slope(margins) / self.family.variance(mean)


def combinations(potential, constraint, step, per_output=False):
    """Every combination of potential, constraint and step (None and names included)."""
    potentials = []
    for p in _listed(potential):
        if isinstance(p, str) and p == "auto":
            potentials += AUTO
        else:
            potentials.append(POTENTIALS.find(p, ["auto"]))
    constraints = [c if c is None else CONSTRAINTS.find(c) for c in _listed(constraint)]
    steps = []
    for s in _listed(step):
        if isinstance(s, str) and (s == "auto" or s in THEOREMS):
            steps.append(None if s == "auto" else s)
        elif isinstance(s, int | float) and 0.0 < s < np.inf:
            steps.append(float(s))
        else:
            raise ValueError(
                f"step={s!r} is neither 'auto' nor a positive number nor one of "
                f"{', '.join(THEOREMS)}."
            )
    return tuple(
        LowRank(*each) if of_singular_values(*each[:2]) and not per_output
        else Configuration(*each, per_output)
        for each in product(potentials, constraints, steps)
    )  # fmt: skip


def scheme_of(average):
    """The averaging scheme of a name; None for 'last'."""
    if isinstance(average, str) and average == "last":
        return None
    if isinstance(average, str) and average == "auto":
        average = "uniform"
    return averaging.scheme_of(average, also=["auto", "last"], online=True)


def _listed(value):
    return list(value) if isinstance(value, list) or type(value) is tuple else [value]


def check_theorems(steps, link):
    """Refuse steps of theorems where these do not apply."""
    named = [s for s in steps if isinstance(s, str)]
    if named and not hasattr(link, "bound"):
        raise ValueError(f"step={named[0]!r} needs a link with a bound: give a number as step.")


def _geometry(configuration, d, k=1) -> tuple[Any, float]:
    """Strong convexity (or None), and the exponent of the norm for rows."""
    potential, constraint, step, per_output = configuration
    size = d if per_output else k * d
    radius = getattr(constraint, "radius", getattr(constraint, "total", np.inf))
    if getattr(constraint, "p", 1.0) != 1.0:
        radius = np.inf
    sigma, p = None, 2.0
    if hasattr(potential, "convexity"):
        sigma, p = potential.convexity(size, radius)
    if isinstance(step, str) and not (sigma is not None and sigma > 0.0):
        raise ValueError(
            f"step={step!r} needs a strongly convex potential (hypentropy is one on an l1 ball: "
            f"give constraint=L1Ball(radius)), and {potential!r} with {constraint!r} is not: "
            "give step='auto' or a number."
        )
    return sigma, np.inf if p == 1.0 else p / (p - 1.0)


def with_steps(configurations, design, link, intercept, rounds, k):
    """The configurations, with the names of theorems replaced by their steps on these rows.

    `rounds` is T of Theorem 5.1, `k` counts outputs.
    """

    def theorem(configuration):
        sigma, exponent = _geometry(configuration, design.shape[1], k)
        norm = float(design.norms(exponent).max())
        if intercept:  # one more column of ones, with the Euclidean potential
            norm, sigma = np.hypot(norm, 1.0), min(sigma, 1.0)
        return reflectron_step(
            norm, link.bound(), convexity=sigma, theorem=THEOREMS[configuration.step],
            rounds=rounds,
        )  # fmt: skip

    return tuple(
        c._replace(step=theorem(c)) if isinstance(c.step, str) else c for c in configurations
    )


def in_units(configurations, columns):
    """The configurations for these columns: bounds in their units, levels of a column as groups."""
    out = []
    for c in configurations:
        if hasattr(c.constraint, "in_units"):
            c = c._replace(constraint=c.constraint.in_units(columns.scale))
        if hasattr(c.potential, "grouped_as") and columns.levels is not None:
            n = len(columns.scale) - sum(columns.levels.sizes) + len(columns.levels.sizes)
            c = c._replace(potential=c.potential.grouped_as(columns.levels.groups(n)))
        out.append(c)
    return tuple(out)


def _beta(potential):
    """The beta of a hypentropy of entries, groups or singular values; 0 of other potentials."""
    of = getattr(potential, "of", getattr(potential, "base", potential))
    return float(getattr(of, "beta", 0.0))


def intercept_step(potential, intercept):
    """The steps of an intercept relative to those of the duals; 0 without an intercept."""
    return max(1.0, _beta(potential)) * float(intercept)


def paced(configuration, rule, d, k=1):
    """(Configuration, pace) for each multiple of an automatic stochastic step, or for the step."""
    step, link, weight = configuration.step, rule.link, rule.weight
    if isinstance(step, float):
        return [(configuration, Pace(step))]
    bound = link.bound() if hasattr(link, "bound") else 1.0
    largest = 1.0 if weight is None or callable(weight) else bound
    extra = intercept_step(configuration.potential, rule.intercept)
    if step is None:
        # The step ignores the constraint, so that one which is not active changes nothing. If the
        # convexity is unknown, one of the multiples must fit.
        sigma, exponent = _geometry(configuration._replace(constraint=None), d, k)
        convexity = sigma if sigma is not None and sigma > 0.0 else 1.0
        base = reflectron_step(1.0, bound, convexity=convexity, weight=largest, theorem="5.2")
        # A hypentropy's parameters change hypot(x, beta) times as much as their duals.
        pace = Pace(None, base, exponent, extra, euclidean=_beta(configuration.potential))
        return [
            (configuration._replace(step=f"auto x {m:g}"), pace._replace(numerator=m * base))
            for m in MULTIPLES
        ]
    sigma, exponent = _geometry(configuration, d, k)
    base = reflectron_step(
        1.0, bound, convexity=min(sigma, 1.0) if rule.intercept else sigma, weight=largest,
        theorem="4.1" if step == "theorem-4.1" else "5.2",
    )  # fmt: skip
    most = 1.0 / np.sqrt(rule.rounds) if THEOREMS[step] == "5.1" else np.inf
    return [(configuration, Pace(None, base, exponent, extra, float(most)))]


def taken(X, rows):
    """Some rows; of large dense arrays by blocks, in threads."""
    if sparse.issparse(X) or X.size <= _LARGE:
        return X[rows]
    out = np.empty((len(rows), X.shape[1]), X.dtype)
    blocks = [slice(i, i + _BLOCK) for i in range(0, len(rows), _BLOCK)]
    team().map(lambda b: np.take(X, rows[b], axis=0, out=out[b], mode="clip"), blocks)
    return out


def _spread(X, share, centred):
    """Centres and deviations of many rows, in blocks that stay in the cache."""
    blocks = [slice(i, i + _BLOCK) for i in range(0, len(X), _BLOCK)]
    top = np.maximum(X.max(axis=0), -X.min(axis=0)).astype(np.float64)
    top = np.where(top > 0.0, top, 1.0)
    mean = (share @ X) / top * centred
    variance = sum(team().map(lambda b: share[b] @ np.square(X[b] / top - mean), blocks))
    deviation = np.sqrt(np.maximum(variance, 0.0))
    deviation = np.where(deviation > 1e-12 * np.abs(mean), deviation, 0.0)
    return mean * top, np.where(deviation > 0.0, deviation * top, 1.0)


def coded(frame, categories=None):
    """A data frame with codes for the levels of its columns of text and categories.

    `categories` are the levels of every column, None for a column of numbers; by default they are
    those of the frame. Other values have the code -1. An array, or a frame of numbers, is returned
    as it is, without categories.

    Examples
    --------
    >>> import pandas as pd
    >>> coded(pd.DataFrame({"a": ["u", "v", "u"], "b": [1.0, 2.0, 3.0]}))[1]
    [array(['u', 'v'], dtype=object), None]
    """
    check_frame(frame)
    if not (hasattr(frame, "columns") and hasattr(frame, "dtypes")):
        return frame, None
    found, columns = [], {}
    for j, name in enumerate(frame.columns):
        column = frame[name]
        own_levels = None if categories is None else categories[j]
        if categories is None and not _is_text(column):
            found.append(None)
            continue
        if categories is not None and own_levels is None:
            continue
        if str(column.dtype) == "category" and hasattr(column, "cat"):  # pandas has the codes
            levels = np.asarray(column.cat.categories).astype(str)
            codes = np.asarray(column.cat.codes)
        else:
            values = np.asarray(column, dtype=object)
            is_missing = np.array([v is None or v != v for v in values])  # noqa: PLR0124
            levels, codes = np.unique(values.astype(str), return_inverse=True)
            codes = np.where(is_missing, -1, codes)
        if own_levels is None:
            is_used = np.bincount(codes[codes >= 0], minlength=len(levels)) > 0
            own_levels = levels[is_used].astype(object)
            found.append(own_levels)
        order = np.argsort(own_levels.astype(str), kind="stable")
        code = np.searchsorted(own_levels[order].astype(str), levels)
        code = order[np.minimum(code, len(own_levels) - 1)]
        code = np.where(own_levels[code].astype(str) == levels, code, -1)
        columns[name] = np.append(code, -1)[codes].astype(np.float64)
    if not columns:
        return frame, None
    if hasattr(frame, "assign"):
        frame = _assigned(frame, columns)
    else:
        frame = frame.with_columns([type(frame[n])(n, c) for n, c in columns.items()])
    return frame, found if categories is None else categories


def _assigned(frame, columns):
    """A pandas frame with some columns replaced; numbers are copied once, into one array."""
    coded = np.array([name in columns for name in frame.columns])
    places = np.flatnonzero(~coded)
    n_numbers = len(places)
    in_front = n_numbers > 0 and places[-1] == n_numbers - 1
    numbers = frame.iloc[:, :n_numbers] if in_front else frame.iloc[:, places]
    if any(getattr(t, "kind", "O") not in "biuf" for t in numbers.dtypes):
        return frame.assign(**columns)
    out = np.empty(frame.shape)
    out[:, slice(n_numbers) if in_front else places] = numbers.to_numpy()
    for j in np.flatnonzero(coded):
        out[:, j] = columns[frame.columns[j]]
    return type(frame)(out, index=frame.index, columns=frame.columns, copy=False)


def _is_text(column):
    kind = str(column.dtype).lower()
    if kind.startswith(("category", "categorical", "enum", "str", "object", "utf8")):
        return not (kind == "object" and isinstance(column.iloc[0], int | float | np.number))
    return False


class Levels(NamedTuple):
    """Columns that hold the codes of levels; in a design their indicators follow the numbers.

    `codes` are the positions of these columns and `sizes` their numbers of levels.

    Examples
    --------
    >>> Levels((0,), (2,)).design(np.array([[1.0, 5.0], [0.0, 6.0]])).apply(np.array([1.0, 7, 9]))
    array([14., 13.])
    """

    codes: tuple
    sizes: tuple

    @classmethod
    def of(cls, categories):
        """The columns that have categories; None if there are none."""
        if categories is None:
            return None
        places = [j for j, levels in enumerate(categories) if levels is not None]
        return cls(tuple(places), tuple(len(categories[j]) for j in places))

    def numbers(self, X):
        """The columns of numbers."""
        n_numbers = X.shape[1] - len(self.codes)
        if self.codes == tuple(range(n_numbers, X.shape[1])):
            return X[:, :n_numbers]
        return np.delete(X, self.codes, axis=1)

    def design(self, X, columns=None, own=False):
        """The rows as a design, with numbers in the units of `columns`."""
        numbers = self.numbers(X)
        if columns is not None:
            n = numbers.shape[1]
            numbers = columns._replace(centre=columns.centre[:n], scale=columns.scale[:n],
                                       levels=None).rows(numbers, own)  # fmt: skip
        return Split((Dense(numbers), *self.indicators(X)))

    def indicators(self, X):
        """The levels of each column as a design."""
        return [
            Categorical(X[:, j].astype(np.int32), n)
            for j, n in zip(self.codes, self.sizes, strict=True)
        ]

    def groups(self, n_columns):
        """The group of every column of the design: the levels of a column are a group."""
        first = n_columns - len(self.codes)  # of the categorical columns
        return (*range(first), *np.repeat(np.arange(first, n_columns), self.sizes).tolist())


def with_indicators(X, names, categories, weights, intercept):
    """Rows with a 0-1 column for every level but the reference, and the columns' names.

    The reference is the level of the largest weight, or the first of several. Missing values are a
    level. Levels without a row have no column. Without an intercept the first categorical column
    has no reference.

    Examples
    --------
    >>> X, levels = np.array([[0.0], [1.0], [1.0]]), [np.array(["u", "v"])]
    >>> with_indicators(X, ["a"], levels, np.ones(3), True)
    (array([[1.],
           [0.],
           [0.]]), ['a[u]'])
    """
    levels: Any = Levels.of(categories)
    columns = list(levels.numbers(X).T)
    out_names = [name for name, own in zip(names, categories, strict=True) if own is None]
    for j in levels.codes:
        level_names = [*(str(level) for level in categories[j]), "missing"]
        codes = np.where(X[:, j] < 0.0, len(level_names) - 1, X[:, j]).astype(int)
        total = np.bincount(codes, weights, minlength=len(level_names))
        is_first = j == levels.codes[0]
        reference = None if is_first and not intercept else int(np.argmax(total))
        for code in np.flatnonzero(total > 0.0):
            if code != reference:
                columns.append((codes == code).astype(np.float64))
                out_names.append(f"{names[j]}[{level_names[code]}]")
    return np.column_stack(columns) if columns else np.empty((len(X), 0)), out_names


class Columns(NamedTuple):
    """Units of the columns, so that a potential means the same for all: (x - centre) / scale.

    `among` locates these columns among all, if some were dropped.
    """

    centre: np.ndarray
    scale: np.ndarray
    levels: Levels | None = None
    among: Among | None = None

    def whole(self, values):
        """Values of these columns as values of all."""
        return values if self.among is None else self.among.whole(values)

    @classmethod
    def of(cls, X, weights, centred, scaled, levels=None):
        """The weighted means and standard deviations of the columns (from 0 if not centred)."""
        if levels is not None:  # indicators keep their scale, and are centred at their shares
            own = cls.of(levels.numbers(X), weights, centred, scaled)
            shares = np.concatenate([part.adjoint(weights) for part in levels.indicators(X)])
            shares /= weights.sum()
            return cls(
                np.concatenate([own.centre, shares * centred]),
                np.concatenate([own.scale, np.ones_like(shares)]), levels,
            )  # fmt: skip
        d, share = X.shape[1], weights / weights.sum()
        if not scaled:
            return cls.unchanged(d)
        if not sparse.issparse(X) and X.size > _LARGE:
            return cls(*_spread(X, share, centred))
        # In units of the largest entry squares neither overflow nor underflow.
        top = np.asarray(abs(X).max(axis=0).todense() if sparse.issparse(X) else abs(X).max(axis=0))
        top = top.reshape(-1).astype(np.float64)
        top = np.where(top > 0.0, top, 1.0)
        if sparse.issparse(X):
            row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
            value, column, mass = X.data / top[X.indices], X.indices, share[row]
            mean = np.bincount(column, mass * value, minlength=d) * centred
            square = np.bincount(column, mass * (value - mean[column]) ** 2, minlength=d)
            variance = square + (1.0 - np.bincount(column, mass, minlength=d)) * mean**2
        else:
            value = X / top
            mean = share @ value * centred
            variance = share @ np.square(value - mean)
        deviation = np.sqrt(np.maximum(variance, 0.0))
        # A column that is constant up to rounding keeps its scale, and so does one whose
        # coefficients would overflow.
        spread = np.where(deviation > 1e-12 * np.abs(mean), deviation * top, 0.0)
        return cls(mean * top, np.where(spread > _LEAST_SPREAD, spread, 1.0))

    @classmethod
    def unchanged(cls, d):
        """The columns as they are."""
        return cls(np.zeros(d), np.ones(d))

    def rows(self, X, own=False):
        """Rows in these units, in their own precision; sparse rows are not centred.

        If `own`, they may be overwritten.
        """
        if own and not sparse.issparse(X) and X.dtype == np.float64:
            for i in range(0, len(X), _BLOCK):
                X[i : i + _BLOCK] -= self.centre
                X[i : i + _BLOCK] /= self.scale
            return X
        if not sparse.issparse(X):
            out = X - self.centre
            out /= self.scale
            return np.ascontiguousarray(out, dtype=X.dtype)
        X = X.copy()
        X.data = (X.data / self.scale[X.indices]).astype(X.dtype, copy=False)
        return X

    def design(self, X, own=False):
        """The rows in these units as a design; sparse rows are centred, too."""
        if self.levels is not None:
            rows = self.levels.design(X, self, own)
            n_numbers = rows.parts[0].shape[1]
            centre = np.where(np.arange(rows.shape[1]) < n_numbers, 0.0, self.centre)
            return Centred(rows, centre) if centre.any() else rows
        rows = self.rows(X, own)
        if not sparse.issparse(X):
            return Dense(rows)
        rows = CSR.from_scipy(rows)
        return Centred(rows, self.centre / self.scale) if self.centre.any() else rows


class Moments(NamedTuple):
    """Moments of weighted rows; `square` sums squared deviations, `target` are means."""

    weight: float
    mean: np.ndarray
    square: np.ndarray
    target: np.ndarray

    @classmethod
    def of(cls, X, targets, weights):
        """The moments of rows."""
        total = weights.sum()
        share = weights / total
        mean = np.asarray(share @ X, dtype=np.float64).reshape(-1)
        if sparse.issparse(X):
            values = X.astype(np.float64)
            mass = np.repeat(weights, np.diff(X.indptr))
            square = np.bincount(
                X.indices, mass * (values.data - mean[X.indices]) ** 2, minlength=len(mean)
            )
            zero = total - np.bincount(X.indices, mass, minlength=len(mean))
            square = square + zero * mean**2
        else:
            gap = X - mean
            square = weights @ np.square(gap, out=gap)
        return cls(float(total), mean, square, share @ targets)

    def join(self, other):
        """The moments of the union (Chan, Golub and LeVeque 1979)."""
        total = self.weight + other.weight
        share, gap = other.weight / total, other.mean - self.mean
        return Moments(
            total,
            self.mean + share * gap,
            self.square + other.square + self.weight * share * gap**2,
            self.target + share * (other.target - self.target),
        )

    def widened(self, d):
        """The same with d columns; new columns were 0 so far."""
        wide = np.zeros((2, d))
        wide[:, : len(self.mean)] = self.mean, self.square
        return self._replace(mean=wide[0], square=wide[1])

    def columns(self, centred):
        """The units in which every column has deviation 1 (from 0 if not centred)."""
        variance = self.square / self.weight + (0.0 if centred else self.mean**2)
        deviation = np.sqrt(variance)
        # A column that is constant up to rounding keeps its scale.
        is_constant = deviation <= 1e-12 * np.abs(self.mean) * centred
        centre = self.mean if centred else np.zeros_like(self.mean)
        return Columns(centre, np.where(is_constant | (deviation == 0.0), 1.0, deviation))


class Mapped(NamedTuple):
    """A function or a fitted transformer of rows."""

    function: Any

    def transform(self, X):
        """Features of rows, which must be finite numbers."""
        features = self.function(X)
        dtype = X.dtype
        if sparse.issparse(features):
            features = canonical(sparse.csr_array(features).astype(dtype, copy=False))
            values = features.data
        else:
            features = values = np.ascontiguousarray(features, dtype=dtype)
        if features.ndim != 2 or features.shape[0] != X.shape[0] or not np.isfinite(values).all():
            raise ValueError(
                "feature_map must return finite numbers of shape (n_rows, n_features); it returned "
                f"the shape {features.shape} for {X.shape[0]} rows."
            )
        return features


class KernelMap(NamedTuple):
    r"""Rows as points of a kernel's feature space, in the span of the training rows.

    .. math:: \alpha(x) = \Lambda^{-1/2} Q' k(X, x), \qquad k(X, X) = Q \Lambda Q'

    so that <alpha(x), alpha(x_i)> = k(x, x_i): GLM-tron in these coordinates is the Alphatron, with
    coefficients Q Lambda^(-1/2) theta on the rows. `support` are the rows in the units `columns`,
    and `root` is Q Lambda^(-1/2).
    """

    kernel: Any
    columns: Columns
    support: Any
    root: np.ndarray

    @classmethod
    def of(cls, kernel, X, weights, standardize, seed):
        """The map of a kernel or its name; 'rbf' and 'laplacian' use the median heuristic."""
        columns = Columns.of(X, weights, not sparse.issparse(X), standardize)
        support = columns.rows(X)
        part: Any = make_kernel(kernel)
        if isinstance(kernel, str) and hasattr(part, "distances"):
            part = part._replace(gamma=median_gamma(part, support, seed))
        gram = np.asarray(part.gram(support, support), dtype=np.float64)
        check_gram(gram, "feature_map")
        values, vectors = np.linalg.eigh(0.5 * (gram + gram.T))
        if values[0] < -1e-6 * max(values[-1], 1e-300):
            raise ValueError(
                f"The kernel {part!r} has the eigenvalue {values[0]:.3g} on these rows: it is no "
                "inner product."
            )
        used = values > _SMALLEST * max(values[-1], 1e-300)
        return cls(part, columns, support, vectors[:, used] / np.sqrt(values[used]))

    @one_blas_thread()
    def transform(self, X):
        """Coordinates of rows in feature space."""
        gram = self.kernel.gram(self.columns.rows(X), self.support)
        return np.ascontiguousarray(gram @ self.root, dtype=X.dtype)


def is_kernel(feature_map):
    """Whether a feature map is a kernel or the name of one."""
    return isinstance(feature_map, str) or hasattr(feature_map, "gram")


def fitted_map(feature_map, X, rows, weights, standardize, seed):
    """The fitted map of rows to features; None if `feature_map` is None."""
    if feature_map is None:
        return None
    X = X[rows]
    if is_kernel(feature_map):
        if isinstance(feature_map, str) and feature_map not in KERNELS:
            raise ValueError(f"feature_map={feature_map!r} is none of {', '.join(KERNELS)}.")
        return KernelMap.of(feature_map, X, weights, standardize, seed)
    if hasattr(feature_map, "transform"):
        return Mapped(clone(feature_map).fit(X).transform)
    if not callable(feature_map):
        raise ValueError(
            f"feature_map={feature_map!r} is neither a function nor a transformer nor a kernel."
        )
    return Mapped(feature_map)


@dataclass(frozen=True)
class Surveyed(Source):
    """The blocks of a source, made as it is read in every pass; also a design of all its rows."""

    rows: RepeatableSource
    columns: Columns
    targets: Any  # function of y: targets of shape (n, k)
    held: Any  # function of X: the member that each row is held out from

    def blocks(self, epoch):
        """The blocks of a pass."""
        for X, y, weights in self.rows.pieces():
            yield Batch(self.columns.design(X), self.targets(y), weights, self.held(X))

    @property
    def shape(self):
        """Rows and columns."""
        return self.rows.rows, self.rows.width

    def norms(self, p):
        """The p-norm of every row."""
        return np.concatenate([batch.design.norms(p) for batch in self.blocks(0)])

    def gram(self, weights):
        """X' diag(weights) X, by the rows' own weights."""
        return sum(batch.design.gram(batch.weights) for batch in self.blocks(0))


class Survey:
    """The results of the first pass: moments of the columns, sums of targets in every fold.

    `fold_of` is a function of X: the fold of each row. `outside` counts targets outside the range
    `inside`. `weight` and `sums` have a row for every fold; `sums` has its weighted targets, or the
    weight of each of the `classes`. With a `seed` a `Sample` is drawn.
    """

    def __init__(self, rows, fold_of, n_folds, classify, inside, seed=None):
        self.moments: Any = None
        self.sample: Any = None
        self.weight, self.outside, found = np.zeros(n_folds), 0, {}
        for X, y, weights in rows.survey():
            fold = fold_of(X)
            part = Moments.of(X, np.empty((len(y), 0)), weights)
            before = self.moments and self.moments.widened(part.mean.size)
            self.moments = before.join(part) if before else part
            self.weight += np.bincount(fold, weights, minlength=n_folds)
            if seed is not None:
                drawn = Sample.of(X, np.asarray(y), weights, seed)
                self.sample = self.sample.join(drawn) if self.sample else drawn
            if not classify:
                self.outside += np.count_nonzero((y < inside[0]) | (y > inside[1]))
            for name, column in zip(*_target_columns(y, classify), strict=True):
                sums = np.bincount(fold, weights * column, minlength=n_folds)
                found[name] = found.get(name, 0.0) + sums
        self.moments = self.moments.widened(rows.width)
        names = sorted(found)
        self.classes = np.array(names) if classify else None
        self.sums = np.column_stack([found[name] for name in names])


def _target_columns(y, classify):
    """Names and columns of targets: an indicator of each class, or the values."""
    if not classify:
        y = y.reshape(len(y), -1)
        return range(y.shape[1]), y.T.astype(np.float64)
    labels, codes = np.unique(y, return_inverse=True)
    return labels.tolist(), codes == np.arange(len(labels))[:, None]
