"""Rows to separate, their exact margins, and runs of learners on them."""

import time

import numpy as np
from scipy.optimize import nnls
from sklearn.datasets import load_digits

from _data import load
from papers.datasets import make_perceptron_hard
from tunefree.engine.run import run
from tunefree.engine.sources import Whole
from tunefree.perceptron.dual import Accelerated, MinNorm
from tunefree.perceptron.margins import Goal
from tunefree.perceptron.optimistic import Optimistic

METHODS = {
    "paper": Optimistic(step=1.0),
    "adaptive": Optimistic(),
    "accelerated": Accelerated(),
    "min-norm": MinNorm(),
}


def play(learner, X, y, goal, max_passes=40_000, watch=None):
    """Run a learner; its state, and the values of `watch(state)` after each pass."""
    learner = learner._replace(goal=goal)
    start = learner.init(len(y)) if isinstance(learner, Optimistic) else learner.init()
    values = []

    class Watched:
        scan = staticmethod(learner.scan)

        @staticmethod
        def turn(state):
            state, done = learner.turn(state)
            if watch is not None:
                values.append(watch(state))
            return state, done

    source = Whole(X, y[:, None].astype(float), np.ones(len(y)))
    return run(Watched, start, source, max_passes=max_passes).state, values


def exact_margin(X, y):
    """The maximal margin of y * X by nonnegative least squares; (gamma, r)."""
    Z = y[:, None] * X
    radius = np.sqrt((Z**2).sum(axis=1).max())
    A = np.vstack([Z.T / radius, np.ones(len(Z))])
    p, _ = nnls(A, np.append(np.zeros(Z.shape[1]), 1.0), maxiter=50 * len(Z))
    return np.linalg.norm(Z.T @ (p / p.sum())), radius


def with_constant(X):
    """Rows with a column of ones."""
    return np.column_stack([X, np.ones(len(X))])


def digits(a, b):
    """Two digits of scikit-learn's 8 x 8 images, pixels / 16 and a column of ones."""
    X, y = load_digits(return_X_y=True)
    chosen = (y == a) | (y == b)
    return with_constant(X[chosen] / 16.0), np.where(y[chosen] == a, 1.0, -1.0)


def usps(a, b, directory):
    """Two digits of USPS, and a column of ones."""
    d = load("usps", directory)
    chosen = (d.y_train == a) | (d.y_train == b)
    return with_constant(d.X_train[chosen]), np.where(d.y_train[chosen] == a, 1.0, -1.0)


def gaussian(n=4000, d=50, gap=0.031, seed=0):
    """Gaussian rows further than `gap` from a random hyperplane."""
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(n, d)), rng.normal(size=d)
    scores = X @ w / np.linalg.norm(w)
    keep = np.abs(scores) > gap
    return X[keep], np.sign(scores[keep])


def random_labels(n=300, d=600, seed=0):
    """Gaussian rows with coin-flip labels, more columns than rows."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.choice([-1.0, 1.0], n)


def random_separable(seed):
    """A small separable set whose size, margin and scale are drawn."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(4, 200)), int(rng.integers(2, 20))
    X, w = rng.normal(size=(n, d)), rng.normal(size=d)
    w /= np.linalg.norm(w)
    y = np.where(X @ w > 0, 1.0, -1.0)
    X = X + 10.0 ** rng.uniform(-2, 0) * y[:, None] * w
    return X * 10.0 ** rng.uniform(-3, 3), y


def not_separable(seed):
    """A small set with one row under both labels."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(3, 60)), int(rng.integers(1, 12))
    X, y = rng.normal(size=(n, d)), rng.choice([-1.0, 1.0], n)
    return np.vstack([X, 10.0 ** rng.uniform(-1, 1) * X[0]]), np.append(y, -y[0])


TABLE = {
    "hard n=8": lambda: make_perceptron_hard(8),
    "hard n=12": lambda: make_perceptron_hard(12),
    "digits 3 vs 8": lambda: digits(3, 8),
    "Gaussian, margin > .031": gaussian,
    "random labels 300 x 600": random_labels,
}


def seconds(call, repeats=5):
    """The smallest CPU seconds of a few calls, and the result of the last."""
    least = np.inf
    for _ in range(repeats):
        start = time.process_time()
        result = call()
        least = min(least, time.process_time() - start)
    return least, result


NEVER, TIGHT = Goal(margin=0.0), Goal(True, 1e-3, 0.0)
