"""
Growing data with ``partial_fit``
=================================

CO2 at Mauna Loa comes week by week. A model of the first years is given each new half-year as it comes, and predicts
the next one before it is measured. Kernel and scaling stay; rows join.
"""

import matplotlib.pyplot as plt
import numpy as np

from sodalite import GreedyGPRegressor
from sodalite.datasets import load_mauna_loa
from sodalite.metrics import interval_coverage, rmse

X, y = load_mauna_loa()
X, y = X[1::2], y[1::2]  # every other week
year = X[:, 0]
begin = year < 1980

gp = GreedyGPRegressor(n_active=150, random_state=0).fit(X[begin], y[begin])
still = GreedyGPRegressor(gp.kernel_, hyperparameters="fixed", n_active=150, random_state=0).fit(X[begin], y[begin])
print(f"{begin.sum()} rows to begin with")
print(gp.kernel_)

# %%
# Half a year at a time: predict it, then learn it. ``still`` is the same model, but learns nothing new.

halves = np.arange(1980, 1990, 0.5)
found, old, low, high, when = [], [], [], [], []
for half in halves:
    rows = (half <= year) & (year < half + 0.5)
    found.append(gp.predict(X[rows]))
    old.append(still.predict(X[rows]))
    lower, upper = gp.predict_interval(X[rows])
    low.append(lower), high.append(upper), when.append(np.flatnonzero(rows))
    gp.partial_fit(X[rows], y[rows], exchange=True)
when, found, old, low, high = (np.concatenate(each) for each in (when, found, old, low, high))
print(
    f"half a year ahead: RMSE {rmse(y[when], found):.2f} ppm, {interval_coverage(y[when], low, high):.0%} in 95 % bands"
)
print(f"without new rows:  RMSE {rmse(y[when], old):.2f} ppm")
joined = int(np.sum(X[gp.active_indices_, 0] >= 1980))
print(f"of the {len(gp.active_indices_)} active rows, {joined} are new ones")

# %%

fig, (above, below) = plt.subplots(2, 1, figsize=(9, 5.5), sharex=True, height_ratios=(2, 1), layout="constrained")
above.fill_between(year[when], low, high, alpha=0.3, linewidth=0, label="95 % band, half a year ahead")
above.plot(year[when], found, linewidth=1, label="predicted half a year ahead")
above.plot(year[when], old, linewidth=1, color="0.6", label="predicted in 1980")
above.plot(year[when], y[when], "k.", markersize=2.5, label="measured")
above.set(ylabel="CO2 (ppm)")
above.legend(loc="upper left")
below.plot(year[when], y[when] - found, linewidth=0.8)
below.plot(year[when], y[when] - old, linewidth=0.8, color="0.6")
below.axhline(0, color="k", linewidth=0.5)
below.set(xlabel="year", ylabel="error (ppm)")
plt.show()
