"""Reflectron: generalized linear models by mirror-descent pseudogradients, flows and dynamics.

The potential is the regularizer (Boffi and Slotine 2020; Boffi, Tu and Slotine 2021).
"""

from tunefree.core.registry import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, {"flow": "tunefree.reflectron.mirror_flow"})
