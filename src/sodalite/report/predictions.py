"""Predictions of the rows that judge a model, none of them from itself: the learnt distribution of each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..core.types import Floats
from ..posteriors import RowsOfFit
from ..posteriors.predictive import Predictive
from .rows import LabelledRows, Material
from .stages import Stages


def predict(material: Material, stages: Stages, rows: LabelledRows) -> tuple[Predictive, Floats]:
    """The predictive distribution of the scaled target of every row, and the novelties, of shape (rows,).

    Rows that the model has not seen are predicted as any new row, others from the rows beside them.
    """
    if material.how != "unseen":
        return _left_out(material, stages, rows)
    found = of_target(material.posterior.predictive(rows.X), rows.target)
    least = np.sqrt(max(material.selection.noise_floor, np.finfo(np.float64).tiny))
    novelty = material.posterior.novelty(rows.X) if found.novelty is None else found.novelty
    return replace(found, std=np.maximum(found.std, least)), novelty


def of_target(found: Predictive, target: int) -> Predictive:
    """The distribution of one of several targets."""
    mean, std, width = (part[:, [target]] for part in (found.mean, found.std, found.width))
    return replace(found, mean=mean, std=std, width=width, targets=[found.targets[target]])


def _left_out(material: Material, stages: Stages, rows: LabelledRows) -> tuple[Predictive, Floats]:
    """The distribution of every row's target given the other rows, and the novelties."""
    of_fit = RowsOfFit(rows.X, rows.Y, stages.noise(rows), rows.place, material.active.X)
    posterior, certain = material.posterior, material.how == "left out"
    found = posterior.left_out(of_fit) if material.whole and certain else None
    if found is None:  # the posterior's other rows are not known: rows are left out of the active ones alone
        found = material.base.left_out(of_fit)
        posterior = replace(material.base, scale=posterior.scale)
    distribution = posterior.predictive_left_out(of_fit, found)
    assert distribution.novelty is not None
    return of_target(distribution, rows.target), distribution.novelty
