"""Perceptrons: two players, certificates of the margin."""
