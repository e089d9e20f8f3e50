"""What all rows show of numbers that were read as plain ones, one block after the other.

Text that need not be in memory at once is read by what its first rows show. Later ones may show
that a column is none of plain numbers: points that part thousands, targets with zeros in front that
are names, and whole numbers beyond those of floats.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from tunefree.core.warn import DataWarning, warn
from tunefree.files.files import DataError
from tunefree.files.mixed import names_beyond_floats
from tunefree.files.tables import GROUPED, IGNORED, LONG, PADDED, TARGET, WEIGHT, type_of_targets
from tunefree.rows.columns import of_array
from tunefree.rows.learned_kinds import FEWEST_DIGITS
from tunefree.rows.schema import are_padded_names, numeric_targets
from tunefree.rows.written_numbers import may_be_grouped


def type_of_first_targets(blocks, name):
    """What the targets of the first blocks are, float or str, as they are in a whole table.

    Raises
    ------
    DataError
        If they are numbers, but none of plain ones, such as $5,000.
    """
    kind, target = type_of_targets(blocks), blocks[0].layout.find(TARGET)
    if target is None:
        return kind
    texts = np.concatenate([block.texts() for block in blocks])
    if kind is str:
        column = blocks[0].layout.describe(target.position)
        if refuse_written_targets(texts, column, name):
            raise next(block.stray for block in blocks if block.stray)
        return str
    if not any(block.forms[target.position, form] for block in blocks for form in (PADDED, LONG)):
        return float
    cells = pa.array(texts.tolist(), pa.string())
    return str if are_padded_names(cells) or names_beyond_floats(cells) is not None else float


def refuse_written_targets(y, column, name):
    """Refuse targets of text that are numbers written in another way than plain ones.

    Returns whether they are plain numbers with a few other cells.
    """
    numbers, written = numeric_targets(of_array(y)) if y.dtype.kind == "U" else (None, None)
    if numbers is None:
        return False
    known = np.isfinite(numbers)
    if written is None:
        return bool(np.isinf(numbers).any())
    given = y[np.argmax(known)]
    raise DataError(
        f"{column} has targets such as {given!r:.40}, which are numbers, but no plain ones: write "
        f"{numbers[known][0]:g}, or give target_type=str if they are names",
        name,
    )


class LateForms:
    r"""What the blocks of a file show so far.

    Parameters
    ----------
    layout : Layout
    is_decided : bool
        Whether it is known that targets are numbers, or names.

    Examples
    --------
    >>> from tunefree.files.tables import blocks
    >>> for block, _ in blocks([b"a,y\n1.250,1\n410,2\n"]):
    ...     forms = LateForms(block.layout, False)
    ...     forms.add(block)
    >>> forms.check()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tunefree.files.files.DataError: ...:2:1: column 'a': points stand between thousands, ...
    """

    def __init__(self, layout, is_decided):
        self.layout, self.is_decided = layout, is_decided
        self.first: dict[tuple[int, int], DataError] = {}
        read = [j for j, slot in enumerate(layout.slots) if slot not in (IGNORED, WEIGHT)]
        self.may_be_grouped = dict.fromkeys(read, True)
        self.has_whole = dict.fromkeys(read, False)
        self.are_whole = True  # the targets
        self.n_digits = np.zeros(len(layout.slots), dtype=int)  # behind zeros in front

    def add(self, block):
        """Take one more block."""
        for found, error in block.found.items():
            self.first.setdefault(found, error)
        for j, slot in enumerate(self.layout.slots):
            if self.may_be_grouped.get(j):
                self._add_column(j, block.X[:, slot] if slot >= 0 else block.y)
        self.n_digits = np.maximum(self.n_digits, block.forms[:, PADDED])
        self.are_whole = self.are_whole and not (block.y % 1.0).any()

    def _add_column(self, j, values):
        self.has_whole[j] = self.has_whole[j] or bool((values == np.floor(values)).any())
        self.may_be_grouped[j] = may_be_grouped(np.append(values, 0.0))  # beside a whole number

    def check(self):
        """Raise an error for the first column that is none of plain numbers; warn of the others.

        Raises
        ------
        DataError
        """
        for (j, form), error in sorted(self.first.items(), key=lambda found: found[0]):
            is_target: Any = self.layout.slots[j] == TARGET
            if form == GROUPED and self.may_be_grouped[j] and self.has_whole[j]:
                raise error
            if is_target and self.is_decided:
                continue
            if form == PADDED and is_target and self.are_whole:
                error.hint = "target_type=str takes them as names, and target_type=float as numbers"
                raise error
            is_long_name = form == PADDED and self.n_digits[j] >= FEWEST_DIGITS
            if form == LONG or is_long_name:
                warn(f"{error}", DataWarning)
