"""Samples of new observations at several rows, correlated as the Gaussian process says."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from ..core.threads import one_blas_thread
from ..core.types import Floats
from .predictive import Predictive


def draw(mean: Floats, covariance: Floats, size: int, generator: np.random.Generator) -> Floats:
    """Samples of a normal distribution, as columns of shape (n, size); its covariance may be singular. O(n^3).

    The root of the covariance is the symmetric one. Rounding may turn eigenvectors of nearly equal eigenvalues, but
    hardly changes this root: a model that was saved and loaded draws the same samples.
    """
    with one_blas_thread():
        values, vectors = eigh(covariance)
        root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
        return np.asarray(mean[:, None] + root @ generator.standard_normal((len(mean), size)))


def joint_samples(
    mean: Floats, covariance: Floats, size: int, generator: np.random.Generator, margins: Predictive | None
) -> Floats:
    """Samples of new observations, of shape (n, q, size).

    They are joint normal samples, each of whose rows is then given its own distribution (a Gaussian copula).

    Parameters
    ----------
    mean, covariance : arrays of shape (n, q) and (n, n, q)
    size : int
        The number of samples.
    generator : numpy.random.Generator
    margins : Predictive or None
        The distribution of each row; None for the normal one.
    """
    targets = range(mean.shape[1])
    samples = np.stack([draw(mean[:, j], covariance[..., j], size, generator) for j in targets], axis=1)
    if margins is None:
        return samples
    return margins.with_margins(samples, mean, np.einsum("iij->ij", covariance))
