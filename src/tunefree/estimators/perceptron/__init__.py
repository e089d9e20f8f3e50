"""Separators as scikit-learn has them."""
