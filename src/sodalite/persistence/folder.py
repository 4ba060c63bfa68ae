"""Folders of model files: models of `local` whose rows are in several files, each written by the worker that has them.

The folder holds a model file, which is written last, with the active rows and a list of the files of rows. These are
container files (`sodalite.core.container`) of the arrays that a mapped model file has in the order of cells
(`sodalite.persistence.mapped`). They are mapped into memory, and checked when they are used.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from ..core import container
from ..core.container import MAPPED, Header, Kind, digest
from ..core.files import replacing_folder
from ..core.joined import Joined
from ..core.types import Array
from ..fitting.fitted import Fitted
from ..kernels.neighbours import n_sampled
from ..kernels.row_store import RowStore
from ..posteriors import Local, Posterior
from ..posteriors.remote import RemoteLocal
from .checks import RULES, check_array_values
from .error_bars import scale_shapes
from .fields import count, mapping, text
from .formats import AllRows, FileContent, Shapes, Sizes, fits, sharing_to_json
from .mapped import STORED, MappedLocalFormat, cells_of, stored_rows
from .model_file import HEADER, KIND, ModelFileError

PART = Kind("sodalite-rows", 1, "rows", "file of a model's rows", ModelFileError, KIND.remedy)
CELLS = ("cell_ends", "cell_low", "cell_high", "cell_sums")  # arrays of each file of rows that are read


class FolderLocalFormat(MappedLocalFormat):
    """The local posterior, whose rows are in other files of the folder; without the rows in their own order."""

    mapped: ClassVar[tuple[str, ...]] = ()

    def shapes(self, about: Mapping[str, Any], sizes: Sizes) -> Shapes:
        """Return the shapes of what the model file itself holds of the rows."""
        n = count(about["n_distinct"], "n_distinct", least=1, most=sizes.n)
        shapes: Shapes = {"some_rows": (min(n, n_sampled(sizes.d)), sizes.d)}
        if about.get("shared"):
            shapes["centres"] = (None, None)
        return shapes | scale_shapes(about["scale"], sizes.d, sizes.q)

    def describe(self, fitted: Fitted) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return its own JSON fields, but for the files of rows, and its own arrays."""
        posterior = fitted.posterior
        assert isinstance(posterior, Local)
        if isinstance(posterior, RemoteLocal):
            metric, some = posterior.remote.metric, posterior.remote.some
        else:
            assert posterior.store is not None
            metric, some = posterior.store.metric, posterior.store.some
        about = {
            "k": int(posterior.k),
            "n_distinct": len(posterior.X),
            "columns": metric.columns.tolist(),
            "tie": metric.tie,
            "parts": [],
        }
        sharing, centres = sharing_to_json(posterior)
        return about | sharing, {"some_rows": some, **centres}

    def restore(self, stored: FileContent) -> Posterior:
        """Return the posterior; its rows are checked when they are used."""
        parts, folder = stored.about["parts"], Path(stored.path)
        if not isinstance(parts, list) or not parts:
            raise ValueError("parts must be a list of files")
        d, q = stored.evidence.X.shape[1], stored.evidence.y.shape[1]
        found = [_read(folder, mapping(part, "a part"), d, q) for part in parts]
        arrays: dict[str, Any] = {name: Joined([part[name] for part in found]) for name in STORED}
        arrays |= {name: np.concatenate([part[name] for part in found]) for name in CELLS[1:]}
        before = np.cumsum([0, *(len(part["rows"]) for part in found[:-1])])
        arrays["cell_ends"] = np.concatenate([part["cell_ends"] + at for part, at in zip(found, before, strict=True)])
        if (n := len(arrays["rows"])) != stored.about["n_distinct"]:
            raise ValueError(f"its files have {n} rows, but n_distinct is {stored.about['n_distinct']}")
        return super().restore(replace(stored, arrays={**stored.arrays, **arrays}))

    def all_rows(self, stored: FileContent) -> AllRows:
        """Return nothing: the rows are not there in their own order."""
        return AllRows()


