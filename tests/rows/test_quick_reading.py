"""Short cuts of reading change nothing: kinds, values, missing cells and bad ones are the same."""

import random
import warnings

import numpy as np
import pytest

from tunefree.rows import learned_kinds
from tunefree.rows.columns import Texts, of_array
from tunefree.rows.schema import Schema, learn_columns, numbers_among, numeric_targets, read_columns

_ODD = (
    ["", "NA", "n.a.", "?", "-", "nan", "inf", "1e999", "+3", ".5", "5.", "-0", "0x1", "1_000"]
    + ["007", "1,5", "1.234,5", "1 234", "$5", "5 km", "7%", "3.0M", "2100 - 2850", "<=50K"]
    + ["true", "2024-01-31", "2024-02-30", "31.01.2024", "5/10/18 4:01", "20190103", "12:30"]
    + ["abc", "84030E", "  x ", "\u00a05", "½", "-999", "unknown", "0.30000000000000004"]
    + ["9007199254740993", "12345678901234567890", "1e-320", "٣", " 4", "\t4", "\ud800"]
)
_MARKERS = ["", "NA", "n.a.", "?", "*", None]


def _plain(draw):
    forms = (f"{draw.gauss(0, 100):.3f}", str(draw.randint(-5, 500)), repr(draw.gauss(0, 1)))
    return draw.choice(forms)


def _iso(draw):
    return f"20{draw.randint(10, 24)}-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}"


_CELLS = {
    "odd": lambda draw: draw.choice(_ODD),
    "numbers": _plain,
    "numbers and markers": lambda draw: draw.choice([_plain(draw)] * 4 + [draw.choice(_MARKERS)]),
    "numbers and odd ones": lambda draw: draw.choice([_plain(draw)] * 15 + [draw.choice(_ODD)]),
    "sentinels": lambda draw: draw.choice([str(draw.randint(0, 50))] * 4 + ["-999"]),
    "days of digits": lambda draw: draw.choice([_iso(draw).replace("-", "")] * 9 + ["NA"]),
    "large numbers": lambda draw: str(draw.randint(10**7, 10**9)),
    "dates": lambda draw: draw.choice([_iso(draw)] * 20 + ["NA", "2024-02-30"]),
    "money": lambda draw: draw.choice([f"${draw.random() * 1e4:,.2f}"] * 9 + ["n.a.", "5/10/18"]),
    "codes": lambda draw: str(draw.randint(1000, 9999)) + draw.choice(["", "E"]),
}
_GIVEN = [None, None, {"x0": "number"}, {"x0": "text"}, {"x0": {"markers": ["-999", "5"]}}]


def _listed(values):
    """Values of which every bit is shown."""
    return values.tolist() if isinstance(values, np.ndarray) else values


def _found(cells, new, given):
    """What is learned of a column, and what is read from it and from another one."""
    X, N = (np.array([*c, None], dtype=object)[:-1, None] for c in (cells, new))
    raw = of_array(X[:, 0])
    found = [numbers_among(raw), numeric_targets(raw), numeric_targets(raw, True)]
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            schema, own = learn_columns(X, given=given)
            assert schema == Schema.of(X, given=given)
            found += [schema, *own[0], *read_columns(schema, N)[0]]
        except ValueError as problem:  # the column is not, or no longer, of the kind
            found.append(str(problem))
    found += [str(warning.message) for warning in heard]
    return repr([_listed(values) for values in found])


@pytest.mark.parametrize("kind", _CELLS)
def test_columns_are_read_alike_with_and_without_short_cuts(kind, monkeypatch):
    draw = random.Random(kind)
    columns = []
    for _ in range(8):
        n, other = draw.choice([1, 3, 30, 150]), draw.choice([kind, draw.choice([*_CELLS])])
        cells = [_CELLS[kind](draw) for _ in range(n)]
        columns.append((cells, [_CELLS[other](draw) for _ in range(n)], draw.choice(_GIVEN)))
    quick = [_found(*column) for column in columns]
    monkeypatch.setattr(Texts, "plain", None)
    monkeypatch.setattr(learned_kinds, "are_iso", lambda _: False)
    monkeypatch.setattr(learned_kinds, "may_all_be_dates", lambda _: True)
    assert [_found(*column) for column in columns] == quick


def test_numbers_have_the_bits_of_python():
    draw = random.Random(0)
    cells = [repr(draw.random() * 10.0 ** draw.randint(-320, 300)) for _ in range(500)]
    cells += ["9007199254740993", "1e-320", "0.1", "12345678901234567890", "5.", ".5", "-0", "+3"]
    values = numbers_among(of_array(np.array(cells)))
    assert values.tobytes() == np.array([float(cell) for cell in cells]).tobytes()


def test_the_order_of_rows_decides_nothing():
    draw = random.Random(1)
    for make in _CELLS.values():
        cells = [make(draw) for _ in range(120)]
        shuffled = draw.sample(cells, len(cells))
        X, Z = (np.array([*c, None], dtype=object)[:-1, None] for c in (cells, shuffled))
        assert Schema.of(X) == Schema.of(Z)
