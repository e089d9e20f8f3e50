"""Speed of reading: MB of csv a CPU second, with the kinds of all columns and their missing cells.

python benchmarks/reading.py [--rows N]

Each table is read twice, and the second time counts: kernels are compiled by then. MB are 10^6
bytes, and CPU seconds those of the process.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from tunefree.cli.rows import read_table
from tunefree.files.files import Skipped


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=150_000)
    n = parser.parse_args().rows
    print(f"{'table':<28} {'MB':>6} {'MB a CPU second':>16}")
    for name, columns in tables(np.random.default_rng(0), n).items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "table.csv"
            write(path, columns)
            size = path.stat().st_size / 1e6
            seconds = [spent(path) for _ in range(2)][1]
        print(f"{name:<28} {size:6.1f} {size / seconds:16.0f}", flush=True)


def tables(rng, n):
    """Lists of columns of text, by name; the last one is the target."""
    numbers = [text(x, "%.6f") for x in rng.normal(size=(9, n))]
    gaps = [with_markers(rng, x, 0.02) for x in numbers]
    target = text(rng.normal(size=n), "%.5f")
    day = np.datetime64("2015-01-01") + rng.integers(0, 3000, n)
    moment = np.datetime64("2015-01-01T00:00:00") + rng.integers(0, 3000 * 86400, n)
    mixed = [
        with_markers(rng, text(100.0 * rng.normal(size=n), "%.4f"), 0.05),
        text(rng.integers(0, 1000, n), "%d"),
        with_markers(rng, [f'"${v:,.2f}"' for v in rng.gamma(2.0, 2000.0, n)], 0.02),
        np.datetime_as_string(day).tolist(),
        [t.replace("T", " ") for t in np.datetime_as_string(moment).tolist()],
        rng.choice(["red", "green", "blue", "dark orange"], n).tolist(),
        [f"city {k}" for k in rng.integers(0, 400, n)],
        with_markers(rng, text(10.0 * rng.random(n), "%.1f%%"), 0.05),
    ]
    names = [[f"person {a} of {b}" for a, b in rng.integers(0, 10**6, (n, 2))]]
    return {
        "numbers": [*numbers, target],
        "numbers, classes of text": [*numbers, rng.choice(["yes", "no"], n).tolist()],
        "numbers with gaps": [*gaps, target],
        "mixed": [*mixed, target],
        "text": [mixed[5], mixed[6], *names, target],
    }


def text(values, form):
    return [form % value for value in values.tolist()]


def with_markers(rng, cells, share):
    """Cells of which a share is missing, under two markers."""
    draws = zip(cells, rng.random(len(cells)).tolist(), strict=True)
    return [cell if u > share else "" if u > share / 2 else "NA" for cell, u in draws]


def write(path, columns):
    with open(path, "w", encoding="utf-8") as file:
        file.write(",".join(f"x{j}" for j in range(len(columns))) + "\n")
        file.writelines(",".join(row) + "\n" for row in zip(*columns, strict=True))


def spent(path):
    """CPU seconds of reading a table."""
    start = time.process_time()
    read_table(str(path), None, {"skipped": Skipped()})
    return time.process_time() - start


if __name__ == "__main__":
    main()
