"""Colours and markers of the figures: told apart by every kind of colour vision, and in print."""

import numpy as np

# Okabe and Ito 2008.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "x")


def curve(ax, x, y, index, label, **options):
    """Draw one labelled curve; the index chooses colour and marker together."""
    i = index % len(COLOURS)
    options = {"marker": MARKERS[i], "markersize": 4, "linewidth": 1.4, **options}
    return ax.plot(x, y, color=COLOURS[i], label=label, **options)[0]


def logarithmic(ax, x=True, y=True):
    """Logarithmic axes with labels at powers of ten; at 2 and 5, too, within some 1.5 decades."""
    from matplotlib.ticker import LogFormatter

    class Between(LogFormatter):
        def __call__(self, value, pos=None):
            low, high = self.axis.get_view_interval()
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
