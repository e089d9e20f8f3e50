"""Kernel ridge and kernel logistic regression, with the weight of each column learned."""

from tunefree.core.registry import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
