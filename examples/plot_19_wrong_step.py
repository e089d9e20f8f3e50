"""
No step size: results do not depend on the scale of the data
============================================================

`SGDRegressor` needs a step size that fits the scale of the data. We multiply the columns of a real
data set by powers of ten. The test score of `PiSTOLRegressor` does not change.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import SGDRegressor

from tunefree import PiSTOLRegressor

X, y = load_diabetes(return_X_y=True)
train, test = slice(0, 300), slice(300, None)
scales = 10.0 ** np.arange(-4, 5)
ours, sgd = [], []
for scale in scales:
    ours.append(PiSTOLRegressor(random_state=0).fit(scale * X[train], y[train]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sgd.append(SGDRegressor(random_state=0).fit(scale * X[train], y[train]))
ours = [m.score(scale * X[test], y[test]) for m, scale in zip(ours, scales, strict=True)]
sgd = [m.score(scale * X[test], y[test]) for m, scale in zip(sgd, scales, strict=True)]
print(f"ours: {min(ours):.4f} to {max(ours):.4f}; SGDRegressor: {min(sgd):.2g} to {max(sgd):.2g}")

# %%
# Scores below -1 are plotted at -1.

fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
ax.plot(scales, np.maximum(ours, -1), "o-", color="#0072B2", label="PiSTOLRegressor()")
ax.plot(scales, np.maximum(sgd, -1), "s--", color="#D55E00", label="SGDRegressor()")
ax.set(xscale="log", xlabel="factor on all columns", ylabel="test R² (cut at -1)")
ax.legend(frameon=False)
plt.show()
