"""Data sets that the papers define by a formula."""

import numpy as np

# --- Separation ----------------------------------------------------------------------------------


def make_perceptron_hard(n):
    r"""Make separable rows on which the Perceptron makes exponentially many mistakes.

    Row i has i non-zero entries, (-1)^i ... (-1)^i (-1)^(i+1), and the label (-1)^(i+1). Visiting
    the rows in order, the Perceptron updates exactly (4^n - 1) / 3 times.

    Parameters
    ----------
    n : int
        Number of rows and of columns.

    Returns
    -------
    X : ndarray of shape (n, n)
    y : ndarray of shape (n,)
        Labels -1.0 and 1.0.

    Raises
    ------
    ValueError
        If n is not a positive integer.

    References
    ----------
    Hanashiro and Abernethy, "Linear Separation via Optimism", equation 2.

    Examples
    --------
    >>> X, y = make_perceptron_hard(3)
    >>> X
    array([[ 1.,  0.,  0.],
           [ 1., -1.,  0.],
           [-1., -1.,  1.]])
    >>> y
    array([ 1., -1.,  1.])
    """
    if not isinstance(n, int | np.integer) or n < 1:
        raise ValueError(f"n={n!r} is not a positive integer.")
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    X = np.tril(np.broadcast_to(-y[:, None], (n, n)), -1)
    X[np.diag_indices(n)] = y
    return X, y
