"""
Monotone predictions
====================

The effect of a dose must not fall, and 80 measurements are noisy. `monotonic_cst=` guarantees it
for every row.
"""

import matplotlib.pyplot as plt
import numpy as np

from tunefree import BoostedTreesRegressor

rng = np.random.default_rng(1)
X = rng.uniform(0, 10, (80, 1))
y = 5 * np.sqrt(X[:, 0]) + 3 * rng.normal(size=80)
grid = np.linspace(0, 10, 400)[:, None]

fig, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
ax.plot(X[:, 0], y, ".", color="0.6")
for signs, name in ((None, "free"), ([1], "monotonic_cst=[1]")):
    model = BoostedTreesRegressor(monotonic_cst=signs, random_state=0).fit(X, y)
    ax.plot(grid[:, 0], model.predict(grid), label=name)
ax.set(xlabel="dose", ylabel="effect")
ax.legend(frameon=False)
plt.show()
