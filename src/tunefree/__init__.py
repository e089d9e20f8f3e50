"""Tuning-free linear and kernel learning."""

from tunefree._version import __version__
from tunefree.estimators.linear import PiSTOLClassifier

__all__ = ["PiSTOLClassifier", "__version__"]
