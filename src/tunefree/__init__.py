"""Tuning-free linear and kernel learning."""

from tunefree._version import __version__
from tunefree.estimators.linear import PiSTOLClassifier
from tunefree.estimators.regression import PiSTOLRegressor

__all__ = ["PiSTOLClassifier", "PiSTOLRegressor", "__version__"]
