"""Inputs that give the target away: equal to it, a function of it, or parts of a sum or product that it is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.types import Floats
from .base import listed
from .column import Options
from .preprocessing import Preprocessing

FEWEST = 30  # rows below which a close relation may be chance
MOST_ROWS = 20_000  # rows that are looked at: the relations sought hold in all of them
MOST_INPUTS = 200  # inputs beyond which sums are not sought: least squares of more takes long
EQUAL = 1e-3  # share of the target's standard deviation that a straight line may leave to be called equal
FUNCTION = 0.02  # share of it that a curve through neighbouring values may leave to be called a function
EXACT = 1e-6  # share of it that a sum of inputs may leave


def leaks(X: Floats, y: Floats, mapping: Preprocessing, options: Options) -> list[str]:
    """Notes of inputs that give the target away; none for a single input, from which something must be learnt.

    That a target is a smooth function of time, as a population is, gives nothing away.

    `X` has the inputs of `mapping`, in columns, and `options` tell in which words notes say what to do.
    """
    groups, notes = mapping.groups, []
    if len(y) < FEWEST or len(set(groups)) < 2 or not (std := float(np.std(y))):
        return []
    step = -(-len(y) // MOST_ROWS)
    X, targets = X[::step], y[::step]
    y = (targets - y.mean()) / std
    for column, name, group in zip(X.T, mapping.names, groups, strict=True):
        spread = float(np.std(column))
        if not spread:
            continue
        z = (column - column.mean()) / spread
        slope = float(np.mean(z * y))
        if np.sqrt(np.mean(np.square(y - slope * z))) < EQUAL:
            notes.append(f"{name!r} is the target but for scale: {_remedy([group], options)}.")
        elif group not in mapping.dates and len(np.unique(column)) > len(y) / 4 and _curve(column, y) < FUNCTION:
            notes.append(f"{name!r} alone tells the target: {_remedy([group], options)}.")
    if not notes and (parts := _parts(X, y, groups)):
        notes.append(f"The target is a sum or difference of {listed(parts)}: {_remedy(parts, options)}.")
    if not notes and (targets > 0).all():
        some = np.flatnonzero((X > 0).all(axis=0) & (np.ptp(X, axis=0) > 0)).tolist()
        logs = np.log(targets) - np.log(targets).mean()
        logs /= max(float(np.std(logs)), 1e-300)
        if parts := _parts(np.log(X[:, some]), logs, [groups[at] for at in some]):
            notes.append(f"The target is a product or ratio of {listed(parts)}: {_remedy(parts, options)}.")
    return notes


def _remedy(columns: Sequence[str], options: Options) -> str:
    """What can be done about columns that give the target away."""
    known = "it is" if len(columns) == 1 else "these are"
    return f"if {known} not known beforehand, {options.leave_out(columns)}"


def _curve(column: Floats, y: Floats) -> float:
    """The root mean square of what the neighbours by an input leave of the target; robust to a few rows."""
    order = np.argsort(column, kind="stable")
    sorted_y, x = y[order], column[order]
    left, right = x[1:-1] - x[:-2], x[2:] - x[1:-1]
    weight = np.divide(left, left + right, out=np.full(len(left), 0.5), where=left + right > 0)
    between = (1 - weight) * sorted_y[:-2] + weight * sorted_y[2:]
    return float(np.sqrt(np.mean(np.square(sorted_y[1:-1] - between))))


def _parts(X: Floats, y: Floats, groups: Sequence[str]) -> list[str]:
    """The columns that the target is a weighted sum of: of those with the largest weights, as few as will do."""
    if not 2 <= X.shape[1] <= min(MOST_INPUTS, len(y) // 4):
        return []
    spread = np.std(X, axis=0)
    Z = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1)
    weights = np.linalg.lstsq(Z, y, rcond=1e-10)[0]
    if np.sqrt(np.mean(np.square(y - Z @ weights))) >= EXACT:
        return []
    largest: dict[str, float] = {}
    for group, weight in zip(groups, np.abs(weights).tolist(), strict=True):
        largest[group] = max(weight, largest.get(group, 0.0))
    parts: list[str] = []
    for group in sorted(largest, key=lambda group: -largest[group]):
        parts.append(group)
        some = Z[:, [each in parts for each in groups]]
        if np.sqrt(np.mean(np.square(y - some @ np.linalg.lstsq(some, y, rcond=1e-10)[0]))) < EXACT:
            break
    return sorted(parts, key=list(groups).index)
