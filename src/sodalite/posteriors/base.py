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
from .far import Far, novelty_of
from .predictive import Predictive
from .shape import LeftOut, LeftTogether

BLOCK = 2**20  # numbers that one thread holds at a time, 8 MB of k(I, x): large for the product, small for memory
Needs = Literal["passes", "all", "all in memory"]  # what a posterior needs of the rows: see `Posterior.needs`
N_SOME = 1000  # rows that error bars are summarised from; a quantile of 10 % then rests on 100 rows


@dataclass(frozen=True)
class Judging:
    """How the error bars of a model are learnt: which rows judge it, and what its predictions are held to."""

    calibrate: bool = True
    """Whether variances are calibrated (`sodalite.posteriors.calibration`): far from all rows, no less than the
    targets' own variance, and for "local" scaled by leave-one-out errors of the rows near by."""
    far: Far | None = None
    """How error bars change away from the rows, before that is learnt; None for the process as it is."""
    together: LeftTogether | None = None
    """Rows that were left out together, by which that is learnt."""
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
        together: LeftTogether | None = None,
    ) -> Judging:
        """For a model of some rows, of which `judges` may judge it. O(n (q + d)).

        Far from all rows, the least variance is the mean square of the targets, which have a prior mean of zero, of
        several targets the largest, and no less than `spread`, the largest variance of a target before a mean function
        was subtracted. Rows that are nothing but noise, by their alpha, do not judge: their errors say nothing of a
        model.
        """
        n, far = rows.shape[0], None
        if calibrate:
            squares = rows.map(_squares, np.add, ALL)
            low, high = rows.map(_ends, _widest)
            some = rows.take(np.sort(generator.permutation(n)[:N_SOME])).y
            steps = np.concatenate([np.diff(np.unique(column)) for column in some.T])
            resolution = float(steps.min()) if len(steps) else 0.0
            far = Far(max(float(np.max(squares)) / n, spread), low, high, resolution=resolution)
        seed = int(generator.integers(2**32))
        if rows.has_alpha:
            every = np.arange(n) if judges is None else judges
            kept = every[~noise_alone(rows)[every]]
            judges = kept if 0 < len(kept) < len(every) else judges
        return cls(calibrate, far, together, optimism, judges, seed)


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


