"""
Progressive validation of a portfolio of learners
=================================================

`PiSTOLClassifier` trains a portfolio of learning rules and column views in the same passes over the
rows. Every row is predicted before it is learned, so the comparison needs no held-out rows and no
second fit.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer

from tunefree import PiSTOLClassifier
from tunefree.plots import LeaderboardDisplay, RiskCurveDisplay

X, y = load_breast_cancer(return_X_y=True)
model = PiSTOLClassifier(random_state=0).fit(X[:400], y[:400])
print(f"test accuracy {model.score(X[400:], y[400:]):.3f} on raw, unscaled columns")

# %%
# The members' progressive error over the rows, and which of them were chosen.

fig, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
RiskCurveDisplay.from_estimator(model, ax=axes[0])
LeaderboardDisplay.from_estimator(model, ax=axes[1])
plt.show()
