"""The registry that the equivalence tests run over: kernels, scores, posteriors, executors and dtypes.

One line here has a thing tested by all of them. Built-in posteriors and scores with a name come from the package, so
that a new one is in the registry from the start.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from math import inf
from unittest.mock import patch

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Hyperparameter,
    Kernel,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
    StationaryKernelMixin,
    WhiteKernel,
)
from threadpoolctl import threadpool_limits

from sodalite import criteria, select
from sodalite.criteria import Delta, Lookahead, PointwiseCriterion, Product, Sampled
from sodalite.kernels import PeriodicColumn
from sodalite.posteriors import POSTERIORS
from sodalite.posteriors.projected import Projected

__all__ = [
    "CHANCES",
    "CRITERIA",
    "DTYPES",
    "EXECUTORS",
    "FIXED",
    "KERNELS",
    "POINTWISE",
    "POSTERIORS",
    "PROJECTED",
    "ROUGH",
    "SOUGHT",
    "HalfRBF",
    "Indefinite",
    "OwnNoise",
    "Triangle",
    "campaign",
    "own_score",
    "paper_select",
    "periodic",
    "scales",
    "slopes",
    "threads",
]


def campaign(*values):
    """Values of parameters that `make campaign` runs a test with, and `make test` does not."""
    return pytest.param(*values, marks=pytest.mark.campaign)


# --- kernels ---

FIXED = "fixed"


class Triangle(StationaryKernelMixin, Kernel):
    """A user's own kernel: prod_i max(0, 1 - |a_i - b_i| / width)."""

    def __init__(self, width: float = 1.0, width_bounds: tuple[float, float] = (1e-5, 1e5)) -> None:
        self.width = width
        self.width_bounds = width_bounds

    @property
    def hyperparameter_width(self) -> Hyperparameter:
        return Hyperparameter("width", "numeric", self.width_bounds)

    def __call__(self, X, Y=None, eval_gradient=False):
        distance = np.abs(X[:, None, :] - (X if Y is None else Y)[None, :, :]) / self.width
        K = np.maximum(0, 1 - distance).prod(axis=-1)
        if not eval_gradient:
            return K
        slope = np.where(distance < 1, distance / np.maximum(1 - distance, 1e-300), 0).sum(axis=-1)
        return K, (K * slope)[:, :, None]

    def diag(self, X):
        return np.ones(len(X))


class HalfRBF(RBF):
    """A subclass of a known kernel that means something else than its parent."""

    def __call__(self, X, Y=None, eval_gradient=False):
        if eval_gradient:
            return tuple(0.5 * part for part in super().__call__(X, Y, eval_gradient=True))
        return 0.5 * super().__call__(X, Y)

    def diag(self, X):
        return 0.5 * super().diag(X)


class OwnNoise(WhiteKernel):
    """A user's own noise: it is on the diagonal of k(X), and nowhere in k(X, Y), as scikit-learn has it."""


class Indefinite(ExpSineSquared):
    """A user's own kernel that is not a covariance of several inputs: a sine of a distance in the plane."""


def scales(d: int, scale: float = 1.0):
    """One length-scale per input, all different."""
    return scale * np.linspace(0.8, 1.9, d)


def periodic(d: int, *parameters, **bounds):
    """A kernel that is periodic in one of d inputs, the only kind that is a covariance."""
    return ExpSineSquared(*parameters, **bounds) if d == 1 else PeriodicColumn(d - 1, *parameters, **bounds)


