"""Kernels: their table, geometry, landmarks, expansions and their compression."""

from tunefree.kernels.kernels import (
    KERNELS,
    RBF,
    Cosine,
    Function,
    Laplacian,
    Linear,
    Polynomial,
    Precomputed,
    make_kernel,
)

__all__ = [
    "KERNELS",
    "RBF",
    "Cosine",
    "Function",
    "Laplacian",
    "Linear",
    "Polynomial",
    "Precomputed",
    "make_kernel",
]
