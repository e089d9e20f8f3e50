r"""Two-sided certificates of the margin.

With the signed rows Z_i = y_i x_i, the maximal margin is a minimax value:

    max_{\|w\| <= 1} min_i Z_i w  =  min_{p in the simplex} \|Z' p\|.

So any w bounds it from below, any distribution p over the rows bounds it from above, and the two
vectors together are a proof that anyone can check with two products.
"""

from typing import NamedTuple

import numpy as np

from tunefree._jit import kernel, part
from tunefree.learners.perceptron.spaces import EPS


@kernel
def tally(margins, weights):
    """The smallest margin of a row with a weight, and the weight of the rows that are not right."""
    least, errors = np.inf, 0.0
    for i in range(margins.shape[0]):
        if weights[i] > 0.0:
            least = min(least, margins[i])
            if margins[i] <= 0.0:
                errors += weights[i]
    return least, errors


@kernel
def tally_change(margins, before, weights):
    """`tally` of margins - before."""
    least, errors = np.inf, 0.0
    for i in range(margins.shape[0]):
        if weights[i] > 0.0:
            change = margins[i] - before[i]
            least = min(least, change)
            if change <= 0.0:
                errors += weights[i]
    return least, errors


class Certificate(NamedTuple):
    """What is known about the margin so far, with its two witnesses.

    Attributes
    ----------
    lower, upper : float
        Bounds of the maximal margin, valid in exact arithmetic.
    errors : float
        Weight of the rows that `w` gets wrong.
    w : ndarray or None
        A vector of the space: the separator that attains `lower` or, before there is one, the
        predictor with the fewest errors.
    p : ndarray of shape (n,) or None
        The distribution over the rows that attains `upper`.
    """

    lower: float = 0.0
    upper: float = np.inf
    errors: float = np.inf
    w: np.ndarray | None = None
    p: np.ndarray | None = None

    def below(self, space, w, least, errors, terms, radius):
        """Take notice of a predictor whose smallest computed margin is `least`."""
        if least > 0.0:
            norm = space.norm(w, terms, radius)
            lower = (least - space.slack(w, terms, radius)) / norm if norm > 0.0 else 0.0
            if lower > self.lower:
                return self._replace(lower=float(lower), errors=0.0, w=w.copy())
        if self.lower == 0.0 and errors < self.errors:
            return self._replace(errors=errors, w=w.copy())
        return self

    def above(self, space, x, p, terms, radius):
        """Take notice of a distribution `p` (None where it is not kept) with x = Z' p."""
        upper = space.norm(x, terms, radius) + (terms + 4) * EPS * radius
        if upper < self.upper:
            return self._replace(upper=upper, p=None if p is None else p.copy())
        return self

    @property
    def gap(self):
        """The relative width of the interval."""
        return (self.upper - self.lower) / self.upper if self.upper > 0.0 else 1.0


def certify(space, block, w, p):
    """Bounds of the margin from two witnesses alone, rounding included.

    Parameters
    ----------
    space : Linear or Gram
    block : Block
        All rows.
    w : ndarray
        A predictor of the space.
    p : ndarray of shape (n,)
        Non-negative weights of the rows, which sum to 1.

    Returns
    -------
    Certificate

    Examples
    --------
    >>> from tunefree.engine.sources import Whole
    >>> from tunefree.learners.perceptron.spaces import Linear
    >>> X, y = np.array([[2.0, 0.0], [0.0, 2.0]]), np.ones((2, 1))
    >>> block = next(Whole(X, y, np.ones(2)).blocks(0))
    >>> c = certify(Linear(), block, np.array([1.0, 1.0]), np.array([0.5, 0.5]))
    >>> c.lower <= 2.0 ** 0.5 <= c.upper, round(c.lower, 9), round(c.upper, 9)
    (True, 1.414213562, 1.414213562)
    """
    view = space.view(block)
    radius = float(np.sqrt(np.max(view.squares(), where=block.weights > 0.0, initial=0.0)))
    least, errors = tally(view.push(w), block.weights)
    terms = int(np.count_nonzero(p))
    return (
        Certificate()
        .below(space, w, least, errors, 0, radius)
        .above(space, view.pull(p), p, terms, radius)
    )


@part
class Goal(NamedTuple):
    """When to stop.

    Parameters
    ----------
    tight : bool, default=False
        Stop at a certified relative gap of `tol` (True) or at the first separator (False).
    tol : float, default=0.01
        The relative gap, (upper - lower) / upper.
    margin : float or None, default=None
        Give up once no separator can have a larger margin than this; None for 1e-4 of the longest
        row.

    Examples
    --------
    >>> Goal(tight=True, tol=0.1).reached(Certificate(lower=0.95, upper=1.0), radius=1.0)
    True
    """

    tight: bool = False
    tol: float = 0.01
    margin: float | None = None

    def floor(self, radius):
        """The margin below which a separator is of no interest."""
        return 1e-4 * radius if self.margin is None else self.margin

    def reached(self, certificate, radius):
        """Whether a certificate is enough."""
        if certificate.upper <= self.floor(radius) or certificate.upper == 0.0:
            return True
        return certificate.lower > 0.0 and (not self.tight or certificate.gap <= self.tol)
