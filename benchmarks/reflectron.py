"""The Reflectron: targets, measurements and peers.

    python benchmarks/reflectron.py [--quick] [--only figure,large,recovery,projections]

Counts (passes, coordinates) are equal on any machine; times are CPU seconds of this one. A pass is
one product with the rows and one with their transpose.
"""

import argparse
import time

import numpy as np
from scipy.special import expit

from _sparse import PEERS
from tunefree import ReflectronRegressor
from tunefree.engine.run import run
from tunefree.parts.links import Logit
from tunefree.reflectron.constraints import L1Ball
from tunefree.reflectron.mirror import Batch, Configuration, Mirror
from tunefree.reflectron.potentials import Euclidean, Hypentropy, PNorm
from tunefree.rows.designs import Dense

# The steps of the paper's grid (its largest value is 1).
STEPS = (0.01, 0.05, 0.1, 0.5, 1.0)


class Draw:
    """The paper's sparse problem: x uniform, y = sigmoid(<theta, x>) + 0.1 uniform."""

    def __init__(self, d, n, s, seed, n_held=500, n_test=2000):
        rng = np.random.default_rng(seed)
        self.theta = np.zeros(d)
        self.theta[rng.choice(d, s, replace=False)] = rng.standard_normal(s)
        self.X, self.y, _ = self._rows(rng, n)
        self.X_held, self.y_held, _ = self._rows(rng, n_held)
        self.X_test, self.y_test, self.clean = self._rows(rng, n_test)

    def _rows(self, rng, n):
        X = rng.uniform(-1.0, 1.0, (n, len(self.theta)))
        clean = expit(X @ self.theta)
        return X, clean + 0.1 * rng.uniform(-1.0, 1.0, n), clean

    def blocks(self, epoch):
        """Act as a source: the training rows, then the held-out rows."""
        yield Batch(Dense(self.X), self.y[:, None], np.ones(len(self.y)))
        yield Batch(Dense(self.X_held), self.y_held[:, None], np.ones(len(self.y_held)), 0)

    def learned(self):
        """The training rows."""
        return self.X, self.y

    def error(self, theta):
        """Mean squared test error against noisy targets."""
        return float(np.mean((expit(self.X_test @ theta) - self.y_test) ** 2))

    def excess(self, theta):
        """Mean squared distance from the noiseless means."""
        return float(np.mean((expit(self.X_test @ theta) - self.clean) ** 2))


def learn(draw, configurations, most, patience=60):
    """Learn configurations together: parameters, accepted steps, passes, seconds."""
    learner = Mirror(Logit(), tuple(configurations), intercept=False, patience=patience)
    start = time.process_time()
    result = run(learner, learner.init(draw.X.shape[1]), draw, max_passes=most)
    seconds = time.process_time() - start
    state = result.state
    return state.best.theta[:, 0, 0], state.best_at, result.n_passes, seconds


def figure(quick):
    """Figure 1d: the solutions of the two geometries, d = n = 1000, s = 10."""
    print("\nFigure 1d: coordinates above 1e-3 and l1 error (paper: 971, 24.609 and 56, 0.421)")
    rows = []
    for seed in range(2 if quick else 5):
        draw = Draw(1000, 1000, 10, seed)
        configurations = (
            Configuration(Euclidean(), None, 0.1),
            Configuration(Hypentropy(1e-4), None, 0.5),
        )
        thetas, *_ = learn(draw, configurations, 5000, 5000)
        rows.append(
            [f(t) for t in thetas for f in (lambda t: (abs(t) > 1e-3).sum(),
                                            lambda t, d=draw: abs(t - d.theta).sum())]
        )  # fmt: skip
    a = np.median(rows, axis=0)
    print(f"  GLM-tron    {a[0]:6.0f} {a[1]:8.3f}\n  hypentropy  {a[2]:6.0f} {a[3]:8.3f}")


def large(quick):
    """Automatic against the paper's grid of fixed steps at d = 10000; a whole default fit."""
    d, n, s = (2000, 200, 20) if quick else (10_000, 1000, 100)
    draw = Draw(d, n, s, 0)
    print(f"\nd = {d}, n = {n}, s = {s}: test error @ step of the iterate chosen, passes, seconds")
    potential = Hypentropy(1e-4)
    fixed = [Configuration(potential, None, step) for step in STEPS]
    thetas, at, passes, seconds = learn(draw, fixed, 1000 if quick else 2000, 10_000)
    for theta, when, step in zip(thetas, at, STEPS, strict=True):
        print(f"  fixed {step:<6} {draw.error(theta):.5f} @ {when}")
    print(f"  ({passes} passes of {len(STEPS)} steps together: {seconds:.0f} s)")
    thetas, at, passes, seconds = learn(draw, [Configuration(potential)], 100)
    print(f"  automatic    {draw.error(thetas[0]):.5f} @ {at[0]}, {passes} passes, {seconds:.1f} s")
    pass_cost(draw)
    start = time.process_time()
    model = ReflectronRegressor(link="logit", random_state=0).fit(draw.X, draw.y)
    seconds = time.process_time() - start
    error = np.mean((model.predict(draw.X_test) - draw.y_test) ** 2)
    print(
        f"  default fit  {error:.5f}, {model.potential_}, {model.n_iter_} passes, {seconds:.1f} s"
    )


