"""What all posteriors are built from, and how they go through many rows in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from ..core.memory import parse_bytes
from ..core.threads import n_threads, threaded_map
from ..core.types import Array
from ..kernels import CompiledKernel, Features
from ..selection.loop import Selection
from ..selection.source import Sliced, Source
from .calibration import Scale

BLOCK = 2**20  # entries of k(I, x) that are held at a time, per thread: 8 MB
N_SOME = 1000  # rows that error bars are summarised by


@dataclass(frozen=True)
class Evidence:
    """All rows, and which of them are active."""

    kernel: CompiledKernel
    """In float64."""
    source: Source
    """The rows, wherever they are."""
    selection: Selection
    memory_limit: Any = None
    """What may be kept beside the data, in bytes or as a string; None for a share of what is free."""
    n_neighbors: int | None = None
    """For "local": how many neighbours a query has; None for as many as the data ask for."""
    calibrate: bool = False
    """Whether error bars are made honest (`sodalite.posteriors.calibration`): far from all rows, no less than the
    targets' own spread, and for "local" scaled by how wrong the model was near by."""
    generator: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    """Draws the rows by which these are chosen."""
    seed: int = 0
    """Says which rows a summary of all rows is made from."""
    optimism: float = 1.0
    """How many times as large squared errors are as leave-one-out errors say, as the hyperparameters saw all rows."""
    floor: float | None = None
    """The least variance of an observation far from all rows; None for a process that is no part of a model."""

    @property
    def X(self) -> Sliced:
        """Inputs, of shape (n, d)."""
        return self.source.X

    @property
    def y(self) -> Sliced:
        """Targets, of shape (n, q)."""
        return self.source.y

    @property
    def alpha(self) -> Sliced | None:
        """Noise variance of each row beyond the kernel's, of shape (n,)."""
        return self.source.alpha

    def of_model(self) -> Evidence:
        """The same evidence, for the posterior of a model: its error bars are summed up, and have a floor.

        That is the targets' mean square about the prior mean, of several targets the largest; nothing if error bars are
        not to be calibrated.
        """
        total = self.source.total(_squares)[0] if self.calibrate else np.zeros(1)
        return replace(self, floor=float(np.max(total)) / len(self.X), seed=int(self.generator.integers(2**32)))

    def judged(self, most: int) -> Array:
        """The places of at most so many rows, that a summary of all rows is made from: the same at every call."""
        return np.sort(np.random.default_rng(self.seed).permutation(len(self.X))[:most])

    def noise(self, rows: Any) -> Array:
        """The noise variance of some rows, and no less than the selection's floor."""
        noise = self.kernel.noise(self.kernel.prepare(self.X[rows])).astype(np.float64)
        if self.alpha is not None:
            noise += self.alpha[rows]
        return np.maximum(noise, self.selection.noise_floor)

    def block_rows(self, m: int) -> int:
        """How many rows to take at a time, with m covariances for each: few if there are many columns or a limit."""
        d, size = self.X.shape[1], BLOCK // m
        if self.memory_limit is not None:  # half of it, for covariances, the rows and the rows prepared, with copies
            share = parse_bytes(self.memory_limit) // (2 * n_threads(None))
            size = min(size, share // (8 * (4 * m + 8 * d)))
        return int(max(1, min(size, BLOCK // d)))


class PosteriorTraits:
    """What a posterior needs and can do. A posterior of your own derives from this, and overrides what differs."""

    name: ClassVar[str]
    """What it is called in files and reports; the name of the class, unless it says otherwise."""
    needs_all_rows: ClassVar[bool] = False
    """Whether `condition` needs all rows in memory; if not, they may stay on disk or on a cluster."""
    leaves_out: ClassVar[bool] = False
    """Whether it predicts rows each from all others, by `prepare` and `errors` as those of `Local`."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.name = cls.__dict__.get("name", cls.__name__)


class Posterior(Protocol):
    """The latent function given the data; with `noisy`, new observations of it.

    A posterior derives from `PosteriorTraits`, and has these methods beside.
    """

    name: ClassVar[str]
    needs_all_rows: ClassVar[bool]
    leaves_out: ClassVar[bool]

    @property
    def kernel(self) -> CompiledKernel:
        """In float64."""
        ...

    @property
    def scale(self) -> Scale | None:
        """What the variances are multiplied by; None for the process as it is."""
        ...

    @property
    def log_marginal_likelihood(self) -> float:
        """Of the rows that it is about."""
        ...

    @classmethod
    def condition(cls, evidence: Evidence) -> Self:
        """The posterior given all rows, or those that it uses."""
        ...

    def mean(self, X: Array) -> Array:
        """The mean at every row of X, of shape (n, q)."""
        ...

    def mean_and_variance(self, X: Array, noisy: bool = False) -> tuple[Array, Array]:
        """The mean, of shape (n, q), and the variance, of shape (n,)."""
        ...

    def mean_and_covariance(self, X: Array, noisy: bool = False) -> tuple[Array, Array]:
        """The mean, of shape (n, q), and the covariance, of shape (n, n)."""
        ...

    def mean_variance_novelty(self, X: Array, noisy: bool = False) -> tuple[Array, Array, Array]:
        """The mean and the variance, and the share of the latent prior variance that is left, of shape (n,)."""
        ...


def scaled(
    scale: Scale | None, kernel: CompiledKernel, X: Array, latent: Array, novelty: Array, noisy: bool, rows: Any = None
) -> Array:
    """Variances as predictions have them: of the latent function, or with `noisy` of observations; of shape (n,).

    `latent` is the variance of the latent function as the process has it; `rows` are those of X, prepared.
    """
    factor, noise = _scaling(scale, kernel, X, novelty, rows)
    return np.asarray((latent + noise if noisy else latent) * factor)


def _scaling(
    scale: Scale | None, kernel: CompiledKernel, X: Array, novelty: Array, rows: Any = None
) -> tuple[Any, Array]:
    """What variances are multiplied by, and the noise variances before that; of shape (n,)."""
    rows = kernel.prepare(X) if rows is None else rows
    noise = kernel.noise(rows)
    if scale is None:
        return 1.0, noise
    noise += scale.extra
    return scale.factor(X, novelty, kernel.diag(rows) + noise), noise


def scaled_covariance(
    scale: Scale | None, kernel: CompiledKernel, X: Array, covariance: Array, novelty: Array, noisy: bool
) -> Array:
    """A covariance as predictions have it, made from that of the latent function, which is overwritten."""
    factor, noise = _scaling(scale, kernel, X, novelty)
    if noisy:
        covariance.flat[:: len(noise) + 1] += noise
    if scale is not None:
        root = np.sqrt(factor)
        covariance *= np.multiply.outer(root, root)
    return covariance


def _squares(X: Array, y: Array, alpha: Array | None) -> tuple[Array, ...]:
    """The sum of each target's squares over some rows."""
    return (np.square(y).sum(axis=0),)


def in_blocks(function: Callable[[Array], tuple[Array, ...]], X: Any, width: int, entries: int = 0) -> list[Array]:
    """Apply a function to blocks of rows, in threads, and join each of the arrays that it returns.

    A block has as many rows as fit `entries` numbers (`BLOCK`, unless given), at `width` numbers a row.
    """
    size = max(1, (entries or BLOCK) // max(width, 1))
    blocks = [X[begin : begin + size] for begin in range(0, max(len(X), 1), size)]
    parts = threaded_map(function, blocks)
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


def covariance_block(kernel: CompiledKernel, rows: Features) -> Array:
    """k(x, x') of some rows, the diagonal as exact as it can be had."""
    K = kernel.block(rows, rows)
    np.fill_diagonal(K, kernel.diag(rows))
    return K
