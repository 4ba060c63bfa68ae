"""
Bayesian optimisation with thousands of rows
============================================

A Gaussian process is the usual model of Bayesian optimisation, and O(n³) is why it usually ends after some hundred
trials. Here a log of some fifteen hundred past trials is at hand: the model starts from all of them, proposes new
trials where the cost might be lowest, and takes up each result by ``partial_fit``.
"""

import matplotlib.pyplot as plt
import numpy as np

from sodalite import GreedyGPRegressor


def cost(X):
    """Two basins with ripples. The one on the right is deeper."""
    left = 0.9 * np.exp(-((X - [0.3, 0.35]) ** 2).sum(axis=1) / 0.08)
    right = 2.0 * np.exp(-((X - [0.78, 0.7]) ** 2).sum(axis=1) / 0.02)
    return 2 - left - right + 0.15 * np.sin(18 * X[:, 0]) * np.cos(15 * X[:, 1])


rng = np.random.default_rng(3)
X = rng.beta(2, 3, (1600, 2))  # most trials were made where people thought that it was good
X = X[X[:, 0] < 0.6]  # and none on the right
y = cost(X) + rng.normal(0, 0.1, len(X))
past = X
print(f"{len(X)} past trials; the best true cost among them is {cost(X).min():.3f}")

# %%
# Twenty new trials, each at the lowest *confidence bound* of many candidates: the mean less three standard deviations
# of the function itself, without the noise. The posterior has these in units of the scaled targets.


def bound(X):
    mean, variance = gp.posterior_.mean_and_variance(X)
    return gp.y_mean_[0] + gp.y_std_[0] * (mean.ravel() - 3 * np.sqrt(variance.ravel()))


gp = GreedyGPRegressor(n_active=100, random_state=0).fit(X, y)
side = 60
grid = np.stack(np.meshgrid(*2 * [np.linspace(0, 1, side)]), axis=-1).reshape(-1, 2)
before = bound(grid)
for _ in range(20):
    candidates = rng.uniform(0, 1, (1500, 2))
    best = candidates[[np.argmin(bound(candidates))]]
    result = cost(best) + rng.normal(0, 0.1, 1)
    gp.partial_fit(best, result)
    X, y = np.vstack([X, best]), np.append(y, result)
trials = X[len(past) :]
chance = np.median([cost(rng.uniform(0, 1, (20, 2))).min() for _ in range(500)])
print(f"after 20 more: {cost(trials).min():.3f}; as many at random, in the median: {chance:.3f}")

# %%

fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
drawn = left.contourf(*grid.T.reshape(2, side, side), before.reshape(side, side), 20, cmap="viridis")
left.plot(*past.T, ".", color="w", markersize=1, alpha=0.5)
left.scatter(*trials.T, c=np.arange(len(trials)), cmap="autumn", s=25, edgecolor="k", linewidth=0.4)
left.set(title="the bound before; trials from red to yellow", xlim=(0, 1), ylim=(0, 1))
fig.colorbar(drawn, ax=left)
right.plot(range(1, 21), np.minimum.accumulate(cost(trials)), "o-", markersize=4, label="best of the new trials")
right.axhline(cost(past).min(), color="0.6", label="best of the past trials")
right.axhline(cost(grid).min(), color="k", linestyle=":", label="best there is")
right.set(xlabel="new trials", ylabel="true cost")
right.legend()
plt.show()
