"""
Periods that are found
======================

Nobody tells the model that a year has seasons. It finds the period in a periodogram, and keeps the component because
the data are far more likely with it. The data are monthly means of CO2 at Mauna Loa.
"""

import matplotlib.pyplot as plt
import numpy as np

from sodalite import GreedyGPRegressor
from sodalite.datasets import load_mauna_loa
from sodalite.metrics import interval_coverage, rmse

X, y = load_mauna_loa()
month, where = np.unique(np.floor(12 * X[:, 0]), return_inverse=True)
y = np.bincount(where, y) / np.bincount(where)  # means of the weeks of each month
t = (month + 0.5) / 12

past = t < 1994
gp = GreedyGPRegressor(random_state=0).fit(t[past, None], y[past])
for part in str(gp.kernel_).split(" + "):
    print(part)

# %%
# How far that carries: eight years that the fit has not seen.

later = ~past
mean = gp.predict(t[later, None])
lower, upper = gp.predict_interval(t[later, None])
for until in (1996, 1998, 2002):
    rows = t[later] < until
    inside = interval_coverage(y[later][rows], lower[rows], upper[rows])
    print(f"1994 to {until}: RMSE {rmse(y[later][rows], mean[rows]):.2f} ppm, {inside:.0%} in the 95 % band")

# %%

grid = np.linspace(1985, 2002, 1500)
mean, (lower, upper) = gp.predict(grid[:, None]), gp.predict_interval(grid[:, None])
fig, ax = plt.subplots(figsize=(9, 4.2), layout="constrained")
ax.axvspan(1994, 2002, color="0.95")
ax.fill_between(grid, lower, upper, alpha=0.3, linewidth=0, label="95 % band")
ax.plot(grid, mean, linewidth=1.2, label="mean")
shown = t >= 1985
ax.plot(t[past & shown], y[past & shown], "o", color="0.4", markersize=2.5, label="learnt from")
ax.plot(t[later], y[later], "o", color="C3", markersize=2.5, label="not seen")
ax.set(xlabel="year", ylabel="CO2 (ppm)", xlim=(1985, 2002))
ax.legend(loc="upper left")
plt.show()
