r"""Leaf values in which the scores of a tree increase or decrease with some columns.

Leaf a is below leaf b if a row of a can become one of b by steps in the direction of the signs,
with no other change. So scores are monotone if values are increasing in this order. The values v of
the leaves with rows become

.. math:: v'_a = \tfrac12 \left(\max_{b \le a} v_b + \min_{b \ge a} v_b\right),

the middle of the least increasing values above v and the greatest ones below. A leaf without rows
gets the value nearest to 0 between its neighbours'.

Source: Robertson, Wright and Dykstra 1988, "Order restricted statistical inference", section 1.4
(bounds of isotonic regression by maxima and minima).
"""

import numpy as np


def increasing(values, below, filled):
    """Leaf values in an order of the leaves.

    Parameters
    ----------
    values : ndarray of shape (leaves, 1)
    below : ndarray of bool of shape (leaves, leaves)
        Whether each leaf is below each other one, or the same: see `below_by_levels`.
    filled : ndarray of bool of shape (leaves,)
        Whether each leaf has rows.

    Returns
    -------
    ndarray of shape (leaves, 1)

    Examples
    --------
    >>> values, below = np.array([[2.0], [1.0]]), below_by_levels(np.array([0]), np.array([1]))
    >>> increasing(values, below, np.array([True, True])).ravel()
    array([1.5, 1.5])
    """
    out = np.where(filled, values[:, 0], 0.0)
    least, most = _bounds(out, below, filled)
    out[filled] = 0.5 * least[filled] + 0.5 * most[filled]
    least, most = _bounds(out, below, filled)
    return np.clip(out, least, most)[:, None]


def below_by_levels(columns, signs):
    """Which leaves of an oblivious tree are below which: by the bits of their numbers.

    Those of both agree at levels on columns without a sign, those of the lower one are at most the
    others on increasing columns, and at least those on decreasing ones.

    Parameters
    ----------
    columns : ndarray of shape (depth,)
        The columns of the levels; the first level is the highest bit of a leaf's number.
    signs : ndarray of shape (columns,)
        1, -1 or 0 for every column.

    Returns
    -------
    ndarray of bool of shape (leaves, leaves)
    """
    leaves = np.arange(1 << len(columns))
    depth = len(columns)
    out = np.ones((len(leaves), len(leaves)), dtype=bool)
    for level, column in enumerate(columns):
        bits = (leaves >> (depth - 1 - level)) & 1
        change = bits[None, :] - bits[:, None]
        out &= (change == 0) | (change == signs[column])
    return out


def below_by_boxes(first, last, missing, signs):
    """Which leaves are below which: by the bins that each holds of every column.

    Two leaves may share a bin of a column, or missing values. Else the lower one has a bin before
    one of the other in an increasing column, and behind it in a decreasing one. The order goes
    through other leaves, too.

    Parameters
    ----------
    first, last : ndarray of shape (leaves, columns)
        The bins of present values of each leaf; none if the first is behind the last.
    missing : ndarray of bool of shape (leaves, columns)
        Whether a leaf holds missing values.
    signs : ndarray of shape (columns,)

    Returns
    -------
    ndarray of bool of shape (leaves, leaves)
    """
    has = first <= last
    both = has[:, None] & has
    is_before = both & (first[:, None] <= last)
    is_behind = both & (last[:, None] >= first)
    shared = (is_before & is_behind) | (missing[:, None] & missing)
    ordered = np.where(signs > 0, is_before, is_behind) & (signs != 0)
    out = (shared | ordered).all(axis=2)
    for middle in range(len(out)):
        out |= out[:, middle, None] & out[middle]
    return out


def _bounds(values, below, filled):
    """The largest value of a filled leaf below, and the least one above."""
    low = np.where(below & filled[:, None], values[:, None], -np.inf).max(axis=0)
    high = np.where(below & filled, values, np.inf).min(axis=1)
    return low, high
