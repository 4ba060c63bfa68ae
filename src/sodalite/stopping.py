"""When to stop taking rows.

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
from numbers import Integral, Real
from typing import Any


@dataclass(frozen=True)
class Stage:
    """What is known once the model has been conditioned on t rows: what rules and progress callbacks are shown."""

    rmse: Sequence[float]
    """The remainder's RMSE after every stage so far, 1 to t. (Its last entry is NaN when no row remains.)"""
    seconds: float
    """Time since the selection began."""
    n_rows: int = 0
    """All rows, active or not."""
    n_active: int = 0
    """The most rows that will be active."""
    times: Sequence[float] = ()
    """When every stage so far ended, in the same seconds: for those who say how long it will take. ..."""
    workers: int = 0
    """... How many threads, or workers of a cluster, are at it; 0 if that is not known. ..."""
    time_limit: float = inf
    """... And the seconds after which it ends."""
    step: str = "Choosing rows"
    """What is being done. While it is anything else, no row has been chosen yet, or all have been."""

    @property
    def t(self) -> int:
        """How many rows are active."""
        return len(self.rmse)


Callback = Callable[[Stage], None]
"""What is told how a selection or a fit goes on."""


class Rule(ABC):
    """A stopping rule: `check` is all that one of your own must define."""

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

    With a patience of p, each of the last p stages must have fallen by less than tol. The paper's is 1.
    """

    tol: float
    patience: int = 1

    def __post_init__(self) -> None:
        _check_number("tol", self.tol, least=0)
        _check_count("patience", self.patience)

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
        _check_number("target_rmse", self.rmse, least=0)

    def check(self, stage: Stage) -> str | None:
        return "target_rmse" if stage.rmse[-1] <= self.rmse else None


@dataclass(frozen=True)
class TimeLimit(Rule):
    """Stop at the first stage that ends after so many seconds."""

    seconds: float

    def __post_init__(self) -> None:
        _check_number("time_limit", self.seconds, least=0)

    def check(self, stage: Stage) -> str | None:
        return "time_limit" if stage.seconds >= self.seconds else None


@dataclass(frozen=True)
class Size(Rule):
    """Stop when so many rows are active. Every selection has one."""

    n_active: int

    def __post_init__(self) -> None:
        _check_count("n_active", self.n_active)

    def check(self, stage: Stage) -> str | None:
        return "n_active" if stage.t >= self.n_active else None


@dataclass(frozen=True)
class AnyOf(Rule):
    """Stop when the first of the rules would, for its reason."""

    rules: tuple[Rule, ...]

    def check(self, stage: Stage) -> str | None:
        return next((reason for rule in self.rules if (reason := rule.check(stage))), None)


@dataclass(frozen=True)
class AllOf(Rule):
    """Stop when all of the rules would."""

    rules: tuple[Rule, ...]

    def check(self, stage: Stage) -> str | None:
        reasons = [rule.check(stage) for rule in self.rules]
        return " and ".join(reason for reason in reasons if reason) if all(reasons) else None


def resolve_rule(
    n_active: Any,
    tol: Any = None,
    patience: Any = 1,
    target_rmse: Any = None,
    time_limit: Any = None,
    stop: Rule | None = None,
) -> Rule:
    """The one rule that a selection's arguments amount to."""
    _check_count("patience", patience)
    rules: list[Rule] = []
    if tol is not None:
        rules.append(Decrease(tol, patience))
    if target_rmse is not None:
        rules.append(TargetRMSE(target_rmse))
    if stop is not None:
        if not callable(getattr(stop, "check", None)):
            raise TypeError(f"stop must be a rule of sodalite.stopping, or have a method check(stage); got {stop!r}.")
        rules.append(stop)
    rules.append(Size(n_active))
    if time_limit is not None:
        rules.append(TimeLimit(time_limit))
    return AnyOf(tuple(rules))


def seconds_of(rule: Rule) -> float:
    """The seconds after which a rule ends a selection, if it is bounded so; infinite if not."""
    if isinstance(rule, TimeLimit):
        return float(rule.seconds)
    return min((seconds_of(part) for part in rule.rules), default=inf) if isinstance(rule, AnyOf) else inf


def _check_number(name: str, value: Any, least: float) -> None:
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number; got {value!r} of type {type(value).__name__}.")
    if not float(value) >= least:
        raise ValueError(f"{name} must be at least {least}; got {value!r}.")


def _check_count(name: str, value: Any) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number; got {value!r} of type {type(value).__name__}.")
    if value < 1:
        raise ValueError(f"{name} must be at least 1; got {value!r}.")
