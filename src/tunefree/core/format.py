"""Numbers, lists and tables as people read them."""

import math
import re
from numbers import Integral


def number(value, digits=3):
    """A number as text, with three significant digits; whole numbers have all of theirs.

    >>> number(2934.2), number(0.99961), number(0.05), number(-1.2e-7), number(20_000)
    ('2,930', '1.00', '0.0500', '-1.2e-07', '20,000')
    """
    if isinstance(value, Integral):
        return f"{value:,}"
    rounded = float(f"{value:.{digits}g}")
    size = abs(rounded)
    if size == 0.0:
        return "0"
    if not 1e-4 <= size < 1e12:  # also infinity and nan
        return f"{rounded:.{digits}g}"
    decimals = max(digits - 1 - math.floor(math.log10(size)), 0)
    return f"{rounded:,.{decimals}f}"


def duration(seconds):
    """A time as text, down to hundredths of seconds.

    >>> duration(174.2), duration(2.94), duration(8e-6)
    ('174 s', '2.9 s', '0 s')
    """
    return f"{seconds:,.0f} s" if seconds >= 9.95 else f"{round(seconds, 2):.2g} s"


def listed(names, most=5):
    """The first names of a list.

    >>> listed(["a", "b"]), listed("abcdefg")
    ('a, b', 'a, b, c, d, e and 2 more')
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def aligned(rows):
    """Rows of texts as lines: the first column flush left, the others flush right.

    >>> aligned([("", "coef"), ("age", "1")])
    ['     coef', 'age     1']
    """
    width, *widths = (max(map(len, column)) for column in zip(*rows, strict=True))
    return ["  ".join([name.ljust(width), *map(str.rjust, cells, widths)]) for name, *cells in rows]


def words_on_address(name):
    """What to do with a file's name such as "https://..." or "s3://..."; None of other names.

    >>> words_on_address("s3://bucket/data.csv")
    'addresses are not read: download the file, or write it to a pipe and give - as its name'
    """
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]{1,15}://", name):
        return None
    what = "download the file, or write it to a pipe and give - as its name"
    return f"addresses are not read: {what}"
