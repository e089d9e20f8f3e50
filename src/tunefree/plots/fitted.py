"""Plots of what fitted models keep: risks, candidates, weights, drift, intervals."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.base import is_regressor
from sklearn.utils.validation import check_is_fitted

from tunefree.plots.drawing import COLOURS, STROKES, Display, bars, rows_of_names


class _Fitted(Display, ABC):
    """Displays of a fitted estimator, without further data."""

    @abstractmethod
    def plot(self, ax: Any = None, **options: Any) -> Self:
        """Draw on axes, by default on new ones."""

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


@dataclass(eq=False, repr=False)
class RiskCurveDisplay(_Fitted):
    """Risk against rows or passes, one curve for each model or candidate.

    Parameters
    ----------
    curves : dict of str to (x, risks)
        Both of shape (n_points,); x: rows seen, training rows or passes.
    dashed : dict of str to (x, risks), optional
        Their risk on held-out rows, drawn dashed.
    xlabel, ylabel : str

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    lines_ : list of matplotlib Line2D

    Examples
    --------
    >>> import numpy as np
    >>> from tunefree import PiSTOLClassifier
    >>> from tunefree.plots import RiskCurveDisplay
    >>> X = np.arange(40.0)[:, None]
    >>> model = PiSTOLClassifier(random_state=0).fit(X, X[:, 0] > 20)
    >>> RiskCurveDisplay.from_estimator(model).xlabel
    'rows seen'
    """

    curves: Mapping[str, tuple]
    _: KW_ONLY
    dashed: Mapping[str, tuple] = field(default_factory=dict)
    xlabel: str = "rows seen"
    ylabel: str = "risk"

    @staticmethod
    def _data_of(estimator) -> dict[str, Any]:
        if traces := getattr(estimator, "traces_", None):
            curves = {name: (t["rows"], t["risk"]) for name, t in traces.items()}
            return {"curves": curves, "ylabel": "mean loss so far"}
        trace = getattr(estimator, "trace_", {})
        name = next((key for key in trace if key.startswith("progressive")), None)
        if "rows" in trace and name is not None:
            return _progressive_curves(trace["rows"], trace[name], name)
        held_out = trace.get("held_risk")
        if isinstance(held_out, dict):
            curves = {n: (np.arange(len(r)), r) for n, r in held_out.items()}
            return {"curves": curves, "xlabel": "rounds", "ylabel": "held-out loss"}
        if "risk" in trace:
            return _curves_of_passes(trace)
        raise ValueError(f"{type(estimator).__name__} has no trace_ of the risk.")

    def plot(self, ax: Any = None, **options: Any) -> Self:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        **options
            Passed to the lines.

        Returns
        -------
        self
        """
        ax = self._on(ax)
        self.lines_ = []
        for i, (name, (x, risks)) in enumerate(self.curves.items()):
            look = {"color": COLOURS[i % len(COLOURS)], "linewidth": 1.4, **options}
            solid = {"linestyle": "-" if self.dashed else STROKES[i % len(STROKES)], **look}
            self.lines_ += ax.plot(x, risks, label=name, **solid)
            if name in self.dashed:
                self.lines_ += ax.plot(*self.dashed[name], **{**look, "linestyle": "--"})
        ax.set(xlabel=self.xlabel, ylabel=self.ylabel, xscale="symlog", yscale="log")
        ax.grid(alpha=0.3)
        ax.legend(frameon=False, fontsize=8)
        return self


def _progressive_curves(rows, risks, name):
    """The progressive risks of candidates, one for each of `rows`."""
    curves = {n: (np.asarray(rows), r) for n, r in risks.items() if len(r) == len(rows)}
    label = name.replace("_", " ") + (" (share of rows)" if name.endswith("error") else "")
    return {"curves": curves, "ylabel": label}


def _curves_of_passes(trace):
    """The risks of configurations on training and on held-out rows, after each pass."""
    risk, held_out = (np.atleast_2d(np.asarray(trace[k]).T) for k in ("risk", "held_risk"))
    names = [str(n) for n in trace.get("configurations", range(len(risk)))]
    x = np.arange(risk.shape[1])
    known = {n: (x, h) for n, h in zip(names, held_out, strict=True) if np.isfinite(h).any()}
    return {
        "curves": {n: (x, r) for n, r in zip(names, risk, strict=True)},
        "dashed": known,
        "xlabel": "passes over the rows",
        "ylabel": "mean squared error (dashed: held out)",
    }


