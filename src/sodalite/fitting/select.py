"""The greedy choice of the active rows: Algorithm 1 of the paper, at the speed of a matrix product."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from sklearn.gaussian_process.kernels import Kernel

from ..cluster.rows import dask_rows
from ..core.random import generator_from
from ..core.types import Indices
from ..core.validation import check_dtype, check_rows, is_dask
from ..criteria import Criterion, resolve_criterion
from ..kernels import check_hyperparameters, check_numeric
from ..selection.checkpoint import check_checkpoint, open_checkpoint
from ..selection.grow import grow
from ..selection.loop import Selection
from ..selection.rows import ArrayRows, Rows, compiled_for
from ..stopping import Callback, Rule, resolve_rule
from .pipeline import RandomState


def select(
    X: Any,
    y: Any,
    kernel: Kernel,
    *,
    n_active: int,
    criterion: str | Criterion = "lookahead",
    tol: float | None = None,
    time_limit: float | None = None,
    stop: Rule | None = None,
    first: int | Sequence[int] | Indices | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
    dtype: DTypeLike = "float64",
    memory_limit: int | float | str | None = None,
    executor: Any = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Selection:
    """Choose the rows that a Gaussian process needs, one by one.

    The targets are taken as they are: the prior mean is zero, as in the paper. Time O(n m^2), most of it in matrix
    products; memory O(n), or O(n m) where `memory_limit` allows it, which is faster.

    Parameters
    ----------
    X : array of shape (n, d)
        The inputs.
    y : array of shape (n,) or (n, q)
        The targets. Of several, the criterion sees the root mean square of a row's residuals.
    kernel : sklearn.gaussian_process.kernels.Kernel
        The covariance, its hyperparameters as they are to be used. A ``WhiteKernel`` in it is the noise; without
        one the observations are noiseless (see `sodalite.kernels.jitter`).
    n_active : int
        The most rows to choose. With fewer rows than that, all rows become active.
    criterion : {"lookahead", "delta", "uncertainty", "underfit", "sampled", "random"} or callable, default="lookahead"
        Which row comes next. ``"lookahead"`` takes the row that most raises the density of other rows' targets
        (`sodalite.criteria.Lookahead`). ``"delta"`` is the paper's: the row with the largest ``s + abs(r)``, the latent
        standard deviation plus the absolute residual. ``"uncertainty"`` and ``"underfit"`` are its two terms
        (`sodalite.criteria.Delta` has weights for them). ``"sampled"`` draws rows with probabilities proportional to
        ``s * abs(r)`` (`sodalite.criteria.Sampled` does so with any function), ``"random"`` with equal ones. A callable
        takes s, the absolute residual and the noise variance (three arrays over the rows), and returns the rows'
        scores, of which the largest is taken. Ties go to the lowest index.
    tol : float, optional
        The paper's delta: stop at the first stage whose RMSE on the remainder is not at least this much below that of
        the stage before. The rows of that stage are returned.
    time_limit : float, optional
        Stop at the first stage that ends after this many seconds.
    stop : sodalite.stopping.Rule, optional
        Another rule, or several: ``Decrease(0.001, patience=5) | TargetRMSE(0.1)``.
    first : int or sequence of int, optional
        The row to start from (the paper draws it at random), or several rows, in order: then the stopping rules are
        first asked after the last of them.
    random_state : int, numpy.random.RandomState or None, default=None
        For the first row, and for the criteria that draw rows: ``"sampled"``, ``"lookahead"`` and ``"random"``.
    callback : callable, optional
        Called with a `sodalite.stopping.Stage` after every stage. If it raises StopIteration, that stage is the last.
    dtype : {"float64", "float32"}, default="float64"
        The type of the covariances. Variances and residuals are accumulated in float64 either way. float32 is faster
        and smaller; its picks may differ where the covariance of the active rows is ill-conditioned.
    memory_limit : int or str, optional
        Bytes to work in, beside the data: a number or a string such as ``"300MB"``. By default half of what is free.
    executor : dask.distributed.Client, optional
        A cluster to work on. X and y may then be Dask arrays or dataframes, whose partitions stay where they are; the
        picks are those of one machine. Workers may be lost during the selection, as long as one is left or joins.
    checkpoint : str or path-like, optional
        A file to which the selection is written as it goes on, also on Ctrl-C and on failure. If the file exists, the
        selection continues from it, and ends with the rows that it would have had without a break. `n_active` and the
        stopping rules may then be different; data, kernel, criterion, first, dtype and random_state may not. See
        `sodalite.selection.checkpoint`.

    Returns
    -------
    Selection

    Raises
    ------
    sodalite.exceptions.SelectionInterrupted
        On Ctrl-C. A `KeyboardInterrupt` whose attribute `selection` holds the rows chosen so far.
    sodalite.exceptions.CheckpointError
        If the checkpoint is damaged, belongs to another run, or cannot be written. The file is left as it is.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF, WhiteKernel
    >>> X = np.linspace(0, 10, 200)[:, None]
    >>> kernel = RBF(1.0) + WhiteKernel(0.01)
    >>> chosen = select(X, np.sin(X[:, 0]), kernel, n_active=12, criterion="delta", first=0)
    >>> chosen.indices[:4]
    array([  0,  94, 156,  34])
    >>> chosen.stop_reason
    'n_active'
    """
    checked_dtype, criterion = check_dtype(dtype), resolve_criterion(criterion)
    rule = resolve_rule(n_active, tol, time_limit, stop)
    file = None if checkpoint is None else check_checkpoint(checkpoint)
    check_numeric(kernel, X)
    check_hyperparameters(kernel)
    rows = _rows(X, y, executor)
    compiled, generator = compiled_for(rows, kernel, checked_dtype), generator_from(random_state)
    opened = None
    if checkpoint is not None:
        given = {"kernel": kernel, "criterion": criterion, "first": first, "random_state": random_state}
        given["dtype"] = str(compiled.dtype)
        opened = open_checkpoint(checkpoint, file, "select", rows, generator, **given)
    return grow(
        rows,
        compiled,
        n_active=n_active,
        criterion=criterion,
        rule=rule,
        first=first,
        generator=generator,
        callback=callback,
        memory_limit=memory_limit,
        checkpoint=opened,
    )


def _rows(X: Any, y: Any, executor: Any) -> Rows:
    """The rows, checked: on a cluster if there is one, else on this machine."""
    if executor is not None or is_dask(X) or is_dask(y):
        return dask_rows(X, y, executor=executor)
    X, y = check_rows(X, y, [np.float64, np.float32])
    return ArrayRows(X, y.reshape(len(y), -1))
