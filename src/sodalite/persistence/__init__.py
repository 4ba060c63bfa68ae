"""Models in files: `save` and `load`.

A file holds what prediction needs, in the safetensors format: arrays, and one JSON text with the kernel, the
parameters, the stages of the selection, and how a table's columns become numbers. Loading a file runs no code from it,
so files of unknown origin are safe. pickle, joblib and skops work too, with the risks that each of them has.
"""

from __future__ import annotations

import os

from ..kernels import NODES
from .mapped import verify_mapped
from .model import load, save
from .model_file import FORMAT, VERSION, Header, ModelFileError, check_path, read_header
from .objects import KERNELS, OBJECTS

__all__ = [
    "FORMAT",
    "KERNELS",
    "OBJECTS",
    "TRUSTED_TYPES",
    "VERSION",
    "Header",
    "ModelFileError",
    "check_file",
    "check_path",
    "load",
    "read_header",
    "save",
]

TRUSTED_TYPES = [
    "numpy.dtype",
    *sorted(
        f"{kind.__module__}.{kind.__qualname__}" for kind in {*KERNELS.values(), *OBJECTS.values(), *NODES.values()}
    ),
    "sodalite.estimator.GreedyGPRegressor",
    "sodalite.fitting.fitted.Fitted",
    "sodalite.hyperparameters.subset.Fixed",  # in files of earlier versions
    "sodalite.hyperparameters.subset.Round",  # in files of earlier versions
    "sodalite.hyperparameters.task.Round",
    "sodalite.kernels.compiled.CompiledKernel",
    "sodalite.kernels.neighbours.Index",
    "sodalite.kernels.neighbours.Neighbours",
    "sodalite.kernels.nodes.Opaque",
    "sodalite.kernels.periodic.Cycle",
    "sodalite.fitting.means.folds.MeanFunction",
    "sodalite.fitting.means.folds.Trial",
    "sodalite.fitting.means.linear.LinearMean",
    "sodalite.posteriors.baselines.Baselines",
    "sodalite.posteriors.calibration.ErrorBars",
    "sodalite.posteriors.calibration.Scale",
    "sodalite.posteriors.local.Local",
    "sodalite.posteriors.predictive.Standard",
    "sodalite.posteriors.projected.DeterministicTraining",
    "sodalite.posteriors.projected.FullyIndependentTraining",
    "sodalite.posteriors.projected.SubsetOfRegressors",
    "sodalite.posteriors.projected.Variational",
    "sodalite.posteriors.shape.Shape",
    "sodalite.posteriors.shape.Width",
    "sodalite.posteriors.sod.SubsetOfData",
    "sodalite.selection.loop.Selection",
    "sodalite.selection.rows.ArrayRows",
    "sodalite.selection.rows.Scaling",
    "sodalite.tables.columns.Column",
    "sodalite.tables.encoder.TableEncoder",
    "sodalite.tables.examine.Reading",
    "sodalite.tables.preprocessing.Preprocessing",
]
"""The types that ``skops.io.load(path, trusted=TRUSTED_TYPES)`` needs for a model with scikit-learn's kernels. None of
them runs code from the file."""


def check_file(path: str | os.PathLike[str]) -> None:
    """Read a model file whole, and check every checksum and every value in it.

    `load` leaves the rows of a large model of the posterior "local" on disk, and checks them when they are first used.

    Parameters
    ----------
    path : str or path-like

    Raises
    ------
    sodalite.persistence.ModelFileError
        As by `load`.
    """
    verify_mapped(load(path).fitted_)
