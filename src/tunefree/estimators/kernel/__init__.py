"""Kernel learners as scikit-learn has them."""
