"""The evidence that posteriors are conditioned on, what a posterior is, and passes over many rows in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self, TypeGuard

import numpy as np

from ..core.memory import parse_bytes
from ..core.threads import n_threads, threaded_map
from ..core.types import Array, Floats, Indices
from ..kernels import CompiledKernel, Features
from ..kernels.neighbours import places_among
from ..kernels.row_store import RowStore
from ..selection.loop import Selection
from ..selection.rows import ALL, ArrayRows, Block, Rows, Sliced, noise_alone
from .calibration import Correlations, Scale
from .novelty import novelty_of
from .predictive import Predictive
from .shape import LeftOut

if TYPE_CHECKING:
    from .leave_one_out import Observations
    from .sod import SubsetOfData

BLOCK = 2**20  # numbers that one thread holds at a time, 8 MB of k(I, x): large for the product, small for memory
N_SOME = 1000  # rows that error bars are summarised from; a quantile of 10 % then rests on 100 rows


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
    calibrate: bool = False
    """Whether variances are calibrated (`sodalite.posteriors.calibration`): far from all rows, no less than the
    targets' own variance, and for "local" scaled by leave-one-out errors of the rows near by."""
    generator: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    """Draws `seed` in `of_model`."""
    seed: int = 0
    """The random seed of `judged`."""
    optimism: float = 1.0
    """How many times as large squared errors are for rows that the hyperparameters have not seen, over leave-one-out
    errors, which are those of rows that they have seen."""
    judges: Indices | None = None
    """The rows that `judged` draws from; None for all."""
    floor: float | None = None
    """The least variance of an observation far from all rows; None for a posterior that is no part of a model, which
    needs neither error bars nor a scale."""

    store: RowStore | None = None
    """The rows that are not active, with their residuals, if they are laid out already; for "local"."""
    spread: float = 0.0
    """The largest variance of a target before a mean function was subtracted, in units of the scaled targets."""

    @property
    def X(self) -> Sliced:
        """Inputs, of shape (n, d)."""
        return self.rows.X if isinstance(self.rows, ArrayRows) else _Column(self.rows, "X")

    @property
    def y(self) -> Sliced:
        """Targets, of shape (n, q)."""
        return self.rows.y if isinstance(self.rows, ArrayRows) else _Column(self.rows, "y")

    @property
    def alpha(self) -> Sliced | None:
        """Noise variance of each row beyond the kernel's, of shape (n,)."""
        if isinstance(self.rows, ArrayRows):
            return self.rows.alpha
        return _Column(self.rows, "alpha") if self.rows.has_alpha else None

    def of_model(self) -> Evidence:
        """The evidence with `floor` and `seed` set, as the posterior of a model needs it. O(n q).

        The floor is the mean square of the targets, which have a prior mean of zero, and no less than `spread`; of
        several targets the largest; 0 if variances are not to be calibrated.
        """
        square = float(np.max(self.rows.map(_squares, np.add, ALL))) / len(self.X) if self.calibrate else 0.0
        floor = max(square, self.spread) if self.calibrate else 0.0
        seed = int(self.generator.integers(2**32))
        return replace(self, floor=floor, seed=seed, judges=self._judges_of_model())

    def _judges_of_model(self) -> Indices | None:
        """The judges without rows that are nothing but noise, by their alpha: their errors say nothing of a model."""
        if self.alpha is None:
            return self.judges
        every = np.arange(len(self.X)) if self.judges is None else self.judges
        kept = every[~noise_alone(self.rows)[every]]
        return kept if 0 < len(kept) < len(every) else self.judges

    def judged(self, most: int) -> Indices:
        """At most `most` rows, drawn at random, that summaries of all rows are made from; in increasing order.

        They follow from `seed`: every call returns the same rows, and fewer rows are a subset of more.
        """
        rows = np.random.default_rng(self.seed).permutation(len(self.X) if self.judges is None else self.judges)
        return np.sort(rows[:most])

    def noise(self, which: Indices | slice) -> Floats:
        """The noise variance of some rows, no less than the selection's noise floor; of shape (rows,)."""
        return self.noise_of(self.kernel.prepare(self.X[which]), which)

    def noise_of(self, rows: Features, which: Indices | slice) -> Floats:
        """The noise variance, as `noise` has it, of rows that are prepared already; of shape (rows,)."""
        noise = self.kernel.noise(rows).astype(np.float64)
        if self.alpha is not None:
            noise += self.alpha[which]
        return np.maximum(noise, self.selection.noise_floor)

    def block_rows(self, m: int) -> int:
        """How many rows to take at a time, with m covariances each, within `BLOCK` numbers and the memory limit."""
        d, size = self.X.shape[1], BLOCK // m
        if self.memory_limit is not None:
            # Half of the limit. A row takes 4 m numbers for covariances and about 8 d for inputs, prepared and copied.
            share = parse_bytes(self.memory_limit) // (2 * n_threads(None))
            size = min(size, share // (8 * (4 * m + 8 * d)))
        return int(max(1, min(size, BLOCK // d)))


class _Column:
    """X, y or alpha of rows that are elsewhere, indexed by row numbers."""

    def __init__(self, rows: Rows, name: str) -> None:
        self.rows, self.name = rows, name
        n, d = rows.shape
        self.shape = {"X": (n, d), "y": (n, rows.q), "alpha": (n,)}[name]
        self.dtype = rows.dtype if name == "X" else np.dtype(np.float64)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, which: slice | Indices) -> Any:
        indices = np.arange(len(self))[which] if isinstance(which, slice) else np.asarray(which)
        return getattr(self.rows.take(indices), self.name)


class PosteriorTraits:
    """What a posterior needs and can do. A posterior of your own derives from this, and overrides what differs."""

    name: ClassVar[str]
    """Its name in files and reports: the name of the class, unless it sets another."""
    needs_all_rows: ClassVar[bool] = False
    """Whether `condition` needs all rows in memory; if not, they may stay on disk or on a cluster."""
    reads_from_disk: ClassVar[bool] = False
    """Whether rows that do not fit into memory may be on disk nevertheless; if not, a fit to them is refused."""
    leaves_out: ClassVar[bool] = False
    """Whether it predicts from neighbours, and computes leave-one-out errors for any number of them (`LeavesOut`)."""
    likelihood_of_all_rows: ClassVar[bool] = False
    """Whether `log_marginal_likelihood` is that of all rows, not of the active ones; then it has a `gradient`."""

    @classmethod
    def least_memory(cls, n: int, d: int, m: int, n_neighbors: int | None, calibrate: bool) -> int:
        """Bytes that conditioning on n rows of d inputs, m of them active, takes at least if the rows are on disk."""
        return 0

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.name = cls.__dict__.get("name", cls.__name__)

    def predictive(self: Any, X: Array) -> Predictive:
        """The predictive distribution of new observations at X: Gaussian, unless a posterior knows better."""
        mean, variance, novelty = self.mean_variance_novelty(X, noisy=True)
        return Predictive.gaussian(mean, _each(np.sqrt(variance), mean), novelty)

    def on_active_rows(self) -> SubsetOfData | None:
        """The posterior given the active rows alone that this one builds on; None if it builds on none."""
        return None

    def left_out(self, rows: RowsOfFit) -> LeaveOneOutErrors | None:
        """Rows of the fit, each predicted from the others; None if the posterior cannot leave these rows out."""
        return None

    def gradient(self, evidence: Evidence) -> Floats:
        """The gradient of `log_marginal_likelihood` by the kernel's log-parameters, of shape (p,)."""
        raise NotImplementedError


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
    are_certain: bool
    """Whether all of them are rows of the fit; if not, some may be new."""


class LeaveOneOutErrors(NamedTuple):
    """Predictions of rows, each left out of the posterior, before anything is calibrated."""

    residual: Floats
    """Of every target; of shape (rows, q)."""
    remaining: Floats
    """The variance of the latent function that is left, which novelty is a share of; of shape (rows,)."""
    latent: Floats
    """The variance of the latent function as the posterior reports it: "sor" has less than is left. (rows,)."""
    correlations: Correlations | None = None
    """How the errors correlate with those at places of the posterior's scale, if that is known."""


class Posterior(Protocol):
    """The latent function given the data; with `noisy`, new observations of it.

    A posterior derives from `PosteriorTraits` and has these methods, of which `predictive` is there already.
    """

    name: ClassVar[str]
    needs_all_rows: ClassVar[bool]
    reads_from_disk: ClassVar[bool]
    leaves_out: ClassVar[bool]
    likelihood_of_all_rows: ClassVar[bool]

    @classmethod
    def least_memory(cls, n: int, d: int, m: int, n_neighbors: int | None, calibrate: bool) -> int:
        """Bytes that conditioning on n rows on disk takes at least; `PosteriorTraits` has 0."""
        ...

    @property
    def kernel(self) -> CompiledKernel:
        """In float64."""
        ...

    @property
    def scale(self) -> Scale | None:
        """The factor that variances are multiplied by; None for the Gaussian process as it is."""
        ...

    @property
    def log_marginal_likelihood(self) -> float:
        """Log density of the targets of the rows that it is conditioned on."""
        ...

    @classmethod
    def condition(cls, evidence: Evidence) -> Self:
        """The posterior given all rows, or given the active ones."""
        ...

    def mean(self, X: Array) -> Floats:
        """The mean at every row of X, of shape (n, q)."""
        ...

    def mean_and_variance(self, X: Array, noisy: bool = False) -> tuple[Floats, Floats]:
        """The mean, of shape (n, q), and the variance, of shape (n,)."""
        ...

    def mean_and_covariance(self, X: Array, noisy: bool = False) -> tuple[Floats, Floats]:
        """The mean, of shape (n, q), and the covariance, of shape (n, n)."""
        ...

    def mean_variance_novelty(self, X: Array, noisy: bool = False) -> tuple[Floats, Floats, Floats]:
        """The mean and the variance, and the share of the latent prior variance that is left, of shape (n,)."""
        ...

    def predictive(self, X: Array) -> Predictive:
        """The predictive distribution of new observations; `PosteriorTraits` has a Gaussian one."""
        ...

    def on_active_rows(self) -> SubsetOfData | None:
        """The posterior given the active rows alone that this one builds on, if any; `PosteriorTraits` has none."""
        ...

    def left_out(self, rows: RowsOfFit) -> LeaveOneOutErrors | None:
        """Rows of the fit, each predicted from the others, if it can; `PosteriorTraits` has none."""
        ...

    def gradient(self, evidence: Evidence) -> Floats:
        """The gradient of `log_marginal_likelihood`; needed if `likelihood_of_all_rows`."""
        ...


def predictive_left_out(posterior: Posterior, rows: RowsOfFit, errors: LeaveOneOutErrors) -> Predictive:
    """The distribution of every row's scaled targets given the other rows: mean, scale and width are theirs."""
    kernel, scale = posterior.kernel, posterior.scale
    prior = kernel.diag(kernel.prepare(rows.X))
    novelty, variance = novelty_of(errors.remaining, prior), errors.latent + rows.noise
    mean = rows.Y - errors.residual
    if scale is None:
        return Predictive.gaussian(mean, _roots(variance, mean), novelty)
    left = LeftOut(rows.X, errors.residual, variance, errors.latent, prior, novelty)
    factor, widths = scale.left_out(left, places_among(scale.X, rows.X), errors.correlations)
    std = _roots((variance + scale.extra) * factor, mean)
    if scale.shape is None:
        return Predictive.gaussian(mean, std, novelty)
    return Predictive(mean, std, widths, scale.outside(novelty), scale.shape.standards, novelty)


def _roots(variance: Floats, mean: Floats) -> Floats:
    """Standard deviations for every target of means of shape (n, q), never zero."""
    return _each(np.sqrt(np.maximum(variance, np.finfo(np.float64).tiny)), mean)


class LeavesOut(Posterior, Protocol):
    """A posterior with `leaves_out`, from neighbours whose number is still open."""

    X: Floats
    """The rows that neighbours are sought among; of shape (n', d)."""

    @classmethod
    def prepare(cls, evidence: Evidence) -> tuple[LeavesOut, Observations]:
        """The posterior before the number of neighbours is chosen, and all observations."""
        ...

    def errors(self, sample: Observations, k: int | None = None) -> tuple[Floats, Floats]:
        """Leave-one-out errors from k neighbours, of shape (sample, q), and their variances with noise, (sample,)."""
        ...


def can_leave_out(posterior: type[Posterior]) -> TypeGuard[type[LeavesOut]]:
    """Whether a posterior is a `LeavesOut`."""
    return posterior.leaves_out


class Calibrated(PosteriorTraits):
    """What the built-in posteriors share: calibrated variances and distributions, from those of the process."""

    kernel: CompiledKernel
    scale: Scale | None

    def uncalibrated(self, X: Floats) -> tuple[Floats, Floats, Floats]:
        """The mean, of shape (n, q), the variance of the latent function and the novelty, of shape (n,)."""
        raise NotImplementedError

    def mean_and_variance(self, X: Array, noisy: bool = False) -> tuple[Floats, Floats]:
        """The mean, of shape (n, q), and the variance, of shape (n,): the latent one, or with the noise."""
        return self.mean_variance_novelty(X, noisy)[:2]

    def mean_variance_novelty(self, X: Array, noisy: bool = False) -> tuple[Floats, Floats, Floats]:
        """The mean and the variance, and the share of the latent prior variance that is left, of shape (n,)."""
        X = np.asarray(X, dtype=np.float64)
        mean, latent, novelty = self.uncalibrated(X)

        def block(which: Indices) -> tuple[Floats]:
            factor, noise = factor_and_noise(self.scale, self.kernel, X[which], novelty[which])
            return (np.asarray((latent[which] + noise if noisy else latent[which]) * factor),)

        (variance,) = in_blocks(block, np.arange(len(X)), 4 * X.shape[1])
        return mean, variance, novelty

    def predictive(self, X: Array) -> Predictive:
        """The predictive distribution of new observations at X, by the learnt shape of errors."""
        X = np.asarray(X, dtype=np.float64)
        scale = self.scale
        if scale is None or scale.shape is None or scale.shape.is_gaussian:
            mean, variance, novelty = self.mean_variance_novelty(X, noisy=True)
            return Predictive.gaussian(mean, _each(np.sqrt(variance), mean), novelty)
        mean, latent, novelty = self.uncalibrated(X)

        def block(which: Indices) -> tuple[Floats, Floats]:
            rows = self.kernel.prepare(X[which])
            noise = self.kernel.noise(rows) + scale.extra
            prior, variance = self.kernel.diag(rows) + noise, latent[which] + noise
            factor, width = scale.factor_and_widths(X[which], variance, novelty[which], prior)
            return np.sqrt(variance * factor), width

        std, width = in_blocks(block, np.arange(len(X)), 4 * X.shape[1])
        share = scale.outside(novelty)
        return Predictive(mean, _each(std, mean), width, share, scale.shape.standards, novelty)


def _each(std: Floats, mean: Floats) -> Floats:
    """Standard deviations of shape (n,), for every target of means of shape (n, q)."""
    return np.broadcast_to(std[:, None], mean.shape)


def scaled_covariance(
    scale: Scale | None, kernel: CompiledKernel, X: Array, covariance: Floats, novelty: Floats, noisy: bool
) -> Floats:
    """Calibrated covariance, of shape (n, n), made from that of the latent function, which is overwritten."""
    factor, noise = factor_and_noise(scale, kernel, X, novelty)
    variance = np.einsum("ii->i", covariance)
    np.maximum(variance, 0, out=variance)  # rounding may leave a small negative number
    if noisy:
        variance += noise
    if scale is not None:
        root = np.sqrt(factor)
        covariance *= np.multiply.outer(root, root)
    return covariance


def factor_and_noise(
    scale: Scale | None, kernel: CompiledKernel, X: Array, novelty: Floats
) -> tuple[Floats | float, Floats]:
    """The factor that variances are multiplied by, and the noise variances before that; of shape (n,)."""
    rows = kernel.prepare(X)
    noise = kernel.noise(rows)
    if scale is None:
        return 1.0, noise
    noise += scale.extra
    return scale.factor(X, novelty, kernel.diag(rows) + noise), noise


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
