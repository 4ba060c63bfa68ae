"""What a model file says, and the model that it makes: format version 1."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils.validation import check_is_fitted

from ..core.json import shown
from ..core.memory import available, parse_bytes
from ..core.threads import n_threads
from ..core.types import Array
from ..core.version import __version__
from ..estimator import GreedyGPRegressor
from ..fitting.fitted import Fitted
from ..fitting.pipeline import Settings
from ..hyperparameters import Round
from ..kernels import CompiledKernel
from ..kernels.compiled import _compile
from ..kernels.neighbours import Neighbours, distinct
from ..posteriors import POSTERIORS, Evidence, Local, Posterior, SubsetOfData
from ..posteriors.baselines import Baselines
from ..posteriors.calibration import MOST, UNKNOWN, ErrorBars, Scale
from ..posteriors.projected import Projected
from ..selection.loop import Selection
from ..selection.source import Arrays, Scaling
from ..tables.preprocessing import Preprocessing
from .checks import (
    Layout,
    check_factor,
    check_predictions,
    check_projection,
    check_rest,
    check_values,
    count,
    mapping,
    real,
    text,
)
from .model_file import KIND, ModelFileError, check_path, read, write
from .objects import Lost, from_json, kernel_from_json, kernel_to_json, to_json

MOST_THREADS = 8  # per core, that n_jobs in a file may ask for: a larger machine's, perhaps, but no attack


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
        For a kernel of your own, or of more than 21 terms, which only pickle and joblib can keep.
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
    check_is_fitted(model, "posterior_")
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
    try:
        # A ValueError for shapes that make no sense comes before memory is taken for them.
        header, arrays = read(path, lambda header: Layout.of(header.content).check(header.arrays))
        with np.errstate(all="ignore"):  # what comes of it is looked at
            return rebuild(header.content, arrays, str(path))
    except ModelFileError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error).rstrip(".") or repr(error)
        reason = " ".join(reason.split())  # of one line
        raise ModelFileError(f"{path} is no valid model file: {reason}. {KIND.remedy}") from error


def describe(model: GreedyGPRegressor) -> tuple[dict[str, Any], dict[str, Array]]:
    """What a file says of a model: JSON, and arrays."""
    fitted: Fitted = model.fitted_
    posterior, selection = fitted.posterior, fitted.selection
    m, q = len(selection), fitted.q
    names = getattr(model, "feature_names_in_", None)
    preprocessing = getattr(model, "preprocessing_", None)
    content: dict[str, Any] = {
        "library": __version__,
        "baselines": _baselines_to_json(fitted.baselines),
        "params": {
            name: _parameter(name, value)
            for name, value in model.get_params(deep=False).items()
            if name != "checkpoint"  # a path is no part of a model
        },
        "kernel": kernel_to_json(fitted.kernel),
        "rounds": [_round(part) for part in fitted.rounds],
        "selection": {
            "stop_reason": selection.stop_reason,
            "noise_floor": float(selection.noise_floor),
            "n_proposed": int(selection.n_proposed),
        },
        "n_rows": int(fitted.n_rows),
        "n_active": m,
        "n_features": int(model.n_features_in_),
        "n_targets": q,
        "y_std": fitted.scaling.std.tolist(),  # for those who read the header alone
        "flat": not fitted.target_shape,
        "feature_names": None if names is None else [str(name) for name in names],
        "log_marginal_likelihood": float(posterior.log_marginal_likelihood),
        "preprocessing": None if preprocessing is None else preprocessing.to_json(),
        "about": getattr(model, "about_", None),
    }
    arrays = {
        "centre": posterior.kernel.centre,
        "active": selection.indices.astype(np.int64),
        "rmse": selection.rmse,
        "scores": selection.scores,
        "factor": selection.factor,
        "y_mean": fitted.scaling.mean,
        "y_std": fitted.scaling.std,
    }
    if isinstance(posterior, Local):
        assert fitted.rows is not None
        rows, scale = fitted.rows, posterior.scale
        content["posterior"] = {"name": "local", "k": int(posterior.k), "alpha": rows.alpha is not None}
        arrays |= {"X": rows.X, "Y": rows.y, "residuals": posterior.r, "noises": posterior.noises}
        if rows.alpha is not None:
            arrays["alpha"] = rows.alpha
        if scale is not None:
            arrays |= {"scale_X": scale.X, "scale_squares": scale.squares}
            if scale.novelty is not None:
                arrays["scale_novelty"] = scale.novelty
    else:
        if POSTERIORS.get(posterior.name) is not type(posterior):
            raise TypeError(
                f"a model file can hold the posteriors {', '.join(POSTERIORS)}, but not {type(posterior).__name__}, "
                f"which would need code to be run. Use pickle or joblib.dump instead."
            )
        content["posterior"] = {"name": posterior.name}
        arrays |= {"X": fitted.X_active, "Y": fitted.y_active}
        if isinstance(posterior, Projected):
            arrays |= {"inverse": posterior.inverse, "root": posterior.root, "weights": posterior.weights}
    content["posterior"]["scale"] = None if posterior.scale is None else _scale_to_json(posterior.scale)
    return content, arrays


def rebuild(content: Mapping[str, Any], arrays: dict[str, Array], path: str) -> GreedyGPRegressor:
    """The model that a file describes. Raises a ValueError, or the like, where the file makes no sense."""
    layout = Layout.of(content)
    n, m, d, q, name = layout.n, layout.m, layout.d, layout.q, layout.posterior
    layout.check({key: (str(array.dtype), array.shape) for key, array in arrays.items()})
    check_values(arrays, layout)
    parameters, notes = _parameters(content["params"])
    if parameters["posterior"] != name:
        raise ValueError(f"its posterior is {name!r}, but its parameter says {shown(parameters['posterior'])}")
    model = GreedyGPRegressor(**parameters)
    _check_parameters(model)
    notes += _fit_to_machine(model)
    kernel = _compile(kernel_from_json(content["kernel"]), arrays["centre"], np.dtype(np.float64))
    selection = _selection(content["selection"], arrays)
    rows = None
    if name == "local":
        rows = Arrays(arrays["X"], arrays["Y"], arrays.get("alpha"))
        limit = available() // 4 if model.memory_limit is None else parse_bytes(model.memory_limit)
        active, evidence = selection.indices, Evidence(kernel, rows, selection)
    else:
        active = np.arange(m)
        evidence = Evidence(kernel, Arrays(arrays["X"], arrays["Y"]), replace(selection, indices=active))
    X = np.asarray(arrays["X"][active], dtype=np.float64)
    check_factor(kernel, X, selection.factor, evidence.noise(active), exact=name == "local")
    if name == "local":
        posterior: Posterior = _local(evidence, arrays, content["posterior"], limit)
    else:
        found = _posterior(name, evidence, arrays, content["log_marginal_likelihood"])
        scale = mapping(content["posterior"], "posterior").get("scale")
        posterior = replace(found, scale=_scale(kernel, arrays, scale))
    check_predictions(posterior, X, arrays["y_mean"], arrays["y_std"])
    real(content["log_marginal_likelihood"], "log_marginal_likelihood", -np.inf)
    model.fitted_ = Fitted(
        kernel=kernel.spec,
        selection=selection,
        posterior=posterior,
        scaling=Scaling(arrays["y_mean"], arrays["y_std"]),
        target_shape=() if content["flat"] else (q,),
        n_rows=n,
        X_active=arrays["X"][active],
        y_active=arrays["Y"][active],
        rounds=tuple(_round_from(mapping(part, "a round")) for part in content["rounds"]),
        baselines=_baselines(content.get("baselines")),
        rows=rows,
    )
    model.n_features_in_ = d
    _add_names(model, content, d)
    if content["about"] is not None:
        model.about_ = content["about"]
    for note in notes:
        warnings.warn(f"{path}: {note}", stacklevel=3)
    return model


def _baselines_to_json(found: Baselines | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {name: value if np.isfinite(value) else None for name, value in asdict(found).items()}


def _baselines(content: Any) -> Baselines | None:
    """The model beside simple ways; files of earlier versions do not say."""
    if content is None:
        return None
    about = mapping(content, "baselines")
    values = {name: about[name] for name in ("model", "constant", "line", "neighbours")}
    found = {name: np.nan if value is None else real(value, name) for name, value in values.items()}
    return Baselines(count(about["n_rows"], "n_rows"), **found, k=count(about["k"], "k"))


def _selection(content: Any, arrays: Mapping[str, Array]) -> Selection:
    stages = mapping(content, "selection")
    return Selection(
        arrays["active"],
        arrays["rmse"],
        arrays["factor"],
        arrays["scores"],
        text(stages["stop_reason"], "stop_reason"),
        real(stages["noise_floor"], "noise_floor"),
        count(stages["n_proposed"], "n_proposed"),
    )


def _add_names(model: GreedyGPRegressor, content: Mapping[str, Any], d: int) -> None:
    """The names of the inputs, and how a table's columns become them, if the file has them."""
    names = content["feature_names"]
    if names is not None:
        if not isinstance(names, list):
            raise ValueError(f"feature_names is {shown(names)}, where a list belongs")
        names = [text(part, "feature_names") for part in names]
        if len(names) != d:
            raise ValueError(f"it has {len(names)} feature names for {d} features")
        model.feature_names_in_ = np.array(names, dtype=object)
    if content["preprocessing"] is not None:
        model.preprocessing_ = Preprocessing.from_json(content["preprocessing"])
        if len(model.preprocessing_.names) != d:
            raise ValueError(f"its columns make {len(model.preprocessing_.names)} inputs, but it has {d}")


