"""A fitted model as scikit-learn's exact Gaussian process on the active rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.utils.validation import check_is_fitted

from ..fitting.fitted import FittedModel
from .handover import check_no_mean


def to_sklearn(model: FittedModel) -> GaussianProcessRegressor:
    """Return a fitted model as a fitted ``GaussianProcessRegressor`` on the active rows.

    It predicts in units of y what a model with the posterior "sod", ``calibrate=False`` and the same kernel and active
    rows does, to rounding: means, standard deviations and covariances are those of new observations, with the noise of
    the kernel (its WhiteKernel). Whatever the posterior of `model`, rows that are not active have no part in it. It
    needs no Sodalite to predict, unless the kernel does.

    Parameters
    ----------
    model : GreedyGPRegressor
        Fitted, with one target or several, and without a mean function, which scikit-learn's model does not have. For
        one that ``sodalite fit`` has written, the rows to predict are the numbers that the columns became.

    Returns
    -------
    GaussianProcessRegressor
        With the kernel found, which is not optimized again. Its `alpha` is the noise of each active row beyond the
        kernel's, in units of the scaled targets; its `y_train_` are the scaled targets of the active rows.

    Examples
    --------
    >>> from sodalite import GreedyGPRegressor
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> gp = GreedyGPRegressor(posterior="sod", n_active=10, calibrate=False).fit(X, 20 + np.sin(X[:, 0]))
    >>> bool(np.allclose(to_sklearn(gp).predict(X), gp.predict(X), rtol=1e-8))
    True
    """
    check_is_fitted(model, "fitted_")
    fitted = model.fitted_
    check_no_mean(fitted)
    kernel, X, L = clone(fitted.kernel), np.asarray(fitted.X_active, dtype=np.float64), fitted.selection.factor
    alpha = np.maximum(np.square(L).sum(axis=1) - kernel.diag(X), 0)  # the diagonal of L L' is that of k plus alpha
    process = GaussianProcessRegressor(kernel, alpha=alpha, optimizer=None).fit(X, fitted.y_train)
    # As after a fit with normalize_y, but by the mean and the standard deviation of all rows, not of the active ones.
    process._y_train_mean, process._y_train_std = fitted.scaling.mean.copy(), fitted.scaling.std.copy()
    names: Any = getattr(model, "feature_names_in_", None)
    if names is not None:
        process.feature_names_in_ = names
    return process
