"""Plots of how well a generalized linear model describes its rows."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from scipy import special

from tunefree.core.warn import none_of
from tunefree.plots.drawing import COLOURS, THIN, Display, given, legend, logarithmic, trend

# Most rows of a draw, and draws, from which the level of a band at single rows is found.
_MOST_ROWS, _DRAWS = 1000, 1000
_HIGH_DISTANCES = (0.5, 1.0)  # Cook's distances that are looked at: Cook and Weisberg 1982


@dataclass(eq=False, repr=False)
class ResidualsDisplay(Display):
    """Residuals over the fitted means, with their mean in groups of rows.

    A true model has residuals around 0 everywhere; a bend shows a wrong link, or a column that is
    not linear. (Deviance residuals of small counts are below 0 on average, also of a true model:
    quantile and Pearson residuals are not.)

    Parameters
    ----------
    fitted : ndarray of shape (n,)
        Means of the targets.
    residuals : ndarray of shape (n,)
    kind : str, default='quantile'
        Of the residuals.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure

    Examples
    --------
    >>> import numpy as np
    >>> from tunefree import GLMRegressor
    >>> from tunefree.plots import ResidualsDisplay
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = np.random.default_rng(1).poisson(np.exp(X[:, 0]))
    >>> model = GLMRegressor(family="poisson", random_state=0).fit(X, y)
    >>> ResidualsDisplay.from_estimator(model, X, y).residuals.shape
    (200,)
    """

    fitted: np.ndarray
    residuals: np.ndarray
    _: KW_ONLY
    kind: str = "quantile"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        kind: str = "quantile",
        sample_weight: Any = None,
        exposure: Any = None,
        offset: Any = None,
        random_state: Any = None,
        label: Any = None,
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Draw the `residuals` of a GLM.

        Parameters
        ----------
        estimator : fitted GLMRegressor or GLMClassifier
        X, y, kind, sample_weight, exposure, offset, random_state
            As for `residuals`.
        label : object, optional
            The class that is drawn, where residuals have a column for every class. The fitted mean
            is then its probability; without a label, of ordered classes that of their numbers from
            0 on.
        ax : matplotlib Axes, optional
        **options
            Passed to `plot`.
        """
        terms = given(exposure=exposure, offset=offset)
        y = estimator._targets_given(X, y)
        found = estimator.residuals(X, y, kind, sample_weight, random_state=random_state, **terms)
        found = _of_label(estimator, found, kind, label)
        errors = estimator.residuals(X, y, "response", **terms)
        fitted = _fitted(estimator, y, errors, label)
        known = np.isfinite(found)
        return cls(fitted[known], found[known], kind=kind).plot(ax, **options)

    def plot(self, ax: Any = None, *, n_bins: int = 20) -> Self:
        """Draw a dot for each row, and the mean residual of groups with its interval of 95 %.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        n_bins : int, default=20
            Most groups, of equally many rows by the fitted mean.

        Returns
        -------
        self
        """
        ax = self._on(ax)
        ax.axhline(0.0, **THIN)
        ax.plot(self.fitted, self.residuals, ".", color=COLOURS[5], markersize=4, alpha=0.5)
        trend(ax, self.fitted, self.residuals, np.ones(len(self.fitted)), n_bins)
        low, high = self.fitted.min(), self.fitted.max()
        if 0.0 < low and high > 10.0 * low and high > 1.0:
            logarithmic(ax, low, high)
        ax.set(xlabel="fitted mean", ylabel=f"{self.kind} residual")
        legend(ax)
        return self


