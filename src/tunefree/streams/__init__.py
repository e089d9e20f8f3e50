"""Streams that drift: mixtures that learn row by row."""

from tunefree.core.registry import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
