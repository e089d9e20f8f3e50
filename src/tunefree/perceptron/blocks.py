"""Rows of a source as signed rows, for separators that read them pass by pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tunefree.base.from_source import RepeatableSource
from tunefree.core.protocols import BlockSource
from tunefree.engine.sources import Block
from tunefree.perceptron.margins import LinearRows
from tunefree.perceptron.separator import double
from tunefree.rows.matrices import as_dense, stacked


def signed(X, y, weights, positive, start=0, epoch=0):
    """A block of rows as one class against the rest, in float64 for the certificate."""
    signs = np.where(y == positive, 1.0, -1.0)[:, None]
    return Block(double(X), None, signs, weights, start, epoch)


@dataclass(frozen=True)
class Signed(BlockSource):
    """The rows of a `RepeatableSource` as one class against the rest, a block a piece."""

    rows: RepeatableSource
    positive: Any

    def blocks(self, epoch):
        """The blocks of a pass."""
        start = 0
        for X, y, weights in self.rows.pieces():
            yield signed(X, y, weights, self.positive, start, epoch)
            start += len(y)


class Passing(NamedTuple):
    """`LinearRows` for a block whose X is a `RepeatableSource`: a product is a pass over it."""

    bias: float = 0.0

    def view(self, block):
        """The signed rows of a block."""
        return _Passes(block.X, block.targets[:, 0], LinearRows(self.bias))

    dot, norm, slack = LinearRows.dot, LinearRows.norm, LinearRows.slack


class _Passes(NamedTuple):
    rows: RepeatableSource
    signs: np.ndarray
    space: LinearRows

    def _views(self):
        start = 0
        for X, _, weights in self.rows.pieces():
            at = slice(start, start + len(weights))
            block = Block(double(X), None, self.signs[at, None], weights, start, 0)
            yield at, self.space.view(block)
            start = at.stop

    def push(self, x):
        out = np.empty(len(self.signs))
        for at, view in self._views():
            out[at] = view.push(x)
        return out

    def pull(self, p):
        return sum(view.pull(p[at]) for at, view in self._views())

    def squares(self):
        return np.concatenate([view.squares() for _, view in self._views()])

    def inner(self, rows, j):
        one = double(self.rows.row(j))
        support = [double(self.rows.row(i)) for i in rows]
        out = stacked(support) @ as_dense(one)[0]
        return self.signs[rows] * self.signs[j] * (out + self.space.bias**2)
