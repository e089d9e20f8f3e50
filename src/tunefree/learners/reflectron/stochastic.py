"""Which stochastic learner serves a configuration, and how long its steps are."""

from tunefree.learners.reflectron.batches import Batches
from tunefree.learners.reflectron.lazy import Lazy


def stochastic(link, configuration, scheme, weight, intercept, d, size=1):
    """The cheapest learner of a configuration.

    Examples
    --------
    >>> from tunefree.learners.reflectron.mirror_state import Configuration
    >>> from tunefree.links import Logistic
    >>> from tunefree.potentials import Euclidean
    >>> type(stochastic(Logistic(), Configuration(Euclidean()), None, None, True, 5)).__name__
    'Lazy'
    """
    potential, constraint = configuration.potential, configuration.constraint
    lazy = size == 1 and (weight is None or isinstance(weight, str)) and isinstance(link, tuple)
    if lazy and constraint is not None:
        bounds = getattr(constraint, "dual_bounds", None)
        lazy = bounds is not None and bounds(potential) is not None
    if lazy and hasattr(potential, "coordinates") and potential.coordinates(d) is not None:
        return Lazy(link, configuration, scheme, weight, intercept)
    return Batches(link, configuration, scheme, weight, intercept, size)
