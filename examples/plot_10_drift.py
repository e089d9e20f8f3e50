"""
A stream whose rule changes
===========================

At row 1,500 the rule changes its sign. `StreamClassifier` needs no forgetting rate: its half-life
falls after the change, and grows again.
"""

import matplotlib.pyplot as plt
import numpy as np

from tunefree import StreamClassifier
from tunefree.plots import DriftDisplay

rng = np.random.default_rng(0)
X = rng.normal(size=(3000, 5))
sign = np.where(np.arange(3000) < 1500, 1, -1)
y = sign * X[:, 0] + 0.5 * X[:, 1] + 0.3 * rng.normal(size=3000) > 0

model = StreamClassifier()
for row, label in zip(X, y, strict=True):
    model.predict_one(row)
    model.learn_one(row, label)
print(f"error of predictions made before each label {model.progressive_error_:.3f}")
DriftDisplay.from_estimator(model)
plt.show()
