"""
A separating hyperplane with a certified margin
===============================================

`OptimisticPerceptron` returns an interval that contains the largest margin of the data. Its two
ends come from the two players of a game.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from tunefree import OptimisticPerceptron
from tunefree.plots import MarginDisplay

X, y = load_digits(return_X_y=True)
X, y = X[(y == 3) | (y == 8)] / 16.0, y[(y == 3) | (y == 8)]
model = OptimisticPerceptron("auto", stop="margin", tol=0.01).fit(X, y)
print(model.status_, model.margin_bounds_)

fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
MarginDisplay.from_estimator(model, X, y, ax=ax)
plt.show()
