"""
Trend, season and the irregular rest
====================================

A kernel can be a sum of parts that each mean something. This one has three, and noise. The data are the weekly CO2
measured at Mauna Loa from 1958 to 2001, which come with the package.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, ExpSineSquared, Matern, WhiteKernel

from sodalite import GreedyGPRegressor
from sodalite.datasets import load_mauna_loa
from sodalite.hyperparameters import Subset
from sodalite.metrics import interval_coverage, rmse

X, y = load_mauna_loa()

# %%
# Two kinds of rows are held out: a fifth of the weeks before 1997, which lie between the rows to learn from, and all
# weeks after, which do not.

rng = np.random.default_rng(0)
future = X[:, 0] >= 1997
between = ~future & (rng.random(len(y)) < 0.2)
train = ~future & ~between

# %%
# The kernel
# ----------
#
# A squared exponential for the trend; a periodic kernel for the season, times a squared exponential, so that the season
# may change its shape slowly; a rougher kernel for what happens within a few years. The targets are scaled to unit
# variance for the fit, and the constant factors are in these units. The period is fixed at one year; the rest is found
# from the data, starting at the values given.

trend = ConstantKernel(1.0) * RBF(40.0)
year = ExpSineSquared(periodicity=1.0, periodicity_bounds="fixed")
season = ConstantKernel(0.05) * RBF(80.0) * year
rest = ConstantKernel(0.01) * Matern(1.0, nu=1.5)
kernel = trend + season + rest + WhiteKernel(1e-3, (1e-6, 1.0))

quick = Subset(n_rows=500, n_starts=4)
gp = GreedyGPRegressor(kernel, n_active=150, hyperparameters=quick, random_state=0)
gp.fit(X[train], y[train])
print(gp.selection_)
for part in str(gp.kernel_).split(" + "):
    print("   ", part)

# %%
# How good it is
# --------------
#
# Beside it a model with the same kernel that keeps all rows: what the choice of rows has lost.

full = GreedyGPRegressor(gp.kernel_, n_active=len(X), hyperparameters="fixed")
full.fit(X[train], y[train])

for name, rows in {"weeks between": between, "1997 and later": future}.items():
    for model in (gp, full):
        mean, (lower, upper) = model.predict(X[rows]), model.predict_interval(X[rows])
        print(
            f"{name:14} {len(model.active_indices_):5} active rows:",
            f"RMSE {rmse(y[rows], mean):.2f} ppm,",
            f"{interval_coverage(y[rows], lower, upper):.0%} within the 95 % band",
        )

# %%
# Between its rows the model does well. Beyond them its band is too narrow, with all rows as with few. That is the
# kernel's doing, not the choice of rows: after 1997 the CO2 rose faster than this kernel thinks likely.

years = np.linspace(1958, 2002, 2000)
mean, (lower, upper) = gp.predict(years[:, None]), gp.predict_interval(years[:, None])
active = gp.active_indices_

fig, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
ax.plot(X[:, 0], y, ".", color="0.7", markersize=3, label="all weeks")
ax.fill_between(years, lower, upper, alpha=0.3, label="95 % band")
ax.plot(years, mean, linewidth=1, label="mean")
ax.plot(X[train][active, 0], y[train][active], "o", color="C3", markersize=3, label="active weeks")
ax.axvline(1997, color="k", linestyle="--", linewidth=1)
ax.set(xlabel="year", ylabel="CO2 (ppm)", xlim=(1958, 2002))
ax.legend()
plt.show()

# %%
# The parts
# ---------
#
# The posterior mean is a sum over the kernel's parts, so each part's share can be had: its covariance with the active
# rows, times the weights that all parts have in common. Solving for these is quick, because the active rows are few.

weights = np.linalg.solve(gp.kernel_(gp.X_train_), gp.y_train_)
parts = {"trend": gp.kernel_.k1.k1.k1, "season": gp.kernel_.k1.k1.k2, "rest": gp.kernel_.k1.k2}

fig, axes = plt.subplots(3, 1, figsize=(8, 6), sharex=True, layout="constrained")
for ax, (name, part) in zip(axes, parts.items(), strict=True):
    share = part(years[:, None], gp.X_train_) @ weights
    ax.plot(years, gp.y_std_[0] * share, linewidth=1)
    ax.axvline(1997, color="k", linestyle="--", linewidth=1)
    ax.set(ylabel=f"{name} (ppm)", xlim=(1958, 2002))
axes[-1].set_xlabel("year")
plt.show()
