"""Separation: targets and measurements, Figure 1 of the paper, and the peers.

    python benchmarks/perceptron.py --data DIR [--quick] [--out DIR] [--only figure,table,...]

DIR holds the public data sets (`usps.npz`, `news20like_binary.npz`); without it those parts are
skipped. Counts are exact and equal on any machine; times are CPU seconds of this one.
"""

import argparse
import warnings
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Perceptron
from sklearn.svm import SVC, LinearSVC

from _data import load
from _separation import (
    METHODS,
    NEVER,
    TABLE,
    TIGHT,
    digits,
    exact_margin,
    not_separable,
    play,
    random_separable,
    seconds,
    usps,
)
from papers.datasets import make_perceptron_hard
from tunefree import OptimisticPerceptron
from tunefree.bounds import separation_budget
from tunefree.engine.run import run
from tunefree.engine.sources import Whole
from tunefree.perceptron import ClassicalPerceptron
from tunefree.perceptron.classical import Classical
from tunefree.perceptron.margins import Goal

# Values of the theory page: rounds of Algorithm 1; iterations to separation / 1 % / 0.1 % gap.
ROUNDS = {8: 489, 12: 9_642, 14: 41_667}
OPERATIONS = {8: 109_230, 12: 39.1e6, 14: 716e6, 15: 3.04e9}
EXPECTED = {
    "hard n=8": {"paper": (489, 2108, 3045), "accelerated": (15, 22, 26), "min-norm": (8, 8, 8)},
    "hard n=12": {"paper": (9642,), "accelerated": (43, 55, 62), "min-norm": (12, 12, 12)},
    "digits 3 vs 8": {
        "paper": (26, 1914, 10714),
        "accelerated": (20, 402, 632),
        "min-norm": (17, 33, 33),
    },
    "Gaussian, margin > .031": {
        "paper": (97, 2307, 13726),
        "accelerated": (50, 1365, 3311),
        "min-norm": (171, 193, 195),
    },
    "random labels 300 x 600": {
        "paper": (28, 477, 2186),
        "accelerated": (2, 20, 32),
        "min-norm": (186, 263, 263),
    },
}


def heading(text):
    print(f"\n{text}\n{'-' * len(text)}", flush=True)


def iterations(name, state):
    """Rounds of a method (the first pass of min-norm over the rows counts as one)."""
    return state.n_updates + (name == "min-norm")


