"""Plots of what a model is made of: candidates, weights, and what columns add to a score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tunefree.plots.drawing import (
    COLOURS,
    THIN,
    Display,
    FittedDisplay,
    bars,
    legend,
    rows_of_names,
)


@dataclass(eq=False, repr=False)
class LeaderboardDisplay(FittedDisplay):
    """Candidates with their estimated risk; the chosen ones are blue.

    Parameters
    ----------
    names : list of str
    risks : ndarray of shape (n_candidates,)
        A candidate without a risk (nan) is not drawn.
    errors : ndarray of shape (n_candidates,) or None
        Standard errors of the risks.
    chosen : list of bool, optional
    label : str, default='risk'
    shares : list of float, optional
        Weights of the candidates in a stack, drawn after the names.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    bars_ : matplotlib BarContainer

    Examples
    --------
    >>> import numpy as np
    >>> from tunefree import PiSTOLClassifier
    >>> from tunefree.plots import LeaderboardDisplay
    >>> X = np.arange(40.0)[:, None]
    >>> model = PiSTOLClassifier(random_state=0).fit(X, X[:, 0] > 20)
    >>> len(LeaderboardDisplay.from_estimator(model).names) == len(model.leaderboard_)
    True
    """

    names: Sequence[str]
    risks: np.ndarray
    _: KW_ONLY
    errors: np.ndarray | None = None
    chosen: Sequence[bool] | None = None
    label: str = "risk"
    shares: Sequence[float] | None = None

    @staticmethod
    def _data_of(estimator) -> dict[str, Any]:
        board = getattr(estimator, "leaderboard_", None)
        if not board:
            raise ValueError(f"{type(estimator).__name__} has no leaderboard_.")
        known = board[0].keys()
        score = "risk" if "risk" in known else "progressive_error"
        risks = np.array([entry[score] for entry in board], dtype=float)
        best = int(np.nanargmin(risks))
        data = {
            "names": [_name(entry) for entry in board],
            "risks": risks,
            "chosen": [bool(e.get("chosen", i == best)) for i, e in enumerate(board)],
            "label": score.replace("_", " "),
        }
        if "share" in known:
            data["errors"] = np.array([entry["risk_se"] for entry in board], dtype=float)
            data["shares"] = [entry["share"] for entry in board]
        return data

    def plot(self, ax: Any = None, *, most: int = 15) -> Self:
        """Draw one bar for each candidate, the best at the top.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        most : int, default=15
            Number of candidates drawn, those with the lowest risk.

        Returns
        -------
        self
        """
        ax = self._on(ax)
        names, risks, errors, chosen = self.lowest(most)
        colours = [COLOURS[0] if one else "0.75" for one in chosen]
        self.bars_ = bars(ax, names, risks, errors, colours)
        ax.set(xlabel=self.heading)
        return self

    @property
    def heading(self) -> str:
        """The label of the risks, and what a blue bar is."""
        blue = "chosen" if self.shares is None else "in the stack, with its share"
        return f"{self.label} (blue: {blue})"

    def lowest(self, most: int) -> tuple[list[str], np.ndarray, np.ndarray | None, Sequence[bool]]:
        """Names with shares, risks, errors and choice of the candidates of the lowest risks."""
        order: list[int] = np.argsort(self.risks, kind="stable").tolist()
        shown = [i for i in order if self.risks[i] < np.inf][:most]
        shares = self.shares or [0.0] * len(self.names)
        chosen = self.chosen or [False] * len(self.names)
        names = [self.names[i] + (f", {shares[i]:.0%}" if shares[i] else "") for i in shown]
        errors = None if self.errors is None else self.errors[shown]
        return names, self.risks[shown], errors, [chosen[i] for i in shown]


def _name(entry):
    """The name of an entry of a leaderboard; without one, its settings."""
    if "name" in entry or "candidate" in entry:
        return entry.get("name") or entry["candidate"]
    settings = [v for k, v in entry.items() if k not in ("risk", "time") and v is not None]
    return ", ".join(f"{v:.3g}" if isinstance(v, float) else str(v) for v in settings)


@dataclass(eq=False, repr=False)
class WeightsDisplay(Display):
    """Weights of a predictor: bars if the columns have names, else stems.

    Parameters
    ----------
    weights : ndarray of shape (n_features,)
    truth : ndarray of shape (n_features,), optional
        The true weights, drawn next to them.
    names : list of str, optional
        Names of the columns.
    label : str, default='weight'

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure

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

    weights: np.ndarray
    _: KW_ONLY
    truth: np.ndarray | None = None
    names: Sequence[str] | None = None
    label: str = "weight"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        output: int = 0,
        truth: np.ndarray | None = None,
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Draw the `coef_` of one output, or the columns' shares of a stack's prediction variance.

        Parameters
        ----------
        estimator : fitted estimator with `coef_`, `TuneFreeClassifier` or `TuneFreeRegressor`
        output : int, default=0
            Which class, target or label.
        truth : ndarray of shape (n_features,), optional
        ax : matplotlib Axes, optional
        **options
            Passed to `plot`.
        """
        check_is_fitted(estimator)
        names = getattr(estimator, "feature_names_in_", None)
        weights, label = getattr(estimator, "feature_relevances_", None), "weight"
        if weights is None:
            weights = np.atleast_2d(estimator.coef_)[output]
            if names is not None:  # a column of categories has a weight for every level
                names = getattr(estimator, "coef_names_", names)
                names = names if len(names) == len(weights) else None  # features of a map
        else:
            label = "share of prediction variance"
            weights = weights[output] if weights.ndim > 1 else weights
        return cls(weights, truth=truth, names=names, label=label).plot(ax, **options)

    def plot(self, ax: Any = None, *, most: int = 20) -> Self:
        """Draw the weights.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        most : int, default=20
            Number of bars, those with the largest weights.

        Returns
        -------
        self
        """
        ax = self._on(ax)
        drawn = [("learned", self.weights, COLOURS[0])]
        if self.truth is not None:
            drawn.append(("true", self.truth, COLOURS[1]))
        if self.names is None:
            self._stems(ax, drawn)
        else:
            self._named_bars(ax, drawn, np.argsort(-np.abs(self.weights), kind="stable")[:most])
        if len(drawn) > 1:
            legend(ax)
        return self

    def _stems(self, ax, drawn):
        """A line and a dot for each weight."""
        for i, (name, values, colour) in enumerate(drawn):
            position = np.arange(len(values)) + 0.3 * i
            ax.vlines(position, 0.0, values, color=colour, linewidth=1.0)
            ax.plot(position, values, ".", color=colour, markersize=4, label=name)
        ax.axhline(0.0, **THIN)
        ax.set(xlabel="column", ylabel=self.label)

    def _named_bars(self, ax, drawn, order):
        """Bars of the columns in `order`, the true weights below the learned ones."""
        height = 0.8 / len(drawn)
        for i, (name, values, colour) in enumerate(drawn):
            places = np.arange(len(order)) + i * height
            ax.barh(places, values[order], height, color=colour, label=name)
        rows_of_names(ax, np.asarray(self.names)[order])
        ax.axvline(0.0, **THIN)
        ax.set(xlabel=self.label)


@dataclass(eq=False, repr=False)
class ExplanationDisplay(Display):
    """What columns add to the score: of one row, or the mean absolute value over rows.

    Parameters
    ----------
    values : ndarray of shape (n_features,)
    names : list of str
    errors : ndarray of shape (n_features,), optional
        Standard errors of sampled values.
    label : str, default='mean absolute value'

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure

    Examples
    --------
    >>> import numpy as np
    >>> from tunefree import BoostedTreesRegressor
    >>> from tunefree.plots import ExplanationDisplay
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = BoostedTreesRegressor(random_state=0).fit(X, np.abs(X[:, 1]))
    >>> ExplanationDisplay.from_estimator(model, X[:50]).largest(1)[0]
    ['x1']
    """

    values: np.ndarray
    names: Sequence[str]
    _: KW_ONLY
    errors: np.ndarray | None = None
    label: str = "mean absolute value"

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, **options: Any) -> Self:
        """Draw the explanation of rows.

        Parameters
        ----------
        estimator : fitted estimator with `explain`
        X : as for `predict`
        **options
            Passed to `from_explanation`.
        """
        return cls.from_explanation(estimator.explain(X), **options)

    @classmethod
    def from_explanation(
        cls,
        explanation: Any,
        *,
        row: int | None = None,
        output: int | None = None,
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Draw the result of `explain`.

        Parameters
        ----------
        explanation : Explanation
        row : int, optional
            Of one row. By default the mean absolute value over all rows.
        output : int, optional
            Which class or target. By default the one of the row's highest score, or for all rows
            the mean over outputs.
        ax : matplotlib Axes, optional
        **options
            Passed to `plot`.
        """
        return cls.of(explanation, row, output).plot(ax, **options)

    @classmethod
    def of(cls, explanation: Any, row: int | None = None, output: int | None = None) -> Self:
        """As `from_explanation`, without drawing."""
        names, base = explanation.feature_names, np.atleast_1d(explanation.base_value)
        values = explanation.values.reshape(-1, len(names), len(base))
        if row is None:
            outputs = slice(None) if output is None else [output]
            return cls(np.abs(values[:, :, outputs]).mean(axis=(0, 2)), names)
        scores, errors = np.atleast_1d(explanation.score[row]), explanation.std_error
        k = int(scores.argmax()) if output is None else output
        errors = None if errors is None else errors.reshape(values.shape)[row, :, k]
        label = f"added to the base value {base[k]:.4g}; the score is {scores[k]:.4g}"
        return cls(values[row, :, k], names, errors=errors, label=label)

    def largest(self, most: int) -> tuple[list[str], np.ndarray, np.ndarray | None]:
        """Names, values and errors of the columns of largest absolute values."""
        order: list[int] = np.argsort(-np.abs(self.values), kind="stable")[:most].tolist()
        errors = None if self.errors is None else self.errors[order]
        return [self.names[j] for j in order], self.values[order], errors

    def plot(self, ax: Any = None, *, most: int = 10) -> Self:
        """Draw one bar for each column, the largest at the top: blue above 0, orange below.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        most : int, default=10
            Number of columns.

        Returns
        -------
        self
        """
        ax = self._on(ax)
        names, values, errors = self.largest(most)
        colours = [COLOURS[0] if value > 0.0 else COLOURS[1] for value in values]
        self.bars_ = bars(ax, names, values, errors, colours)
        ax.axvline(0.0, **THIN)
        ax.set(xlabel=self.label)
        return self
