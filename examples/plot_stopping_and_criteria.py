"""
Which row next, and when to stop
================================

The criterion says which row comes next, a rule says when enough have come. This compares some of both with
`sodalite.select`, the choice of rows without the rest of the estimator.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import solve_triangular
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from sodalite import select
from sodalite.metrics import rmse
from sodalite.stopping import Decrease, Rule, TargetRMSE, TimeLimit

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
# Criteria
# --------
#
# The function takes the kernel as it is. It returns, among other things, the factor of the active rows' covariance.
# From that the predictions of *every* stage follow at once: the mean at stage t is the sum of the first t terms of
# :math:`v(x) \cdot z`.


def held_out(chosen, y):
    """The RMSE on the test rows after each stage."""
    active = chosen.indices
    v = solve_triangular(chosen.factor, kernel(X[active], X_test), lower=True)
    z = solve_triangular(chosen.factor, y[active], lower=True)
    return [rmse(y_test, mean) for mean in np.cumsum(v * z[:, None], axis=0)]


common = {"n_active": 150, "first": 0, "random_state": 0}
stages = range(1, 151)
chosen = {}
for criterion in ("delta", "uncertainty", "underfit", "random"):
    chosen[criterion] = select(X, y, kernel, criterion=criterion, **common)

fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.8), sharey=True, layout="constrained")
for criterion, selection in chosen.items():
    left.plot(stages, selection.rmse, label=criterion)
    right.plot(stages, held_out(selection, y), label=criterion)
left.set(xlabel="active rows", ylabel="RMSE", yscale="log", title="Remaining rows")
right.set(xlabel="active rows", title="Held-out rows, without their noise")
left.legend()
plt.show()

# %%
# The two panels do not say the same. A criterion that looks at residuals takes the rows that the model predicts worst
# out of the remainder, so the remainder's RMSE falls for that reason too. It is what the rules below go by; to compare
# criteria, hold rows out.
#
# Rules
# -----
#
# ``tol`` is the paper's rule: end at the first stage that lowers the remainder's RMSE by less than this. One row may
# well help little, or harm, long before the end; that is what the ``patience`` of ``Decrease`` is for. Rules can be
# combined, and you can write your own: ``check`` is all that one needs. A selection says why it ended.


class Slow(Rule):
    """The last twenty rows have not lowered the RMSE by a tenth."""

    def check(self, stage):
        if stage.t > 20 and stage.rmse[-1] > 0.9 * stage.rmse[-21]:
            return "slow"
        return None


paper = common | {"criterion": "delta"}
runs = {
    "tol=0.001": select(X, y, kernel, tol=0.001, **paper),
    "Decrease(0.001, patience=5)": select(X, y, kernel, stop=Decrease(0.001, patience=5), **paper),
    "TargetRMSE(0.1)": select(X, y, kernel, stop=TargetRMSE(0.1), **paper),
    "Slow() | TimeLimit(60)": select(X, y, kernel, stop=Slow() | TimeLimit(60), **paper),
}
for name, run in runs.items():
    print(f"{name:27} {len(run):3} rows, RMSE {run.rmse[-1]:.3f}, ended by {run.stop_reason!r}")

fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.plot(stages, chosen["delta"].rmse, color="0.6")
for name, run in runs.items():
    ax.plot(len(run), run.rmse[-1], "o", label=name)
ax.set(xlabel="active rows", ylabel="RMSE of the remaining rows", yscale="log")
ax.legend()
plt.show()

# %%
# A criterion of one's own
# ------------------------
#
# A criterion is a function of three arrays: the standard deviation and the absolute residual of every row, and its
# noise variance. This one is the root of the two squares' sum. It is tried on the targets as they are, and once more
# with a hundredth of them wrong.


def hypotenuse(s, abs_r, noise):
    return np.hypot(s, abs_r)


wrong = rng.random(3000) < 0.01
y_wrong = y + 2 * wrong
criteria = {name: name for name in ("delta", "uncertainty", "random", "lookahead")} | {"hypotenuse": hypotenuse}

fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.8), sharey=True, layout="constrained")
for name, criterion in criteria.items():
    selection = select(X, y, kernel, criterion=criterion, **common)
    left.plot(stages, held_out(selection, y), label=name)
    selection = select(X, y_wrong, kernel, criterion=criterion, **common)
    right.plot(stages, held_out(selection, y_wrong), label=name)
    print(f"{name:11} took {wrong[selection.indices].sum():2} of the {wrong.sum()} wrong rows")
left.set(xlabel="active rows", ylabel="RMSE of held-out rows", yscale="log", title="Targets as they are")
right.set(xlabel="active rows", title="1 % of them wrong")
left.legend()
plt.show()

# %%
# Criteria that look at residuals are good where the noise is what the kernel says it is. They run after wrong targets,
# whose residuals are the largest. ``"uncertainty"`` and ``"random"`` never look at the targets, so they meet wrong ones
# by chance only. ``"lookahead"``, the default, takes rows that help to predict others, which a wrong target
# does not.
