"""Plots of predictions beside the targets: intervals, and means of groups of rows."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import is_classifier

from tunefree.plots.drawing import (
    COLOURS,
    THIN,
    Display,
    equal_groups,
    given,
    legend,
    means,
)


@dataclass(eq=False, repr=False)
class IntervalDisplay(Display):
    """Prediction intervals over the predictions, with the targets.

    Parameters
    ----------
    prediction : ndarray of shape (n,)
    intervals : ndarray of shape (n, 2)
    target : ndarray of shape (n,), optional
    share : float, default=0.9
        Nominal coverage.
    sample_weight : ndarray of shape (n,), optional
        Weights of the rows in the share of targets inside.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure

    Examples
    --------
    >>> import numpy as np
    >>> from tunefree import KernelRidgeRegressor
    >>> from tunefree.plots import IntervalDisplay
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> model = KernelRidgeRegressor(random_state=0).fit(X, X[:, 0])
    >>> IntervalDisplay.from_estimator(model, X).intervals.shape
    (60, 2)
    """

    prediction: np.ndarray
    intervals: np.ndarray
    _: KW_ONLY
    target: np.ndarray | None = None
    share: float = 0.9
    sample_weight: np.ndarray | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        alpha: float = 0.1,
        output: int = 0,
        exposure: Any = None,
        offset: Any = None,
        sample_weight: Any = None,
        ax: Any = None,
    ) -> Self:
        """Draw the intervals of an estimator with `predict_interval`.

        Parameters
        ----------
        estimator : fitted regressor
        X : as for `predict`
        y : array-like of shape (n,) or (n, n_targets), optional
        alpha : float, default=0.1
        output : int, default=0
            Which target.
        exposure, offset : array-like of shape (n,), optional
            As for `predict_interval`: needed if they were given to `fit`.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows in the share of targets inside.
        ax : matplotlib Axes, optional
        """
        terms = given(exposure=exposure, offset=offset)
        predictions, ends = estimator.predict_interval(X, alpha=alpha, **terms)
        n, y = len(predictions), None if y is None else np.asarray(y, dtype=float)
        target = None if y is None else y.reshape(n, -1)[:, output]
        ends = ends.reshape(n, -1, 2)[:, output]
        predictions = predictions.reshape(n, -1)[:, output]
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
        options: Any = {"target": target, "share": 1.0 - alpha, "sample_weight": weights}
        return cls(predictions, ends, **options).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw one bar for each row, and its target as a dot: orange outside the interval.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        self
        """
        ax = self._on(ax)
        order = np.argsort(self.prediction, kind="stable")
        predictions, (low, high) = self.prediction[order], self.intervals[order].T
        label = f"{self.share:.0%} intervals"
        ax.vlines(predictions, low, high, color=COLOURS[5], alpha=0.35, linewidth=1.2, label=label)
        ax.plot(predictions, predictions, color="0.3", linewidth=0.8)
        if self.target is not None:
            y = self.target[order]
            inside = (low <= y) & (y <= high)
            weights = None if self.sample_weight is None else self.sample_weight[order]
            inside_label = f"{np.average(inside, weights=weights):.1%} of targets inside"
            for rows, colour, label in (
                (inside, COLOURS[0], inside_label),
                (~inside, COLOURS[1], "outside"),
            ):
                ax.plot(predictions[rows], y[rows], ".", color=colour, markersize=4, label=label)
        ax.set(xlabel="prediction", ylabel="target")
        legend(ax)
        return self


