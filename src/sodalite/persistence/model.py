"""Save a model to a file, its JSON and its arrays, and load it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core.json import shown
from ..core.types import Array
from ..core.version import __version__
from ..core.warn import warn
from ..estimator import GreedyGPRegressor
from ..fitting.fitted import Fitted
from ..hyperparameters import Round
from ..hyperparameters.exact import MOST_OPTIMISTIC
from ..kernels import CompiledKernel
from ..kernels.compiled import compile_centred
from ..posteriors import Evidence, Posterior
from ..posteriors.baselines import Baselines
from ..selection.loop import Selection
from ..selection.rows import ArrayRows, Scaling
from ..tables import Preprocessing
from ..tables.encoder import without_pipeline
from .checks import N_PREDICTED, check_array_values, check_factor, check_some_predictions, check_stages
from .fields import count, flag, mapping, real, text, wrong
from .folder import check_folder, save_folder
from .formats import FileContent
from .layout import Layout
from .means import describe_mean, mean_from_json
from .model_file import KIND, MAPPED, ModelFileError, check_path, read, write
from .objects import kernel_from_json, kernel_to_json
from .parameters import check_parameters, parameters_from_json, parameters_to_json, reset_unaffordable
from .posteriors import describe_posterior, saves_to_folder


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file that can be loaded without running any code in it.

    The file holds what prediction needs: the active rows, or all rows for the posterior "local". It is written whole or
    not at all. If the rows are on the workers of a cluster, these write them, and `path` becomes a folder, on a disk
    that the workers and this machine share. A parameter that is an object of your own (a score, a rule) is not saved;
    the file has a note of it.

    Parameters
    ----------
    model : GreedyGPRegressor or sklearn.pipeline.Pipeline
        Fitted, with scikit-learn's kernels; or a pipeline of a `sodalite.TableEncoder` and such a model, which `load`
        returns as a model that takes data frames as they are. Its attributes `preprocessing_` (a
        `sodalite.tables.Preprocessing`) and `about_` (any JSON), if it has them, are saved too.
    path : str or path-like

    Raises
    ------
    TypeError
        For a kernel or a posterior of your own, or a kernel of more than 21 terms: use pickle or joblib.
    sodalite.persistence.ModelFileError
        If the file cannot be written.

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
    model = without_pipeline(model)
    if type(model) is not GreedyGPRegressor:
        raise TypeError(f"save takes a GreedyGPRegressor; got {type(model).__name__}. Use pickle or joblib for it.")
    check_is_fitted(model, "posterior_")
    if saves_to_folder(model.fitted_):
        check_folder(path)
        save_folder(path, model.fitted_.posterior, *describe(model))
        return
    check_path(path)
    write(path, *describe(model))


def load(path: str | os.PathLike[str]) -> GreedyGPRegressor:
    """Load a model from what `save` has written. It predicts as the one that was saved; no code in the file is run.

    A model with the posterior "local" can learn more rows by ``partial_fit``. The file of any other posterior holds the
    active rows alone, which are enough to predict, but not to select rows again.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    GreedyGPRegressor
        With the attributes `preprocessing_` and `about_`, if it was saved with them. With `preprocessing_`, it takes
        data frames with the columns of the table that it was fitted to.

    Raises
    ------
    sodalite.persistence.ModelFileError
        If the file does not exist, is truncated or damaged, was written by a later version, or is not a model file.
    """
    try:
        # Wrong shapes are refused before memory is allocated for the arrays.
        header, arrays = read(path, lambda header: Layout.of(header.content).check(header.arrays))
        with np.errstate(all="ignore"):  # values that overflow are refused by the checks
            return rebuild(header.content, arrays, str(path))
    except ModelFileError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error).rstrip(".") or repr(error)
        reason = " ".join(reason.split())  # on one line
        raise ModelFileError(f"{path} is no valid model file: {reason}. {KIND.remedy}") from error


def describe(model: GreedyGPRegressor) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the JSON and the arrays of a model's file."""
    fitted: Fitted = model.fitted_
    posterior, selection = fitted.posterior, fitted.selection
    names = getattr(model, "feature_names_in_", None)
    preprocessing = getattr(model, "preprocessing_", None)
    about_posterior, arrays, kind = describe_posterior(fitted)
    about_mean, mean_arrays = describe_mean(fitted, kind.holds_all_rows)
    content: dict[str, Any] = {
        "library": __version__,
        "baselines": _baselines_to_json(fitted.baselines),
        "params": parameters_to_json(model),
        "kernel": kernel_to_json(fitted.kernel),
        "rounds": [_round_to_json(part) for part in fitted.rounds],
        "optimism": float(fitted.optimism),
        "selection": {
            "stop_reason": selection.stop_reason,
            "noise_floor": float(selection.noise_floor),
            "n_proposed": int(selection.n_proposed),
        },
        "n_rows": int(fitted.n_rows),
        "n_active": len(selection),
        "n_features": int(model.n_features_in_),
        "n_targets": fitted.q,
        "y_std": fitted.scaling.std.tolist(),  # again, for readers of the header, which has no arrays
        "flat": not fitted.target_shape,
        "feature_names": None if names is None else [str(name) for name in names],
        "log_marginal_likelihood": float(posterior.log_marginal_likelihood),
        "preprocessing": None if preprocessing is None else preprocessing.to_json(),
        "about": getattr(model, "about_", None),
        "posterior": about_posterior,
        "mean": about_mean,
    }
    if mapped := sorted(set(kind.mapped) & set(arrays)):
        content[MAPPED] = mapped
    arrays |= mean_arrays
    arrays |= {
        "centre": posterior.kernel.centre,
        "active": selection.indices.astype(np.int64),
        "rmse": selection.rmse,
        "scores": selection.scores,
        "factor": selection.factor,
        "y_mean": fitted.scaling.mean,
        "y_std": fitted.scaling.std,
    }
    return content, arrays