def pass_cost(draw):
    """One pass against the matrix products it consists of."""
    sheet = Batch(Dense(draw.X), draw.y[:, None], np.ones(len(draw.y)))
    for count in (1, 5, 35):
        potentials = [Hypentropy(10.0 ** -(4 + i / 8)) for i in range(count)]
        learner = Mirror(
            Logit(), tuple(Configuration(p) for p in potentials), intercept=False, patience=10**6
        )
        state = learner.init(draw.X.shape[1])
        state, _ = learner.turn(learner.scan(state, sheet))
        ours, products = [], []
        theta = state.trial.theta[:, 0, 0]
        r = np.zeros((len(draw.y), count))
        for _ in range(7):
            start = time.process_time()
            state, _ = learner.turn(learner.scan(state, sheet))
            ours.append(time.process_time() - start)
            start = time.process_time()
            draw.X @ theta.T, draw.X.T @ r
            products.append(time.process_time() - start)
        ratio = np.median(ours) / np.median(products)
        print(f"  one pass of {count:2d}: {1e3 * np.median(ours):.1f} ms, {ratio:.2f} x products")


def recovery(quick):
    """Sparse recovery from 200 rows, without validation rows, against cross-validated l1 paths."""
    print("\nd = 2000, n = 200, s = 20: excess risk (seconds; passes)")
    seeds = range(100, 102) if quick else range(100, 110)
    won, both = dict.fromkeys(PEERS, 0), dict.fromkeys(PEERS, 0)
    for fit in (default_fit, *PEERS.values()):  # compile
        fit(*Draw(50, 60, 5, 0).learned())
    for seed in seeds:
        draw = Draw(2000, 200, 20, seed)
        (theta, passes), seconds = timed(default_fit, *draw.learned())
        ours, line = draw.excess(theta), f"  {seed}: "
        line += f"ours {ours:.5f} ({seconds:.2f}; {passes})"
        for name, fit in PEERS.items():
            (theta, passes), theirs = timed(fit, *draw.learned())
            risk = draw.excess(theta)
            won[name] += ours < risk
            both[name] += ours < risk and seconds < theirs
            line += f"  {name} {risk:.5f} ({theirs:.2f}{f'; {passes}' if passes else ''})"
        print(line, flush=True)
    for name in PEERS:
        print(f"  lower than {name} in {won[name]}, and in less time in {both[name]}, "
              f"of {len(seeds)}")  # fmt: skip


def default_fit(X, y):
    """Ours, with its defaults: parameters and passes."""
    model = ReflectronRegressor(link="logit", fit_intercept=False, random_state=0).fit(X, y)
    return model.coef_, model.n_iter_


def timed(function, *args):
    """The result of a function, and its CPU seconds."""
    start = time.process_time()
    out = function(*args)
    return out, time.process_time() - start


def projections(quick):
    """Bregman projections onto l1 balls: seconds, and the distance from the optimum."""
    d = 10**5 if quick else 10**6
    print(f"\nProjections onto l1 balls, d = {d}: worst seconds and optimality residual")
    rng = np.random.default_rng(0)
    for potential, scale in (
        (Euclidean(), 1.0), (Hypentropy(1e-6), 5.0), (Hypentropy(1e-4), 300.0),
        (PNorm(1.1), 1.0), (PNorm("log"), 1.0), (PNorm(1.01), 1.0),
    ):  # fmt: skip
        seconds, residual = 0.0, 0.0
        for radius in (1e-3, 1.0, 30.0):
            w = rng.standard_normal(d) * scale
            start = time.process_time()
            x, dual = L1Ball(radius).project(w, potential)
            seconds = max(seconds, time.process_time() - start)
            tau = np.abs(w) - np.abs(dual)
            kept, size = dual != 0.0, np.abs(w).max()
            off = max(0.0, tau[~kept].max(initial=0.0) - tau[kept].max()) / size
            feasible = max(0.0, np.abs(x).sum() / radius - 1.0)
            residual = max(residual, np.ptp(tau[kept]) / size, off, feasible)
        print(f"  {potential!r:26} {seconds:.3f} s  {residual:.1e}")


PARTS = {"figure": figure, "large": large, "recovery": recovery, "projections": projections}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes and few seeds")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas between")
    chosen = parser.parse_args()
    for part in chosen.only.split(","):
        PARTS[part](chosen.quick)
