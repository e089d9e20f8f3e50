"""Ranks of columns with many values are known at some of them."""

import numpy as np
import pytest

from tunefree.kernels.coordinates import _KNOTS, coordinates
from tunefree.rows.scaling import _RANK


def ranks(x, at):
    view = coordinates(x[:, None], np.ones(len(x)))
    (place,) = np.flatnonzero(view.kind == _RANK)
    return view.show(at[:, None])[:, place], view


@pytest.mark.parametrize("atoms", [0, 4000])
def test_they_differ_by_less_than_a_thousandth_from_those_of_all_values(atoms):
    rng = np.random.default_rng(3)
    x = np.exp(3.0 * rng.normal(size=9000))
    x[:atoms] = 1.0
    values, place, counts = np.unique(x, return_inverse=True, return_counts=True)
    exact = np.cumsum(counts) - 0.5 * counts
    exact = (exact - exact[place].mean()) / exact[place].std()
    found, view = ranks(x, values)
    assert len(view.knots) <= _KNOTS + 3 * (atoms > 0)
    assert np.abs(found - exact).max() < 4.0 / _KNOTS
    assert (np.diff(found) >= 0.0).all()


def test_few_values_have_their_exact_ranks():
    x = np.exp(np.random.default_rng(4).normal(size=_KNOTS))
    assert len(ranks(x, x)[1].knots) == _KNOTS
