"""Uncertainty: intervals, sets, risks and coefficients against MAPIE, crepes and venn-abers.

python benchmarks/uncertainty.py --data DIR [--only NAME ...] [--parts PART ...]

The tables and halves of `tables.py`. All methods wrap the same model, `TuneFreeRegressor` or
`TuneFreeClassifier` with random_state=0. alpha is .1. ours: `predict_interval` and `predict_set`
of one fit. ours, copies: with cross_fit=5 (CV+). MAPIE split: a fifth of the rows held out. MAPIE
CV+: five folds. crepes: on the split of MAPIE, with kNN difficulties. Interval scores are ratios to
those of MAPIE split; CPU seconds are those of fit and prediction, with one thread of BLAS. SE of a
coverage: from the new rows and the held-out rows. Equal cover: mean sizes over those of MAPIE LAC,
with a threshold for the probabilities of each method so that 90 % of the new rows are covered.
Log-losses: difference to that without calibration, in standard errors.

Risks: 1,000 draws of 300 rows from five tables, the rest of each is the truth; against an exact
interval (Clopper-Pearson) from a fifth held out. Coefficients: 1,000 draws of each design.
"""

import argparse
import time
import warnings
from unittest.mock import patch

import numpy as np

from _tables import console, table
from tables import HALVES, load, warm_up

ALPHA, DRAWS = 0.1, 1000
PARTS = ("intervals", "sets", "risks", "coefficients")
# Tables of the draws, and rows of each.
DRAWN, ROWS, MANY = ("magic04", "satellite", "sleep", "waveform_40", "fars"), 300, 2500


def main():
    options = arguments()
    warm_up()
    names = [(half, n) for half, some in HALVES.items() for n in some]
    names = [(h, n) for h, n in names if not options.only or n in options.only]
    for part in options.parts:
        {"intervals": intervals, "sets": sets, "risks": risks, "coefficients": coefficients}[part](
            names, options.data
        )
    console.print(__doc__.split("\n\n", 2)[2].replace("\n", " "))


class Clock:
    """CPU seconds of a block of code."""

    def __enter__(self):
        self.start = time.process_time()
        return self

    def __exit__(self, *_):
        self.cpu = time.process_time() - self.start


def model(task, **more):
    import tunefree

    return getattr(tunefree, f"TuneFree{task}")(random_state=0, **more)


def fitted(task, X, y, **more):
    """A model, and CPU seconds of its fit."""
    made = model(task, **more)
    with Clock() as clock:
        made.fit(X, y)
    return made, clock.cpu


def split(data):
    """Training rows, and rows for conformal prediction: a fifth."""
    order, n = np.random.default_rng(0).permutation(len(data.y_train)), len(data.y_train) // 5
    return order[n:], order[:n]


# ------------------------------------------------------------------------------ intervals


def interval_methods(data):
    """Yield (method, intervals (n, 2), CPU seconds, held-out rows)."""
    from crepes import WrapRegressor
    from crepes.extras import DifficultyEstimator
    from mapie.regression import CrossConformalRegressor, SplitConformalRegressor

    X, y, Z = data.X_train, data.y_train, data.X_test
    for name, copies in (("ours", None), ("ours, copies", 5)):
        made, cpu = fitted("Regressor", X, y, cross_fit=copies)
        with Clock() as clock:
            ends = made.predict_interval(Z, ALPHA)[1][..., 0]
        held_out = len(made.held_out_[0].residuals) if copies is None else len(y)
        yield name, ends, cpu + clock.cpu, held_out
    learn, hold = split(data)
    with Clock() as clock:
        made = model("Regressor").fit(X[learn], y[learn])
        known = SplitConformalRegressor(made, confidence_level=1 - ALPHA, prefit=True)
        ends = known.conformalize(X[hold], y[hold]).predict_interval(Z)[1][..., 0]
    yield "MAPIE split", ends, clock.cpu, len(hold)
    fit = clock.cpu
    with Clock() as clock:
        hard = DifficultyEstimator().fit(X=X[learn], y=y[learn], scaler=True)
        wrap = WrapRegressor(made).calibrate(X[hold], y[hold], de=hard)
        ends = wrap.predict_int(Z, confidence=1 - ALPHA)
    yield "crepes", ends, fit + clock.cpu, len(hold)
    with Clock() as clock:
        cross = CrossConformalRegressor(
            model("Regressor"), confidence_level=1 - ALPHA, method="plus", cv=5
        )
        ends = cross.fit_conformalize(X, y).predict_interval(Z)[1][..., 0]
    yield "MAPIE CV+", ends, clock.cpu, len(y)


