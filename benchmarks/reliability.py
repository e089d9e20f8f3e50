"""The reliability table: every row measured now, ours and the peers.

python benchmarks/reliability.py [--data DIR] [--quick] [--only NAME ...] [--write STEM]

Without --data five of the ten raw data sets are used. The whole takes about an hour of CPU time
(the replay of 10^9 updates most of it), --quick some minutes. With --write each row is put into
STEM.json as soon as it is measured, and STEM.md is the table of all rows there: the table of
`docs/reliability.md`. `LIBSVM` and `LIBLINEAR` are the original packages (libsvm-official,
liblinear-official). They and Vowpal Wabbit are skipped if they are not installed.
"""

import argparse
import json
import os
import subprocess
import time
from pathlib import Path

import _hostile
import _trust
import _trust_processes as processes
import _trust_streams as streams

FAST = ["PiSTOLClassifier", "PiSTOLRegressor", "RidgePathRegressor"]
SLOW = [name for name in _trust.AUTOMATIC if name not in FAST]


def rows(options):
    """Every row: its title, the check, and the check's arguments."""
    quick = options.quick
    updates = dict.fromkeys(FAST, 10**6 if quick else 10**9)
    updates["PiSTOLRegressor"] = 10**6 if quick else 10**8
    peers = _trust.SGDClassifier, _trust.SGDRegressor
    return {
        "weights": ("weight = repetition: relative difference of decisions, seeds: ",
                    _trust.repetition, 5 if quick else 50),
        "scales": ("X times 1e-8 ... 1e8, columns 1e-6 ... 1e6: loss of score", _trust.scales),
        "defaults": ("raw data, default fits of linear learners",
                     _trust.defaults, options.data, 3 if quick else 20, FAST, peers),
        "more": ("raw data, default fits of kernel learners and TuneFree",
                 _trust.defaults, options.data, 1 if quick else 20, SLOW),
        "bad": ("NaN, inf in X, y, weight", _trust.bad_values),
        "outlier": ("one outlier row in a stream, then 200 clean rows: accuracy kept",
                   streams.outlier, 2 if quick else 5, streams.STREAMS, "partial_fit"),
        "memory": ("one outlier row in memory: accuracy kept",
                   streams.outlier, 2 if quick else 5, _trust.GUARDED, "fit"),
        "malformed": ("malformed libsvm files", _hostile.malformed),
        "random": ("random libsvm files parse as load_svmlight_file does",
                   _hostile.random_files, 300 if quick else 10_000),
        "models": ("damaged model files", _hostile.damaged,
                   200 if quick else 10_000, 10 if quick else 40),
        "hostile": ("hostile files: pickles, zip bombs, forged headers", _hostile.hostile),
        "kill": ("kill -9 while a file is written", processes.killed, 5 if quick else 50),
        "resume": ("kill -9, resume: the bytes of an uninterrupted run",
                   processes.resumed, 6 if quick else 100),
        "disk": ("a full disk", processes.full, 5 if quick else 50),
        "chunks": ("partial_fit in chunks of 1, 7, 64, all", streams.chunks),
        "interrupt": ("Ctrl-C in the middle of a fit", processes.interrupts, quick),
        "workers": ("n_jobs 1, 2, 8", _trust.workers),
        "threads": ("eight fits at once in threads", _trust.threads),
        "cluster": ("SIGKILL of one of four Dask workers", processes.cluster, 2 if quick else 20),
        "separation": ("rows that no plane separates", _trust.separation, 100 if quick else 1000),
        "counters": ("float32 rows beyond 2^24 updates",
                     streams.counters, 10**6 if quick else 2 * 10**7),
        "replay": ("many updates by replay", streams.replay, updates),
    }  # fmt: skip


def write(stem, order, found):
    """Put rows into STEM.json, and the table of all its rows into STEM.md."""
    path = stem.with_suffix(".json")
    known = (json.loads(path.read_text()) if path.exists() else {}) | found
    known = {name: known[name] for name in order if name in known}
    path.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n")
    lines = ["| test | tunefree | peers | size | CPU s | at |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {row['title']} | {row['ours']} | {row['peers']} | {row['size']} | "
        f"{row['seconds']:.0f} | {row['commit']} |"
        for row in known.values()
    ]
    missing = [name for name in order if name not in known]
    if missing:
        lines += ["", f"Not measured: {', '.join(missing)}."]
    stem.with_suffix(".md").write_text("\n".join(lines) + "\n")


def commit():
    """The version of the sources."""
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
                          cwd=Path(__file__).parent)  # fmt: skip
    return done.stdout.strip() or "an unknown version"


def cpu_seconds():
    """CPU seconds of this process and of those it has waited for."""
    times = os.times()
    return sum(times[:4])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of the public data sets")
    parser.add_argument("--quick", action="store_true", help="few seeds and files")
    parser.add_argument("--only", nargs="*", help="rows by their short names")
    parser.add_argument("--write", type=Path, help="also write the table to STEM.json and STEM.md")
    options = parser.parse_args()
    version, table = commit(), rows(options)
    for name in options.only or table:
        title, check, *arguments = table[name]
        title += str(arguments[0]) if title.endswith("seeds: ") else ""
        start, elapsed = cpu_seconds(), time.monotonic()
        ours, peers = _trust.quietly(check, *arguments)
        spent, elapsed = cpu_seconds() - start, time.monotonic() - elapsed
        print(f"{title}\n    ours   {ours}\n    peers  {peers}\n"
              f"    [{name}: {spent:.0f} s of CPU, {elapsed:.0f} s]", flush=True)  # fmt: skip
        if options.write:
            row = {"title": title, "ours": ours, "peers": peers, "seconds": spent,
                   "commit": version, "size": "quick" if options.quick else "full"}  # fmt: skip
            write(options.write, table, {name: row})


if __name__ == "__main__":
    main()
