"""Weave: selection and hyperparameters that inform each other, the question that the paper leaves open.

The method is described in docs/method.rst, `weave`. Up to some rows, the exact likelihood of all of them is raised.
With more rows, the posterior decides: "local" predicts a row from the rows around it, so its kernel is the one that
predicts rows best that are left out (`sodalite.hyperparameters.left_out`). The other posteriors know the active rows
alone, or see the others through them, so they go on from the likelihood of some rows in rounds
(`sodalite.hyperparameters.rounds`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from ..kernels import compile_kernel
from ..selection.rows import ArrayRows
from .left_out import LeftOutRows
from .rounds import Rounds
from .search import find_by_rows_left_out, find_exactly, or_as_given, with_optimism
from .task import Found, Task
from .windows import with_windows

MOST_ROWS = 100_000  # rows that hyperparameters are learnt from; a thinner sample would miss short length-scales
START_SHARE = 0.5  # share of the time limit for the search from which rounds begin


@dataclass(frozen=True)
class Weave:
    """The hyperparameters by which the posterior predicts best, with the choice of rows in view.

    Where no kernel was given, shapes compete, and components may be added to the best one: a trend, other scales,
    periods that the targets show (`sodalite.hyperparameters.components`).

    Parameters
    ----------
    n_start : int, default=500
        Rows, drawn at random, whose exact likelihood tells where to start; for posteriors other than "local", twice as
        many.
    n_rounds : int, default=6
        The most rounds for posteriors other than "local".
    n_judged : int, default=3000
        Rows that are left out, for "local", or set aside to judge rounds by.
    n_neighbors : int, default=32
        Neighbours that a row is predicted from where it is left out.
    n_exact : int, default=1500
        Rows up to which the exact likelihood of all rows is raised, from every scale, under a weak prior. One
        evaluation costs O(n^3).
    """

    n_start: int = 500
    n_rounds: int = 6
    n_judged: int = 3000
    n_neighbors: int = 32
    n_exact: int = 1500

    def find(self, task: Task, kernels: Sequence[Kernel], generator: np.random.Generator) -> Found:
        """The best of some kernels, at the best hyperparameters found.

        Parameters
        ----------
        task : Task
        kernels : sequence of scikit-learn kernels
            Several compete.
        generator : numpy.random.Generator
        """
        if kernels[0].n_dims == 0:
            return Found(kernels[0].clone_with_theta(kernels[0].theta))
        if len(task.X) <= self.n_exact:
            return self._find_exactly(task, kernels, generator)
        if len(task.X) > MOST_ROWS:
            rows = ArrayRows(task.X, task.y, task.alpha)
            task = task.take(np.sort(generator.choice(len(task.X), MOST_ROWS, replace=False)))
            task = replace(task, rows=rows)
        return (
            self._find_left_out(task, kernels, generator)
            if task.asks_neighbours
            else self._find_in_rounds(task, kernels, generator)
        )

    def _find_exactly(self, task: Task, kernels: Sequence[Kernel], generator: np.random.Generator) -> Found:
        """The best of some kernels by the exact likelihood of all rows, with its optimism if there is time for it."""
        began = perf_counter()
        found = find_exactly(task, kernels)
        found = found if task.forms else or_as_given(found, task, kernels[0])
        return with_optimism(found, task, generator) if perf_counter() < began + task.seconds else found

    def _find_left_out(self, task: Task, kernels: Sequence[Kernel], generator: np.random.Generator) -> Found:
        """The best of some kernels by rows that are left out; of a sample, by rows at the density of all."""

        def rows(kernel: Kernel) -> LeftOutRows:
            dense = None
            if task.rows is not None:
                dense = with_windows(task, task.rows, compile_kernel(kernel, task.X), generator, self.n_judged)
            return LeftOutRows.of(task if dense is None else dense, kernel, generator, self.n_judged, self.n_neighbors)

        return find_by_rows_left_out(task, kernels, rows, self.n_start)

    def _find_in_rounds(self, task: Task, kernels: Sequence[Kernel], generator: np.random.Generator) -> Found:
        """The best of some kernels by the likelihood of some rows, then by rounds."""
        began = perf_counter()
        few = task.take(generator.permutation(len(task.X))[: 2 * self.n_start])
        found = find_exactly(replace(few, seconds=START_SHARE * task.seconds), kernels)
        rounds = Rounds(task, found, began + task.seconds, generator, self.n_judged)
        if not task.forms:
            rounds.try_as_given(kernels[0])
        return rounds.run(self.n_rounds)
