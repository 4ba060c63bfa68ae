"""
A few rows that stand for many
==============================

A photograph is a table too: every pixel is a row, its place two inputs and its brightness the target.
`sodalite.select` picks the pixels from which the others can best be told: a summary of the data set, for any use.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import cho_solve
from sklearn.datasets import load_sample_image
from sklearn.gaussian_process.kernels import Matern, WhiteKernel

from sodalite import select
from sodalite.metrics import rmse

photo = load_sample_image("flower.jpg")[::4, ::4].mean(axis=2) / 255
height, width = photo.shape
X = np.argwhere(np.ones_like(photo)).astype(float)  # row and column of every pixel
y = photo.ravel() - photo.mean()
print(f"{len(y)} pixels")

# %%
# The kernel is given here: neighbours up to some five pixels away look alike. Both selections have 600 rows.

kernel = y.var() * Matern(10.0, nu=1.5) + WhiteKernel(1e-3)
chosen = {name: select(X, y, kernel, n_active=600, criterion=name, random_state=0) for name in ("delta", "random")}

# %%
# All other pixels are predicted from the chosen ones. The factor that comes with a selection makes that two lines.

panels = {"all pixels": photo}
for name, selection in chosen.items():
    weights = cho_solve((selection.factor, True), y[selection.indices])
    seen = kernel(X, X[selection.indices]) @ weights
    panels[f"from 600 rows: {name}"] = photo.mean() + seen.reshape(photo.shape)
    print(f"{name:6} RMSE {rmse(y, seen):.4f}")

# %%
# The paper's criterion puts its rows where brightness changes, and few where it does not.

fig, axes = plt.subplots(2, 2, figsize=(8, 5.6), layout="constrained")
for ax, (name, picture) in zip(axes.flat, panels.items(), strict=False):
    ax.imshow(picture, cmap="gray", vmin=0, vmax=1)
    ax.set_title(name)
place = X[chosen["delta"].indices]
axes[1, 1].imshow(photo, cmap="gray", vmin=-1.5, vmax=1)
axes[1, 1].scatter(place[:, 1], place[:, 0], s=4, c=np.arange(600), cmap="autumn")
axes[1, 1].set_title("the rows by delta, first to last: red to yellow")
for ax in axes.flat:
    ax.set_axis_off()
plt.show()
