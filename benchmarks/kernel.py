"""Kernel PiSTOL without tuning, against LIBSVM with timed tuning.

    python benchmarks/kernel.py --data DIR [--only PART ...] [--peers FILE] [--figure FILE]
    python benchmarks/kernel.py --data DIR --crossover

DIR holds the data sets of `_data.py`. The parts are the learning curves (a9a, mnist even/odd,
newsgroups), the data sets with defaults (satellite, letter, protein, pol, kin40k), mnist, costs
and compression. Nearly all of the twenty minutes of a whole run on one core are spent by
the peers; ``--peers FILE`` keeps their rows between runs during development, and the output names
those that were not measured. ``--crossover`` compares with random features instead.
"""

import argparse
import json
from pathlib import Path

import _kernel_crossover as crossover
import _kernel_ours as ours
import _kernel_peers as peers
import _kernel_tables as tables
from _kernel_problems import REGRESSION, problem
from _tables import console

SIZES = {
    "a9a": (500, 2000, 8000, 32561),
    "mnist even/odd": (500, 2000, 8000),
    "newsgroups": (500, 2000, 8000, 11314),
}
SEARCHED_TO = {"a9a": 8000, "mnist even/odd": 2000, "newsgroups": 2000}
SHUFFLES = 5, 3  # below 8,000 rows, and from there on
TUNED = ("satellite", "letter", *REGRESSION)
SWEPT = ("kin40k", "pol")  # a search takes minutes to a quarter of an hour on an idle core
PARTS = (*SIZES, *TUNED, "mnist", "costs", "compression")


def main():
    args = arguments()
    kept = Peers(args.peers)
    console.print(f"compiled, or loaded from the cache, in {ours.warm_up():.1f} s")
    if args.crossover:
        crossover.run(crossover.synthetic(), crossover.SIZES["synthetic"])
        crossover.run(problem("mnist", args.data), crossover.SIZES["mnist"])
        return
    chosen = args.only or PARTS
    curves = {name: curve(name, args.data, kept) for name in SIZES if name in chosen}
    rows = {name: nothing_set(name, args.data, kept) for name in TUNED if name in chosen}
    if "mnist" in chosen:
        rows["mnist"] = mnist(args.data, kept)
    if rows:
        tables.tuned(rows)
    if "costs" in chosen:
        costs(args.data)
    if "compression" in chosen:
        tables.compression(ours.compressions(problem("mnist", args.data)))
        tables.budgets(ours.budgets(problem("a9a", args.data)))
    console.print(tables.HOW)
    if kept.kept:
        console.print(f"[bold]Not measured by this run, read from {args.peers}:[/bold] the SVM on "
                      f"{', '.join(sorted(kept.kept))}")  # fmt: skip
    if args.figure and curves:
        tables.figure(curves, args.figure)


def curve(name, directory, kept):
    """Measure and print a learning curve; return its note and rows."""
    found, sizes = problem(name, directory), SIZES[name]
    rows = {str(size): {} for size in sizes}
    times = {size: SHUFFLES[size >= 8000] for size in sizes}
    for size, method, row in ours.curve(found, times):
        rows[size][method] = row
    measured = kept(name, lambda: dict(peers.curve(found, times, SEARCHED_TO[name])))
    for size, row in measured.items():
        rows[size][tables.PEER] = row
    tables.curve(name, found.note, rows, len(found.y_test))
    if name == "a9a":
        sparse = kept("a9a sparse", lambda: {"cpu": peers.sparse_cost(found, 8000)})
        console.print(f"  LIBSVM's own sparse rows at 8,000: {sparse['cpu']:.1f} CPU s a search\n")
    return found.note, rows


def nothing_set(name, directory, kept):
    """Our fit with defaults, and the search of the peer."""
    found = problem(name, directory)
    row, model = ours.untuned(found)
    if name in ("letter", "kin40k"):
        tables.trace(name, model, found.task == "regression")
    search = peers.swept if name in SWEPT else peers.searched
    peer = kept(name, lambda: search(found))
    return found.task, row, peer, len(found.y_test)


def mnist(directory, kept):
    """All 60,000 rows; the peer is one fit on fewer."""
    row = ours.whole_mnist(directory)
    console.print(
        f"MNIST, 60,000 rows x 10 classes, two threads: {row['wall']:.0f} s wall, {row['cpu']:.0f} "
        f"CPU s, {row['passes']} passes, {row['support']:,d} support rows, peak memory "
        f"{row['peak']:.2f} GB of which {row['data']:.2f} GB before the fit"
    )
    found = problem("mnist", directory)
    peer = kept("mnist", lambda: peers.one_fit(found, 10_000, C=10.0, gamma=0.02))
    return "multiclass", row, peer, len(found.y_test)


def costs(directory):
    """The fit and its matrix products, and scoring."""
    for name, size in (("a9a", 32561), ("mnist", 15_000)):
        row = ours.products_alone(problem(name, directory), size)
        console.print(
            f"{name}, {size:,d} rows, one pass: fit {row['fit']:.2f} CPU s, its matrix products "
            f"alone {row['products']:.2f} CPU s ({row['gflops']:.0f} GFLOP): ratio "
            f"{row['fit'] / row['products']:.2f}"
        )
    found = problem("mnist", directory)
    for n_jobs in (1, 2):
        row = ours.scoring(found, n_jobs)
        console.print(
            f"scoring 10,000 MNIST rows against 60,000 support rows, 10 outputs, {n_jobs} "
            f"thread{'s' * (n_jobs > 1)}: {row['wall']:.1f} s wall, {row['cpu']:.1f} CPU s"
        )


class Peers:
    """Rows of the peers: measured now, or read from a file if one is named."""

    def __init__(self, path):
        self.path = Path(path) if path else None
        found = self.path is not None and self.path.exists()
        self.rows = json.loads(self.path.read_text()) if found else {}
        self.known, self.kept = set(self.rows), set()

    def __call__(self, key, measure):
        """Return the row of a key, measured if it is not in the file."""
        if key in self.known:
            self.kept.add(key)
        if key not in self.rows:
            self.rows[key] = measure()
            if self.path is not None:
                self.path.write_text(json.dumps(self.rows, indent=1))
        return self.rows[key]


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="../shared/data", help="folder of the data sets")
    parser.add_argument("--only", nargs="+", metavar="PART", choices=PARTS)
    parser.add_argument("--peers", metavar="FILE", help="keep the peers' rows in this file")
    parser.add_argument("--figure", metavar="FILE", type=Path)
    parser.add_argument("--crossover", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
