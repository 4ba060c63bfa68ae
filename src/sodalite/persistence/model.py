"""Save a model to a file, and load it: its state as data (`sodalite.core.state`) in a container."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core import container
from ..core.container import Header, Kind, MappedArray
from ..core.state import StateError, UnknownClassError, reason_of
from ..core.validation import float_type
from ..core.version import __version__
from ..core.warn import warn
from ..estimator import GreedyGPRegressor
from ..exceptions import INVALID, ModelFileError
from ..fitting.fitted import Fitted
from ..posteriors import Local
from ..posteriors.remainder import cache_limit
from ..report.summary import Record, Summary, summarize
from ..tables import Preprocessing
from ..tables.encoder import without_pipeline
from .classes import CONVERTER

KIND = Kind("sodalite-model", "model file", ModelFileError, "Copy it again, or fit it again.")
LEAST_ROWS = 20_000  # distinct rows of the remainder from which on rows are mapped: fewer are read in milliseconds
MOST_SHOWN = 200  # characters of a parameter that a file cannot hold
MAPPED = (
    *(f"fitted.posterior.store.{name}" for name in ("X", "Z", "values", "noises")),
    *(f"fitted.rows.{name}" for name in ("X", "y", "alpha")),
    "fitted.targets",
    "fitted.judges",
)
"""The arrays that stay on disk when a model of many rows is loaded."""


@dataclass(frozen=True)
class Saved:
    """What a model file holds."""

    library: str
    """The version that wrote it."""
    parameters: dict[str, Any]
    """Those of the estimator."""
    lost: dict[str, str]
    """The parameters that a file cannot hold, as texts."""
    feature_names: tuple[str, ...] | None
    preprocessing: Preprocessing | None
    targets: tuple[str, ...] | None
    about: Record | None
    summary: Summary
    fitted: Fitted


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file that can be loaded without running any code in it.

    The file holds what prediction needs: the active rows, or all rows for the posterior "local". It is written whole or
    not at all. Rows on the workers of a cluster are fetched some megabytes at a time. A parameter that is an object of
    your own (a criterion, a rule) is not saved; the file has a note of it.

    Parameters
    ----------
    model : GreedyGPRegressor or sklearn.pipeline.Pipeline
        Fitted, with scikit-learn's kernels; or a pipeline of a `sodalite.TableEncoder` and such a model, which `load`
        returns as a model that takes data frames as they are. Its attributes `preprocessing_` (a
        `sodalite.tables.Preprocessing`), `target_names_` and `about_` (a `sodalite.report.summary.Record`), if it has
        them, are saved too.
    path : str or path-like

    Raises
    ------
    TypeError
        For a kernel, a mean function or a posterior of your own: use pickle or joblib.
    sodalite.exceptions.ModelFileError
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
    fitted: Fitted = model.fitted_
    about = getattr(model, "about_", None)
    if not isinstance(about, Record | None):
        raise TypeError(f"about_ must be a Record of sodalite.report.summary; got {type(about).__name__}.")
    with _one_refusal(path):
        parameters, lost = _parameters(model)
        names, targets = getattr(model, "feature_names_in_", None), getattr(model, "target_names_", None)
        saved = Saved(
            library=__version__,
            parameters=parameters,
            lost=lost,
            feature_names=None if names is None else tuple(map(str, names)),
            preprocessing=getattr(model, "preprocessing_", None),
            targets=None if targets is None else tuple(targets),
            about=about,
            summary=summarize(model),
            fitted=fitted,
        )
        check_path(path)
        content, arrays = CONVERTER.dump(replace(saved, fitted=_as_stored(fitted)), Saved, by_rows=MAPPED)
        if "limit" in content["fitted"]["posterior"]:
            content["fitted"]["posterior"]["limit"] = 0
        mapped = set(MAPPED) & set(arrays) if MAPPED[0] in arrays else ()
        container.write(KIND, path, content, arrays, mapped)


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
    sodalite.exceptions.ModelFileError
        If the file does not exist, is truncated or damaged, was written by a later version, or is not a model file.
    """
    return _loaded(path)[0]


