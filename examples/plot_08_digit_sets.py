"""
Sets of classes for images of digits
====================================

Where the model is unsure, it answers with several digits. The sets contain the true digit in 99 %
of the images.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from tunefree import KernelRidgeClassifier

X, y = load_digits(return_X_y=True)
X, X_new, y, y_new = train_test_split(X, y, train_size=200, random_state=0)
model = KernelRidgeClassifier(random_state=0).fit(X, y)
labels, sets = model.predict_set(X_new, alpha=0.01)
sets = sets[:, :, 0]
print(f"mean size of a set {sets.sum(axis=1).mean():.2f}")
print(f"sets with the true digit {sets[np.arange(len(y_new)), y_new].mean():.3f}")

unsure = np.flatnonzero(sets.sum(axis=1) == 2)[:8]
fig, axes = plt.subplots(1, 8, figsize=(9, 1.7), layout="constrained")
for ax, i in zip(axes, unsure, strict=True):
    ax.imshow(X_new[i].reshape(8, 8), cmap="gray_r")
    ax.set_title(" ".join(map(str, model.classes_[sets[i]])), fontsize=10)
    ax.axis("off")
plt.show()
