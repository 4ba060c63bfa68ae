"""The scale of a model's error bars as JSON and arrays (`sodalite.posteriors.calibration`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from ..core.types import Floats
from ..kernels import CompiledKernel
from ..kernels.neighbours import Neighbours
from ..posteriors.calibration import MOST, UNKNOWN, ErrorBars, Scale
from .fields import count, mapping, real


def scale_to_json(scale: Scale | None) -> dict[str, Any] | None:
    """Return the numbers of a scale; its arrays are those of `scale_arrays`."""
    if scale is None:
        return None
    return {
        "mean": float(scale.mean),
        "k": int(scale.k),
        "strength": float(scale.strength),
        "density": float(scale.density) if np.isfinite(scale.density) else None,
        "extra": float(scale.extra),
        "novelty": scale.novelty is not None,
        "edge": float(scale.edge),
        "floor": float(scale.floor),
        "bars": None if scale.bars is None else asdict(scale.bars),
    }


def scale_arrays(scale: Scale | None) -> dict[str, Floats]:
    """Return the rows, squared errors and novelties from which a scale for each place is computed."""
    if scale is None:
        return {}
    arrays = {"scale_X": scale.X, "scale_squares": scale.squares}
    return arrays if scale.novelty is None else arrays | {"scale_novelty": scale.novelty}


def scale_shapes(about: Any, d: int) -> dict[str, tuple[int | None, ...]]:
    """Return the shapes of `scale_arrays` for a scale in JSON; None stands for any number."""
    if about is None:
        return {}
    shapes: dict[str, tuple[int | None, ...]] = {"scale_X": (None, d), "scale_squares": (None,)}
    return shapes | {"scale_novelty": (None,)} if mapping(about, "scale").get("novelty") else shapes


def scale_from_json(kernel: CompiledKernel, arrays: Mapping[str, Floats], about: Any) -> Scale | None:
    """Return the scale that `scale_to_json` described; a ValueError says what no scale can have.

    Fields that files of earlier versions lack have defaults.
    """
    if about is None:
        return None
    X, squares, novelty = _rows_of_scale(arrays, len(kernel.centre))
    about = mapping(about, "scale")
    k = count(about["k"], "k, the number of nearby errors that scale the error bars,", most=len(X))
    mean = real(about["mean"], "mean, the scale of the error bars,")
    if not mean > 0:
        raise ValueError("mean, the scale of the error bars, must be positive; it is 0")
    spread = float(np.square(arrays["Y"]).mean(axis=0).max())
    return Scale(
        mean=mean,
        squares=squares,
        X=X,
        near=Neighbours(kernel, X, by_period=False) if k else None,
        k=k,
        strength=real(about["strength"], "strength"),
        density=-np.inf if about["density"] is None else real(about["density"], "density", -np.inf),
        extra=real(about.get("extra", 0.0), "extra"),
        novelty=novelty,
        edge=real(about.get("edge", UNKNOWN), "edge", most=MOST),
        floor=real(about.get("floor", spread), "floor"),
        bars=None if about.get("bars") is None else _bars(mapping(about["bars"], "bars")),
    )


def _rows_of_scale(arrays: Mapping[str, Floats], d: int) -> tuple[Floats, Floats, Floats | None]:
    """The arrays X, of shape (rows, d), squares and novelty, of shape (rows,); empty if the file has none."""
    X, squares = arrays.get("scale_X", np.empty((0, d))), arrays.get("scale_squares", np.empty(0))
    if len(X) != len(squares):
        raise ValueError(
            f"arrays 'scale_X' and 'scale_squares' must have as many rows; they have {len(X)} and {len(squares)}"
        )
    novelty = arrays.get("scale_novelty")
    if novelty is not None and len(novelty) != len(X):
        raise ValueError(
            f"arrays 'scale_X' and 'scale_novelty' must have as many rows; they have {len(X)} and {len(novelty)}"
        )
    if novelty is not None and (novelty > 1).any():
        raise ValueError(f"array 'scale_novelty' must be at most 1; its largest value is {novelty.max():g}")
    return X, squares, novelty


def _bars(about: Mapping[str, Any]) -> ErrorBars:
    return ErrorBars(
        noise=real(about["noise"], "noise"),
        noise_range=_range(about, "noise_range"),
        std=real(about["std"], "std"),
        std_range=_range(about, "std_range"),
        outside=real(about["outside"], "outside"),
        rmse=None if about.get("rmse") is None else real(about["rmse"], "rmse"),
    )


def _range(about: Mapping[str, Any], name: str) -> tuple[float, float]:
    ends = [real(end, name) for end in about[name]]
    if len(ends) != 2:
        raise ValueError(f"{name} must be a lower and an upper end; it has {len(ends)} numbers")
    return ends[0], ends[1]
