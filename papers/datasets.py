"""Data sets of the papers, by a formula or as a sample of a file."""

import gzip
import os
from pathlib import Path

import numpy as np
from scipy.special import expit
from sklearn.utils import check_random_state

# --- Separation ----------------------------------------------------------------------------------


def make_perceptron_hard(n: int) -> tuple[np.ndarray, np.ndarray]:
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
    n = int(n)
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    X = np.tril(np.broadcast_to(-y[:, None], (n, n)), -1)
    X[np.diag_indices(n)] = y
    return X, y


# --- Generalized linear models -------------------------------------------------------------------


def make_cosine_glm(
    n_samples: int = 100,
    n_test: int = 400,
    *,
    n_inputs: int = 25,
    n_features: int = 75,
    noise: float = 0.05,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    r"""Make random cosine features whose targets are a sigmoid of a dense parameter vector.

    .. math:: y_i = \sigma(\theta^\top \cos(V x_i)) + \xi_i, \quad x_i \sim N(0, 4 I), \quad
              V_{ij}, \theta_i \sim N(0, 1), \quad \xi_i \sim U(-0.05, 0.05)

    Targets are clamped to [0, 1].

    Parameters
    ----------
    n_samples, n_test : int, default=100 and 400
    n_inputs, n_features : int, default=25 and 75
        Entries of x, and rows of V.
    noise : float, default=0.05
        Half the width of the noise. (The paper's a = .05 = -b has its signs swapped.)
    random_state : int, RandomState or None, default=None

    Returns
    -------
    X_train, X_test : ndarray of shape (n_samples, n_features) and (n_test, n_features)
        The features cos(V x).
    y_train, y_test : ndarray of shape (n_samples,) and (n_test,)
    theta : ndarray of shape (n_features,)

    References
    ----------
    Boffi and Slotine 2020, appendix B.3.

    Examples
    --------
    >>> X, X_test, y, y_test, theta = make_cosine_glm(random_state=0)
    >>> X.shape, X_test.shape, bool(0.0 <= y.min() and y.max() <= 1.0)
    ((100, 75), (400, 75), True)
    """
    rng = check_random_state(random_state)
    V, theta = rng.standard_normal((n_features, n_inputs)), rng.standard_normal(n_features)
    n = n_samples + n_test
    X = np.cos(2.0 * rng.standard_normal((n, n_inputs)) @ V.T)
    y = np.clip(expit(X @ theta) + rng.uniform(-noise, noise, n), 0.0, 1.0)
    return X[:n_samples], X[n_samples:], y[:n_samples], y[n_samples:], theta


def make_low_rank_dynamics(
    n_trajectories: int = 100,
    n_features: int = 100,
    rank: int = 2,
    *,
    n_steps: int = 5,
    rho: float = 0.9,
    noise: float = 0.1,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Make trajectories of a nonlinear recurrent system whose matrix has a low rank.

    .. math:: x_{t+1} = \rho x_t + \sigma(\Theta x_t) + w_t, \quad x_0 \sim U([-1, 1]^d), \quad
              w_t \sim 0.1\, U([-1, 1]^d), \quad \Theta = A B^\top / \sqrt d

    A and B hold standard normal numbers. (The paper does not state the scale of its matrix.)

    Parameters
    ----------
    n_trajectories, n_features, rank : int, default=100, 100 and 2
    n_steps : int, default=5
        T: each trajectory has n_steps + 1 states.
    rho : float, default=0.9
    noise : float, default=0.1
    random_state : int, RandomState or None, default=None

    Returns
    -------
    trajectories : ndarray of shape (n_trajectories, n_steps + 1, n_features)
    theta : ndarray of shape (n_features, n_features)

    References
    ----------
    Boffi, Tu and Slotine 2021, section 6.2.

    Examples
    --------
    >>> trajectories, theta = make_low_rank_dynamics(20, 10, 1, random_state=0)
    >>> trajectories.shape, int(np.linalg.matrix_rank(theta))
    ((20, 6, 10), 1)
    """
    rng = check_random_state(random_state)
    a, b = rng.standard_normal((2, n_features, rank))
    theta = a @ b.T / np.sqrt(n_features)
    states = [rng.uniform(-1.0, 1.0, (n_trajectories, n_features))]
    for _ in range(n_steps):
        x = states[-1]
        push = noise * rng.uniform(-1.0, 1.0, x.shape)
        states.append(rho * x + expit(x @ theta.T) + push)
    return np.stack(states, axis=1), theta


def load_mnist_sample(
    images: str | os.PathLike,
    labels: str | os.PathLike,
    n_train: int = 5000,
    n_test: int = 10_000,
    *,
    standardize: bool = True,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Draw training and test images from a pair of IDX files, each pixel standardised.

    Pixels are measured from their mean, in standard deviations, over all images of the file (a
    pixel that is constant stays 0).

    Parameters
    ----------
    images, labels : str or path
        IDX files of MNIST, plain or gzipped.
    n_train, n_test : int, default=5000 and 10000
    standardize : bool, default=True
        False gives the pixels divided by 255.
    random_state : int, RandomState or None, default=None
        Selects the images.

    Returns
    -------
    X_train, X_test : ndarray of shape (n_train, n_pixels) and (n_test, n_pixels)
    y_train, y_test : ndarray of int

    Raises
    ------
    ValueError
        If a file is not an IDX file of bytes, is cut short, or there are too few images.

    References
    ----------
    Boffi and Slotine 2020, appendix B.1 (does not state which images standardise a pixel).

    Examples
    --------
    >>> import gzip, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     head = bytes([0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 2])
    ...     pixels, digits = Path(folder, "images.gz"), Path(folder, "labels")
    ...     _ = pixels.write_bytes(gzip.compress(head + bytes([0, 9, 0, 9, 3, 9])))
    ...     _ = digits.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 4, 5, 6]))
    ...     X, X_test, y, y_test = load_mnist_sample(pixels, digits, 2, 1, random_state=0)
    >>> X.shape, X_test.shape, sorted([*y.tolist(), *y_test.tolist()])
    ((2, 2), (1, 2), [4, 5, 6])
    """
    X, y = _read_idx(images, 3), _read_idx(labels, 1)
    if len(X) != len(y):
        raise ValueError(f"{images} holds {len(X)} images, and {labels} {len(y)} labels.")
    if n_train + n_test > len(X):
        raise ValueError(f"{images} holds {len(X)} images: too few for {n_train} + {n_test}.")
    rows = check_random_state(random_state).permutation(len(X))[: n_train + n_test]
    X = X.reshape(len(X), -1)
    if standardize:
        mean, deviation = X.mean(axis=0, dtype=float), X.std(axis=0, dtype=float)
    else:
        mean, deviation = 0.0, np.full(X.shape[1], 255.0)
    picked = (X[rows] - mean) / np.where(deviation > 0.0, deviation, 1.0)
    y = y[rows].astype(int)
    return picked[:n_train], picked[n_train:], y[:n_train], y[n_train:]


def _read_idx(path, n_axes):
    """An IDX file of bytes with a given number of axes."""
    content = Path(path).read_bytes()
    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    start = 4 + 4 * n_axes
    if len(content) < start or content[:4] != bytes([0, 0, 8, n_axes]):
        raise ValueError(f"{path} is not an IDX file of bytes with {n_axes} axes.")
    shape = tuple(np.frombuffer(content[4:start], ">u4").astype(int))
    if len(content) - start != np.prod(shape):
        raise ValueError(f"{path} is cut short: {len(content) - start} bytes for {shape}.")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
