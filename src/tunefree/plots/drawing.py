"""What Displays share: axes, colours, rows of bars."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

# Okabe and Ito 2008: colours that colour-blind readers can distinguish.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
THIN = {"color": "0.5", "linewidth": 0.8}  # lines at 0, or at what is equal
STROKES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)), (0, (8, 3)))


class Display(ABC):
    """Base of Displays: data, and the axes and the figure that they were last drawn into."""

    @abstractmethod
    def plot(self, ax: Any = None, **options: Any) -> Self:
        """Draw on axes, by default on new ones."""

    def _on(self, ax):
        """The given axes, or new ones."""
        if ax is None:
            try:
                from matplotlib import pyplot
            except ImportError as error:
                raise ImportError(
                    "Plots need matplotlib: pip install 'tunefree[plots]'."
                ) from error
            ax = pyplot.subplots(layout="constrained")[1]
        self.ax_, self.figure_ = ax, ax.figure
        return ax


class FittedDisplay(Display):
    """Displays of a fitted estimator, without further data."""

    @classmethod
    def from_estimator(cls, estimator: Any, ax: Any = None, **options: Any) -> Self:
        """Plot from a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator
        ax : matplotlib Axes, optional
        **options
            Passed to `plot`.

        Raises
        ------
        ValueError
            If the estimator has no such data.
        """
        check_is_fitted(estimator)
        if several := vars(estimator).get("label_models_"):
            raise ValueError(
                f"This {type(estimator).__name__} has {len(several)} labels: draw one of its "
                "label_models_."
            )
        return cls(**cls._data_of(estimator)).plot(ax, **options)

    @staticmethod
    @abstractmethod
    def _data_of(estimator) -> dict[str, Any]:
        """The arguments of the Display."""


def legend(ax, **options):
    """The names of lines and dots."""
    ax.legend(frameon=False, fontsize=8, **options)


def logarithmic(ax, low, high):
    """A logarithmic x axis from low to high."""
    from matplotlib.ticker import LogLocator, NullFormatter

    ax.set_xscale("log")
    # By default a short axis names every second digit, one above the other.
    ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0) if high < 1e3 * low else (1.0,)))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter(NullFormatter())


def bars(ax, names, values, errors, colours):
    """One bar for each name, the first at the top."""
    rows_of_names(ax, names)
    return ax.barh(np.arange(len(names)), values, xerr=errors, color=colours, ecolor="0.2")


def rows_of_names(ax, names):
    """One row of the picture for each name, the first at the top."""
    ax.set_yticks(np.arange(len(names)), [str(name).replace("$", r"\$") for name in names])
    ax.invert_yaxis()


def given(**terms):
    """Those of some arguments that are not None."""
    return {name: values for name, values in terms.items() if values is not None}


def equal_groups(x, weights, n_bins):
    """The number of the group of each row, of equal weights by x; equal x are in one group."""
    order = np.argsort(x, kind="stable")
    mass = np.cumsum(weights[order])
    middle = mass - 0.5 * weights[order]
    group = np.minimum((n_bins * middle / mass[-1]).astype(int), n_bins - 1)
    found = np.empty(len(x), dtype=int)
    found[order] = group
    places = np.unique(x, return_inverse=True)[1]
    first = np.full(places.max() + 1, n_bins)
    np.minimum.at(first, places, found)
    return np.unique(first[places], return_inverse=True)[1]


def means(values, weights, groups):
    """The weighted mean of every group, and its standard error from the spread within."""
    mass = np.bincount(groups, weights)
    mean = np.bincount(groups, weights * values) / mass
    square = np.bincount(groups, np.square(weights * (values - mean[groups])))
    n = np.bincount(groups, weights > 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return mean, np.sqrt(square * n / (n - 1.0)) / mass


def trend(ax, x, values, weights, n_bins, groups=None):
    """Draw the mean values of groups of rows by x, with intervals of 95 %."""
    if groups is None:
        n_bins = max(1, min(n_bins, len(x) // 10))
        groups = equal_groups(x, np.ones(len(x)), n_bins)
    mean, error = means(values, weights, groups)
    places = means(x, weights, groups)[0]
    return ax.errorbar(
        places,
        mean,
        1.96 * np.nan_to_num(error),
        fmt="o",
        color=COLOURS[6],
        markersize=3.5,
        linewidth=1.0,
        label="mean of a group",
        zorder=3,
    )
