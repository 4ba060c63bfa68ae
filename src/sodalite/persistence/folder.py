"""Folders of model files: models of `local` whose rows are in several files, each written by the worker that has them.

The folder holds a model file, which is written last, with a list of the files of rows. These are container files
(`sodalite.core.container`) of the arrays of a `RowStore`, which stay on disk when the model is loaded.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..cluster.local import DaskLocal
from ..core import container
from ..core.container import Kind
from ..core.files import replacing_folder
from ..core.joined import Joined
from ..core.state import Converter
from ..core.types import Floats
from ..exceptions import ModelFileError
from ..fitting.fitted import Fitted
from ..kernels.neighbours import Metric
from ..kernels.row_store import RowStore
from ..posteriors import Local
from ..report.summary import Record, Summary
from ..tables import Preprocessing
from .classes import CONVERTER
from .files import HEADER, KIND

PART = Kind("sodalite-rows", "file of a model's rows", ModelFileError, KIND.remedy)
ROWS = ("X", "Z", "values", "noises")  # arrays of the rows, which stay on disk
CELLS = ("ends", "low", "high")  # arrays of the cells


@dataclass(frozen=True)
class Rows:
    """The rows of a model in files of their own."""

    files: tuple[str, ...]
    """The names of the files."""
    sums: tuple[str, ...]
    """The checksum of each file, by which it is known to belong to the model."""
    some: Floats
    """`RowStore.some`."""
    metric: Metric
    """That of the cells."""


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
    rows: Rows | None = None
    """The files of rows beside it, if there are any."""


def saves_to_folder(fitted: Fitted) -> bool:
    """Whether a model is stored in a folder: if it has rows in cells, but not in their own order."""
    return isinstance(fitted.posterior, Local) and fitted.rows is None


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


def save_folder(path: str | os.PathLike[str], saved: Saved) -> None:
    """Write a model to a folder, whole or not at all; the rows on a cluster are written by its workers.

    Parameters
    ----------
    path : str or path-like
    saved : Saved
        With the posterior "local", its rows in a store on disk or on a cluster.
    """
    posterior = saved.fitted.posterior
    assert isinstance(posterior, Local)
    rows = posterior.bundles if isinstance(posterior, DaskLocal) else posterior.store
    assert rows is not None
    converter = Converter({**CONVERTER.classes, "DaskLocal": DaskLocal})
    try:
        with replacing_folder(path, HEADER) as folder:
            files = Rows(*_write_rows(posterior, folder, path), rows.some, rows.metric)
            content, arrays = converter.dump(replace(saved, rows=files), Saved)
            content["fitted"]["posterior"] |= {"class": "Local", "store": None, "limit": 0}
            for name in ROWS + CELLS:
                arrays.pop(f"fitted.posterior.store.{name}", None)
            container.write(KIND, folder / HEADER, content, arrays)
    except OSError as error:
        raise ModelFileError(f"{path} could not be written: {error.strerror or error}.") from None


def _write_rows(
    posterior: Local, folder: Path, path: str | os.PathLike[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Write the files of rows, with names that no other save uses; return the names, and the files' checksums."""
    n = len(posterior.bundles.futures) if isinstance(posterior, DaskLocal) else 1
    save = secrets.token_hex(4)
    files = tuple(f"rows-{save}-{number:05d}.sodalite" for number in range(n))
    if isinstance(posterior, DaskLocal):
        sums = posterior.bundles.each(write_part, [str(folder / name) for name in files])
    else:
        assert posterior.store is not None
        sums = [write_part(posterior.store, str(folder / files[0]))]
    if None in sums or not all((folder / name).is_file() for name in files):
        raise ModelFileError(
            f"{path} could not be written: the workers of the cluster write the rows, and they and this machine do "
            f"not see the same folder. Save to a folder on a disk that all of them share."
        )
    return files, tuple(map(str, sums))


def write_part(store: RowStore, path: str) -> str | None:
    """Write the rows of a store to a file; return its checksum, or None if there is no such folder here."""
    if not Path(path).parent.is_dir():
        return None
    return container.write(PART, path, {}, {name: getattr(store, name) for name in ROWS + CELLS}, ROWS)


def read_rows(path: str | os.PathLike[str], about: Any, arrays: Mapping[str, Any]) -> tuple[RowStore, list[Any]]:
    """Return the rows of the files of a folder, which stay on disk, and all arrays of the files."""
    rows: Rows = CONVERTER.load(about, Rows, arrays, "rows")
    parts = []
    for name, checksum in zip(rows.files, rows.sums, strict=True):
        if Path(name).name != name:
            raise ValueError(f"a file of rows must be in the same folder; {name!r} is not")
        header, found = container.read(PART, Path(path) / name)
        if header.sha256 != checksum:
            raise KIND.damaged(f"{Path(path) / name} belongs to another model, or to another save of it.")
        parts.append(found)
    joined: dict[str, Any] = {name: Joined([part[name] for part in parts]) for name in ROWS}
    cells = {name: np.concatenate([part[name] for part in parts]) for name in CELLS[1:]}
    before = np.cumsum([0, *(len(part["X"]) for part in parts[:-1])])
    ends = np.concatenate([part["ends"] + at for part, at in zip(parts, before, strict=True)])
    store = RowStore(**joined, **cells, ends=ends, some=rows.some, metric=rows.metric)
    return store, [array for part in parts for array in part.values()]
