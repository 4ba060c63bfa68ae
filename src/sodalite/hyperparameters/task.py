"""What a search for hyperparameters is given, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Protocol

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel

from ..core.types import Array, Floats, Indices
from ..criteria import Criterion, Delta
from ..posteriors import Local, Posterior, SubsetOfData
from ..selection.rows import Rows

FULL_DENSITY = "at full density"  # name of the kernels that a search goes on with among all rows


@dataclass(frozen=True)
class Windows:
    """Which rows of a task are what, where they are windows of all rows of a large data set."""

    centres: Indices
    """Rows that have their nearest rows among all rows beside them."""
    scattered: Indices
    """Rows drawn at random from all rows."""


Report = Callable[[str, float], None]
"""A function that is told which part of a search begins, in words, and the share of the search that is done."""


def _ignore(detail: str, done: float) -> None:
    """Report nothing."""


@dataclass(frozen=True)
class Task:
    """The rows, and what the kernel is for."""

    X: Array
    """Inputs, of shape (n, d)."""
    y: Floats
    """Targets, of shape (n, q)."""
    alpha: Floats | None = None
    """Noise variance of each row beyond the kernel's; of shape (n,)."""
    posterior: type[Posterior] = SubsetOfData
    """The posterior that will predict with the kernel."""
    criterion: Criterion = field(default_factory=Delta)
    """The criterion that will choose the active rows."""
    n_active: int = 1000
    """The most active rows."""
    seconds: float = inf
    """Time limit: no step of the search that could be left out begins after so many seconds."""
    forms: bool = False
    """Whether kernels with more components than those given may compete: a second scale, periods."""
    report: Report = _ignore
    """Is told how far the search has come."""
    rows: Rows | None = field(default=None, repr=False)
    """All rows, if those above are a random sample of them; None if they are all."""
    windows: Windows | None = field(default=None, repr=False)
    """Which rows are what, if they are windows of all rows; None if they are all rows or a random sample."""

    @property
    def asks_neighbours(self) -> bool:
        """Whether the posterior predicts a row from its neighbours."""
        return issubclass(self.posterior, Local)

    def take(self, which: Indices) -> Task:
        """The task for some of the rows alone."""
        alpha = None if self.alpha is None else self.alpha[which]
        return replace(self, X=self.X[which], y=self.y[which], alpha=alpha, rows=None, windows=None)


def arrays_of(task: Task) -> tuple[Floats, Floats, Floats | None]:
    """The rows of a task: X in float64, y of shape (n, q) also where it is given as (n,), and alpha."""
    return np.asarray(task.X, dtype=np.float64), task.y.reshape(len(task.X), -1), task.alpha


class Progress:
    """How far a search has come, reported as its parts begin.

    Parameters
    ----------
    report : callable
        A `Report`.
    total : float
        The weights of all parts that are expected; there may be more or fewer.
    """

    def __init__(self, report: Report, total: float) -> None:
        self._report, self._total, self._done = report, total, 0.0

    def begin(self, part: str, weight: float) -> None:
        """Report that a part of this weight begins."""
        self._report(part, min(self._done / self._total, 1.0))
        self._done += weight

    def within(self, weight: float) -> Report:
        """Return a `Report` for a search that is a part, of this weight, of this one."""
        before, self._done = self._done, self._done + weight
        return lambda part, done: self._report(part, min((before + weight * done) / self._total, 1.0))


@dataclass(frozen=True)
class Round:
    """One step of a search: a kernel that was tried, and whether it was kept."""

    name: str
    """The kind of step."""
    kernel: Kernel
    """The kernel that was tried."""
    objective: float
    """Its value, per target value; comparable between the steps of one level."""
    kept: bool
    seconds: float
    level: str = ""
    """The rows that it was judged by, in words."""


@dataclass(frozen=True)
class Found:
    """The kernel that a search found, and the steps that led to it."""

    kernel: Kernel
    rounds: tuple[Round, ...] = ()
    optimism: float = 1.0
    """How many times as large squared standardised errors are for rows that the hyperparameters have not seen, over
    leave-one-out errors of rows that they have seen. 1 where that is not known, or where rows are many."""


class Method(Protocol):
    """A way to find the hyperparameters."""

    def find(self, task: Task, kernels: Sequence[Kernel], generator: np.random.Generator) -> Found:
        """The best of some kernels with the same parameters, at the best parameters found."""
        ...


@dataclass(frozen=True)
class Fixed:
    """Use the kernel as it is."""

    def find(self, task: Task, kernels: Sequence[Kernel], generator: np.random.Generator) -> Found:
        return Found(clone(kernels[0]))
