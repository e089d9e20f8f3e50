"""Tables and figures of the kernel benchmark."""

import numpy as np

from _tables import console, standard_error, table

PEER = "SVM, C by CV"
# Okabe and Ito
COLOURS = {"plain": "#56B4E9", "one pass": "#0072B2", "default": "#009E73", PEER: "#D55E00"}
MARKS = {"plain": "v:", "one pass": "o-", "default": "s-", PEER: "^--"}
NAMES = {
    "plain": "Kernel PiSTOL, one pass, plain average",
    "one pass": "Kernel PiSTOL, one pass",
    "default": "Kernel PiSTOL, default",
    PEER: PEER,
}

HOW = """\
CPU seconds of all threads (time.process_time); libraries choose their number, except where noted.
SVM: LIBSVM through scikit-learn (SVC, SVR; LinearSVC for the linear kernel), cache of 1 GB, dense
rows, the same prepared rows as ours. C by 5-fold cross-validation, refit included: a9a 2^-1..2^3,
MNIST even/odd 2^0..2^6, newsgroups-like 2^1..2^4 (the ranges of the paper); tables 1, 4, 16, 64,
and for classification gamma in 1, 2, 4, 8 times 1 / (columns x variance). gamma of the curves: a9a
.04, MNIST .02. "~": the search was not run; C is the one chosen most often at the size before, the
time that of one fit times the fits of a search (5 x grid fits on four fifths, and the refit).
In the tables "~" is one fit for each C, the best one on the test rows reported.
Five shuffles, three from 8,000 rows on; all rows are the same in any shuffle: one fit of the SVM
and of the default there.
Plain: KernelPiSTOLClassifier(average="uniform"), the average of one pass as in the paper. One pass:
max_iter=1, later iterates count more, PiSTOL and DoWG weighted by their predictions of rows before
these were learned. Default: passes and read-outs chosen on held-out rows. +-: standard error of the
mean over shuffles (curves), binomial standard error on the test rows (other tables)."""


def percent(errors):
    """Mean and standard error over shuffles."""
    return f"{100 * np.mean(errors):.2f} +- {100 * spread(errors):.2f}"


def spread(errors):
    return np.std(errors, ddof=1) / np.sqrt(len(errors)) if len(errors) > 1 else 0.0


def curve(name, note, rows, n_test):
    """Print one learning curve: rows[size][method] is a row with errors and CPU seconds."""
    body = []
    for size, methods in rows.items():
        peer = methods[PEER]
        mark = "~" if peer["estimated"] else ""
        for method, row in methods.items():
            ratio = np.mean(peer["cpu"]) / np.mean(row["cpu"])
            gap = np.mean(row["errors"]) - np.mean(peer["errors"])
            # One fit on all rows has no spread over shuffles: that over the test rows is used.
            se = spread(peer["errors"]) or standard_error(np.mean(peer["errors"]), n_test)
            ours = method != PEER
            body.append(
                (
                    size if method == next(iter(methods)) else "",
                    method,
                    percent(row["errors"]),
                    f"{gap / se:+.1f}" if ours else "",
                    ("" if ours else mark) + f"{np.mean(row['cpu']):.3g}",
                    f"{mark}{ratio:.0f}" if ours else "",
                )
            )
    columns = ["rows", "method", "test error %", "(ours - SVM) / SE", "CPU s", "SVM's CPU / ours"]
    table(f"{name}{', ' + note if note else ''}: learning curve", columns, body)
    ratios = {size: np.mean(m[PEER]["cpu"]) / np.mean(m["default"]["cpu"])
            for size, m in rows.items() if int(size) >= 2000}  # fmt: skip
    parts = ", ".join(f"{ratio:.1f} at {size}" for size, ratio in ratios.items())
    console.print(
        f"  the default's CPU, target ten times less: {_met(min(ratios.values()))} ({parts})"
    )


def _met(ratio):
    """Whether the target is met."""
    return "met" if ratio >= 10.0 else "not met"


