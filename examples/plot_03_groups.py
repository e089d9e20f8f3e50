"""
Groups: scores that hold for new patients
=========================================

Five rows of each patient are alike. If rows are held out one by one, the model knows the patient of
each held-out row, and its score is too good. `groups=` holds out whole patients.
"""

import matplotlib.pyplot as plt
import numpy as np

from tunefree import TuneFreeRegressor

rng = np.random.default_rng(0)
patient = np.repeat(np.arange(200), 5)
X = rng.normal(size=(200, 3))[patient] + 0.1 * rng.normal(size=(1000, 3))
y = X[:, 0] + 1.5 * rng.normal(size=200)[patient] + 0.3 * rng.normal(size=1000)
old, new = patient < 80, patient >= 80

bars = {}
for name, groups in {"rows held out": None, "patients held out": patient[old]}.items():
    model = TuneFreeRegressor(random_state=0).fit(X[old], y[old], groups=groups)
    bars[name] = [model.report_.verdict.score, model.score(X[new], y[new])]

fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
ax.bar([0, 2.5], [b[0] for b in bars.values()], color="#0072B2", label="R² in the report")
ax.bar([1, 3.5], [b[1] for b in bars.values()], color="#D55E00", label="R² of new patients")
ax.axhline(0, color="0.5", linewidth=1)
ax.set_xticks([0.5, 3], list(bars))
ax.legend(frameon=False)
plt.show()
