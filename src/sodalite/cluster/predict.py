"""Lazy predictions for Dask arrays and dataframes, block by block, on any Dask scheduler.

Where the rows of a model are on the workers of a cluster (`sodalite.cluster.bundles`), they are gathered for each block
there; such predictions are computed by the scheduler of that cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from ..core.optional import require
from ..core.threads import on_this_thread
from ..core.types import Floats
from ..core.validation import is_dask
from ..kernels.row_store import Observed, together
from .bundles import Bundles, Request
from .collections import numeric_types
from .local import DaskLocal, Detached


def learn_names(model: Any, X: Any, reset: bool) -> None:
    """Set, or without `reset` check, a model's number of columns, and their names if X is a dataframe."""
    if is_dask(X) and X.ndim != 2:
        return
    if is_dask(X):
        X = X._meta if hasattr(X._meta, "columns") else np.empty((0, X.shape[1]))
    validate_data(model, X, reset=reset, skip_check_array=True)


def lazily(model: Any, X: Any, tails: Sequence[tuple[int, ...]], y: Any, answer: Callable[..., Any]) -> Any:
    """Return the results of a function of a model and a block of rows as Dask arrays of shape (n, *tail).

    They are computed block by block. If several are computed together, the function is called once for each block.

    Parameters
    ----------
    model : GreedyGPRegressor
    X : Dask array or dataframe
    tails : sequence of tuple of int
        One for each array that the function returns.
    y : Dask array, dataframe or series, or None
        Targets in the same blocks of rows as X.
    answer : callable
        Takes a model, a block of X and, if they are given, the block's targets. It returns a list of arrays.
    """
    require("dask.array", "dask")
    from dask.array import concatenate, from_delayed
    from dask.delayed import delayed

    learn_names(model, X, reset=False)
    sent, bundles, most = _sent(model)
    if hasattr(X, "to_dask_array"):
        numeric_types("X", X)
        blocks, sizes, chunks = X.to_delayed(), (np.nan,) * X.npartitions, None
    else:
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions, rows and columns; got {X.ndim}.")
        chunks, is_large = X.chunks[0], any(size > most for size in X.chunks[0])
        X = X.rechunk({0: most, 1: -1} if is_large else {1: -1})
        blocks, sizes = X.to_delayed().ravel(), X.chunks[0]
    targets = [()] * len(blocks) if y is None else [(part,) for part in _blocks_of(y, sizes)]
    node = delayed(sent, pure=False, traverse=False)
    call, ask = delayed(_block, pure=False), delayed(_asked, pure=False)
    near = [None if bundles is None else bundles.gathered(ask(node, block)) for block in blocks]
    results = [
        call(answer, tails, node, rows, block, *target)
        for rows, block, target in zip(near, blocks, targets, strict=True)
    ]

    def joined(place: int, tail: tuple[int, ...]) -> Any:
        parts = [
            from_delayed(result[place], (size, *tail), np.float64)  # type: ignore[no-untyped-call]
            for result, size in zip(results, sizes, strict=True)
        ]
        found = concatenate(parts, allow_unknown_chunksizes=True)  # type: ignore[no-untyped-call]
        return found if chunks is None else found.rechunk({0: chunks})

    return [joined(place, tail) for place, tail in enumerate(tails)]


def _sent(model: Any) -> tuple[Any, Bundles | None, float]:
    """The model as it is sent to the workers, its rows if they are there already, and the most rows of a block."""
    sent, posterior = copy(model), model.fitted_.posterior
    sent.fitted_ = model.fitted_.without_rows()  # predictions do not need them
    if not isinstance(posterior, DaskLocal):
        return sent, None, np.inf
    detached = posterior.detached
    sent.fitted_ = replace(sent.fitted_, posterior=detached)
    return sent, posterior.bundles, detached.most


def _asked(model: Any, X: Any) -> list[Request]:
    """The rows that a block of queries needs; runs on a worker."""
    if not len(X):
        return []
    detached: Detached = model.fitted_.posterior
    return detached.asked(model._queries(X)[0].astype(np.float64), detached.k)


def _blocks_of(y: Any, sizes: Sequence[float]) -> list[Any]:
    """The targets in blocks of so many rows; NaN for a size that is not known."""
    from dask.array import from_array

    if not is_dask(y):
        if np.isnan(sizes).any():
            raise ValueError("y must be a Dask collection, as X is, with the same partitions; it is in memory.")
        y = from_array(np.asarray(y))  # type: ignore[no-untyped-call]
    if hasattr(y, "to_dask_array"):
        blocks = list(y.to_delayed())
    else:
        if not (np.isnan(sizes).any() or np.isnan(y.shape[0])):
            if y.shape[0] != sum(sizes):
                raise ValueError(f"X and y must have the same number of rows; X has {sum(sizes)}, y has {y.shape[0]}.")
            y = y.rechunk({0: tuple(int(size) for size in sizes)})
        blocks = list((y.rechunk({1: -1}) if y.ndim == 2 else y).to_delayed().ravel())
    if len(blocks) != len(sizes):
        raise ValueError(f"X and y must have the same blocks of rows; X has {len(sizes)} and y {len(blocks)}.")
    return blocks


def _block(
    answer: Callable[..., list[Floats]],
    tails: Sequence[tuple[int, ...]],
    model: Any,
    near: list[Observed] | None,
    X: Any,
    *targets: Any,
) -> list[Floats]:
    """The results for one block, from the rows that were gathered for it, if the model has none; runs on a worker."""
    if not len(X):
        return [np.empty((0, *tail)) for tail in tails]
    with on_this_thread():
        if near is not None:
            model = copy(model)
            model.fitted_ = replace(model.fitted_, posterior=model.fitted_.posterior.on(together(near)))
        return answer(model, X, *targets)
