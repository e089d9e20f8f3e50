"""``python -m papers``: list the experiments, run them, print their tables."""

import argparse
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import track

from papers import EXPERIMENTS, load
from papers.runner import reproduce


def main(arguments=None):
    """Run the experiments that the arguments name; without a name list all of them."""
    parser = _parser()
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in EXPERIMENTS]
    if unknown:
        parser.error(f"no experiment {unknown[0]!r}; there are {', '.join(EXPERIMENTS)}")
    if options.data is not None and not Path(options.data).is_dir():
        parser.error(f"--data {options.data}: no such folder")
    names = list(EXPERIMENTS) if options.all else options.names
    if not names:
        print(_listing())
        return
    try:
        _run(names, options)
    except KeyboardInterrupt:
        parser.exit(130, "interrupted; the same command goes on where it stopped\n")


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m papers",
        description="Draw the papers' figures again: a table paper | ours, a PNG and a CSV each.\n"
        "After an interruption the same command goes on where it stopped.",
        epilog="\n  ".join(["names:", *EXPERIMENTS]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="an experiment; without one, list all of them")
    add("--all", action="store_true", help="every experiment")
    add("--quick", action="store_true", help="small sizes, under a minute each")
    add("--out", metavar="DIR", default="reproduced", help="where to write tables, CSV and PNG")
    add("--data", metavar="DIR", help="public data sets that some figures need")
    add("--finished", action="store_true", help="compute nothing, show what earlier runs finished")
    return parser


def _listing():
    found = [(name, load(name)) for name in EXPERIMENTS]
    return "\n".join(f"{name:24} {e.PAPER}\n{'':24} {e.TITLE}" for name, e in found)


def _run(names, options):
    """Run experiments; print each table, and a summary of several."""
    settings = {name: getattr(options, name) for name in ("quick", "data", "finished")}
    console, outcomes = Console(stderr=True), []
    for name in names:
        bar = {"console": console, "transient": True, "disable": not console.is_terminal}
        bars = partial(track, description=name, **bar)
        outcomes.append(reproduce(name, options.out, track=bars, **settings))
        print(_report(outcomes[-1]), flush=True)
    if len(outcomes) > 1:
        print(f"\n{'experiment':26} {'CPU s':>8}  rows")
        for o in outcomes:
            print(f"{o.name:26} {o.seconds:8.1f}  {o.skipped or len(o.rows)}")
        print(f"{'all':26} {sum(o.seconds for o in outcomes):8.1f}")


def _report(outcome):
    """An experiment's table as text."""
    if outcome.skipped:
        return f"{outcome.name}: skipped, {outcome.skipped}"
    lines = [f"{outcome.name} ({outcome.seconds:.1f} CPU s): {outcome.files[0].parent}"]
    rows = [("what", "paper", "ours", "setting"), *outcome.rows]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    for row in rows:
        cells = [f"{value:{width}}" for value, width in zip(row, widths, strict=False)]
        lines.append("  " + "  ".join([*cells, row[3]]))
    return "\n".join(lines)
