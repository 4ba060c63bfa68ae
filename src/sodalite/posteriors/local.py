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

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..kernels import CompiledKernel, Features, take
from ..memory import available, parse_bytes
from ..neighbours import Neighbours, distinct
from ..threads import threaded_map
from .base import Array, Evidence, covariance_block, in_blocks
from .sod import SubsetOfData

SIZES = (8, 16, 32, 64, 128)  # numbers of neighbours that are tried
GOOD_ENOUGH = 0.003  # of log density per row that fewer neighbours may lose
WORK = 2**19  # entries of the neighbours' v's that are gathered at a time, per thread: 4 MB
FAR = 1e12  # noise that takes an observation out


@dataclass(frozen=True)
class Local:
    """The posterior given the active rows and each query's neighbours. O(k m + k^2 m + k^3) a query, in batches."""

    kernel: CompiledKernel
    base: SubsetOfData
    """The posterior given the active rows alone."""
    X: Array
    """The distinct rows of the remainder; of shape (n', d)."""
    rows: Features = field(repr=False)
    """The same, prepared."""
    r: Array
    """Their mean residuals; of shape (n', q)."""
    noise: Array
    """The noise variances of these means; of shape (n',)."""
    near: Neighbours = field(repr=False)
    V: Array | None = field(repr=False)
    """Their v's, of shape (n', m), where memory allows it."""
    k: int
    """How many neighbours a query has."""

    @classmethod
    def condition(
        cls, evidence: Evidence, k: int | None = None, generator: np.random.Generator | None = None
    ) -> Local:
        """The posterior given all rows.

        Parameters
        ----------
        evidence : Evidence
        k : int, optional
            Neighbours of a query. By default the fewest that predict a sample of the rows well, each from the others.
        generator : numpy.random.Generator, optional
            Draws that sample.
        """
        made, samples = cls.prepare(evidence)
        if k is None:
            generator = np.random.default_rng(0) if generator is None else generator
            k = made.choose_k(samples(400, generator))
        return replace(made, k=min(k, len(made.X)))

    @classmethod
    def prepare(cls, evidence: Evidence, keep: bool = True) -> tuple[Local, Any]:
        """The posterior with no neighbours yet, and a function that draws observations to judge it by.

        The v's are kept if `keep`, and if memory allows it: worth it for as many queries as there are rows.
        """
        kernel, base = evidence.kernel, SubsetOfData.condition(evidence)
        remains = np.ones(len(evidence.X), dtype=bool)
        remains[evidence.selection.indices] = False
        rest = np.flatnonzero(remains)
        X_rest = np.asarray(evidence.X[rest], dtype=np.float64)
        first, group = distinct(X_rest)
        X, rows = X_rest[first], kernel.prepare(X_rest[first])
        limit = available() // 4 if evidence.memory_limit is None else parse_bytes(evidence.memory_limit)
        m = len(base.z)
        V = np.empty((len(X), m)) if keep and 8 * m * len(X) <= limit else None

        def project(here: slice) -> Array:
            K = kernel.block(base.rows, take(rows, here))
            if V is not None:
                V[here] = (base.inverse @ K).T
            return base._mean(K)

        size = max(1, 2**20 // m)
        parts = threaded_map(project, [slice(a, min(a + size, len(X))) for a in range(0, len(X), size)])
        mean = np.concatenate(parts) if parts else np.empty((0, evidence.y.shape[1]))
        noise, r = evidence.noise(rest), evidence.y[rest] - mean[group]
        precision = np.bincount(group, 1 / noise, minlength=len(X))
        means = np.stack([np.bincount(group, c / noise, minlength=len(X)) for c in r.T], axis=1) / precision[:, None]
        made = cls(kernel, base, X, rows, means, 1 / precision, Neighbours(kernel, X), V, k=0)

        def samples(count: int, generator: np.random.Generator) -> Sample:
            some = generator.permutation(len(rest))[:count]
            return Sample(X_rest[some], r[some], noise[some], group[some])

        return made, samples

    def mean(self, X: Array) -> Array:
        """The mean at every row of X, of shape (n, q)."""
        return self.mean_and_variance(X)[0]

    def mean_and_variance(self, X: Array) -> tuple[Array, Array]:
        """The mean, of shape (n, q), and the latent variance, of shape (n,)."""
        X = np.asarray(X, dtype=np.float64)
        m, k = len(self.base.z), self.k
        if not k:
            return self.base.mean_and_variance(X)
        found = self.near.query(X, k)
        # Where the v's are kept, batches of a few queries stay in the cache; where not, neighbours shared by many
        # queries of a large batch are projected once.
        entries = WORK if self.V is not None else 64 * WORK
        places = np.arange(len(X))
        mean, variance = in_blocks(lambda at: self._predict(X[at], found[at]), places, k * (m + 3 * k), entries)
        return mean, variance

    def mean_and_covariance(self, X: Array) -> tuple[Array, Array]:
        """The mean, of shape (n, q), and the latent covariance, of shape (n, n), given the union of the neighbours."""
        X = np.asarray(X, dtype=np.float64)
        kernel, base = self.kernel, self.base
        rows, K = base._covariances(X)
        v = base.inverse @ K
        near = np.unique(self.near.query(X, self.k)) if self.k else np.empty(0, dtype=np.intp)
        mean, covariance = base._mean(K), covariance_block(kernel, rows) - v.T @ v
        if not len(near):
            return mean, covariance
        N, V = take(self.rows, near), self._v(near)
        C = covariance_block(kernel, N) - V @ V.T
        C.flat[:: len(near) + 1] += self.noise[near]
        c = kernel.block(N, rows) - V @ v
        solved = np.linalg.solve(C, np.concatenate([c, self.r[near]], axis=1))
        n = len(X)
        covariance -= c.T @ solved[:, :n]
        return mean + c.T @ solved[:, n:], 0.5 * (covariance + covariance.T)

    @property
    def log_marginal_likelihood(self) -> float:
        """Of the active rows; the others have none of their own here."""
        return self.base.log_marginal_likelihood

    def choose_k(self, sample: Sample) -> int:
        """The fewest neighbours that predict each observation of a sample, from the others, as well as the best."""
        if not len(sample.X) or not len(self.X):
            return 0
        density = self.densities(sample, SIZES).mean(axis=1)
        return int(SIZES[int(np.argmax(density >= density.max() - GOOD_ENOUGH))])

    def densities(self, sample: Sample, sizes: tuple[int, ...]) -> Array:
        """The log density of each observation of a sample, given the active rows and its neighbours but not itself.

        One row for each number of neighbours; of shape (sizes, sample).
        """
        most = max(sizes) + 1
        found = self.near.query(sample.X, most)
        m = len(self.base.z)

        def block(at: Array) -> tuple[Array]:
            return (self._densities(sample.take(at), found[at], sizes),)

        return in_blocks(block, np.arange(len(sample.X)), most * (m + 3 * most), WORK)[0].T

    def _densities(self, sample: Sample, found: Array, sizes: tuple[int, ...]) -> Array:
        C, c, s2, mean = self._system(sample.X, found)
        r, noise = self.r[found], self.noise[found]
        # Take the observation itself out of its own group's mean.
        query, place = np.nonzero(found == sample.group[:, None])
        own, all_of_it = 1 / sample.noise[query], 1 / noise[query, place]
        left = all_of_it - own
        alone = left < 1e-9 * all_of_it
        scale = np.abs(s2).max(initial=0.0) + noise.max(initial=0.0)
        kept = np.where(alone, FAR * scale, 1 / np.where(alone, 1, left))
        others = r[query, place] * all_of_it[:, None] - sample.r[query] * own[:, None]
        r[query, place] = np.where(alone[:, None], 0.0, others * kept[:, None])
        C[query, place, place] += kept - noise[query, place]
        result = np.empty((len(found), len(sizes)))
        # A sample's residual is from the mean of the active rows, which its group shares: y - mean = sample.r.
        for i, size in enumerate(sizes):
            some = slice(0, size + 1)
            w = np.linalg.solve(C[:, some, some], c[:, some, None])[..., 0]
            error = sample.r - np.einsum("ij,ijq->iq", w, r[:, some])
            variance = np.maximum(s2 - np.einsum("ij,ij->i", w, c[:, some]), 0) + sample.noise
            density = -0.5 * (np.square(error) / variance[:, None] + np.log(2 * np.pi * variance)[:, None])
            result[:, i] = density.mean(axis=1)
        return result

    def _predict(self, X: Array, found: Array) -> tuple[Array, Array]:
        C, c, s2, mean = self._system(X, found)
        w = np.linalg.solve(C, c[..., None])[..., 0]
        mean += np.einsum("ij,ijq->iq", w, self.r[found])
        return mean, np.maximum(s2 - np.einsum("ij,ij->i", w, c), 0)

    def _system(self, X: Array, found: Array) -> tuple[Array, Array, Array, Array]:
        """c(N, N) + noise, c(x, N), s^2(x) and mu(x) for some queries, each with its neighbours."""
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
        C[:, diagonal, diagonal] += self.noise[found]
        c = kernel.block(take(rows, np.arange(len(X))[:, None]), N)[:, 0]
        c -= np.matmul(V, v.T[..., None])[..., 0]
        s2 = np.maximum(kernel.diag(rows) - np.einsum("ij,ij->j", v, v), 0)
        return C, c, s2, base._mean(K)

    def _v(self, places: Array) -> Array:
        """The v's of some of the rows, of shape (places, m)."""
        if self.V is not None:
            return np.asarray(self.V[places])
        return np.asarray((self.base.inverse @ self.kernel.block(self.base.rows, take(self.rows, places))).T)


@dataclass(frozen=True)
class Sample:
    """Observations of the remainder that are to be predicted from the others."""

    X: Array
    r: Array
    """Their residuals, given the active rows; of shape (rows, q)."""
    noise: Array
    group: Array
    """The place of each one's distinct row."""

    def take(self, places: Array) -> Sample:
        """Some of them."""
        return Sample(self.X[places], self.r[places], self.noise[places], self.group[places])
