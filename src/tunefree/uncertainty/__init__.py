"""Uncertainty from held-out rows: intervals, sets, probabilities, risks and coefficients."""
