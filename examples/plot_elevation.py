"""
A million heights
=================

The height of the Old World: the map of the world that comes with the package ``itur`` has one for every twelfth of a
degree. A million of them are measured, none in two circles of 200 km, one in the plain of Siberia and one in the
Himalaya. All others are estimated, each with its standard error.
"""

from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LogNorm

from sodalite import GreedyGPRegressor
from sodalite.metrics import interval_coverage, rmse

folder = Path(find_spec("itur").submodule_search_locations[0], "data", "1511")
latitude, longitude = 90.125 - np.arange(2164) / 12, np.arange(4324) / 12 - 180.125
rows, columns = (latitude > -36) & (latitude < 76), (longitude > -19) & (longitude < 180)
height = np.load(folder / "v2_topo.npz")["arr_0"][rows][:, columns]
lat, lon = np.meshgrid(latitude[rows], longitude[columns], indexing="ij")
land = height != 0

# %%
# Latitudes and longitudes become points on a sphere, so that distances are right however far north. (``sodalite fit``
# does so by itself with columns of these names, and :class:`sodalite.TableEncoder` with those of a data frame.)

phi, theta = np.radians(lat), np.radians(lon)
X = np.stack([np.cos(phi) * np.cos(theta), np.cos(phi) * np.sin(theta), np.sin(phi)], axis=-1)

PLACES = {"Siberia": (61, 76), "the Himalaya": (29, 84)}
hidden = {}
for name, (at_lat, at_lon) in PLACES.items():
    kilometres = 111 * np.hypot(lat - at_lat, (lon - at_lon) * np.cos(np.radians(at_lat)))
    hidden[name] = land & (kilometres < 200)

rng = np.random.default_rng(0)
known = np.flatnonzero(land & ~np.any(list(hidden.values()), axis=0))
measured = np.zeros(land.shape, dtype=bool)
measured.flat[rng.choice(known, 1_000_000, replace=False)] = True
print(f"{measured.sum():,} of {land.sum():,} heights are measured")

# %%
# The default does it.

began = perf_counter()
gp = GreedyGPRegressor(random_state=0).fit(X[measured], height[measured])
print(f"fit: {perf_counter() - began:.0f} s")

between = np.zeros(land.shape, dtype=bool)
between.flat[rng.choice(known[~measured.flat[known]], 50_000, replace=False)] = True
for name, where in {"between the measurements": between, **{f"in {name}": at for name, at in hidden.items()}}.items():
    mean, std = gp.predict(X[where], return_std=True)
    inside = interval_coverage(height[where], *gp.predict_interval(X[where]))
    print(f"{name:25} RMSE {rmse(height[where], mean):4.0f} m, mean standard error {std.mean():4.0f} m,", end=" ")
    print(f"{inside:.0%} in the 95 % band")

# %%
# The standard error is small in the plains and large in the mountains, because it is learnt from place to place, and
# larger where nothing was measured. Above, the whole map, a third of a degree at a time; below, the circle in the
# Himalaya.


def estimates(some):
    """The mean and the standard error at some places of the map, NaN in the sea."""
    fields = np.full((2, *land[some].shape), np.nan)
    fields[:, land[some]] = gp.predict(X[some][land[some]], return_std=True)
    return fields


whole = np.s_[::4, ::4]
at_lat, at_lon = PLACES["the Himalaya"]
near = np.ix_(np.abs(lat[:, 0] - at_lat) < 4, np.abs(lon[0] - at_lon) < 4)
heights = {"cmap": "terrain", "vmin": -800, "vmax": 6000}
errors = {"cmap": "magma_r", "norm": LogNorm(5, 1000)}

fig, axes = plt.subplot_mosaic("AAABBB;CCDDEE", figsize=(11, 7.6), layout="constrained")
mean, std = estimates(whole)
close_mean, close_std = estimates(near)
panels = {
    "A": (whole, mean, heights, "estimated (m)"),
    "B": (whole, std, errors, "standard error (m)"),
    "C": (near, np.where(measured, height, np.nan)[near], heights, "measured (m)"),
    "D": (near, close_mean, heights, "estimated (m)"),
    "E": (near, close_std, errors, "standard error (m)"),
}
for key, (some, field, colours, title) in panels.items():
    extent = (lon[some].min(), lon[some].max(), lat[some].min(), lat[some].max())
    drawn = axes[key].imshow(field, extent=extent, interpolation="nearest", **colours)
    axes[key].set(title=title, aspect=1 / np.cos(np.radians(lat[some].mean())))
    if key in "BE":
        fig.colorbar(drawn, ax=axes[key], shrink=0.8)
plt.show()
