"""Model files of `local` that are mapped into memory: rows are read, and checked, when they are first used.

Such a file holds the active rows as the files of other posteriors do, and besides

* the distinct rows of the remainder in the order of their cells (`sodalite.kernels.row_store`), with a checksum for
  each cell, which is what predictions read;
* all rows in their own order, with a checksum for each block of about 1 MB, for rows that join the model later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from ..core.container import block_rows, block_sum, block_sums
from ..core.json import shown
from ..core.types import Array, Floats
from ..core.validation import float_type
from ..fitting.fitted import Fitted
from ..kernels import CompiledKernel
from ..kernels.neighbours import Metric, n_sampled
from ..kernels.row_store import RowStore, layout_weights
from ..posteriors import Local, Posterior, SubsetOfData
from ..posteriors.coordinates import cache_limit
from ..selection.rows import ArrayRows
from .checks import RULES
from .error_bars import scale_from_json, scale_shapes
from .fields import count, real
from .formats import AllRows, FileContent, Shapes, Sizes, sharing_from_json, sharing_to_json, with_centres
from .model_file import ModelFileError

LEAST_ROWS = 20_000  # distinct rows of the remainder from which on a file is mapped: fewer are read in milliseconds
STORED = ("rows", "positions", "residuals", "noises")  # arrays in the order of cells
OWN_ORDER = ("all_X", "all_Y", "all_alpha", "all_targets", "all_judges")  # arrays in the order of the rows
CLOSE = 1e-9  # relative difference of positions from those computed again: far above rounding
SUMS = "_sums"  # the end of the name of the array with the checksums of another


class VerifiedArray:
    """An array of a file, whose blocks are checked when they are first read: their checksums and their values."""

    def __init__(self, name: str, array: Array, sums: Array, damaged: Callable[[str], ModelFileError]) -> None:
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim
        self._name, self._array, self._sums, self._damaged = name, array, sums, damaged
        self._size = block_rows(array)
        self._seen = np.zeros(len(sums), dtype=bool)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: Any) -> Array:
        which = np.arange(len(self))[rows] if not isinstance(rows, slice) else None
        if which is None:
            begin, end, _ = rows.indices(len(self))
            blocks = np.arange(begin // self._size, -(-max(end, begin) // self._size))
        else:
            blocks = np.unique(which // self._size)
        for block in blocks[~self._seen[blocks]]:
            self._check(int(block))
        return np.asarray(self._array[rows])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype=dtype)

    def __reduce__(self) -> Any:
        return np.asarray, (np.array(self[:]),)  # pickles as an array in memory: the file may be gone when it is loaded

    def verify(self) -> None:
        """Check all blocks."""
        for block in np.flatnonzero(~self._seen):
            self._check(int(block))

    def _check(self, block: int) -> None:
        part = self._array[block * self._size : (block + 1) * self._size]
        if block_sum(part) != self._sums[block]:
            raise self._damaged(f"array {self._name!r} is not the one that was written (checksum)")
        try:
            RULES[self._name].check(self._name, part)
        except ValueError as error:
            raise self._damaged(str(error)) from None
        self._seen[block] = True


class CellChecks:
    """Checks the cells of a store when they are first used: checksums, values, and that they are where they belong."""

    def __init__(self, store: RowStore, sums: Array, damaged: Callable[[str], ModelFileError]) -> None:
        self.store, self._sums, self._damaged = store, sums, damaged
        self._seen = np.zeros(len(sums), dtype=bool)

    def __call__(self, begin: int, end: int) -> None:
        """Check the cells that have rows from `begin` to before `end`."""
        first, last = np.searchsorted(self.store.ends, [begin, end - 1], side="right")
        for cell in range(int(first), int(last) + 1):
            if not self._seen[cell]:
                self._check(cell)
                self._seen[cell] = True

    def _check(self, cell: int) -> None:
        store = self.store
        here = slice(int(store.ends[cell - 1]) if cell else 0, int(store.ends[cell]))
        parts = {name: part[here] for name, part in stored_rows(store).items()}
        if block_sum(*parts.values()) != self._sums[cell]:
            raise self._damaged(f"rows {here.start} to {here.stop - 1} are not those that were written (checksum)")
        try:
            for name, part in parts.items():
                RULES[name].check(name, part)
        except ValueError as error:
            raise self._damaged(str(error)) from None
        X = parts["rows"]
        inside = (store.low[cell] <= X).all() and (store.high[cell] >= X).all()
        if not inside or not np.allclose(store.metric.positions(X), parts["positions"], rtol=CLOSE, atol=CLOSE):
            raise self._damaged(f"rows {here.start} to {here.stop - 1} are not where it says")


def verify_mapped(fitted: Fitted) -> None:
    """Check all rows of a model that are mapped from a file, if any are."""
    if (
        isinstance(fitted.posterior, Local)
        and (store := fitted.posterior.store) is not None
        and store.verify is not None
    ):
        store.verify(0, len(store))
    rows = fitted.rows
    for part in (fitted.targets, fitted.judges, *((rows.X, rows.y, rows.alpha) if rows is not None else ())):
        if isinstance(part, VerifiedArray):
            part.verify()


class MappedLocalFormat:
    """The local posterior, whose rows are mapped from the file."""

    holds_all_rows: ClassVar[bool] = False
    mapped: ClassVar[tuple[str, ...]] = STORED + OWN_ORDER

    def shapes(self, about: Mapping[str, Any], sizes: Sizes) -> Shapes:
        """Return the shapes of the stored rows, of what is known of their cells, and of all rows."""
        n = count(about["n_distinct"], "n_distinct", least=1, most=sizes.n)
        cells = count(about["n_cells"], "n_cells", least=1, most=n)
        shapes: Shapes = {
            "rows": (n, sizes.d),
            "positions": (n, None),
            "residuals": (n, sizes.q),
            "noises": (n,),
            "some_rows": (min(n, n_sampled(sizes.d)), sizes.d),
            "cell_low": (cells, sizes.d),
            "cell_high": (cells, sizes.d),
            "all_X": (sizes.n, sizes.d),
            "all_Y": (sizes.n, sizes.q),
        }
        shapes |= dict.fromkeys(("cell_ends", "cell_sums"), (cells,))
        if about["alpha"]:
            shapes["all_alpha"] = (sizes.n,)
        if about["targets"]:
            shapes["all_targets"] = (sizes.n, sizes.q)
        if n_judges := count(about["n_judges"], "n_judges", most=sizes.n):
            shapes["all_judges"] = (n_judges,)
        given = [name for name in OWN_ORDER if name in shapes]
        shapes |= {name + SUMS: (None,) for name in given}
        if about.get("shared"):
            shapes["centres"] = (None, None)
        return shapes | scale_shapes(about["scale"], sizes.d, sizes.q)

    def describe(self, fitted: Fitted) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return its own JSON fields and arrays; rows that are in memory are laid out by cells."""
        posterior, rows = fitted.posterior, fitted.rows
        assert isinstance(posterior, Local)
        assert rows is not None
        _check_unchanged(fitted)
        store = posterior.as_store(float_type(rows.X))
        arrays = stored_rows(store) | cells_of(store) | {"some_rows": store.some}
        own = {"all_X": rows.X, "all_Y": rows.y, "all_alpha": rows.alpha, "all_targets": fitted.targets}
        own["all_judges"] = None if fitted.judges is None else np.asarray(fitted.judges, dtype=np.int64)
        for name, array in own.items():
            if array is not None:
                arrays |= {name: _plain(name, array), name + SUMS: block_sums(_plain(name, array))}
        about = {
            "mapped": True,
            "k": int(posterior.k),
            "alpha": rows.alpha is not None,
            "targets": fitted.targets is not None,
            "n_judges": 0 if fitted.judges is None else len(fitted.judges),
            "n_distinct": len(store),
            "n_cells": len(store.ends),
            "columns": store.metric.columns.tolist(),
            "tie": store.metric.tie,
        }
        sharing, centres = sharing_to_json(posterior)
        return about | sharing, arrays | centres

    def restore(self, stored: FileContent) -> Posterior:
        """Return the posterior; its rows are checked when they are used."""
        arrays, about, evidence = stored.arrays, stored.about, stored.evidence
        base = SubsetOfData.condition(evidence)
        store = _store(evidence.kernel, about, arrays)
        checks = CellChecks(store, arrays["cell_sums"], stored.damaged)
        made = Local.of_store(base, replace(store, verify=checks), cache_limit(stored.memory_limit))
        made = replace(
            made,
            k=count(about["k"], "k, the number of neighbours,", most=len(store)),
            scale=scale_from_json(evidence.kernel, arrays, about["scale"]),
        )
        if about.get("shared") is None:
            return made
        cell, h, power = sharing_from_json(evidence.kernel, about["shared"], len(store))
        return with_centres(made.sharing(cell, h, power, arrays["centres"]))

    def all_rows(self, stored: FileContent) -> AllRows:
        """Return all rows of the fit, which are checked when they are read."""

        def lazily(name: str) -> Any:
            if name not in stored.arrays:
                return None
            array, sums = stored.arrays[name], stored.arrays[name + SUMS]
            if len(sums) != -(-len(array) // block_rows(array)):
                raise ValueError(f"array {name + SUMS!r} must have a checksum for each block of {name!r}")
            return VerifiedArray(name, array, sums, stored.damaged)

        rows = ArrayRows(lazily("all_X"), lazily("all_Y"), lazily("all_alpha"))
        return AllRows(rows, lazily("all_targets"), lazily("all_judges"))

    def without_cache(self, posterior: Posterior) -> Posterior:
        """Return the posterior given the active rows alone: predictions from others would read them."""
        assert isinstance(posterior, Local)
        return replace(posterior.base, scale=posterior.scale)


def stored_rows(store: RowStore) -> dict[str, Any]:
    """Return the arrays of the rows of a store, in the order of cells."""
    return dict(zip(STORED, (store.X, store.Z, store.values, store.noises), strict=True))


def cells_of(store: RowStore) -> dict[str, Array]:
    """Return the arrays of the cells of a store, with the checksums of their rows."""
    rows, ends = stored_rows(store).values(), np.asarray(store.ends, dtype=np.int64)
    spans = zip(np.concatenate([[0], ends[:-1]]), ends, strict=True)
    sums = [block_sum(*(part[begin:end] for part in rows)) for begin, end in spans]
    return {
        "cell_ends": ends,
        "cell_low": store.low,
        "cell_high": store.high,
        "cell_sums": np.array(sums, dtype=np.int64),
    }


def _store(kernel: CompiledKernel, about: Mapping[str, Any], arrays: Mapping[str, Array]) -> RowStore:
    """The store whose arrays a file holds; a ValueError says what no store can have."""
    ends, low, high, some = (arrays[name] for name in ("cell_ends", "cell_low", "cell_high", "some_rows"))
    if ends[0] < 1 or (np.diff(ends) < 1).any() or ends[-1] != len(arrays["rows"]):
        raise ValueError("array 'cell_ends' must increase to the number of the rows")
    if not (low <= high).all():
        raise ValueError("array 'cell_low' must not be above 'cell_high'")
    X, Z, values, noises = (arrays[name] for name in STORED)
    columns, d = about["columns"], X.shape[1]
    if not isinstance(columns, list) or len(columns) != Z.shape[1] - 1 or not columns:
        raise ValueError(f"columns must be a list of {Z.shape[1] - 1} inputs; it is {shown(columns)}")
    chosen = np.array([count(column, "columns", most=d - 1) for column in columns], dtype=np.intp)
    metric = Metric(kernel.centre, layout_weights(kernel.metric(), some), chosen, real(about["tie"], "tie"))
    return RowStore(X, Z, values, noises, ends.astype(np.intp), low, high, some, metric)


def _plain(name: str, array: Any) -> Any:
    """An array in a type that it has in files: whole numbers, say, become float64 a block at a time."""
    return array if str(np.dtype(array.dtype)) in RULES[name].dtypes else Converted(array)


class Converted:
    """An array whose slices are converted to float64."""

    def __init__(self, array: Any) -> None:
        self._array, self.shape, self.dtype, self.ndim = array, array.shape, np.dtype(np.float64), len(array.shape)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: Any) -> Floats:
        return np.asarray(self._array[rows], dtype=np.float64)


def _check_unchanged(fitted: Fitted) -> None:
    """Refuse rows on disk that are no longer those of the fit: its active rows are compared."""
    assert fitted.rows is not None
    now = np.asarray(fitted.rows.X[fitted.selection.indices])
    if not np.array_equal(now, fitted.X_active):
        raise ValueError("X has changed on disk since the model was fitted to it, so the model cannot be saved.")
