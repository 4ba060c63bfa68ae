"""Lazy predictions for Dask arrays and dataframes, block by block, on any Dask scheduler."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, Protocol

import numpy as np
from sklearn.utils.validation import validate_data

from ..core.optional import require
from ..core.threads import on_this_thread
from ..core.types import Floats
from ..core.validation import is_dask
from .collections import check_columns


class Predictor(Protocol):
    """A fitted estimator, as this room sees it."""

    fitted_: Any
    y_mean_: Floats

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any: ...
    def novelty(self, X: Any) -> Any: ...


def predict_lazily(model: Predictor, X: Any, return_std: bool, return_cov: bool) -> Any:
    """Return the mean, and on request the standard deviation, as Dask arrays. The model is one node of their graph.

    If both are computed together, each block is predicted once.
    """
    if return_cov:
        raise ValueError(
            "return_cov is the joint covariance of all rows, and a Dask collection may have too many of them; use "
            "return_std, or predict some rows at a time."
        )
    q = len(model.y_mean_)
    both = _lazily(model, X, _predicted, 2 * q if return_std else q, return_std)
    mean, std = (part[:, 0] if q == 1 else part for part in (both[:, :q], both[:, q:] if return_std else both))
    return (mean, std) if return_std else mean


def novelty_lazily(model: Predictor, X: Any) -> Any:
    """Return the novelty of every row as a Dask array. The model is one node of its graph."""
    return _lazily(model, X, _novelty, 1)[:, 0]


def learn_names(model: Any, X: Any, reset: bool) -> None:
    """Set, or without `reset` check, a model's number of columns, and their names if X is a dataframe."""
    if not is_dask(X):
        validate_data(model, X, reset=reset, skip_check_array=True)
    elif hasattr(X._meta, "columns"):
        validate_data(model, X._meta, reset=reset, skip_check_array=True)
    elif getattr(X, "ndim", 2) == 2:
        validate_data(model, np.empty((0, X.shape[1])), reset=reset, skip_check_array=True)


def _lazily(model: Predictor, X: Any, function: Callable[..., Floats], width: int, *options: Any) -> Any:
    """A function of a model, a block of rows and options, applied to all blocks: a Dask array of `width` columns."""
    require("dask.array", "dask")
    from dask.array import concatenate, from_delayed
    from dask.delayed import delayed

    learn_names(model, X, reset=False)
    if hasattr(X, "to_dask_array"):
        check_columns("X", X)
        blocks, sizes = X.to_delayed(), [np.nan] * X.npartitions
    else:
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions, rows and columns; got {X.ndim}.")
        X = X.rechunk({1: -1})
        blocks, sizes = X.to_delayed().ravel(), X.chunks[0]
    sent = copy(model)
    sent.fitted_ = model.fitted_.without_rows()  # predictions do not need them
    node, call = delayed(sent, pure=False, traverse=False), delayed(_block, pure=False)
    parts = [
        from_delayed(call(node, block, function, width, *options), (size, width), np.float64)  # type: ignore[no-untyped-call]
        for block, size in zip(blocks, sizes, strict=True)
    ]
    return concatenate(parts, allow_unknown_chunksizes=True)  # type: ignore[no-untyped-call]


def _block(model: Predictor, X: Any, function: Callable[..., Floats], width: int, *options: Any) -> Floats:
    """The columns of one block; runs on a worker."""
    if not len(X):
        return np.empty((0, width))
    with on_this_thread():
        return np.asarray(function(model, X, *options))


def _predicted(model: Predictor, X: Any, return_std: bool) -> Floats:
    """The means, and on request the standard deviations, as columns of one array."""
    found = model.predict(X, return_std=return_std)
    columns = found if return_std else [found]
    return np.concatenate([column.reshape(len(X), -1) for column in columns], axis=1)


def _novelty(model: Predictor, X: Any) -> Floats:
    return np.asarray(model.novelty(X)[:, None])