def _posterior(name: str, evidence: Evidence, arrays: Mapping[str, Array], evidence_value: Any) -> Any:
    if name == "sod":
        return SubsetOfData.condition(evidence)
    kind: Any = POSTERIORS[name]
    check_projection(evidence.kernel, np.asarray(evidence.X, dtype=np.float64), arrays["inverse"], arrays["root"])
    rows = evidence.kernel.prepare(np.asarray(evidence.X))
    value = real(evidence_value, "log_marginal_likelihood", -np.inf)
    return kind(evidence.kernel, rows, arrays["inverse"], arrays["root"], arrays["weights"], value)


def _local(evidence: Evidence, arrays: Mapping[str, Array], about: Mapping[str, Any], limit: int) -> Local:
    remains = np.ones(len(evidence.X), dtype=bool)
    remains[evidence.selection.indices] = False
    rest = np.flatnonzero(remains)
    X_rest = np.asarray(evidence.X[rest], dtype=np.float64)
    first, group = distinct(X_rest)
    X, residuals, noises = X_rest[first], arrays["residuals"], arrays["noises"]
    base = SubsetOfData.condition(evidence)
    check_rest(evidence, base, first, group, rest, residuals, noises)
    k = count(about["k"], "k, the number of neighbours,", most=len(X))
    scale = _scale(evidence.kernel, arrays, about["scale"])
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
    about = mapping(about, "scale")
    k = count(about["k"], "k, the number of errors near by,", most=len(X))
    mean = real(about["mean"], "mean, the scale of the error bars,")
    if not mean > 0:
        raise ValueError("the scale of its error bars is 0, where it must be positive")
    strength = real(about["strength"], "strength")
    density = -np.inf if about["density"] is None else real(about["density"], "density", -np.inf)
    # Files of earlier versions say less.
    extra = real(about.get("extra", 0.0), "extra")
    edge = real(about.get("edge", UNKNOWN), "edge", most=MOST)
    floor = real(about.get("floor", float(np.square(arrays["Y"]).mean(axis=0).max())), "floor")
    near = Neighbours(kernel, X, by_period=False) if k else None
    bars = None if about.get("bars") is None else _bars(mapping(about["bars"], "bars"))
    return Scale(mean, squares, X, near, k, strength, density, extra, novelty, edge, floor, bars)


