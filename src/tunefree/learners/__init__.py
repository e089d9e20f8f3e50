"""Learners: rules, kernels and what chooses among them."""
