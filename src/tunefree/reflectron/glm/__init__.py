"""Generalized linear models: families, links, exposures, inference."""

from tunefree.core.registry import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