def _bars(about: Mapping[str, Any]) -> ErrorBars:
    ranges = {name: tuple(real(end, name) for end in about[name]) for name in ("noise_range", "std_range")}
    if any(len(ends) != 2 for ends in ranges.values()):
        raise ValueError("the ranges of its error bars have no two ends")
    noise, std, outside = (real(about[name], name) for name in ("noise", "std", "outside"))
    rmse = None if about.get("rmse") is None else real(about["rmse"], "rmse")
    return ErrorBars(noise, ranges["noise_range"], std, ranges["std_range"], outside, rmse)  # type: ignore[arg-type]


def _parameter(name: str, value: Any) -> Any:
    if name == "dtype":
        value = str(np.dtype(value))
    try:
        return {"value": to_json(value)}
    except Lost:
        return {"lost": repr(value)[:200]}


def _parameters(content: Any) -> tuple[dict[str, Any], list[str]]:
    """The parameters, and notes of those that could not be kept."""
    defaults = {name: parameter.default for name, parameter in inspect.signature(GreedyGPRegressor).parameters.items()}
    strange = sorted(set(mapping(content, "params")) - set(defaults))
    if strange:
        raise ValueError(f"it has a parameter {shown(strange[0])}, which there is not")
    if "checkpoint" in content:
        raise ValueError(
            "it sets the parameter checkpoint, a path that a later fit would write to, as no model that was saved does"
        )
    values, notes = dict(defaults), []
    for name, part in content.items():
        if "lost" in mapping(part, f"the parameter {name}"):
            notes.append(
                f"the parameter {name} was {text(part['lost'], name)[:200]}, which a file cannot hold, and is "
                f"{defaults[name]!r} now. Predictions are not affected; another fit would be."
            )
        else:
            values[name] = from_json(part["value"])
    return values, notes


