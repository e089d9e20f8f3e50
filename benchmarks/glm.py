"""Generalized linear models against glum, scikit-learn, statsmodels and skglm, in one process.

    python benchmarks/glm.py [tables] [simulation] [peers] [large] [exposure] [quantiles]
                             [--seeds N] [--every N]

tables      held-out deviance on real tables (`_glm_tables.py` has the rule that chose them): the
            learned link and 'auto' against the best, on the held-out rows, of seven pairs of family
            and link in glum, with a ridge penalty by five-fold cross-validation.
simulation  the same with a known true link: against the fit with that link, and with a wrong fixed
            one.
peers       60,000 rows of 20 numbers, Poisson: defaults against glum, scikit-learn, statsmodels and
            skglm, each with the penalty of a grid that is best on the held-out rows.
large       600,000 rows, 39 numbers and a category of 300 levels, Poisson: defaults against glum
            with the penalty of its grid that is best on the held-out rows, for the same data frame,
            and for a split matrix of tabmat, whose construction is not counted.
exposure    10^5 and 10^6 policies with an exposure and two factors, Poisson: potential='none'
            against glum without a penalty, and defaults against glum with alpha=1e-4.
quantiles   pinball loss, coverage and CPU seconds against scikit-learn's QuantileRegressor (HiGHS)
            with alpha by five-fold cross-validation.

Times are CPU seconds of all threads; ratios are ours / theirs.
"""

import argparse
import functools
import itertools
import os
import signal
import time
import warnings

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # threads that wait do not count as work

import numpy as np

from _glm_tables import tables
from tunefree import GLMRegressor
from tunefree.parts.families import FAMILIES, Quantile
from tunefree.parts.links import LINKS

# Pairs of glum: name, family, link.
COUNTS = [("poisson", "log"), ("negative.binomial", "log"), ("negative.binomial (0.3)", "log"),
          ("tweedie (1.2)", "log"), ("tweedie (1.5)", "log"), ("normal", "log"),
          ("normal", "identity")]  # fmt: skip
AMOUNTS = [("gamma", "log"), ("poisson", "log"), ("tweedie (1.5)", "log"),
           ("inverse.gaussian", "log"), ("negative.binomial", "log"), ("normal", "log"),
           ("normal", "identity")]  # fmt: skip
# A pair of glum that takes more CPU seconds on a table (it does not converge) is skipped there,
# with its seconds.
PATIENCE, EVERY = 15, 1
JUDGES = {"counts": FAMILIES["poisson"], "amounts": FAMILIES["gamma"]}