@dataclass(eq=False, repr=False)
class QQDisplay(Display):
    """Quantile residuals over the quantiles of the normal distribution, with a band.

    Of a true model all points are in the band in `level` of samples, whatever the family. The band
    is of all points at once; each has the same chance to leave it. Source: Aldor-Noiman, Brown,
    Buja, Rolke and Stine 2013 (the band); Gontscharuk and Finner 2017 (of many rows); Dunn and
    Smyth 1996 (the residuals).

    Parameters
    ----------
    residuals : ndarray of shape (n,)
    level : float, default=0.95

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    outside_ : float
        The share of points outside the band.

    Examples
    --------
    >>> import numpy as np
    >>> from tunefree.plots import QQDisplay
    >>> QQDisplay(np.random.default_rng(0).normal(size=300)).plot().outside_
    0.0
    """

    residuals: np.ndarray
    _: KW_ONLY
    level: float = 0.95

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        level: float = 0.95,
        sample_weight: Any = None,
        exposure: Any = None,
        offset: Any = None,
        random_state: Any = None,
        label: Any = None,
        ax: Any = None,
    ) -> Self:
        """Draw the quantile residuals of a GLM.

        Parameters
        ----------
        estimator : fitted GLMRegressor or GLMClassifier
        X, y, sample_weight, exposure, offset, random_state
            As for `residuals`.
        label : object, optional
            The class that is drawn, of three and more without an order.
        level : float, default=0.95
            Of the band.
        ax : matplotlib Axes, optional
        """
        found = estimator.residuals(
            X,
            y,
            "quantile",
            sample_weight,
            random_state=random_state,
            **given(exposure=exposure, offset=offset),
        )
        found = _of_label(estimator, found, "quantile", label)
        return cls(found[np.isfinite(found)], level=level).plot(ax)

    def band(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Normal quantiles of the ordered rows, and the ends of the band."""
        n = len(self.residuals)
        order = np.arange(1, n + 1)
        reach = 0.5 * _level_of_one(n, self.level)
        ends = special.betaincinv(order, n + 1 - order, np.array([[reach], [1.0 - reach]]))
        low, high = special.ndtri(ends)
        return special.ndtri((order - 0.5) / n), low, high

    def plot(self, ax: Any = None) -> Self:
        """Draw a dot for each row, orange outside of the band.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        self
        """
        ax = self._on(ax)
        expected, low, high = self.band()
        found = np.sort(self.residuals)
        inside = (low <= found) & (found <= high)
        self.outside_ = float(np.mean(~inside))
        ax.fill_between(
            expected, low, high, color="0.85", linewidth=0, label=f"{self.level:.0%} band"
        )
        ax.plot(expected, expected, color="0.3", linewidth=0.8)
        for rows, colour, marker, label in (
            (inside, COLOURS[0], ".", None),
            (~inside, COLOURS[1], "x", f"{self.outside_:.1%} outside"),
        ):
            if rows.any():
                ax.plot(
                    expected[rows], found[rows], marker, color=colour, markersize=4, label=label
                )
        ax.set(xlabel="normal quantile", ylabel="quantile residual")
        legend(ax, loc="upper left")
        return self


def _of_label(estimator, residuals, kind, label):
    """The residuals of a class, where they have a column for every class."""
    classes = list(getattr(estimator, "classes_", ()))
    if residuals.ndim == 1 or not classes:
        if label is not None:
            raise ValueError(f"label={label!r}: kind={kind!r} has one residual a row here.")
        return residuals
    if residuals.shape[1] != len(classes):
        raise ValueError(
            f"kind={kind!r} has no column for every class: draw kind='quantile' or 'pearson'."
        )
    if label not in classes:
        raise none_of("label", label, list(map(str, classes)))
    return residuals[:, classes.index(label)]


def _fitted(estimator, y, errors, label):
    """The means of rows by their targets and response residuals."""
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        return np.asarray(y, dtype=float).reshape(errors.shape) - errors
    is_class = np.asarray(y)[:, None] == classes
    if errors.ndim == 1:
        return is_class[:, 1] - errors
    p = is_class - errors
    return p @ np.arange(len(classes)) if label is None else p[:, list(classes).index(label)]


def _level_of_one(n, level):
    """The chance of one of n ordered uniforms to leave a band that all keep to in `level`.

    It is simulated up to 1,000 rows; beyond it falls as 1 / (log n log log n). Measured, for .95:
    .0054 of 20 rows, .0024 of 100, .0012 of 1,000, .0009 of 3,000.
    """
    if n > _MOST_ROWS:
        ratio = np.divide(*(np.log(m) * np.log(np.log(m)) for m in (_MOST_ROWS, n)))
        return _level_of_one(_MOST_ROWS, level) * float(ratio)
    rng = np.random.default_rng(0)
    drawn = np.sort(rng.uniform(size=(_DRAWS, n)), axis=1)
    order = np.arange(1, n + 1)
    p = special.betainc(order, n + 1 - order, drawn)
    least = 2.0 * np.minimum(p, 1.0 - p).min(axis=1)
    return float(np.quantile(least, 1.0 - level))


@dataclass(eq=False, repr=False)
class LeverageDisplay(Display):
    """Studentized residuals over leverages, with curves of equal Cook's distance.

    Of three and more classes Cook's distance is no function of the two, and there are no curves.

    Parameters
    ----------
    leverage, resid_studentized, cooks_distance : ndarray of shape (n,)
    n_coefs : int
        The number of coefficients.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure

    Examples
    --------
    >>> import numpy as np
    >>> from tunefree import GLMRegressor
    >>> from tunefree.plots import LeverageDisplay
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = np.random.default_rng(1).poisson(np.exp(X[:, 0]))
    >>> model = GLMRegressor(family="poisson", random_state=0).fit(X, y)
    >>> LeverageDisplay.from_estimator(model, X, y).n_coefs
    3
    """

    leverage: np.ndarray
    resid_studentized: np.ndarray
    cooks_distance: np.ndarray
    n_coefs: int

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        exposure: Any = None,
        offset: Any = None,
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Draw the `influence` of the rows of a GLM.

        Parameters
        ----------
        estimator : fitted GLMRegressor or GLMClassifier
        X, y, sample_weight, exposure, offset
            As for `influence`.
        ax : matplotlib Axes, optional
        **options
            Passed to `plot`.
        """
        terms = given(exposure=exposure, offset=offset)
        table = estimator.influence(X, y, sample_weight, **terms)
        return cls.from_influence(table, ax=ax, **options)

    @classmethod
    def from_influence(cls, influence: Any, *, ax: Any = None, **options: Any) -> Self:
        """Draw the result of `influence`.

        Parameters
        ----------
        influence : Influence
        ax : matplotlib Axes, optional
        **options
            Passed to `plot`.
        """
        n_coefs = int(np.sum(~np.isnan(influence.dfbetas).all(axis=0)))
        return cls(
            influence.leverage, influence.resid_studentized, influence.cooks_distance, n_coefs
        ).plot(ax, **options)

    def plot(self, ax: Any = None, *, most: int = 5) -> Self:
        """Draw a dot for each row, and the numbers of the rows of the largest Cook's distances.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        most : int, default=5
            How many rows have their number.

        Returns
        -------
        self
        """
        ax = self._on(ax)
        ax.axhline(0.0, **THIN)
        ax.plot(self.leverage, self.resid_studentized, ".", color=COLOURS[0], markersize=5)
        distance = np.nan_to_num(self.cooks_distance, nan=-1.0)
        for i in np.argsort(-distance, kind="stable")[:most]:
            ax.annotate(
                str(i),
                (self.leverage[i], self.resid_studentized[i]),
                xytext=(4, 3),
                textcoords="offset points",
                fontsize=8,
            )
        (low, high), right = ax.get_ylim(), float(np.nanmax(self.leverage)) * 1.08
        if self._has_curves():
            self._draw_curves(ax, right)
        ax.set(
            xlabel="leverage",
            ylabel="studentized residual",
            xlim=(0.0, right),
            ylim=(low, high),
        )
        return self

    def _has_curves(self):
        """Whether Cook's distance is a function of leverage and residual."""
        known = np.isfinite(self.cooks_distance) & (self.leverage < 1.0)
        leverage, distance = self.leverage[known], self.cooks_distance[known]
        ratio = np.square(self.resid_studentized[known]) * leverage / (1.0 - leverage)
        return np.allclose(distance, ratio / self.n_coefs, rtol=1e-3)

    def _draw_curves(self, ax, right):
        """Draw curves of equal Cook's distance, up to a leverage."""
        x = np.linspace(right / 400.0, min(right, 0.999), 400)
        for level, stroke in zip(_HIGH_DISTANCES, ("--", ":"), strict=True):
            y = np.sqrt(level * self.n_coefs * (1.0 - x) / x)
            for sign, label in ((1.0, f"Cook's distance {level:g}"), (-1.0, None)):
                ax.plot(x, sign * y, linestyle=stroke, color=COLOURS[1], linewidth=1.2, label=label)
        legend(ax)


@dataclass(eq=False, repr=False)
class PartialResidualDisplay(Display):
    """The effect of a column on the index, with partial residuals, which show whether it is a line.

    Parameters
    ----------
    name : str
        Of the column.
    values : ndarray of shape (n,)
        Numbers, or the names of levels.
    effect, residuals : ndarray of shape (n,)
        What the column adds to the index, and that plus the working residual.
    weights : ndarray of shape (n,)
        One over the variances of the residuals, up to a factor.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure

    Examples
    --------
    >>> import numpy as np
    >>> from tunefree import GLMRegressor
    >>> from tunefree.plots import PartialResidualDisplay
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = np.random.default_rng(1).poisson(np.exp(X[:, 0]))
    >>> model = GLMRegressor(family="poisson", random_state=0).fit(X, y)
    >>> PartialResidualDisplay.from_estimator(model, X, y, column="x0").name
    'x0'
    """

    name: str
    values: np.ndarray
    effect: np.ndarray
    residuals: np.ndarray
    weights: np.ndarray

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        column: str | int,
        sample_weight: Any = None,
        exposure: Any = None,
        offset: Any = None,
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Draw the `partial_residuals` of a GLM.

        Parameters
        ----------
        estimator : fitted GLMRegressor or GLMClassifier
        X, y, column, sample_weight, exposure, offset
            As for `partial_residuals`.
        ax : matplotlib Axes, optional
        **options
            Passed to `plot`.
        """
        terms = given(exposure=exposure, offset=offset)
        found = estimator.partial_residuals(X, y, column, sample_weight, **terms)
        known = np.isfinite(found.residuals)
        return cls(found.name, *(part[known] for part in found[1:])).plot(ax, **options)

    def plot(self, ax: Any = None, *, n_bins: int = 12) -> Self:
        """Draw a dot for each row, the effect, and the mean of groups with intervals of 95 %.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        n_bins : int, default=12
            Most groups, of equally many rows by the column; each level is a group of its own.

        Returns
        -------
        self
        """
        ax = self._on(ax)
        levels: Any = ()
        x = self.values
        if not np.issubdtype(x.dtype, np.number):
            levels, x = np.unique(x.astype(str), return_inverse=True)
            ax.set_xticks(range(len(levels)), [name.replace("$", r"\$") for name in levels])
        shift = np.random.default_rng(0).uniform(-0.2, 0.2, len(x)) if len(levels) else 0.0
        ax.plot(x + shift, self.residuals, ".", color=COLOURS[5], markersize=4, alpha=0.4)
        if len(levels):
            for place in range(len(levels)):
                own = [self.effect[x == place].mean()] * 2
                label = None if place else "effect"
                ends = [place - 0.35, place + 0.35]
                ax.plot(ends, own, color=COLOURS[1], linewidth=1.6, label=label)
            groups = x
        else:
            unique, first = np.unique(x, return_inverse=True)
            mean = np.bincount(first, self.effect) / np.bincount(first)
            ax.plot(unique, mean, color=COLOURS[1], linewidth=1.6, label="effect")
            groups = None
        trend(ax, x, self.residuals, self.weights, n_bins, groups)
        # Working residuals of small counts may be large: the picture shows 98 % of them.
        low, high = np.quantile(self.residuals, [0.01, 0.99])
        ax.set_ylim(min(low, self.effect.min()), max(high, self.effect.max()))
        label = self.name.replace("$", r"\$")
        ax.set(xlabel=label, ylabel="added to the index")
        legend(ax)
        return self