def check_path(path: str | os.PathLike[str]) -> None:
    """Refuse a path to which no model file can be written, before any long work."""
    container.check_path(KIND, path)


def read_header(path: str | os.PathLike[str]) -> Header:
    """Return the header of a model file: all but the values of its arrays."""
    return container.read_header(KIND, path)


def check_file(path: str | os.PathLike[str]) -> None:
    """Read a model file whole, and check every checksum in it.

    `load` leaves the rows of a large model of the posterior "local" on disk, and checks them when they are first used.

    Parameters
    ----------
    path : str or path-like

    Raises
    ------
    sodalite.exceptions.ModelFileError
        As by `load`.
    """
    for array in _loaded(path)[1]:
        if isinstance(array, MappedArray):
            array.check()


def _loaded(path: str | os.PathLike[str]) -> tuple[GreedyGPRegressor, list[Any]]:
    """The model of a file, and all arrays of the file."""
    header, arrays = container.read(KIND, path)
    content = header.content
    with _one_error(path):
        posterior = content["fitted"]["posterior"]
        if "limit" in posterior:
            posterior["limit"] = cache_limit(content["parameters"]["memory_limit"])
        saved: Saved = CONVERTER.load(content, Saved, arrays)
        model = GreedyGPRegressor(**saved.parameters)
        model.fitted_, model.n_features_in_ = saved.fitted, saved.fitted.X_active.shape[1]
        if saved.feature_names is not None:
            model.feature_names_in_ = np.array(saved.feature_names, dtype=object)
        kept = {"preprocessing_": saved.preprocessing, "target_names_": saved.targets, "about_": saved.about}
        for name, value in kept.items():
            if value is not None:
                setattr(model, name, value)
        for name, text in saved.lost.items():
            warn(
                f"{path}: the parameter {name} was {text}, which a file cannot hold, and is "
                f"{model.get_params(deep=False)[name]!r} now. Predictions are not affected; another fit would be."
            )
    return model, list(arrays.values())


@contextmanager
def _one_error(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise whatever is wrong with the contents of a file as one error of one line."""
    try:
        with np.errstate(all="ignore"):
            yield
    except ModelFileError:
        raise
    except INVALID as error:
        raise KIND.damaged(f"{path} is not a valid model file: {' '.join(reason_of(error).split())}.") from error


@contextmanager
def _one_refusal(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise an error that says what to do about a model that a file cannot hold."""
    try:
        yield
    except UnknownClassError as error:
        raise TypeError(
            f"a model file cannot hold the class {error.kind.__module__}.{error.kind.__qualname__}, which would need "
            f"code to be run. Use pickle or joblib.dump instead."
        ) from None
    except StateError as error:
        raise ModelFileError(f"{path} could not be written: {error}.") from None


def _as_stored(fitted: Fitted) -> Fitted:
    """The state that a file holds: with all rows for "local", laid out by cells if they are many or were on a cluster.

    How much memory the posterior may take depends on the machine, and is decided when it is loaded.
    """
    posterior, rows = fitted.posterior, fitted.rows
    if not isinstance(posterior, Local):
        return fitted.without_rows()
    if rows is None:
        return replace(fitted, posterior=posterior.laid_out(float_type(posterior.X)))
    if posterior.store is None and len(posterior.X) < LEAST_ROWS:
        return fitted
    if not np.array_equal(np.asarray(rows.X[fitted.selection.indices]), fitted.X_active):
        raise ValueError("X has changed on disk since the model was fitted to it, so the model cannot be saved.")
    return replace(fitted, posterior=posterior.laid_out(float_type(rows.X)))


def _parameters(model: GreedyGPRegressor) -> tuple[dict[str, Any], dict[str, str]]:
    """The estimator's parameters, and the `repr` of those that a file cannot hold.

    `checkpoint` is left out: a path belongs to a machine, not to a model.
    """
    parameters, lost = {}, {}
    for name, value in model.get_params(deep=False).items():
        try:
            if name != "checkpoint":
                CONVERTER.dump(value)
                parameters[name] = value
        except UnknownClassError:
            lost[name] = repr(value)[:MOST_SHOWN]
    return parameters, lost
