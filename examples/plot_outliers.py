"""
Noise and outliers: delta against look-ahead
============================================

The paper's criterion takes the row where the model is most unsure or most wrong. A wrong target is where a model is
most wrong, so this criterion collects wrong targets. Looking ahead, the default, takes a row only for what it does to
the predictions of others.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, ExpSineSquared, Matern, WhiteKernel
from vega_datasets import local_data

from sodalite import GreedyGPRegressor
from sodalite.exceptions import NoBetterWarning
from sodalite.metrics import rmse

table = local_data.sf_temps()
table = table[(table.date >= "2010-09-01") & (table.date < "2010-09-21")]
days = (table.date - table.date.iloc[0]).dt.total_seconds().to_numpy() / 86400
celsius = (table.temp.to_numpy() - 32) / 1.8

# %%
# A sensor that is wrong three times in a hundred
# -----------------------------------------------

rng = np.random.default_rng(0)
measured = celsius + rng.normal(0, 0.3, len(celsius))
wrong = rng.random(len(celsius)) < 0.03
measured[wrong] += rng.choice([-1, 1], wrong.sum()) * rng.uniform(4, 8, wrong.sum())

# %% The same kernel and the same number of rows; only the criterion differs. ``posterior="sod"`` is the paper's: a
# prediction from the active rows alone. A fit warns where it is no better than the nearest rows. Here that is expected,
# of delta.

warnings.simplefilter("ignore", NoBetterWarning)

day = ConstantKernel(1.0) * RBF(10.0) * ExpSineSquared(1.0, periodicity=1.0)
kernel = day + ConstantKernel(0.2) * Matern(2.0, nu=1.5) + WhiteKernel(0.01)
models = {
    criterion: GreedyGPRegressor(
        kernel, criterion=criterion, posterior="sod", hyperparameters="fixed", n_active=80, random_state=0
    ).fit(days[:, None], measured)
    for criterion in ("delta", "lookahead")
}
for criterion, model in models.items():
    taken = wrong[model.active_indices_].sum()
    error = rmse(celsius[~wrong], model.predict(days[~wrong, None]))
    print(f"{criterion:9} took {taken:2} of the {wrong.sum()} wrong rows; RMSE to the true temperatures {error:.2f}")

# %%

grid = np.linspace(0, 20, 1500)
fig, axes = plt.subplots(2, 1, figsize=(9, 5.5), sharex=True, sharey=True, layout="constrained")
for ax, (criterion, model) in zip(axes, models.items(), strict=True):
    active = model.active_indices_
    lower, upper = model.predict_interval(grid[:, None])
    ax.fill_between(grid, lower, upper, alpha=0.25, linewidth=0)
    ax.plot(days, measured, ".", color="0.7", markersize=3)
    ax.plot(grid, model.predict(grid[:, None]), linewidth=1)
    ax.plot(days[active], measured[active], "o", color="C3", markersize=4, label="active")
    ax.plot(days[wrong], measured[wrong], "o", mfc="none", color="k", markersize=8, mew=0.7, label="wrong")
    ax.set(title=f'criterion="{criterion}"', ylabel="°C")
axes[0].legend(ncols=2, loc="upper right")
axes[1].set_xlabel("day")
plt.show()