def intervals(names, folder):
    from tunefree.uncertainty.intervals import interval_score

    found = {}
    for half, name in names:
        data = load(name, folder)
        if data.task != "Regressor":
            continue
        console.print(f"[dim]{name}[/dim]")
        for method, ends, cpu, m in interval_methods(data):
            low, high = ends.T
            inside = (low <= data.y_test) & (data.y_test <= high)
            found[half, name, method] = {
                "cover": inside.mean(), "width": np.mean(high - low), "cpu": cpu,
                "score": interval_score(low, high, data.y_test, ALPHA).mean(),
                "se": np.sqrt(ALPHA * (1 - ALPHA) * (1 / len(inside) + 1 / m)),
            }  # fmt: skip
    show_intervals(found)


def show_intervals(found):
    keys = list(dict.fromkeys(k[:2] for k in found))
    methods = list(dict.fromkeys(k[2] for k in found))
    lines = []
    for half, name in keys:
        base = found[half, name, "MAPIE split"]["score"]
        cells = [f"{found[half, name, m]['cover']:.3f} {found[half, name, m]['score'] / base:.2f}"
                 for m in methods]  # fmt: skip
        lines.append([name[:24], half, *cells])
    table("Coverage (aim .900), and interval score over MAPIE split's", ["data", "half", *methods],
          lines)  # fmt: skip
    for half in (*HALVES, "all"):
        some = [k for k in keys if half in (k[0], "all")]
        if not some:
            continue
        lines = []
        for m in methods:
            rows = [found[(*k, m)] for k in some]
            base = [found[(*k, "MAPIE split")] for k in some]
            plus = [found[(*k, "MAPIE CV+")] for k in some]
            cover = np.array([r["cover"] for r in rows])
            short = min(r["cover"] + r["se"] for r in rows)
            lines.append([
                m, f"{cover.mean():.3f}", f"{cover.min():.3f}", f"{cover.max():.3f}",
                f"{short:.3f}", ratio(rows, base, "width"), ratio(rows, base, "score"),
                ratio(rows, plus, "score"), f"{np.median([r['cpu'] for r in rows]):.2f}",
                ratio(rows, plus, "cpu"),
            ])  # fmt: skip
        head = ["method", "cover", "least", "most", "least + SE", "width", "score", "over CV+",
                "CPU s", "CPU / CV+"]  # fmt: skip
        table(f"Intervals, {half} ({len(some)} tables): geometric means of ratios", head, lines)


def ratio(rows, base, key):
    logs = [np.log(r[key] / b[key]) for r, b in zip(rows, base, strict=True)]
    return f"{np.exp(np.mean(logs)):.3f}"


# ------------------------------------------------------------------------------ sets


def set_methods(data, codes, new):
    """Yield (method, sets, model, CPU seconds, held-out rows)."""
    from mapie.classification import SplitConformalClassifier

    X, Z = data.X_train, data.X_test
    for name, copies in (("ours", None), ("ours, copies", 5)):
        made, cpu = fitted("Classifier", X, codes, cross_fit=copies)
        with Clock() as clock:
            sets = made.predict_set(Z, ALPHA)[1][..., 0]
        m = len(made.held_out_.weights) if copies is None else len(codes)
        yield name, sets, made, cpu + clock.cpu, m
    learn, hold = split(data)
    with Clock() as clock:
        made = model("Classifier").fit(X[learn], codes[learn])
    for score in ("lac", "aps") if len(np.unique(codes)) > 2 else ("lac",):
        with Clock() as more, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            known = SplitConformalClassifier(
                made, confidence_level=1 - ALPHA, prefit=True, conformity_score=score
            )
            sets = known.conformalize(X[hold], codes[hold]).predict_set(Z)[1][..., 0]
        yield f"MAPIE {score.upper()}", sets, made, clock.cpu + more.cpu, len(hold)


def size_at(p, codes, share=1 - ALPHA):
    """Mean size of sets p >= c that cover this share of these rows."""
    own = np.sort(p[np.arange(len(codes)), codes])
    return (p >= own[int(np.floor((1 - share) * len(own)))]).sum(axis=1).mean()


