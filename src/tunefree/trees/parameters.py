"""The unknown parameter of a loss of boosted trees: the power of Tweedie's distribution.

Small trees are learned with the power 1.5. Their held-out means are near the true ones whatever the
power, and the power of maximum likelihood for these means is that of the loss.

Source: Joergensen 1997 (the distribution); Dunn and Smyth 2005 (its density).
"""

import numpy as np

from tunefree.core.process import workers
from tunefree.trees.boosting import MOST_ROUNDS, BoostingOptions, boost
from tunefree.trees.forests import Oblivious
from tunefree.trees.learning import CELLS_OF_A_THREAD

# So many distinct rows estimate a power.
_MOST_ROWS = 20_000
_SHAPE = Oblivious(3)


def likely_family(table, seed, n_jobs):
    """The family of the `Deviance` of a `TreeRows`, its power estimated by held-out rows."""
    few = slice(0, _MOST_ROWS)  # in the order of a hash
    sample = table.sample.part(few)
    part = table._replace(sample=sample, strata=table.strata[few])
    folds = part.folds()
    options = BoostingOptions(table.loss, table.bins, seed)
    with workers(n_jobs, sample.codes.size // CELLS_OF_A_THREAD):
        (fit,) = boost(sample, folds, options, (_SHAPE,), MOST_ROUNDS, lambda: False)
    held = np.concatenate([out for _, out in folds])
    family, y = table.loss.family, sample.targets[held, 0]
    mean = family.clipped(table.loss.link.mean(fit.scores[:, 0]))
    weights, exposure = sample.weights[held], np.ones(len(held))
    if table.terms is not None:  # rows of several exposures may be one distinct row
        rows, at = table.terms.within(held)
        y, mean = y[at], mean[at]
        weights, exposure = table.terms.weights[rows], table.terms.exposure[rows]
    if table.are_precisions:
        weights, exposure = np.ones(len(weights)), weights * exposure
    return family.likely(y, mean, weights, exposure)
