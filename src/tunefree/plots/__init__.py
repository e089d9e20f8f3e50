"""Plots of fitted models in the style of scikit-learn: ``Display.from_estimator(...)`` draws.

`plot` draws again, into other axes. matplotlib is imported by the first plot. For learning
curves of one estimator use scikit-learn's own `LearningCurveDisplay`.
"""

from tunefree.plots.bars import ExplanationDisplay, LeaderboardDisplay, WeightsDisplay
from tunefree.plots.curves import DriftDisplay, RiskCurveDisplay
from tunefree.plots.diagnostics import (
    LeverageDisplay,
    PartialResidualDisplay,
    QQDisplay,
    ResidualsDisplay,
)
from tunefree.plots.predictions import CalibrationDisplay, IntervalDisplay, LiftDisplay

__all__ = [
    "CalibrationDisplay",
    "DriftDisplay",
    "ExplanationDisplay",
    "IntervalDisplay",
    "LeaderboardDisplay",
    "LeverageDisplay",
    "LiftDisplay",
    "PartialResidualDisplay",
    "QQDisplay",
    "ResidualsDisplay",
    "RiskCurveDisplay",
    "WeightsDisplay",
]
