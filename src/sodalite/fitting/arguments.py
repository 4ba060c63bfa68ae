"""What users pass to `fit` and `predict`, as rows of a fit and as blocks of queries.

The only module that asks of which kind an argument is: an array, a data frame, an array of another library, rows on
disk, or a Dask collection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from ..cluster.client import find_client
from ..cluster.predict import lazily, learn_names
from ..cluster.rows import dask_rows
from ..core.namespaces import in_library_of, in_numpy
from ..core.types import Array, Floats
from ..core.validation import (
    LARGEST,
    check_alpha,
    check_not_large,
    check_not_small,
    check_rows,
    check_targets,
    check_unmasked,
    is_dask,
    readable_errors,
    reads_from_disk,
)
from ..kernels import CompiledKernel
from ..selection.rows import ArrayRows, Rows, spans
from ..tables import encoded_rows
from .fitted import Fitted, Unseens
from .gross import GrossErrors
from .outliers import warn_of_outliers
from .pipeline import Settings

FLOATS = [np.float64, np.float32]


def target_names(y: Any) -> tuple[str, ...] | None:
    """The names of the targets, if y is a series or a data frame with names that are texts."""
    columns = getattr(y, "columns", None)
    names: list[Any] = [getattr(y, "name", None)] if columns is None else list(columns)
    if hasattr(y, "chunks") or not all(isinstance(name, str) and name for name in names):  # an array's own name
        return None
    return tuple(names)


# Rows of a fit


def rows_of_fit(
    model: Any, X: Any, y: Any, alpha: Any, is_weighted: bool, executor: Any, settings: Settings
) -> tuple[Rows, tuple[int, ...], GrossErrors | None]:
    """The rows that a model is to be fitted to, checked, the shape of a row's target, and gross errors in targets.

    It sets the attributes of the model that scikit-learn has for columns. Rows in memory with gross errors in their
    targets get noise of their own, and are named in a warning. Dask collections are checked on the workers.
    """
    if is_dask(X) or is_dask(y):
        client = find_client(executor)
        learn_names(model, X, reset=True)
    elif executor is not None:
        client = find_client(executor)
        X, y = _numbers(model, X, y, reset=True)
    else:
        return _rows_here(model, X, y, alpha, alpha is not None or is_weighted, settings)
    rows = dask_rows(X, y, alpha, client)
    return rows, () if rows.flat else (rows.q,), None


def _rows_here(
    model: Any, X: Any, y: Any, alpha: Any, is_noise_known: bool, settings: Settings
) -> tuple[ArrayRows, tuple[int, ...], GrossErrors | None]:
    """The rows, as `rows_of_fit` has them, on this machine."""
    if reads_from_disk(X):
        X, y = check_rows(X, y)
        validate_data(model, X, skip_check_array=True)  # sets n_features_in_
    else:
        X, y = _numbers(model, X, y, reset=True)
        check_not_small("X", check_not_large("X", X))
        y = check_targets(y, len(X))
    Y = y.reshape(len(X), -1)
    check_not_small("y", np.abs(Y).max(axis=0))
    known = None if alpha is None else check_alpha(alpha, len(X))
    rows = ArrayRows(X, Y, known if known is not None and known.any() else None)
    if rows.on_disk:
        return rows, y.shape[1:], None
    rows, errors = (rows, None) if is_noise_known else settings.look_over(rows)
    # What a warning of gross errors has told of targets is not told again.
    warn_of_outliers(X, Y if errors is None else None, getattr(model, "feature_names_in_", None))
    return rows, y.shape[1:], errors


def new_rows(model: Any, X: Any, y: Any, alpha: Any) -> ArrayRows:
    """Rows that are to join a fitted model, checked to have its columns and targets."""
    X, y = _numbers(model, encoded_rows(model, X)[0], y, reset=False)
    check_not_large("X", X)
    y, shape = check_targets(y, len(X)), model.fitted_.target_shape
    if y.shape[1:] != shape:
        raise ValueError(f"y has targets of shape {y.shape[1:]}, but the model was fitted with {shape}.")
    return ArrayRows(X, y.reshape(len(X), -1), None if alpha is None else check_alpha(alpha, len(X)))


def _numbers(model: Any, X: Any, y: Any, reset: bool) -> tuple[Floats, Floats]:
    """X and y as arrays of numbers, by scikit-learn's checks."""
    check_unmasked("y", y)
    with readable_errors(X):
        both = validate_data(model, X, y, dtype=FLOATS, multi_output=True, y_numeric=True, reset=reset)
    return both[0], both[1]


