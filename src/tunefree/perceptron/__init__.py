"""Perceptrons: a separating hyperplane with a certificate (Hanashiro and Abernethy)."""

from tunefree.core.registry import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
