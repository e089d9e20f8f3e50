"""A second list of real tables: those behind the articles of a newspaper, for one comparison.

The files are the csv of a clone of the public repository fivethirtyeight/data. The rules were
written down, and `press.csv` was made by them, before any method was fitted to one of its tables;
no default was, or will be, chosen on them.

Folders in the order of their names, and in each the files in the order of their paths: the first
file that suits. Up to a megabyte, 300 to 50,000 rows and 4 to 100 columns; the columns and the
target are what the rules of `_frames.py` make of them. Folders of tables that the library's tests,
examples or field files have do not count.

    python benchmarks/_press.py CLONE            # prints the list: press.csv
    python benchmarks/open.py --half press --data CLONE --rows docs/results/press.csv
"""

import csv
import sys
import warnings
from pathlib import Path

from _frames import COLUMNS, ROWS, _framed, _usable, _with_target

LIST = Path(__file__).with_name("press.csv")
KNOWN = {"masculinity-survey", "star-wars-survey"}
LARGEST = 1_000_000  # bytes of a file


def _read(path):
    """The frame of a file, or None if it is no table of text in UTF-8."""
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # columns of mixed types
        try:
            return pd.read_csv(path, low_memory=False)
        except (UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError):
            return None


def frames(clone):
    """The first frame with a target of every folder."""
    folders = sorted(path for path in Path(clone).iterdir() if path.is_dir())
    for folder in folders:
        if folder.name not in KNOWN:
            found = next(filter(None, map(_framed_by_rule, sorted(folder.rglob("*.csv")))), None)
            if found is not None:
                yield found._replace(name=Path(found.name).relative_to(clone).as_posix())


def _framed_by_rule(path):
    if path.stat().st_size > LARGEST:
        return None
    frame = _read(path)
    if frame is None or not ROWS[0] <= len(frame) <= ROWS[1]:
        return None
    if not COLUMNS[0] <= frame.shape[1] <= COLUMNS[1]:
        return None
    return _with_target(path.as_posix(), _usable(frame))


def in_list():
    """The lines of the list: {name: line}."""
    with open(LIST, newline="") as file:
        return {line["file"]: line for line in csv.DictReader(file)}


def load(line, clone):
    """The frame of a line of the list; a ValueError if the clone has another one."""
    frame = _usable(_read(Path(clone, line["file"])))
    found = _framed(
        line["file"], line["target"], line["kind"], frame[frame[line["target"]].notna()]
    )
    if found.X.shape != (int(line["rows"]), int(line["columns"])):
        raise ValueError(f"{found.name} has shape {found.X.shape}, unlike {LIST.name}.")
    return found


def main(clone):
    """Print the list."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["file", "target", "kind", "rows", "columns"])
    for frame in frames(clone):
        writer.writerow([frame.name, frame.target, frame.kind, *frame.X.shape])


if __name__ == "__main__":
    main(sys.argv[1])
