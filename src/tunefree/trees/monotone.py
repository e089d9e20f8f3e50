r"""Leaf values in which the scores of a tree increase or decrease with some columns.

Leaf a is below leaf b if the bits of both agree at levels on columns without a sign, those of a are
at most those of b on increasing columns, and at least those on decreasing ones. A row that changes
in the direction of the signs goes from a leaf to itself or to one above. So scores are monotone if
values are increasing in this order. The values v of the leaves with rows become

.. math:: v'_a = \tfrac12 \left(\max_{b \le a} v_b + \min_{b \ge a} v_b\right),

the middle of the least increasing values above v and the greatest ones below. A leaf without rows
gets the value nearest to 0 between its neighbours'.

Source: Robertson, Wright and Dykstra 1988, "Order restricted statistical inference", section 1.4
(bounds of isotonic regression by maxima and minima).
"""

import numpy as np


def increasing(values, columns, signs, filled):
    """Leaf values in the order of the signs.

    Parameters
    ----------
    values : ndarray of shape (leaves, 1)
    columns : ndarray of shape (depth,)
        The columns of the levels; the first level is the highest bit of a leaf's number.
    signs : ndarray of shape (columns,)
        1, -1 or 0 for every column.
    filled : ndarray of bool of shape (leaves,)
        Whether each leaf has rows.

    Returns
    -------
    ndarray of shape (leaves, 1)

    Examples
    --------
    >>> values, signs = np.array([[2.0], [1.0]]), np.array([1])
    >>> increasing(values, np.array([0]), signs, np.array([True, True])).ravel()
    array([1.5, 1.5])
    """
    below = _below(columns, signs)
    out = np.where(filled, values[:, 0], 0.0)
    least, most = _bounds(out, below, filled)
    out[filled] = 0.5 * least[filled] + 0.5 * most[filled]
    least, most = _bounds(out, below, filled)
    return np.clip(out, least, most)[:, None]


def _below(columns, signs):
    """Whether each leaf is below each other one, or the same."""
    leaves = np.arange(1 << len(columns))
    depth = len(columns)
    out = np.ones((len(leaves), len(leaves)), dtype=bool)
    for level, column in enumerate(columns):
        bits = (leaves >> (depth - 1 - level)) & 1
        change = bits[None, :] - bits[:, None]
        out &= (change == 0) | (change == signs[column])
    return out


def _bounds(values, below, filled):
    """The largest value of a filled leaf below, and the least one above."""
    low = np.where(below & filled[:, None], values[:, None], -np.inf).max(axis=0)
    high = np.where(below & filled, values, np.inf).min(axis=1)
    return low, high
