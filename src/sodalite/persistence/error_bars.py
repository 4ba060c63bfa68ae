"""The scale of a model's error bars as JSON and arrays (`sodalite.posteriors.calibration`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from ..core.types import Floats
from ..kernels import CompiledKernel
from ..kernels.neighbours import Neighbours
from ..posteriors.calibration import COVERAGES, ErrorBars, Scale
from ..posteriors.novelty import MOST_EDGE, UNKNOWN
from ..posteriors.predictive import Standard
from ..posteriors.shape import DEGREES, NU, Shape, Width
from .checks import LARGEST
from .fields import count, mapping, real

FIRST_SIZES = (4, 16, 64)  # `Shape.sizes` in files that do not say
MOST_NEAR = 1024  # places that a width may depend on


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
        "edge": float(scale.edge),
        "floor": float(scale.floor),
        "by_logarithm": scale.by_logarithm,
        "bars": None if scale.bars is None else asdict(scale.bars),
        "arrays": sorted(scale_arrays(scale)),
        "shape": _shape_to_json(scale.shape),
    }


def scale_arrays(scale: Scale | None) -> dict[str, Floats]:
    """Return the places, and what is known of each, from which a scale and a width for each place are computed."""
    if scale is None or not len(scale.X):
        return {}
    given = {
        "scale_X": scale.X,
        "scale_squares": scale.squares if scale.k else None,
        "scale_novelty": scale.novelty if scale.k else None,
        "scale_counts": scale.counts,
        "scale_sums": None if scale.shape is None else scale.shape.sums,
        "scale_errors": scale.errors,
        "scale_variances": scale.variances,
    }
    by_place = scale.k or given["scale_sums"] is not None
    return {name: array for name, array in given.items() if array is not None} if by_place else {}


def scale_shapes(about: Any, d: int, q: int, old: tuple[str, ...] = ()) -> dict[str, tuple[int | None, ...]]:
    """Return the shapes of `scale_arrays` for a scale in JSON; None stands for any number.

    `old` are the arrays of a file of version 1, which does not list them.
    """
    if about is None:
        return {}
    about = mapping(about, "scale")
    tails: dict[str, tuple[int, ...]] = {
        "scale_X": (d,),
        "scale_squares": (),
        "scale_novelty": (),
        "scale_counts": (),
        "scale_sums": (q,),
        "scale_errors": (q,),
        "scale_variances": (),
    }
    names = about.get("arrays")
    if names is None:
        names = [*old, *(["scale_novelty"] if old and about.get("novelty") else [])]
    if not isinstance(names, list) or not all(isinstance(name, str) and name in tails for name in names):
        raise ValueError(f"the arrays of the scale must be some of {', '.join(tails)}; they are {names!r:.200}")
    return {name: (None, *tails[name]) for name in names}


def scale_from_json(kernel: CompiledKernel, arrays: Mapping[str, Floats], about: Any) -> Scale | None:
    """Return the scale that `scale_to_json` described; a ValueError says what no scale can have.

    Fields that files of earlier versions lack have defaults.
    """
    if about is None:
        return None
    about = mapping(about, "scale")
    places = _places(arrays, len(kernel.centre))
    X, squares = places["X"], places.get("squares", np.empty(0))
    k = count(about["k"], "k, the number of nearby errors that scale the error bars,", most=len(squares))
    mean = real(about["mean"], "mean, the scale of the error bars,")
    if not mean > 0:
        raise ValueError("mean, the scale of the error bars, must be positive; it is 0")
    spread = float(np.square(arrays["Y"]).mean(axis=0).max())
    shape = _shape_from_json(about.get("shape"), arrays["Y"].shape[1], places.get("sums"))
    by_place = bool(k) or (shape is not None and shape.sums is not None)
    if shape is not None and shape.sums is not None and "counts" not in places:
        raise ValueError("array 'scale_counts' is missing, which the widths of the errors depend on")
    return Scale(
        mean=mean,
        squares=squares,
        X=X,
        near=Neighbours(kernel, X, by_period=False) if by_place else None,
        k=k,
        strength=real(about["strength"], "strength"),
        density=-np.inf if about["density"] is None else real(about["density"], "density", -np.inf),
        extra=real(about.get("extra", 0.0), "extra"),
        novelty=places.get("novelty"),
        edge=real(about.get("edge", UNKNOWN), "edge", most=MOST_EDGE),
        floor=real(about.get("floor", spread), "floor"),
        bars=None if about.get("bars") is None else _bars(mapping(about["bars"], "bars")),
        counts=places.get("counts"),
        shape=shape,
        errors=places.get("errors"),
        variances=places.get("variances"),
        by_logarithm=about.get("by_logarithm") is True,
    )


def _places(arrays: Mapping[str, Floats], d: int) -> dict[str, Floats]:
    """The arrays of the scale by their names without "scale_"; X, of shape (0, d), if the file has none."""
    found = {"X": np.empty((0, d))} | {
        name.removeprefix("scale_"): array for name, array in arrays.items() if name.startswith("scale_")
    }
    n = len(found["X"])
    for name, array in found.items():
        if len(array) != n:
            raise ValueError(
                f"arrays 'scale_X' and 'scale_{name}' must have as many rows; they have {n} and {len(array)}"
            )
    novelty = found.get("novelty")
    if novelty is not None and (novelty > 1).any():
        raise ValueError(f"array 'scale_novelty' must be at most 1; its largest value is {novelty.max():g}")
    return found


def _shape_to_json(shape: Shape | None) -> dict[str, Any] | None:
    if shape is None:
        return None
    return {
        "mean": shape.mean.tolist(),
        "sizes": list(shape.sizes),
        "gain": list(shape.gain),
        "targets": [None if target is None else _target_to_json(*target) for target in shape.targets],
    }


def _target_to_json(width: Width, standard: Standard) -> dict[str, Any]:
    return {
        "nu": standard.nu,
        "weights": standard.weights.tolist(),
        "level": width.level,
        "coefficients": width.coefficients.tolist(),
        "limits": width.limits.tolist(),
    }


def _shape_from_json(about: Any, q: int, sums: Floats | None) -> Shape | None:
    """The shape of errors of q targets; `sums` is what its widths by place depend on."""
    if about is None:
        return None
    about = mapping(about, "shape")
    targets = about["targets"]
    if not isinstance(targets, list) or len(targets) != q:
        raise ValueError(f"shape must have a list of {q} targets, one for each of the model's")
    mean = _numbers(about["mean"], "the mean of the shape", q, least=0.0)
    if not np.all(mean > 0):
        raise ValueError("the mean of the shape must be positive")
    given = about.get("sizes", list(FIRST_SIZES))
    if not isinstance(given, list) or not given:
        raise ValueError("the sizes of the shape must be a list of whole numbers")
    sizes = tuple(count(size, "a size of the shape", 1, MOST_NEAR) for size in given)
    found = tuple(
        None if part is None else _target_from_json(mapping(part, "a target of the shape"), sizes) for part in targets
    )
    by_place = any(part is not None and part[0].by_place for part in found)
    if by_place and sums is None:
        raise ValueError("array 'scale_sums' is missing, which the widths of the errors depend on")
    gain = tuple(real(part, "gain", -np.inf) for part in about.get("gain", ()))
    return Shape(found, mean, sums if by_place else None, gain, sizes)


def _target_from_json(about: Mapping[str, Any], sizes: tuple[int, ...]) -> tuple[Width, Standard]:
    weights = _numbers(about["weights"], "weights", None, least=0.0)
    if not (0 < len(weights) <= max(DEGREES)) or abs(weights.sum() - 1) > 1e-6:
        raise ValueError(f"weights must be 1 to {max(DEGREES)} numbers whose sum is 1")
    coefficients = _numbers(about["coefficients"], "coefficients", None)
    features = 2 + len(sizes)  # log s, log novelty and every log a_k
    if len(coefficients) not in (0, 1, features):
        raise ValueError(f"coefficients must be 0, 1 or {features} numbers; there are {len(coefficients)}")
    limits = about["limits"]
    if not isinstance(limits, list) or len(limits) != 2:
        raise ValueError("limits must be a list of two: the least and the largest of each feature")
    low, high = (_numbers(part, "limits", len(coefficients)) for part in limits)
    if np.any(low > high):
        raise ValueError("limits must be the least and the largest of each feature, in this order")
    nu, level = real(about["nu"], "nu", NU[0] * (1 - 1e-9), NU[1] * (1 + 1e-9)), real(about["level"], "level", -np.inf)
    if not abs(level) + np.abs(coefficients) @ np.maximum(np.abs(low), np.abs(high)) <= np.log(LARGEST):
        raise ValueError("level, coefficients and limits give widths of errors that predictions cannot use")
    return Width(level, coefficients, np.stack([low, high])), Standard(nu, weights)


def _numbers(values: Any, name: str, length: int | None, least: float = -np.inf) -> Floats:
    """A list of so many finite numbers as an array."""
    if not isinstance(values, list) or (length is not None and len(values) != length):
        raise ValueError(f"{name} must be a list of {length or 'some'} numbers")
    return np.array([real(value, name, least) for value in values], dtype=np.float64)


def _bars(about: Mapping[str, Any]) -> ErrorBars:
    return ErrorBars(
        noise=real(about["noise"], "noise"),
        noise_range=_range(about, "noise_range"),
        std=real(about["std"], "std"),
        std_range=_range(about, "std_range"),
        outside=real(about["outside"], "outside"),
        rmse=None if about.get("rmse") is None else real(about["rmse"], "rmse"),
        nlpd=None if about.get("nlpd") is None else real(about["nlpd"], "nlpd", -np.inf),
        shares=_shares(about.get("shares")),
    )


def _shares(values: Any) -> tuple[float, ...] | None:
    """The shares of the rows in intervals of `COVERAGES`; None in files of earlier versions."""
    if values is None:
        return None
    if not isinstance(values, list) or len(values) != len(COVERAGES):
        raise ValueError(f"shares must be a list of {len(COVERAGES)} numbers, one for each interval")
    return tuple(real(value, "shares", most=1.0) for value in values)


def _range(about: Mapping[str, Any], name: str) -> tuple[float, float]:
    ends = [real(end, name) for end in about[name]]
    if len(ends) != 2:
        raise ValueError(f"{name} must be a lower and an upper end; it has {len(ends)} numbers")
    return ends[0], ends[1]