def rebuild(content: Mapping[str, Any], arrays: dict[str, Array], path: str) -> GreedyGPRegressor:
    """Return the model that a file describes.

    Raises a ValueError, or another error of a value that Python or a library refuses, if the file is not valid.
    """
    layout = Layout.of(content)
    layout.check_arrays(arrays)
    if sorted(mapped := content.get(MAPPED, [])) != sorted(set(layout.format.mapped) & set(arrays)):
        raise ValueError(f"the field {MAPPED!r} does not list the arrays that are mapped")
    check_array_values({name: array for name, array in arrays.items() if name not in mapped})
    check_stages(arrays["active"], arrays["rmse"], arrays["scores"], layout.sizes.n)
    model, notes = _unfitted(content["params"], layout.posterior)
    kernel = compile_centred(kernel_from_json(content["kernel"]), arrays["centre"], np.dtype(np.float64))

    def damaged(words: str) -> ModelFileError:
        return ModelFileError(f"{path} is damaged: {words}. {KIND.remedy}")

    model.fitted_ = _fitted(content, arrays, layout, kernel, model.memory_limit, damaged, path)
    model.n_features_in_ = layout.sizes.d
    _add_names(model, content, layout.sizes.d)
    if content["about"] is not None:
        model.about_ = content["about"]
    for note in notes:
        warn(f"{path}: {note}")
    return model


def _unfitted(content: Any, posterior: str) -> tuple[GreedyGPRegressor, list[str]]:
    """The estimator with its parameters, and notes of those that are not as they were saved."""
    parameters, notes = parameters_from_json(content)
    if parameters["posterior"] != posterior:
        raise ValueError(
            f"its posterior is {posterior!r}, but the parameter posterior is {shown(parameters['posterior'])}"
        )
    model = GreedyGPRegressor(**parameters)
    check_parameters(model)
    return model, notes + reset_unaffordable(model)


