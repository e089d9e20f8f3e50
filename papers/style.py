"""Curves and axes of the figures."""

from typing import Any

import numpy as np

from tunefree.plots.drawing import COLOURS

MARKERS = ("o", "s", "^", "D", "v", "P", "x")


def curve(ax, x, y, index, label, **options):
    """Draw one labelled curve; the index chooses colour and marker together."""
    i = index % len(COLOURS)
    options = {"marker": MARKERS[i], "markersize": 4, "linewidth": 1.4, **options}
    return ax.plot(x, y, color=COLOURS[i], label=label, **options)[0]


def means(ax, x, points, index, label):
    """Draw means with standard deviations, from one list of values a point."""
    i = index % len(COLOURS)
    look = {"color": COLOURS[i], "marker": MARKERS[i], "markersize": 4, "capsize": 3}
    ax.errorbar(x, np.mean(points, axis=1), np.std(points, axis=1), label=label, **look)


def ranges(ax, curves, xlabel, ylabel, title):
    """Medians with lowest and highest, from {name: (x, one list of values a point)}."""
    for i, (name, (x, points)) in enumerate(curves.items()):
        low, middle, high = np.array([np.quantile(p, [0.0, 0.5, 1.0]) for p in points]).T
        look = {"color": COLOURS[i], "marker": MARKERS[i], "markersize": 4, "capsize": 3}
        ax.errorbar(x, middle, [middle - low, high - middle], label=name, **look)
    finish(ax, xlabel, ylabel, title)


def _logarithmic(ax, scales):
    """Logarithmic axes with labels at powers of ten; at 2 and 5, too, within some 1.5 decades."""
    from matplotlib.ticker import LogFormatter

    class Between(LogFormatter):
        def __call__(self, value, pos=None):
            axis: Any = self.axis
            low, high = axis.get_view_interval()
            digit = round(value / 10.0 ** np.floor(np.log10(value)))
            wanted = digit in (2, 5) or high < 2.0 * low
            return f"{value:g}" if wanted and high < 30.0 * low else ""

    for name in scales:
        ax.set(**{f"{name}scale": "log"})
        getattr(ax, f"{name}axis").set_minor_formatter(Between())


def finish(ax, x, y, title="", *, log="xy", legend=True):
    """Name the axes, make those in `log` logarithmic, and tidy up."""
    _logarithmic(ax, log)
    ax.set(xlabel=x, ylabel=y, title=title)
    ax.grid(alpha=0.3)
    if legend:
        ax.legend(frameon=False, fontsize=8)
