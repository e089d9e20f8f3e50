"""A single pass that chooses: several rules side by side, weighed by progressive validation.

Every row is predicted before it is learned, so nothing need be left out to compare bandwidths and
rules: all of them learn all rows in one sweep, and the averages are blended as after a race
(`learners.blend`), by the errors over the last half of the pass
(the latest 8,192 rows of it, at most).
"""

from itertools import product

import numpy as np

from tunefree.choose.blend import Race, ReadOut, standard_error
from tunefree.choose.portfolio import rms
from tunefree.choose.risk import recent_rows, record, start_progress
from tunefree.choose.tournament import like, passage
from tunefree.learners.kernel.blocked import Blocked, Member


def single_pass(team, kernel, data, gammas, learners, loss_of):
    """The race of one pass of each learner under each bandwidth.

    Its decisions are those of the latest rows before they were learned; ``loss_of(decisions,
    targets)`` is the loss of each.
    """
    n, k = data.targets.shape
    members = [Member(g, learner) for g, learner in product(gammas, learners)]
    engine = Blocked(kernel, members, k, like(data), n, data.cache)
    progress = start_progress(len(members), k, n)
    passage(
        team, engine, data, 0,
        scored=lambda s, y, w: record(progress, False, k, [p[0] for p in s], y, w),
    )  # fmt: skip
    recent, targets, weights = recent_rows(progress)
    found = []
    for i, member in enumerate(members):
        f = recent[:, i]
        loss = loss_of(f, targets)
        error, spread = float(np.average(loss, weights=weights)), standard_error(loss)
        found.append(ReadOut(member.gamma, 1, error, spread, rms(f), engine.mean(i), f))
    return Race(engine, found, 1, targets, weights)
