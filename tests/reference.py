"""Naive references: every iterate is stored, averages are taken directly, nothing is clever.

Each takes rows (n, d), targets (n, k), a rule, a loss and weights, and returns the iterates of
shape (n + 1, d, k) and their average by an averaging scheme's masses.
"""

import numpy as np


def pistol(X, Y, rule, loss, weights, average):
    """Algorithm 3 for each output, made free of the data's scale."""
    (n, d), k = X.shape, Y.shape[1]
    g, accumulator, largest, iterates = np.zeros((d, k)), np.zeros(k), 0.0, []
    for t in range(n):
        norm = np.linalg.norm(X[t])
        new = max(largest, norm)
        accumulator = accumulator + _growth(rule, loss.bound(), largest, new)
        largest = new
        iterates.append(_predictor(g, (g**2).sum(axis=0), accumulator, largest, rule))
        s = weights[t] * _slopes(loss, X[t] @ iterates[-1], Y[t])
        g = g - X[t][:, None] * s
        accumulator = accumulator + _step(rule, s * norm)
    iterates.append(_predictor(g, (g**2).sum(axis=0), accumulator, largest, rule))
    return np.array(iterates), _average(iterates, average)


def pistol_coordinates(X, Y, rule, loss, weights, average):
    """Appendix A: the same, independently on each coordinate."""
    (n, d), k = X.shape, Y.shape[1]
    g, accumulator, largest, iterates = np.zeros((d, k)), np.zeros((d, k)), np.zeros((d, 1)), []
    for t in range(n):
        x = X[t][:, None]
        new = np.maximum(largest, abs(x))
        accumulator = accumulator + _growth(rule, loss.bound(), largest, new)
        largest = new
        iterates.append(_predictor(g, g**2, accumulator, largest, rule))
        s = weights[t] * _slopes(loss, X[t] @ iterates[-1], Y[t])
        g = g - x * s
        accumulator = accumulator + _step(rule, s * x)
    iterates.append(_predictor(g, g**2, accumulator, largest, rule))
    return np.array(iterates), _average(iterates, average)


def dowg(X, Y, rule, loss, weights, average):
    """Distance over weighted gradients; an iterate's mass is multiplied by its radius squared."""
    (n, d), k = X.shape, Y.shape[1]
    w, squares, radius, iterates, radii = np.zeros((d, k)), np.zeros(k), np.zeros(k), [], []
    for t in range(n):
        norm = np.linalg.norm(X[t])
        if not radius.any() and norm > 0:
            radius = np.full(k, rule.first / norm)
        iterates.append(w)
        radii.append(radius**2)
        s = weights[t] * _slopes(loss, X[t] @ w, Y[t])
        squares = squares + (radius * s * norm) ** 2
        step = np.divide(radius**2 * s, np.sqrt(squares), out=np.zeros(k), where=squares > 0)
        w = w - X[t][:, None] * step
        radius = np.maximum(radius, np.linalg.norm(w, axis=0))
    iterates.append(w)
    mass = [average.mass(t, t + 1) * r for t, r in enumerate(radii)]
    mean = np.einsum("tdk,tk->dk", iterates[:-1], mass) / np.sum(mass, axis=0)
    return np.array(iterates), mean


def _growth(rule, lipschitz, old, new):
    if rule.squares:
        return rule.a * lipschitz**2 * (new**2 - old**2)
    return rule.a * lipschitz * (new - old)


def _step(rule, gradient):
    return rule.a * (gradient**2 if rule.squares else abs(gradient))


def _predictor(g, square, accumulator, largest, rule):
    variance = accumulator if rule.squares else accumulator * largest
    with np.errstate(invalid="ignore", divide="ignore"):
        factor = rule.b / (largest * np.sqrt(variance)) if rule.root else rule.b / variance
        f = g * factor * np.exp(np.minimum(square / (2 * variance), rule.cap))
    return np.where(largest > 0, f, 0.0)


def _slopes(loss, predictions, targets):
    if hasattr(loss, "slopes"):
        loss.slopes(predictions, targets, out := np.empty(len(targets)))
        return out
    return np.array([loss.slope(p, y) for p, y in zip(predictions, targets, strict=True)])


def _average(iterates, average):
    mass = [average.mass(t, t + 1) for t in range(len(iterates) - 1)]
    return np.average(iterates[:-1], axis=0, weights=mass)
