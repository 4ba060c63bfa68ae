"""One evaluation of the log marginal likelihood with its gradient: ours against scikit-learn's."""

from __future__ import annotations

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from sodalite.core.threads import one_blas_thread
from sodalite.hyperparameters import Likelihood

from .common import seconds, smooth_problem


def main() -> None:
    print(f"{'rows':>6} {'inputs':>6} {'kernel':12} {'scikit-learn':>13} {'ours':>9} {'ratio':>6}   (median of 7)")
    for n, d in ((300, 8), (1000, 8), (2000, 8), (1000, 32)):
        X, y, _ = smooth_problem(n, 0.01, d)
        for name, shape in (("RBF", RBF(np.full(d, 3.0))), ("Matern 5/2", Matern(np.full(d, 3.0), nu=2.5))):
            kernel = ConstantKernel(1.0) * shape + WhiteKernel(0.01)
            theirs = GaussianProcessRegressor(kernel, optimizer=None).fit(X, y)
            ours = Likelihood(kernel, X, y)
            slow = seconds(lambda: theirs.log_marginal_likelihood(kernel.theta, eval_gradient=True), 7)  # noqa: B023
            with one_blas_thread():
                fast = seconds(lambda: ours(kernel.theta), 7)  # noqa: B023
            print(f"{n:6} {d:6} {name:12} {1e3 * slow:10.1f} ms {1e3 * fast:6.1f} ms {fast / slow:6.2f}", flush=True)
