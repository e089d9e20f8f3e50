"""Boosted trees."""

from tunefree.core.registry import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
