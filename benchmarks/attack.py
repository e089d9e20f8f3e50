"""An attack on every promise, with hostile tables, threads, chunks, files, kills and names.

python benchmarks/attack.py [--only CLASS ...] [--tries N] [--seed S] [--verbose]

Classes: tables (a default fit of every public estimator on 40 hostile tables; a failure is a loss
on test rows above 1.05 of that of a constant, or an error without a name), threads (four of
them on one learner), storage (alternating dense and sparse chunks of a stream), models (forged
files with valid checksums), readers (one text as a stream and in memory), kills (kill -9 while a
model or a checkpoint is saved), names (columns and labels with markup, escape sequences and
formulas). The last table: class | tries | failures.
"""

import argparse
import warnings

import numpy as np

import _attack
from _tables import console, table


def main():
    options = arguments()
    warnings.simplefilter("ignore")
    rows = []
    for name in options.only or _attack.CLASSES:
        tries, failures = 0, []
        for what, problem in _attack.CLASSES[name](np.random.default_rng(options.seed), options):
            tries += 1
            if problem:
                failures.append(f"{what}: {problem}")
                console.print(f"[red]{name}[/red] {failures[-1]}", markup=True, highlight=False)
        rows.append((name, str(tries), str(len(failures))))
    table("Attack", ("class", "tries", "failures"), rows)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="*", choices=list(_attack.CLASSES))
    parser.add_argument("--tries", type=int, default=None, help="of each class but tables")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