KERNELS: dict[str, Callable[[int], Kernel]] = {
    # leaves
    "constant": lambda d: ConstantKernel(1.7),
    "white": lambda d: WhiteKernel(0.3),
    "rbf": lambda d: RBF(1.3),
    "rbf-per-input": lambda d: RBF(scales(d)),
    "matern-1/2": lambda d: Matern(1.2, nu=0.5),
    "matern-1/2-per-input": lambda d: Matern(scales(d), nu=0.5),
    "matern-3/2": lambda d: Matern(1.2, nu=1.5),
    "matern-3/2-per-input": lambda d: Matern(scales(d), nu=1.5),
    "matern-5/2": lambda d: Matern(1.2, nu=2.5),
    "matern-5/2-per-input": lambda d: Matern(scales(d), nu=2.5),
    "matern-inf": lambda d: Matern(1.2, nu=inf),
    "matern-inf-per-input": lambda d: Matern(scales(d), nu=inf),
    "rational-quadratic": lambda d: RationalQuadratic(length_scale=0.9, alpha=0.7),
    "periodic": lambda d: periodic(d, 1.4, 2.3),
    "dot-product": lambda d: DotProduct(0.6),
    # sums, products and powers
    "usual": lambda d: ConstantKernel(1.7) * RBF(scales(d)) + WhiteKernel(0.1),
    "noise-first": lambda d: WhiteKernel(0.1) + ConstantKernel(1.7) * RBF(1.1),
    "two-noises": lambda d: WhiteKernel(0.1) + RBF(1.1) + WhiteKernel(0.2),
    "two-constants": lambda d: ConstantKernel(1.7) + ConstantKernel(0.4) * ConstantKernel(2.0),
    "constant-with-noise": lambda d: ConstantKernel(1.7) + WhiteKernel(0.1),
    "constant-squared": lambda d: ConstantKernel(1.7) ** 2,
    "noise-in-product": lambda d: ConstantKernel(1.7) * (RBF(1.1) + WhiteKernel(0.1)),
    "noise-in-both-factors": lambda d: (RBF(1.1) + WhiteKernel(0.1)) * (DotProduct(0.6) + WhiteKernel(0.2)),
    "noise-by-row": lambda d: RBF(1.1) + WhiteKernel(0.1) * DotProduct(0.6),
    "noise-in-power": lambda d: (RBF(scales(d)) + WhiteKernel(0.1)) ** 2,
    "noise-cubed": lambda d: RBF(1.1) + WhiteKernel(0.4) ** 3,
    "polynomial": lambda d: ConstantKernel(0.2) * DotProduct(0.6) ** 3,
    "power-below-one": lambda d: (Matern(scales(d), nu=1.5) + ConstantKernel(0.4)) ** 0.5,
    "power-of-product": lambda d: (
        (ConstantKernel(0.5) * RationalQuadratic(0.9, 0.7) + WhiteKernel(0.1)) ** 2 * RBF(2.0)
    ),
    "seasonal": lambda d: (
        ConstantKernel(1.5) * RBF(4.0)
        + RBF(scales(d)) * periodic(d, 1.4, 2.3)
        + ConstantKernel(0.3) * RationalQuadratic(0.9, 0.7)
        + WhiteKernel(0.1)
    ),
    "season-of-one-column": lambda d: RBF(scales(d)) * PeriodicColumn(d - 1, 1.4, 2.3) + WhiteKernel(0.1),
    "product-of-three": lambda d: Matern(1.2, nu=2.5) * DotProduct(0.6) * RBF(scales(d)) + WhiteKernel(0.1),
    # fixed parameters
    "fixed-constant": lambda d: ConstantKernel(1.7, FIXED) * RBF(scales(d)) + WhiteKernel(0.1),
    "fixed-length-scales": lambda d: ConstantKernel(1.7) * RBF(scales(d), FIXED) + WhiteKernel(0.1),
    "fixed-noise": lambda d: ConstantKernel(1.7) * Matern(1.2, nu=1.5) + WhiteKernel(0.1, FIXED),
    "fixed-alpha": lambda d: RationalQuadratic(0.9, 0.7, alpha_bounds=FIXED) * DotProduct(0.6, FIXED),
    "fixed-period": lambda d: periodic(d, 1.4, 2.3, periodicity_bounds=FIXED) + RationalQuadratic(0.9, 0.7, FIXED),
    "fixed-periodic-length-scale": lambda d: periodic(d, 1.4, 2.3, length_scale_bounds=FIXED) + WhiteKernel(0.1),
    "all-fixed": lambda d: ConstantKernel(1.7, FIXED) * RBF(1.1, FIXED) + WhiteKernel(0.1, FIXED),
    # opaque: called as they are
    "own": lambda d: ConstantKernel(1.7) * Triangle(6.0) + WhiteKernel(0.1),
    "own-subclass": lambda d: HalfRBF(scales(d)) + WhiteKernel(0.1),
    "own-subclass-in-power": lambda d: (HalfRBF(1.3) * RBF(scales(d)) + WhiteKernel(0.1)) ** 2,
    "own-noise": lambda d: ConstantKernel(1.7) * (RBF(1.1) + OwnNoise(0.1)),
    "matern-0.8": lambda d: ConstantKernel(1.7) * Matern(scales(d), nu=0.8) + WhiteKernel(0.1),
    "pairwise": lambda d: PairwiseKernel(metric="laplacian", gamma=0.4) + WhiteKernel(0.1),
}