def save_folder(
    path: str | os.PathLike[str], posterior: Posterior, content: dict[str, Any], arrays: dict[str, Any]
) -> None:
    """Write a model to a folder, whole or not at all; the rows on a cluster are written by its workers.

    Parameters
    ----------
    path : str or path-like
    posterior : Local
        With its rows in a store on disk, or on a cluster.
    content, arrays : dict
        Of the model file, as for one of `FolderLocalFormat`.
    """
    assert isinstance(posterior, Local)
    try:
        with replacing_folder(path, HEADER) as folder:
            content["posterior"]["parts"] = _write_rows(posterior, folder, path)
            container.write(KIND, folder / HEADER, content, arrays)
    except OSError as error:
        raise ModelFileError(f"{path} could not be written: {error.strerror or error}.") from None


def check_folder(path: str | os.PathLike[str]) -> None:
    """Refuse a path to which no folder can be written, before any long work; a model that is there is replaced."""
    target = Path(path)
    if target.is_file():
        raise ModelFileError(f"{path} cannot be written: it is a file, and this model is written to a folder.")
    if target.is_dir():
        if any(target.iterdir()) and not (target / HEADER).is_file():
            raise ModelFileError(f"{path} cannot be written: it is a folder with other files in it.")
        target = target / HEADER
    container.check_path(KIND, target)


def _write_rows(posterior: Local, folder: Path, path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Write the files of rows, with names that no other save uses; return what the model file says of each."""
    n = posterior.remote.n_stores if isinstance(posterior, RemoteLocal) else 1
    save = secrets.token_hex(4)
    wanted = [(str(folder), f"rows-{save}-{number:05d}.sodalite") for number in range(n)]
    if not isinstance(posterior, RemoteLocal):
        assert posterior.store is not None
        return [cast("dict[str, Any]", write_part(posterior.store, *wanted[0]))]
    parts = posterior.remote.each(write_part, wanted)
    found = [part for part in parts if part is not None and (folder / part["file"]).is_file()]
    if len(found) < len(parts):
        raise ModelFileError(
            f"{path} could not be written: the workers of the cluster write the rows, and they and this machine do "
            f"not see the same folder. Save to a folder on a disk that all of them share."
        )
    return found


def write_part(store: RowStore, folder: str, name: str) -> dict[str, Any] | None:
    """Write the rows of a store; return what the model file says of them, or None if there is no such folder here."""
    if not Path(folder).is_dir():
        return None
    if store.verify is not None:  # they come from a file
        store.verify(0, len(store))
    cells = cells_of(store)
    container.write(PART, Path(folder) / name, {MAPPED: list(STORED)}, stored_rows(store) | cells)
    return {"file": name, "n_rows": len(store), "n_cells": len(store.ends), "cells_sha256": digest(cells)}


def _read(folder: Path, about: Mapping[str, Any], d: int, q: int) -> dict[str, Array]:
    """The arrays of a file of rows, those of the rows mapped; it must be the one that the model file speaks of."""
    name = text(about["file"], "the name of a file of rows")
    if Path(name).name != name:
        raise ValueError(f"a file of rows must be in the same folder; {name!r} is not")
    n, cells = (count(about[key], key, least=1) for key in ("n_rows", "n_cells"))
    shapes: Shapes = {"rows": (n, d), "positions": (n, None), "residuals": (n, q), "noises": (n,)}
    shapes |= dict(zip(CELLS, ((cells,), (cells, d), (cells, d), (cells,)), strict=True))

    def check(header: Header) -> None:
        if set(header.arrays) != set(shapes) or sorted(header.content.get(MAPPED, [])) != sorted(STORED):
            raise ModelFileError(f"{folder / name} is no valid {PART.noun}: it has other arrays. {PART.remedy}")
        for array, (dtype, shape) in header.arrays.items():
            if not fits(shape, shapes[array]) or dtype not in RULES[array].dtypes:
                raise ModelFileError(
                    f"{folder / name} is no valid {PART.noun}: array {array!r} has another shape or type. {PART.remedy}"
                )

    _, arrays = container.read(PART, folder / name, check)
    cell_arrays = {key: arrays[key] for key in CELLS}
    if digest(cell_arrays) != about["cells_sha256"]:
        raise ModelFileError(f"{folder / name} belongs to another model, or to another save of it. {PART.remedy}")
    check_array_values(cell_arrays)
    return arrays
