"""Linear contrasts of coefficients as text, such as ``2 * a - b = 0.5, c = d``.

Names are those of the table of coefficients, whatever characters they have: at every place the
longest name is read. Otherwise the text has numbers, ``+ - * /`` and parentheses. Every equation
between commas is a contrast; without ``=`` it is that the expression is 0. ``a = b = 3`` are two.
"""

import re
from typing import NamedTuple

import numpy as np

_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_WORD = re.compile(r"[^\s,=+*/()-]+")


def read_contrasts(text: str, names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """The weights of coefficients, shape (n_contrasts, n_names), and their values.

    Examples
    --------
    >>> weights, values = read_contrasts("2*a - b = 1, b = a", ["a", "b"])
    >>> weights.tolist(), values.tolist()
    ([[2.0, -1.0], [-1.0, 1.0]], [1.0, 0.0])

    Raises
    ------
    ValueError
        For an unknown name, an expression that is not linear, or what is no expression.
    """
    reader = _Reader(text, names)
    rows = reader.equations()
    while reader.takes(","):
        rows += reader.equations()
    if not reader.at_end():
        raise reader.error("an operator is missing")
    weights = np.array([row.weights for row in rows])
    if not weights.any(axis=1).all():
        raise ValueError(f"R={text!r} has a contrast with no coefficient.")
    return weights, np.array([0.0 - row.constant for row in rows])


class _Linear(NamedTuple):
    """A linear expression."""

    weights: np.ndarray  # of the coefficients
    constant: float

    def plus(self, other, sign=1.0):
        """The sum, or with the sign -1 the difference."""
        weights = self.weights + sign * other.weights
        return _Linear(weights, self.constant + sign * other.constant)

    def times(self, factor):
        """The product with a number."""
        return _Linear(factor * self.weights, factor * self.constant)


class _Reader:
    """Reads expressions from left to right; `rest` is the text to come."""

    def __init__(self, text, names):
        self.text, self.rest = text, text.lstrip()
        self.names: list[str] = names
        self.longest_first: list[str] = sorted(names, key=len, reverse=True)

    def error(self, what):
        """The error at this place."""
        where = f"before {self.rest!r}" if self.rest else "at the end"
        return ValueError(f"R={self.text!r}: {what} {where}.")

    def at_end(self):
        """Whether all was read."""
        return not self.rest

    def skip(self, length):
        """Read some characters, and the blanks behind them."""
        self.rest = self.rest[length:].lstrip()

    def takes(self, character):
        """Whether a character comes next, which is then read."""
        found = self.rest.startswith(character)
        if found:
            self.skip(1)
        return found

    def equations(self):
        """The left side less the right side; several of ``a = b = c``."""
        sides = [self.sum()]
        while self.takes("="):
            sides.append(self.sum())
        pairs = list(zip(sides[:-1], sides[1:], strict=True))
        return [left.plus(right, -1.0) for left, right in pairs] or sides

    def sum(self):
        """Products with + and - between them."""
        total = self.product()
        while True:
            if self.takes("+"):
                total = total.plus(self.product())
            elif self.takes("-"):
                total = total.plus(self.product(), -1.0)
            else:
                return total

    def product(self):
        """Signed values with * and / between them, of which one at most is no number."""
        total = self.signed()
        while True:
            if self.takes("*"):
                other = self.signed()
                if total.weights.any() and other.weights.any():
                    raise self.error("a product of coefficients is not linear")
                if other.weights.any():
                    total, other = other, total
                total = total.times(other.constant)
            elif self.takes("/"):
                other = self.signed()
                if other.weights.any():
                    raise self.error("a division by a coefficient is not linear")
                if other.constant == 0.0:
                    raise self.error("there is a division by 0")
                total = total.times(1.0 / other.constant)
            else:
                return total

    def signed(self):
        """A value with signs before it."""
        name = self.name()
        if name is not None:
            return name
        if self.takes("-"):
            return self.signed().times(-1.0)
        if self.takes("+"):
            return self.signed()
        return self.value()

    def value(self):
        """A number, or an expression in parentheses."""
        if self.at_end():
            raise ValueError(f"R={self.text!r} ends too early: a coefficient or number is missing.")
        if self.takes("("):
            inner = self.sum()
            if not self.takes(")"):
                raise self.error("')' is missing")
            return inner
        number, word = _NUMBER.match(self.rest), _WORD.match(self.rest)
        if number and (word is None or number.end() >= word.end() or "e" in number[0].lower()):
            self.skip(number.end())
            return _Linear(np.zeros(len(self.names)), float(number[0]))
        if word:
            choices = ", ".join(self.names)
            raise ValueError(f"R has no coefficient {word[0]!r}: choose of {choices}.")
        raise self.error("a coefficient or number is missing")

    def name(self):
        """The longest name that comes next; None if none does."""
        for name in self.longest_first:
            after = self.rest[len(name) : len(name) + 1]
            ends_in_a_word = _is_of_a_word(name[-1:]) and _is_of_a_word(after)
            if name and self.rest.startswith(name) and not ends_in_a_word:
                is_number = _NUMBER.fullmatch(name)
                if is_number:  # a number means itself
                    return None
                self.skip(len(name))
                return _Linear(np.eye(len(self.names))[self.names.index(name)], 0.0)
        return None


def _is_of_a_word(character):
    return character.isalnum() or character == "_"