# Scikit-learn differentiates these by forward differences with a step of 1e-10, so to about 1e-6 and no better.
ROUGH = {"matern-0.8", "pairwise"}

# Kernels to find the parameters of, of d inputs, with bounds of every kind.
SOUGHT: dict[str, Callable[[int], Kernel]] = {
    "usual": lambda d: ConstantKernel(1.0) * RBF(np.ones(d)) + WhiteKernel(0.1),
    "one-length-scale": lambda d: ConstantKernel(1.0) * RBF(2.0) + WhiteKernel(0.1),
    "tight": lambda d: ConstantKernel(1.0, (0.9, 1.1)) * RBF(np.ones(d), (0.5, 2.0)) + WhiteKernel(0.1, (0.05, 0.2)),
    "fixed": lambda d: ConstantKernel(1.0, FIXED) * RBF(np.ones(d)) + WhiteKernel(0.1, FIXED),
    "fixed-lengths": lambda d: ConstantKernel(1.0) * RBF(np.linspace(0.5, 2.0, d), FIXED) + WhiteKernel(0.1),
    "others": lambda d: periodic(d, 1.0, 2.0) * RationalQuadratic(1.0, 0.5) + WhiteKernel(0.1),
    "outside": lambda d: ConstantKernel(1.0) * RBF(50.0, (0.1, 10.0)) + WhiteKernel(0.1, (1.0, 2.0)),
}


def slopes(function, theta, step=1e-5):
    """The derivatives of a number by log-parameters, by central differences."""
    return np.array([(function(theta + h) - function(theta - h)) / (2 * step) for h in step * np.eye(len(theta))])


# --- criteria ---

paper_select = partial(select, criterion="delta")  # most of its picks are guessed and verified


def own_score(s, abs_r, noise):
    """A user's own criterion. It has no `monotone`, though it is."""
    return s**2 + abs_r


def sum_of_squares(s, abs_r, noise):
    return s**2 + abs_r**2


def not_monotone(s, abs_r, noise):
    return abs_r / (s + noise + 0.1)


# Pointwise scores: the picks are those of `sodalite.reference`.
POINTWISE: dict[str, PointwiseCriterion] = {
    "delta": Delta(),
    "uncertainty": Delta(underfit=0),
    "underfit": Delta(uncertainty=0),
    "weighted": Delta(uncertainty=2.0, underfit=0.3),
    "callable": sum_of_squares,
    "not monotone": not_monotone,
}

# Pointwise scores that are never negative: they can be sampled.
CHANCES: dict[str, PointwiseCriterion] = {
    "product": Product(),
    "delta": Delta(),
    "callable": sum_of_squares,
    "not monotone": not_monotone,
    "with zeros": lambda s, abs_r, noise: np.where(abs_r > 0.5, s, 0),
}

# All that `criterion=` takes: every name, and scores of every kind.
CRITERIA = {
    **{name: name for name in criteria.CRITERIA},
    "large blocks": Lookahead(block=100, n_candidates=120),
    "small blocks": Lookahead(block=7),
    "own": own_score,
    "own, sampled": Sampled(own_score),
}

# --- posteriors ---

# Projected processes: all rows, seen through the active ones.
PROJECTED = tuple(name for name, kind in POSTERIORS.items() if issubclass(kind, Projected))

# --- executors and dtypes ---

# Numbers of threads: they change where the work is done, and nothing else. Clusters need processes: tests/cluster.
EXECUTORS = {"one thread": 1, "three threads": 3}


@contextmanager
def threads(n):
    """So many threads, as on a machine with as many cores."""
    with patch("sodalite.core.threads.cores", lambda: n), threadpool_limits(n):
        yield


DTYPES = ("float64", "float32")
