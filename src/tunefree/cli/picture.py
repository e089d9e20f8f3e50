"""The demo's results as bars: in the terminal, and as a PNG."""

from itertools import groupby

EIGHTHS = " ▏▎▍▌▋▊▉█"
_WIDTH = 40


def bar(share, width=_WIDTH):
    """Draw a share of a full bar to an eighth of a character.

    Parameters
    ----------
    share : float
        From 0 to 1; more is cut, and marked by an arrow.
    width : int
        Characters of a full bar.

    Returns
    -------
    str
        The bar, without trailing blanks.

    Examples
    --------
    >>> from tunefree.cli.picture import bar
    >>> bar(0.5, 4), bar(0.15625, 4), bar(7.0, 4)
    ('██', '▋', '███▶')
    """
    if not share <= 1.0:
        return EIGHTHS[-1] * (width - 1) + "▶"
    eighths = max(round(share * width * 8), 1)
    return EIGHTHS[-1] * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def _scales(outcomes):
    """Yield each data set's outcomes with the loss of a full bar.

    The worst fills its bar, but nothing beyond the constant predictor (R² = 0), or ten times the
    best error, is drawn to scale.
    """
    for _, group in groupby(outcomes, key=lambda outcome: outcome.data):
        group = list(group)
        losses = [outcome.loss for outcome in group]
        limit = 10 * min(losses) if group[0].classify else 1.0
        yield group, min(max(losses), limit) or 1.0


def draw(outcomes, say):
    """Draw the outcomes with unicode blocks, within 80 columns and without colour.

    Parameters
    ----------
    outcomes : list of Outcome
        Grouped by data set.
    say : callable
        Takes one line of text.
    """
    for group, full in _scales(outcomes):
        say(f"{group[0].data}: {'test error' if group[0].classify else '1 - R²'}")
        for outcome in group:
            share = outcome.loss / full
            say(f"  {outcome.method:14} {bar(share):{_WIDTH}} {outcome.loss:.3g}")


def draw_png(outcomes, path):
    """Draw the outcomes with matplotlib.

    Parameters
    ----------
    outcomes : list of Outcome
        Grouped by data set.
    path : str
        The file to write.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    groups = list(_scales(outcomes))
    figure = Figure(figsize=(9, 1.1 * len(groups) + 1), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (group, full) in zip(
        figure.subplots(len(groups), 1, squeeze=False)[:, 0], groups, strict=True
    ):
        colours = ["tab:blue" if o.method == group[0].method else "tab:gray" for o in group]
        bars = axes.barh(
            [o.method for o in group], [min(o.loss, full) for o in group], color=colours
        )
        cut = [" (cut)" if not o.loss <= full else "" for o in group]
        labels = [f"{o.loss:.3g}{mark}" for o, mark in zip(group, cut, strict=True)]
        axes.bar_label(bars, labels, padding=3)
        axes.set_title(
            f"{group[0].data}: {'test error' if group[0].classify else '1 - R²'}",
            loc="left",
            fontsize="medium",
        )
        axes.set_xlim(0, 1.15 * full)
        axes.invert_yaxis()
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)
