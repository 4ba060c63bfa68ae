"""Lazy predictions for Dask arrays and dataframes, block by block, on any Dask scheduler.

Where the rows of a model are on the workers of a cluster (`sodalite.cluster.bundles`), they are gathered for each block
there; such predictions are computed by the scheduler of that cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from ..core.optional import require
from ..core.threads import on_this_thread
from ..core.types import Floats
from ..core.validation import is_dask
from ..kernels.row_store import Observed
from ..posteriors.remote import MOST_LAZY, Detached, NearestRequest, RemoteLocal
from .bundles import Bundles, together
from .collections import numeric_types


def predict_lazily(model: Any, X: Any, return_std: bool, return_cov: bool) -> Any:
    """Return the mean, and on request the standard deviation, as Dask arrays. The model is one node of their graph.

    If both are computed together, each block is predicted once.
    """
    if return_cov:
        raise ValueError(
            "return_cov is the joint covariance of all rows, and a Dask collection may have too many of them; use "
            "return_std, or predict some rows at a time."
        )
    q = model.fitted_.q
    both = _lazily(model, X, _predicted, (2 * q if return_std else q,), return_std)
    mean, std = (part[:, 0] if q == 1 else part for part in (both[:, :q], both[:, q:] if return_std else both))
    return (mean, std) if return_std else mean


def method_lazily(model: Any, X: Any, name: str, tail: tuple[int, ...] = (), *options: Any, y: Any = None) -> Any:
    """Return the result of a method of a model as a Dask array of shape (n, *tail).

    Parameters
    ----------
    model : GreedyGPRegressor
    X : Dask array or dataframe
    name : str
        The method, which takes X, y if that is given, and the options.
    tail : tuple of int
    y : Dask array, dataframe or series, default=None
        Targets in the same blocks of rows as X.
    """
    return _lazily(model, X, _called, tail, name, *options, y=y)


def learn_names(model: Any, X: Any, reset: bool) -> None:
    """Set, or without `reset` check, a model's number of columns, and their names if X is a dataframe."""
    if not is_dask(X):
        validate_data(model, X, reset=reset, skip_check_array=True)
    elif hasattr(X._meta, "columns"):
        validate_data(model, X._meta, reset=reset, skip_check_array=True)
    elif getattr(X, "ndim", 2) == 2:
        validate_data(model, np.empty((0, X.shape[1])), reset=reset, skip_check_array=True)


def _lazily(
    model: Any, X: Any, function: Callable[..., Floats], tail: tuple[int, ...], *options: Any, y: Any = None
) -> Any:
    """A function of a model, a block of rows, its targets if there are any, and options: one Dask array."""
    require("dask.array", "dask")
    from dask.array import concatenate, from_delayed
    from dask.delayed import delayed

    learn_names(model, X, reset=False)
    sent, bundles, most = _sent(model)
    if hasattr(X, "to_dask_array"):
        numeric_types("X", X)
        blocks, sizes, chunks = X.to_delayed(), [np.nan] * X.npartitions, None
    else:
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions, rows and columns; got {X.ndim}.")
        chunks = X.chunks[0]
        X = X.rechunk({0: _cut(chunks, most), 1: -1})
        blocks, sizes = X.to_delayed().ravel(), X.chunks[0]
    targets = [()] * len(blocks) if y is None else [(part,) for part in _blocks_of(y, sizes)]
    node = delayed(sent, pure=False, traverse=False)
    call, ask = delayed(_block, pure=False), delayed(_asked, pure=False)
    near = [None if bundles is None else bundles.gathered(ask(node, block)) for block in blocks]
    parts = [
        from_delayed(call(node, rows, block, function, tail, *target, *options), (size, *tail), np.float64)  # type: ignore[no-untyped-call]
        for rows, block, target, size in zip(near, blocks, targets, sizes, strict=True)
    ]
    found = concatenate(parts, allow_unknown_chunksizes=True)  # type: ignore[no-untyped-call]
    return found if chunks is None else found.rechunk({0: chunks})


