"""The evidence that posteriors are conditioned on, what a posterior is, and passes over many rows in bounded memory.

A posterior has two methods of its own: `condition`, which does all work that can be done once, and `predict`, the
latent function at some rows. Calibrated variances, the distribution of new observations and novelty follow from these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from ..core.memory import parse_bytes
from ..core.threads import n_threads, threaded_map
from ..core.types import Array, Floats, Indices
from ..kernels import CompiledKernel, Features
from ..kernels.neighbours import places_among
from ..kernels.row_store import RowStore
from ..selection.loop import Selection
from ..selection.rows import ALL, Block, Rows, Sliced, noise_alone
from .calibration import Correlations, Scale
from .novelty import novelty_of
from .predictive import Predictive
from .shape import LeftOut, Shape

BLOCK = 2**20  # numbers that one thread holds at a time, 8 MB of k(I, x): large for the product, small for memory
Needs = Literal["passes", "all", "all in memory"]  # what a posterior needs of the rows: see `Posterior.needs`
N_SOME = 1000  # rows that error bars are summarised from; a quantile of 10 % then rests on 100 rows


@dataclass(frozen=True)
class Judging:
    """How the error bars of a model are learnt: which rows judge it, and what its predictions are held to."""

    calibrate: bool = True
    """Whether variances are calibrated (`sodalite.posteriors.calibration`): far from all rows, no less than the
    targets' own variance, and for "local" scaled by leave-one-out errors of the rows near by."""
    floor: float = 0.0
    """The least variance of an observation far from all rows; 0 for none."""
    optimism: float = 1.0
    """How many times as large squared errors are for rows that the hyperparameters have not seen, over leave-one-out
    errors, which are those of rows that they have seen."""
    rows: Indices | None = None
    """The rows that `Evidence.judged` draws from; None for all."""
    seed: int = 0
    """The random seed of `Evidence.judged`."""

    @classmethod
    def of(
        cls,
        rows: Rows,
        calibrate: bool,
        optimism: float,
        spread: float,
        judges: Indices | None,
        generator: np.random.Generator,
    ) -> Judging:
        """For a model of some rows, of which `judges` may judge it. O(n q).

        The floor is the mean square of the targets, which have a prior mean of zero, of several targets the largest,
        and no less than `spread`, the largest variance of a target before a mean function was subtracted. Rows that
        are nothing but noise, by their alpha, do not judge: their errors say nothing of a model.
        """
        n = rows.shape[0]
        floor = max(float(np.max(rows.map(_squares, np.add, ALL))) / n, spread) if calibrate else 0.0
        seed = int(generator.integers(2**32))
        if rows.has_alpha:
            every = np.arange(n) if judges is None else judges
            kept = every[~noise_alone(rows)[every]]
            judges = kept if 0 < len(kept) < len(every) else judges
        return cls(calibrate, floor, optimism, judges, seed)


