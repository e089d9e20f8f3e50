"""Averaged SGD for least squares, and the exact path."""
