"""``tunefree reproduce``: the papers' figures, with progress on a terminal and a summary."""

import contextlib
from pathlib import Path

from tunefree.cli.console import USAGE, answer, note, stop


def run_reproduce(names, everything, listing, quick, out, data, finished):
    """Run experiments, or list them."""
    from tunefree.experiments import EXPERIMENTS, load
    from tunefree.experiments.runner import reproduce

    if listing:
        found = [(name, load(name)) for name in EXPERIMENTS]
        answer("\n".join(f"{name:24} {e.PAPER}\n{'':24} {e.TITLE}" for name, e in found))
        return
    unknown = [n for n in names if n not in EXPERIMENTS]
    if unknown:
        stop(f"no experiment {unknown[0]!r}; there are {', '.join(EXPERIMENTS)}", USAGE)
    if bool(names) == everything:
        stop("name experiments, or say --all, or --list", USAGE)
    if data is not None and not Path(data).is_dir():
        stop(f"--data {data}: no such folder", USAGE)
    outcomes = []
    for name in EXPERIMENTS if everything else names:
        with _progress(name) as progress:
            options = {"quick": quick, "data": data, "progress": progress, "finished": finished}
            outcomes.append(reproduce(name, out, **options))
        answer(_report(outcomes[-1]))
    if len(outcomes) > 1:
        lines = ["", f"{'experiment':26} {'CPU s':>8}  rows"]
        lines += [f"{o.name:26} {o.seconds:8.1f}  {o.skipped or len(o.rows)}" for o in outcomes]
        answer("\n".join([*lines, f"{'all':26} {sum(o.seconds for o in outcomes):8.1f}"]))
    if any(o.skipped.startswith("needs") for o in outcomes):
        note("some experiments need public data sets: give their folder with --data DIR")


@contextlib.contextmanager
def _progress(name):
    """A bar on stderr, if that is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with Progress(console=console, transient=True) as bars:
        bar = bars.add_task(name)
        yield lambda done, total: bars.update(bar, completed=done, total=total)


def _report(outcome):
    if outcome.skipped:
        return f"{outcome.name}: skipped, {outcome.skipped}"
    lines = [f"{outcome.name} ({outcome.seconds:.1f} CPU s): {outcome.files[0].parent}"]
    rows = [("what", "paper", "ours", "setting"), *outcome.rows]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    for row in rows:
        cells = [f"{value:{width}}" for value, width in zip(row, widths, strict=False)]
        lines.append("  " + "  ".join([*cells, row[3]]))
    return "\n".join(lines)