@dataclass(frozen=True)
class Evidence:
    """All rows, and which of them are active."""

    kernel: CompiledKernel
    """In float64."""
    rows: Rows
    """The rows: in memory, on disk or on a cluster."""
    selection: Selection
    memory_limit: str | float | None = None
    """The most memory to use beside the data, in bytes or as a string; None for a share of the free memory."""
    n_neighbors: int | None = None
    """For "local": how many neighbours a query has; None for a number that is chosen by leave-one-out errors."""
    store: RowStore | None = None
    """The rows that are not active, with their residuals, if they are laid out already; for "local"."""
    judging: Judging | None = None
    """How error bars are learnt; None for the process as it is, without a scale."""

    @property
    def seed(self) -> int:
        """The random seed of what is drawn to judge."""
        return 0 if self.judging is None else self.judging.seed

    def judged(self, most: int) -> Indices:
        """At most `most` rows, drawn at random, that summaries of all are made from; in increasing order.

        They follow from `seed`: every call returns the same rows, and fewer rows are a subset of more.
        """
        known = None if self.judging is None else self.judging.rows
        generator = np.random.default_rng(self.seed)
        return np.sort(generator.permutation(self.rows.shape[0] if known is None else known)[:most])

    def take(self, which: Indices) -> RowsOfFit:
        """Some of the rows, by their numbers, to be left out of a posterior."""
        indices = self.selection.indices
        order = np.argsort(indices)
        place = order[np.minimum(np.searchsorted(indices, which, sorter=order), len(indices) - 1)]
        active = np.where(indices[place] == which, place, -1)
        block, noise = self.read(which)
        X_active = np.asarray(self.rows.take(indices).X, dtype=np.float64)
        return RowsOfFit(block.X, block.y, noise, active, X_active)

    def read(self, which: Indices) -> tuple[Block, Floats]:
        """Some rows in float64, by their numbers, and their noise variances, as `noise` has them."""
        block = self.rows.take(which)
        block = Block(np.asarray(block.X, dtype=np.float64), np.asarray(block.y), block.alpha)
        return block, self.noise(block)

    def noise(self, block: Block) -> Floats:
        """The noise variance of some rows, no less than the selection's noise floor; of shape (rows,)."""
        noise = self.kernel.noise(self.kernel.prepare(block.X)).astype(np.float64)
        if block.alpha is not None:
            noise += block.alpha
        return np.maximum(noise, self.selection.noise_floor)

    def block_rows(self, m: int) -> int:
        """How many rows to take at a time, with m covariances each, within `BLOCK` numbers and the memory limit."""
        d, size = self.rows.shape[1], BLOCK // m
        if self.memory_limit is not None:
            # Half of the limit. A row takes 4 m numbers for covariances and about 8 d for inputs, prepared and copied.
            share = parse_bytes(self.memory_limit) // (2 * n_threads())
            size = min(size, share // (8 * (4 * m + 8 * d)))
        return int(max(1, min(size, BLOCK // d)))


class RowsOfFit(NamedTuple):
    """Rows to be left out of a posterior, one at a time."""

    X: Floats
    """Of shape (rows, d)."""
    Y: Floats
    """Scaled targets, of shape (rows, q)."""
    noise: Floats
    """Noise variances, of shape (rows,)."""
    active: Indices
    """The place of each row among the active rows; -1 for others. Of shape (rows,)."""
    X_active: Floats
    """Inputs of the active rows, of shape (m, d)."""

    def take(self, which: Indices) -> RowsOfFit:
        """Some of the rows."""
        return RowsOfFit(self.X[which], self.Y[which], self.noise[which], self.active[which], self.X_active)


@dataclass(frozen=True)
class Prediction:
    """Means and variances at some rows."""

    mean: Floats
    """Of shape (n, q)."""
    variance: Floats
    """Of shape (n,); the covariance, of shape (n, n), of a joint prediction."""
    novelty: Floats | None = None
    """The share of the latent prior variance that is left, of shape (n,); None where it follows from the variance."""


class Posterior:
    """A process given data. One of your own derives from this: a frozen dataclass with `condition` and `predict`.

    It may say more of itself: `needs`, the rows that `condition` works on, and `left_out` with `correlations`, by which
    error bars are learnt and judged.
    """

    name: ClassVar[str]
    """Its name in files and reports: the name of the class, unless it sets another."""
    needs: ClassVar[Needs] = "passes"
    """"passes" if the rows may stay where they are; "all" if it needs all of them in reach, be it on disk; "all in
    memory"."""
    kernel: CompiledKernel
    """In float64."""
    scale: Scale | None = None
    """The factor that variances are multiplied by; None for the process as it is."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.name = cls.__dict__.get("name", cls.__name__)

    @classmethod
    def condition(cls, evidence: Evidence) -> Self:
        """The posterior given all rows, or given the active ones."""
        raise NotImplementedError

    def predict(self, X: Floats, joint: bool = False) -> Prediction:
        """The latent function at the rows of X, not calibrated, with its covariance if `joint`."""
        raise NotImplementedError

    def left_out(self, rows: RowsOfFit) -> Prediction | None:
        """The latent function at rows of the fit, each predicted from the others; None if that is not known."""
        return None

    def correlations(
        self, rows: RowsOfFit, variance: Floats, others: RowsOfFit, variances: Floats, partners: Indices
    ) -> Floats | None:
        """Correlations of the leave-one-out errors of rows with those of some others; None if they are not known.

        Parameters
        ----------
        rows, others : RowsOfFit
            Of the others, the targets and noises are not needed.
        variance, variances : arrays of shape (rows,) and (others,)
            Of the errors, noise included.
        partners : array of shape (rows, partners)
            Positions among `others`; -1 for none.

        Returns
        -------
        array of shape (rows, partners), 0 where there is no partner; or None
        """
        return None

    @property
    def log_marginal_likelihood(self) -> float:
        """Log density of the targets that it is conditioned on; NaN if it is not known."""
        return float("nan")

    # What follows

    def mean(self, X: Array) -> Floats:
        """The mean at every row of X, of shape (n, q)."""
        return self.predict(np.asarray(X, dtype=np.float64)).mean

    def mean_and_variance(self, X: Array, noisy: bool = False) -> tuple[Floats, Floats]:
        """The mean, of shape (n, q), and the variance, of shape (n,): the latent one, or with the noise."""
        found = self.calibrated(X, noisy)
        return found.mean, found.variance

    def mean_and_covariance(self, X: Array, noisy: bool = False) -> tuple[Floats, Floats]:
        """The mean, of shape (n, q), and the covariance, of shape (n, n): the latent one, or with the noise."""
        found = self.calibrated(X, noisy, joint=True)
        return found.mean, found.variance

    def novelty(self, X: Array) -> Floats:
        """The share of the latent prior variance that is left at every row of X, of shape (n,)."""
        X = np.asarray(X, dtype=np.float64)
        return self._error_bars(X, self.predict(X))[0]

    def calibrated(self, X: Array, noisy: bool = False, joint: bool = False) -> Prediction:
        """The latent function or, if `noisy`, new observations of it: variances are multiplied by the scale."""
        X = np.asarray(X, dtype=np.float64)
        found = self.predict(X, joint)
        novelty, noise, factor, _ = self._error_bars(X, found)
        if not joint:
            variance = (found.variance + noise if noisy else found.variance) * factor
            return Prediction(found.mean, variance, novelty)
        covariance = found.variance
        diagonal = np.einsum("ii->i", covariance)
        np.maximum(diagonal, 0, out=diagonal)  # rounding may leave a small negative number
        if noisy:
            diagonal += noise
        if self.scale is not None:
            root = np.sqrt(factor)
            covariance *= np.multiply.outer(root, root)
        return Prediction(found.mean, covariance, novelty)

    def predictive(self, X: Array) -> Predictive:
        """The predictive distribution of new observations at X, by the learnt shape of errors."""
        X, shape = np.asarray(X, dtype=np.float64), None if self.scale is None else self.scale.shape
        found = self.predict(X)
        novelty, noise, factor, widths = self._error_bars(X, found, shape)
        std = _each(np.sqrt((found.variance + noise) * factor), found.mean)
        if self.scale is None or shape is None or shape.is_gaussian:
            return Predictive.gaussian(found.mean, std, novelty)
        return Predictive(found.mean, std, widths, self.scale.outside(novelty), shape.standards, novelty)

    def _error_bars(self, X: Floats, found: Prediction, shape: Shape | None = None) -> list[Floats]:
        """Novelty, noise variance and the factor of variances, of shape (n,), and the widths of errors, (n, q).

        Widths are computed if their shape is given.
        """
        scale, variance = self.scale, found.variance
        latent = variance.diagonal() if variance.ndim == 2 else variance

        def block(which: Indices) -> tuple[Floats, Floats, Floats, Floats]:
            rows, nothing = self.kernel.prepare(X[which]), np.empty((len(which), 0))
            prior, noise = self.kernel.diag(rows), self.kernel.noise(rows)
            novelty = novelty_of(latent[which], prior) if found.novelty is None else found.novelty[which]
            if scale is None:
                return novelty, noise, np.ones(len(which)), nothing
            noise += scale.extra
            if shape is None or shape.is_gaussian:
                return novelty, noise, scale.factor(X[which], novelty, prior + noise), nothing
            observed = latent[which] + noise
            return novelty, noise, *scale.factor_and_widths(X[which], observed, novelty, prior + noise)

        return in_blocks(block, np.arange(len(X)), 4 * X.shape[1])

    def predictive_left_out(self, rows: RowsOfFit, found: Prediction) -> Predictive:
        """The distribution of the scaled targets of rows, from what `left_out` returns for them.

        The scale and the widths of errors are learnt from the other rows, too.
        """
        scale, mean, variance = self.scale, found.mean, found.variance + rows.noise
        left = LeftOut.of(self.kernel, rows.X, rows.Y - mean, variance, found.variance, found.novelty)
        if scale is None:
            return Predictive.gaussian(mean, _roots(variance, mean), left.novelty)
        known = self._correlations_with_places(scale, rows, variance)
        factor, widths = scale.left_out(left, places_among(scale.X, rows.X), known)
        std = _roots((variance + scale.extra) * factor, mean)
        if scale.shape is None:
            return Predictive.gaussian(mean, std, left.novelty)
        return Predictive(mean, std, widths, scale.outside(left.novelty), scale.shape.standards, left.novelty)

    def _correlations_with_places(self, scale: Scale, rows: RowsOfFit, variance: Floats) -> Correlations | None:
        """How the errors of rows correlate with those at places of the scale, if the latter are known."""
        if scale.variances is None:
            return None
        variances, nothing = scale.variances, np.zeros((len(scale.X), 0))
        active = places_among(rows.X_active, scale.X)
        others = RowsOfFit(scale.X, nothing, np.zeros(len(active)), active, rows.X_active)
        return lambda partners: self.correlations(rows, variance, others, variances, partners)

    def learnt_scale(self, evidence: Evidence) -> Scale | None:
        """The scale, as `summarised` has it, by some rows that judge; None if there are to be no error bars."""
        if evidence.judging is None:
            return None
        rows = evidence.take(evidence.judged(N_SOME))
        found = self.left_out(rows)
        return None if found is None else self.summarised(rows, found, evidence.judging)

    def summarised(self, rows: RowsOfFit, found: Prediction, judging: Judging) -> Scale:
        """The scale that leaves variances as they are near the data, with a summary of leave-one-out errors.

        `found` is what `left_out` returns for the rows.
        """
        latent = found.variance
        noise = self.kernel.noise(self.kernel.prepare(rows.X))
        left = LeftOut.of(self.kernel, rows.X, rows.Y - found.mean, latent + noise, latent, found.novelty)
        places = Scale.places_of(self.kernel, rows.X) if judging.calibrate else None
        if places is not None:
            variance = latent + rows.noise
            places = replace(places, rho=self.correlations(rows, variance, rows, variance, places.partners))
        return Scale.none(left, judging.floor, places).of_model(self.kernel, judging.calibrate)


def _each(std: Floats, mean: Floats) -> Floats:
    """Standard deviations of shape (n,), for every target of means of shape (n, q)."""
    return np.broadcast_to(std[:, None], mean.shape)


def _roots(variance: Floats, mean: Floats) -> Floats:
    """Standard deviations for every target of means of shape (n, q), never zero."""
    return _each(np.sqrt(np.maximum(variance, np.finfo(np.float64).tiny)), mean)


def _squares(block: Block) -> Floats:
    """The sum of each target's squares over a block, less what is noise of the rows' own; of shape (q,)."""
    squares, alpha = np.square(block.y), block.alpha
    return np.asarray((squares if alpha is None else np.maximum(squares - alpha[:, None], 0)).sum(axis=0))


def in_blocks(function: Callable[[Array], tuple[Floats, ...]], X: Sliced, width: int, entries: int = 0) -> list[Floats]:
    """Apply a function to blocks of rows, in threads, and join each of the arrays that it returns.

    A block has as many rows as fit into `entries` numbers (by default `BLOCK`) with `width` numbers a row.
    """
    size = max(1, (entries or BLOCK) // max(width, 1))
    blocks = [X[begin : begin + size] for begin in range(0, max(len(X), 1), size)]
    parts = threaded_map(function, blocks)
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


def covariance_block(kernel: CompiledKernel, rows: Features) -> Floats:
    """The latent covariance k(x, x') of some rows, its diagonal free of the rounding of distances; shape (n, n)."""
    K = kernel.block(rows, rows)
    np.fill_diagonal(K, kernel.diag(rows))
    return K
