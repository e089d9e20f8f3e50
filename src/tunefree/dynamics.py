"""Dynamical systems and flows: recurrent models, models with shared coefficients, mirror flows."""

from tunefree.estimators.reflectron.dynamics import DynamicsReflectron
from tunefree.estimators.reflectron.flow import flow
from tunefree.estimators.reflectron.shared import SharedReflectron

__all__ = ["DynamicsReflectron", "SharedReflectron", "flow"]
