"""Curves and axes of the figures."""

from typing import Any

import numpy as np

from tunefree.plots import COLOURS, MARKERS


def curve(ax, x, y, index, label, **options):
    """Draw one labelled curve; the index chooses colour and marker together."""
    i = index % len(COLOURS)
    options = {"marker": MARKERS[i], "markersize": 4, "linewidth": 1.4, **options}
    return ax.plot(x, y, color=COLOURS[i], label=label, **options)[0]


def ranges(ax, curves, xlabel, ylabel, title):
    """Medians with lowest and highest, from {name: (x, one list of values a point)}."""
    for i, (name, (x, points)) in enumerate(curves.items()):
        middle = np.array([np.median(p) for p in points])
        low, high = np.array([min(p) for p in points]), np.array([max(p) for p in points])
        look = {"color": COLOURS[i], "marker": MARKERS[i], "markersize": 4, "capsize": 3}
        ax.errorbar(x, middle, [middle - low, high - middle], label=name, **look)
    logarithmic(ax)
    finish(ax, xlabel, ylabel, title)


def logarithmic(ax, x=True, y=True):
    """Logarithmic axes with labels at powers of ten; at 2 and 5, too, within some 1.5 decades."""
    from matplotlib.ticker import LogFormatter

    class Between(LogFormatter):
        def __call__(self, value, pos=None):
            axis: Any = self.axis
            low, high = axis.get_view_interval()
            digit = round(value / 10.0 ** np.floor(np.log10(value)))
            wanted = digit in (2, 5) or high < 2.0 * low
            return f"{value:g}" if wanted and high < 30.0 * low else ""

    for used, axis, scale in ((x, ax.xaxis, ax.set_xscale), (y, ax.yaxis, ax.set_yscale)):
        if used:
            scale("log")
            axis.set_minor_formatter(Between())


def finish(ax, x, y, title="", legend=True):
    """Name the axes, and tidy up."""
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.set_title(title)
    ax.grid(alpha=0.3)
    if legend:
        ax.legend(frameon=False, fontsize=8)
