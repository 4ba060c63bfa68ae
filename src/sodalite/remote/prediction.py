"""Predictions for Dask arrays and dataframes: lazy, block by block, on whatever Dask computes them with."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from .._optional import require
from ..cluster.collections import check_columns
from ..cluster.table import Array
from ..threads import on_this_thread
from .fit import learn_names


def predict_lazily(model: Any, X: Any, return_std: bool, return_cov: bool) -> Any:
    """The mean, and the standard deviation if asked for, as Dask arrays. The model is one node of their graph.

    What is computed of them together is computed once.
    """
    if return_cov:
        raise ValueError(
            "return_cov is the joint covariance of all rows, which a Dask collection may have too many of; use "
            "return_std, or predict some rows at a time."
        )
    require("dask.array", "dask")
    from dask.array import concatenate, from_delayed
    from dask.delayed import delayed

    learn_names(model, X, reset=False)
    q = len(model.y_mean_)
    width = 2 * q if return_std else q
    if hasattr(X, "to_dask_array"):
        check_columns("X", X)
        blocks, rows = X.to_delayed(), [np.nan] * X.npartitions
    else:
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions, rows and columns; got {X.ndim}.")
        X = X.rechunk({1: -1})
        blocks, rows = X.to_delayed().ravel(), X.chunks[0]
    sent = copy(model)
    sent._rows = None  # none of which a prediction needs
    node, call = delayed(sent, pure=False, traverse=False), delayed(_block, pure=False)
    parts = [
        from_delayed(call(node, block, return_std), (size, width), np.float64)  # type: ignore[no-untyped-call]
        for block, size in zip(blocks, rows, strict=True)
    ]
    both = concatenate(parts, allow_unknown_chunksizes=True)  # type: ignore[no-untyped-call]
    mean, std = (part[:, 0] if q == 1 else part for part in (both[:, :q], both[:, q:] if return_std else both))
    return (mean, std) if return_std else mean


def _block(model: Any, X: Any, return_std: bool) -> Array:
    """On a worker: a block's means, and beside them its standard deviations."""
    if not len(X):
        return np.empty((0, len(model.y_mean_) * (1 + return_std)))
    with on_this_thread():
        found = model.predict(X, return_std=return_std)
    columns = found if return_std else [found]
    return np.concatenate([column.reshape(len(X), -1) for column in columns], axis=1)