def _fitted(
    content: Mapping[str, Any],
    arrays: Mapping[str, Array],
    layout: Layout,
    kernel: CompiledKernel,
    memory_limit: int | float | str | None,
    damaged: Callable[[str], ModelFileError],
    path: str,
) -> Fitted:
    """The fitted state, checked against the kernel."""
    holds_all, selection = layout.format.holds_all_rows, _selection(content["selection"], arrays)
    rows = ArrayRows(arrays["X"], arrays["Y"], arrays.get("alpha"))
    active = selection.indices if holds_all else np.arange(layout.sizes.m)
    evidence = Evidence(kernel, rows, replace(selection, indices=active))
    scaling = Scaling(arrays["y_mean"], arrays["y_std"])
    mean, targets = mean_from_json(content.get("mean"), arrays, layout.sizes), arrays.get("targets")
    mean(rows.X[active][:N_PREDICTED])  # refuses predictions that are not finite
    likelihood = content["log_marginal_likelihood"]
    real(likelihood, "log_marginal_likelihood", -np.inf)
    stored = FileContent(
        evidence, mapping(content["posterior"], "posterior"), arrays, likelihood, memory_limit, damaged, path
    )
    every = layout.format.all_rows(stored)
    return Fitted(
        kernel=kernel.spec,
        selection=selection,
        posterior=_posterior(layout, stored, scaling),
        scaling=scaling,
        target_shape=() if content["flat"] else (layout.sizes.q,),
        n_rows=layout.sizes.n,
        X_active=rows.X[active],
        y_active=rows.y[active],
        optimism=real(content.get("optimism", 1.0), "optimism", 1.0, MOST_OPTIMISTIC),
        rounds=tuple(_round(mapping(part, "a round")) for part in content["rounds"]),
        baselines=_baselines(content.get("baselines")),
        rows=every.rows,
        mean_function=mean,
        targets_active=None if targets is None else targets[active],
        targets=every.targets,
        judges=every.judges,
    )


def _posterior(layout: Layout, stored: FileContent, scaling: Scaling) -> Posterior:
    """The posterior, after a check of the factor, and with predictions that are finite."""
    evidence, kind = stored.evidence, layout.format
    active = evidence.selection.indices
    X = np.asarray(evidence.X[active], dtype=np.float64)
    check_factor(evidence.kernel, X, evidence.selection.factor, evidence.noise(active), kind.holds_all_rows)
    posterior = kind.restore(stored)
    check_some_predictions(kind.without_cache(posterior), X, scaling.mean, scaling.std)
    return posterior


def _selection(content: Any, arrays: Mapping[str, Array]) -> Selection:
    about = mapping(content, "selection")
    return Selection(
        arrays["active"],
        arrays["rmse"],
        arrays["factor"],
        arrays["scores"],
        text(about["stop_reason"], "stop_reason"),
        real(about["noise_floor"], "noise_floor"),
        count(about["n_proposed"], "n_proposed"),
    )


def _add_names(model: GreedyGPRegressor, content: Mapping[str, Any], d: int) -> None:
    """Set the names of the inputs, and the preprocessing of a table's columns, if the file has them."""
    names = content["feature_names"]
    if names is not None:
        if not isinstance(names, list):
            raise wrong("feature_names", "a list of texts", names)
        names = [text(part, "feature_names") for part in names]
        if len(names) != d:
            raise ValueError(f"it has {len(names)} feature names for {d} features")
        model.feature_names_in_ = np.array(names, dtype=object)
    if content["preprocessing"] is not None:
        model.preprocessing_ = Preprocessing.from_json(content["preprocessing"])
        if len(model.preprocessing_.names) != d:
            raise ValueError(f"its columns make {len(model.preprocessing_.names)} inputs, but it has {d}")


def _baselines_to_json(found: Baselines | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {name: value if np.isfinite(value) else None for name, value in asdict(found).items()}


def _baselines(content: Any) -> Baselines | None:
    """The errors of simple models; None in files of earlier versions."""
    if content is None:
        return None
    about = mapping(content, "baselines")
    values = {name: about[name] for name in ("model", "constant", "line", "neighbours")}
    found = {name: np.nan if value is None else real(value, name) for name, value in values.items()}
    return Baselines(count(about["n_rows"], "n_rows"), **found, k=count(about["k"], "k"))


def _round_to_json(part: Round) -> dict[str, Any]:
    return {
        "name": part.name,
        "kernel": kernel_to_json(part.kernel),
        "objective": float(part.objective) if np.isfinite(part.objective) else None,
        "kept": bool(part.kept),
        "seconds": float(part.seconds),
        "n_active": None if part.n_active is None else int(part.n_active),
    }


def _round(content: Mapping[str, Any]) -> Round:
    objective, n_active = content["objective"], content["n_active"]
    return Round(
        text(content["name"], "a round's name"),
        kernel_from_json(content["kernel"]),
        -np.inf if objective is None else real(objective, "a round's objective", -np.inf),
        flag(content["kept"], "a round's kept"),
        real(content["seconds"], "a round's seconds"),
        None if n_active is None else count(n_active, "a round's n_active"),
    )
