"""
Trees as the mean
=================

A Gaussian process takes the function to be equally smooth everywhere. Where it jumps, boosted trees do better; where
it curves, they make steps. With a mean function both are had: the trees predict first, and the Gaussian process
learns what they leave. A default fit finds out whether that is worth it.
"""

import matplotlib.pyplot as plt
import numpy as np

from sodalite import GreedyGPRegressor
from sodalite.metrics import rmse

rng = np.random.default_rng(0)
levels = rng.normal(0, 3, (4, 4))


def price(X):
    """Sixteen districts, each with a level of its own, and a slope that is the same in all."""
    block = np.minimum((4 * X).astype(int), 3)
    return levels[block[:, 0], block[:, 1]] + 2 * np.sin(3 * X[:, 0] + 2 * X[:, 1])


X = rng.uniform(0, 1, (1200, 2))
y = price(X) + rng.normal(0, 0.3, 1200)

# %%
# What was tried first, by the negative log density of some rows (less is better), and what is kept. Trees are tried
# last, with all rows:

plain = GreedyGPRegressor(n_active=200, mean=None, target="standardize", random_state=0).fit(X, y)
joined = GreedyGPRegressor(n_active=200, random_state=0).fit(X, y)
for trial in joined.mean_.trials:
    print(f"{trial.name:10} {trial.nlpd:.3f}")
print("kept:", joined.mean_)

# %%
# Both beside the truth. The one without trees smooths every border.

side = 160
grid = np.stack(np.meshgrid(*2 * [(np.arange(side) + 0.5) / side]), axis=-1).reshape(-1, 2)
panels = {"true": price(grid)}
for name, model in {"a constant mean": plain, "the default": joined}.items():
    panels[name] = model.predict(grid)
    lower, upper = model.predict_interval(grid)
    print(f"{name:16} RMSE to the truth {rmse(panels['true'], panels[name]):.3f},", end=" ")
    print(f"mean width of the 95 % interval {np.mean(upper - lower):.2f}")

fig, axes = plt.subplots(1, 3, figsize=(10, 3.8), layout="constrained")
for ax, (name, values) in zip(axes, panels.items(), strict=True):
    drawn = ax.imshow(values.reshape(side, side), origin="lower", extent=(0, 1, 0, 1), vmin=-8, vmax=8, cmap="RdYlBu_r")
    ax.set(title=name, xticks=[], yticks=[])
fig.colorbar(drawn, ax=axes, shrink=0.9)
plt.show()
