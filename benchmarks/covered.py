"""Coverage in simulation: targets with atoms, new groups, counts over exposures, risks.

python benchmarks/covered.py [--parts PART ...] [--draws N]

90 % intervals of every estimator that has them, on 1,000 new rows of each draw. Held out: rows from
which the quantile of the interval is computed. 1 %: this quantile of the coverages of all draws.
Ideal: the same for an ideal conformal interval with as many held-out rows (a Beta distribution).
Estimators with fits of more than .3 s have a fifth of the draws. Groups: sixty groups of five rows
with a random effect; new rows are from new groups. Exposures range from e^-2 to e^2; the least
fifth is the fifth of the rows, in order of exposure, with the lowest mean coverage. Risks: how
often `risk_interval_` (95 %) contains the mean squared error on 20,000 new rows.
"""

import argparse
import warnings

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import beta

from _tables import console, table

ALPHA, NEW = 0.1, 1000
ESTIMATORS = (
    "RidgePathRegressor", "GLMRegressor", "PiSTOLRegressor", "KernelPiSTOLRegressor",
    "KernelRidgeRegressor", "TuneFreeRegressor",
)  # fmt: skip
SLOW = ("TuneFreeRegressor",)


def tens(rng, X, p=0.08):
    """10 or 0, whatever the columns."""
    return 10.0 * (rng.random(len(X)) < p)


def more_tens(rng, X):
    return tens(rng, X, 0.2)


def rare_amounts(rng, X):
    """Gamma amounts, 92 % of which are 0."""
    return rng.gamma(2.0, 3.0, len(X)) * tens(rng, X) / 10.0


def amounts(rng, X):
    """Amounts that depend on one column, and are 0 by another."""
    size = np.exp(X[:, 0] + 0.5 * rng.normal(size=len(X)))
    return size * (rng.random(len(X)) < 1.0 / (1.0 + np.exp(1.0 - X[:, 1])))


def grades(rng, X):
    """Four values."""
    return np.clip(np.round(X[:, 0] + 1.5 + 0.7 * rng.normal(size=len(X))), 0.0, 3.0)


def numbers(rng, X):
    """No atoms."""
    return X[:, 0] + rng.normal(size=len(X))


LAWS = {
    "8 % tens": tens, "20 % tens": more_tens, "8 % amounts": rare_amounts, "amounts": amounts,
    "grades": grades, "numbers": numbers,
}  # fmt: skip
FAMILIES = ("poisson", "negative_binomial", "gamma", "tweedie", "binomial")


def within(model, X, y, **terms):
    """Whether targets lie within their intervals, and the widths of these."""
    low, high = model.predict_interval(X, ALPHA, **terms)[1][..., 0].T
    return (y >= low) & (y <= high), high - low


