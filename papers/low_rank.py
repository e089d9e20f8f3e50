"""The low-rank systems of Boffi, Tu and Slotine 2021, section 6.2, and its three algorithms."""

import numpy as np
from scipy.special import expit

from papers import Experiment
from papers.datasets import make_low_rank_dynamics
from papers.reflectron import ALGORITHMS, CLAIM, Samples, medians, order, shown, sized
from papers.style import COLOURS, MARKERS, finish
from tunefree.engine.run import run
from tunefree.engine.sources import Batches
from tunefree.parts.links import Logit
from tunefree.reflectron.constraints import NuclearBall, SchattenBall
from tunefree.reflectron.mirror import NONE, Batch, Mirror
from tunefree.reflectron.potentials import Euclidean, Hypentropy, PNorm, Spectral
from tunefree.reflectron.subspace import LowRank
from tunefree.rows.designs import Dense

RHO, NOISE, HELD, TEST = 0.9, 0.1, 100, 100


class System:
    """Trajectories in single precision: n to learn from, 100 to choose with, 100 to test on."""

    def __init__(self, d, r, n, seed):
        found = make_low_rank_dynamics(n + HELD + TEST, d, r, rho=RHO, random_state=seed)
        rows, self.theta = found[0].astype(np.float32), found[1]
        self.source = Batches((_batch(rows[:n], NONE), _batch(rows[n : n + HELD], 0)))
        self._x = rows[n + HELD :, :-1].reshape(-1, d)

    def learner(self, algorithm, parameter, steps=(None,), patience=200):
        """The batch learner, of one or several steps; radii twice the truth's Schatten norms."""
        values = np.linalg.svd(self.theta, compute_uv=False)
        ball = NuclearBall(2.0 * values.sum())
        if algorithm == "GLM-tron":
            potential = Euclidean()
        elif algorithm == "hypentropy":
            potential = Spectral(Hypentropy(parameter))
        else:
            potential = Spectral(PNorm(parameter))
            ball = SchattenBall(parameter, 2.0 * float(np.linalg.norm(values, parameter)))
        configurations = tuple(LowRank(potential, ball, step) for step in steps)
        return Mirror(Logit(), configurations, intercept=False, patience=patience)

    def excess(self, theta):
        """Half the squared error of the noiseless next state, on the test trajectories."""
        gap = expit(self._x @ theta.T) - expit(self._x @ self.theta.T)
        return 0.5 * float(np.square(gap).sum(axis=1).mean())


def _batch(trajectories, held):
    """States and what the nonlinear part added to them."""
    d = trajectories.shape[2]
    now = np.ascontiguousarray(trajectories[:, :-1].reshape(-1, d))
    added = trajectories[:, 1:].reshape(-1, d) - np.float32(RHO) * now
    return Batch(Dense(now), added, np.ones(len(now), np.float32), held)


def parameters(algorithm, ps, betas):
    """What an algorithm is tuned by: p, beta or nothing."""
    return {"GLM-tron": (None,), "p-norm": ps, "hypentropy": betas}[algorithm]


class LowRankSamples(Samples):
    """Risk of three geometries on a low-rank system against the number of trajectories."""

    PAPER = "Boffi, Tu and Slotine 2021, Figure 1e"
    TITLE = "Low-rank system: test risk against trajectories, d = 1000, r = 20"
    NOTES = """
The paper's size (quick: d = 60, r = 1), with the automatic step in place of its seven, 500 passes
in place of 5,000 iterations, and one draw in place of five. p (1.2, 1.5; small d: 1.1, 1.3, 1.5) or
beta (0.1, 0.01; small d: 0.001, too) is the one of the lowest risk on 100 held-out trajectories
after a fifth of the passes; the rest goes to it. Theta = A B' / sqrt(d): the paper does not state
its scale, so orders compare and risks do not. The paper prints no numbers. `low-rank-grid` runs the
paper's grid where that is affordable.
"""
    GRID = (1.1, 1.3, 1.5), (1e-1, 1e-2, 1e-3)  # p and beta
    # Steps of larger p and beta need all singular values: two of each where that takes long.
    LARGE, LARGE_GRID = 400, ((1.2, 1.5), (1e-1, 1e-2))
    RACE = 0.2  # of the passes: then the parameter of the lowest held-out risk goes on alone
    XLABEL, YLABEL = "trajectories n", "test risk (half squared error)"
    DRAWN = "risk"  # noise included
    SIZES = tuple(sized(1, d=1000, r=20, n=n, most=500) for n in (200, 500, 1000))
    QUICK = tuple(sized(2, d=60, r=1, n=n, most=400) for n in (20, 60))

    def compute(self, cell, data):
        """Excess risk with the automatic step; p or beta, and when to stop, by held-out risk."""
        system, size = System(cell["d"], cell["r"], cell["n"], cell["seed"]), (cell["d"], cell["d"])
        runs, first = [], int(self.RACE * cell["most"])
        grid = self.LARGE_GRID if cell["d"] > self.LARGE else self.GRID
        for parameter in parameters(cell["algorithm"], *grid):
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

    def table(self, results):
        """Median excess risks, whether the order is the paper's, and what was chosen."""
        rows = []
        for cell, found in self.groups(results):
            here, draws = medians(found, "excess"), min(map(len, found.values()))
            setting = f"d = {cell['d']}, r = {cell['r']}, n = {cell['n']}, draws: {draws}"
            passes = f"{setting}, {cell['most']} passes: {order(here)}"
            rows.append(("median excess risk", CLAIM, shown(here, ".4f"), passes))
            chosen = {a: found[a][0]["parameter"] for a in ALGORITHMS[1:]}
            ours = f"{shown(medians(found, 'rank'), 'g')}; {shown(chosen, 'g')}"
            what = "rank (99 % of the squares); p, beta"
            rows.append((what, f"truth: {cell['r']}", ours, setting))
        return rows