def _sent(model: Any) -> tuple[Any, Bundles | None, float]:
    """The model as it is sent to the workers, its rows if they are there already, and the most rows of a block."""
    sent, posterior = copy(model), model.fitted_.posterior
    sent.fitted_ = model.fitted_.without_rows()  # predictions do not need them
    if not isinstance(posterior, RemoteLocal):
        return sent, None, np.inf
    assert isinstance(posterior.remote, Bundles)
    posterior.remote.revive()
    detached = posterior.detached
    sent.fitted_ = replace(sent.fitted_, posterior=detached)
    return sent, posterior.remote, detached.queries(detached.k, MOST_LAZY)


def _cut(sizes: Sequence[float], most: float) -> tuple[float, ...]:
    """Sizes of blocks of rows, those of more than `most` rows cut into several; NaN for a size that is not known."""
    found = list[float]()
    for size in sizes:
        count = ceil(size / most) if size > most else 1
        found += [size] if count == 1 else [len(part) for part in np.array_split(np.arange(size), count)]
    return tuple(found)


def _asked(model: Any, X: Any) -> list[NearestRequest]:
    """The rows that a block of queries needs; runs on a worker."""
    if not len(X):
        return []
    detached: Detached = model.fitted_.posterior
    return detached.asked(np.asarray(model._queries(X), dtype=np.float64), detached.k)


def _blocks_of(y: Any, sizes: Sequence[float]) -> list[Any]:
    """The targets in blocks of so many rows; NaN for a size that is not known."""
    if not is_dask(y):
        if np.isnan(sizes).any():
            raise ValueError("y must be a Dask collection, as X is, with the same partitions; it is in memory.")
        ends = np.cumsum(sizes).astype(int)
        if len(y) != ends[-1]:
            raise ValueError(f"X and y must have as many rows; they have {ends[-1]} and {len(y)}.")
        return np.split(np.asarray(y), ends[:-1])
    if hasattr(y, "to_dask_array"):
        blocks = list(y.to_delayed())
    else:
        if not (np.isnan(sizes).any() or np.isnan(y.shape[0])):
            if y.shape[0] != sum(sizes):
                raise ValueError(f"X and y must have as many rows; they have {sum(sizes)} and {y.shape[0]}.")
            y = y.rechunk({0: tuple(int(size) for size in sizes)})
        blocks = list((y.rechunk({1: -1}) if y.ndim == 2 else y).to_delayed().ravel())
    if len(blocks) != len(sizes):
        raise ValueError(f"X and y must have the same blocks of rows; X has {len(sizes)} and y {len(blocks)}.")
    return blocks


def _block(
    model: Any,
    near: list[Observed] | None,
    X: Any,
    function: Callable[..., Floats],
    tail: tuple[int, ...],
    *options: Any,
) -> Floats:
    """The result for one block, from the rows that were gathered for it, if the model has none; runs on a worker."""
    if not len(X):
        return np.empty((0, *tail))
    with on_this_thread():
        if near is not None:
            model = copy(model)
            model.fitted_ = replace(model.fitted_, posterior=model.fitted_.posterior.on(together(near)))
        return np.asarray(function(model, X, *options))


def _predicted(model: Any, X: Any, return_std: bool) -> Floats:
    """The means, and on request the standard deviations, as columns of one array."""
    found = model.predict(X, return_std=return_std)
    columns = found if return_std else [found]
    return np.concatenate([column.reshape(len(X), -1) for column in columns], axis=1)


def _called(model: Any, X: Any, *options: Any) -> Floats:
    """A method by its name, which is the first option, or the second where targets come first."""
    at = 0 if isinstance(options[0], str) else 1
    return np.asarray(getattr(model, options[at])(X, *options[:at], *options[at + 1 :]))