def figure(args):
    heading("Figure 1: the hard data (2), iterations = inner products and additions of rows")
    sizes = range(1, 12 if args.quick else 16)
    print("  n  Perceptron updates  = (4^n-1)/3  operations   optimistic T  operations   fewer"
          "  adaptive T  operations   fewer")  # fmt: skip
    rows = []
    for n in sizes:
        X, y = make_perceptron_hard(n)
        learner = Classical(cycles=10_000_000 // n**2)
        rows_of = Whole(X, y[:, None], np.ones(n))
        classical = run(learner, learner.init(n), rows_of).state
        paper, _ = play(METHODS["paper"], X, y, NEVER, 10**6)
        adaptive, _ = play(METHODS["adaptive"], X, y, NEVER, 10**6)
        exact = "yes" if classical.n_updates == (4**n - 1) // 3 else "NO"
        rows.append((n, classical.n_operations, paper.n_operations, adaptive.n_operations))
        fewer = [classical.n_operations / s.n_operations for s in (paper, adaptive)]
        print(f"{n:3d} {classical.n_updates:19,d} {exact:>12} {classical.n_operations:13,d}"
              f" {paper.n_updates:13,d} {paper.n_operations:11,d} {fewer[0]:7.1f}"
              f" {adaptive.n_updates:11,d} {adaptive.n_operations:11,d} {fewer[1]:7.1f}",
              flush=True)  # fmt: skip
    print(f"targets: T = {ROUNDS}; Perceptron operations {OPERATIONS};\n"
          "         12x, 156x, 573x fewer operations at n = 8, 12, 14")  # fmt: skip
    if args.out is not None:
        draw(np.array(rows, float), args.out / "optimistic-perceptron-figure-1.png")


def draw(rows, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    # Colours of Okabe and Ito for colour-blind readers; markers differ, too.
    curves = [
        (1, "Perceptron", "#D55E00", "o-"),
        (2, "Optimistic Perceptron (paper)", "#0072B2", "s-"),
        (3, "Optimistic Perceptron (adaptive step)", "#009E73", "^--"),
    ]
    fig, axes = plt.subplots(1, 2, figsize=(9.6, 4.0), layout="constrained")
    for ax, transform in zip(axes, (lambda v: v, np.log10), strict=True):
        for column, label, colour, style in curves:
            ax.plot(rows[:, 0], transform(rows[:, column]), style, color=colour, label=label, ms=4)
        ax.set_xlabel("n, rows and columns of data set (2)")
        ax.set_xticks(rows[::2, 0])
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("iterations until separation (vector operations)")
    axes[1].set_ylabel("log10 of the iterations (vector operations)")
    axes[0].set_title("(a) iterations")
    axes[1].set_title("(b) their logarithm")
    axes[1].legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=150)
    plt.close(fig)
    print(f"figure: {path}")


def table(args):
    heading("Iterations to separation / 1 % / 0.1 % certified gap (expected: theory page)")
    marks = (None, 1e-2, 1e-3)
    limit = 4_000 if args.quick else 30_000
    for name, make in TABLE.items():
        X, y = make()
        margin, radius = exact_margin(X, y)
        print(f"{name}: {X.shape[0]} x {X.shape[1]}, margin {margin:.6g}, r {radius:.4g}")
        for method, learner in METHODS.items():
            hits = [None, None, None]

            def watch(s, method=method, hits=hits):
                for i, tol in enumerate(marks):
                    c = s.certificate
                    if hits[i] is None and c.lower > 0 and (tol is None or c.gap <= tol):
                        hits[i] = iterations(method, s)
                return c.gap

            state, gaps = play(learner, X, y, TIGHT, limit, watch)
            c = state.certificate
            inside = c.lower <= margin * (1 + 1e-9) and margin <= c.upper * (1 + 1e-9)
            expected = EXPECTED[name].get(method)
            shown = " / ".join("-" if h is None else f"{h}" for h in hits)
            wanted = "" if expected is None else "expected " + " / ".join(map(str, expected))
            print(f"  {method:12s} {shown:22s} {wanted:32s} slope of the gap {slope(gaps)}"
                  f"  margin inside: {'yes' if inside else 'NO'}", flush=True)  # fmt: skip


def slope(gaps):
    """Exponent of the relative gap over T, by least squares on the last nine tenths."""
    gaps = np.array(gaps, float)
    t = np.arange(1, len(gaps) + 1)
    use = (t >= 0.1 * len(gaps)) & (gaps > 0) & (gaps < 1)
    if use.sum() < 20:
        return "  -  "
    return f"{np.polyfit(np.log(t[use]), np.log(gaps[use]), 1)[0]:+.2f}"


def intervals(args):
    heading("Certified intervals and the exact margin (NNLS)")
    pairs = list(combinations(range(10), 2))
    families = {"digits pairs": [lambda p=p: digits(*p) for p in pairs]}
    if args.data is not None:
        some = pairs[::15] if args.quick else pairs
        families["USPS pairs"] = [lambda p=p: usps(*p, args.data) for p in some]
    n_random = 100 if args.quick else 1000
    families["random separable"] = [lambda s=s: random_separable(s) for s in range(n_random)]
    print(f"{'sets':>26} {'inside':>12} {'T <= budget':>13} {'gap <= 1 %':>11} {'largest c':>10}"
          f" {'most (gamma/r >= .02)':>22} {'adaptive <= paper':>18}")  # fmt: skip
    for family, makers in families.items():
        inside, budget, reached, worst, most, better, n = 0, 0, 0, 0.0, 0, 0, 0
        for make in makers:
            X, y = make()
            margin, radius = exact_margin(X, y)
            if margin < 1e-9 * radius:
                continue
            n += 1
            bound = separation_budget(radius, margin, len(y))
            rounds = [play(METHODS[m], X, y, NEVER)[0] for m in ("paper", "adaptive")]
            tight = [
                play(METHODS[m], X, y, Goal(True, 1e-2, 0.0))[0]
                for m in ("accelerated", "min-norm")
            ]
            ok = [
                s.certificate.lower <= margin * (1 + 1e-9)
                and margin <= s.certificate.upper * (1 + 1e-9)
                for s in rounds + tight
            ]
            inside += all(ok)
            budget += rounds[0].n_updates <= np.floor(bound) + 1
            better += rounds[1].n_updates <= rounds[0].n_updates
            reached += tight[0].certificate.gap <= 1e-2 and tight[1].certificate.gap <= 1e-2
            unit = radius * np.sqrt(np.log(len(y))) / margin
            worst = max(worst, tight[0].n_updates / unit)
            if margin / radius >= 0.02:
                most = max(most, tight[0].n_updates)
        print(f"{family:>26} {inside:5d} / {n:4d} {budget:6d} / {n:4d} {reached:4d} / {n:4d}"
              f" {worst:10.2f} {most:22d} {better:11d} / {n:4d}", flush=True)  # fmt: skip
    print("c: the accelerated method's iterations to a 1 % gap over r sqrt(ln n) / gamma;"
          " targets: all inside, 2,000 iterations at most")  # fmt: skip


def proofs(args):
    heading("Certificates in exact rational arithmetic; rows that are not separable")
    rng, held = np.random.default_rng(0), 0
    for k in range(100):
        X = rng.integers(-9, 10, size=(int(rng.integers(3, 15)), 4)).astype(float)
        w = np.array([1.0, -2.0, 3.0, 0.5])
        X = X[X @ w != 0]
        y = np.sign(X @ w)
        learner = list(METHODS.values())[k % 4]
        c = play(learner, X, y, TIGHT, 500)[0].certificate
        Z = [[Fraction(v) for v in row] for row in y[:, None] * X]
        w, p = [Fraction(v) for v in c.w], [Fraction(v) for v in c.p]
        least = min(sum(a * b for a, b in zip(r, w, strict=True)) for r in Z)
        pulled = [sum(a * r[j] for a, r in zip(p, Z, strict=True)) for j in range(4)]
        below = c.lower == 0 or (least > 0 and least**2 >= Fraction(c.lower) ** 2 * dot(w, w))
        above = min(p) >= 0 and dot(pulled, pulled) <= (Fraction(c.upper) * sum(p)) ** 2
        held += below and above
    print(f"rational arithmetic: {held} / 100 certificates hold (target 100)")
    n = 100 if args.quick else 1000
    for name, learner in METHODS.items():
        false, given_up = 0, 0
        for seed in range(n):
            state, _ = play(learner, *not_separable(seed), Goal(), 1000)
            false += state.certificate.lower > 0
            given_up += state.certificate.upper <= 1e-4 * state.radius
        print(f"{name:>12}: {n} sets end, {false} false certificates (target 0), "
              f"{given_up} proven to have no margin above r / 10,000 in 1,000 passes",
              flush=True)  # fmt: skip


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def cost(args):
    heading("CPU time of an iteration over that of its two products (target 1.2)")
    rng = np.random.default_rng(0)
    designs = {
        "dense 4,000 x 50": rng.normal(size=(4000, 50)),
        "dense 20,000 x 200": rng.normal(size=(20_000, 200)),
        "dense 7,000 x 256": rng.normal(size=(7_000, 256)),
        "sparse 100,000 x 10,000, 50 a row": sparse.random_array(
            (100_000, 10_000), density=0.005, format="csr", random_state=0
        ),
    }
    if args.data is not None:
        designs["newsgroups, sparse"] = load("newsgroups", args.data).X_train
    for name, X in designs.items():
        w, p = rng.normal(size=X.shape[1]), rng.random(X.shape[0])
        y = np.where(X @ w > 0, 1.0, -1.0)
        rounds = 10 if sparse.issparse(X) else 40
        products, _ = seconds(lambda X=X, w=w, p=p: (X @ w, X.T @ p), 15)
        goal = Goal(True, 1e-9, 0.0)
        ratios = {}
        for method in ("paper", "adaptive"):
            taken = [
                seconds(lambda a=(METHODS[method], X, y, goal, k): play(*a), 3)[0]
                for k in (5, 5 + rounds)
            ]
            ratios[method] = (taken[1] - taken[0]) / rounds / products
        print(f"{name:>36}: products {1e3 * products:8.3f} ms; "
              + ", ".join(f"{k} {v:.2f}" for k, v in ratios.items()), flush=True)  # fmt: skip


def peers(args):
    heading("Beside the peers, the same rows in the same process")
    sets = {"digits 3 vs 8": digits(3, 8)}
    sets["Gaussian, margin > .031"] = TABLE["Gaussian, margin > .031"]()
    if args.data is not None:
        sets["USPS 3 vs 8"] = usps(3, 8, args.data)
        if not args.quick:
            news = load("newsgroups", args.data)
            sets["newsgroups (stand-in for news20.binary)"] = news.X_train, news.y_train
    models = {
        "OptimisticPerceptron()": OptimisticPerceptron(fit_intercept=False, margin=0),
        "  step='paper'": OptimisticPerceptron(step="paper", fit_intercept=False, margin=0),
        "  method='accelerated'": OptimisticPerceptron("accelerated", fit_intercept=False),
        "  method='auto'": OptimisticPerceptron("auto", fit_intercept=False),
        "  method='auto', stop='margin'": OptimisticPerceptron(
            "auto", stop="margin", fit_intercept=False
        ),
        "ClassicalPerceptron()": ClassicalPerceptron(fit_intercept=False, max_iter=2_000),
        **{
            f"sklearn Perceptron, {k} epochs": Perceptron(fit_intercept=False, tol=None, max_iter=k)
            for k in (10, 30, 100, 1000)
        },
        "sklearn LinearSVC(C=1e6)": LinearSVC(C=1e6, fit_intercept=False, max_iter=2_000),
        "LIBSVM hard margin (C=1e6)": SVC(kernel="linear", C=1e6, max_iter=2_000_000),
    }
    for name, (X, y) in sets.items():
        print(f"{name}: {X.shape[0]} x {X.shape[1]}")
        separated = False  # by fewer epochs of the Perceptron of scikit-learn
        for label, model in models.items():
            if separated and label.startswith("sklearn Perceptron"):
                continue
            if sparse.issparse(X) and "stop='margin'" in label:
                continue  # 2,000 products of a matrix with 4.7 M entries
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                taken, model = seconds(
                    lambda m=model, X=X, y=y: m.fit(X, y), 1 if "LIBSVM" in label else 3
                )
            w = model.coef_[0] if not sparse.issparse(model.coef_) else model.coef_.toarray()[0]
            scores = y * (X @ w + model.intercept_)
            margin = scores.min() / np.sqrt(w @ w)
            separated = label.startswith("sklearn Perceptron") and margin > 0
            bounds = getattr(model, "margin_bounds_", None)
            known = "" if bounds is None else f"certified [{bounds.lower:.5f}, {bounds.upper:.5f}]"
            print(f"  {label:32s} {taken:9.3f} s  right {np.mean(scores > 0):8.4%}"
                  f"  margin {margin:9.5f}  {known}", flush=True)  # fmt: skip
    print("LIBSVM's intercept is free, so its margin may exceed the others' upper bound.")


PARTS = {
    "figure": figure,
    "table": table,
    "intervals": intervals,
    "proofs": proofs,
    "cost": cost,
    "peers": peers,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of the public data sets")
    parser.add_argument("--out", type=Path, help="folder for the figure")
    parser.add_argument("--quick", action="store_true", help="fewer and smaller sets")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    args = parser.parse_args()
    for name in args.only.split(","):
        PARTS[name](args)


if __name__ == "__main__":
    main()