def clocked(fit, *arguments):
    """The result of a function, and its CPU seconds."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = fit(*arguments)
    return found, time.process_time() - start


def deviance(judge, y, mean, least):
    """The mean deviance of means, which are at least the smallest positive training target."""
    return float(np.mean(judge.deviance(y, np.maximum(mean, least))))


def halves(n, seed, share=0.25):
    """Training rows and held-out rows."""
    order = np.random.default_rng(seed).permutation(n)
    cut = int(n * (1 - share))
    return order[:cut], order[cut:]


def glum_cv(X, y, family, link):
    """The ridge path of glum, with a penalty by cross-validation, as in its documentation."""
    from glum import GeneralizedLinearRegressorCV

    model = GeneralizedLinearRegressorCV(
        l1_ratio=0.0, family=family, link=link, cv=5, scale_predictors=True
    )
    signal.signal(signal.SIGPROF, _enough)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    try:
        return model.fit(X, y)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _enough(*_):
    raise ValueError("more than enough")


def on_tables(seeds):
    """Print, for every table, our deviances over those of the best pair of glum."""
    print("Held-out deviance over the best of glum's seven pairs on the rows held out "
          f"(Poisson's for\ncounts, gamma's for amounts), mean of {seeds} splits; CPU seconds of "
          "one split.\n")  # fmt: skip
    names = "learned", "auto", "default"
    head = " ".join(f"{n:>8}" for n in names) + f" {'own pair':>9} {'s glum':>7} {'s auto':>7}"
    print(f"{'table':30} {'rows':>6} {'cols':>4} {'best of glum':28} {head}")
    rows = []
    for table in itertools.islice(tables(), 0, None, EVERY):
        judge, pairs = JUDGES[table.kind], COUNTS if table.kind == "counts" else AMOUNTS
        theirs, ours = np.full((seeds, len(pairs)), np.inf), np.zeros((seeds, len(names)))
        spent = np.zeros((seeds, 1 + len(names)))
        for seed in range(seeds):
            learn, held = halves(len(table.y), seed)
            X, y = table.X[learn], table.y[learn]
            middle, scale = X.mean(axis=0), X.std(axis=0)
            Z, Z_held = ((part - middle) / np.where(scale > 0, scale, 1.0)
                         for part in (X, table.X[held]))  # fmt: skip
            least = 0.5 * y[y > 0].min()
            for i, (family, link) in enumerate(pairs):
                try:
                    model, seconds = clocked(glum_cv, Z, y, family, link)
                    mean = model.predict(Z_held)
                except (ValueError, FloatingPointError, np.linalg.LinAlgError):
                    continue
                spent[seed, 0] += seconds
                found = deviance(judge, table.y[held], mean, least)
                theirs[seed, i] = found if np.isfinite(found) else np.inf
            for i, name in enumerate(names):
                family = "poisson" if table.kind == "counts" else "gamma"
                link = None if name == "default" else name
                model = GLMRegressor(family, link, random_state=seed)
                model, spent[seed, 1 + i] = clocked(model.fit, X, y)
                with np.errstate(all="ignore"):
                    mean = model.predict(table.X[held])
                ours[seed, i] = deviance(judge, table.y[held], mean, least)
        means, best = theirs.mean(axis=0), int(np.argmin(theirs.mean(axis=0)))
        ratio = ours.mean(axis=0) / means[best]
        rows.append([*ratio, means[0] / means[best], *spent.mean(axis=0)])
        name = " ".join(pairs[best])
        print(f"{table.name:30} {len(table.y):6} {table.X.shape[1]:4} {name:28} "
              + " ".join(f"{r:8.3f}" for r in ratio)
              + " {3:9.3f} {4:7.2f} {6:7.2f}".format(*rows[-1]), flush=True)  # fmt: skip
    rows = np.array(rows)
    print(f"\n{len(rows)} tables. Geometric mean of the ratios, and tables within 1.01:")
    for i, name in enumerate((*names, "glum's own pair")):
        within, known = int(np.sum(rows[:, i] <= 1.01)), rows[np.isfinite(rows[:, i]), i]
        print(f"{name:16} {np.exp(np.mean(np.log(known))):.4f} {within:4} of {len(rows)}, "
              f"worst {rows[:, i].max():.3f}, best {rows[:, i].min():.3f}")  # fmt: skip
    for i, name in enumerate(names):
        print(f"CPU seconds of {name} over those of glum's seven pairs: "
              f"{rows[:, 5 + i].sum() / rows[:, 4].sum():.3f} in all, median "
              f"{np.median(rows[:, 5 + i] / rows[:, 4]):.3f}")  # fmt: skip


def on_simulations(seeds):
    """Print excess risks with the true link, a learned one, and a wrong one."""
    print("\nSimulation: 2,000 rows, 10 columns; held-out deviance over that of the fit with the "
          f"true link, mean of {seeds} draws\n")  # fmt: skip
    print(f"{'family':10} {'true link':10} {'learned':>8} {'auto':>8} {'wrong, fixed':>13}")
    for family, true, wrong in (
        ("poisson", "log", "softplus"), ("poisson", "softplus", "log"),
        ("binomial", "logit", "cloglog"), ("binomial", "cloglog", "probit"),
        ("gaussian", "tanh", "identity"), ("gaussian", "identity", "tanh"),
    ):  # fmt: skip
        risks = np.zeros((seeds, 4))
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            X, theta = rng.normal(size=(22_000, 10)), rng.normal(size=10) / np.sqrt(10)
            mean = LINKS[true].mean((1.0 if true == "log" else 2.0) * X @ theta + 0.5)
            if family == "poisson":
                y = rng.poisson(mean).astype(float)
            elif family == "binomial":
                y = (rng.random(len(mean)) < mean).astype(float)
            else:
                y = mean + 0.3 * rng.normal(size=len(mean))
            for i, link in enumerate((true, "learned", "auto", wrong)):
                model = GLMRegressor(family, link, random_state=seed)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model.fit(X[:2000], y[:2000])
                judge = FAMILIES[family]
                p = judge.clipped(model.predict(X[2000:]))
                risks[seed, i] = np.mean(judge.deviance(y[2000:], p))
        ratio = risks.mean(axis=0) / risks[:, 0].mean()
        print(f"{family:10} {true:10} {ratio[1]:8.4f} {ratio[2]:8.4f} {wrong:>10} {ratio[3]:.4f}",
              flush=True)  # fmt: skip


def on_peers(seeds, n=60_000):
    """Print deviances and seconds of other packages on a Poisson regression of numbers."""
    import statsmodels.api as sm
    from glum import GeneralizedLinearRegressor
    from skglm import GeneralizedLinearEstimator
    from skglm.datafits import Poisson
    from skglm.penalties import L1
    from skglm.solvers import ProxNewton
    from sklearn.linear_model import PoissonRegressor

    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 20))
    y = rng.poisson(np.exp(X @ rng.normal(size=20) * 0.1 - 1.0)).astype(float)
    learn, held, judge = slice(0, 50_000), slice(50_000, n), FAMILIES["poisson"]
    grid = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)

    def of_statsmodels(_):
        model = sm.GLM(y[learn], sm.add_constant(X[learn]), family=sm.families.Poisson()).fit()
        return lambda Z: model.predict(sm.add_constant(Z))

    peers = {
        "glum": (grid, lambda a: GeneralizedLinearRegressor(
            family="poisson", alpha=a, l1_ratio=0.0).fit(X[learn], y[learn]).predict),
        "scikit-learn": (grid, lambda a: PoissonRegressor(alpha=a).fit(X[learn], y[learn]).predict),
        "statsmodels": ((0.0,), of_statsmodels),
        "skglm": (grid, lambda a: _rate(GeneralizedLinearEstimator(
            Poisson(), L1(a), ProxNewton()).fit(X[learn], y[learn]))),
        "tunefree": ((None,), lambda _: GLMRegressor(
            family="poisson", random_state=0).fit(X[learn], y[learn]).predict),
    }  # fmt: skip
    print("\n60000 rows x 20 numbers, Poisson: 50,000 to learn from; the best penalty of each\n")
    for name, (penalties, fit) in peers.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit(penalties[-1])  # imports, and what compiles at the first call
        found = []
        for penalty in penalties:
            predict, seconds = clocked(fit, penalty)
            found.append((deviance(judge, y[held], predict(X[held]), 1e-9), seconds, penalty))
        best = min(found, key=lambda each: each[0])
        penalty = "" if len(penalties) == 1 else f", penalty {best[2]:g}"
        print(f"{name + penalty:24} deviance {best[0]:.6f}  {best[1]:6.3f} s CPU", flush=True)


def _rate(model):
    """The mean of skglm's Poisson regression, which predicts the index."""
    return lambda Z: np.exp(Z @ model.coef_ + model.intercept_)


