"""What the steps of a fit are expected to cost, for estimates of the time left and to share out a time limit.

The costs are rough: seconds on two cores of a usual server, from default fits of 300 to 100 000 rows. How fast the
machine is, and how far from typical the table, is learnt while the fit goes on (`sodalite.selection.forecast`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from time import perf_counter

MEAN, SEARCH, CHOICE, CONDITION = (
    "Fitting the mean function",
    "Finding the kernel's parameters",
    "Choosing rows",
    "Conditioning on the rows",
)
"""The steps of a fit, as they are called where its progress is shown."""

FEW = 1000  # rows up to which the exact likelihood of all of them is raised
SEARCH_SHARE = 0.75  # share of the time that conditioning leaves for the search; the selection has the rest
LEAST_CHOICE = 0.1  # share of the time limit that the selection has at least
MOST_RESERVED = 0.6  # share of the time limit that is kept for conditioning at most
SAFETY = 1.3  # factor on the expected time of conditioning, which cannot be cut short


@dataclass(frozen=True)
class Costs:
    """The expected cost of each step, in seconds."""

    mean: float
    search: float
    choice: float
    condition: float

    @classmethod
    def of(cls, n: int, d: int, m: int, *, predicts_locally: bool, searches: bool, has_mean: bool) -> Costs:
        """The costs of a fit of n rows with d inputs and m active rows.

        `predicts_locally` is whether the posterior predicts from neighbours, as "local" does.
        """
        m = min(m, n)
        if not searches:
            search = 0.0
        elif n <= FEW:
            search = 0.3 + 1.2 * (1 + d) * (n / FEW) ** 2
        else:
            search = 5.0 + 2e-5 * min(n, 100_000) if predicts_locally else 15.0
        local = 3.0 * min(1.0, (n / 5000)) + 4e-5 * n
        return cls(
            mean=0.5 + 2e-5 * min(n, 200_000) * (1 + d) if has_mean else 0.0,
            search=search,
            choice=2e-3 * m + 2.2e-5 * n * (m / 500) ** 1.5,
            condition=local if predicts_locally else 0.1 + 2e-9 * n * m,
        )

    def steps(self, chooses_mean: bool = False) -> Iterator[tuple[str, float]]:
        """The steps in their order, with their costs; three models are fitted if the mean is chosen among them."""
        model = ((CHOICE, self.choice), (CONDITION, self.condition))
        yield MEAN, self.mean
        yield SEARCH, self.search
        yield from model
        if chooses_mean:
            yield SEARCH, self.search
            yield from (*model, *model)


@dataclass(frozen=True)
class Budget:
    """The time limit of a fit, shared out among its steps: what cannot be cut short is kept back from the others."""

    limit: float | None
    """Seconds from the beginning; None for no limit."""
    costs: Costs
    began: float = field(default_factory=perf_counter)

    def for_search(self) -> float:
        """Seconds that the search for the kernel may take, from now on."""
        if self.limit is None:
            return inf
        return SEARCH_SHARE * max(self.limit - self._elapsed - self._reserve(1.0), 0.0)

    def for_choice(self, searched: float, slowness: float) -> float | None:
        """Seconds that the selection may take, from now on; None for no limit.

        Parameters
        ----------
        searched : float
            Seconds that the search took: longer than has passed, if it is read from a checkpoint.
        slowness : float
            How many times as long the steps so far have taken as they were expected to.
        """
        if self.limit is None:
            return None
        left = self.limit - max(searched, self._elapsed) - self._reserve(slowness)
        return max(left, LEAST_CHOICE * self.limit)

    @property
    def _elapsed(self) -> float:
        return perf_counter() - self.began

    def _reserve(self, slowness: float) -> float:
        """Seconds that are kept for conditioning."""
        assert self.limit is not None
        return min(SAFETY * slowness * self.costs.condition, MOST_RESERVED * self.limit)
