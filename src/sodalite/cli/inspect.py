"""`sodalite inspect`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.gaussian_process.kernels import Kernel

from ..core.container import VERSION
from ..kernels import leaves
from ..persistence import ModelFileError, check_file, read_header
from ..persistence.classes import CONVERTER
from ..report.summary import Summary
from ..tables import Column, Preprocessing
from ..tables.column import GAP
from ._common import check_model_path, print_json
from ._summary import print_summary
from .options import Inspect


def command(options: Inspect) -> None:
    """Print what is in a model file."""
    content = run(options.model, options.check)
    if options.as_json:
        print_json(content)
        return
    try:
        show(content, Console(highlight=False, markup=False, emoji=False))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        words = "what it says of itself makes no sense. Copy it again, or fit it again."
        raise ModelFileError(f"{options.model} is no valid model file: {words}") from error


def run(path: str, check: bool = False) -> dict[str, Any]:
    """The header of a model file, and the types and shapes of its arrays; with `check`, all of it is checked first."""
    check_model_path(path, "MODEL")
    if check:
        check_file(path)
    header = read_header(path)
    content = {**header.content}
    if isinstance(about := content.get("about"), dict) and isinstance(judgement := about.get("judgement"), dict):
        numbers = {name: part for name, part in judgement.items() if not (isinstance(part, dict) and "array" in part)}
        content["about"] = {**about, "judgement": numbers}
    arrays = {name: {"dtype": dtype, "shape": list(shape)} for name, (dtype, shape) in header.arrays.items()}
    return {"path": path, "bytes": header.n_bytes, "format_version": VERSION, **content, "arrays": arrays}


def show(content: dict[str, Any], console: Console) -> None:
    """Print what a model file says of itself."""
    summary = Summary.from_json(content["summary"])
    print_summary(console, summary, _file(content, summary), _details(content))


Lines = Iterator[tuple[str, str]]
"""Lines of the printout: a heading and a text."""


def _file(content: dict[str, Any], summary: Summary) -> Lines:
    """The file, and what it was fitted to."""
    yield "file", f"{content['path']}, {content['bytes'] / 1e6:.2f} MB, format {content['format_version']}"
    yield "written by", f"sodalite {content['library']}"
    if summary.data:
        yield "fitted to", summary.data


def _details(content: dict[str, Any]) -> Lines:
    """How columns become inputs, the kernel, parameters that a file cannot hold, and the arrays."""
    mapping, names, kernel = content.get("preprocessing"), content["feature_names"], _kernel(content)
    if mapping:
        columns = Preprocessing.from_json(mapping)
        names = columns.names
        yield "read as", "\n".join(map(_column, columns.columns))
    elif not names:
        yield "inputs", f"{_shape(content, 'X_active')[1]}, without names"
    if (q := _shape(content, "y_active")[1]) > 1:
        yield "targets", str(q)
    # Length-scales that have a line for each input are left out of the formula.
    yield "kernel", re.sub(r"length_scale=\[[^\]]*\]", "...", str(kernel))
    yield from _length_scales(kernel, names, _shape(content, "X_active")[1])
    lost = [f"{name}: {text}" for name, text in content["lost"].items()]
    if lost:
        yield "not kept", "\n".join(lost)
    sizes = [f"{name} {' x '.join(map(str, part['shape']))}" for name, part in content["arrays"].items()]
    yield "arrays", ", ".join(sizes)


def _shape(content: dict[str, Any], name: str) -> list[int]:
    """The shape of an array of the fitted state."""
    tree = content["fitted"][name]
    is_here = isinstance(tree["array"], list)
    shape: list[int] = tree["shape"] if is_here else content["arrays"][tree["array"]]["shape"]
    return shape[::-1] if tree.get("by_columns") else shape


def _kernel(content: dict[str, Any]) -> Kernel:
    """The kernel, with the hyperparameters that were found."""
    return CONVERTER.load(content["fitted"]["kernel"], Kernel)


def _length_scales(kernel: Kernel, names: Sequence[str] | None, d: int) -> Lines:
    """The length-scales of each input, in its own units, where every input has one; of every component in turn."""
    scaled = [leaf for leaf in leaves(kernel) if hasattr(leaf, "length_scale")]
    columns = [np.ravel(leaf.length_scale).tolist() for leaf in scaled if np.size(leaf.length_scale) == d]
    if columns:
        rows = zip(names or [f"input {place + 1}" for place in range(d)], zip(*columns, strict=True), strict=True)
        yield "length-scales", "\n".join(f"{name}: {', '.join(f'{value:.3g}' for value in row)}" for name, row in rows)


def _column(column: Column) -> str:
    """A column as the printout describes it."""
    words = {"means": "levels by their mean target", "ordered": "levels in order", "points": "levels, each for itself"}
    text = f"{column.label} ({words.get(column.kind, column.kind)}"
    parts: tuple[str, ...] = getattr(column, "parts", ())
    text += f": {', '.join(parts)})" if parts else ")"
    levels = [level for level in getattr(column, "levels", ()) if level != GAP]
    if levels:
        shown = [repr(level) for level in levels[:8]] if any("," in level for level in levels) else levels[:8]
        text += ": " + ", ".join(shown) + (", ..." if len(levels) > 8 else "")
    if column.indicator:
        text += "; an input says where values are missing"
    return text + _fill(column)


def _fill(column: Column) -> str:
    """What takes the place of missing values, as the end of a sentence; empty if nothing has to."""
    if GAP in getattr(column, "levels", ()):
        return "; missing values are a level"
    if column.fill is None or column.complete:
        return ""
    if column.kind == "place":
        return "; missing ones are at the centre"
    if column.kind == "date":
        return f"; missing: {np.datetime64(int(column.fill), 'D')}"
    return f"; missing: {column.fill:.6g}"
