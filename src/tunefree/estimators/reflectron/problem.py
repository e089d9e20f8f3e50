"""What the Reflectron is asked, and its answer: rows, configurations, steps from theorems."""

from itertools import product
from typing import NamedTuple

import numpy as np

from tunefree.bounds import reflectron_step
from tunefree.choose.halving import MULTIPLES, Pace
from tunefree.constraints import CONSTRAINTS
from tunefree.learners.reflectron.mirror import NONE, Configuration
from tunefree.learners.reflectron.subspace import LowRank, of_singular_values
from tunefree.links import LINKS
from tunefree.potentials import POTENTIALS, Euclidean, Hypentropy

# What potential='auto' tries together.
AUTO = (Euclidean(), *(Hypentropy(beta) for beta in (1e-4, 1e-6, 1e-8, 1e-12)))
# Steps by name: the theorems of Boffi, Tu and Slotine 2021 that they come from.
THEOREMS = {"theorem-4.1": "4.1", "theorem-5.1": "5.1", "theorem-5.2": "5.2"}


class Problem(NamedTuple):
    """What is to be learned from which rows.

    `rows`, `weights` and `held` are of the distinct rows: their numbers, their total weights, and
    the member that each is held out from (NONE for none). `validation` is None or rows, targets
    and weights to choose by.
    """

    link: object
    configurations: tuple
    scheme: object
    X: object
    targets: np.ndarray
    visits: object
    rows: np.ndarray
    weights: np.ndarray
    held: np.ndarray
    validation: tuple | None
    seed: int

    @property
    def choosing(self):
        """Whether there are rows to choose by."""
        return self.validation is not None or bool(self.held.max() > NONE)

    @property
    def members(self):
        """One that learns from all rows, and one for each share held out."""
        return 1 + max(0, self.held.max())


class Fitted(NamedTuple):
    """What was found; `board` has (risk, time, configuration) of all, the best first."""

    theta: np.ndarray
    offset: np.ndarray
    board: list
    trace: dict
    n_iter: int
    path: np.ndarray | None = None


def link_range(link, unknown=(-np.inf, np.inf)):
    """The range of a link or of the link of a name, as far as it is known."""
    return getattr(LINKS.get(link) if isinstance(link, str) else link, "range", unknown)


def combinations(potential, constraint, step, per_output=False):
    """Every combination of potential, constraint and step; None and names are steps, too."""
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


def _listed(value):
    return list(value) if isinstance(value, list) or type(value) is tuple else [value]


def check_weight(weight, steps=()):
    """Refuse a weight that is none, or that needs a number as step."""
    if weight is None:
        return
    if weight != "slope" and not callable(weight):
        raise ValueError(f"weight={weight!r} is none of None, 'slope', a function.")
    if any(s is None for s in steps):
        raise ValueError(
            "step='auto' needs weight=None, whose pseudogradient is that of a convex "
            "function: give a number as step, or solver='stochastic'."
        )


def check_theorems(steps, weight, link):
    """Refuse steps from theorems where these do not apply."""
    named = [s for s in steps if isinstance(s, str)]
    if named and (callable(weight) or not hasattr(link, "bound")):
        raise ValueError(
            f"step={named[0]!r} needs a link with a bound and weight=None or 'slope': give a "
            "number as step."
        )


def _geometry(configuration, d, k=1):
    """Strong convexity (None if there is none) and the exponent of the norm that measures rows."""
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


def with_steps(configurations, design, link, weight, intercept, rounds, k):
    """The configurations with the names of theorems replaced by their steps on these rows.

    `rounds` is T of Theorem 5.1, `k` counts outputs.
    """

    def theorem(configuration):
        sigma, exponent = _geometry(configuration, design.shape[1], k)
        norm = float(design.norms(exponent).max())
        if intercept:  # one more column of ones, with the Euclidean potential
            norm, sigma = np.hypot(norm, 1.0), min(sigma, 1.0)
        return reflectron_step(
            norm, link.bound(), convexity=sigma, weight=1.0 if weight is None else link.bound(),
            theorem=THEOREMS[configuration.step], rounds=rounds,
        )  # fmt: skip

    return tuple(
        c._replace(step=theorem(c)) if isinstance(c.step, str) else c for c in configurations
    )


def paced(configuration, rule, d, k=1):
    """(Configuration, pace) for each multiple of an automatic stochastic step, else for the one."""
    sigma, exponent = _geometry(configuration, d, k)
    step, link, weight = configuration.step, rule.link, rule.weight
    if isinstance(step, float):
        return [(configuration, Pace(step))]
    bound = link.bound() if hasattr(link, "bound") else 1.0
    largest = 1.0 if weight is None or callable(weight) else bound
    extra = float(rule.intercept)
    if step is None:
        # Where nothing is known about the geometry, the multiples have to find the step.
        known = sigma if sigma is not None and sigma > 0.0 else 1.0
        base = reflectron_step(1.0, bound, convexity=known, weight=largest, theorem="5.2")
        return [
            (configuration._replace(step=f"auto x {m:g}"), Pace(None, m * base, exponent, extra))
            for m in MULTIPLES
        ]
    base = reflectron_step(
        1.0, bound, convexity=min(sigma, 1.0) if rule.intercept else sigma, weight=largest,
        theorem="4.1" if step == "theorem-4.1" else "5.2",
    )  # fmt: skip
    most = 1.0 / np.sqrt(rule.rounds) if THEOREMS[step] == "5.1" else np.inf
    return [(configuration, Pace(None, base, exponent, extra, float(most)))]
