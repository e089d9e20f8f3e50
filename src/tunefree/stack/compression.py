"""Fewer landmarks of a stack's kernels, and what they cost."""

from typing import NamedTuple

from tunefree.core.format import number
from tunefree.held_out.predictions import weighted_mean
from tunefree.held_out.stacking import choose_stack


class StackCompression(NamedTuple):
    """What fewer landmarks cost."""

    n_landmarks: int  # the most of a kernel
    loss_before: float  # mean held-out loss of the stack, with all landmarks
    loss_after: float  # and with fewer
    standard_error: float  # of their difference


def compress_stack(before, problem, most):
    """The `Chosen` stack of the same kernels with at most so many landmarks, and what it costs."""
    entries = [e.candidate.compressed(e, problem, most) for e in before.entries]
    after, weights = choose_stack(entries, problem), problem.weights[before.rows]
    groups = problem.groups_of(before.rows)
    _, error = weighted_mean(after.stack.losses - before.stack.losses, weights, groups)
    old, new = (float(weighted_mean(c.stack.losses, weights)[0]) for c in (before, after))
    words = (
        f"{before.reason} With at most {most} landmarks: {after.reason} The loss was {number(old)} "
        f"and is now {number(new)} (standard error of the difference {number(float(error), 2)})."
    )
    return after._replace(reason=words), StackCompression(most, old, new, float(error))
