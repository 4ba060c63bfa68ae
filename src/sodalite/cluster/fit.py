"""A fit on a cluster: the estimator's, with rows that stay on the workers.

Hyperparameters are learnt from a sample of the rows that is fetched, since more say little more. The choice of rows and
the sums of the posteriors that use all rows are done where the rows are. What "local" keeps is all rows, so for it they
are fetched, if they fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from ..core.memory import check_all_rows
from ..core.random import generator_from
from ..core.validation import check_dtype, check_first, check_not_small, is_dask, readable_errors
from ..hyperparameters import Fixed, Task, resolve_hyperparameters
from ..hyperparameters.weave import MOST_ROWS
from ..kernels import compile_kernel, default_kernels
from ..selection.checkpoint import check_checkpoint
from .client import find_client
from .moments import mean_and_spread
from .table import Array, Scaling, Table, share_out


def fit_on_cluster(model: Any, X: Any, y: Any, alpha: Any, executor: Any) -> None:
    """Fit a `sodalite.GreedyGPRegressor` whose parameters have been checked."""
    method = resolve_hyperparameters(model.hyperparameters)
    score = model._checked_score()
    dtype = check_dtype(model.dtype)
    file = None if model.checkpoint is None else check_checkpoint(model.checkpoint)
    client = find_client(executor)
    if not (is_dask(X) or is_dask(y)):
        with readable_errors(X):
            X, y = validate_data(model, X, y, dtype=[np.float64, np.float32], multi_output=True, y_numeric=True)
    else:
        learn_names(model, X, reset=True)
    raw = share_out(X, y, alpha, client)
    if model.first is not None:
        check_first(model.first, raw.n, min(model.n_active, raw.n))
    if model.posterior == "local":
        check_all_rows(raw.n, raw.d, raw.q, model.memory_limit)
    if model.normalize_y:
        mean, std = mean_and_spread(raw)
    else:
        mean, std = np.zeros(raw.q), np.ones(raw.q)
    table = raw.scaled(Scaling(mean, std))
    generator = generator_from(model.random_state)
    keeper = model._keeper(file, raw.X, raw.y, table.alpha, method, score, generator)
    # A kernel that is used as it is needs no sample.
    rows: tuple[Any, Any, Array | None] = table.X, table.y, None
    if model.kernel is None or not isinstance(method, Fixed):
        rows = sample(table, generator)
        check_not_small("X", np.abs(rows[0]).max(axis=0))
    some_X, some_y, some_alpha = rows
    kernels = default_kernels(some_X, some_y) if model.kernel is None else [model.kernel]
    compile_kernel(kernels[0], some_X, dtype)  # refuses what it cannot compile, before any long work
    seconds = model._seconds_to_search()
    task = Task(some_X, some_y, some_alpha, model.posterior, score, model.n_active, seconds, forms=model.kernel is None)
    found = model._found(method, task, kernels, generator, keeper)
    shape = () if raw.pieces.flat else (raw.q,)
    model.y_mean_, model.y_std_, model.rounds_, model._shape = mean, std, found.rounds, shape
    rule, kernel = model._rule(found), found.kernel
    selection = model._choose(table.X, table.y, None, kernel, score, rule, model.first, generator, keeper)
    model._condition(table.X, table.y, None, kernel, selection, generator)


def learn_names(model: Any, X: Any, reset: bool) -> None:
    """Let a model know, or check, how many columns there are, and their names if X is a dataframe."""
    if not is_dask(X):
        validate_data(model, X, reset=reset, skip_check_array=True)
    elif hasattr(X._meta, "columns"):
        validate_data(model, X._meta, reset=reset, skip_check_array=True)
    elif getattr(X, "ndim", 2) == 2:
        validate_data(model, np.empty((0, X.shape[1])), reset=reset, skip_check_array=True)


def sample(table: Table, generator: np.random.Generator) -> tuple[Array, Array, Array | None]:
    """At most so many rows as hyperparameters are learnt from: the same that one machine would draw."""
    rows: Any = slice(None)
    if table.n > MOST_ROWS:
        rows = np.sort(generator.choice(table.n, MOST_ROWS, replace=False))
    return table.X[rows], table.y[rows], None if table.alpha is None else table.alpha[rows][:, 0]


def at_hand(X: Any, y: Any, posterior: str) -> tuple[Any, Any, Array | None]:
    """What a posterior is conditioned on: all rows, fetched, for "local"; else the rows where they are."""
    if posterior != "local":
        return X, y, None
    table = X.table
    alpha = None if table.alpha is None else table.alpha[:][:, 0]
    return X[:], y[:], alpha
