"""What `local` learns from leave-one-out errors: the neighbours of a query, and the scale of the error bars.

The method is described in docs/method.rst, `posterior-local` and `cells`: how many neighbours a query has, whether
queries in one cell share a neighbourhood besides, and which rows calibrate variances.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ..core.types import Floats, Indices
from .base import N_SOME, Evidence, Prediction
from .calibration import log_densities
from .shape import density_of
from .shared import LEAST_ROWS, RATIO, affordable_cell, blended, work_of

if TYPE_CHECKING:
    from .local import Local

LocalT = TypeVar("LocalT", bound="Local")

SIZES = (8, 16, 32, 64)  # k, numbers of neighbours that are tried for each query alone
GOOD_ENOUGH = 0.005  # nats per row that a smaller k may lose against the best: fewer neighbours predict faster
SAME_ERROR = 0.005  # relative difference up to which RMSEs count as equal: a fraction of their standard error
N_COMPARED = 1000  # rows whose leave-one-out errors decide whether neighbourhoods are shared; each costs a millisecond
WORTH_SHARING = 0.02  # nats per row that shared neighbourhoods must gain: more than chance, and worth their work
BESIDE = 32  # k, neighbours that a query has of its own beside those that it shares
POWERS = (0, 1, 2, 4)  # powers of the precisions that weight the two predictions; 0 takes the more precise one alone
COMPARE_WORK = 2e10  # operations, about 1 s of a core, that the factors of the cells of `N_COMPARED` rows may take
# Factors may take so many operations in a fit, about 10 s of a core: predictions need them again. If all take more, the
# rows of some cells judge, which say less of the others (kin40k: 0.02 nats a row with half of the cells).
FIT_WORK = 2e11
N_JUDGED = 4000  # rows whose leave-one-out errors choose k, and calibrate variances at least; O(k^2 m + k^3) each
# Once k is chosen, more rows calibrate variances: the denser they are, the better is known how large errors are from
# place to place (keggdirected 0.16, us_elevation 0.13, precip_global 0.10 nats a row).
JUDGE_WORK = 1e10  # operations, about 4 s of a core, that the leave-one-out errors of rows that calibrate may take
MOST_JUDGED = 20_000  # the most rows that calibrate: learning the distribution of their errors takes as long again
JUDGED_SHARE = 3  # at most one row in so many calibrates: the denser they are, the less another one adds


def most_judged(n: int, n_neighbors: int | None, calibrate: bool) -> int:
    """The most of n rows whose leave-one-out errors `tuned` computes."""
    is_settled = n_neighbors is not None and not calibrate
    return N_SOME if is_settled else max(N_JUDGED, min(MOST_JUDGED, n // JUDGED_SHARE))


def tuned(local: LocalT, evidence: Evidence) -> LocalT:
    """The local posterior with its neighbours chosen and, for a model, its scale learnt.

    Unless `n_neighbors` is given, k is the smallest of `SIZES` whose leave-one-out predictions, calibrated as
    predictions will be, lose no more than `GOOD_ENOUGH` of log density against the best. If neighbourhoods that queries
    share gain `WORTH_SHARING` over that, queries have both.

    Parameters
    ----------
    local : Local
        As `Local.prepare` returns it, with k = 0.
    evidence : Evidence
    """
    count, judging = evidence.n_neighbors, evidence.judging
    sizes = sorted({min(size, len(local.X)) for size in (SIZES if count is None else (count,))})
    sharing = _sharing_if_better(local, evidence) if count is None else None
    if sharing is not None:
        local, sizes = sharing, [BESIDE]
    if len(sizes) == 1 and judging is None:
        return replace(local, k=sizes[0])
    calibrate = judging is not None and judging.calibrate
    most = N_JUDGED if calibrate or len(sizes) > 1 else N_SOME
    rows = evidence.take(in_cells(local, evidence.judged(most), evidence, FIT_WORK))
    errors, variances = local.blended_errors(rows, sizes)
    chosen = fewest(*_judged(errors, variances, calibrate))
    local, error, variance = replace(local, k=sizes[chosen]), errors[chosen], variances[chosen]
    if judging is None:
        return local
    more = _more_judges(local, evidence) if calibrate else rows.active
    if len(more) > len(rows.X):
        rows = evidence.take(more)
        (error,), (variance,) = local.blended_errors(rows, (local.k,))
    found = Prediction(rows.Y - error, np.maximum(variance - rows.noise, 0))
    return replace(local, scale=local.scale_from(rows, found, judging))


def _more_judges(local: Local, evidence: Evidence) -> Indices:
    """The rows that calibrate variances once k is chosen, if they are more than `N_JUDGED`; in increasing order."""
    if local.shared is not None:  # their factors cost too much
        return np.empty(0, dtype=np.intp)
    work = max(local.k**2 * (len(local.base.z) + local.k), 1)
    return evidence.judged(min(int(JUDGE_WORK / work), MOST_JUDGED, evidence.rows.shape[0] // JUDGED_SHARE))


def _sharing_if_better(local: LocalT, evidence: Evidence) -> LocalT | None:
    """The posterior with shared neighbourhoods, if they predict rows better than each query's neighbours alone.

    Rows of a few cells are compared, by the log density of their leave-one-out errors, and by their size.
    """
    cell = cell_size(local)
    if not cell:
        return None
    sharing = replace(local.sharing(cell, int(RATIO * cell), 0), k=BESIDE)
    rows = evidence.take(in_cells(sharing, evidence.judged(N_COMPARED), evidence, COMPARE_WORK))
    errors, variances = local.own_errors(rows, SIZES)
    calibrate = evidence.judging is not None and evidence.judging.calibrate
    beside, common = SIZES.index(BESIDE), sharing.shared_errors(rows)
    blends = [blended(power, common, (errors[beside], variances[beside])) for power in POWERS]
    own_density, own_rmse = _judged(errors, variances, calibrate)
    blended_errors, blended_variances = (np.stack(each) for each in zip(*blends, strict=True))
    density, rmse = _judged(blended_errors, blended_variances, calibrate)
    own, best = int(np.argmax(own_density)), int(np.argmax(density))
    if density[best] < own_density[own] + WORTH_SHARING or rmse[best] > (1 + SAME_ERROR) * own_rmse[own]:
        return None
    return replace(sharing, power=POWERS[best])


def cell_size(local: Local) -> int:
    """The largest size of cells whose factors do not cost too much; 0 if there are none.

    Cells need a metric. Where there are periods, rows whole periods away are neighbours too, in no cell near by.
    """
    near = local.near
    return (
        0 if near.n <= LEAST_ROWS or near.index is None or near.cycles else affordable_cell(near.n, len(local.base.z))
    )


def in_cells(local: Local, some: Indices, evidence: Evidence, work: float) -> Indices:
    """Some random rows or, if their cells' factors take more than `work` operations, about as many of fewer cells.

    The cells are drawn at random. Rows are in increasing order.
    """
    if local.shared is None:
        return some
    n_cells = len(local.shared.cells)
    affordable = max(1, int(work / work_of(local.shared.h, len(local.base.z))))
    if len(np.unique(local.shared.locate_rows(evidence.rows, some))) <= affordable:
        return some
    more = evidence.judged(len(some) * -(-n_cells // affordable))
    return local.rows_in(np.random.default_rng(evidence.seed).permutation(n_cells)[:affordable], evidence, more)


def _judged(errors: Floats, variances: Floats, calibrate: bool) -> tuple[list[float], list[float]]:
    """Mean log density and RMSE of the leave-one-out predictions of several models.

    Errors are of shape (models, rows, q), variances (models, rows). Densities, in nats per row and target, are those of
    `density_of` if error bars are to be calibrated, and of the process if not.
    """
    models = list(zip(errors, variances, strict=True))
    if calibrate:
        densities = [density_of(error, np.sqrt(variance)) for error, variance in models]
    else:
        densities = [float(log_densities(*each).mean()) for each in models]
    return densities, [float(np.sqrt(np.mean(np.square(error)))) for error in errors]


def fewest(densities: Sequence[float], errors: Sequence[float]) -> int:
    """The first of some numbers of neighbours whose mean log density and RMSE are nearly those of the best."""
    best = int(np.argmax(densities))
    dense = np.array(densities) >= densities[best] - GOOD_ENOUGH
    return int(np.argmax(dense & (np.array(errors) <= (1 + SAME_ERROR) * errors[best])))
