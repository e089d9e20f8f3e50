"""Low-rank system identification: the paper's orderings, fast spectral steps, a complete fit.

    python benchmarks/dynamics.py [--quick] [--only orderings,steps,fit] [--sizes 50,100,200]
                                  [--seeds 0,1,2,3,4]

Excess risks repeat on any machine; times are CPU seconds of this one.
"""

import argparse
import time
import warnings

import numpy as np
from scipy.special import expit

from papers.datasets import make_low_rank_dynamics
from tunefree.core.process import one_blas_thread
from tunefree.engine.run import run
from tunefree.engine.sources import Batches
from tunefree.parts.links import Logit
from tunefree.reflectron import DynamicsReflectron
from tunefree.reflectron.constraints import LpBall, NuclearBall, SchattenBall
from tunefree.reflectron.mirror import Batch, Configuration, Mirror
from tunefree.reflectron.potentials import Euclidean, Hypentropy, PNorm, Spectral
from tunefree.reflectron.subspace import LowRank, place
from tunefree.rows.designs import Dense

RHO, HELD, TEST = 0.9, 60, 300
# (d, r, n), passes. States share a mean, which limits every step, and saturated units carry little
# information: at d = 200 all risks still fall after thousands of passes, so the order of the
# algorithms is read twice.
SIZES = (((50, 1, 50), 1500), ((100, 2, 100), 2000), ((200, 4, 200), 2500))
PATIENCE = 400
BASE = "GLM-tron + nuclear"
ALGORITHMS = (BASE, "p-norm 1.1", "hypentropy 1e-4")


def pairs(trajectories):
    """States, and the nonlinear part added to them."""
    d = trajectories.shape[2]
    now = trajectories[:, :-1].reshape(-1, d)
    return now, trajectories[:, 1:].reshape(-1, d) - RHO * now


def sheets(trajectories, n):
    """The first n trajectories to learn from, the next to choose the iterate; states as float32."""
    learn, held = pairs(trajectories[:n]), pairs(trajectories[n : n + HELD])
    blocks = [
        Batch(Dense(X.astype(np.float32)), y, np.ones(len(X)), m)
        for (X, y), m in ((learn, -1), (held, 0))
    ]
    return Batches(tuple(blocks))


def geometries(theta):
    """The paper's three, each with its ball of twice the true norm (section 6.2); more betas."""
    s = np.linalg.svd(theta, compute_uv=False)
    nuclear = NuclearBall(2.0 * float(s.sum()))
    return {
        BASE: (Euclidean(), nuclear),
        "p-norm 1.1": (Spectral(PNorm(1.1)), SchattenBall(1.1, 2.0 * LpBall(1.1).size(s))),
        **{f"hypentropy {b}": (Spectral(Hypentropy(float(b))), nuclear)
           for b in ("1e-6", "1e-4", "1e-2")},
    }  # fmt: skip


