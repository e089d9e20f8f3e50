"""How the risk developed while a model learned."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tunefree.plots.base import COLOURS, axes

_PROGRESSIVE = {"progressive_error": "progressive error (share of rows)"}


class RiskCurveDisplay:
    """Training, held-out or progressive risk against rows or passes, one curve a candidate.

    Parameters
    ----------
    x : ndarray of shape (n_points,)
        Rows seen, or passes.
    curves : dict of str to ndarray of shape (n_points,)
    dashed : dict of str to ndarray of shape (n_points,), optional
        The same candidates' risk on rows held out, drawn dashed.
    xlabel, ylabel : str

    Attributes
    ----------
    ax_ : matplotlib Axes
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

    def __init__(self, x, curves, *, dashed=None, xlabel="rows seen", ylabel="risk"):
        self.x = x
        self.curves = curves
        self.dashed = dashed or {}
        self.xlabel = xlabel
        self.ylabel = ylabel

    @classmethod
    def from_estimator(cls, estimator):
        """The display of an estimator that has a `trace_`.

        Raises
        ------
        ValueError
            If the trace holds no risk.
        """
        check_is_fitted(estimator)
        trace = getattr(estimator, "trace_", {})
        if "rows" in trace:
            name = next((k for k in trace if k.startswith("progressive")), None)
            if name is not None:
                label = _PROGRESSIVE.get(name, name.replace("_", " "))
                return cls(np.asarray(trace["rows"]), dict(trace[name]), ylabel=label)
        if "risk" in trace:
            risk = np.atleast_2d(np.asarray(trace["risk"]).T)
            names = [str(n) for n in trace.get("configurations", range(len(risk)))]
            held = np.atleast_2d(np.asarray(trace["held_risk"]).T)
            held = {n: h for n, h in zip(names, held, strict=True) if np.isfinite(h).any()}
            return cls(
                np.arange(risk.shape[1]),
                dict(zip(names, risk, strict=True)),
                dashed=held,
                xlabel="passes over the rows",
                ylabel="mean squared error (dashed: held out)",
            )
        raise ValueError(f"{type(estimator).__name__} has no trace_ of its risk.")

    def plot(self, ax=None, **line):
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        **line
            Passed to the lines.

        Returns
        -------
        self
        """
        self.ax_ = ax = axes(ax)
        self.lines_ = []
        for i, (name, y) in enumerate(self.curves.items()):
            options = {"color": COLOURS[i % len(COLOURS)], "linewidth": 1.4, **line}
            self.lines_ += ax.plot(self.x, y, label=name, **options)
            if name in self.dashed:
                self.lines_ += ax.plot(self.x, self.dashed[name], **options, linestyle="--")
        ax.set(xlabel=self.xlabel, ylabel=self.ylabel, xscale="symlog", yscale="log")
        ax.grid(alpha=0.3)
        ax.legend(frameon=False, fontsize=8)
        return self
