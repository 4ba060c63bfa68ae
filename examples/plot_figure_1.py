"""
The paper's Figure 1, animated
==============================

Rows that join one at a time, on *x* sin *x* with noise, as in Figure 1 of Lalchand and Faul (2018). At each stage the
row with the largest Δ comes next: the standard deviation that the model predicts there plus the absolute residual.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.animation import FuncAnimation
from scipy.linalg import solve_triangular
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from sodalite import select

rng = np.random.default_rng(0)
X = np.sort(rng.uniform(0, 15, (40, 1)), axis=0)
y = X[:, 0] * np.sin(X[:, 0]) + rng.normal(0, 1.4, 40)
kernel = ConstantKernel(40.0) * RBF(1.2) + WhiteKernel(2.0)
chosen = select(X, y, kernel, n_active=13, first=20, criterion="delta")
print(chosen)

# %%
# The factor *L* of the active rows' covariance has all stages in it: the first *t* rows of its triangular system give
# mean and variance after *t* rows, at any place.

grid = np.linspace(0, 15, 300)[:, None]
active = chosen.indices
z = solve_triangular(chosen.factor, y[active], lower=True)


def path(places):
    """Mean and latent standard deviation at some places, after every stage."""
    v = solve_triangular(chosen.factor, (kernel.k1)(X[active], places), lower=True)
    mean = np.cumsum(v * z[:, None], axis=0)
    variance = kernel.k1.diag(places) - np.cumsum(v**2, axis=0)
    return mean, np.sqrt(np.maximum(variance, 0))


mean, std = path(grid)
at_rows, s = path(X)
delta = s + np.abs(y - at_rows)

# %%
# Above, the model after each stage; below, Δ of every row. The row with the largest one is the next.

fig, (above, below) = plt.subplots(2, 1, figsize=(7, 5.2), sharex=True, height_ratios=(2, 1), layout="constrained")


def draw(t):
    for ax in (above, below):
        ax.clear()
    above.fill_between(grid[:, 0], mean[t] - 1.96 * std[t], mean[t] + 1.96 * std[t], alpha=0.25, linewidth=0)
    above.plot(grid[:, 0], mean[t])
    above.plot(X[:, 0], y, ".", color="0.6")
    above.plot(X[active[: t + 1], 0], y[active[: t + 1]], "o", color="C3")
    above.set(title=f"stage {t + 1}: RMSE of the others {chosen.rmse[t]:.2f}", ylim=(-18, 18), ylabel="x sin x")
    rest = np.setdiff1d(np.arange(len(y)), active[: t + 1])
    below.bar(X[rest, 0], delta[t, rest], width=0.15, color="0.7")
    if t + 1 < len(active):
        below.bar(X[active[t + 1], 0], delta[t, active[t + 1]], width=0.25, color="C3")
    below.set(ylim=(0, delta.max()), ylabel="Δ", xlabel="x", xlim=(0, 15))


animation = FuncAnimation(fig, draw, frames=len(active), interval=900)
plt.show()