def on_large(seeds, n=600_000):
    """Print deviance and seconds on many rows with a category."""
    import pandas as pd
    import tabmat
    from glum import GeneralizedLinearRegressor

    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(n, 39))
    level = np.minimum((300 * rng.random(n) ** 2).astype(int), 299)
    effect = np.r_[rng.normal(size=39) * 0.1, rng.normal(size=300) * 0.3]
    y = rng.poisson(np.exp(numbers @ effect[:39] + effect[39 + level] - 1.0)).astype(float)
    frame = pd.DataFrame(numbers, columns=[f"x{j}" for j in range(39)])
    frame["level"] = pd.Categorical(level)
    learn, held = slice(0, 500_000), slice(500_000, n)
    judge, matrix = FAMILIES["poisson"], tabmat.from_pandas(frame)
    print(f"\n{n} rows x 40 columns, one of 300 levels, Poisson: 500,000 to learn from\n")

    def theirs(alpha, rows):
        model = GeneralizedLinearRegressor(family="poisson", alpha=alpha, l1_ratio=0.0)
        return model.fit(rows[learn], y[learn])

    found = []
    for alpha in (1e-6, 1e-5, 1e-4, 1e-3, 1e-2):
        model, seconds = clocked(theirs, alpha, frame)
        loss = deviance(judge, y[held], model.predict(frame[held]), 1e-9)
        found.append((loss, alpha))
        print(f"glum, alpha {alpha:<8g} deviance {loss:.6f}  {seconds:6.2f} s CPU", flush=True)
    best, alpha = min(found)

    def ours():
        model = GLMRegressor(family="poisson", random_state=0)
        return model.fit(frame[learn], y[learn])

    spent = np.array([[clocked(theirs, alpha, frame)[1], clocked(theirs, alpha, matrix)[1],
                       clocked(ours)[1]] for _ in range(5)])  # fmt: skip
    loss = deviance(judge, y[held], ours().predict(frame[held]), 1e-9)
    framed, split, mine = np.median(spent, axis=0)
    print(
        f"medians of 5: glum at its best {framed:.2f} s from the frame, {split:.2f} s from a "
        f"split matrix\ntunefree, defaults   deviance {loss:.6f}  {mine:6.2f} s CPU from the "
        f"frame\nours by glum's at its best penalty: deviance {loss / best:.5f}, seconds "
        f"{mine / framed:.2f} from the frame, {mine / split:.2f} by its split matrix"
    )


