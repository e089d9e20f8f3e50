"""What was tried, and what was chosen."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tunefree.plots.base import COLOURS, axes

# The first of these in an entry is its name, or its score; entries without a name are told apart by
# everything else that they hold.
_NAMES = ("name", "candidate")
_SCORES = ("progressive_error", "progressive_loss", "validation_risk", "risk", "score")
_ERRORS = ("standard_error", "se")


def _first(entry, keys):
    return next((k for k in keys if k in entry), None)


def _name(entry):
    key = _first(entry, _NAMES)
    if key is not None:
        return str(entry[key])
    rest = [v for k, v in entry.items() if k not in (*_SCORES, *_ERRORS, "chosen", "time")]
    return ", ".join(f"{v:.3g}" if isinstance(v, float) else str(v) for v in rest if v is not None)


class LeaderboardDisplay:
    """Candidates with their estimated risk, the chosen ones filled.

    Parameters
    ----------
    names : list of str
    risks : ndarray of shape (n_candidates,)
    errors : ndarray of shape (n_candidates,) or None
        Standard errors of the risks.
    chosen : list of bool
    label : str, default='risk'

    Attributes
    ----------
    ax_ : matplotlib Axes
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

    def __init__(self, names, risks, *, errors=None, chosen=None, label="risk"):
        self.names = names
        self.risks = risks
        self.errors = errors
        self.chosen = [False] * len(names) if chosen is None else chosen
        self.label = label

    @classmethod
    def from_estimator(cls, estimator):
        """The display of an estimator that has a `leaderboard_`.

        Raises
        ------
        ValueError
            If it has none.
        """
        check_is_fitted(estimator)
        board = getattr(estimator, "leaderboard_", None)
        if not board:
            raise ValueError(f"{type(estimator).__name__} has no leaderboard_.")
        score, error = _first(board[0], _SCORES), _first(board[0], _ERRORS)
        risks = np.array([entry[score] for entry in board], dtype=float)
        best = int(np.nanargmin(risks))
        return cls(
            [_name(entry) for entry in board],
            risks,
            errors=None if error is None else np.array([e[error] for e in board], dtype=float),
            chosen=[bool(e.get("chosen", i == best)) for i, e in enumerate(board)],
            label=score.replace("_", " "),
        )

    def plot(self, ax=None, *, most=15):
        """Draw one bar a candidate, the best on top.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        most : int, default=15
            Only so many candidates, those of the lowest risk.

        Returns
        -------
        self
        """
        self.ax_ = ax = axes(ax)
        shown = np.argsort(self.risks, kind="stable")[:most]
        errors = None if self.errors is None else self.errors[shown]
        colours = [COLOURS[0] if self.chosen[i] else "0.75" for i in shown]
        place = np.arange(len(shown))
        self.bars_ = ax.barh(place, self.risks[shown], xerr=errors, color=colours, ecolor="0.2")
        ax.set_yticks(place, [self.names[i] for i in shown])
        ax.invert_yaxis()
        ax.set(xlabel=f"{self.label} (blue: chosen)")
        return self
