"""What trees from a model file must hold before compiled code reads them."""

from typing import Any

import numpy as np

from tunefree.base.state_checks import check_array, require
from tunefree.trees.bins import MOST_BORDERS, Bins
from tunefree.trees.forests import LeafwiseForest, ObliviousForest

FORESTS = (ObliviousForest, LeafwiseForest)


def check_trees(bins: Any, forests: tuple[Any, ...], n_columns):
    """Check forests and their bins.

    Parameters
    ----------
    bins : Bins
    forests : tuple of ObliviousForest or LeafwiseForest
    n_columns : int

    Raises
    ------
    ValueError
        If an array has a wrong form, or a split names a column that does not exist.
    """
    require(type(bins) is Bins and all(type(forest) in FORESTS for forest in forests))
    check_array(bins.borders, np.float64, len(bins.borders))
    check_array(bins.starts, np.int64, n_columns + 1)
    sizes = np.diff(bins.starts)
    require(bins.starts[0] == 0 and bins.starts[-1] == len(bins.borders))
    require((sizes >= 0).all() and (sizes <= MOST_BORDERS).all())
    n_outputs = {len(forest.start) for forest in forests}
    require(len(n_outputs) == 1)
    for forest in forests:
        check_array(forest.start, np.float64, len(forest.start))
        forest.check(n_columns, len(forest.start))
