"""
A Dask cluster on one machine
=============================

The rows stay in their partitions, on the workers; only what is needed of them travels. The picks are those of one
machine, to the index. Here the "cluster" is two workers in this process.
"""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from dask.distributed import Client
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from sodalite import GreedyGPRegressor, select

rng = np.random.default_rng(0)
X = rng.uniform(0, 6, (40_000, 2))
y = np.sin(X[:, 0]) * np.cos(1.5 * X[:, 1]) + 0.1 * rng.normal(size=len(X))
kernel = RBF(1.0) + WhiteKernel(0.01)

# %%
# Eight partitions on two workers.

client = Client(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None)
X_far, y_far = da.from_array(X, chunks=(5000, 2)), da.from_array(y, chunks=5000)

chosen = select(X_far, y_far, kernel, n_active=150, first=0, executor=client)
alone = select(X, y, kernel, n_active=150, first=0)
print("the same rows as without a cluster:", np.array_equal(chosen.indices, alone.indices))

# %%
# A fit, and predictions that are Dask arrays: nothing is computed before it is asked for.

gp = GreedyGPRegressor(kernel, n_active=150, posterior="vfe", hyperparameters="fixed", random_state=0)
gp.fit(X_far, y_far, executor=client)
mean, std = gp.predict(X_far, return_std=True)
print(mean)
error = np.sqrt(((y_far - mean) ** 2).mean())
print(f"RMSE over all partitions: {error.compute():.3f}")
client.close()

# %%
# Which partition each row came from. The choice knows nothing of partitions.

side = 80
grid = np.stack(np.meshgrid(*2 * [np.linspace(0, 6, side)]), axis=-1).reshape(-1, 2)
fig, ax = plt.subplots(figsize=(6.5, 5), layout="constrained")
ax.contourf(*grid.T.reshape(2, side, side), gp.predict(grid).reshape(side, side), 20, cmap="Greys", alpha=0.7)
place = X[chosen.indices]
drawn = ax.scatter(
    *place.T, c=chosen.indices // 5000, cmap="tab10", vmin=-0.5, vmax=9.5, s=30, edgecolor="k", linewidth=0.4
)
fig.colorbar(drawn, ax=ax, label="partition", ticks=range(8), boundaries=np.arange(-0.5, 8))
ax.set(xlabel="first input", ylabel="second input", title="150 of 40 000 rows")
plt.show()
