"""Kernel learners: one sweep for many of them, kernel ridge regression, landmarks, compression."""
