"""PiSTOL: learning without a step size, linear or with kernels (Orabona 2014)."""

from tunefree.core.registry import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
