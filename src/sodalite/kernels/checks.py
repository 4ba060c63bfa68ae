"""Checks of a user's kernel before a fit, and warnings about its hyperparameters after the fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import kernels as spec

from ..core.validation import is_dask, is_sliceable
from ..core.warn import warn
from .compiled import leaves
from .nodes import NODES

MAY_BE_ZERO = ("constant_value", "noise_level", "sigma_0")  # hyperparameters that are variances, or the root of one


def check_bounds(kernel: Any) -> None:
    """Refuse bounds that the search cannot use; the error names the hyperparameter.

    The search is over the logarithms of hyperparameters, so both bounds must be positive and finite, the lower one
    first. An object that is no kernel is not checked here.
    """
    if not isinstance(kernel, spec.Kernel):
        return
    for parameter in kernel.hyperparameters:
        if parameter.fixed:
            continue
        try:
            bounds = np.asarray(parameter.bounds, dtype=np.float64)
        except (TypeError, ValueError):
            bounds = np.empty(0)
        if bounds.ndim != 2 or bounds.shape[1] != 2:
            raise ValueError(
                f"kernel has bounds of {parameter.name} that are no pair of numbers; got {parameter.bounds!r}. "
                f"Give (lower, upper), or 'fixed' to keep the value."
            )
        with np.errstate(invalid="ignore"):
            good = np.isfinite(bounds).all(axis=1) & (bounds[:, 0] > 0) & (bounds[:, 0] <= bounds[:, 1])
        if not good.all():
            which = int(np.argmin(good))
            low, high = bounds[which]
            where = f"dimension {which} of {parameter.name}" if len(bounds) > 1 else parameter.name
            raise ValueError(
                f"kernel has bounds ({low:g}, {high:g}) of {where}. The search needs two positive, finite numbers, "
                f"the lower one first, such as (1e-5, 1e5); or 'fixed', to keep the value."
            )


def check_hyperparameters(kernel: Any) -> None:
    """Refuse values of hyperparameters that no covariance function has; the error names the hyperparameter.

    Free ones must be positive and finite, since the search is over their logarithms. Those that are fixed may also be
    zero if they are variances, and infinite if they are length-scales; of a kernel of the user's own, they may be
    anything. An object that is no kernel is not checked here.
    """
    if not isinstance(kernel, spec.Kernel):
        return
    for leaf in leaves(kernel):
        for parameter in leaf.hyperparameters:
            is_known = type(leaf) in NODES
            if parameter.value_type == "numeric" and (is_known or not parameter.fixed):
                _check_value(leaf, parameter)


def _check_value(leaf: spec.Kernel, parameter: spec.Hyperparameter) -> None:
    """Refuse a value of one hyperparameter of a leaf of a kernel."""
    found = np.atleast_1d(np.asarray(getattr(leaf, parameter.name), dtype=np.float64))
    may_be_zero = parameter.fixed and parameter.name in MAY_BE_ZERO
    good = (found > 0) | (may_be_zero & (found == 0))
    if not parameter.fixed or may_be_zero:
        good &= np.isfinite(found)
    if not good.all():
        needed = "zero or a positive number" if may_be_zero else "a positive number"
        raise ValueError(f"kernel has {found[~good][0]:g} as the {parameter.name} of {leaf}, which must be {needed}.")


def warn_at_bounds(kernel: spec.Kernel) -> None:
    """Warn of every hyperparameter that is at one of its bounds, in the words of scikit-learn's Gaussian process.

    Parameters
    ----------
    kernel : scikit-learn kernel
        With the hyperparameters of the fit.
    """
    near, at = np.isclose(kernel.bounds, np.atleast_2d(kernel.theta).T), 0
    for parameter in kernel.hyperparameters:
        if parameter.fixed:
            continue
        for dimension in range(parameter.n_elements):
            low, high = near[at + dimension]
            if low != high:  # at both bounds if these are equal: then the value is as good as fixed
                which, change = ("lower", "Decreasing") if low else ("upper", "Increasing")
                warn(
                    f"The optimal value found for dimension {dimension} of parameter {parameter.name} is close to the "
                    f"specified {which} bound {parameter.bounds[dimension][int(high)]}. {change} the bound and calling "
                    f"fit again may find a better value.",
                    ConvergenceWarning,
                )
        at += parameter.n_elements


def check_numeric(kernel: Any, X: Any) -> None:
    """Refuse inputs that are no numbers (strings, sequences, graphs) for a kernel that is made for such inputs.

    Scikit-learn's Gaussian process passes any inputs to a kernel whose ``requires_vector_input`` is False. Here such a
    kernel can only be used on rows of numbers.
    """
    found = leaves(kernel) if isinstance(kernel, spec.Kernel) else []
    # These two do not depend on the inputs, so they are part of kernels of either kind.
    found = [leaf for leaf in found if not isinstance(leaf, spec.ConstantKernel | spec.WhiteKernel)]
    structured = [leaf for leaf in found if not leaf.requires_vector_input]
    if not structured or is_dask(X) or is_sliceable(X):
        return
    try:
        np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"X must be a table of numbers, one row per observation, also for the kernel "
            f"{type(structured[0]).__name__}, which takes other objects too: Sodalite compares rows by their columns. "
            f"Turn every object into a row of numbers first, or use scikit-learn's GaussianProcessRegressor."
        ) from None
