"""Predictions for Dask arrays and dataframes: lazy, block by block, on whatever Dask computes them with."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from ..core.optional import require
from ..core.threads import on_this_thread
from ..core.types import Array
from ..core.validation import is_dask
from .collections import check_columns


def predict_lazily(model: Any, X: Any, return_std: bool, return_cov: bool) -> Any:
    """The mean, and the standard deviation if asked for, as Dask arrays. The model is one node of their graph.

    What is computed of them together is computed once.
    """
    if return_cov:
        raise ValueError(
            "return_cov is the joint covariance of all rows, which a Dask collection may have too many of; use "
            "return_std, or predict some rows at a time."
        )
    q = len(model.y_mean_)
    both = _lazily(model, X, _predicted, 2 * q if return_std else q, return_std)
    mean, std = (part[:, 0] if q == 1 else part for part in (both[:, :q], both[:, q:] if return_std else both))
    return (mean, std) if return_std else mean


def novelty_lazily(model: Any, X: Any) -> Any:
    """The novelty of every row, as a Dask array. The model is one node of its graph."""
    return _lazily(model, X, _novelty, 1)[:, 0]


def learn_names(model: Any, X: Any, reset: bool) -> None:
    """Let a model know, or check, how many columns there are, and their names if X is a dataframe."""
    if not is_dask(X):
        validate_data(model, X, reset=reset, skip_check_array=True)
    elif hasattr(X._meta, "columns"):
        validate_data(model, X._meta, reset=reset, skip_check_array=True)
    elif getattr(X, "ndim", 2) == 2:
        validate_data(model, np.empty((0, X.shape[1])), reset=reset, skip_check_array=True)


def _lazily(model: Any, X: Any, function: Any, width: int, *options: Any) -> Any:
    """A function of a model, a block of rows and options, that gives so many columns, as one Dask array."""
    require("dask.array", "dask")
    from dask.array import concatenate, from_delayed
    from dask.delayed import delayed

    learn_names(model, X, reset=False)
    if hasattr(X, "to_dask_array"):
        check_columns("X", X)
        blocks, rows = X.to_delayed(), [np.nan] * X.npartitions
    else:
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions, rows and columns; got {X.ndim}.")
        X = X.rechunk({1: -1})
        blocks, rows = X.to_delayed().ravel(), X.chunks[0]
    sent = copy(model)
    sent.fitted_ = model.fitted_.without_rows()  # none of which a prediction needs
    node, call = delayed(sent, pure=False, traverse=False), delayed(_block, pure=False)
    parts = [
        from_delayed(call(node, block, function, width, *options), (size, width), np.float64)  # type: ignore[no-untyped-call]
        for block, size in zip(blocks, rows, strict=True)
    ]
    return concatenate(parts, allow_unknown_chunksizes=True)  # type: ignore[no-untyped-call]


def _block(model: Any, X: Any, function: Any, width: int, *options: Any) -> Array:
    """On a worker: a block's columns."""
    if not len(X):
        return np.empty((0, width))
    with on_this_thread():
        return np.asarray(function(model, X, *options))


def _predicted(model: Any, X: Any, return_std: bool) -> Array:
    """Means, and beside them the standard deviations if they are asked for."""
    found = model.predict(X, return_std=return_std)
    columns = found if return_std else [found]
    return np.concatenate([column.reshape(len(X), -1) for column in columns], axis=1)


def _novelty(model: Any, X: Any) -> Array:
    return np.asarray(model.novelty(X)[:, None])
