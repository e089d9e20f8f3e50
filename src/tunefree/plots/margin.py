"""The rows' margins, and the certified interval of the largest margin."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tunefree.plots.base import COLOURS, axes


class MarginDisplay:
    """A histogram of the rows' margins with the interval that holds the largest margin.

    Parameters
    ----------
    margins : ndarray of shape (n_samples,)
        Signed distances of the rows to the separator, negative on the wrong side.
    lower, upper : float
        The certified interval, in the same unit.

    Attributes
    ----------
    ax_ : matplotlib Axes
    interval_ : matplotlib Polygon or Rectangle

    Examples
    --------
    >>> import numpy as np
    >>> from tunefree import OptimisticPerceptron
    >>> from tunefree.plots import MarginDisplay
    >>> X, y = np.array([[2.0, 1.0], [-1.0, 0.0], [3.0, 1.0]]), np.array([1, 0, 1])
    >>> model = OptimisticPerceptron().fit(X, y)
    >>> MarginDisplay.from_estimator(model, X, y).margins.shape
    (3,)
    """

    def __init__(self, margins, lower, upper):
        self.margins = margins
        self.lower = lower
        self.upper = upper

    @classmethod
    def from_estimator(cls, estimator, X, y):
        """The display of a fitted separator of two classes.

        Parameters
        ----------
        estimator : OptimisticPerceptron
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Raises
        ------
        ValueError
            If there are more than two classes.
        """
        check_is_fitted(estimator)
        if len(estimator.classes_) != 2:
            raise ValueError("A MarginDisplay shows one separator: give it two classes.")
        signs = np.where(np.asarray(y) == estimator.classes_[1], 1.0, -1.0)
        augmented = np.append(estimator.coef_[0], estimator.intercept_ / estimator.intercept_scale_)
        margins = signs * estimator.decision_function(X) / np.linalg.norm(augmented)
        bounds = estimator.margin_bounds_
        return cls(margins, bounds.lower, bounds.upper)

    def plot(self, ax=None, *, bins=40):
        """Draw the histogram and the interval.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        bins : int, default=40

        Returns
        -------
        self
        """
        self.ax_ = ax = axes(ax)
        ax.hist(self.margins, bins, color=COLOURS[5], label="rows")
        label = f"largest margin: in [{self.lower:.3g}, {self.upper:.3g}]"
        self.interval_ = ax.axvspan(
            self.lower, self.upper, color=COLOURS[1], alpha=0.5, label=label
        )
        ax.axvline(0.0, color="0.3", linewidth=0.8)
        ax.set(xlabel="margin (units of the rows)", ylabel="rows")
        ax.legend(frameon=False, fontsize=8)
        return self
