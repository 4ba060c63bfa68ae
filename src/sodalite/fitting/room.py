"""Where the rows of a fit are: in memory, on disk or on a cluster, as the posterior needs them.

The other steps of a fit do not ask. Rows that do not fit into memory are refused, if they must, before any long work.
"""

from __future__ import annotations

import shutil
import tempfile
from errno import ENOSPC
from typing import TYPE_CHECKING

from sklearn.gaussian_process.kernels import Kernel

from ..cluster.local import DaskLocal
from ..cluster.rows import DaskRows
from ..core.files import no_room
from ..core.memory import limit_from
from ..core.validation import check_by_number
from ..hyperparameters.weave import MOST_ROWS
from ..kernels import CompiledKernel
from ..posteriors import Local, Posterior
from ..selection.plan import bytes_in_memory, fits_in_memory
from ..selection.rows import (
    ArrayRows,
    Rows,
    bring_here,
    check_inputs,
    check_size_of_targets,
    compiled_for,
    in_memory,
)
from .clock import Clock

if TYPE_CHECKING:
    from .pipeline import Settings

FETCHED = MOST_ROWS  # rows that "local" fetches from a cluster: as many are fetched to find hyperparameters anyhow


def checked_rows(rows: Rows, settings: Settings, follow: Clock) -> Rows:
    """Return rows once their values are checked; from disk in memory, if the posterior needs all and they fit."""
    if isinstance(rows, ArrayRows) and not rows.on_disk:
        return rows  # they were checked when the user gave them
    known = settings.kernel is not None and isinstance(rows, DaskRows)
    kernel = compiled_for(rows, settings.kernel) if known else None
    fits = posterior_of(rows, kernel, settings).needs != "passes" and fits_here(rows, settings, enough=True)
    if not isinstance(rows, ArrayRows):
        check_size_of_targets(rows)
        return rows
    check_by_number(rows.X)
    follow.say("Looking at all rows")
    check_inputs(rows)
    return in_memory(rows) if fits else rows


def check_fetched(rows: Rows, kernel: Kernel, settings: Settings) -> None:
    """Refuse, before rows are chosen, a kernel for which all rows must be fetched from a cluster without room."""
    if isinstance(rows, DaskRows) and posterior_of(rows, compiled_for(rows, kernel), settings).needs != "passes":
        fits_here(rows, settings)


def placed(rows: Rows, kernel: CompiledKernel, settings: Settings) -> tuple[type[Posterior], Rows]:
    """Return the posterior's class, and the rows where it has them."""
    kind = posterior_of(rows, kernel, settings)
    return kind, rows if kind.needs == "passes" else bring_here(rows, settings.memory_limit)


def posterior_of(rows: Rows, kernel: CompiledKernel | None, settings: Settings) -> type[Posterior]:
    """Return the class of the posterior: `DaskLocal` in place of `Local` if the rows stay on the workers of a cluster.

    Such rows are many, come from Dask collections, and are searched by the metric of the kernel, if that is known.
    """
    if settings.posterior is not Local or not isinstance(rows, DaskRows) or not rows.lazy:
        return settings.posterior
    searched = kernel is None or (kernel.metric() is not None and not kernel.cycles())
    return DaskLocal if searched and rows.shape[0] - settings.n_active > FETCHED else Local


def fits_here(rows: Rows, settings: Settings, enough: bool = False) -> bool:
    """Return whether all rows fit into memory; refuse rows that do not if there is no room on disk for them either.

    With `enough`, also refuse a memory limit that is too small for "local" to read rows on disk.
    """
    (n, d), q, limit = rows.shape, rows.q, settings.memory_limit
    if fits_in_memory(n, d, q, limit):
        return True
    if settings.posterior.needs == "all in memory":
        raise too_many_rows(n, d, q, limit)
    if enough and issubclass(settings.posterior, Local):
        m = min(settings.n_active, n)
        least = settings.posterior.least_memory(n, d, m, settings.n_neighbors, settings.calibrate)
        check_limit(min(least, bytes_in_memory(n, d, q)), limit)  # few rows take less in memory than on disk
    check_disk(n, d, q)
    return False


def too_many_rows(n: int, d: int, q: int, memory_limit: float | str | None) -> ValueError:
    """The error for rows that a posterior needs in memory, and that do not fit."""
    needed, limit = bytes_in_memory(n, d, q), limit_from(memory_limit)
    return ValueError(
        f"the posterior keeps all {n} rows in memory, which takes about {needed / 1e6:.0f} MB, but "
        f"{'half of what is free' if memory_limit is None else 'memory_limit'} is {limit / 1e6:.0f} MB. Use "
        f"posterior='local' or 'vfe', which read the rows where they are, or raise memory_limit."
    )


def check_limit(needed: int, memory_limit: float | str | None) -> None:
    """Refuse a memory limit that is smaller than a fit to rows on disk needs, in bytes."""
    if needed > (limit := limit_from(memory_limit)):
        raise ValueError(
            f"{'Half of what is free' if memory_limit is None else 'memory_limit'} is {limit / 1e6:.0f} MB, but "
            f"posterior='local' needs at least {needed / 1e6 + 1:.0f} MB for these rows, which are on disk. Raise "
            f"memory_limit, or use posterior='vfe'."
        )


def check_disk(n: int, d: int, q: int) -> None:
    """Refuse rows that exceed the memory limit if the folder for temporary files has no room for them.

    Rows are laid out there twice: in buckets, and then in the order of cells.
    """
    needed = 2 * n * 8 * (2 * d + q + 3)
    try:
        folder = tempfile.gettempdir()
    except FileNotFoundError as error:
        raise OSError(error.errno, f"there is no folder for temporary files: {error.strerror}. Set TMPDIR.") from None
    if shutil.disk_usage(folder).free < needed:
        raise OSError(ENOSPC, no_room(folder, needed))
