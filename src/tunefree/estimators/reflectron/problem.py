"""The problem of mirror descent: distinct rows, what is held out, and the result."""

from typing import Any, NamedTuple

import numpy as np

from tunefree.engine.order import content_hash
from tunefree.families import Matching
from tunefree.learners.reflectron.mirror import NONE
from tunefree.links import LINKS


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
