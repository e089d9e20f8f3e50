"""The regularization path of least squares."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tunefree.plots.base import axes, largest


class RidgePathDisplay:
    """The regularization path of an `AveragedSGDRegressor` and the chosen penalty.

    Parameters
    ----------
    alphas : ndarray of shape (n_alphas,)
    coefs : ndarray of shape (n_alphas, n_coefficients)
    validation_scores : ndarray of shape (n_alphas,) or None
        Mean squared errors on rows held out.
    alpha : float or None
        The chosen penalty.

    Attributes
    ----------
    ax_ : matplotlib Axes
    lines_ : list of matplotlib Line2D
        One a coefficient.
    scores_ : matplotlib Line2D or None
        The validation scores, on an axis of their own.
    chosen_ : matplotlib Line2D or None
        Where the chosen penalty is.

    Examples
    --------
    >>> from tunefree.estimators.ridge import AveragedSGDRegressor
    >>> from tunefree.plots import RidgePathDisplay
    >>> model = AveragedSGDRegressor(alphas=[10.0, 1.0]).fit(np.eye(4), np.arange(4.0))
    >>> RidgePathDisplay.from_estimator(model).coefs.shape
    (2, 4)
    """

    def __init__(self, alphas, coefs, *, validation_scores=None, alpha=None):
        self.alphas = alphas
        self.coefs = coefs
        self.validation_scores = validation_scores
        self.alpha = alpha

    @classmethod
    def from_estimator(cls, estimator):
        """The display of a fitted estimator; draw it with `plot`."""
        check_is_fitted(estimator)
        coefs = estimator.coefs_.reshape(len(estimator.alphas_), -1)
        return cls(
            estimator.alphas_,
            coefs,
            validation_scores=estimator.validation_scores_,
            alpha=estimator.alpha_,
        )

    def plot(self, ax=None, *, most=50, **line):
        """Draw coefficients, scores and the chosen penalty over the penalties.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        most : int, default=50
            Only so many coefficients, the largest, are drawn.
        **line
            Passed to the coefficients' lines.

        Returns
        -------
        self
        """
        self.ax_ = ax = axes(ax)
        shown = largest(np.abs(self.coefs).max(axis=0), most)
        self.lines_ = ax.plot(self.alphas, self.coefs[:, shown], **{"linewidth": 1.0, **line})
        ax.set(xscale="log", xlabel="alpha (stronger to the left)", ylabel="coefficient")
        ax.invert_xaxis()
        self.scores_ = self.chosen_ = None
        if self.validation_scores is not None:
            right = ax.twinx()
            (self.scores_,) = right.plot(self.alphas, self.validation_scores, "k--")
            right.set_ylabel("validation mean squared error (dashed)")
        if self.alpha is not None:
            self.chosen_ = ax.axvline(self.alpha, color="0.5", linestyle=":")
        return self