def _policies(n, seed):
    """Policies with two factors, their exposure, and counts of claims."""
    import pandas as pd

    rng, fixed = np.random.default_rng(seed), np.random.default_rng(9)
    region, brand = rng.integers(0, 22, n), rng.integers(0, 11, n)
    age, power, bonus = rng.integers(18, 90, n), rng.integers(4, 15, n), rng.integers(50, 150, n)
    index = fixed.normal(0.0, 0.2, 22)[region] + fixed.normal(0.0, 0.2, 11)[brand]
    index += 0.03 * (power - 8.0) - 0.006 * (age - 50.0) + 0.02 * np.maximum(bonus - 60.0, 0.0)
    exposure = rng.uniform(0.05, 1.0, n)
    frame = pd.DataFrame({"age": 1.0 * age, "power": 1.0 * power, "bonus": 1.0 * bonus})
    frame["region"] = pd.Categorical.from_codes(region, [f"r{j}" for j in range(22)])
    frame["brand"] = pd.Categorical.from_codes(brand, [f"b{j}" for j in range(11)])
    return frame, 1.0 * rng.poisson(exposure * np.exp(index - 2.3)), exposure


def on_exposures(seeds):
    """Print deviance and seconds with an exposure and factors."""
    from glum import GeneralizedLinearRegressor

    judge = FAMILIES["poisson"]

    def ours(rows, **settings):
        X, y, exposure = rows
        model = GLMRegressor("poisson", **settings).fit(X, y, exposure=exposure)
        return lambda Z, over: model.predict(Z, exposure=over)

    def theirs(rows, **settings):
        X, y, exposure = rows
        model = GeneralizedLinearRegressor(family="poisson", **settings)
        model.fit(X, y / exposure, sample_weight=exposure)
        return lambda Z, over: over * model.predict(Z)

    kinds = {
        "potential='none'": (ours, {"potential": "none"}),
        "glum, alpha=0": (theirs, {"alpha": 0, "drop_first": True, "gradient_tol": 1e-8}),
        "defaults": (ours, {"random_state": 0}),
        "glum, alpha=1e-4": (theirs, {"alpha": 1e-4}),
    }
    ours(_policies(1000, 2), random_state=0)  # compiles
    for n in (100_000, 1_000_000):
        rows, (Z, z, over) = _policies(n, 0), _policies(n // 4, 1)
        print(f"\n{n} rows, 3 numbers, factors of 22 and 11 levels, Poisson with exposure\n")
        for name, (fit, settings) in kinds.items():
            made = [clocked(functools.partial(fit, rows, **settings)) for _ in range(3)]
            loss = deviance(judge, z, made[0][0](Z, over), 1e-9)
            seconds = np.median([spent for _, spent in made])
            print(f"{name:18} deviance {loss:.6f}  {seconds:6.2f} s CPU", flush=True)


def on_quantiles(seeds):
    """Print pinball losses, coverages and seconds."""
    from sklearn.linear_model import QuantileRegressor
    from sklearn.model_selection import GridSearchCV

    print(
        "\nQuantiles .1, .5 and .9 of the tables of up to 1,000 rows with amounts: pinball "
        "loss over that\nof QuantileRegressor (alpha of 6 by CV), coverage of .9, CPU seconds\n"
    )
    print(f"{'table':30} {'loss':>6} {'ours .9':>8} {'theirs':>7} {'s ours':>7} {'s theirs':>8}")
    GLMRegressor(family=Quantile(0.5)).fit(np.eye(2000, 40), np.arange(2000.0))  # loads
    rows, levels, grid = [], (0.1, 0.5, 0.9), {"alpha": [0.0, *np.logspace(-4, -0, 5)]}
    for table in tables():
        if table.kind != "amounts" or len(table.y) > 1000:
            continue
        loss, covered, spent = np.zeros(2), np.zeros(2), np.zeros(2)
        for seed in range(seeds):
            learn, held = halves(len(table.y), seed)
            unit = table.y[learn].std()
            X, y, target = table.X[learn], table.y[learn] / unit, table.y[held] / unit
            middle, scale = X.mean(axis=0), X.std(axis=0)
            scale = np.where(scale > 0, scale, 1.0)
            model = GLMRegressor(family=Quantile(levels), random_state=seed)
            model, seconds = clocked(model.fit, X, y)
            q, mine = model.predict(table.X[held]), np.empty((len(held), 3))
            spent[0] += seconds
            for k, level in enumerate(levels):
                search = GridSearchCV(
                    QuantileRegressor(quantile=level, solver="highs"), grid, cv=5,
                    scoring=lambda m, X, y, k=level: -_pinball(y, m.predict(X), k),
                )  # fmt: skip
                search, seconds = clocked(search.fit, (X - middle) / scale, y)
                mine[:, k] = search.predict((table.X[held] - middle) / scale)
                spent[1] += seconds
            for i, p in enumerate((q, mine)):
                loss[i] += sum(_pinball(target, p[:, k], a) for k, a in enumerate(levels))
                covered[i] += np.mean(target <= p[:, 2])
        rows.append([loss[0] / loss[1], *covered / seeds, *spent / seeds])
        print(f"{table.name:30} {rows[-1][0]:6.3f} {rows[-1][1]:8.3f} {rows[-1][2]:7.3f} "
              f"{rows[-1][3]:7.2f} {rows[-1][4]:8.2f}", flush=True)  # fmt: skip
    r = np.array(rows)
    print(f"\nall: loss {np.exp(np.log(r[:, 0]).mean()):.4f} (geometric mean), coverage of .9 "
          f"{r[:, 1].mean():.4f} (theirs {r[:, 2].mean():.4f}), "
          f"seconds {r[:, 3].sum() / r[:, 4].sum():.3f}")  # fmt: skip


def _pinball(y, p, q):
    return float(np.mean(np.maximum(q * (y - p), (q - 1.0) * (y - p))))


PARTS = {"tables": on_tables, "simulation": on_simulations, "peers": on_peers,
         "large": on_large, "exposure": on_exposures, "quantiles": on_quantiles}  # fmt: skip

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--every", type=int, default=1, help="take every so many-th table")
    given = parser.parse_args()
    EVERY = given.every
    for name in given.parts:
        PARTS[name](given.seeds)
