"""Learning curves of several methods with error bars."""

import numpy as np

from tunefree.plots.base import COLOURS, axes

_MARKERS = ("o", "s", "^", "D", "v", "P", "x")


class ErrorCurveDisplay:
    """Mean test error against training rows for several methods, with standard deviations.

    Parameters
    ----------
    curves : dict of str to (sizes, errors)
        Numbers of rows, shape (n_sizes,), and errors of shape (n_sizes, n_repetitions).
    ylabel : str, default='test error'

    Attributes
    ----------
    ax_ : matplotlib Axes
    containers_ : list of matplotlib ErrorbarContainer

    Examples
    --------
    >>> import numpy as np
    >>> from tunefree.plots import ErrorCurveDisplay
    >>> errors = np.array([[0.30, 0.34], [0.20, 0.22]])
    >>> ErrorCurveDisplay({"ours": ([100, 1000], errors)}).means["ours"].round(2)
    array([0.32, 0.21])
    """

    def __init__(self, curves, *, ylabel="test error"):
        self.curves = curves
        self.ylabel = ylabel

    @property
    def means(self):
        """Mean errors of each method, shape (n_sizes,)."""
        return {name: np.mean(errors, axis=1) for name, (_, errors) in self.curves.items()}

    def plot(self, ax=None, **options):
        """Draw one curve a method.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        **options
            Passed to `matplotlib.axes.Axes.errorbar`.

        Returns
        -------
        self
        """
        self.ax_ = ax = axes(ax)
        self.containers_ = []
        for i, (name, (sizes, errors)) in enumerate(self.curves.items()):
            look = {
                "color": COLOURS[i % len(COLOURS)],
                "marker": _MARKERS[i % len(_MARKERS)],
                "markersize": 4,
                "capsize": 3,
            }
            spread = np.std(errors, axis=1)
            self.containers_.append(
                ax.errorbar(sizes, self.means[name], spread, label=name, **{**look, **options})
            )
        ax.set(xscale="log", xlabel="training rows", ylabel=self.ylabel)
        ax.grid(alpha=0.3)
        ax.legend(frameon=False, fontsize=8)
        return self
