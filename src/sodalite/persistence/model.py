"""What a model file says, and the model that it makes: format version 1."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from .. import __version__
from ..calibration import MOST, UNKNOWN, ErrorBars, Scale
from ..estimator import GreedyGPRegressor
from ..hyperparameters import Round
from ..kernels import CompiledKernel
from ..kernels.compiled import _compile
from ..loop import Selection
from ..memory import available, parse_bytes
from ..neighbours import Neighbours, distinct
from ..posteriors import POSTERIORS, Evidence, Local, SubsetOfData
from ..posteriors.projected import Projected
from ..tables.preprocessing import Preprocessing
from .container import ModelFileError, check_path, read, write
from .objects import Lost, from_json, kernel_from_json, kernel_to_json, to_json

Array = NDArray[Any]


def save(model: GreedyGPRegressor, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file that can be loaded without running any code in it.

    The file holds what prediction needs: the active rows, and for the posterior "local" all rows. It is written whole
    or not at all. Of a parameter that is an object of your own (a score, a rule), a note is kept and no more.

    Parameters
    ----------
    model : GreedyGPRegressor
        Fitted, with scikit-learn's kernels. What it has as attributes `preprocessing_` (a
        `sodalite.tables.Preprocessing`) and `about_` (anything that JSON can hold) is kept too.
    path : str or path-like

    Raises
    ------
    TypeError
        For a kernel of your own, which only pickle and joblib can keep.
    sodalite.persistence.ModelFileError
        Where the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import sodalite
    >>> model = sodalite.GreedyGPRegressor(hyperparameters="fixed").fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 2.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sodalite.save(model, f"{folder}/model.sodalite")
    ...     again = sodalite.load(f"{folder}/model.sodalite")
    >>> bool(again.predict([[0.5]]) == model.predict([[0.5]]))
    True
    """
    if type(model) is not GreedyGPRegressor:
        raise TypeError(f"save takes a GreedyGPRegressor; got {type(model).__name__}. Use pickle or joblib for it.")
    check_is_fitted(model)
    check_path(path)
    write(path, *describe(model))


def load(path: str | os.PathLike[str]) -> GreedyGPRegressor:
    """The model in a file. It predicts as the one that was saved; no code in the file is run.

    A model with the posterior "local" can go on learning by ``partial_fit``. The file of any other holds its active
    rows alone, which are enough to predict, but not to choose again.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    GreedyGPRegressor
        With the attributes `preprocessing_` and `about_`, if it was saved with them.

    Raises
    ------
    sodalite.persistence.ModelFileError
        For a file that is not there, is truncated or damaged, was written by a later version, or is no model at all.
    """
    header, arrays = read(path)
    try:
        return rebuild(header.content, arrays, str(path))
    except ModelFileError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error).rstrip(".") or repr(error)
        raise ModelFileError(f"{path} is no valid model file: {reason}.") from error


def describe(model: GreedyGPRegressor) -> tuple[dict[str, Any], dict[str, Array]]:
    """What a file says of a model: JSON, and arrays."""
    posterior, selection = model.posterior_, model.selection_
    m, q = len(selection), len(model.y_mean_)
    n = model._n_rows if model._rows is None else len(model._rows[0])
    names = getattr(model, "feature_names_in_", None)
    preprocessing = getattr(model, "preprocessing_", None)
    content: dict[str, Any] = {
        "library": __version__,
        "params": {
            name: _parameter(name, value)
            for name, value in model.get_params(deep=False).items()
            if name != "checkpoint"  # a path is no part of a model
        },
        "kernel": kernel_to_json(model.kernel_),
        "rounds": [_round(part) for part in model.rounds_],
        "selection": {
            "stop_reason": selection.stop_reason,
            "noise_floor": float(selection.noise_floor),
            "n_proposed": int(selection.n_proposed),
        },
        "n_rows": int(n),
        "n_active": m,
        "n_features": int(model.n_features_in_),
        "n_targets": q,
        "y_std": model.y_std_.tolist(),  # for those who read the header alone
        "flat": not model._shape,
        "feature_names": None if names is None else [str(name) for name in names],
        "log_marginal_likelihood": float(model.log_marginal_likelihood_value_),
        "preprocessing": None if preprocessing is None else preprocessing.to_json(),
        "about": getattr(model, "about_", None),
    }
    arrays = {
        "centre": posterior.kernel.centre,
        "active": selection.indices.astype(np.int64),
        "rmse": selection.rmse,
        "scores": selection.scores,
        "factor": selection.factor,
        "y_mean": model.y_mean_,
        "y_std": model.y_std_,
    }
    if isinstance(posterior, Local):
        assert model._rows is not None
        X, Y, alpha = model._rows
        scale = posterior.scale
        content["posterior"] = {"name": "local", "k": int(posterior.k), "alpha": alpha is not None}
        arrays |= {"X": X, "Y": Y, "residuals": posterior.r, "noises": posterior.noises}
        if alpha is not None:
            arrays["alpha"] = alpha
        if scale is not None:
            arrays |= {"scale_X": scale.X, "scale_squares": scale.squares}
            if scale.novelty is not None:
                arrays["scale_novelty"] = scale.novelty
    else:
        name = next(name for name, kind in POSTERIORS.items() if kind is type(posterior))
        content["posterior"] = {"name": name}
        arrays |= {"X": model.X_train_, "Y": model.y_train_.reshape(m, q)}
        if isinstance(posterior, Projected):
            arrays |= {"inverse": posterior.inverse, "root": posterior.root, "weights": posterior.weights}
    content["posterior"]["scale"] = None if posterior.scale is None else _scale_to_json(posterior.scale)
    return content, arrays


