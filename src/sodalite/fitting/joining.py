"""Add new rows to a fitted model: the steps of ``partial_fit``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..core.joined import Joined
from ..core.random import generator_from
from ..core.types import Indices
from ..core.validation import check_not_large
from ..hyperparameters import Found
from ..kernels import CompiledKernel, compile_kernel
from ..kernels.row_store import RowStore
from ..posteriors import Evidence, Local
from ..selection.loop import Selection
from ..selection.rows import ArrayRows, Residuals, Weighted
from .clock import Clock
from .exchange import exchanged
from .fitted import Fitted
from .pipeline import Prepared, Settings, choose_rows, condition

MOST_JOINED = 0.25  # rows that may join a store on disk, as a share of those in it, before it is laid out anew


def join(fitted: Fitted, new: ArrayRows, settings: Settings, exchange: bool, follow: Clock) -> Fitted:
    """Return a model of the old and the new rows.

    Mean function, kernel and scaling stay. The selection continues from the present active rows, among all rows, and
    the posterior is conditioned anew.

    Parameters
    ----------
    fitted : Fitted
        With all its rows.
    new : ArrayRows
        The new rows, with targets in units of y.
    settings : Settings
    exchange : bool
        Whether active rows may be replaced by others (`sodalite.fitting.exchange`).
    follow : Clock
        Reports the progress of the selection.
    """
    if fitted.rows is None:
        raise ValueError(
            "This model holds its active rows alone, since it comes from a file or from a cluster: it can predict, "
            "but no rows can join it. Fit it again, or use posterior='local', which keeps all rows; from memory, "
            "joblib does too."
            if not isinstance(fitted.posterior, Local)
            else "The rows of this model are, or were, on the workers of a cluster, laid out to predict from: no rows "
            "can join it. Fit it again to all rows."
        )
    none, nothing = np.empty(0, dtype=np.intp), np.empty((0, fitted.q))
    target = fitted.target
    if (fault := target.fault(new.y)) is not None:
        raise ValueError(f"The model learns the {target} of targets, which is for {fault}")
    on_scale = new if target.is_linear else new.with_targets(target)
    scaled = on_scale.with_targets(Residuals(fitted.mean_function, none, nothing)).with_targets(fitted.scaling)
    if settings.weights is not None:
        scaled = scaled.with_targets(Weighted(settings.weights, compile_kernel(fitted.kernel, new.X)))
    check_not_large("y, in standard deviations of the targets of the fit,", scaled.y)
    original, all_scaled = _concatenated(fitted.rows_on_scale(), on_scale), _concatenated(fitted.rows, scaled)
    given = original if target.is_linear else replace(original, y=target.undone(original.y))
    n, judges = len(fitted.rows.X), fitted.judges
    if judges is not None:
        judges = np.concatenate([judges, np.arange(n, n + len(new.X))])
    rows = Prepared(given, original, target, fitted.mean_function, fitted.scaling, all_scaled, judges)
    generator = generator_from(settings.random_state)
    found = Found(fitted.kernel, optimism=fitted.optimism)

    def choose(first: Indices) -> Selection:
        return choose_rows(rows, found, settings, None, generator, follow, first)

    selection = choose(fitted.selection.indices[: settings.n_active])
    if exchange:
        evidence = Evidence(compile_kernel(fitted.kernel, new.X), rows.scaled, selection)
        selection = exchanged(evidence, choose, n, generator)
    known = _grown(fitted, scaled, selection)
    joined = condition(rows, fitted.target_shape, found, selection, settings, generator, known)
    return replace(joined, rounds=fitted.rounds, gross_errors=fitted.gross_errors)


def _grown(fitted: Fitted, new: ArrayRows, selection: Selection) -> tuple[CompiledKernel, RowStore] | None:
    """The kernel and the store of the old and the new rows, where that of the old rows can be kept; else None.

    It can if the active rows are the same, so that residuals are, and if the rows that have joined it are few.
    """
    posterior, before = fitted.posterior, fitted.selection
    if not isinstance(posterior, Local) or posterior.store is None:
        return None
    same = np.array_equal(selection.indices, before.indices) and selection.noise_floor == before.noise_floor
    store, base = posterior.store, posterior.base
    if not same or store.n_joined + len(new.X) > MOST_JOINED * (len(store) - store.n_joined):
        return None
    block, noise = Evidence(posterior.kernel, new, selection).read(np.arange(len(new.X)))
    return posterior.kernel, store.grown(block.X, block.y - base.mean(block.X), noise)


def _concatenated(old: ArrayRows, new: ArrayRows) -> ArrayRows:
    """The old rows, then the new ones; alpha is 0 where only the other part has it."""
    alpha = None
    if old.alpha is not None or new.alpha is not None:
        alpha = np.concatenate([np.zeros(len(part.y)) if part.alpha is None else part.alpha for part in (old, new)])
    X = Joined([old.X, new.X]) if old.on_disk else np.concatenate([old.X, new.X])
    return ArrayRows(X, np.concatenate([old.y, new.y]), alpha)
