"""
A smaller kernel predictor
==========================

A kernel predictor keeps a coefficient for most rows. `compress=` replaces them by few landmarks.
Predictions are then faster, at nearly the same error.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss

from tunefree import KernelPiSTOLClassifier

X, y = load_digits(return_X_y=True)
X, y = X[y > 4], y[y > 4]
X, X_new, y, y_new = X[:600], X[600:], y[:600], y[600:]
landmarks = [10, 20, 40, 80, 160]
whole = KernelPiSTOLClassifier(random_state=0).fit(X, y)
least = log_loss(y_new, whole.predict_proba(X_new))
losses = []
for m in landmarks:
    small = KernelPiSTOLClassifier(compress=m, random_state=0).fit(X, y)
    losses.append(log_loss(y_new, small.predict_proba(X_new)))

fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
ax.plot(landmarks, losses, "o-", label="compressed")
ax.axhline(least, color="0.5", linestyle=":", label="all rows")
ax.set(xscale="log", xlabel="landmarks", ylabel="log-loss on new rows")
ax.set_xticks(landmarks, landmarks)
ax.legend(frameon=False)
plt.show()
