"""The page of field files has every file of the list, in its order."""

import csv
from pathlib import Path

ROOT = Path(__file__).parents[1]


def _rows(path):
    with (ROOT / path).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_page_shows_every_file_and_what_is_odd_in_it():
    listed, shown = _rows("benchmarks/files.csv"), _rows("docs/results/files.csv")
    names = [row["file"].removesuffix(".gz") for row in listed]
    assert [row["file"] for row in shown] == names
    assert [row["what is odd in it"] for row in shown] == [row["odd"] for row in listed]
    assert all(row["read as"] for row in shown)
