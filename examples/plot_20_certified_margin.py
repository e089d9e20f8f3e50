"""
A separating hyperplane with a certified margin
===============================================

`OptimisticPerceptron` returns an interval that contains the largest margin of the data. Its two
ends come from the two players of a game.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from tunefree import OptimisticPerceptron

X, y = load_digits(return_X_y=True)
X, y = X[(y == 3) | (y == 8)] / 16.0, y[(y == 3) | (y == 8)]
model = OptimisticPerceptron("auto", stop="margin", tol=0.01).fit(X, y)
print(model.status_, model.margin_bounds_)

margins = model.decision_function(X) * (2 * (y == 8) - 1)
margins /= np.linalg.norm(np.append(model.coef_, model.intercept_))
fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
ax.hist(margins, bins=40, color="#0072B2")
ax.axvspan(*model.margin_bounds_[:2], color="#D55E00", alpha=0.4, label="the largest margin")
ax.set(xlabel="margin of a row", ylabel="rows")
ax.legend(frameon=False)
plt.show()