def rebuild(content: Mapping[str, Any], arrays: dict[str, Array], path: str) -> GreedyGPRegressor:
    """The model that a file describes. Raises a ValueError, or the like, where the file makes no sense."""
    n, m, d, q = (_count(content[key], key, 1) for key in ("n_rows", "n_active", "n_features", "n_targets"))
    if not isinstance(content["flat"], bool) or (content["flat"] and q != 1):
        raise ValueError(f"it has {q} targets, but is flat")
    name, about = content["posterior"]["name"], content["posterior"]
    if name not in POSTERIORS:
        raise ValueError(f"its posterior is {name!r}")
    check_arrays(arrays, name, about, n, m, d, q)
    parameters, notes = _parameters(content["params"])
    if parameters["posterior"] != name:
        raise ValueError(f"its posterior is {name!r}, but its parameter says {parameters['posterior']!r}")
    kernel = _compile(kernel_from_json(content["kernel"]), arrays["centre"], np.dtype(np.float64))
    stages = content["selection"]
    selection = Selection(
        arrays["active"],
        arrays["rmse"],
        arrays["factor"],
        arrays["scores"],
        _text(stages["stop_reason"], "stop_reason"),
        _real(stages["noise_floor"], "noise_floor"),
        _count(stages["n_proposed"], "n_proposed"),
    )
    model = GreedyGPRegressor(**parameters)
    model._n_rows, model._shape = n, () if content["flat"] else (q,)
    if name == "local":
        alpha = arrays.get("alpha")
        model._rows = arrays["X"], arrays["Y"], alpha
        limit = available() // 4 if model.memory_limit is None else parse_bytes(model.memory_limit)
        evidence = Evidence(kernel, arrays["X"], arrays["Y"], selection, alpha)
        model.posterior_ = _local(evidence, arrays, about, limit)
        active = selection.indices
    else:
        model._rows = None
        active = np.arange(m)
        evidence = Evidence(kernel, arrays["X"], arrays["Y"], replace(selection, indices=active))
        found = _posterior(name, evidence, arrays, content["log_marginal_likelihood"])
        model.posterior_ = replace(found, scale=_scale(kernel, arrays, about.get("scale")))
    model.X_train_ = arrays["X"][active]
    model.y_train_ = arrays["Y"][active].reshape(m, *model._shape)
    model.kernel_, model.selection_, model.active_indices_ = kernel.spec, selection, selection.indices
    model.y_mean_, model.y_std_ = arrays["y_mean"], arrays["y_std"]
    model.rounds_ = tuple(_round_from(part) for part in content["rounds"])
    model.log_marginal_likelihood_value_ = _real(content["log_marginal_likelihood"], "log_marginal_likelihood", -np.inf)
    model.n_features_in_ = d
    if content["feature_names"] is not None:
        names = [_text(part, "feature_names") for part in content["feature_names"]]
        if len(names) != d:
            raise ValueError(f"it has {len(names)} feature names for {d} features")
        model.feature_names_in_ = np.array(names, dtype=object)
    if content["preprocessing"] is not None:
        model.preprocessing_ = Preprocessing.from_json(content["preprocessing"])
        if len(model.preprocessing_.names) != d:
            raise ValueError(f"its columns make {len(model.preprocessing_.names)} inputs, but it has {d}")
    if content["about"] is not None:
        model.about_ = content["about"]
    for note in notes:
        warnings.warn(f"{path}: {note}", stacklevel=3)
    return model