class ErrorBarsAt(NamedTuple):
    """The error bars of some rows."""

    novelty: Floats
    """The share of what is not known, of shape (n,)."""
    noise: Floats
    """Noise variances, not calibrated, of shape (n,)."""
    std: Floats
    """Standard deviations of observations, of shape (n,)."""
    widths: Floats
    """Widths of errors by their learnt shape, of shape (n, q); (n, 0) where all are Gaussian."""
    most: Floats | None
    """Twice the standard deviation of a row of which nothing is known, of shape (n,); None for no limit."""


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
        """The share of the latent prior variance that is left at every row of X, of shape (n,).

        Rows beyond the ends of the inputs are the less known the farther they are, whatever the kernel says.
        """
        X = np.asarray(X, dtype=np.float64)
        return self._error_bars(X, self.predict(X)).novelty

    def calibrated(self, X: Array, noisy: bool = False, joint: bool = False) -> Prediction:
        """The latent function or, if `noisy`, new observations of it, with the standard deviations of error bars."""
        X = np.asarray(X, dtype=np.float64)
        found = self.predict(X, joint)
        bars = self._error_bars(X, found)
        if not joint:
            observed = found.variance + bars.noise
            share = np.divide(found.variance, observed, out=np.ones(len(X)), where=observed > 0)
            return Prediction(found.mean, np.square(bars.std) * (1.0 if noisy else share), bars.novelty)
        covariance = found.variance
        diagonal = np.einsum("ii->i", covariance)
        np.maximum(diagonal, 0, out=diagonal)  # rounding may leave a small negative number
        observed = diagonal + bars.noise
        if noisy:
            diagonal += bars.noise
        if self.scale is not None:
            root = np.divide(bars.std, np.sqrt(observed), out=np.ones(len(X)), where=observed > 0)
            covariance *= np.multiply.outer(root, root)
        return Prediction(found.mean, covariance, bars.novelty)

    def predictive(self, X: Array) -> Predictive:
        """The predictive distribution of new observations at X, by the learnt shape of errors."""
        X = np.asarray(X, dtype=np.float64)
        found = self.predict(X)
        bars = self._error_bars(X, found)
        most = None if bars.most is None else np.broadcast_to(bars.most[:, None], found.mean.shape)
        made = (self.scale or Scale()).predictive(found.mean, bars.std, bars.widths)
        return replace(made, novelty=bars.novelty, most=most)

    def _error_bars(self, X: Floats, found: Prediction) -> ErrorBarsAt:
        """Standard deviations and widths of the errors of predictions."""
        scale, variance = self.scale, found.variance
        latent = np.maximum(variance.diagonal(), 0) if variance.ndim == 2 else variance
        far = None if scale is None else scale.far

        def block(which: Indices) -> tuple[Floats, ...]:
            rows = self.kernel.prepare(X[which])
            prior, noise = self.kernel.diag(rows), self.kernel.noise(rows)
            novelty = novelty_of(latent[which], prior) if found.novelty is None else found.novelty[which]
            if scale is None:
                return novelty, noise, np.sqrt(latent[which] + noise), np.empty((len(which), 0)), np.empty(len(which))
            std, widths = scale.error_bars(X[which], latent[which] + noise, novelty, prior + noise)
            most = scale.most(prior + noise)
            if far is None or most is None:
                return novelty, noise, std, widths, np.empty(len(which))
            return far.novelty(novelty, X[which]), noise, np.minimum(std, most), widths, most

        novelty, noise, std, widths, most = in_blocks(block, np.arange(len(X)), 4 * X.shape[1])
        return ErrorBarsAt(novelty, noise, std, widths, None if far is None else most)

    def predictive_left_out(self, rows: RowsOfFit, found: Prediction) -> Predictive:
        """The distribution of the scaled targets of rows, from what `left_out` returns for them.

        The widths of errors are learnt from the other rows, too.
        """
        scale, left = self.scale or Scale(), self._as_left_out(rows, found)
        near, known = scale.nearby, None
        if near is not None and near.variances is not None:
            known = self._correlations_with_places(near.X, near.variances, rows, left.variance)
        std, widths = scale.left_out(left, known)
        std = np.maximum(std, np.sqrt(np.finfo(np.float64).tiny))
        return replace(scale.predictive(found.mean, std, widths), novelty=left.novelty)

    def _as_left_out(self, rows: RowsOfFit, found: Prediction) -> LeftOut:
        """What `left_out` returns for some rows, as errors with their variances."""
        latent, prior = found.variance, self.kernel.diag(self.kernel.prepare(rows.X))
        novelty = novelty_of(latent, prior) if found.novelty is None else found.novelty
        return LeftOut(rows.X, rows.Y - found.mean, latent + rows.noise, prior + rows.noise, novelty)

    def _correlations_with_places(
        self, places: Floats, variances: Floats, rows: RowsOfFit, variance: Floats
    ) -> Correlations:
        """How the errors of rows correlate with those at some places, whose variances are given."""
        active = places_among(rows.X_active, places)
        others = RowsOfFit(places, np.zeros((len(places), 0)), np.zeros(len(active)), active, rows.X_active)
        return lambda partners: self.correlations(rows, variance, others, variances, partners)

    def learnt_scale(self, evidence: Evidence) -> Scale | None:
        """The error bars, by some rows that judge; None if there are to be none."""
        if evidence.judging is None:
            return None
        rows = evidence.take(evidence.judged(N_SOME))
        found = self.left_out(rows)
        return None if found is None else self.scale_from(rows, found, evidence.judging)

    def scale_from(self, rows: RowsOfFit, found: Prediction, judging: Judging) -> Scale:
        """The error bars that leave-one-out errors tell, or those of the process, with a summary of these errors.

        `found` is what `left_out` returns for the rows.
        """
        kernel, left, together, places = self.kernel, self._as_left_out(rows, found), judging.together, None
        scale = Scale()
        if judging.calibrate:
            places = Scale.places_of(kernel, rows.X)
            if places is not None:
                rho = self.correlations(rows, left.variance, rows, left.variance, places.partners)
                places = replace(places, rho=rho)
            unseen = replace(left, error=np.sqrt(judging.optimism) * left.error)
            scale = Scale.learn(unseen, places, judging.far, together)
        return scale.summarised(left, places, found.variance, kernel.noise(kernel.prepare(rows.X)), together)


def _squares(block: Block) -> Floats:
    """The sum of each target's squares over a block, less what is noise of the rows' own; of shape (q,)."""
    squares, alpha = np.square(block.y), block.alpha
    return np.asarray((squares if alpha is None else np.maximum(squares - alpha[:, None], 0)).sum(axis=0))


def _ends(block: Block) -> tuple[Floats, Floats]:
    """The least and the largest value of every input in a block, each of shape (d,)."""
    return block.X.min(axis=0).astype(np.float64), block.X.max(axis=0).astype(np.float64)


def _widest(one: tuple[Floats, Floats], other: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """The ends of two blocks together."""
    return np.minimum(one[0], other[0]), np.maximum(one[1], other[1])


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
