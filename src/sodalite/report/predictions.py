"""Predictions of the rows that judge a model, none of them from itself: the learnt distribution of each."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..core.types import Floats
from ..posteriors import Local, SubsetOfData
from ..posteriors.calibration import Correlations, novelty_of, outside
from ..posteriors.leave_one_out import Observations
from ..posteriors.predictive import Predictive
from ..posteriors.projected import Projected
from ..posteriors.shape import LeftOut
from .rows import LabelledRows, Material, places_among
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
    """The distribution of every row's target given the other rows: its mean, its scale and its width are theirs."""
    posterior, noise = material.posterior, stages.noise(rows)
    residual, remaining, latent = _leave_one_out(material, stages, rows, noise)
    prior = material.kernel.diag(material.kernel.prepare(rows.X))
    novelty = novelty_of(remaining, prior)
    variance = latent + noise
    mean = (rows.y - residual[:, rows.target])[:, None]
    if (scale := posterior.scale) is None:
        return Predictive.gaussian(mean, _root(variance)), novelty
    place = places_among(scale.X, rows.X)
    left = LeftOut(rows.X, residual, variance, latent, prior, novelty)
    factor, widths = scale.left_out(left, place, _correlations(material, rows, left))
    std = _root((variance + scale.extra) * factor)
    target = None if scale.shape is None else scale.shape.targets[rows.target]
    if target is None:
        return Predictive.gaussian(mean, std), novelty
    return Predictive(mean, std, widths[:, [rows.target]], outside(novelty, scale.edge), [target[1]]), novelty


def _root(variance: Floats) -> Floats:
    """Standard deviations, of shape (rows, 1), never zero."""
    return np.asarray(np.sqrt(np.maximum(variance, np.finfo(np.float64).tiny))[:, None])


class _Process(NamedTuple):
    """What the Gaussian process says of some rows, each left out, before anything is calibrated."""

    residual: Floats
    """Of every target; of shape (rows, q)."""
    remaining: Floats
    """The variance of the latent function that is left, which novelty is a share of; of shape (rows,)."""
    latent: Floats
    """The variance of the latent function as the posterior reports it: "sor" has less than is left. (rows,)."""


def _leave_one_out(material: Material, stages: Stages, rows: LabelledRows, noise: Floats) -> _Process:
    """Leave each of some rows out of the posterior.

    Where the posterior's other rows are not known, rows are left out of the active ones alone.
    """
    posterior = material.posterior
    if isinstance(posterior, Local) and material.how == "left out":
        return _leave_out_of_local(posterior, rows, noise)
    if isinstance(posterior, Projected) and material.whole:
        return _leave_out_of_projected(posterior, rows, noise)
    (residual,), (variance,) = stages.errors(rows, np.array([len(stages)]))
    latent = np.maximum(variance - noise, 0)
    # Stages know one target. The residuals of the others would matter for a local scale, which only `Local` has.
    return _Process(np.repeat(residual[:, None], rows.Y.shape[1], axis=1), latent, latent)


def _correlations(material: Material, rows: LabelledRows, left: LeftOut) -> Correlations | None:
    """How errors of the rows correlate with those at places of the scale; None if the latter are not known."""
    posterior, scale = material.posterior, material.posterior.scale
    if scale is None or scale.variances is None:
        return None
    active = places_among(material.active.X, scale.X)
    if isinstance(posterior, Local) and material.how == "left out":
        groups = np.where(active >= 0, -1, places_among(posterior.X, scale.X))
        # Of the others, only what says which observations they are is needed.
        others = Observations(scale.X, np.zeros((len(active), 0)), np.zeros(len(active)), groups, active)
        sample = _observations(posterior, rows, left.variance - left.latent)
        variances = scale.variances
        return lambda partners: posterior.correlations(sample, left.variance, others, variances, partners)
    base = posterior.base if isinstance(posterior, Local) else posterior
    if not isinstance(base, SubsetOfData):
        return None
    return lambda partners: base.correlations(rows.place, np.where(partners >= 0, active[partners], -1))


def _observations(posterior: Local, rows: LabelledRows, noise: Floats) -> Observations:
    """The rows as observations that `Local` leaves out of its active rows, or of its neighbours."""
    groups = np.where(rows.place >= 0, -1, places_among(posterior.X, rows.X))
    return Observations(rows.X, rows.Y - posterior.base.mean(rows.X), noise, groups, rows.place)


def _leave_out_of_local(posterior: Local, rows: LabelledRows, noise: Floats) -> _Process:
    """Take each row out of the active rows, or out of its neighbours (docs/method.rst, `posterior-local`)."""
    residual, variance = posterior.errors(_observations(posterior, rows, noise))
    latent = np.maximum(variance - noise, 0)
    return _Process(residual, latent, latent)


def _leave_out_of_projected(posterior: Projected, rows: LabelledRows, noise: Floats) -> _Process:
    """Undo each row's leverage on its own prediction (docs/method.rst, `posterior-projected`)."""
    g, rest, left = posterior.leverage(rows.X, noise)
    latent = g / left + (rest if posterior.restored else 0)
    return _Process((rows.Y - posterior.mean(rows.X)) / left[:, None], g / left + rest, latent)
