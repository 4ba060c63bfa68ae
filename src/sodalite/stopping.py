"""Stopping rules of the selection.

A rule looks at a `Stage` and returns the reason to stop, or None to go on. Rules hold no state, so that they can be
asked about any stage in any order, and combine: ``a | b`` stops when either would, ``a & b`` when both would.

Examples
--------
>>> rule = Decrease(0.1, patience=2) | TimeLimit(60)
>>> rule.check(Stage(rmse=(1.0, 0.95, 0.94), seconds=1.0))
'tol'
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Any

from .core.validation import check_count, check_number

REASONS = {
    "n_active": "as many as were asked for",
    "all_rows": "there are no more",
    "tol": "more would lower the error by less than was asked for",
    "target_rmse": "the error was as low as was asked for",
    "time_limit": "the time was up",
    "criterion": "no other was worth it",
    "callback": "a callback asked for no more",
}
"""Each `stop_reason` of a selection in words, to follow a number of rows. The reasons of a user's own rules are shown
as they are (`in_words`)."""


@dataclass(frozen=True)
class Stage:
    """The state of a selection once the model is conditioned on t rows: the input of rules and progress callbacks."""

    rmse: Sequence[float]
    """The remainder's RMSE after every stage so far, 1 to t. (Its last entry is NaN when no row remains.)"""
    seconds: float
    """Seconds since the selection began."""
    n_rows: int = 0
    """All rows, active or not."""
    n_active: int = 0
    """The maximum number of active rows."""
    times: Sequence[float] = ()
    """The end of every stage so far, in seconds since the selection began, to estimate the remaining time from."""
    workers: int = 0
    """The number of threads, or of workers of a cluster, that the selection uses; 0 if unknown."""
    time_limit: float = inf
    """The seconds after which the selection ends."""
    step: str = "Choosing rows"
    """The step of the fit. Only in this one are rows being chosen."""
    detail: str = ""
    """The part of the step, in words, such as a round of the search for the kernel."""
    done: float = 0.0
    """The share of the step that is done; 0 while rows are chosen, whose number shows the progress."""
    left: float = inf
    """The expected remaining seconds of the fit, from the work done so far; infinite if unknown, as outside a fit."""

    @property
    def t(self) -> int:
        """The number of active rows."""
        return len(self.rmse)


Callback = Callable[[Stage], None]
"""A function that is called with every `Stage` of a selection, and with every step of a fit.

If it raises StopIteration at a stage, no more rows are chosen after that stage; a fit goes on with these rows.
"""


class Rule(ABC):
    """A stopping rule. A rule of your own defines `check` and nothing else."""

    @abstractmethod
    def check(self, stage: Stage) -> str | None:
        """The reason to stop at this stage, or None."""

    def __or__(self, other: Rule) -> Rule:
        return AnyOf((self, other))

    def __and__(self, other: Rule) -> Rule:
        return AllOf((self, other))


@dataclass(frozen=True)
class Decrease(Rule):
    """The paper's rule: stop at stage t when RMSE_(t-1) - RMSE_t < tol.

    With a patience of p, the RMSE must have fallen by less than tol at each of the last p stages. The paper's is 1.
    """

    tol: float
    patience: int = 1

    def __post_init__(self) -> None:
        check_number("tol", self.tol, least=0)
        check_count("patience", self.patience)

    def check(self, stage: Stage) -> str | None:
        path = stage.rmse[-self.patience - 1 :]
        if len(path) <= self.patience:
            return None
        return "tol" if all(before - after < self.tol for before, after in pairwise(path)) else None


@dataclass(frozen=True)
class TargetRMSE(Rule):
    """Stop as soon as the remainder's RMSE is at most this."""

    rmse: float

    def __post_init__(self) -> None:
        check_number("rmse", self.rmse, least=0)

    def check(self, stage: Stage) -> str | None:
        return "target_rmse" if stage.rmse[-1] <= self.rmse else None


@dataclass(frozen=True)
class TimeLimit(Rule):
    """Stop at the first stage that ends after this many seconds."""

    seconds: float

    def __post_init__(self) -> None:
        check_number("time_limit", self.seconds, least=0)

    def check(self, stage: Stage) -> str | None:
        return "time_limit" if stage.seconds >= self.seconds else None


@dataclass(frozen=True)
class Size(Rule):
    """Stop when this many rows are active. Every selection has this rule."""

    n_active: int

    def __post_init__(self) -> None:
        check_count("n_active", self.n_active)

    def check(self, stage: Stage) -> str | None:
        return "n_active" if stage.t >= self.n_active else None


@dataclass(frozen=True)
class AnyOf(Rule):
    """Stop when any of the rules stops, for the reason of the first."""

    rules: tuple[Rule, ...]

    def check(self, stage: Stage) -> str | None:
        return next((reason for rule in self.rules if (reason := rule.check(stage))), None)


@dataclass(frozen=True)
class AllOf(Rule):
    """Stop when all of the rules stop, for all of their reasons."""

    rules: tuple[Rule, ...]

    def check(self, stage: Stage) -> str | None:
        reasons = [rule.check(stage) for rule in self.rules]
        return " and ".join(reason for reason in reasons if reason) if all(reasons) else None


def in_words(stop_reason: str) -> str:
    """A `stop_reason` in words (`REASONS`); that of a user's own rule as it is.

    Examples
    --------
    >>> in_words("time_limit"), in_words("seven")
    ('the time was up', 'seven')
    """
    return REASONS.get(stop_reason, stop_reason)


def resolve_rule(n_active: Any, tol: Any = None, time_limit: Any = None, stop: Rule | None = None) -> Rule:
    """Combine the stopping arguments of a selection into one rule."""
    rules: list[Rule] = [] if tol is None else [Decrease(tol)]
    if stop is not None:
        if not callable(getattr(stop, "check", None)):
            raise TypeError(f"stop must be a rule of sodalite.stopping, or have a method check(stage); got {stop!r}.")
        rules.append(stop)
    rules.append(Size(n_active))
    if time_limit is not None:
        rules.append(TimeLimit(time_limit))
    return AnyOf(tuple(rules))


def seconds_of(rule: Rule) -> float:
    """The time limit of a rule in seconds; infinite without one."""
    if isinstance(rule, TimeLimit):
        return float(rule.seconds)
    return min((seconds_of(part) for part in rule.rules), default=inf) if isinstance(rule, AnyOf) else inf
