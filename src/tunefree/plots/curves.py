"""Plots of what happened during training: risks, and the drift of streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.base import is_regressor

from tunefree.plots.drawing import (
    COLOURS,
    STROKES,
    FittedDisplay,
    legend,
)


@dataclass(eq=False, repr=False)
class RiskCurveDisplay(FittedDisplay):
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
        legend(ax)
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


@dataclass(eq=False, repr=False)
class DriftDisplay(FittedDisplay):
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
        legend(ax, handles=self.lines_)
        return self
