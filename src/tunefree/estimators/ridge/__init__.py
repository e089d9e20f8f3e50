"""Least squares by averaged SGD as scikit-learn has it."""
