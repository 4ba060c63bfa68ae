"""
Which row next, and when to stop
================================

The score says which row comes next, a rule says when enough have come. This compares some of both with
`sodalite.select`, the choice of rows without the rest of the estimator.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import solve_triangular
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from sodalite import select
from sodalite.metrics import rmse
from sodalite.stopping import Rule, TimeLimit

rng = np.random.default_rng(1)


def f(X):
    """A ripple that grows towards one corner."""
    return np.sin(3 * X[:, 0] * X[:, 1]) + 0.3 * np.cos(2 * X[:, 0])


X = rng.uniform(0, 2, (3000, 2))
y = f(X) + rng.normal(0, 0.05, 3000)
X_test = rng.uniform(0, 2, (1000, 2))
y_test = f(X_test)
kernel = RBF(0.4) + WhiteKernel(0.05**2)

# %%
# Scores
# ------
#
# `select` takes the kernel as it is. It returns the factor of the active rows' covariance, from which the predictions
# of *every* stage follow at once: the mean at stage t is the sum of the first t terms of v(x) z.


def held_out(chosen, y):
    """The RMSE on the test rows after each stage."""
    active = chosen.indices
    v = solve_triangular(chosen.factor, kernel(X[active], X_test), lower=True)
    z = solve_triangular(chosen.factor, y[active], lower=True)
    return [rmse(y_test, mean) for mean in np.cumsum(v * z[:, None], axis=0)]


scores = ("delta", "uncertainty", "underfit", "random")
chosen = {score: select(X, y, kernel, n_active=150, score=score, first=0, random_state=0) for score in scores}

fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4), sharex=True, sharey=True, layout="constrained")
for score, selection in chosen.items():
    left.plot(range(1, 151), selection.rmse, label=score)
    right.plot(range(1, 151), held_out(selection, y), label=score)
left.set(xlabel="active rows", ylabel="RMSE", yscale="log", title="The remaining rows")
right.set(xlabel="active rows", title="Held-out rows, without their noise")
left.legend()
plt.show()

# %%
# The two panels do not say the same. A score that looks at residuals takes the rows that the model predicts worst out
# of the remainder, so the remainder's RMSE falls for that reason too. It is what the rules below go by; to compare
# scores, hold rows out.
#
# Rules
# -----
#
# `tol` is the paper's rule: end at the first stage that lowers the remainder's RMSE by less than this. One row may well
# help little, or harm, long before the end, which is what `patience` is for. Rules can be combined, and written: `check`
# is all that one needs. A selection says why it ended.


class Slow(Rule):
    """The last twenty rows have not lowered the RMSE by a tenth."""

    def check(self, stage):
        return "slow" if stage.t > 20 and stage.rmse[-1] > 0.9 * stage.rmse[-21] else None


common = {"n_active": 150, "first": 0}
runs = {
    "tol=0.001": select(X, y, kernel, tol=0.001, **common),
    "tol=0.001, patience=5": select(X, y, kernel, tol=0.001, patience=5, **common),
    "target_rmse=0.1": select(X, y, kernel, target_rmse=0.1, **common),
    "stop=Slow() | ...": select(X, y, kernel, stop=Slow() | TimeLimit(60), **common),
}
for name, run in runs.items():
    print(f"{name:22} {len(run):4} rows, remainder's RMSE {run.rmse[-1]:.3f}, ended by {run.stop_reason!r}")

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.plot(range(1, 151), chosen["delta"].rmse, color="0.6")
for name, run in runs.items():
    ax.plot(len(run), run.rmse[-1], "o", label=name)
ax.set(xlabel="active rows", ylabel="RMSE of the remaining rows", yscale="log")
ax.legend()
plt.show()

# %%
# A score of one's own
# --------------------
#
# A score is a function of three arrays: the standard deviation and the absolute residual of every row, and its noise
# variance. This one is the root of the two squares' sum. It is tried on the targets as they are, and once more with a
# hundredth of them wrong.


def hypotenuse(s, abs_r, noise):
    return np.hypot(s, abs_r)


wrong = rng.random(3000) < 0.01
fig, axes = plt.subplots(1, 2, figsize=(11, 4), sharey=True, layout="constrained")
for ax, targets, title in zip(axes, (y, y + 2 * wrong), ("Targets as they are", "1 % of them wrong"), strict=True):
    for score in ("delta", "uncertainty", hypotenuse, "random"):
        selection = select(X, targets, kernel, n_active=150, score=score, first=0, random_state=0)
        name = score if isinstance(score, str) else score.__name__
        ax.plot(range(1, 151), held_out(selection, targets), label=name)
        if targets is not y:
            print(f"{name:11} {wrong[selection.indices].sum():3} of the {wrong.sum()} wrong rows are active")
    ax.set(xlabel="active rows", yscale="log", title=title)
axes[0].set_ylabel("RMSE of held-out rows")
axes[0].legend()
plt.show()

# %%
# Scores that look at residuals are good where the noise is what the kernel says it is. They run after wrong targets,
# whose residuals are the largest. `"uncertainty"` never looks at the targets, so it cannot.