class LowRankDimension(LowRankSamples):
    """Risk of three geometries on systems that grow, with as many trajectories as states."""

    PAPER = "Boffi, Tu and Slotine 2021, Figure 1f"
    TITLE = "Low-rank systems: test risk against d, with n = d and r = d / 50"
    NOTES = """
d = 50, 100 and 200 with five draws and 400 with one, at most 5,000 passes as in the paper; 1000
with one draw and 500 passes, the point of Figure 1e (quick: 50 and 100, two draws, 400 passes).
The paper's largest is 1,200. Otherwise as for Figure 1e: the automatic step, p or beta chosen on
held-out trajectories, Theta = A B' / sqrt(d). The paper prints no numbers.
"""
    AXIS, XLABEL = "d", "d = n"
    SIZES = (
        *(sized(5, d=d, r=d // 50, n=d, most=5000) for d in (50, 100, 200)),
        sized(1, d=400, r=8, n=400, most=5000),
        sized(1, d=1000, r=20, n=1000, most=500),
    )
    QUICK = tuple(sized(2, d=d, r=d // 50, n=d, most=400) for d in (50, 100))


class LowRankGrid(Experiment):
    """The paper's grid of fixed steps on low-rank systems, beside the automatic step."""

    PAPER = "Boffi, Tu and Slotine 2021, Figures 1e-1f, the grid of appendix A.2"
    TITLE = "Low-rank systems, n = d: the paper's grid and the automatic step"
    NOTES = """
Seven steps from 1e-4 to 0.1, five p from 1.1 to 1.5 and five beta from 1e-4 to 1, each for 5,000
iterations as in the paper, at d = 50, 100 and 200 (quick: d = 50, three steps, two p and beta, 300
iterations); a fixed step ends early when 1,000 iterations bring no progress, an automatic one when
200 bring none. Both choose p or beta, and the iterate, by the risk on 100 held-out trajectories;
the grid its step, too. One draw; Theta = A B' / sqrt(d), whose scale the paper does not state.
"""
    STEPS = (0.1, 0.05, 0.01, 0.005, 0.001, 0.0005, 0.0001)
    PS, BETAS = (1.1, 1.2, 1.3, 1.4, 1.5), (1.0, 1e-1, 1e-2, 1e-3, 1e-4)

    def cells(self, quick):
        """Size by algorithm by p or beta, by kind of step."""
        few = slice(0, None, 3) if quick else slice(None)
        sizes = ((50, 300),) if quick else ((50, 5000), (100, 5000), (200, 5000))
        return [
            {"d": d, "algorithm": a, "parameter": p, "steps": steps, "most": most}
            for d, most in sizes
            for a in ALGORITHMS
            for p in parameters(a, self.PS[few], self.BETAS[few])
            for steps in (list(self.STEPS[few]), [None])
        ]

    def compute(self, cell, data):
        """The lowest held-out risk of the steps, its step and pass, and the excess risk there."""
        d, automatic = cell["d"], cell["steps"] == [None]
        system = System(d, d // 50, d, seed=0)
        patience = 200 if automatic else 1000
        learner = system.learner(cell["algorithm"], cell["parameter"], cell["steps"], patience)
        with np.errstate(all="ignore"):  # steps that are too large
            state = run(learner, learner.init(d, d), system.source, max_passes=cell["most"]).state
        best = learner.chosen(state)
        return {
            "held risk": 0.5 * float(state.score[best]),
            "excess": system.excess(learner.read(state)[0]),
            "step": cell["steps"][best] or "auto",
            "at": int(state.best_at[best]),
            "passes": int(state.passes) * (1 if automatic else len(cell["steps"])),
        }

    def _best(self, results, *which):
        """The cell of the lowest held-out risk, and the passes of all of them."""
        found = [
            (c, n) for c, n in results if (c["d"], c["algorithm"], c["steps"] == [None]) == which
        ]
        chosen = min(found, key=lambda pair: pair[1]["held risk"])
        return (*chosen, sum(n["passes"] for _, n in found))

    def table(self, results):
        """Excess risks and passes of both, and what they chose."""
        rows = []
        for d in sorted({c["d"] for c, _ in results}):
            for algorithm in ALGORITHMS:
                for automatic in (False, True):
                    cell, numbers, passes = self._best(results, d, algorithm, automatic)
                    chosen = "" if cell["parameter"] is None else f" at {cell['parameter']:g}"
                    claim = "at most GLM-tron's" if algorithm != "GLM-tron" else "-"
                    excess = f"excess {numbers['excess']:.4f} after {numbers['at']}"
                    setting = f"d = {d}, {'automatic' if automatic else 'grid'}"
                    name, found = f"{algorithm}{chosen}", f"{excess}; passes {passes:,}"
                    rows.append((f"{name}, step {numbers['step']}", claim, found, setting))
        return rows

    def draw(self, figure, results):
        """Excess risks against d: the grid dashed and hollow, the automatic step solid."""
        ax = figure.subplots()
        x = sorted({c["d"] for c, _ in results})
        for i, algorithm in enumerate(ALGORITHMS):
            for automatic, line in ((False, "--"), (True, "-")):
                y = [self._best(results, d, algorithm, automatic)[1]["excess"] for d in x]
                label = f"{algorithm}, {'automatic' if automatic else 'grid'}"
                fill = COLOURS[i] if automatic else "none"
                look = {"marker": MARKERS[i], "color": COLOURS[i], "markersize": 6}
                ax.plot(x, y, line, **look, label=label, markerfacecolor=fill)
        finish(ax, "d = n", "excess test risk (half squared error)", self.TITLE)
