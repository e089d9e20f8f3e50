"""
Kernel learning on a million rows: random features and a linear learner
=======================================================================

Run it with ``python examples/scale_million_rows.py [--rows N] [--landmarks M]``.

An exact kernel learner uses every pair of rows, n^2 / 2 of them. A feature map z with
z(x) . z(y) ~ k(x, y) replaces it by a linear learner on M columns. Its cost is linear in n, and its
memory is constant: the rows come in chunks and are not stored. scikit-learn has such maps:

* `Nystroem`: landmarks drawn from the rows. Better where the data have structure, and exact with as
  many landmarks as rows. It needs a first chunk to draw from.
* `RBFSampler`: random Fourier features. Independent of the data; needs several times the columns.

Both give columns of one scale, so `PiSTOLClassifier("global")` is enough. The default searches for
scalings that are not there, at ten times the cost. With all rows in memory a pipeline is one line:

    make_pipeline(Nystroem(gamma=0.1, n_components=500), PiSTOLClassifier("global")).fit(X, y)
"""

import argparse
import time

import numpy as np
from sklearn.kernel_approximation import Nystroem

from tunefree import PiSTOLClassifier
from tunefree.kernels.kernels import RBF, median_gamma


def chunks(n_rows, seed, size=20_000):
    """Yield rows of a problem that is not linear in four of ten columns."""
    rng = np.random.default_rng(seed)
    for start in range(0, n_rows, size):
        X = rng.normal(size=(min(size, n_rows - start), 10))
        surface = X[:, 0] * X[:, 1] + np.sin(2.0 * X[:, 2]) + 0.5 * X[:, 3] ** 2 - 0.5
        yield X, (surface + 0.2 * rng.normal(size=len(X)) > 0).astype(int)


def learn(n_rows, n_landmarks, report=print):
    """Learn from a stream; return the transformer and the model."""
    features, model, seen = None, PiSTOLClassifier("global", random_state=0), 0
    start, tests = time.perf_counter(), next(chunks(20_000, seed=1))
    for number, (X, y) in enumerate(chunks(n_rows, seed=0), start=1):
        if features is None:
            # The median heuristic, and landmarks from the first chunk.
            gamma = median_gamma(RBF(), X)
            features = Nystroem(gamma=gamma, n_components=n_landmarks, random_state=0).fit(X)
        model.partial_fit(features.transform(X), y, classes=[0, 1])
        seen += len(y)
        if number & (number - 1) == 0 or seen == n_rows:  # after 1, 2, 4, 8, ... chunks
            error = 1 - model.score(features.transform(tests[0]), tests[1])
            report(f"{seen:>10,d} rows {time.perf_counter() - start:7.1f} s  error {error:.2%}")
    return features, model


def main():
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--landmarks", type=int, default=500)
    options = parser.parse_args()
    learn(options.rows, options.landmarks)


if __name__ == "__main__":
    main()