def _check_parameters(model: GreedyGPRegressor) -> None:
    """Refuse parameters that a later fit would refuse, and any of a type that no model was saved with."""
    Settings.of(model.get_params(deep=False))
    n_threads(model.n_jobs)
    if model.memory_limit is not None:
        parse_bytes(model.memory_limit)
    if model.kernel is not None and not isinstance(model.kernel, Kernel):
        raise ValueError(f"the parameter kernel is {shown(model.kernel)}, which is no kernel")
    for name in ("calibrate", "normalize_y", "verbose"):
        if not isinstance(getattr(model, name), bool | int):
            raise ValueError(f"the parameter {name} is {shown(getattr(model, name))}, where true or false belongs")
    if model.random_state is not None:
        count(model.random_state, "the parameter random_state")
    first = () if model.first is None else model.first
    for row in first if isinstance(first, tuple) else (first,):
        count(row, "the parameter first")


def _fit_to_machine(model: GreedyGPRegressor) -> list[str]:
    """Take back what asks for more than this machine has; notes of it."""
    notes = []
    threads, memory = MOST_THREADS * n_threads(-1), available()
    if model.n_jobs is not None and model.n_jobs > threads:
        notes.append(f"the parameter n_jobs was {shown(model.n_jobs)}, more than {threads} threads, and is None now.")
        model.n_jobs = None
    if model.memory_limit is not None and parse_bytes(model.memory_limit) > memory:
        notes.append(
            f"the parameter memory_limit was {shown(model.memory_limit)}, more than the {memory / 1e9:.1f} GB that are "
            f"free, and is None now."
        )
        model.memory_limit = None
    return notes


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
    if not isinstance(content["kept"], bool):
        raise ValueError(f"a round's kept is {shown(content['kept'])}, where true or false belongs")
    return Round(
        text(content["name"], "a round's name"),
        kernel_from_json(content["kernel"]),
        -np.inf if content["objective"] is None else real(content["objective"], "a round's objective", -np.inf),
        content["kept"],
        real(content["seconds"], "a round's seconds"),
        None if content["n_active"] is None else count(content["n_active"], "a round's n_active"),
    )
