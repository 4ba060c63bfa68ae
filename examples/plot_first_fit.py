"""
A first fit
===========

A curve with noise, two thousand rows, and a model that keeps thirty of them.
"""

import matplotlib.pyplot as plt
import numpy as np

from sodalite import GreedyGPRegressor
from sodalite.metrics import interval_coverage, rmse

rng = np.random.default_rng(0)


def f(x):
    return x * np.sin(x)


X = rng.uniform(0, 20, (2000, 1))
y = f(X[:, 0]) + rng.normal(0, 1, 2000)
X_test = rng.uniform(0, 20, (1000, 1))
y_test = f(X_test[:, 0]) + rng.normal(0, 1, 1000)

# %%
# Fit
# ---
#
# The estimator follows scikit-learn. Without a kernel, squared-exponential and Matern kernels compete, and the
# hyperparameters are found in rounds that are kept only if other rows are predicted better. Then it chooses its rows,
# the *active* ones: those that most help to predict others.

gp = GreedyGPRegressor(n_active=30, random_state=0).fit(X, y)
print(gp.kernel_)
print(gp.selection_)
print("the first five rows chosen:", gp.active_indices_[:5])

# %%
# Predict
# -------
#
# A prediction is made from the active rows and from the rows nearest to it. The standard deviation is that of a new
# observation, noise included. Intervals follow the distribution of errors that the fit has learnt, so about 95 % of new
# targets should lie in those of 95 %.

mean, std = gp.predict(X_test, return_std=True)
lower, upper = gp.predict_interval(X_test, coverage=0.95)
print(f"RMSE on held-out rows: {rmse(y_test, mean):.3f}")
print(f"within the 95 % band:  {interval_coverage(y_test, lower, upper):.1%}")

# %%
# What it kept
# ------------
#
# The rows chosen are spread over the input, and lie near the middle of the cloud: a row whose target has much noise
# would spoil the predictions of its neighbours, so it is passed over. The paper's criterion, ``"delta"``, takes rows
# with a large residual, most of them at the edge of the cloud.
# :ref:`sphx_glr_gallery_plot_stopping_and_criteria.py` looks at this.

grid = np.linspace(0, 20, 400)
mean, (lower, upper) = gp.predict(grid[:, None]), gp.predict_interval(grid[:, None])
active = gp.active_indices_

fig, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
ax.plot(X[:, 0], y, ".", color="0.7", markersize=3, label="all rows")
ax.fill_between(grid, lower, upper, alpha=0.25, label="95 % band")
ax.plot(grid, f(grid), "k--", linewidth=1, label="truth")
ax.plot(grid, mean, label="mean")
ax.plot(X[active, 0], y[active], "o", color="C3", markersize=5, label="active rows")
ax.set(xlabel="x", ylabel="y")
ax.legend()
plt.show()

# %%
# The learning curve
# ------------------
#
# It comes with the fit, one value a stage: `sodalite.Selection.rmse`, of predictions from the active rows alone. It
# flattens where the noise begins, and there is little point in keeping many more rows than that.

fig, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
ax.plot(range(1, len(active) + 1), gp.selection_.rmse)
ax.axhline(1, color="k", linestyle="--", linewidth=1)
ax.text(1, 1, "noise", va="bottom")
ax.set(xlabel="active rows", ylabel="RMSE of the remaining rows", yscale="log")
plt.show()
