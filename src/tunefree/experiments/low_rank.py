"""The low-rank systems of Boffi, Tu and Slotine 2021, section 6.2, and its three algorithms."""

import numpy as np
from scipy.special import expit

from tunefree.constraints import NuclearBall, SchattenBall
from tunefree.datasets import make_low_rank_dynamics
from tunefree.designs import Dense
from tunefree.engine.run import run
from tunefree.engine.sources import Sheets
from tunefree.experiments.style import COLOURS, MARKERS, finish, logarithmic
from tunefree.learners.reflectron.mirror import Mirror
from tunefree.learners.reflectron.mirror_state import NONE, Sheet
from tunefree.learners.reflectron.subspace import LowRank
from tunefree.links import Logistic
from tunefree.potentials import Euclidean, Hypentropy, PNorm, Spectral

RHO, NOISE, HELD, TEST = 0.9, 0.1, 100, 100
ALGORITHMS = ("GLM-tron", "p-norm", "hypentropy")
PS, BETAS = (1.1, 1.3, 1.5), (1e-1, 1e-2, 1e-3)
# Steps of larger p and beta need all singular values: two of each where that takes long.
LARGE, LARGE_PS, LARGE_BETAS = 400, (1.2, 1.5), (1e-1, 1e-2)
_RACE = 0.2  # of the passes: then the parameter of the lowest held-out risk goes on alone


class System:
    """Trajectories in single precision: n to learn from, 100 to choose with, 100 to test on."""

    def __init__(self, d, r, n, seed):
        found = make_low_rank_dynamics(n + HELD + TEST, d, r, rho=RHO, random_state=seed)
        rows, self.theta = found[0].astype(np.float32), found[1]
        self.source = Sheets((_sheet(rows[:n], NONE), _sheet(rows[n : n + HELD], 0)))
        self._x = rows[n + HELD :, :-1].reshape(-1, d)

    def geometry(self, algorithm, parameter=None):
        """Potential and constraint of an algorithm: radii twice the truth's Schatten norms."""
        values = np.linalg.svd(self.theta, compute_uv=False)
        if algorithm == "p-norm":
            ball = SchattenBall(parameter, 2.0 * np.linalg.norm(values, parameter))
            return Spectral(PNorm(parameter)), ball
        ball = NuclearBall(2.0 * values.sum())
        return (Euclidean() if parameter is None else Spectral(Hypentropy(parameter))), ball

    def learner(self, algorithm, parameter, steps=(None,), patience=200):
        """The batch learner, of one or several steps side by side."""
        pair = self.geometry(algorithm, parameter)
        configurations = tuple(LowRank(*pair, step) for step in steps)
        return Mirror(Logistic(), configurations, intercept=False, patience=patience)

    def excess(self, theta):
        """Half the squared error of the noiseless next state, on the test trajectories."""
        gap = expit(self._x @ theta.T) - expit(self._x @ self.theta.T)
        return 0.5 * float(np.square(gap).sum(axis=1).mean())


def _sheet(trajectories, held):
    """States and what the nonlinear part added to them."""
    d = trajectories.shape[2]
    now = np.ascontiguousarray(trajectories[:, :-1].reshape(-1, d))
    added = trajectories[:, 1:].reshape(-1, d) - np.float32(RHO) * now
    return Sheet(Dense(now), added, np.ones(len(now), np.float32), held)


def parameters(algorithm, ps, betas):
    """What an algorithm is tuned by: p, beta or nothing."""
    return {"GLM-tron": (None,), "p-norm": ps, "hypentropy": betas}[algorithm]


def compute(cell, data):
    """Excess risk with the automatic step; p or beta, and when to stop, by the held-out risk."""
    system, size = System(cell["d"], cell["r"], cell["n"], cell["seed"]), (cell["d"], cell["d"])
    runs, first = [], int(_RACE * cell["most"])
    grids = (LARGE_PS, LARGE_BETAS) if cell["d"] > LARGE else (PS, BETAS)
    for parameter in parameters(cell["algorithm"], *grids):
        learner = system.learner(cell["algorithm"], parameter)
        result = run(learner, learner.init(*size), system.source, max_passes=first)
        runs.append((float(result.state.score[0]), parameter, learner, result))
    _, parameter, learner, result = min(runs, key=lambda found: found[0])
    state = result.state
    if not result.converged:
        state = run(learner, state, system.source, max_passes=cell["most"] - first).state
    theta = learner.read(state)[0]
    squares = np.cumsum(np.linalg.svd(theta, compute_uv=False) ** 2)
    excess = system.excess(theta)
    return {
        "excess": excess,
        "risk": excess + 0.5 * cell["d"] * NOISE**2 / 3.0,
        "parameter": "-" if parameter is None else parameter,
        "rank": int(np.sum(squares < 0.99 * squares[-1])) + 1,
        "passes": state.passes,
    }


def cells(sizes):
    """(d, r, n, draws, most passes) by algorithm by draw."""
    return [
        {"d": d, "r": r, "n": n, "algorithm": a, "seed": s, "most": most}
        for d, r, n, draws, most in sizes
        for a in ALGORITHMS
        for s in range(draws)
    ]


def _found(results, key, value, algorithm):
    return [m for c, m in results if c[key] == value and c["algorithm"] == algorithm]


def _values(results, key):
    """Where all algorithms have finished."""
    values = sorted({c[key] for c, _ in results})
    return [v for v in values if all(_found(results, key, v, a) for a in ALGORITHMS)]


def table(results, key):
    """Median excess risks, whether the order is the paper's, and what was chosen."""
    rows = []
    for value in _values(results, key):
        found = {a: _found(results, key, value, a) for a in ALGORITHMS}
        here = {a: np.median([m["excess"] for m in found[a]]) for a in ALGORITHMS}
        ours = ", ".join(f"{a} {e:.4f}" for a, e in here.items())
        below = max(here["p-norm"], here["hypentropy"]) < here["GLM-tron"]
        order = "as in the paper" if below else "another order"
        cell = next(c for c, _ in results if c[key] == value)
        draws = min(len(f) for f in found.values())
        setting = f"d = {cell['d']}, r = {cell['r']}, n = {cell['n']}, draws: {draws}"
        rows.append(("median excess risk", "p-norm, hypentropy < GLM-tron", ours,
                     f"{setting}, {cell['most']} passes: {order}"))  # fmt: skip
        ranks = ", ".join(f"{a} {np.median([m['rank'] for m in found[a]]):g}" for a in ALGORITHMS)
        chosen = ", ".join(f"{a} {found[a][0]['parameter']:g}" for a in ALGORITHMS[1:])
        rows.append(("rank (99 % of the squares); p, beta", f"truth: {cell['r']}",
                     f"{ranks}; {chosen}", setting))  # fmt: skip
    return rows


def draw(figure, results, key, xlabel, title):
    """Medians with lowest and highest of the test risk, noise included."""
    ax = figure.subplots()
    x = _values(results, key)
    for i, algorithm in enumerate(ALGORITHMS):
        points = [[m["risk"] for m in _found(results, key, v, algorithm)] for v in x]
        middle = np.array([np.median(p) for p in points])
        low, high = np.array([min(p) for p in points]), np.array([max(p) for p in points])
        ax.errorbar(
            x, middle, [middle - low, high - middle], color=COLOURS[i], marker=MARKERS[i],
            markersize=4, capsize=3, label=algorithm,
        )  # fmt: skip
    logarithmic(ax)
    finish(ax, xlabel, "test risk (half squared error)", title)