@dataclass(eq=False, repr=False)
class _OfMeans(Display):
    """Base of Displays of targets and predicted means, both per unit of exposure."""

    target: np.ndarray
    prediction: np.ndarray
    _: KW_ONLY
    weights: np.ndarray | None = None
    unit: str = "target"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        exposure: Any = None,
        offset: Any = None,
        sample_weight: Any = None,
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Draw the predictions of a regressor, or a classifier's probabilities of `classes_[1]`.

        Parameters
        ----------
        estimator : fitted regressor, or classifier of two classes
        X : as for `predict`
        y : array-like of shape (n,), optional
            By default the left-hand side of a formula.
        exposure, offset : array-like of shape (n,), optional
            As for `predict`. With an exposure targets are counts, and the picture is of rates.
        sample_weight : array-like of shape (n,), optional
        ax : matplotlib Axes, optional
        **options
            Passed to `plot`.
        """
        terms = given(exposure=exposure, offset=offset)
        found: Any = getattr(estimator, "_terms_of_rows", None)
        exposure = exposure if found is None else found(X, exposure, offset)[0]
        targets: Any = getattr(estimator, "_targets_given", None)
        y = y if targets is None else targets(X, y)
        if is_classifier(estimator):
            if len(estimator.classes_) != 2:
                raise ValueError(
                    f"{cls.__name__} is of two classes, and this model has "
                    f"{len(estimator.classes_)}: draw the probability of one by from_predictions."
                )
            y = np.asarray(y) == estimator.classes_[1]
            prediction = estimator.predict_proba(X, **terms)[:, 1]
        else:
            prediction = estimator.predict(X, **terms)
        return cls.from_predictions(
            y, prediction, exposure=exposure, sample_weight=sample_weight, ax=ax, **options
        )

    @classmethod
    def from_predictions(
        cls,
        y: Any,
        prediction: Any,
        *,
        exposure: Any = None,
        sample_weight: Any = None,
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Draw predicted means and targets.

        Parameters
        ----------
        y, prediction : array-like of shape (n,)
            Both for the rows' exposure, such as counts.
        exposure : array-like of shape (n,), optional
        sample_weight : array-like of shape (n,), optional
        ax : matplotlib Axes, optional
        **options
            Passed to `plot`.

        Raises
        ------
        ValueError
            For shapes that differ, or an exposure that is not positive.
        """
        y, prediction = (np.asarray(values, dtype=float) for values in (y, prediction))
        if y.shape != prediction.shape or y.ndim != 1:
            raise ValueError(
                f"y has the shape {y.shape} and the predictions {prediction.shape}: give one "
                "target and one mean a row."
            )
        weights = np.ones(len(y))
        if sample_weight is not None:
            weights = weights * np.asarray(sample_weight, dtype=float)
        if exposure is None:
            return cls(y, prediction, weights=weights).plot(ax, **options)
        over = np.broadcast_to(np.asarray(exposure, dtype=float), y.shape)
        if not (over > 0.0).all():
            raise ValueError("exposure must be positive.")
        rates = y / over, prediction / over
        return cls(*rates, weights=weights * over, unit="rate").plot(ax, **options)

    def groups(self, n_bins: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of groups of equal weight by prediction: predicted and observed means, standard errors.

        Parameters
        ----------
        n_bins : int
            Most groups. Rows of one prediction are in one group.

        Returns
        -------
        predicted, observed, error : ndarray of shape (n_groups,)
        """
        weights = np.ones(len(self.target)) if self.weights is None else self.weights
        used = weights > 0.0
        groups = equal_groups(self.prediction[used], weights[used], n_bins)
        predicted = means(self.prediction[used], weights[used], groups)[0]
        return predicted, *means(self.target[used], weights[used], groups)


@dataclass(eq=False, repr=False)
class CalibrationDisplay(_OfMeans):
    """Observed over predicted means of groups: whether predictions are right on average.

    Parameters
    ----------
    target, prediction : ndarray of shape (n,)
        Per unit of exposure.
    weights : ndarray of shape (n,), optional
        Weights times exposures.
    unit : str, default='target'
        What the means are of.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    ratio_ : float
        The sum of the targets over that of the predictions.

    Examples
    --------
    >>> import numpy as np
    >>> from tunefree import GLMRegressor
    >>> from tunefree.plots import CalibrationDisplay
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> y = np.random.default_rng(1).poisson(np.exp(X[:, 0]))
    >>> model = GLMRegressor(family="poisson", random_state=0).fit(X[:200], y[:200])
    >>> display = CalibrationDisplay.from_estimator(model, X[200:], y[200:])
    >>> bool(0.7 < display.ratio_ < 1.4)
    True
    """

    def plot(self, ax: Any = None, *, n_bins: int = 10) -> Self:
        """Draw a point with its interval of 95 % for each group, and the diagonal.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        n_bins : int, default=10
            Most groups.

        Returns
        -------
        self
        """
        ax = self._on(ax)
        predicted, observed, error = self.groups(n_bins)
        observed_mean = np.average(self.target, weights=self.weights)
        self.ratio_ = float(observed_mean / np.average(self.prediction, weights=self.weights))
        ends = [min(predicted.min(), observed.min()), max(predicted.max(), observed.max())]
        ax.plot(ends, ends, color="0.3", linewidth=0.8, label="equal")
        label = f"observed / predicted {self.ratio_:.3f}"
        reach = 1.96 * np.nan_to_num(error)
        ax.errorbar(
            predicted, observed, reach, fmt="o", color=COLOURS[0], markersize=4, label=label
        )
        if 0.0 < ends[0] and ends[1] > 10.0 * ends[0]:
            ax.set(xscale="log", yscale="log")
        ax.set(xlabel=f"predicted mean {self.unit}", ylabel=f"observed mean {self.unit}")
        legend(ax, loc="lower right")
        return self


@dataclass(eq=False, repr=False)
class LiftDisplay(_OfMeans):
    """Observed and predicted means of groups over that of all rows, by prediction.

    A steep line separates rows well; where the two lines part, predictions are wrong.

    Parameters
    ----------
    target, prediction : ndarray of shape (n,)
        Per unit of exposure.
    weights : ndarray of shape (n,), optional
        Weights times exposures.
    unit : str, default='target'
        What the means are of.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    lift_ : ndarray of shape (n_groups,)
        The observed mean of every group over that of all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from tunefree import GLMRegressor
    >>> from tunefree.plots import LiftDisplay
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> y = np.random.default_rng(1).poisson(np.exp(X[:, 0]))
    >>> model = GLMRegressor(family="poisson", random_state=0).fit(X[:200], y[:200])
    >>> display = LiftDisplay.from_estimator(model, X[200:], y[200:])
    >>> bool(display.lift_[0] < 0.5 < 2.0 < display.lift_[-1])
    True
    """

    def plot(self, ax: Any = None, *, n_bins: int = 10) -> Self:
        """Draw the observed lift with its interval of 95 %, and the predicted one.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        n_bins : int, default=10
            Most groups.

        Returns
        -------
        self
        """
        ax = self._on(ax)
        predicted, observed, error = self.groups(n_bins)
        mean = np.average(self.target, weights=self.weights)
        self.lift_, place = observed / mean, np.arange(1, len(observed) + 1)
        reach = 1.96 * np.nan_to_num(error) / mean
        ax.axhline(1.0, **THIN)
        ax.errorbar(
            place, self.lift_, reach, fmt="o-", color=COLOURS[0], markersize=4, label="observed"
        )
        ax.plot(place, predicted / mean, "s--", color=COLOURS[1], markersize=4, label="predicted")
        equal = "exposure" if self.unit == "rate" else "weight"
        ax.set(
            xlabel=f"groups of equal {equal}, by prediction",
            ylabel=f"mean {self.unit} of the group / of all",
            ylim=(0.0, None) if min(self.lift_.min(), predicted.min()) >= 0.0 else None,
        )
        ax.set_xticks(place)
        legend(ax, loc="upper left")
        return self
