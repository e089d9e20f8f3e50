"""The weights of a linear predictor: stems and a histogram."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tunefree.plots.base import COLOURS, axes


class WeightsDisplay:
    """Weights as stems over the columns, or as a histogram.

    Parameters
    ----------
    weights : ndarray of shape (n_features,)
    truth : ndarray of shape (n_features,), optional
        Drawn beside them, if the true weights are known.

    Attributes
    ----------
    ax_ : matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> from tunefree import ReflectronRegressor
    >>> from tunefree.plots import WeightsDisplay
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> model = ReflectronRegressor(link="identity", random_state=0).fit(X, X[:, 0])
    >>> WeightsDisplay.from_estimator(model).weights.shape
    (3,)
    """

    def __init__(self, weights, *, truth=None):
        self.weights = weights
        self.truth = truth

    @classmethod
    def from_estimator(cls, estimator, *, output=0, truth=None):
        """The display of one output's `coef_`.

        Parameters
        ----------
        estimator : object with `coef_`
        output : int, default=0
            Which class or target.
        truth : ndarray of shape (n_features,), optional
        """
        check_is_fitted(estimator)
        return cls(np.atleast_2d(estimator.coef_)[output], truth=truth)

    def plot(self, ax=None, *, kind="stem", bins=61):
        """Draw the weights.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        kind : {'stem', 'histogram'}, default='stem'
            The histogram counts on a logarithmic scale.
        bins : int, default=61
            Of the histogram.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For another kind.
        """
        if kind not in ("stem", "histogram"):
            raise ValueError(f"kind={kind!r} is neither 'stem' nor 'histogram'.")
        self.ax_ = ax = axes(ax)
        drawn = [("learned", self.weights, COLOURS[0])]
        if self.truth is not None:
            drawn.append(("true", self.truth, COLOURS[1]))
        if kind == "histogram":
            reach = max(np.abs(values).max() for _, values, _ in drawn) or 1.0
            edges = np.linspace(-reach, reach, bins + 1)
            for name, values, colour in drawn:
                ax.hist(values, edges, histtype="step", color=colour, label=name, linewidth=1.4)
            ax.set(xlabel="weight", ylabel="columns", yscale="log")
        else:
            shifts = (0.0,) if len(drawn) == 1 else (-0.15, 0.15)
            for (name, values, colour), shift in zip(drawn, shifts, strict=True):
                place = np.arange(len(values)) + shift
                ax.vlines(place, 0.0, values, color=colour, linewidth=1.0)
                ax.plot(place, values, ".", color=colour, label=name, markersize=4)
            ax.axhline(0.0, color="0.5", linewidth=0.8)
            ax.set(xlabel="column", ylabel="weight")
        if len(drawn) > 1:
            ax.legend(frameon=False, fontsize=8)
        return self
