"""
A sparse generalized linear model without a penalty
===================================================

A generalized linear model with 10 relevant columns of 400, learned from 200 rows without a penalty.
In the Euclidean geometry the Reflectron spreads the weights over all columns. In the geometry of
the hypentropy it finds the sparse true weights.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

from tunefree import ReflectronRegressor
from tunefree.plots import WeightsDisplay
from tunefree.reflectron.potentials import Euclidean, Hypentropy

rng = np.random.default_rng(0)
truth = np.zeros(400)
truth[rng.choice(400, 10, replace=False)] = rng.normal(size=10)
X = rng.uniform(-1, 1, (200, 400))
y = expit(X @ truth) + 0.1 * rng.uniform(-1, 1, 200)

fig, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained", sharey=True)
for ax, potential in zip(axes, (Euclidean(), Hypentropy(1e-6)), strict=True):
    model = ReflectronRegressor(link="logit", potential=potential, random_state=0).fit(X, y)
    WeightsDisplay.from_estimator(model, truth=truth, ax=ax)
    error = np.abs(model.coef_ - truth).sum()
    ax.set_title(f"{potential}: l1 error {error:.2f}")
plt.show()
