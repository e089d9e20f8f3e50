"""The low-rank systems of Boffi, Tu and Slotine 2021, section 6.2, and its three algorithms."""

import numpy as np
from scipy.special import expit

from tunefree.constraints import NuclearBall, SchattenBall
from tunefree.datasets import make_low_rank_dynamics
from tunefree.estimators.dynamics import DynamicsReflectron
from tunefree.experiments.style import COLOURS, MARKERS, finish, logarithmic
from tunefree.potentials import Euclidean, Hypentropy, PNorm, Spectral

RHO = 0.9
ALGORITHMS = ("GLM-tron", "p-norm", "hypentropy")


def geometry(algorithm, theta):
    """Potential and constraint of an algorithm: radii twice the truth's Schatten norms."""
    values = np.linalg.svd(theta, compute_uv=False)
    if algorithm == "p-norm":
        return Spectral(PNorm(1.1)), SchattenBall(1.1, 2.0 * np.linalg.norm(values, 1.1))
    ball = NuclearBall(2.0 * values.sum())
    return (Euclidean() if algorithm == "GLM-tron" else Spectral(Hypentropy(1e-3))), ball


def compute(cell):
    """Excess risk (half the squared error of the noiseless next state) on fresh trajectories."""
    d, n, r = cell["d"], cell["n"], cell["r"]
    found = make_low_rank_dynamics(n + 200, d, r, rho=RHO, random_state=cell["seed"])
    trajectories, theta = found
    potential, constraint = geometry(cell["algorithm"], theta)
    model = DynamicsReflectron(
        rho=RHO, potential=potential, constraint=constraint, max_iter=cell["most"],
        patience=200, random_state=0,
    ).fit(trajectories[:n])  # fmt: skip
    x = trajectories[n:, :-1].reshape(-1, d)
    gap = expit(x @ model.coef_.T) - expit(x @ theta.T)
    excess = 0.5 * np.square(gap).sum(axis=1).mean()
    return {"excess": excess, "risk": excess + 0.5 * d * 0.01 / 3.0, "rank": model.rank_}


def cells(quick, sizes):
    """(d, r, n) by algorithm by draw."""
    seeds, most = (2, 300) if quick else (5, 2000)
    return [
        {"d": d, "r": r, "n": n, "algorithm": a, "seed": s, "most": most}
        for d, r, n in sizes
        for a in ALGORITHMS
        for s in range(seeds)
    ]


def table(results, key):
    """Median excess risks, and whether the order is the paper's."""
    rows = []
    for value in sorted({c[key] for c, _ in results}):
        here = {
            a: np.median([m["excess"] for c, m in results if c[key] == value and
                          c["algorithm"] == a])
            for a in ALGORITHMS
        }  # fmt: skip
        ours = ", ".join(f"{a} {e:.4f}" for a, e in here.items())
        below = max(here["p-norm"], here["hypentropy"]) < here["GLM-tron"]
        order = "as in the paper" if below else "another order"
        rows.append(("median excess risk", "p-norm, hypentropy < GLM-tron", ours,
                     f"{key} = {value}: {order}"))  # fmt: skip
    return rows


def draw(figure, results, key, xlabel, title):
    """Medians with lowest and highest of the test risk, noise included."""
    ax = figure.subplots()
    x = sorted({c[key] for c, _ in results})
    for i, algorithm in enumerate(ALGORITHMS):
        points = [
            [m["risk"] for c, m in results if c[key] == v and c["algorithm"] == algorithm]
            for v in x
        ]
        middle = np.array([np.median(p) for p in points])
        low, high = np.array([min(p) for p in points]), np.array([max(p) for p in points])
        ax.errorbar(
            x, middle, [middle - low, high - middle], color=COLOURS[i], marker=MARKERS[i],
            markersize=4, capsize=3, label=algorithm,
        )  # fmt: skip
    logarithmic(ax)
    finish(ax, xlabel, "test risk (half squared error)", title)
