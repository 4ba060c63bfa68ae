"""A fitted kernel in words: which inputs matter, how rough the function is, and how noisy the targets are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process import kernels as spec

from .kernels import compile_kernel, leaves, spread

Array = NDArray[Any]

HARDLY = 0.02  # of the largest relevance, below which an input hardly matters
SHAPES = {0.5: "Matern 1/2, rough", 1.5: "Matern 3/2", 2.5: "Matern 5/2", inf: "squared-exponential, very smooth"}


@dataclass(frozen=True)
class KernelWords:
    """What a kernel says of some data."""

    shape: str
    """The kinds of covariance in it."""
    relevance: tuple[tuple[str, float], ...]
    """For each column, how many length-scales its standard deviation is; the most relevant first."""
    noise_std: float
    """The standard deviation of the noise, in units of the target."""
    noise_share: float
    """Its share of the variance of the target."""

    def inputs(self, most: int = 5) -> str:
        """Which inputs matter, in a sentence."""
        if not self.relevance:
            return "The kernel has no length-scales by which inputs could be compared."
        top = self.relevance[0][1]
        if not top:
            return "No input differs from row to row."
        matter = [(name, value) for name, value in self.relevance if value > HARDLY * top]
        others = [name for name, value in self.relevance if value <= HARDLY * top]
        shown = [f"{name} ({value:.2g})" for name, value in matter[:most]]
        if len(matter) > most:
            shown.append(f"{len(matter) - most} more")
        text = f"{shown[0]} matters" + (" most" if len(self.relevance) > 1 else "")
        if len(shown) > 1:
            text += ", then " + ", ".join(shown[1:])
        if others:
            names = ", ".join(others[:most]) + (f" and {len(others) - most} more" if len(others) > most else "")
            text += f"; {names} hardly {'matter' if len(others) > 1 else 'matters'}"
        return text + "."

    def noise(self) -> str:
        """How noisy the targets are, in a sentence."""
        if not self.noise_std:
            return "The targets are taken to be free of noise."
        share = f"{self.noise_share:.1%}" if self.noise_share >= 0.001 else "less than 0.1%"
        return f"Standard deviation {self.noise_std:.3g}: {share.replace('%', ' %')} of the variance of the target."

    def as_dict(self) -> dict[str, Any]:
        """What JSON can hold."""
        return {
            "shape": self.shape,
            "relevance": dict(self.relevance),
            "noise_std": self.noise_std,
            "noise_share": self.noise_share,
        }


def kernel_words(
    kernel: spec.Kernel, X: Array, columns: Sequence[str], y_std: float = 1.0, y_variance: float = 1.0
) -> KernelWords:
    """What a kernel says of some rows.

    Parameters
    ----------
    kernel : scikit-learn kernel
    X : array of shape (n, d)
    columns : sequence of str
        For each input, the column that it comes from. Of several with one name, the squares of their relevances add up.
    y_std : float
        What one unit of the kernel's targets is, in units of the target.
    y_variance : float
        The target's variance, in its own units.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> words = kernel_words(spec.RBF([0.5, 100.0]) + spec.WhiteKernel(0.1), X, ["hour", "wind"])
    >>> words.inputs()
    'hour (1.9) matters most; wind hardly matters.'
    >>> words.noise()
    'Standard deviation 0.316: 10.0 % of the variance of the target.'
    """
    compiled = compile_kernel(kernel, X)
    noise = float(compiled.noise(compiled.prepare(X[:1]))[0]) * y_std**2
    weights = compiled.metric()
    scales = np.sqrt(weights) if weights is not None else _shortest(kernel, X.shape[1])
    relevance: dict[str, float] = {}
    if scales is not None:
        for name, value in zip(columns, (spread(X) * (np.ptp(X, axis=0) > 0) * scales).tolist(), strict=True):
            relevance[name] = sqrt(relevance.get(name, 0.0) ** 2 + value**2)
    ranked = tuple(sorted(relevance.items(), key=lambda pair: -pair[1]))
    shapes = dict.fromkeys(_shape(leaf) for leaf in leaves(kernel))
    return KernelWords(
        ", ".join(filter(None, shapes)), ranked, sqrt(noise), min(noise / y_variance, 1.0) if y_variance > 0 else 0.0
    )


def _shape(leaf: spec.Kernel) -> str:
    """What a leaf is called; nothing for those that only scale, or are noise."""
    if isinstance(leaf, spec.ConstantKernel | spec.WhiteKernel):
        return ""
    if isinstance(leaf, spec.Matern):
        return SHAPES.get(leaf.nu, f"Matern {leaf.nu:g}")
    names = {
        spec.RBF: SHAPES[inf],
        spec.RationalQuadratic: "rational quadratic",
        spec.ExpSineSquared: "periodic",
        spec.DotProduct: "linear",
    }
    return names.get(type(leaf), type(leaf).__name__)


def _shortest(kernel: spec.Kernel, d: int) -> Array | None:
    """One over the shortest length-scale of each input, where the kernel is no function of one distance."""
    found = [1 / np.broadcast_to(leaf.length_scale, d) for leaf in leaves(kernel) if hasattr(leaf, "length_scale")]
    return np.max(found, axis=0) if found else None
