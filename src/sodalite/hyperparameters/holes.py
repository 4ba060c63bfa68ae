"""Rows that are left out together: those within a hole, and the outermost ones of an input.

The method is described in docs/method.rst, `far-from-data`. A row that is left out alone is predicted from the rows
around it, which says nothing of how well a model predicts in gaps, or beyond the ends of the inputs. So rows are left
out together with all rows around them, in holes of several sizes, or with all rows beyond a quantile of an input, and
predicted from the others. Which rows these are does not depend on the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import e, log, pi
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, lapack

from ..core.threads import one_blas_thread, threaded_map
from ..core.types import Floats, Indices
from ..kernels import CompiledKernel, compile_kernel, robust_spread
from ..kernels.jitter import NoiseFloor
from ..posteriors.far import LeftTogether, beyond_box, novelty_of
from ..posteriors.shape import density_of_t
from ..selection.rows import Rows, noise_alone
from .climb import climb
from .likelihood import Plausibility

TINY = float(np.finfo(np.float64).tiny)
FEWEST = 8  # rows below which none are left out together
MOST_ROWS = 8000  # rows in which holes are made; of more rows, a random sample
HOLES, SMALLEST, LARGEST = 32, 2, 0.12  # holes, the rows of the smallest and the share of rows of the largest ones
N_SIZES = 4  # sizes of holes
ENDS = (0.05, 0.1, 0.2, 0.3)  # shares of the rows that are left out beyond a quantile of one input
WIDE_ENDS = (0.1, 0.3)  # the same, of several inputs
MOST_INPUTS = 8  # inputs whose ends are left out, drawn at random of more
FEWEST_VALUES = 8  # different values of an input below which it has no ends
PER_HOLE, PER_END = 6, 12  # rows that are predicted in a hole, and at an end
N_NEAR, N_FAR = 32, 192  # rows nearest to each that it is predicted from, and rows anywhere, where there are many
N_WHOLE = 500  # rows up to which all others are known in predictions
FEW_INPUTS = 2  # inputs up to which the kernel is found again without the rows of an end
REFIT_ROWS, REFIT_STEPS = 200, 8  # rows and steps of that climb


class Hole(NamedTuple):
    """Rows that are left out together."""

    rows: Indices
    is_end: bool
    """Whether they are the outermost rows of an input."""


@dataclass(frozen=True)
class Sample:
    """Some rows of a fit in memory, in which holes are made."""

    X: Floats
    """Of shape (n, d)."""
    y: Floats
    """Scaled targets, of shape (n, q)."""
    alpha: Floats
    """Noise variances beyond the kernel's, of shape (n,)."""
    far: Indices
    """Rows that all predictions know, unless they are left out."""

    @classmethod
    def of(cls, rows: Rows, active: Indices, generator: np.random.Generator) -> Sample:
        """All rows or, of more than `MOST_ROWS`, a random sample with some of the active rows.

        Rows that are noise alone, by their alpha, say nothing of a model.
        """
        far, useful = active[:N_FAR], None
        if rows.has_alpha:
            alone = noise_alone(rows)
            far, useful = far[~alone[far]], np.flatnonzero(~alone)
        n = rows.shape[0] if useful is None else len(useful)
        which = np.arange(n) if n <= MOST_ROWS else generator.choice(n, MOST_ROWS, replace=False)
        which = np.union1d(which if useful is None else useful[which], far)
        block = rows.take(which)
        alpha = np.zeros(len(which)) if block.alpha is None else block.alpha
        return cls(np.asarray(block.X, dtype=np.float64), block.y, alpha, np.searchsorted(which, far))

    def holes(self, generator: np.random.Generator) -> Iterator[Hole]:
        """Yield holes of several sizes around random rows, then the outermost rows of inputs."""
        Z = self.X / robust_spread(self.X)
        n, d = Z.shape
        sizes = np.unique(np.geomspace(SMALLEST, max(LARGEST * n, SMALLEST), N_SIZES).astype(int))
        for size in sizes.tolist():
            for centre in generator.choice(n, min(HOLES // N_SIZES, n), replace=False):
                yield Hole(np.argsort(np.square(Z - Z[centre]).sum(axis=1))[:size], False)
        columns = [j for j in range(d) if len(np.unique(Z[:, j])) >= FEWEST_VALUES]
        for j in generator.permutation(columns)[:MOST_INPUTS]:
            for share in ENDS if d == 1 else WIDE_ENDS:
                low, high = np.quantile(Z[:, j], (share, 1 - share))
                yield from (
                    Hole(rows, True)
                    for rows in (np.flatnonzero(Z[:, j] < low), np.flatnonzero(Z[:, j] > high))
                    if len(rows)
                )


class Holes:
    """Holes in some rows of a fit, the same for all kernels that are judged by them.

    Parameters
    ----------
    rows : Rows
        With scaled targets.
    active : array of int
        The active rows, or others that predictions know from afar.
    generator : numpy.random.Generator
    by_neighbours : bool
        Whether predictions ask the nearest rows too, not the active ones alone.
    refits : bool
        Whether the kernel is found again without the rows of an end, where there are few inputs.
    """

    def __init__(
        self,
        rows: Rows,
        active: Indices,
        generator: np.random.Generator,
        by_neighbours: bool = True,
        refits: bool = False,
    ) -> None:
        self.sample, self.by_neighbours = Sample.of(rows, active, generator), by_neighbours
        self.refits = refits and rows.shape[1] <= FEW_INPUTS
        self.tasks: list[tuple[int, Hole, Indices, int]] = []
        if len(self.sample.X) < FEWEST:
            return
        for number, hole in enumerate(self.sample.holes(generator)):
            judged = generator.permutation(hole.rows)[: PER_END if hole.is_end else PER_HOLE]
            self.tasks.append((number, hole, judged, int(generator.integers(2**32))))

    def left_out(self, kernel: CompiledKernel) -> LeftTogether | None:
        """Predictions of rows that are left out together; None if there are too few rows."""
        with one_blas_thread():
            found = threaded_map(lambda task: self._predicted(kernel, *task), self.tasks)
        parts = [part for part in found if part is not None]
        if not parts:
            return None
        names = LeftTogether.__dataclass_fields__
        return LeftTogether(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def density(self, kernel: CompiledKernel) -> float:
        """The mean log density of rows in holes, the mean over the sizes of holes; with a width for each size.

        It is the mean of that by Student's t and of that by a Gaussian with one variance for all, as kernels are judged
        by rows that are left out alone (`ByNeighbours.judge`).
        """
        found = self.left_out(kernel)
        if found is None:
            return -np.inf
        sizes = np.array([-1 if hole.is_end else len(hole.rows) for _, hole, _, _ in self.tasks])[found.hole]
        densities = []
        for size in np.unique(sizes):
            here = sizes == size
            error, std = found.error[here], np.sqrt(np.maximum(found.variance[here], TINY))
            square = max(float(np.mean(np.square(error))), TINY)
            densities.append(0.5 * (density_of_t(error, std) - 0.5 * log(2 * pi * e * square)))
        return float(np.mean(densities))

    def _predicted(
        self, kernel: CompiledKernel, number: int, hole: Hole, judged: Indices, seed: int
    ) -> LeftTogether | None:
        """Predictions of rows in a hole from rows outside; None if there are hardly any, or none by this kernel."""
        sample = self.sample
        outside = np.delete(np.arange(len(sample.X)), hole.rows)
        if len(outside) < 2:
            return None
        known = _known(kernel, sample, outside, judged, self.by_neighbours)
        if hole.is_end and self.refits:
            kernel = _found_again(kernel, sample, known, np.random.default_rng(seed))
        features, queries = kernel.prepare(sample.X[known]), kernel.prepare(sample.X[judged])
        latent = kernel.diag(features)
        noise = np.maximum(kernel.noise(features) + sample.alpha[known], NoiseFloor(latent).value)
        A = kernel.block(features, features)
        A.flat[:: len(known) + 1] = latent + noise
        if not np.isfinite(A).all():
            return None
        L, failed = lapack.dpotrf(A, lower=1, clean=0, overwrite_a=1)
        if failed:
            return None
        K = kernel.block(features, queries)
        error = sample.y[judged] - K.T @ cho_solve((L, True), sample.y[known], check_finite=False)
        V, _ = lapack.dtrtrs(L, K, lower=1)
        prior = kernel.diag(queries)
        left = np.maximum(prior - np.einsum("ij,ij->j", V, V), 0)
        observed = left + kernel.noise(queries) + sample.alpha[judged]
        beyond: Floats = np.zeros((len(judged), sample.X.shape[1], 2))
        if hole.is_end:
            box = sample.X[outside]
            beyond = beyond_box(sample.X[judged], box.min(axis=0), box.max(axis=0))
        holes = np.full(len(judged), number)
        return LeftTogether(sample.X[judged], error, observed, novelty_of(left, prior), beyond, holes)


def _known(kernel: CompiledKernel, sample: Sample, outside: Indices, judged: Indices, by_neighbours: bool) -> Indices:
    """The rows that some rows are predicted from: all outside, or the nearest ones to each and some anywhere."""
    if by_neighbours and len(outside) <= N_WHOLE:
        return outside
    far = np.intersect1d(sample.far, outside)
    if not by_neighbours:
        return far if len(far) else outside[:N_FAR]
    weights = kernel.metric()
    Z = sample.X * (1 / robust_spread(sample.X) if weights is None else np.sqrt(weights))
    known, k = Z[outside], min(N_NEAR, len(outside) - 1)
    squares = np.square(known).sum(axis=1)[:, None] - 2 * known @ Z[judged].T
    near = np.argpartition(squares, k, axis=0)[:k]
    return np.union1d(far, outside[near.ravel()])


def _found_again(
    kernel: CompiledKernel, sample: Sample, known: Indices, generator: np.random.Generator
) -> CompiledKernel:
    """The kernel with parameters that have not seen the rows beyond: after a few steps from where they are."""
    spec = kernel.spec
    if not spec.n_dims:
        return kernel
    some = generator.permutation(known)[:REFIT_ROWS]
    objective = Plausibility(spec, sample.X[some], sample.y[some], sample.alpha[some])
    theta = climb(objective, spec.theta, spec.bounds, REFIT_STEPS)[1]
    return compile_kernel(spec.clone_with_theta(theta), sample.X)
