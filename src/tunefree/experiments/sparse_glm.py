"""The sparse problem of Boffi, Tu and Slotine 2021, section 6.1, and its three algorithms."""

import numpy as np
from scipy.special import expit

from tunefree.constraints import L1Ball, LpBall
from tunefree.estimators.reflectron.regressor import ReflectronRegressor
from tunefree.potentials import Euclidean, Hypentropy, PNorm

ALGORITHMS = ("GLM-tron", "p-norm", "hypentropy")
# The automatic step's counterparts of the paper's grids.
PS, BETAS = (1.1, 1.2, 1.3), (1e-2, 1e-4)


class Problem:
    """x uniform in [-1, 1]^d, y = sigmoid(<theta, x>) + 0.1 uniform, theta s-sparse and normal."""

    def __init__(self, d, n, seed, s=None, n_held=500, n_test=1000):
        rng = np.random.default_rng(seed)
        self.theta = np.zeros(d)
        s = d // 100 if s is None else s
        self.theta[rng.choice(d, s, replace=False)] = rng.standard_normal(s)
        self.X, self.y = self._rows(rng, n)
        self.X_held, self.y_held = self._rows(rng, n_held)
        self.X_test, self.y_test = self._rows(rng, n_test)

    def _rows(self, rng, n):
        X = rng.uniform(-1.0, 1.0, (n, len(self.theta)))
        return X, expit(X @ self.theta) + 0.1 * rng.uniform(-1.0, 1.0, n)

    def geometry(self, algorithm, ps=PS, betas=BETAS):
        """Potentials and constraint of an algorithm: radii twice the truth's norms."""
        if algorithm == "p-norm":
            radii = [2.0 * np.linalg.norm(self.theta, p) for p in ps]
            return [(PNorm(p), LpBall(p, r)) for p, r in zip(ps, radii, strict=True)]
        ball = L1Ball(2.0 * np.abs(self.theta).sum())
        potentials = [Euclidean()] if algorithm == "GLM-tron" else [Hypentropy(b) for b in betas]
        return [(potential, ball) for potential in potentials]

    def fit(self, potential, constraint, *, step="auto", max_iter=1000, patience=None):
        """Learn with the iterate, and the step if there are several, chosen on the held-out rows.

        The automatic step's patience is long: the Euclidean risk has an early false minimum.
        """
        model = ReflectronRegressor(
            potential=potential, constraint=constraint, step=step, fit_intercept=False,
            standardize=False, max_iter=max_iter, patience=patience or max_iter, random_state=0,
        )  # fmt: skip
        return model.fit(self.X, self.y, X_val=self.X_held, y_val=self.y_held)

    def test_error(self, model):
        """Mean squared error on test rows, noise included."""
        return float(np.mean((model.predict(self.X_test) - self.y_test) ** 2))

    def best(self, algorithm, max_iter, patience=400):
        """The geometry of lowest held-out risk with the automatic step: risk, error, passes."""
        found = []
        for potential, constraint in self.geometry(algorithm):
            model = self.fit(potential, constraint, max_iter=max_iter, patience=patience)
            risk = model.leaderboard_[0]["risk"]
            found.append((risk, self.test_error(model), model.n_iter_))
        return min(found)


def error_cells(quick, sizes):
    """Cells of the figures of test errors: (d, n) by algorithm by seed."""
    seeds = range(2 if quick else 5)
    return [
        {"d": d, "n": n, "algorithm": a, "seed": s, "most": 400 if quick else 3000}
        for d, n in sizes
        for a in ALGORITHMS
        for s in seeds
    ]


def compute(cell, data):
    """Test error of one algorithm on one draw."""
    problem = Problem(cell["d"], cell["n"], cell["seed"])
    risk, error, passes = problem.best(cell["algorithm"], cell["most"])
    return {"held risk": risk, "test error": error, "passes": passes}


def medians(results, key):
    """Median, lowest and highest test error by algorithm, along one parameter."""
    out = {}
    for algorithm in ALGORITHMS:
        points = {}
        for cell, numbers in results:
            if cell["algorithm"] == algorithm:
                points.setdefault(cell[key], []).append(numbers["test error"])
        x = sorted(points)
        out[algorithm] = (
            np.array(x),
            np.array([np.median(points[v]) for v in x]),
            np.array([min(points[v]) for v in x]),
            np.array([max(points[v]) for v in x]),
        )
    return out