# Queries


def queries(model: Any, X: Any) -> tuple[Floats, Unseens]:
    """Rows to predict for, as numbers in the columns of the fit, and the levels in them that are new to it."""
    X, unseen = encoded_rows(model, X)
    with readable_errors(X):
        return validate_data(model, X, dtype=FLOATS, reset=False), unseen


def answer(
    model: Any, X: Any, function: Callable[..., Any], *tails: tuple[int, ...], y: Any = None, joint: bool = False
) -> Any:
    """The results of a function of the fit for queries wherever they are, as arrays of the kind that X is.

    Parameters
    ----------
    model : GreedyGPRegressor
        Fitted.
    X : array-like, data frame, array of another library, rows on disk or Dask collection
    function : callable
        Takes the `Fitted`, an array of rows, the levels in them that are new and, if y is given, their targets, of
        shape (rows, q). It returns an array with an entry for each row, or several.
    *tails : tuple of int
        The shape of one row's entry, for each of these arrays.
    y : array-like, optional
        Targets of the rows.
    joint : bool, default=False
        Whether the function needs all rows at once.
    """
    on_block = partial(_answer_block, function, tails)
    if is_dask(X):
        if joint:
            raise ValueError(
                "return_cov is the joint covariance of all rows, and a Dask collection may have too many of them; "
                "use return_std, or predict some rows at a time."
            )
        _check_n_targets(y, model.fitted_.q)
        found = lazily(model, X, tails, y, on_block)
    else:
        rows, targets = in_numpy(X, y)
        if joint or not reads_from_disk(rows) or len(rows.shape) != 2:
            found = on_block(model, rows, targets)
        else:
            targets = None if y is None else check_targets(targets, len(rows))
            parts = [
                on_block(model, np.asarray(rows[here]), None if targets is None else targets[here])
                for here in spans(*rows.shape)
            ]
            found = [np.concatenate(same) for same in zip(*parts, strict=True)]
    return in_library_of(X, found[0] if len(found) == 1 else tuple(found))


def _answer_block(
    function: Callable[..., Any], tails: Sequence[tuple[int, ...]], model: Any, X: Any, y: Any = None
) -> list[Floats]:
    """The results of a function, as `answer` has them, for some rows in memory."""
    fitted: Fitted = model.fitted_
    rows, unseen = model._queries(X)
    _check_variance(fitted.posterior.kernel, rows)
    targets = []
    if y is not None:
        _check_n_targets(y := check_targets(y, len(rows)), fitted.q)
        targets.append(y.reshape(len(rows), fitted.q))
    with np.errstate(over="ignore"):  # _check_predictions refuses values that are not finite
        found = function(fitted, rows, unseen, *targets)
    found = found if isinstance(found, tuple) else (found,)
    if y is None:
        _check_predictions(rows, *found)
    return [part.reshape(len(rows), *tail) for part, tail in zip(found, tails, strict=True)]


def _check_n_targets(y: Any, q: int) -> None:
    """Refuse targets of another number than the model has; y is an array, a series or a data frame, or None."""
    found = q if y is None else 1 if getattr(y, "ndim", 1) == 1 else y.shape[1]
    if found != q:
        raise ValueError(f"y has {found} target{'s' * (found != 1)}, but the model was fitted to {q}.")


def _check_variance(kernel: CompiledKernel, X: Array) -> None:
    """Refuse rows to be predicted, of shape (n, d), at which the prior variance overflows; linear kernels have such."""
    if not float(np.abs(X).max(initial=0)) > LARGEST:
        return
    with np.errstate(over="ignore", invalid="ignore"):
        variance = kernel.diag(kernel.prepare(X))
    _check_predictions(X, np.where(variance < LARGEST, variance, np.inf))


def _check_predictions(X: Array, *predictions: Array) -> None:
    """Refuse rows X with predictions (arrays of n rows each) that are not finite; the error names the first."""
    finite = np.all([np.isfinite(part).reshape(len(X), -1).all(axis=1) for part in predictions], axis=0)
    if not finite.all():
        row = int(np.argmin(finite))
        raise ValueError(
            f"X has values that are too large to predict for with this kernel: as large as "
            f"{np.abs(X[row]).max():.3g}, in row {row}."
        )