def log_losses(p, codes):
    return -np.log(np.maximum(p[np.arange(len(codes)), codes], 1e-15))


def venn_abers(data, codes, n_classes):
    """Probabilities, calibrated on a fifth; 0 for a class that is not in all parts."""
    from venn_abers import VennAbersCalibrator

    learn, hold = split(data)
    made = model("Classifier").fit(data.X_train[learn], codes[learn])
    both = np.intersect1d(made.classes_, codes[hold])  # the calibrator has no other classes
    hold, place = hold[np.isin(codes[hold], both)], np.searchsorted(made.classes_, both)
    parts = [made.predict_proba(rows)[:, place] for rows in (data.X_train[hold], data.X_test)]
    parts = [p / np.maximum(p.sum(axis=1, keepdims=True), 1e-300) for p in parts]
    out = np.zeros((len(data.y_test), n_classes))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out[:, both] = VennAbersCalibrator().predict_proba(
            p_cal=parts[0], y_cal=np.searchsorted(both, codes[hold]), p_test=parts[1]
        )
    return out


def sets(names, folder):
    found, losses = {}, []
    for half, name in names:
        data = load(name, folder)
        if data.task != "Classifier":
            continue
        console.print(f"[dim]{name}[/dim]")
        classes, codes = np.unique(data.y_train, return_inverse=True)
        new = np.searchsorted(classes, data.y_test)
        for method, inside, made, cpu, m in set_methods(data, codes, new):
            p = np.zeros((len(new), len(classes)))
            p[:, made.classes_] = made.predict_proba(data.X_test)
            found[half, name, method] = {
                "cover": inside[np.arange(len(new)), new].mean(), "size": inside.sum(1).mean(),
                "equal": size_at(p, new), "cpu": cpu,
                "se": np.sqrt(ALPHA * (1 - ALPHA) * (1 / len(new) + 1 / m)),
            }  # fmt: skip
            if method == "ours":
                calibrated, steps = p, made.calibration_ is not None
                with patch.object(made, "calibration_", None):
                    raw = made.predict_proba(data.X_test)
        other = venn_abers(data, codes, len(classes))
        costs = [log_losses(q, new) for q in (raw, calibrated, other)]
        gap = costs[1] - costs[0]
        z = gap.mean() / max(gap.std() / np.sqrt(len(gap)), 1e-300) if gap.any() else 0.0
        losses.append([name[:24], half, *(f"{c.mean():.4f}" for c in costs),
                       "slopes" if steps else "none", f"{z:+.1f}"])  # fmt: skip
    show_sets(found, losses)


def show_sets(found, losses):
    keys = list(dict.fromkeys(k[:2] for k in found))
    methods = list(dict.fromkeys(k[2] for k in found))
    lines = []
    for half, name in keys:
        rows = [found.get((half, name, m)) for m in methods]
        cells = ["-" if r is None else f"{r['cover']:.3f} {r['size']:.2f}" for r in rows]
        lines.append([name[:24], half, *cells])
    table("Coverage (aim .900), and mean size of sets", ["data", "half", *methods], lines)
    for half in (*HALVES, "all"):
        some = [k for k in keys if half in (k[0], "all")]
        if not some:
            continue
        lines = []
        for m in methods:
            known = [k for k in some if (*k, m) in found]
            rows = [found[(*k, m)] for k in known]
            base = [found[(*k, "MAPIE LAC")] for k in known]
            cover = np.array([r["cover"] for r in rows])
            lines.append([
                m, len(rows), f"{cover.mean():.3f}", f"{cover.min():.3f}", f"{cover.max():.3f}",
                f"{min(r['cover'] + r['se'] for r in rows):.3f}",
                f"{np.mean([r['size'] for r in rows]):.3f}", ratio(rows, base, "equal"),
                f"{np.median([r['cpu'] for r in rows]):.2f}",
            ])  # fmt: skip
        head = ["method", "tables", "cover", "least", "most", "least + SE", "size", "equal cover",
                "CPU s"]  # fmt: skip
        table(f"Sets, {half} ({len(some)} tables)", head, lines)
    columns = ["data", "half", "uncalibrated", "ours", "venn-abers", "chosen", "difference / SE"]
    table("Log-loss of probabilities (venn-abers: on a fifth held out)", columns, losses)


