"""Perceptrons beside `OptimisticPerceptron`: with kernels, and Rosenblatt's."""

from tunefree.estimators.perceptron import ClassicalPerceptron, KernelOptimisticPerceptron

__all__ = ["ClassicalPerceptron", "KernelOptimisticPerceptron"]