def check_arrays(
    arrays: Mapping[str, Array], name: str, about: Mapping[str, Any], n: int, m: int, d: int, q: int
) -> None:
    """See that all arrays are there, with the types, shapes and values that they must have."""
    shapes: dict[str, tuple[int | None, ...]] = {
        "centre": (d,),
        "active": (m,),
        "rmse": (m,),
        "scores": (m,),
        "factor": (m, m),
        "y_mean": (q,),
        "y_std": (q,),
    }
    rows = n if name == "local" else m
    shapes |= {"X": (rows, d), "Y": (rows, q)}
    positive, factors = {"y_std", "noises"}, {"factor"}
    if name == "local":
        shapes |= {"residuals": (None, q), "noises": (None,)}
        if about["alpha"]:
            shapes |= {"alpha": (n,)}
        if about["scale"] is not None:
            shapes |= {"scale_X": (None, d), "scale_squares": (None,)}
            if about["scale"].get("novelty"):
                shapes |= {"scale_novelty": (None,)}
    elif name != "sod":
        shapes |= {"inverse": (m, m), "root": (m, m), "weights": (m, q)}
        factors |= {"inverse", "root"}
    if set(arrays) != set(shapes):
        wrong = sorted(set(arrays) ^ set(shapes))
        raise ValueError(f"array {wrong[0]!r} {'should not be there' if wrong[0] in arrays else 'is missing'}")
    for key, shape in shapes.items():
        array = arrays[key]
        kinds = ("int64",) if key == "active" else ("float64", "float32") if key == "X" else ("float64",)
        if str(array.dtype) not in kinds:
            raise ValueError(f"array {key!r} is of type {array.dtype}")
        if array.ndim != len(shape) or any(b not in (a, None) for a, b in zip(array.shape, shape, strict=True)):
            raise ValueError(f"array {key!r} has shape {array.shape}, where {shape} is needed")
        if key not in ("rmse", "scores") and not np.isfinite(array).all():
            raise ValueError(f"array {key!r} holds what is no finite number")
        if key in positive and (array <= 0).any():
            raise ValueError(f"array {key!r} must be positive")
        if key in ("alpha", "scale_squares", "scale_novelty") and (array < 0).any():
            raise ValueError(f"array {key!r} must not be negative")
        if key in factors and (np.triu(array, 1).any() or (array.diagonal() <= 0).any()):
            raise ValueError(f"array {key!r} is no lower triangle with a positive diagonal")
    active = arrays["active"]
    if active.min() < 0 or active.max() >= n or len(np.unique(active)) < m:
        raise ValueError(f"its active rows are not {m} of {n}")
    with np.errstate(invalid="ignore"):
        if (arrays["rmse"] < 0).any() or np.isinf(arrays["rmse"]).any() or np.isposinf(arrays["scores"]).any():
            raise ValueError("its RMSE or scores are not what they can be")


def _posterior(name: str, evidence: Evidence, arrays: Mapping[str, Array], evidence_value: Any) -> Any:
    if name == "sod":
        return SubsetOfData.condition(evidence)
    kind: Any = POSTERIORS[name]
    rows = evidence.kernel.prepare(evidence.X)
    value = _real(evidence_value, "log_marginal_likelihood", -np.inf)
    return kind(evidence.kernel, rows, arrays["inverse"], arrays["root"], arrays["weights"], value)


def _local(evidence: Evidence, arrays: Mapping[str, Array], about: Mapping[str, Any], limit: int) -> Local:
    remains = np.ones(len(evidence.X), dtype=bool)
    remains[evidence.selection.indices] = False
    rest = np.asarray(evidence.X[remains], dtype=np.float64)
    X = rest[distinct(rest)[0]]
    residuals, noises = arrays["residuals"], arrays["noises"]
    if not len(X) == len(residuals) == len(noises):
        raise ValueError(f"it has {len(X)} rows that differ, but {len(residuals)} residuals and {len(noises)} noises")
    k = _count(about["k"], "k", most=len(X))
    scale = _scale(evidence.kernel, arrays, about["scale"])
    base = SubsetOfData.condition(evidence)
    return Local.restore(evidence.kernel, base, X, residuals, noises, k, scale, limit)


