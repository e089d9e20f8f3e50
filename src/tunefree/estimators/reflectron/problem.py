"""The problem of mirror descent: distinct rows, geometries and steps, and the result."""

from itertools import product
from typing import Any, NamedTuple

import numpy as np

from tunefree import averaging
from tunefree.bounds import reflectron_step
from tunefree.constraints import CONSTRAINTS
from tunefree.constraints.rules import is_odd, is_separable
from tunefree.families import Matching
from tunefree.learners.reflectron.mirror import NONE, Configuration, of_singular_values
from tunefree.learners.reflectron.subspace import LowRank
from tunefree.links import LINKS
from tunefree.potentials import POTENTIALS, Euclidean, Hypentropy
from tunefree.select.halving import MULTIPLES, Pace

# The candidates of potential='auto'.
AUTO = (Euclidean(), *(Hypentropy(beta) for beta in (1e-4, 1e-6, 1e-8, 1e-12)))
# Steps by name: the theorems of Boffi, Tu and Slotine 2021.
THEOREMS = {"theorem-4.1": "4.1", "theorem-5.1": "5.1", "theorem-5.2": "5.2"}


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
        LowRank(*each)
        if of_singular_values(*each[:2]) and not per_output
        else Configuration(*each, per_output)
        for each in product(potentials, constraints, steps)
    )


def scheme_of(average):
    """The averaging scheme of a name; None for 'last'."""
    if isinstance(average, str) and average == "last":
        return None
    if isinstance(average, str) and average == "auto":
        return averaging.Uniform()
    return averaging.scheme_of(average, also=["auto", "last"], online=True)


def _listed(value):
    return list(value) if isinstance(value, list) or type(value) is tuple else [value]


def keeps_zeros(configurations):
    """Whether a column without an entry has the coefficient 0, and affects no other column."""
    return all(
        is_separable(c.potential)
        and is_odd(c.potential)
        and c.constraint is None
        and not isinstance(c.step, str)
        for c in configurations
    )


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
        name = THEOREMS[configuration.step]
        return reflectron_step(norm, link.bound(), convexity=sigma, theorem=name, rounds=rounds)

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
    convexity = min(sigma, 1.0) if rule.intercept else sigma
    name = "4.1" if step == "theorem-4.1" else "5.2"
    base = reflectron_step(1.0, bound, convexity=convexity, weight=largest, theorem=name)
    most = 1.0 / np.sqrt(rule.rounds) if THEOREMS[step] == "5.1" else np.inf
    return [(configuration, Pace(None, base, exponent, extra, float(most)))]


class DescentProblem(NamedTuple):
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
