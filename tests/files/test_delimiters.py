"""The delimiter is found whatever numbers, dates and words stand between."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tunefree.files.mixed import read_mixed


def _decimals(size, digits, point):
    return f"{size:.{digits}f}".replace(".", point)


def _grouped(size, digits, point):
    group = {",": ".", ".": ","}[point]
    return f"{size:,.{digits}f}".replace(",", "_").replace(".", point).replace("_", group)


sizes = st.builds(lambda a, power: a * 10.0**power, st.floats(-1, 1), st.integers(0, 5))
digits = st.integers(1, 3)
WORDS = st.sampled_from(["red", "blue sky", "A-1", "x"])
WHOLE = st.integers(-99999, 99999).map(str)
DATES = st.dates().map(lambda day: f"{day:%d.%m.%Y}")
WITH_COMMAS = {
    "whole": WHOLE,
    "decimals": st.builds(_decimals, sizes, digits, st.just(",")),
    "grouped": st.builds(_grouped, sizes, digits, st.just(",")),
    "words": WORDS,
    "dates": DATES,
    "gaps": st.one_of(st.just(""), st.builds(_decimals, sizes, digits, st.just(","))),
}
WITH_POINTS = {
    "whole": WHOLE,
    "decimals": st.builds(_decimals, sizes, digits, st.just(".")),
    "words": WORDS,
    "dates": st.dates().map(str),
}


@st.composite
def files(draw):
    """A text, its delimiter and the number of its columns."""
    delimiter = draw(st.sampled_from(",;\t|"))
    cells = WITH_POINTS if delimiter == "," or draw(st.booleans()) else WITH_COMMAS
    filled = sorted(cells.keys() - {"gaps"})
    kinds = draw(st.lists(st.sampled_from(filled), min_size=2, max_size=5))
    kinds += ["gaps"] if "gaps" in cells and draw(st.booleans()) else []
    n_rows = draw(st.sampled_from([3, 20]))
    rows = [[draw(cells[kind]) for kind in kinds] for _ in range(n_rows)]
    has_header = draw(st.booleans()) or "decimals" not in kinds
    header = [[f"col{chr(97 + j)}" for j in range(len(kinds))]] if has_header else []
    text = "".join(delimiter.join(row) + "\n" for row in header + rows)
    return text, delimiter, len(kinds)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(files())
def test_the_delimiter_is_found(drawn):
    text, delimiter, width = drawn
    table = read_mixed([text.encode()], cells=True, format="csv", target=False)
    assert (table.dialect.delimiter, table.dialect.width) == (delimiter, width), text
