"""Linear PiSTOL without tuning, against peers with timed tuning. All data are raw.

python benchmarks/linear.py --data DIR [--only NAME ...] [--csv FILE] [--figure FILE]

DIR holds the data sets of `_data.py`. The whole run takes about a quarter of an hour on one core,
most of it for cross-validation of the peers; ``--peers-cache FILE`` keeps the numbers of the peers
between runs during development (they are then from an earlier run).
"""

import argparse
import json
from pathlib import Path

import _data
import _ours
import _peers
import _regression
import _stream
import _tables

SPEED = ("a9a", "newsgroups")


def main():
    options = arguments()
    chosen = [name for name in _data.LOADERS if not options.only or name in options.only]
    cache = Cache(options.peers_cache)
    compiling = _ours.warm_up()
    results = {"classification": {}, "regression": {}, "stream": {}, "throughput": {}}
    for name in chosen:
        _tables.console.print(f"[dim]{name}[/dim]")
        data = _data.load(name, options.data)
        run(data, cache, results)
    show(results)
    _tables.footer(compiling, [name for name in chosen if name in cache.kept])
    if options.csv:
        _tables.write_csv(options.csv, results)
    if options.figure:
        _tables.figure(options.figure, results["classification"])


def run(data, cache, results):
    """Run ours and the peers on one data set and put the rows into ``results``."""
    if data.task == "stream":
        results["stream"] = dict(_stream.rows(data, _ours.classifier()))
    elif data.task == "regression":
        results["regression"][data.name] = {
            **dict(_regression.ours(data, _ours.regressor)),
            **cache(data, _regression.peers),
        }
    else:
        row, members = _ours.classification(data)
        results["classification"][data.name] = {
            "rows": {"tunefree": row, **cache(data, _peers.classification)},
            "members": members,
            "n_test": len(data.y_test),
            "shape": "{} x {}".format(*data.X_train.shape),
        }
        if data.name in SPEED:
            results["throughput"][data.name] = list(_ours.throughput_rows(data))


def show(results):
    if results["classification"]:
        _tables.classification(results["classification"])
    if results["stream"]:
        _tables.stream(results["stream"])
    if results["regression"]:
        _tables.regression(results["regression"])
    if results["throughput"]:
        _tables.throughput(results["throughput"])


class Cache:
    """Peers' rows, kept in a JSON file if one is named."""

    def __init__(self, path):
        self.path = Path(path) if path else None
        found = self.path is not None and self.path.exists()
        self.rows = json.loads(self.path.read_text()) if found else {}
        self.kept = set(self.rows)

    def __call__(self, data, peers):
        """Return the kept rows of a data set, or run the peers on it."""
        if data.name not in self.rows:
            self.rows[data.name] = dict(peers(data))
            if self.path is not None:
                self.path.write_text(json.dumps(self.rows, indent=1))
        return self.rows[data.name]


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="../shared/data", help="folder of the data sets")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=_data.LOADERS)
    parser.add_argument("--peers-cache", metavar="FILE")
    parser.add_argument("--csv", metavar="FILE")
    parser.add_argument("--figure", metavar="FILE")
    return parser.parse_args()


if __name__ == "__main__":
    main()
