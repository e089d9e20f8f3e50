"""
Feature importances and partial dependence
==========================================

Three questions with three answers: which columns drive the predictions, how useful a column is for
held-out rows, and how the prediction changes with a column.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.inspection import PartialDependenceDisplay

from tunefree import TuneFreeRegressor
from tunefree.plots import WeightsDisplay

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
model = TuneFreeRegressor(random_state=0).fit(X, y)

# %%
# Left: each column's share of the changes of the prediction (no units). Right: how much the squared
# error on held-out rows rises when a column is permuted.

fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
WeightsDisplay.from_estimator(model, ax=axes[0])
worth = WeightsDisplay(model.permutation_importances_, names=X.columns, label="rise of the error")
worth.plot(axes[1])
plt.show()

# %%
# The mean prediction if all rows had the same value in one column. scikit-learn's display accepts
# the model.

order = model.permutation_importances_.argsort()[::-1][:3].tolist()
fig, axes = plt.subplots(1, 3, figsize=(10, 3), layout="constrained", sharey=True)
PartialDependenceDisplay.from_estimator(model, X.astype(float), order, ax=axes)
plt.show()
