"""Charts as SVG for HTML: axes, lines, dots.

Colours are the variables of the page's style, so that they suit light and dark screens. Curves also
differ in their dashes, for readers who cannot distinguish the colours.
"""

import math
from html import escape

import numpy as np

_WIDTH, _TOP, _BOTTOM, _RIGHT = 400, 10, 44, 12
_MOST_TICKS = 6
_LINE, _LETTER = 16, 6.5  # height of a line of text, and width of a letter
_DASHES = ("", "6 3", "2 2", "8 3 2 3", "10 4", "1 4")


def number(value):
    """A value at a tick.

    >>> number(0.1 + 0.2), number(318.65), number(-2900.0), number(3e7)
    ('0.3', '318.65', '-2,900', '3e+07')
    """
    return f"{value:,.6g}"


class Axis:
    """Positions, from `first` to `last`, of values between two ends, and round ticks."""

    def __init__(self, ends, first, last):
        low, high = ends
        if not low < high:
            low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
        self.low, self.high, self.first, self.last = low, high, first, last

    def __call__(self, values):
        """The positions of values; those outside are at an end."""
        values = np.clip(np.asarray(values, dtype=float), self.low, self.high)
        shares = (values - self.low) / (self.high - self.low)
        return self.first + (self.last - self.first) * shares

    def ticks(self):
        """At most six round values, each with its position.

        >>> [tick for tick, _ in Axis((0.0, 1.0), 0, 100).ticks()]
        [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
        """
        width = self.high - self.low
        size = 10.0 ** math.floor(math.log10(width / _MOST_TICKS))
        step = next(s * size for s in (1, 2, 5, 10, 20) if width / (s * size) < _MOST_TICKS)
        marks = range(math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9) + 1)
        values = [float(f"{k * step:.12g}") for k in marks]
        return [*zip(values, self(values).tolist(), strict=True)]


def _points(x, y):
    pairs = zip(x, y, strict=True)
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in pairs if math.isfinite(a + b))


def _text(x, y, text, anchor="start"):
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}'>{escape(text)}</text>"


def _path(style, d):
    return f"<path class='{style}' d='{d}'/>"


def short(text, most=50):
    """A text without its end if it is long."""
    return text if len(text) <= most else text[: most - 1] + "…"


class Chart:
    """Axes to draw on; `x` and `y` are the ends of the axes."""

    def __init__(self, x, y, xlabel, ylabel, *, height=250):
        self.height, self.xlabel, self.ylabel = height, xlabel, ylabel
        self.y = Axis(y, height - _BOTTOM, _TOP + _LINE)
        left = 14 + _LETTER * max(len(number(tick)) for tick, _ in self.y.ticks())
        self.x = Axis(x, left, _WIDTH - _RIGHT)
        self.marks, self.names = [], []

    def line(self, x, y, k=0, name=None):
        """Draw a curve in the colour and the dashes number `k`."""
        dash = f" stroke-dasharray='{_DASHES[k % 6]}'" if k % 6 else ""
        look = f"class='line c{k % 6}'{dash}"
        self.marks.append(f"<polyline {look} points='{_points(self.x(x), self.y(y))}'/>")
        if name is not None:
            self.names.append((look, name))

    def reference(self, x, y):
        """Draw a dashed grey line."""
        self.marks.append(f"<polyline class='ref' points='{_points(self.x(x), self.y(y))}'/>")

    def dots(self, x, y, k=0, size=2.0, style="dot"):
        """Draw points; those of the style "ring" are hollow."""
        pairs = zip(self.x(x), self.y(y), strict=True)
        dots = "".join(f"<circle cx='{a:.1f}' cy='{b:.1f}' r='{size}'/>" for a, b in pairs)
        self.marks.append(f"<g class='{style} c{k}'>{dots}</g>")

    def spans(self, x, low, high):
        """Draw vertical lines, such as intervals."""
        ends = zip(self.x(x), self.y(low), self.y(high), strict=True)
        self.marks.append(_path("span", "".join(f"M{a:.1f} {b:.1f}V{c:.1f}" for a, b, c in ends)))

    def rug(self, x):
        """Draw marks above the horizontal axis."""
        foot = self.y.first
        self.marks.append(_path("axis", "".join(f"M{a:.1f} {foot}v-6" for a in self.x(x))))

    def bars(self, labels, groups):
        """The drawing of horizontal bars in place of points: one of each (name, sizes) a label."""
        self.y = Axis((-0.5, len(labels) - 0.5), _TOP + _LINE, self.height - _BOTTOM)
        room = (self.height - _BOTTOM - _TOP - _LINE) / max(len(labels), 1)
        width = min(7.0, 0.2 * room)
        left, foot = self.x.first, self.height - _BOTTOM
        parts = [_path("axis", f"M{left:.1f} {_TOP + _LINE}V{foot}H{self.x.last}")]
        for tick, at in self.x.ticks():
            parts.append(_path("grid", f"M{at:.1f} {_TOP + _LINE}V{foot}"))
            parts.append(_text(at, foot + _LINE, number(tick), "middle"))
        parts.append(_text((left + self.x.last) / 2, foot + 2.2 * _LINE, self.xlabel, "middle"))
        for row, label in enumerate(labels):
            middle = _TOP + _LINE + room * (row + 0.5)
            parts.append(_text(left + 4, middle - width - 3, short(label, 40)))
            for k, (_, sizes) in enumerate(groups):
                at = middle + width * (k + 0.5)
                ends = f"{left:.1f},{at:.1f} {self.x([sizes[row]])[0]:.1f},{at:.1f}"
                look = f"class='line c{k}' style='stroke-width:{width:.1f}'"
                parts.append(f"<polyline {look} points='{ends}'/>")
        for k, (name, _) in enumerate(groups):
            at = self.height + 8 + _LINE * k
            look = f"class='line c{k}' style='stroke-width:{width:.1f}'"
            parts.append(f"<polyline {look} points='{left:.1f},{at} {left + 26:.1f},{at}'/>")
            parts.append(_text(left + 32, at + 4, name))
        height = self.height + 4 + _LINE * len(groups)
        return f"<svg viewBox='0 0 {_WIDTH} {height:.0f}'>{''.join(parts)}</svg>"

    def svg(self):
        """The drawing, with its axes and the names of its curves."""
        left, right, foot, top = self.x.first, self.x.last, self.y.first, self.y.last
        parts = [_path("axis", f"M{left:.1f} {top}V{foot}H{right}")]
        for tick, at in self.x.ticks():
            parts.append(_text(at, foot + _LINE, number(tick), "middle"))
        middle = (left + right) / 2
        parts.append(_text(middle, foot + 2.2 * _LINE, short(self.xlabel, 55), "middle"))
        for tick, at in self.y.ticks():
            parts.append(_path("grid", f"M{left:.1f} {at:.1f}H{right}"))
            parts.append(_text(left - 5, at + 4, number(tick), "end"))
        parts += [_text(2, _TOP + 3, short(self.ylabel, 55)), *self.marks]
        for i, (look, name) in enumerate(self.names):
            at = self.height + 8 + _LINE * i
            parts.append(f"<polyline {look} points='{left:.1f},{at} {left + 26:.1f},{at}'/>")
            parts.append(_text(left + 32, at + 4, short(name)))
        height = self.height + 4 + _LINE * len(self.names)
        return f"<svg viewBox='0 0 {_WIDTH} {height:.0f}'>{''.join(parts)}</svg>"
