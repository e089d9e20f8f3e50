"""The regret of a linear PiSTOL fit against linear competitors, in the units of the columns."""

import numpy as np

NO_RULE = (
    "Nothing is proved about the rules of setting={!r}: 'theorem-1' and 'guaranteed' have a bound."
)
MOVING = (
    "Nothing is proved where the columns' units are learned from a stream: a linear competitor is "
    "not a fixed vector there. Use fit, or for a classifier fit_intercept=False."
)


def linear_regret(run, moving=False):
    """The regret of a portfolio's only member, with its view and the targets' location and scale.

    The reason in words, if there is none. `moving`: views were updated as rows came.
    """
    portfolio, state, scale = run
    (member, *others), (member_state, *_) = portfolio.members, state.members
    n_outputs = state.progress.targets.shape[1] - portfolio.unseen
    regret = None if others else member.learner.regret(member_state, n_outputs)
    if regret is None:
        return NO_RULE
    view = state.views[member.view]
    has_units = scale is not None or view.scale is not None or view.bias != 0.0
    if moving and has_units:
        return MOVING
    location, unit = (np.zeros(1), np.ones(1)) if scale is None else (scale.m, scale.s)
    return regret, view._replace(low=None, high=None, rotation=None), location, unit


def norms_in_view(view, slopes, level):
    """The norm of each linear function of columns, as one of the columns of a view."""
    if view.shift is not None:
        level = level + slopes @ view.shift
    if view.scale is not None:
        if slopes[:, view.scale == 0.0].any():
            raise ValueError("The competitor uses constant columns: set their coefficients to 0.")
        slopes = slopes / np.where(view.scale == 0.0, 1.0, view.scale)
    if view.bias != 0.0:
        level = level / view.bias
    elif level.any():
        raise ValueError("This model has no intercept: give a competitor with intercept=0.")
    return np.hypot(np.linalg.norm(slopes, axis=1), level)
