"""Rows that are left out together: those within a hole, and the outermost ones of an input.

The method is described in docs/method.rst, `far-from-data`. A row that is left out alone is predicted from the rows
around it, which says nothing of how well a model predicts in gaps, or beyond the ends of the inputs. So rows are left
out together with all rows around them, in holes of several sizes, or with all rows beyond a quantile of an input, and
predicted from the others. Which rows these are does not depend on the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, lapack

from ..core.threads import one_blas_thread, threaded_map
from ..core.types import Floats, Indices, Mask
from ..kernels import CompiledKernel, compile_kernel, robust_spread
from ..kernels.jitter import NoiseFloor
from ..posteriors.far import beyond_box, novelty_of
from ..posteriors.shape import LeftTogether
from ..selection.rows import Rows, noise_alone
from .climb import climb
from .likelihood import Plausibility

ROUNDING = 1e-12  # distances in units of others below which they may be rounding
TINY = float(np.finfo(np.float64).tiny)
FEWEST = 8  # rows below which none are left out together
MOST_ROWS = 8000  # rows in which holes are made; of more rows, a random sample
PER_SIZE, N_SIZES = 8, 4  # holes of each size, and sizes
SMALLEST, LARGEST = 2, 0.08  # rows of the smallest holes, and the share of the rows of the largest ones, at least
FEWEST_LEVELS, ROWS_A_LEVEL = 4, 4  # values of an input, and rows that share one, from which on values are left out
ENDS = (0.05, 0.1, 0.2, 0.3, 0.45, 0.6)  # shares of the rows that are left out beyond a quantile of one input
WIDE_ENDS = (0.1, 0.3)  # the same, of several inputs
MOST_INPUTS = 8  # inputs whose ends are left out, drawn at random of more
FEWEST_VALUES = 8  # different values of an input below which it has no ends
PER_HOLE, PER_END = 6, 12  # rows that are predicted in a hole, and at an end
N_NEAR, N_FAR = 32, 192  # rows nearest to each that it is predicted from, and rows anywhere, where there are many
N_WHOLE = 500  # rows up to which all others are known in predictions
FEW_INPUTS = 2  # inputs up to which the kernel is found again without the rows of an end
REFIT_ROWS, REFIT_STEPS = 200, 8  # rows and steps of that climb


class Hole(NamedTuple):
    """A box of inputs, all rows in which are left out together."""

    low: Floats
    """Of shape (d,)."""
    high: Floats
    """Of shape (d,)."""
    size: int
    """The number of its size among those of holes; -1 for a value that rows share, and -2 for an end."""

    @property
    def is_end(self) -> bool:
        """Whether the outermost rows of an input are in it."""
        return self.size == -2

    @property
    def is_value(self) -> bool:
        """Whether its rows share a value of an input."""
        return self.size == -1

    def has(self, X: Floats) -> Mask:
        """Which rows of X are in it."""
        return np.asarray(((self.low <= X) & (self.high >= X)).all(axis=1))


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
        """Yield holes of several sizes around random rows, values that rows share, and the ends of inputs."""
        X, spread = self.X, robust_spread(self.X)
        n, d = X.shape
        everything = np.full(d, np.inf)
        sizes = np.unique(np.geomspace(SMALLEST, max(LARGEST * n, SMALLEST), N_SIZES).astype(int))
        for number, size in enumerate(sizes.tolist()):
            for centre in generator.choice(n, min(PER_SIZE, n), replace=False):
                reach = _reach(np.abs((X - X[centre]) / spread).max(axis=1), size) * spread
                yield Hole(X[centre] - reach, X[centre] + reach, number)
        values = [np.unique(column) for column in X.T]
        shared = [j for j in range(d) if FEWEST_LEVELS <= len(values[j]) <= n / ROWS_A_LEVEL]
        for j in generator.choice(shared, PER_SIZE) if shared else ():
            here, value = np.arange(d) == j, generator.choice(values[j])
            yield Hole(np.where(here, value, -everything), np.where(here, value, everything), -1)
        columns = [j for j in range(d) if len(values[j]) >= FEWEST_VALUES]
        for j in generator.permutation(columns)[:MOST_INPUTS]:
            here = np.arange(d) == j
            for share in ENDS if d == 1 else WIDE_ENDS:
                low, high = np.quantile(X[:, j], (share, 1 - share))
                yield Hole(-everything, np.where(here, np.nextafter(low, -np.inf), everything), -2)
                yield Hole(np.where(here, np.nextafter(high, np.inf), -everything), everything, -2)


def _reach(distance: Floats, size: int) -> float:
    """The radius of a hole of `size` rows, or up to twice as many and two: where the next row is by far the farthest.

    Rows that are much closer to each other than to others, as copies with errors in common, are left out together.
    """
    order = np.sort(distance)
    inner, outer = order[size - 1 : 2 * size + 2], order[size : 2 * size + 3]
    inner = inner[: len(outer)]
    at = int(np.argmax(outer / np.maximum(inner, max(ROUNDING * float(outer.max(initial=0.0)), TINY))))
    return float(0.5 * (inner[at] + outer[at]))


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
        for hole in self.sample.holes(generator):
            inside = np.flatnonzero(hole.has(self.sample.X))
            if 0 < len(inside) < len(self.sample.X) - 1:
                judged = self._judged(hole, generator.permutation(inside))
                self.tasks.append((len(self.tasks), hole, judged, int(generator.integers(2**32))))

    def _judged(self, hole: Hole, inside: Indices) -> Indices:
        """Some of the rows in a hole, in random order; at an end more of those close to the other rows."""
        if not hole.is_end:
            return inside[:PER_HOLE]
        j = int(np.flatnonzero(np.isfinite(hole.low) | np.isfinite(hole.high))[0])
        outwards = 1 if np.isfinite(hole.low[j]) else -1
        ranks = np.unique(np.geomspace(1, len(inside), PER_END).astype(int)) - 1
        order = np.argsort(outwards * self.sample.X[inside, j], kind="stable")
        return np.asarray(inside[order[ranks]])

    def left_out(self, kernel: CompiledKernel) -> LeftTogether | None:
        """Predictions of rows that are left out together; None if there are too few rows."""
        with one_blas_thread():
            found = threaded_map(lambda task: self._predicted(kernel, *task), self.tasks)
        parts = [part for part in found if part is not None]
        return LeftTogether.joined(parts) if parts else None

    def _predicted(
        self, kernel: CompiledKernel, number: int, hole: Hole, judged: Indices, seed: int
    ) -> LeftTogether | None:
        """Predictions of rows in a hole from rows outside; None if there are hardly any, or none by this kernel."""
        sample = self.sample
        outside = np.flatnonzero(~hole.has(sample.X))
        known = _known(kernel, sample, outside, judged, self.by_neighbours)
        if hole.is_end and self.refits:
            kernel = _found_again(kernel, sample, known, np.random.default_rng(seed))
        features, queries = kernel.prepare(sample.X[known]), kernel.prepare(sample.X[judged])
        latent = kernel.diag(features)
        A = kernel.block(features, features)
        A.flat[:: len(known) + 1] = latent + np.maximum(
            kernel.noise(features) + sample.alpha[known], NoiseFloor(latent).value
        )
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
        noise = kernel.noise(queries) + sample.alpha[judged]
        observed = np.maximum(left + noise, TINY)
        beyond: Floats = np.zeros((len(judged), sample.X.shape[1], 2))
        if hole.is_end:
            box = sample.X[outside]
            beyond = beyond_box(sample.X[judged], box.min(axis=0), box.max(axis=0))
        numbers, low, high = (np.full((len(judged), *np.shape(each)), each) for each in (number, hole.low, hole.high))
        novelty = novelty_of(left, prior)
        return LeftTogether(sample.X[judged], error, observed, prior + noise, novelty, beyond, numbers, low, high)


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
