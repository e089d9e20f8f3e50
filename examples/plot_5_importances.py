"""
Which columns count, and how
============================

Three questions that have three answers: what the predictor goes by, what a column is worth for rows
that were not learned, and how the prediction moves with it.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.inspection import PartialDependenceDisplay

from tunefree import TuneFreeRegressor, WeightsDisplay

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
model = TuneFreeRegressor(random_state=0).fit(X, y)

# %%
# The columns' shares of what moves the prediction (no units), and by how much the squared error of
# rows left out rises when a column is permuted.

fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
WeightsDisplay.from_estimator(model, ax=axes[0])
worth = WeightsDisplay(model.permutation_importances_, names=X.columns, label="rise of the error")
worth.plot(axes[1])
plt.show()

# %%
# The mean prediction if all rows had that value: scikit-learn's display takes the model as it is.

order = model.permutation_importances_.argsort()[::-1][:3].tolist()
fig, axes = plt.subplots(1, 3, figsize=(10, 3), layout="constrained", sharey=True)
PartialDependenceDisplay.from_estimator(model, X.astype(float), order, ax=axes)
plt.show()
