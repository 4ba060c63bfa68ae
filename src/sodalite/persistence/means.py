"""The mean function of a model, as JSON and arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from math import inf
from typing import Any

import numpy as np

from ..core.types import Array, Floats, Indices
from ..fitting.fitted import Fitted
from ..fitting.means import LinearMean, MeanFunction, TreesMean, Trial
from ..fitting.means.folds import N_FOLDS
from ..fitting.means.forest import Forest
from ..fitting.means.trees import MOST_ROUNDS, SETTINGS
from .fields import count, mapping, real, text, wrong
from .formats import Shapes, Sizes

MOST_LEAVES = int(SETTINGS["num_leaves"])


def check_can_save(mean: MeanFunction) -> None:
    """Refuse a regressor of the user's own, which only code can restore."""
    if mean.models and not isinstance(mean.models[0], LinearMean | TreesMean):
        raise TypeError(
            f"a model file can hold the means 'linear' and 'trees', but not {mean.name}, which would need code to be "
            f"run. Use pickle or joblib.dump instead."
        )


def describe_mean(fitted: Fitted, holds_all_rows: bool) -> tuple[dict[str, Any] | None, dict[str, Array]]:
    """Return the JSON field "mean", null for a constant that nothing competed with, and the arrays."""
    mean = fitted.mean_function
    check_can_save(mean)
    trials = [
        {"name": trial.name, "share": trial.share, "nlpd": trial.nlpd if np.isfinite(trial.nlpd) else None}
        for trial in mean.trials
    ]
    # Judges are for rows that join the model later, which only a file with all rows allows.
    judges = fitted.judges if holds_all_rows else None
    n_judges = 0 if judges is None else len(judges)
    about: dict[str, Any] = {"name": mean.name, "share": mean.share, "trials": trials, "n_judges": n_judges}
    if mean.is_constant:
        return about if trials else None, {}
    targets = fitted.targets if holds_all_rows else fitted.targets_active
    assert targets is not None
    own, arrays = _linear_arrays(mean) if isinstance(mean.models[0], LinearMean) else _tree_arrays(mean)
    return about | own, {"targets": targets, **_judges(judges), **arrays}


def mean_shapes(content: Any, sizes: Sizes, n_held: int) -> Shapes:
    """Return the shapes of the arrays that the JSON field "mean" asks for; none if it is null or missing."""
    if content is None:
        return {}
    about = mapping(content, "mean")
    name, d, q = about["name"], sizes.d, sizes.q
    if name == "constant":
        return {}
    n_models = count(about.get("n_models", N_FOLDS), "n_models", 1, N_FOLDS)
    shapes: Shapes = {"targets": (n_held, q), "mean_centre": (n_models, q)}
    if n_judges := count(about["n_judges"], "n_judges", most=sizes.n):
        shapes |= {"judges": (n_judges,)}
    if name == "linear":
        return shapes | {"mean_coef": (n_models, d, q), "mean_inputs": (n_models, d)}
    if name != "trees":
        raise wrong("the mean", "constant, linear or trees", name)
    trees = count(about["n_trees"], "n_trees", N_FOLDS * q, N_FOLDS * q * MOST_ROUNDS)
    leaves = count(about["n_leaves"], "n_leaves", trees, trees * MOST_LEAVES)
    splits = dict.fromkeys(("tree_feature", "tree_threshold", "tree_left", "tree_right"), (leaves - trees,))
    sums = {"tree_n_leaves": (trees,), "tree_value": (leaves,)}
    return {**shapes, "mean_unit": (N_FOLDS, q), "mean_n_trees": (N_FOLDS, q), **splits, **sums}


def mean_from_json(content: Any, arrays: Mapping[str, Array], sizes: Sizes) -> MeanFunction:
    """Return the mean function; a ValueError says what no mean function can have."""
    mean = mean_in_header(content)
    if mean.name == "constant":
        return mean
    return replace(mean, models=_linear_models(arrays) if mean.name == "linear" else _tree_models(arrays, sizes))


