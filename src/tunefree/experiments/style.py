"""Colours and markers of the figures: told apart by every kind of colour vision, and in print."""

# Okabe and Ito 2008.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "x")


def curve(ax, x, y, index, label, **options):
    """Draw one labelled curve; the index chooses colour and marker together."""
    i = index % len(COLOURS)
    options = {"marker": MARKERS[i], "markersize": 4, "linewidth": 1.4, **options}
    return ax.plot(x, y, color=COLOURS[i], label=label, **options)[0]


def logarithmic(ax, x=True, y=True):
    """Logarithmic axes with labels at powers of ten, and between them within a single decade."""
    from matplotlib.ticker import LogFormatterSciNotation

    for used, axis, scale in ((x, ax.xaxis, ax.set_xscale), (y, ax.yaxis, ax.set_yscale)):
        if used:
            scale("log")
            axis.set_minor_formatter(LogFormatterSciNotation(minor_thresholds=(1.0, 0.3)))


def finish(ax, x, y, title="", legend=True):
    """Name the axes, and tidy up."""
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.set_title(title)
    ax.grid(alpha=0.3)
    if legend:
        ax.legend(frameon=False, fontsize=8)
