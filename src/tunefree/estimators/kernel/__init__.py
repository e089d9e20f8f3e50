"""Kernel learners as scikit-learn estimators."""
