"""The classes that a model file can hold where the annotations of the fitted state do not name them."""

from __future__ import annotations

from .. import criteria, hyperparameters, posteriors, stopping
from ..core.state import Converter
from ..fitting.fitted import Fitted
from ..fitting.means import LinearMean, TreesMean
from ..kernels import KERNEL_CLASSES, NODES
from ..tables import Preprocessing
from ..tables.columns import TRANSFORMERS

PARAMETERS = (
    criteria.Delta,
    criteria.Lookahead,
    criteria.Product,
    criteria.Random,
    criteria.Sampled,
    posteriors.Neighbors,
    stopping.AllOf,
    stopping.AnyOf,
    stopping.Decrease,
    stopping.Size,
    stopping.TargetRMSE,
    stopping.TimeLimit,
    hyperparameters.Fixed,
    hyperparameters.Subset,
    hyperparameters.Weave,
)

CONVERTER = Converter(
    {
        kind.__name__: kind
        for kind in (*KERNEL_CLASSES, *posteriors.POSTERIORS.values(), *TRANSFORMERS, LinearMean, TreesMean)
    }
    | {f"{kind.__module__.removeprefix('sodalite.').split('.')[0]}.{kind.__name__}": kind for kind in PARAMETERS}
)
"""Converts models to data, and back."""

TRUSTED_TYPES = [
    "numpy.dtype",
    *sorted(
        f"{kind.__module__}.{kind.__qualname__}"
        for kind in {*CONVERTER.known(Fitted).values(), *CONVERTER.known(Preprocessing).values(), *NODES.values()}
        - {TreesMean}  # which has boosters of LightGBM's
    ),
    "sodalite.estimator.GreedyGPRegressor",
    "sodalite.kernels.neighbours.Index",
    "sodalite.kernels.nodes.Opaque",
    "sodalite.kernels.periodic.Cycle",
    "sodalite.tables.column.Reading",
    "sodalite.tables.encoder.TableEncoder",
]
"""The types that ``skops.io.load(path, trusted=TRUSTED_TYPES)`` needs for a model with scikit-learn's kernels. None of
them runs code from the file."""