def atom_draw(name, law, n, seed):
    import tunefree

    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + NEW, 3))
    y = LAWS[law](rng, X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = getattr(tunefree, name)(random_state=0).fit(X[:n], y[:n])
        inside, width = within(model, X[n:], y[n:])
    known = model.held_out_
    known = known if hasattr(known, "predictions") else known[0]
    return inside.mean(), width.mean(), len(known.weights)


def atoms(run, draws):
    lines = []
    for law in LAWS:
        for name in ESTIMATORS:
            for n in (100, 300, 1000):
                count = draws // 5 if name in SLOW else draws
                found = run(delayed(atom_draw)(name, law, n, s) for s in range(count))
                cover, width, held = map(np.array, zip(*found, strict=True))
                rows = int(np.median(held))
                rank = int(np.ceil((1.0 - ALPHA) * (rows + 1)))
                ideal = beta.ppf(0.01, rank, rows + 1 - rank)
                lines.append([law, name, n, rows, count, f"{cover.mean():.3f}",
                              f"{np.quantile(cover, 0.01):.3f}", f"{ideal:.3f}",
                              f"{np.mean(width):.3g}"])  # fmt: skip
                console.print(" ".join(map(str, lines[-1])), style="dim")
    columns = ["targets", "estimator", "n", "held out", "draws", "mean", "1 %", "ideal", "width"]
    table(f"atoms: coverage (asked {1.0 - ALPHA:g})", columns, lines)


def group_draw(noise, seed):
    import tunefree

    rng = np.random.default_rng(seed)
    A, effect, group = rng.normal(size=(60, 3)), rng.normal(size=60), np.repeat(np.arange(60), 5)
    X = A[group] + noise * rng.normal(size=(300, 3))
    y = A[group, 0] + effect[group] + 0.1 * rng.normal(size=300)
    model = tunefree.TuneFreeRegressor(random_state=0).fit(X, y, groups=group)
    new = rng.normal(size=(NEW, 3))
    return within(model, new, new[:, 0] + rng.normal(size=NEW))[0].mean()


def groups(run, draws):
    lines = []
    for words, noise in (("equal within a group", 0.0), ("near each other", 0.1)):
        found = run(delayed(group_draw)(noise, s) for s in range(max(20, draws // 10)))
        lines.append([words, len(found), f"{np.mean(found):.3f}", f"{min(found):.3f}",
                      f"{max(found):.3f}"])  # fmt: skip
    table("groups: coverage of new groups", ["columns", "draws", "mean", "least", "most"], lines)


def exposed(rng, family, exposure, mean):
    """Targets of a family over an exposure."""
    if family == "poisson":
        return rng.poisson(exposure * mean)
    if family == "negative_binomial":
        return rng.poisson(exposure * mean * rng.gamma(2.0, 0.5, len(mean)))
    if family == "gamma":
        return rng.gamma(2.0 * exposure, 0.5 * mean) + 1e-9
    if family == "tweedie":
        claims = rng.poisson(0.5 * exposure * mean)
        return rng.gamma(2.0 * np.maximum(claims, 1), 1.0) * (claims > 0)
    return rng.binomial(exposure.astype(int), mean / (1.0 + mean))


def exposure_draw(family, n, seed):
    import tunefree

    rng = np.random.default_rng(seed)
    X, exposure = rng.normal(size=(n + 3 * NEW, 4)), np.exp(rng.uniform(-2, 2, n + 3 * NEW))
    if family == "binomial":
        exposure = np.ceil(3.0 * exposure)
    y = exposed(rng, family, exposure, np.exp(0.5 * X[:, 0] + 1.0))
    model = tunefree.GLMRegressor(family=family, random_state=0)
    model.fit(X[:n], y[:n], exposure=exposure[:n])
    inside, _ = within(model, X[n:], y[n:], exposure=exposure[n:])
    return [part.mean() for part in np.array_split(inside[np.argsort(exposure[n:])], 5)]


def exposures(run, draws):
    lines = []
    for family in FAMILIES:
        for n in (300, 1500):
            found = run(delayed(exposure_draw)(family, n, s) for s in range(max(20, draws // 5)))
            fifths = np.mean(found, axis=0)
            lines.append([family, n, len(found), f"{fifths.mean():.3f}", f"{fifths.min():.3f}",
                          " ".join(f"{c:.3f}" for c in fifths)])  # fmt: skip
    columns = ["family", "n", "draws", "mean", "least fifth", "fifths of exposure"]
    table("exposures: coverage", columns, lines)


NOISES = {
    "normal": lambda rng, X: rng.normal(size=len(X)),
    "t3": lambda rng, X: rng.standard_t(3, len(X)),
    "uneven": lambda rng, X: np.abs(X[:, 1]) * rng.normal(size=len(X)),
}


def risk_draw(name, noise, n, seed):
    import tunefree

    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + 20 * NEW, 5))
    y = X[:, 0] + np.sin(2.0 * X[:, 1]) + NOISES[noise](rng, X)
    model = getattr(tunefree, name)(random_state=0).fit(X[:n], y[:n])
    low, high = model.risk_interval_
    return low <= np.mean(np.square(y[n:] - model.predict(X[n:]))) <= high


def risks(run, draws):
    lines = []
    for name in ESTIMATORS:
        for n in (50, 100, 300):
            count = draws // 5 if name in SLOW else draws
            found = [
                np.mean(run(delayed(risk_draw)(name, noise, n, s) for s in range(count)))
                for noise in NOISES
            ]
            lines.append([name, n, count, *(f"{share:.3f}" for share in found)])
    table("risk_interval_: covered (aim .95)", ["estimator", "n", "draws", *NOISES], lines)


PARTS = {"risks": risks, "atoms": atoms, "groups": groups, "exposures": exposures}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--draws", type=int, default=500)
    options = parser.parse_args()
    run = Parallel(n_jobs=-1)
    for part in options.parts:
        PARTS[part](run, options.draws)
    console.print(__doc__.split("\n\n", 2)[2].replace("\n", " "))


if __name__ == "__main__":
    main()
