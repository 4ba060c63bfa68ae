"""Predictions of the rows that judge a model, none of them from itself: the learnt distribution of each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..core.types import Floats
from ..kernels.neighbours import places_among
from ..posteriors import LeaveOneOutErrors, RowsOfFit
from ..posteriors.base import predictive_left_out
from ..posteriors.calibration import Correlations
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
    novelty = found.novelty
    if novelty is None:  # a posterior of the user's own
        novelty = material.posterior.mean_variance_novelty(rows.X)[2]
    return replace(found, std=np.maximum(found.std, least)), novelty


def of_target(found: Predictive, target: int) -> Predictive:
    """The distribution of one of several targets."""
    mean, std, width = (part[:, [target]] for part in (found.mean, found.std, found.width))
    return replace(found, mean=mean, std=std, width=width, targets=[found.targets[target]])


def _left_out(material: Material, stages: Stages, rows: LabelledRows) -> tuple[Predictive, Floats]:
    """The distribution of every row's target given the other rows, and the novelties."""
    active, certain = material.active.X, material.how == "left out"
    of_fit = RowsOfFit(rows.X, rows.Y, stages.noise(rows), rows.place, active, are_certain=certain)
    found = predictive_left_out(material.posterior, of_fit, _leave_one_out(material, stages, rows, of_fit))
    assert found.novelty is not None
    return of_target(found, rows.target), found.novelty


def _leave_one_out(material: Material, stages: Stages, rows: LabelledRows, of_fit: RowsOfFit) -> LeaveOneOutErrors:
    """Leave each of some rows out of the posterior.

    Where the posterior's other rows are not known, rows are left out of the active ones alone.
    """
    if material.whole and (found := material.posterior.left_out(of_fit)) is not None:
        return found
    (residual,), (variance,) = stages.errors(rows, np.array([len(stages)]))
    latent = np.maximum(variance - of_fit.noise, 0)
    # Stages know one target. The residuals of the others would matter for a local scale, which only `Local` has.
    return LeaveOneOutErrors(
        np.repeat(residual[:, None], rows.Y.shape[1], axis=1), latent, latent, _among_active(material, rows)
    )


def _among_active(material: Material, rows: LabelledRows) -> Correlations | None:
    """How errors of rows left out of the active ones correlate with those at places of the scale, if that is known."""
    base, scale = material.posterior.on_active_rows(), material.posterior.scale
    if base is None or scale is None or scale.variances is None:
        return None
    active = places_among(material.active.X, scale.X)
    return lambda partners: base.correlations(rows.place, np.where(partners >= 0, active[partners], -1))