# ------------------------------------------------------------------------------ risks


def risks(names, folder):
    from tunefree.uncertainty.risk import exact

    lines, every = [], []
    for n, draws in ((ROWS, DRAWS // len(DRAWN)), (MANY, 20)):
        for name in DRAWN:
            data = load(name, folder)
            X = np.vstack([data.X_train, data.X_test])
            y, outcomes = np.concatenate([data.y_train, data.y_test]), []
            for seed in range(draws):
                order = np.random.default_rng(seed).permutation(len(y))
                sample, rest = order[:n], order[n:]
                if len(np.unique(y[sample])) < 2:
                    continue
                made = model("Classifier").fit(X[sample], y[sample])
                truth = np.mean(made.predict(X[rest]) != y[rest])
                low, high = made.risk_interval_
                fifth = exact(round(truth * n / 5), n // 5)  # at the true risk: a typical width
                outcomes.append((low <= truth <= high, high - low, fifth[1] - fifth[0]))
            mean = np.mean(outcomes, axis=0)
            lines.append([name, n, len(outcomes), *(f"{m:.3f}" for m in mean),
                          f"{mean[1] / mean[2]:.2f}"])  # fmt: skip
            every.extend((n, *t) for t in outcomes)
        some = np.array([t[1:] for t in every if t[0] == n])
        mean = some.mean(axis=0)
        lines.append(["all", n, len(some), f"{mean[0]:.3f}", f"{mean[1]:.3f}", f"{mean[2]:.3f}",
                      f"{mean[1] / mean[2]:.2f}"])  # fmt: skip
    columns = ["table", "rows", "draws", "covered", "width", "a fifth held out", "ratio"]
    table("risk_interval_ of TuneFreeClassifier (95 %)", columns, lines)


# ------------------------------------------------------------------------------ coefficients


def designs():
    """Yield name, estimator, and draws of (X, y, true coefficients)."""
    import tunefree

    def rows(rng, n):
        X = rng.normal(size=(n, 5))
        X[:, 1] += 0.7 * X[:, 0]
        return X, X @ TRUE

    def normal(rng, n):
        X, s = rows(rng, n)
        return X, s + rng.normal(size=n)

    def uneven(rng, n):
        X, s = rows(rng, n)
        return X, s + np.abs(X[:, 0]) * rng.normal(size=n)

    def heavy(rng, n):
        X, s = rows(rng, n)
        return X, s + rng.standard_t(2, n)

    def logistic(rng, n):
        X, s = rows(rng, n)
        return X, (rng.uniform(size=n) < 1 / (1 + np.exp(-s))).astype(int)

    def poisson(rng, n):
        X, s = rows(rng, n)
        return X, rng.poisson(np.exp(0.5 * s))

    glm = tunefree.GLMRegressor(family="poisson", random_state=0)
    yield "normal noise", tunefree.RidgePathRegressor(), normal, 1.0
    yield "unequal noise", tunefree.RidgePathRegressor(), uneven, 1.0
    yield "t2 noise", tunefree.PiSTOLRegressor(), heavy, 1.0
    yield "logistic", tunefree.PiSTOLClassifier(), logistic, 1.0
    yield "poisson", glm, poisson, 0.5


TRUE = np.array([1.0, -0.5, 0.0, 0.3, 0.0])


def coefficients(names, folder):
    lines = []
    for n in (100, 400):
        for name, estimator, draw, scale in designs():
            rng, covered, refused = np.random.default_rng(0), [], 0
            estimator.fit(*draw(rng, n))
            for _ in range(DRAWS):
                try:
                    _, ends = estimator.coef_interval(*draw(rng, n))
                except ValueError:
                    refused += 1
                    continue
                covered.append((ends[:, 0] <= scale * TRUE) & (scale * TRUE <= ends[:, 1]))
            each = np.mean(covered, axis=0)
            lines.append([name, n, len(covered), refused, f"{each.mean():.3f}",
                          " ".join(f"{c:.3f}" for c in each)])  # fmt: skip
    columns = ["design", "rows", "draws", "refused", "covered (aim .95)", "each coefficient"]
    table("coef_interval", columns, lines)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="../shared/data", help="folder of the data sets")
    known = [name for half in HALVES.values() for name in half]
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=known)
    parser.add_argument("--parts", nargs="+", metavar="PART", choices=PARTS, default=PARTS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
