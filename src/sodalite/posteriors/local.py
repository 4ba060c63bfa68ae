"""Local: each query is conditioned on the active rows and on its own nearest rows of the remainder.

With the remainder's covariance given the active rows, c(a, b) = k(a, b) - v(a).v(b), and its residual r,

    mean = mu(x) + c(x, N) [c(N, N) + noise]^-1 r_N
    variance = s^2(x) - c(x, N) [c(N, N) + noise]^-1 c(N, x)

which is the exact Gaussian process given the active rows and N: nothing is approximated but the choice of rows. The
active rows carry what is far and smooth, the neighbours what is near and sharp.

Rows with the same inputs are one neighbour, whose target is their mean and whose noise is accordingly less: the same
posterior, and no neighbour wasted on what is known already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np

from ..core.memory import available, parse_bytes
from ..core.threads import threaded_map
from ..core.types import Array
from ..kernels import CompiledKernel, Features, take
from ..kernels.neighbours import Neighbours, distinct
from .base import N_SOME, Evidence, PosteriorTraits, covariance_block, in_blocks, scaled, scaled_covariance
from .calibration import Scale, log_densities, novelty_of
from .sod import SubsetOfData

SIZES = (8, 16, 32, 64)  # numbers of neighbours that are tried
GOOD_ENOUGH = 0.005  # of log density per row that fewer neighbours may lose
WORK = 2**19  # entries of the neighbours' v's that are gathered at a time, per thread: 4 MB
N_JUDGED = 4000  # rows by which their number is chosen, and error bars are scaled
FAR = 1e12  # noise that takes an observation out


@dataclass(frozen=True)
class Local(PosteriorTraits):
    """The posterior given the active rows and each query's neighbours. O(k m + k^2 m + k^3) a query, in batches."""

    name: ClassVar[str] = "local"
    needs_all_rows: ClassVar[bool] = True
    leaves_out: ClassVar[bool] = True

    kernel: CompiledKernel
    base: SubsetOfData
    """The posterior given the active rows alone."""
    X: Array
    """The distinct rows of the remainder; of shape (n', d)."""
    rows: Features = field(repr=False)
    """The same, prepared."""
    r: Array
    """Their mean residuals; of shape (n', q)."""
    noises: Array
    """The noise variances of these means; of shape (n',)."""
    near: Neighbours = field(repr=False)
    V: Array | None = field(repr=False)
    """Their v's, of shape (n', m), where memory allows it."""
    k: int
    """How many neighbours a query has."""
    scale: Scale | None = None
    """What the variances are multiplied by."""
    limit: int = 0
    """Bytes that `V` may take, if it is to be made later."""

    @classmethod
    def condition(cls, evidence: Evidence) -> Local:
        """The posterior given all rows.

        Unless their number is given, there are as few neighbours as predict a sample of the rows, each from all others,
        nearly as well as the best number does, error bars scaled as they will be.
        """
        made, rows = cls.prepare(evidence)
        n, k = len(made.X), evidence.n_neighbors
        sizes = sorted({min(size, n) for size in (SIZES if k is None else (k,))})
        alone = len(sizes) == 1 and not evidence.calibrate
        if alone and evidence.floor is None:
            return replace(made, k=sizes[0])
        sample = rows.take(evidence.judged(N_SOME if alone else N_JUDGED))
        errors, variances = made.leave_out(sample, sizes)
        scales: Sequence[Scale | None] = [None] * len(sizes)
        density = [log_densities(error, variance).mean() for error, variance in zip(errors, variances, strict=True)]
        if evidence.calibrate:
            floor = evidence.floor or 0.0
            scales = fitted = Scale.fit_each(
                made.kernel, sample.X, errors, variances, sample.noise, floor, evidence.optimism
            )
            density = [scale.density for scale in fitted]
        chosen = int(np.argmax(np.array(density) >= max(density) - GOOD_ENOUGH))
        scale = scales[chosen]
        if scale is None and evidence.floor is not None:
            latent = np.maximum(variances[chosen] - sample.noise, 0)
            where = np.asarray(sample.X, dtype=np.float64)
            scale = Scale.none(made.kernel, where, latent, errors[chosen], evidence.floor)
        return replace(made, k=sizes[chosen], scale=scale)

    @classmethod
    def prepare(cls, evidence: Evidence) -> tuple[Local, Observations]:
        """The posterior with no neighbours yet, and all observations, to judge it by."""
        kernel, base = evidence.kernel, SubsetOfData.condition(replace(evidence, floor=None))
        remains = np.ones(len(evidence.X), dtype=bool)
        remains[evidence.selection.indices] = False
        rest = np.flatnonzero(remains)
        X_rest = np.asarray(evidence.X[rest], dtype=np.float64)
        first, group = distinct(X_rest)
        X, rows = X_rest[first], kernel.prepare(X_rest[first])
        limit = available() // 4 if evidence.memory_limit is None else parse_bytes(evidence.memory_limit)
        V = _coordinates(base, rows, len(X)) if 8 * len(X) * len(base.z) <= limit else None
        mean = base.mean(X) if V is None else V @ base.z
        noise, r = evidence.noise(rest), evidence.y[rest] - mean[group]
        precision = np.bincount(group, 1 / noise, minlength=len(X))
        means = np.stack([np.bincount(group, c / noise, minlength=len(X)) for c in r.T], axis=1) / precision[:, None]
        made = cls(kernel, base, X, rows, means, 1 / precision, Neighbours(kernel, X), V, k=0, limit=limit)
        n, active = len(evidence.X), evidence.selection.indices
        residual = np.empty((n, evidence.y.shape[1]))
        residual[rest], residual[active] = r, evidence.y[active] - base.mean(evidence.X[active])
        every = Observations(
            X=np.asarray(evidence.X),
            r=residual,
            noise=evidence.noise(slice(None)),
            group=np.full(n, -1),
            active=np.full(n, -1),
        )
        every.group[rest], every.active[active] = group, np.arange(len(active))
        return made, every

    @classmethod
    def restore(
        cls,
        kernel: CompiledKernel,
        base: SubsetOfData,
        X: Array,
        r: Array,
        noises: Array,
        k: int,
        scale: Scale | None,
        limit: int,
    ) -> Local:
        """The posterior from what cannot be had again in O(n); the v's are made when many queries ask for them."""
        return cls(kernel, base, X, kernel.prepare(X), r, noises, Neighbours(kernel, X), None, k, scale, limit)

    def __getstate__(self) -> dict[str, Any]:
        """Everything but what can be made again from the rest, which may be many times as large."""
        names = [part.name for part in fields(self) if part.name not in ("rows", "near", "V")]
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(self.restore(**state).__dict__)

    def mean(self, X: Array) -> Array:
        """The mean at every row of X, of shape (n, q)."""
        return self._unscaled(np.asarray(X, dtype=np.float64))[0]

    def mean_and_variance(self, X: Array, noisy: bool = False) -> tuple[Array, Array]:
        """The mean, of shape (n, q), and the variance, of shape (n,): the latent one, or with the noise."""
        return self.mean_variance_novelty(X, noisy)[:2]

    def mean_variance_novelty(self, X: Array, noisy: bool = False) -> tuple[Array, Array, Array]:
        """The mean and the variance, and the share of the latent prior variance that is left, of shape (n,)."""
        X = np.asarray(X, dtype=np.float64)
        mean, latent = self._unscaled(X)
        rows = self.kernel.prepare(X)
        novelty = novelty_of(latent, self.kernel.diag(rows))
        return mean, scaled(self.scale, self.kernel, X, latent, novelty, noisy, rows), novelty

    def _unscaled(self, X: Array) -> tuple[Array, Array]:
        m, k = len(self.base.z), self.k
        if not k:
            return self.base.latent(X)
        self._recall(len(X) * k)
        found = self.near.query(X, k)
        # Where the v's are kept, batches of a few queries stay in the cache; where not, neighbours shared by many
        # queries of a large batch are projected once.
        entries = WORK if self.V is not None else 64 * WORK
        places = np.arange(len(X))
        mean, variance = in_blocks(lambda at: self._predict(X[at], found[at]), places, k * (m + 3 * k), entries)
        return mean, variance

    def mean_and_covariance(self, X: Array, noisy: bool = False) -> tuple[Array, Array]:
        """The mean, of shape (n, q), and the covariance, of shape (n, n), given the union of the neighbours."""
        X = np.asarray(X, dtype=np.float64)
        kernel, base = self.kernel, self.base
        rows, K = base._covariances(X)
        v = base.inverse @ K
        near = np.unique(self.near.query(X, self.k)) if self.k else np.empty(0, dtype=np.intp)
        mean, covariance = base._mean(K), covariance_block(kernel, rows) - v.T @ v
        if len(near):
            N, V = take(self.rows, near), self._v(near)
            C = covariance_block(kernel, N) - V @ V.T
            C.flat[:: len(near) + 1] += self.noises[near]
            c = kernel.block(N, rows) - V @ v
            solved = np.linalg.solve(C, np.concatenate([c, self.r[near]], axis=1))
            mean = mean + c.T @ solved[:, len(X) :]
            covariance -= c.T @ solved[:, : len(X)]
        novelty = novelty_of(covariance.diagonal(), kernel.diag(rows))
        covariance = scaled_covariance(self.scale, kernel, X, covariance, novelty, noisy)
        return mean, 0.5 * (covariance + covariance.T)

    @property
    def log_marginal_likelihood(self) -> float:
        """Of the active rows; the others have none of their own here."""
        return self.base.log_marginal_likelihood

    def errors(self, sample: Observations, k: int) -> tuple[Array, Array]:
        """How far each observation is from what all others say, and the variance of that; (sample, q) and (sample,)."""
        error, variance = self.leave_out(sample, (k,))
        return error[0], variance[0]

    def leave_out(self, sample: Observations, sizes: Sequence[int]) -> tuple[Array, Array]:
        """The same for several numbers of neighbours; of shape (sizes, sample, q) and (sizes, sample)."""
        most, m = max(sizes) + 1, len(self.base.z)
        X = np.asarray(sample.X, dtype=np.float64)
        found = self.near.query(X, most)

        def block(at: Array) -> tuple[Array, Array]:
            return self._leave_out(X[at], sample.take(at), found[at], sizes)

        error, variance = in_blocks(block, np.arange(len(X)), most * (m + 3 * most), WORK)
        return np.moveaxis(error, 1, 0), variance.T

    def _leave_out(self, X: Array, sample: Observations, found: Array, sizes: Sequence[int]) -> tuple[Array, Array]:
        C, c, s2, _, v, V = self._system(X, found)
        r, noise, own_r = self.r[found], self.noises[found], sample.r.copy()
        # An observation of the remainder is taken out of its group's mean.
        query, place = np.nonzero(found == sample.group[:, None])
        own, all_of_it = 1 / sample.noise[query], 1 / noise[query, place]
        left = all_of_it - own
        alone = left < 1e-9 * all_of_it
        kept = np.where(alone, FAR * (s2.max(initial=0.0) + noise.max(initial=0.0)), 1 / np.where(alone, 1, left))
        others = r[query, place] * all_of_it[:, None] - sample.r[query] * own[:, None]
        r[query, place] = np.where(alone[:, None], 0.0, others * kept[:, None])
        C[query, place, place] += kept - noise[query, place]
        # An active row is taken out of the active rows: with g(x) its weight in the prediction of x and P the inverse
        # of k(I, I) + noise, the covariance grows by g g' / P_ii and the mean falls by g a_i / P_ii.
        here = np.flatnonzero(sample.active >= 0)
        column = self.base.inverse[:, sample.active[here]]
        pivot = np.einsum("ij,ij->j", column, column)
        g, G = np.einsum("ij,ji->i", v[here], column), np.matmul(V[here], column.T[..., None])[..., 0]
        C[here] += G[:, :, None] * G[:, None, :] / pivot[:, None, None]
        c[here] += g[:, None] * G / pivot[:, None]
        s2[here] += g * g / pivot
        change = self.base.weights[sample.active[here]] / pivot[:, None]
        r[here] += G[..., None] * change[:, None, :]
        own_r[here] += g[:, None] * change
        error, variance = np.empty((len(X), len(sizes), r.shape[2])), np.empty((len(X), len(sizes)))
        for i, size in enumerate(sizes):
            # One more for those that have lost one.
            some = slice(0, min(size + 1, found.shape[1]))
            w = np.linalg.solve(C[:, some, some], c[:, some, None])[..., 0]
            error[:, i] = own_r - np.einsum("ij,ijq->iq", w, r[:, some])
            variance[:, i] = np.maximum(s2 - np.einsum("ij,ij->i", w, c[:, some]), 0) + sample.noise
        return error, variance

    def _predict(self, X: Array, found: Array) -> tuple[Array, Array]:
        C, c, s2, mean, _, _ = self._system(X, found)
        w = np.linalg.solve(C, c[..., None])[..., 0]
        mean += np.einsum("ij,ijq->iq", w, self.r[found])
        return mean, np.maximum(s2 - np.einsum("ij,ij->i", w, c), 0)

    def _system(self, X: Array, found: Array) -> tuple[Array, ...]:
        """c(N, N) + noise, c(x, N), s^2(x), mu(x), v(x) and v(N) for some queries, each with its neighbours."""
        kernel, base = self.kernel, self.base
        rows, K = base._covariances(X)
        v = base.inverse @ K
        if self.V is not None:
            V = self.V[found]
        else:
            needed, place = np.unique(found, return_inverse=True)
            V = self._v(needed)[place.reshape(found.shape)]
        N = take(self.rows, found)
        C = kernel.block(N, N)
        C -= V @ V.swapaxes(-1, -2)
        diagonal = np.arange(found.shape[1])
        C[:, diagonal, diagonal] += self.noises[found]
        c = kernel.block(take(rows, np.arange(len(X))[:, None]), N)[:, 0]
        c -= np.matmul(V, v.T[..., None])[..., 0]
        s2 = np.maximum(kernel.diag(rows) - np.einsum("ij,ij->j", v, v), 0)
        return C, c, s2, base._mean(K), v.T, V

    def _recall(self, needed: int) -> None:
        """Make the v's of all rows, once those of the neighbours asked for have cost as much, if memory allows it."""
        n, m = len(self.X), len(self.base.z)
        if self.V is not None or 8 * n * m > self.limit:
            return
        needed += self.__dict__.get("_asked", 0)
        object.__setattr__(self, "_asked", needed)  # like what follows, nothing that anybody sees
        if needed >= n:
            object.__setattr__(self, "V", _coordinates(self.base, self.rows, n))

    def _v(self, places: Any) -> Array:
        """The v's of some of the rows, of shape (places, m)."""
        if self.V is not None:
            return np.asarray(self.V[places])
        return np.asarray((self.base.inverse @ self.kernel.block(self.base.rows, take(self.rows, places))).T)


def _coordinates(base: SubsetOfData, rows: Features, n: int) -> Array:
    """The v's of n rows, of shape (n, m)."""
    m = len(base.z)
    V, size = np.empty((n, m)), max(1, 2**20 // m)

    def project(here: slice) -> None:
        V[here] = (base.inverse @ base.kernel.block(base.rows, take(rows, here))).T

    threaded_map(project, [slice(a, min(a + size, n)) for a in range(0, n, size)])
    return V


@dataclass(frozen=True)
class Observations:
    """Observations that are to be predicted, each from all others."""

    X: Array
    r: Array
    """Their residuals, given the active rows; of shape (rows, q)."""
    noise: Array
    group: Array
    """The place of each one's distinct row of the remainder; -1 for active rows."""
    active: Array
    """The place of each one among the active rows; -1 for the remainder."""

    def take(self, places: Array) -> Observations:
        """Some of them."""
        return Observations(self.X[places], self.r[places], self.noise[places], self.group[places], self.active[places])
