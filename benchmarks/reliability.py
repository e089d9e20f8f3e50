"""The reliability table: every row measured now, ours beside the peers.

python benchmarks/reliability.py [--data DIR] [--quick] [--only NAME ...] [--markdown FILE]

Without --data five of the ten raw data sets are used. The whole takes about ten minutes of CPU
time, --quick two. `LIBSVM` and `LIBLINEAR` are their own packages (libsvm-official,
liblinear-official), and left out where these are not installed.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

for library in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")  # before NumPy is imported

import _hostile  # noqa: E402
import _trust  # noqa: E402


def interrupts(quick):
    """Ctrl-C in the middle of every learner's fit, in a process of its own."""
    script = Path(__file__).with_name("_interrupt.py")
    names = ["PiSTOLClassifier", "AveragedSGDRegressor", "OptimisticPerceptron"] if quick else []
    done = subprocess.run([sys.executable, str(script), *names], capture_output=True, text=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    delays = [f["delay"] for f in found if "delay" in f]
    spoiled = [f["name"] for f in found if f["state"] in ("spoiled", "not finite")]
    return (f"{len(delays)} learners: {max(delays):.3f} s at most, {len(spoiled)} spoiled", "-")


def killed(n):
    """SIGKILL while a model file is replaced: the old or the new one is there."""
    code = (
        "import sys, itertools\n"
        "from tunefree.persistence import load_values, save_values\n"
        "print('ready', flush=True)\n"
        "for k in itertools.count():\n"
        "    save_values({'k': k, 'text': str(k) * 20000}, sys.argv[1], kind='run')\n"
    )
    import random
    import tempfile

    from tunefree.persistence import load_values

    broken, rng = 0, random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "file")
        for _ in range(n):
            child = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE)
            child.stdout.readline()
            while not os.path.exists(path):
                time.sleep(0.001)
            time.sleep(rng.random() * 0.05)
            child.kill()
            child.wait()
            child.stdout.close()
            values = load_values(path, kind="run")
            broken += values["text"] != str(values["k"]) * 20000
    return f"{broken} of {n} kills leave a broken file", "-"


def rows(options):
    quick = options.quick
    return {
        "weights": ("weight = repetition: relative coefficient difference",
                    _trust.repetition, 5 if quick else 50),
        "scales": ("X times 1e-8 ... 1e8, columns 1e-6 ... 1e6: loss of score", _trust.scales),
        "defaults": ("raw data, default fits",
                     _trust.defaults, options.data, 3 if quick else 20),
        "bad": ("NaN, inf in X, y, weight", _trust.bad_values),
        "absurd": ("one absurd row in a stream, then 200 clean rows: accuracy kept",
                   _trust.absurd, 2 if quick else 5),
        "malformed": ("malformed libsvm files", _hostile.malformed),
        "random": ("random libsvm files parse as load_svmlight_file does",
                   _hostile.random_files, 300 if quick else 10_000),
        "models": ("damaged model files", damaged, 200 if quick else 10_000, 10 if quick else 40),
        "kill": ("kill -9 while a file is written", killed, 5 if quick else 50),
        "chunks": ("partial_fit in chunks of 1, 7, 64, all", _trust.chunks),
        "interrupt": ("Ctrl-C in the middle of a fit", interrupts, quick),
        "workers": ("n_jobs 1, 2, 8", _trust.workers),
        "separation": ("rows that no plane separates", _trust.separation, 100 if quick else 1000),
        "replay": ("many updates", _trust.replay, 10**6 if quick else 10**8),
    }  # fmt: skip


def damaged(flips, cuts):
    return _hostile.our_model(flips), _hostile.their_models(cuts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of the public data sets")
    parser.add_argument("--quick", action="store_true", help="few seeds and files")
    parser.add_argument("--only", nargs="*", help="rows by their short names")
    parser.add_argument("--markdown", help="also write the table to this file")
    options = parser.parse_args()
    lines = ["| test | tunefree | peers |", "|---|---|---|"]
    for name, (title, check, *arguments) in rows(options).items():
        if options.only and name not in options.only:
            continue
        start = time.process_time()
        ours, peers = _trust.quietly(check, *arguments)
        lines.append(f"| {title} | {ours} | {peers} |")
        spent = time.process_time() - start
        print(f"{title}\n    ours   {ours}\n    peers  {peers}   [{spent:.0f} s]", flush=True)
    if options.markdown:
        Path(options.markdown).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
