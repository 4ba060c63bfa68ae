"""
Intervals at every level, beside boosted trees with conformal ones
==================================================================

An interval of 90 % should hold 90 % of new observations, and be no wider than it must. Boosted trees have no
intervals of their own; *split conformal prediction* gives them some, as wide as their errors on rows set aside.
Quantile regression by trees can be made conformal as well. Here are all three on four years of weather in Seattle:
the day's highest temperature from its lowest, the rain, the wind and the season.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from vega_datasets import local_data

from sodalite import GreedyGPRegressor
from sodalite.metrics import interval_coverage, interval_score

table = local_data.seattle_weather()
angle = 2 * np.pi * table.date.dt.day_of_year / 365.25
X = np.column_stack([table.precipitation, table.temp_min, table.wind, np.cos(angle), np.sin(angle)])
y = table.temp_max.to_numpy()

rng = np.random.default_rng(0)
part = rng.permutation(len(y)) % 3
train, test = part != 0, part == 0
proper, aside = train & (part == 1), train & (part == 2)  # conformal methods set rows aside; ours needs none
levels = np.array([0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98])

# %%
# The Gaussian process: one fit for all levels.

gp = GreedyGPRegressor(n_active=200, random_state=0).fit(X[train], y[train])
ours = {level: gp.predict_interval(X[test], coverage=level) for level in levels}

# %%
# Trees with split conformal intervals: the quantile of the absolute errors on the rows set aside, the same everywhere.

trees = HistGradientBoostingRegressor(max_iter=100, learning_rate=0.05, random_state=0).fit(X[proper], y[proper])
errors = np.sort(np.abs(y[aside] - trees.predict(X[aside])))
mean = trees.predict(X[test])


def rank(level):
    """Which of the sorted errors makes an interval that holds at least the level, on average."""
    return min(int(np.ceil(level * (len(errors) + 1))), len(errors)) - 1


split = {level: (mean - errors[rank(level)], mean + errors[rank(level)]) for level in levels}

# %%
# Conformalised quantile regression: two forests of trees for each level, and a correction of both.

quantile = {}
for level in levels:
    low, high = (
        HistGradientBoostingRegressor(
            loss="quantile", quantile=q, max_iter=100, learning_rate=0.05, random_state=0
        ).fit(X[proper], y[proper])
        for q in ((1 - level) / 2, (1 + level) / 2)
    )
    excess = np.sort(np.maximum(low.predict(X[aside]) - y[aside], y[aside] - high.predict(X[aside])))
    quantile[level] = low.predict(X[test]) - excess[rank(level)], high.predict(X[test]) + excess[rank(level)]

# %%
# What is inside, and how wide it is. The interval score (less is better) counts both: the width, and a fine for every
# observation outside.

ways = {"sodalite": ours, "trees, split conformal": split, "trees, conformal quantiles": quantile}
print(f"{'':28}{'in 50 %':>8}{'in 90 %':>8}{'width of 90 %':>15}{'interval score':>16}")
for name, found in ways.items():
    shares = [interval_coverage(y[test], *found[level]) for level in (0.5, 0.9)]
    width = np.mean(found[0.9][1] - found[0.9][0])
    score = interval_score(y[test], *found[0.9], coverage=0.9)
    print(f"{name:28}{shares[0]:8.1%}{shares[1]:8.1%}{width:13.2f} °C{score:16.2f}")

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
left.plot([0.25, 1], [0.25, 1], color="0.7", linewidth=1)
for name, found in ways.items():
    left.plot(levels, [interval_coverage(y[test], *found[level]) for level in levels], "o-", markersize=4, label=name)
    right.plot(levels, [interval_score(y[test], *found[each], coverage=each) for each in levels], "o-", markersize=4)
left.set(xlabel="level", ylabel="share of test rows inside")
left.legend()
right.set(xlabel="level", ylabel="interval score (°C)")
plt.show()
