"""
Prediction intervals, sets, and confidence intervals of coefficients
====================================================================

Candidates are scored on held-out rows. The errors there give 90 % prediction intervals without a
second fit.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes, load_wine
from sklearn.model_selection import train_test_split

from tunefree import RidgePathRegressor, TuneFreeClassifier, TuneFreeRegressor
from tunefree.plots import IntervalDisplay

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X, X_new, y, y_new = train_test_split(X, y, random_state=0)
model = TuneFreeRegressor(random_state=0).fit(X, y)
IntervalDisplay.from_estimator(model, X_new, y_new)
plt.show()

# %%
# The coverage in each quarter of the predictions.

predictions, intervals = model.predict_interval(X_new, alpha=0.1)
inside = (intervals[:, 0, 0] <= y_new) & (y_new <= intervals[:, 1, 0])
print(inside.groupby(np.argsort(np.argsort(predictions)) * 4 // len(predictions)).mean())

# %%
# For classes: sets that contain the true class with 90 %.

wine, new_wine, kind, _ = train_test_split(*load_wine(return_X_y=True), random_state=0)
classes = TuneFreeClassifier(random_state=0).fit(wine, kind)
labels, sets = classes.predict_set(new_wine[:3], alpha=0.1)
print(labels, sets[:, :, 0], sep="\n")

# %%
# For coefficients: estimate, standard error, t, p-value and confidence interval, for least squares
# without a penalty.

print(RidgePathRegressor().fit(X, y).summary(X, y))