def tuned(rows):
    """Print errors or R2 with defaults, and those of the searched SVM."""
    body = []
    for name, (kind, ours, peer, n_test) in rows.items():
        if kind == "regression":
            scores = f"{ours['score']:.4f}", f"{peer['score']:.4f}" if peer else ""
            gap = f"{ours['score'] - peer['score']:+.4f}" if peer else ""
        else:
            se = standard_error(ours["score"], n_test)
            scores = [f"{100 * r['score']:.2f}" if r else "" for r in (ours, peer)]
            scores[0] += f" +- {100 * se:.2f}"
            gap = f"{(ours['score'] - peer['score']) / se:+.1f} SE" if peer else ""
        chosen = ", ".join(f"{k} {v:.3g}" for k, v in peer["chosen"].items()) if peer else ""
        edge = " (edge)" if peer and "C" in peer.get("edge", ()) else ""
        mark = "~" if peer and peer.get("estimated") else ""
        body.append(
            (
                name,
                "R2" if kind == "regression" else "error %",
                *scores,
                gap,
                f"{ours['cpu']:.1f}",
                f"{mark}{peer['cpu']:.1f}" if peer else "",
                f"{mark}{peer['cpu'] / ours['cpu']:.1f}" if peer and "rows" not in peer else "",
                _met(peer["cpu"] / ours["cpu"]) if peer and "rows" not in peer else "",
                chosen + edge + (f", on {peer['rows']} rows" if peer and "rows" in peer else ""),
            )
        )
    columns = ["data", "", "ours", "SVM", "difference", "CPU s", "SVM CPU s", "ratio",
               "ten"]  # fmt: skip
    table('gamma="auto" against SVM by cross-validation', [*columns, "SVM chose"], body)


def trace(name, model, regression):
    """Print every bandwidth's progressive error, and the weights of the read-outs."""
    rows, errors = model.trace_["rows"], model.trace_["progressive_error"]
    at = [np.searchsorted(rows, rows[-1] * share) for share in (0.05, 0.25, 0.5, 1.0)]
    at, unit = np.minimum(at, len(rows) - 1), 1 if regression else 100
    board = {row["name"]: row for row in model.leaderboard_}
    body = [
        (n, *(f"{unit * e[i]:.3g}" for i in at), "goes on" if board[n]["chosen"] else "")
        for n, e in errors.items()
        if n in board
    ]
    columns = ["bandwidth", *(f"after {rows[i]:,.0f} rows" for i in at), ""]
    loss = "squared error" if regression else "error, %,"
    table(f"{name}: progressive {loss} of every bandwidth tried", columns, body)
    reads = [
        (f"{r['gamma']:.4g}", r["pass"], f"{unit * r['error']:.4g}", f"{r['weight']:.3f}")
        for r in model.trace_.get("read_outs", ())
    ]
    columns = ["gamma", "pass", f"{loss.rstrip(',')} on held-out rows", "weight"]
    table(f"{name}: read-outs that make up the predictor", columns, reads)


def compression(found):
    """Print the effects of compress=."""
    body = []
    for asked, report, error, seconds in found:
        if asked is None:
            body.append(("None", f"{report:,d}", "", "", f"{100 * error:.2f}", f"{seconds:.2f}"))
        else:
            losses = f"{report.loss_before:.4f}", f"{report.loss_after:.4f}"
            body.append((f"{asked:g}", f"{report.n_landmarks:,d}", *losses,
                         f"{100 * error:.2f}", f"{seconds:.2f}"))  # fmt: skip
    columns = ["compress", "support rows", "log loss before", "after", "test error %", "scoring s"]
    table("Compression: MNIST, 15,000 rows, gamma .02, one pass", columns, body)


def budgets(found):
    """Print streams with a bound on the support."""
    body = [
        (str(budget), f"{support:,d}", f"{100 * error:.2f}", f"{seconds:.2f}")
        for budget, support, error, seconds in found
    ]
    columns = ["max_support", "support rows", "test error %", "CPU s"]
    table(
        "A bound on the support: a9a as a stream in chunks of 1,000 rows, gamma .04", columns, body
    )


def figure(curves, path):
    """Draw test error against rows in the form of the paper's Figure 3."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, len(curves), figsize=(4.2 * len(curves), 3.8), layout="constrained")
    for ax, (name, (note, rows)) in zip(np.atleast_1d(axes), curves.items(), strict=True):
        sizes = [int(size) for size in rows]
        for method in NAMES:
            mean = [100 * np.mean(rows[str(s)][method]["errors"]) for s in sizes]
            sd = [100 * np.std(rows[str(s)][method]["errors"]) for s in sizes]
            ax.errorbar(
                sizes, mean, sd, fmt=MARKS[method], color=COLOURS[method],
                label=NAMES[method], ms=5,
                capsize=3, lw=1.5,
            )  # fmt: skip
        ax.set_xscale("log")
        # Two sizes that are close share one label.
        apart = [s < 1.6 * before for before, s in zip([0, *sizes], sizes, strict=False)]
        labels = [f"\n{s:,d}" if low else f"{s:,d}" for s, low in zip(sizes, apart, strict=True)]
        ax.set_xticks(sizes, labels, minor=False)
        ax.minorticks_off()
        ax.set_title(f"{name}\n({note})" if note else name, fontsize=11)
        ax.set_xlabel("training rows")
        ax.grid(alpha=0.3)
    np.atleast_1d(axes)[0].set_ylabel("test error, %")
    np.atleast_1d(axes)[0].legend(fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=110)
    console.print(f"wrote {path}")
