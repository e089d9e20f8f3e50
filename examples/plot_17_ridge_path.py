"""
A whole ridge path from one pass of SGD
=======================================

The iterates of plain SGD, averaged with geometric weights, approximate ridge regression. Each rate
corresponds to a penalty. `solver="sgd"` shows it. The default uses the exact path where that is
cheaper, as it is here.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes

from tunefree import RidgePathRegressor

X, y = load_diabetes(return_X_y=True)
fig, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
for ax, solver in zip(axes, ("sgd", "exact"), strict=True):
    model = RidgePathRegressor(solver=solver, random_state=0).fit(X[:300], y[:300])
    ax.plot(model.alphas_, model.coefs_, linewidth=1.0)
    ax.axvline(model.alpha_, color="0.5", linestyle=":")
    ax.set(xscale="log", xlabel="alpha", ylabel="coefficient")
    score = model.score(X[300:], y[300:])
    ax.set_title(f"solver={solver!r}: test R² {score:.3f}")
plt.show()
