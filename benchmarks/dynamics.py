"""Low-rank system identification: the paper's orderings, fast spectral steps, a complete fit.

    python benchmarks/dynamics.py [--quick] [--only orderings,steps,fit]

Excess risks repeat on any machine; times are CPU seconds of this one, with one BLAS thread if
OPENBLAS_NUM_THREADS=1 is set.
"""

import argparse
import time
import warnings

import numpy as np
from scipy.special import expit

from tunefree import DynamicsReflectron
from tunefree.constraints import LpBall, NuclearBall, SchattenBall
from tunefree.datasets import make_low_rank_dynamics
from tunefree.designs import Dense
from tunefree.engine.run import run
from tunefree.engine.sources import Sheets
from tunefree.learners.mirror import Mirror
from tunefree.learners.mirror_state import Configuration, Sheet
from tunefree.learners.subspace import LowRank, place
from tunefree.links import Logistic
from tunefree.potentials import Euclidean, Hypentropy, PNorm, Spectral

RHO, HELD, TEST = 0.9, 100, 300
# (d, r, n), passes: saturated sigmoids make large systems slow.
SIZES = (((50, 1, 50), 2000), ((100, 2, 100), 3000), ((200, 4, 200), 4000))


def pairs(trajectories):
    """States, and what the nonlinear part added to them."""
    d = trajectories.shape[2]
    now = trajectories[:, :-1].reshape(-1, d)
    return now, trajectories[:, 1:].reshape(-1, d) - RHO * now


def sheets(trajectories, n):
    """The first n trajectories to learn from, the next to choose the iterate."""
    learn, held = pairs(trajectories[:n]), pairs(trajectories[n : n + HELD])
    blocks = [Sheet(Dense(X), y, np.ones(len(X)), m) for (X, y), m in ((learn, -1), (held, 0))]
    return Sheets(tuple(blocks))


def geometries(theta):
    """The paper's three, each with its ball of twice the true norm (section 6.2)."""
    s = np.linalg.svd(theta, compute_uv=False)
    nuclear = NuclearBall(2.0 * float(s.sum()))
    return {
        "GLM-tron + nuclear": (Euclidean(), nuclear),
        "p-norm 1.1": (Spectral(PNorm(1.1)), SchattenBall(1.1, 2.0 * LpBall(1.1).size(s))),
        "hypentropy 1e-4": (Spectral(Hypentropy(1e-4)), nuclear),
        "hypentropy 1e-2": (Spectral(Hypentropy(1e-2)), nuclear),
    }


def orderings(quick):
    """Excess risk of the three geometries on fresh trajectories."""
    print("\nExcess risk, iterate chosen on 100 further trajectories (theory, d = 100: .085, .047, "
          ".044)")  # fmt: skip
    for (d, r, n), passes in SIZES[: 1 if quick else 3]:
        wins = {}
        for seed in range(2 if quick else 5):
            trajectories, theta = make_low_rank_dynamics(n + HELD + TEST, d, r, random_state=seed)
            names = geometries(theta)
            learner = Mirror(
                Logistic(), tuple(LowRank(*g) for g in names.values()), intercept=False,
                patience=400,
            )  # fmt: skip
            start = time.process_time()
            result = run(
                learner, learner.init(d, d), sheets(trajectories, n), max_passes=passes
            )  # fmt: skip
            seconds = time.process_time() - start
            X, _ = pairs(trajectories[n + HELD :])
            mean = expit(X @ theta.T)
            excess = {
                name: 0.5 * np.mean(np.sum((expit(X @ t.T) - mean) ** 2, axis=1))
                for name, t in zip(names, result.state.best.theta, strict=True)
            }
            line = "  ".join(f"{name} {value:.4f}" for name, value in excess.items())
            print(f"  d={d} r={r} n={n} seed {seed}: {line}  ({result.n_passes} passes, "
                  f"{seconds:.0f} s)", flush=True)  # fmt: skip
            base = excess.pop("GLM-tron + nuclear")
            for name, value in excess.items():
                wins[name] = wins.get(name, 0) + (value < base)
        print(f"  d={d}: below GLM-tron + nuclear on " + ", ".join(
            f"{count} seeds ({name})" for name, count in wins.items()))  # fmt: skip


def steps(quick):
    """The spectral step at d = 1000 beside the full SVD, along a run."""
    d, r, n = (300, 6, 100) if quick else (1000, 20, 200)
    print(f"\nSpectral step at d = {d}: CPU milliseconds, all singular values / leading ones")
    trajectories, theta = make_low_rank_dynamics(n + HELD, d, r, random_state=0)
    ratios = {}
    for name, (potential, ball) in geometries(theta).items():
        learner = Mirror(
            Logistic(), (LowRank(potential, ball),), intercept=False, patience=10**6
        )  # fmt: skip
        source, state = sheets(trajectories, n), learner.init(d, d)
        for passes in range(1, 10 if quick else 41):
            for block in source.blocks(passes):
                state = learner.scan(state, block)
            state, _ = learner.turn(state)
            if passes % (3 if quick else 10):
                continue
            gradient, step = state.gradient[0, 0], state.step[0]
            dual, near = state.now.dual[0, 0] - step * gradient, state.now.theta[0, 0]
            exact, fast = [], []
            for _ in range(3):
                start = time.process_time()
                full = Configuration(potential, ball).place(dual[None])[0][0]
                exact.append(time.process_time() - start)
            for _ in range(9):
                start = time.process_time()
                found, _ = place(dual, potential, ball, near)
                fast.append(time.process_time() - start)
            error = np.linalg.norm(found - full) / np.linalg.norm(full)
            ratio = np.median(exact) / np.median(fast)
            ratios.setdefault(name, []).append(ratio)
            print(f"  {name:<20} pass {passes:3d}: {1e3 * np.median(exact):6.0f} / "
                  f"{1e3 * np.median(fast):5.1f} = {ratio:5.1f} times, relative error "
                  f"{error:.0e}", flush=True)  # fmt: skip
    everything = [x for each in ratios.values() for x in each]
    print(f"  median ratio {np.median(everything):.1f}, smallest {min(everything):.1f}")


def fit(quick):
    """A complete fit with the defaults, rho given and rho estimated."""
    d, r, n = (50, 1, 50) if quick else (200, 4, 200)
    print(f"\nA complete default fit at (d, r, n) = ({d}, {r}, {n})")
    trajectories, theta = make_low_rank_dynamics(n, d, r, random_state=0)
    for rho in (RHO, None):
        start, wall = time.process_time(), time.perf_counter()
        model = DynamicsReflectron(rho=rho, random_state=0).fit(trajectories)
        error = np.linalg.norm(model.coef_ - theta) / np.linalg.norm(theta)
        print(f"  rho={rho}: {time.process_time() - start:.0f} CPU s, "
              f"{time.perf_counter() - wall:.0f} s; rho_ {model.rho_:.3f}, rank_ {model.rank_}, "
              f"relative error of Theta {error:.2f}, {model.potential_!r}, {model.n_iter_} passes",
              flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, two seeds")
    parser.add_argument("--only", default="steps,fit,orderings")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in options.only.split(","):
        {"orderings": orderings, "steps": steps, "fit": fit}[name](options.quick)


if __name__ == "__main__":
    main()
