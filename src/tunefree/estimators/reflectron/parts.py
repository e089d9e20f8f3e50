"""From the Reflectron's parameters to its configurations: names, combinations, theorems' steps."""

from itertools import product

import numpy as np

from tunefree.bounds import reflectron_step
from tunefree.constraints import CONSTRAINTS
from tunefree.learners.reflectron.mirror_state import Configuration
from tunefree.learners.reflectron.subspace import LowRank, of_singular_values
from tunefree.links import LINKS
from tunefree.potentials import POTENTIALS, Euclidean, Hypentropy

# What potential='auto' tries together.
AUTO = (Euclidean(), *(Hypentropy(beta) for beta in (1e-4, 1e-6, 1e-8, 1e-12)))
# Steps by name: the theorems of Boffi, Tu and Slotine 2021 that they come from.
THEOREMS = {"theorem-4.1": "4.1", "theorem-5.1": "5.1", "theorem-5.2": "5.2"}


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


def check_weight(weight, steps=()):
    """Refuse a weight that is none, or that needs a number as step.

    Raises
    ------
    ValueError
    """
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
    """Refuse steps from theorems where these do not apply.

    Raises
    ------
    ValueError
    """
    named = [s for s in steps if isinstance(s, str)]
    if named and (callable(weight) or not hasattr(link, "bound")):
        raise ValueError(
            f"step={named[0]!r} needs a link with a bound and weight=None or 'slope': give a "
            "number as step."
        )


def with_steps(configurations, design, link, weight, intercept, rounds, k=1):
    """The configurations with the names of theorems replaced by their steps on these rows.

    Parameters
    ----------
    configurations : tuple of Configuration
    design : a part of `tunefree.designs`
    link : a part of `tunefree.links`
    weight : None or 'slope'
    intercept : bool
    rounds : int
        T of Theorem 5.1.
    k : int
        Outputs.

    Raises
    ------
    ValueError
        If a theorem says nothing about a configuration.
    """
    return tuple(
        c._replace(step=_theorem(c, design, link, weight, intercept, rounds, k))
        if isinstance(c.step, str) else c
        for c in configurations
    )  # fmt: skip


def geometry(configuration, d, k=1):
    """Strong convexity (None if there is none) and the exponent of the norm that measures rows.

    Raises
    ------
    ValueError
        If a step that comes from a theorem needs it.
    """
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


def _theorem(configuration, design, link, weight, intercept, rounds, k):
    sigma, exponent = geometry(configuration, design.shape[1], k)
    norm = float(design.norms(exponent).max())
    if intercept:  # one more column of ones, with the Euclidean potential
        norm, sigma = np.hypot(norm, 1.0), min(sigma, 1.0)
    return reflectron_step(
        norm, link.bound(), convexity=sigma, weight=1.0 if weight is None else link.bound(),
        theorem=THEOREMS[configuration.step], rounds=rounds,
    )  # fmt: skip


def _listed(value):
    return list(value) if isinstance(value, list) or type(value) is tuple else [value]
