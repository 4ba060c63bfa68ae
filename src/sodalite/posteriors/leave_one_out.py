"""Leave-one-out predictions: each observation from all others.

`leave_one_out` has those of a process from its factor. `Systems` holds, for some queries at once, the small linear
systems that `sodalite.posteriors.local` solves (docs/method.rst, `posterior-local`). Leaving an observation out changes
a system by a rank-one term, so no system is built from scratch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..core.types import Floats, Indices

if TYPE_CHECKING:
    from .sod import SubsetOfData

FAR = 1e12  # noise of a neighbour that is left out, in units of the largest variance: its weight is nearly zero
ALONE = 1e-9  # share of a group's precision below which, but for rounding, nothing is left without the observation


def leave_one_out(columns: Floats, z: Floats) -> tuple[Floats, Floats]:
    """The errors of observations, each predicted from all others, and the variances of the errors, noise included.

    With L the factor of a covariance A = k(X, X) + noise and P = A^-1, observation i has error (P y)_i / P_ii and
    variance 1 / P_ii (Sundararajan and Keerthi 2001). The first t rows of L^-1 are those of the first t observations
    alone, so they have their leave-one-out errors. O(n q) an observation.

    Parameters
    ----------
    columns : array of shape (n, some)
        L^-1 e_i for some observations i.
    z : array of shape (n, q)
        L^-1 y.

    Returns
    -------
    arrays of shape (some, q) and (some,)
    """
    variance = 1 / np.einsum("ij,ij->j", columns, columns)
    return (columns.T @ z) * variance[:, None], variance


@dataclass(frozen=True)
class Observations:
    """Observations to be predicted by `local`, each from all others."""

    X: Floats
    """Of shape (rows, d)."""
    r: Floats
    """Residuals given the active rows; of shape (rows, q)."""
    noise: Floats
    """Noise variances; of shape (rows,)."""
    group: Indices
    """The distinct row of the remainder that an observation belongs to; -1 for active rows. Of shape (rows,)."""
    active: Indices
    """The position of an observation among the active rows; -1 for the remainder. Of shape (rows,)."""

    def take(self, which: Indices) -> Observations:
        """Some of the observations."""
        return Observations(self.X[which], self.r[which], self.noise[which], self.group[which], self.active[which])


@dataclass(frozen=True)
class Systems:
    """Queries x with their neighbours N, given the active rows: one linear system a query, letters as in NOTATION.md.

    Leaving observations out overwrites the arrays.
    """

    found: Indices
    """N, the neighbours of every query, the nearest first; of shape (queries, k)."""
    C: Floats
    """c(N, N) + noise; of shape (queries, k, k)."""
    c: Floats
    """c(x, N); of shape (queries, k)."""
    s2: Floats
    """s^2(x); of shape (queries,)."""
    mean: Floats
    """mu(x); of shape (queries, q)."""
    r: Floats
    """Residuals of N; of shape (queries, k, q)."""
    noise: Floats
    """Noise variances of N; of shape (queries, k)."""
    v: Floats
    """v(x); of shape (queries, m)."""
    V: Floats
    """v(N); of shape (queries, k, m)."""

    def solve(self, size: int) -> tuple[Floats, Floats]:
        """What the nearest `size` neighbours add to mu(x), of shape (queries, q), and the latent variance, (queries,).

        With w = [c(N, N) + noise]^-1 c(N, x), these are w.r_N and s^2(x) - w.c(N, x).
        """
        c = self.c[:, :size]
        w = np.linalg.solve(self.C[:, :size, :size], c[..., None])[..., 0]
        correction = np.einsum("ij,ijq->iq", w, self.r[:, :size])
        return correction, np.maximum(self.s2 - np.einsum("ij,ij->i", w, c), 0)

    def leave_out(self, sample: Observations, base: SubsetOfData, sizes: Sequence[int]) -> tuple[Floats, Floats]:
        """Leave-one-out errors and variances of observations at the queries, for several numbers of neighbours.

        Returns arrays of shape (queries, sizes, q) and (queries, sizes). The variances include the noise.
        """
        self._drop_from_groups(sample)
        r = self._drop_active(sample, base)
        error, variance = np.empty((len(r), len(sizes), r.shape[1])), np.empty((len(r), len(sizes)))
        for i, size in enumerate(sizes):
            correction, latent = self.solve(size + 1)  # one more, as a row of the remainder has lost its own
            error[:, i] = r - correction
            variance[:, i] = latent + sample.noise
        return error, variance

    def weights(self, sample: Observations, base: SubsetOfData, size: int, group: Indices, active: Indices) -> Floats:
        """The weights of other observations in the leave-one-out predictions of those at the queries.

        Parameters
        ----------
        sample : Observations
        base : SubsetOfData
        size : int
            The number of neighbours that predict.
        group, active : arrays of shape (queries, partners)
            The distinct row of the remainder, and the position among the active rows, of the other observations; -1 if
            an observation is none.
        """
        self._drop_from_groups(sample)
        self._drop_active(sample, base)
        w = np.linalg.solve(self.C[:, : size + 1, : size + 1], self.c[:, : size + 1, None])[..., 0]
        # The prediction is mu(x) + w.(y_N - mu(N)), and mu(x) = v(x).L^-1 y_I: this is the weight of L^-1 y_I.
        rest = self.v - np.einsum("ij,ijm->im", w, self.V[:, : size + 1])
        which = np.flatnonzero(sample.active >= 0)
        column = base.inverse[:, sample.active[which]].T  # without an active row i, the direction L^-1 e_i is gone
        share = np.einsum("ij,ij->i", rest[which], column) / np.einsum("ij,ij->i", column, column)
        rest[which] -= share[:, None] * column
        of_active = np.take_along_axis(rest @ base.inverse, np.maximum(active, 0), axis=1)
        near = (self.found[:, None, : size + 1] == group[..., None]) & (group >= 0)[..., None]
        return np.asarray(np.where(active >= 0, of_active, 0.0) + np.einsum("ipk,ik->ip", near, w))

    def _drop_from_groups(self, sample: Observations) -> None:
        """Take every observation of the remainder out of the mean of its group, where that is among its neighbours.

        A group of observations with the same inputs is one neighbour. Its precision is the sum of its observations'
        precisions 1 / noise, and its residual their mean, weighted by precision.
        """
        query, place = np.nonzero(self.found == sample.group[:, None])
        noise, r = self.noise[query, place], self.r[query, place]
        own, whole = 1 / sample.noise[query], 1 / noise
        rest = whole - own
        alone = rest < ALONE * whole
        far = FAR * (self.s2.max(initial=0.0) + self.noise.max(initial=0.0))
        noise_left = np.where(alone, far, 1 / np.where(alone, 1, rest))
        sum_left = r * whole[:, None] - sample.r[query] * own[:, None]
        self.r[query, place] = np.where(alone[:, None], 0.0, sum_left * noise_left[:, None])
        self.C[query, place, place] += noise_left - noise

    def _drop_active(self, sample: Observations, base: SubsetOfData) -> Floats:
        """Take every observation of an active row out of the active rows; return all residuals, of shape (queries, q).

        With P = (k(I, I) + noise)^-1, a = P y_I and g(x) the weight of active row i in the prediction of x, leaving i
        out raises the covariance of x and x' by g(x) g(x') / P_ii and lowers the mean at x by g(x) a_i / P_ii.
        """
        which = np.flatnonzero(sample.active >= 0)
        i = sample.active[which]
        column = base.inverse[:, i]  # of L^-1, so that g(x) = column.v(x)
        change, variance = leave_one_out(column, base.z)  # a_i / P_ii and 1 / P_ii
        g = np.einsum("ij,ji->i", self.v[which], column)
        G = np.matmul(self.V[which], column.T[..., None])[..., 0]  # g of the neighbours
        self.C[which] += G[:, :, None] * G[:, None, :] * variance[:, None, None]
        self.c[which] += g[:, None] * G * variance[:, None]
        self.s2[which] += g * g * variance
        self.r[which] += G[..., None] * change[:, None, :]
        r = sample.r.copy()
        r[which] += g[:, None] * change
        return r
