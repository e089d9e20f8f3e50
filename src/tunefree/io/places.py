"""Where a cell stands in delimited text: found again once it is known to be bad."""

import csv
import io

from tunefree.io.errors import decoded
from tunefree.io.layout import cell_spans


def place_of(text, line, record, position, delimiter, *, border=False):
    r"""Find a cell.

    Parameters
    ----------
    text : bytes
        Whole lines.
    line : int
        The number of the first.
    record : int
        The number of the cell's row, blank lines not counted, from 0.
    position : int
        The number of the cell in it, from 0.
    delimiter : str
    border : bool
        Whether what separates the cell from the one before is meant, or, without such a cell, the
        end of the row.

    Returns
    -------
    line, column : int or None
        From 1; None where the text is beyond us.

    Examples
    --------
    >>> place_of(b'a,"b\nc",d\n\nx, y\n', 1, 0, 2, ","), place_of(b'a,b\n\nx, y\n', 1, 1, 1, ",")
    ((2, 4), (3, 4))
    """
    taken = []

    def noted():
        for piece in io.StringIO(decoded(text), newline=""):
            taken.append(piece)
            yield piece

    reader, before = csv.reader(noted(), delimiter=delimiter), 0
    try:
        for cells in reader:
            record -= bool(cells)
            if record < 0:
                break
            before = reader.line_num
            taken.clear()
    except csv.Error:
        return None, None
    raw = "".join(taken).rstrip("\r\n")
    spans = list(cell_spans(raw, delimiter))
    if position < len(spans):
        begin, content, _ = spans[position]
        at = begin - 1 if border else content
    else:
        at = len(raw)
    return line + before + raw.count("\n", 0, at), at - (raw.rfind("\n", 0, at) + 1) + 1