def _scale_to_json(scale: Scale) -> dict[str, Any]:
    bars = scale.bars
    return {
        "mean": float(scale.mean),
        "k": int(scale.k),
        "strength": float(scale.strength),
        "density": float(scale.density) if np.isfinite(scale.density) else None,
        "extra": float(scale.extra),
        "novelty": scale.novelty is not None,
        "edge": float(scale.edge),
        "floor": float(scale.floor),
        "bars": None if bars is None else asdict(bars),
    }


def _scale(kernel: CompiledKernel, arrays: Mapping[str, Array], about: Mapping[str, Any] | None) -> Scale | None:
    if about is None:
        return None
    nothing = np.empty(0)
    X, squares = arrays.get("scale_X", np.empty((0, len(kernel.centre)))), arrays.get("scale_squares", nothing)
    novelty = arrays.get("scale_novelty")
    if len(X) != len(squares):
        raise ValueError(f"its error bars are scaled by {len(squares)} errors of {len(X)} rows")
    if novelty is not None and (len(novelty) != len(X) or (novelty > 1).any()):
        raise ValueError(f"its error bars are scaled by the novelty of {len(novelty)} rows, for errors of {len(X)}")
    k = _count(about["k"], "k")
    if k and not len(X):
        raise ValueError(f"its error bars are scaled by {k} errors near by, of none")
    mean = _real(about["mean"], "mean")
    strength = _real(about["strength"], "strength")
    density = -np.inf if about["density"] is None else _real(about["density"], "density", -np.inf)
    # Files of earlier versions say less.
    extra = _real(about.get("extra", 0.0), "extra")
    edge = _real(about.get("edge", UNKNOWN), "edge", most=MOST)
    floor = _real(about.get("floor", float(np.square(arrays["Y"]).mean(axis=0).max())), "floor")
    near = Neighbours(kernel, X) if k else None
    bars = None if about.get("bars") is None else _bars(about["bars"])
    return Scale(mean, squares, X, near, k, strength, density, extra, novelty, edge, floor, bars)


def _bars(about: Mapping[str, Any]) -> ErrorBars:
    ranges = {name: tuple(_real(end, name) for end in about[name]) for name in ("noise_range", "std_range")}
    if any(len(ends) != 2 for ends in ranges.values()):
        raise ValueError("the ranges of its error bars have no two ends")
    noise, std, outside = (_real(about[name], name) for name in ("noise", "std", "outside"))
    return ErrorBars(noise, ranges["noise_range"], std, ranges["std_range"], outside)  # type: ignore[arg-type]


def _parameter(name: str, value: Any) -> Any:
    if name == "dtype":
        value = str(np.dtype(value))
    try:
        return {"value": to_json(value)}
    except Lost:
        return {"lost": repr(value)[:200]}


def _parameters(content: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The parameters, and notes of those that could not be kept."""
    defaults = {name: parameter.default for name, parameter in inspect.signature(GreedyGPRegressor).parameters.items()}
    strange = sorted(set(content) - set(defaults))
    if strange:
        raise ValueError(f"it has a parameter {strange[0]!r}, which there is not")
    values, notes = dict(defaults), []
    for name, part in content.items():
        if "lost" in part:
            notes.append(
                f"the parameter {name} was {part['lost']}, which a file cannot hold, and is {defaults[name]!r} now. "
                f"Predictions are not affected; another fit would be."
            )
        else:
            values[name] = from_json(part["value"])
    return values, notes


def _round(part: Round) -> dict[str, Any]:
    return {
        "name": part.name,
        "kernel": kernel_to_json(part.kernel),
        "objective": float(part.objective) if np.isfinite(part.objective) else None,
        "kept": bool(part.kept),
        "seconds": float(part.seconds),
        "n_active": None if part.n_active is None else int(part.n_active),
    }


def _round_from(content: Mapping[str, Any]) -> Round:
    return Round(
        _text(content["name"], "name"),
        kernel_from_json(content["kernel"]),
        -np.inf if content["objective"] is None else _real(content["objective"], "objective", -np.inf),
        bool(content["kept"]),
        _real(content["seconds"], "seconds"),
        None if content["n_active"] is None else _count(content["n_active"], "n_active"),
    )


def _count(value: Any, what: str, least: int = 0, most: float = np.inf) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{what} is {value!r}")
    return value


def _real(value: Any, what: str, least: float = 0.0, most: float = np.inf) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        raise ValueError(f"{what} is {value!r}")
    if not least <= value <= most:
        raise ValueError(f"{what} is {value!r}")
    return float(value)


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{what} is {value!r}")
    return value