def _name(entry):
    """The name of an entry of a leaderboard; without one, its settings."""
    if "name" in entry or "candidate" in entry:
        return entry.get("name") or entry["candidate"]
    settings = [v for k, v in entry.items() if k not in ("risk", "time") and v is not None]
    return ", ".join(f"{v:.3g}" if isinstance(v, float) else str(v) for v in settings)


@dataclass(eq=False, repr=False)
class LeaderboardDisplay(_Fitted):
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
            ax.legend(frameon=False, fontsize=8)
        return self

    def _stems(self, ax, drawn):
        """A line and a dot for each weight."""
        for i, (name, values, colour) in enumerate(drawn):
            position = np.arange(len(values)) + 0.3 * i
            ax.vlines(position, 0.0, values, color=colour, linewidth=1.0)
            ax.plot(position, values, ".", color=colour, markersize=4, label=name)
        ax.axhline(0.0, color="0.5", linewidth=0.8)
        ax.set(xlabel="column", ylabel=self.label)

    def _named_bars(self, ax, drawn, order):
        """Bars of the columns in `order`, the true weights below the learned ones."""
        height = 0.8 / len(drawn)
        for i, (name, values, colour) in enumerate(drawn):
            places = np.arange(len(order)) + i * height
            ax.barh(places, values[order], height, color=colour, label=name)
        rows_of_names(ax, np.asarray(self.names)[order])
        ax.axvline(0.0, color="0.5", linewidth=0.8)
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
        ax.axvline(0.0, color="0.5", linewidth=0.8)
        ax.set(xlabel=self.label)
        return self


@dataclass(eq=False, repr=False)
class DriftDisplay(_Fitted):
    """The error of a stream, recent and so far, and the estimated half-life of its mixture.

    Parameters
    ----------
    drift : dict of str to ndarray
        `drift_` of a `StreamClassifier` or `StreamRegressor`.
    label : str, default='error'

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes of the errors.
    twin_ : matplotlib Axes
        Axis of the half-life, over the same rows.
    lines_ : list of matplotlib Line2D

    Examples
    --------
    >>> import numpy as np
    >>> from tunefree import StreamClassifier
    >>> from tunefree.plots import DriftDisplay
    >>> X = np.arange(400.0)[:, None] % 10
    >>> model = StreamClassifier().partial_fit(X, X[:, 0] > 5)
    >>> int(DriftDisplay.from_estimator(model).drift["rows"][-1])
    400
    """

    drift: Mapping[str, np.ndarray]
    _: KW_ONLY
    label: str = "error"

    @staticmethod
    def _data_of(estimator) -> dict[str, Any]:
        drift = getattr(estimator, "drift_", None)
        if drift is None:
            raise ValueError(
                f"{type(estimator).__name__} has no drift_: only stream estimators have it."
            )
        label = "squared error" if is_regressor(estimator) else "error rate"
        return {"drift": drift, "label": label}

    def plot(self, ax: Any = None, **line: Any) -> Self:
        """Draw the errors and the half-life.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        **line
            Passed to the lines.

        Returns
        -------
        self
        """
        ax = self._on(ax)
        self.twin_ = twin = ax.twinx()
        rows, look = self.drift["rows"], {"linewidth": 1.2, **line}
        self.lines_ = [
            *ax.plot(rows, self.drift["error"], color=COLOURS[5], label="recent", **look),
            *ax.plot(rows, self.drift["error_so_far"], color=COLOURS[0], label="so far", **look),
            *twin.plot(rows, self.drift["half_life"], color=COLOURS[1], label="half-life", **look),
        ]
        ax.set(xlabel="rows", ylabel=self.label, ylim=(0.0, None))
        twin.set(ylabel="half-life in rows", yscale="log")
        ax.legend(self.lines_, [i.get_label() for i in self.lines_], frameon=False, fontsize=8)
        return self


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
        terms = {"exposure": exposure, "offset": offset}
        given = {name: values for name, values in terms.items() if values is not None}
        predictions, ends = estimator.predict_interval(X, alpha=alpha, **given)
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
        ax.legend(frameon=False, fontsize=8)
        return self
