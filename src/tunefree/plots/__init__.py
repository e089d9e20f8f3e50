"""Pictures of fitted models in scikit-learn's style: ``Display.from_estimator(...).plot()``.

matplotlib is imported when the first one is drawn. For learning curves of one estimator use
scikit-learn's own `LearningCurveDisplay`.
"""

from tunefree.plots.comparison import ErrorCurveDisplay
from tunefree.plots.leaderboard import LeaderboardDisplay
from tunefree.plots.margin import MarginDisplay
from tunefree.plots.path import RidgePathDisplay
from tunefree.plots.risk import RiskCurveDisplay
from tunefree.plots.weights import WeightsDisplay

__all__ = [
    "ErrorCurveDisplay",
    "LeaderboardDisplay",
    "MarginDisplay",
    "RidgePathDisplay",
    "RiskCurveDisplay",
    "WeightsDisplay",
]