def orderings(quick, sizes, seeds):
    """Excess risk of the three algorithms on fresh trajectories, half way and at the end."""
    print("\nExcess risk half way and at the end (theory, d = 100: .085, .047, .044). All get the "
          "same passes; each ends\nearlier if its hold-out risk has not fallen by 0.1 % in "
          f"{PATIENCE} steps, or half as many as its progress took.\nThe iterate is that of the "
          f"lowest risk on {HELD} further trajectories so far. In brackets: how much that\n"
          "risk fell in the last tenth of the passes.")  # fmt: skip
    for (d, r, n), passes in SIZES:
        if str(d) not in sizes:
            continue
        below = {name: [0, 0] for name in ALGORITHMS[1:]}
        for seed in seeds:
            trajectories, theta = make_low_rank_dynamics(n + HELD + TEST, d, r, random_state=seed)
            all_of_them = geometries(theta)
            learner = Mirror(
                Logit(), tuple(LowRank(*all_of_them[a]) for a in ALGORITHMS), intercept=False,
                patience=PATIENCE,
            )  # fmt: skip
            X, _ = pairs(trajectories[n + HELD :])
            mean, seen = expit(X @ theta.T), {}

            def note(state, at=(passes // 2, passes - passes // 10), seen=seen, X=X, mean=mean):
                if state.passes in at:
                    seen[at.index(state.passes)] = excess_risks(state, X, mean), state.score

            start = time.process_time()
            result = run(
                learner, learner.init(d, d), sheets(trajectories, n), max_passes=passes,
                on_pass=note,
            )  # fmt: skip
            seconds, state = time.process_time() - start, result.state
            end = excess_risks(state, X, mean), state.score
            half, late = seen.get(0, end), seen.get(1, end)
            print(f"  d={d} r={r} n={n} seed {seed}: " + "  ".join(
                f"{name} {h:.4f} {e:.4f} ({100.0 * (b - a) / b:.1f} %)"
                for name, h, e, b, a in zip(ALGORITHMS, half[0], end[0], late[1], end[1],
                                            strict=True))
                + f"  [{result.n_passes} passes, {seconds:.0f} s]", flush=True)  # fmt: skip
            for name, h, e in zip(ALGORITHMS, half[0], end[0], strict=True):
                if name != BASE:
                    below[name][0] += h < half[0][0]
                    below[name][1] += e < end[0][0]
        print(f"  d={d}: below {BASE} half way and at the end on " + ", ".join(
            f"{h} and {e} seeds ({name})" for name, (h, e) in below.items()))  # fmt: skip


def excess_risks(state, X, mean):
    """Half the squared error of the noiseless next state, of every algorithm."""
    best = state.best.theta[:, 0]
    return [0.5 * np.mean(np.sum((expit(X @ t.T) - mean) ** 2, axis=1)) for t in best]


def steps(quick, *_):
    """The spectral step at d = 1000 and the full SVD, along a run."""
    d, r, n = (300, 6, 100) if quick else (1000, 20, 200)
    print(f"\nSpectral step at d = {d}: CPU milliseconds, all singular values / leading ones. "
          "'needs': how many\nsingular values cannot be replaced by a multiple of the matrix "
          "within a relative error of 1e-6")  # fmt: skip
    trajectories, theta = make_low_rank_dynamics(n + HELD, d, r, random_state=0)
    for name, (potential, ball) in geometries(theta).items():
        learner = Mirror(
            Logit(), (LowRank(potential, ball),), intercept=False, patience=10**6
        )  # fmt: skip
        source, state, ratios = sheets(trajectories, n), learner.init(d, d), []
        for passes in range(1, 10 if quick else 81):
            for block in source.blocks(passes):
                state = learner.scan(state, block)
            state, _ = learner.turn(state)
            if passes not in ((3, 6, 9) if quick else (10, 40, 80)):
                continue
            gradient, step = state.gradient[0, 0], state.step[0]
            dual, near = state.now.dual[0, 0] - step * gradient, state.now.theta[0, 0]
            exact, fast = [], []
            for _ in range(2):
                start = time.process_time()
                full = Configuration(potential, ball).place(dual[None])[0][0]
                exact.append(time.process_time() - start)
            for _ in range(9):
                start = time.process_time()
                found, _ = place(dual, potential, ball, near)
                fast.append(time.process_time() - start)
            error = np.linalg.norm(found - full) / np.linalg.norm(full)
            ratio = np.median(exact) / np.median(fast)
            ratios.append(ratio)
            print(f"  {name:<18} pass {passes:3d}: {1e3 * np.median(exact):6.0f} / "
                  f"{1e3 * np.median(fast):5.1f} = {ratio:5.1f} times, relative error "
                  f"{error:.0e}, needs {needed(full, dual, potential)}", flush=True)  # fmt: skip
        print(f"  {name:<18} smallest ratio {min(ratios):.1f}")


def needed(theta, dual, potential):
    """How many singular values of a point differ from a multiple of those of the dual by 1e-6."""
    base, counts = getattr(potential, "base", potential), []
    for slope in (0.0, float(base.metric_solve(np.zeros(1), np.ones(1))[0])):
        s = np.linalg.svd(theta - slope * dual, compute_uv=False)
        held_out = np.sqrt(np.cumsum(s[::-1] ** 2)[::-1])
        counts.append(int(np.sum(held_out > 1e-6 * np.linalg.norm(theta))))
    return min(counts)


def fit(quick, *_):
    """A complete fit with the defaults: rho is estimated, five potentials compete."""
    d, r, n = (50, 1, 50) if quick else (200, 4, 200)
    print(
        f"\nA complete fit with the defaults at (d, r, n) = ({d}, {r}, {n}); target 300 s, 2 cores"
    )
    trajectories, theta = make_low_rank_dynamics(n, d, r, random_state=0)
    start, wall = time.process_time(), time.perf_counter()
    model = DynamicsReflectron(random_state=0).fit(trajectories)
    error = np.linalg.norm(model.coef_ - theta) / np.linalg.norm(theta)
    print(f"  {time.process_time() - start:.0f} CPU s, {time.perf_counter() - wall:.0f} s; "
          f"rho_ {model.rho_:.3f}, rank_ {model.rank_}, relative error of Theta {error:.2f}, "
          f"{model.potential_!r}, {model.n_iter_} passes", flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, two seeds")
    parser.add_argument("--only", default="steps,fit,orderings")
    parser.add_argument("--sizes", help="those of the orderings; 50 if quick")
    parser.add_argument("--seeds", help="those of the orderings; 0,1 if quick")
    options = parser.parse_args()
    seeds = (options.seeds or ("0,1" if options.quick else "0,1,2,3,4")).split(",")
    sizes = (options.sizes or ("50" if options.quick else "50,100,200")).split(",")
    warnings.simplefilter("ignore")
    for name in options.only.split(","):
        {"orderings": orderings, "steps": steps, "fit": fit}[name](
            options.quick, sizes, [int(seed) for seed in seeds]
        )


if __name__ == "__main__":
    with one_blas_thread():  # as in a fit: some parts call the learner directly
        main()
