"""The law of one output, of which a loss is the deviance."""

from typing import Any, NamedTuple

import numpy as np

from tunefree.parts.families import Matching, Quantile
from tunefree.parts.links import index_of_mean


class Law(NamedTuple):
    r"""The law of one output: E[y | x] = exposure * u(s + offset) at the index s = <beta, x> + b.

    `score` and `slope` are of targets per unit of exposure; a row counts as much as its exposure.
    """

    family: Any
    link: Any
    exposure: Any = 1.0  # or of shape (n,)
    offset: Any = 0.0  # or of shape (n,); (n, k) of k outputs

    def of_outputs(self, n_outputs):
        """The law of every output."""
        levels = self.family.q if isinstance(self.family, Quantile) else ()
        own = [self._replace(family=Quantile(float(q))) for q in levels]
        if own:
            return own
        if np.ndim(self.offset) < 2:
            return [self] * n_outputs
        return [self._replace(offset=offset) for offset in np.transpose(self.offset)]

    def only(self, rows):
        """The law of some of the rows."""
        exposure, offset = (a[rows] if np.ndim(a) else a for a in self[2:])
        return self._replace(exposure=exposure, offset=offset)

    def score(self, s, y):
        """Half the slope of the deviance in the index, shape (n,)."""
        s = s + self.offset
        if isinstance(self.family, Matching):
            return self.exposure * (np.asarray(self.link.mean(s)) - y)
        mean = self.family.clipped(self.link.mean(s))
        return self.exposure * self.family.score(self.link, s, mean, y)

    def slope(self, s, y):
        """The slope of the score in the index, by a central difference."""
        step = 1e-5 * np.maximum(1.0, np.abs(s)) * max(float(np.std(s)), 1e-3)
        return (self.score(s + step, y) - self.score(s - step, y)) / (2.0 * step)

    def loss(self, s, y, share):
        """Half the mean deviance, which Newton's steps lower."""
        mean = self.mean(s)
        return 0.5 * float(share @ (self.exposure * self.family.deviance(y, mean)))

    def start(self, y, weights):
        """The first intercept: near the best constant, or 0 where the link has no inverse."""
        mean = np.average(y, weights=weights * self.exposure)
        index = index_of_mean(self.link, np.array([mean]))
        if index is None:
            return 0.0
        offset = np.average(np.broadcast_to(self.offset, y.shape), weights=weights)
        return float(index[0]) - offset

    def information(self, s):
        """Fisher's information of the index, shape (n,)."""
        return self.exposure * self.family.curvature(self.link, s + self.offset)

    def mean(self, s):
        """The mean of a target per unit of exposure."""
        return self.family.clipped(np.asarray(self.link.mean(s + self.offset)))


def is_identity(link):
    """Whether a link, also one of the user's own, is the identity."""
    probe = np.array([-1e6, 0.0, 1.0, 1e6])
    return bool(np.allclose(link.mean(probe), probe))