def mean_in_header(content: Any) -> MeanFunction:
    """Return what the JSON field "mean" says of the mean function, which is all but its regressors."""
    if content is None:
        return MeanFunction()
    about = mapping(content, "mean")
    trials = about["trials"]
    if not isinstance(trials, list):
        raise wrong("trials", "a list", trials)
    found = tuple(_trial(mapping(part, "a trial")) for part in trials)
    share = real(about["share"], "the mean's share", 0.0, 1.0)
    return MeanFunction(text(about["name"], "the mean's name"), share=share, trials=found)


def judges_of(arrays: Mapping[str, Array], n: int) -> Indices | None:
    """Return the rows that the mean function has not seen, if the file names them; a ValueError for impossible ones."""
    judges = arrays.get("judges")
    if judges is not None and (judges.max() >= n or (np.diff(judges) <= 0).any()):
        raise ValueError(f"array 'judges' must hold different rows, numbered from 0 to {n - 1}, in order")
    return judges


def _judges(judges: Indices | None) -> dict[str, Array]:
    return {} if judges is None else {"judges": judges.astype(np.int64)}


def _trial(content: Mapping[str, Any]) -> Trial:
    nlpd = content["nlpd"]
    return Trial(
        text(content["name"], "a trial's name"),
        real(content["share"], "a trial's share", 0.0, 1.0),
        inf if nlpd is None else real(nlpd, "a trial's nlpd", -inf),
    )


def _linear_arrays(mean: MeanFunction) -> tuple[dict[str, Any], dict[str, Array]]:
    def stacked(name: str) -> Floats:
        return np.stack([getattr(model, name) for model in mean.models])

    return {"n_models": len(mean.models)}, {
        "mean_coef": stacked("coef_"),
        "mean_centre": stacked("intercept_"),
        "mean_inputs": stacked("centre_"),
    }


def _linear_models(arrays: Mapping[str, Array]) -> tuple[LinearMean, ...]:
    parts = (arrays["mean_coef"], arrays["mean_centre"], arrays["mean_inputs"])
    return tuple(LinearMean.restore(*part) for part in zip(*parts, strict=True))


def _tree_arrays(mean: MeanFunction) -> tuple[dict[str, Any], dict[str, Array]]:
    forests = [[Forest.of(booster) for booster in model.boosters_] for model in _trees(mean)]
    every = Forest.join([forest for row in forests for forest in row])
    counts = np.array([[len(forest.n_leaves) for forest in row] for row in forests], dtype=np.int64)
    arrays = {f"tree_{part.name}": getattr(every, part.name) for part in fields(every)}
    arrays |= {
        "mean_centre": np.stack([model.centre_ for model in _trees(mean)]),
        "mean_unit": np.stack([model.unit_ for model in _trees(mean)]),
        "mean_n_trees": counts,
    }
    return {"n_trees": len(every.n_leaves), "n_leaves": len(every.value)}, arrays


def _trees(mean: MeanFunction) -> list[TreesMean]:
    return [model for model in mean.models if isinstance(model, TreesMean)]


def _tree_models(arrays: Mapping[str, Array], sizes: Sizes) -> tuple[TreesMean, ...]:
    every = Forest(*(arrays[f"tree_{part.name}"] for part in fields(Forest)))
    every.check(sizes.d)
    counts = arrays["mean_n_trees"]
    if counts.min() < 1 or counts.max() > MOST_ROUNDS or counts.sum() != len(every.n_leaves):
        raise ValueError("array 'mean_n_trees' must say how many trees every fold and target has")
    ends = np.cumsum(counts).reshape(counts.shape)
    models = []
    for fold, (centre, unit) in enumerate(zip(arrays["mean_centre"], arrays["mean_unit"], strict=True)):
        spans = zip(ends[fold] - counts[fold], ends[fold], strict=True)
        boosters = [every.take(first, last).booster(sizes.d) for first, last in spans]
        models.append(TreesMean.restore(boosters, centre, unit))
    return tuple(models)
