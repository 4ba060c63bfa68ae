"""`sodalite inspect`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from ..core.container import VERSION
from ..exceptions import INVALID, ModelFileError
from ..kernels import leaves
from ..persistence import check_file, read_header
from ..persistence.classes import CONVERTER
from ..report.inputs import columns_of_X
from ..report.summary import Summary
from ..tables import Column, Preprocessing
from ..tables.column import GAP
from ._common import check_model_path, print_json
from ._summary import plain_console, print_summary
from .options import Inspect

MOST_LEVELS = 8  # levels of a column that are shown


def command(options: Inspect) -> None:
    """Print what is in a model file."""
    content = run(options.model, options.check)
    if options.as_json:
        print_json(content)
        return
    try:
        summary = Summary.from_json(content["summary"])
        size = f"{content['bytes'] / 1e6:.2f} MB, format {content['format_version']}"
        before = [("file", f"{content['path']}, {size}"), ("written by", f"sodalite {content['library']}")]
        print_summary(plain_console(), summary, [*before, ("fitted to", summary.data)], _details(content, summary))
    except INVALID as error:
        words = "what it says of itself makes no sense. Copy it again, or fit it again."
        raise ModelFileError(f"{options.model} is not a valid model file: {words}") from error


def run(path: str, check: bool = False) -> dict[str, Any]:
    """The header of a model file, and the types and shapes of its arrays; with `check`, all of it is checked first."""
    check_model_path(path, "MODEL")
    if check:
        check_file(path)
    header = read_header(path)
    content, about = {**header.content}, header.content.get("about")
    if isinstance(about, dict) and isinstance(judgement := about.get("judgement"), dict):
        numbers = {name: part for name, part in judgement.items() if not (isinstance(part, dict) and "array" in part)}
        content["about"] = {**about, "judgement": numbers}
    arrays = {name: {"dtype": dtype, "shape": list(shape)} for name, (dtype, shape) in header.arrays.items()}
    return {"path": path, "bytes": header.n_bytes, "format_version": VERSION, **content, "arrays": arrays}


def _details(content: dict[str, Any], summary: Summary) -> Iterator[tuple[str, str]]:
    """How columns become inputs, the kernel, and parameters that a file cannot hold: headings and texts."""
    mapping, names = content.get("preprocessing"), content["feature_names"]
    if mapping:
        columns = Preprocessing.from_json(mapping).columns
        names = columns_of_X(columns)
        yield "read as", "\n".join(map(_column, columns))
    elif not names:
        names = summary.inputs
        yield "inputs", f"{len(names)}, without names"
    # Length-scales that have a line for each input are left out of the formula.
    kernel = CONVERTER.load(content["fitted"]["kernel"], Kernel)
    yield "kernel", re.sub(r"length_scale=\[[^\]]*\]", "...", str(kernel))
    scaled = [np.ravel(leaf.length_scale) for leaf in leaves(kernel) if hasattr(leaf, "length_scale")]
    scales = zip(*(scale.tolist() for scale in scaled if len(scale) == len(names)), strict=True)
    lines = (f"{name}: {', '.join(f'{value:.3g}' for value in row)}" for name, row in zip(names, scales, strict=False))
    yield "length-scales", "\n".join(lines)
    yield "not kept", "\n".join(f"{name}: {text}" for name, text in content["lost"].items())


def _column(column: Column) -> str:
    """A column as the printout describes it, with what takes the place of missing values."""
    words = {"means": "levels by their mean target", "ordered": "levels in order", "points": "levels, each for itself"}
    parts: tuple[str, ...] = () if column.kind == "place" else getattr(column, "parts", ())
    text = f"{column.label} ({words.get(column.kind, column.kind)}{': ' if parts else ''}{', '.join(parts)})"
    every: tuple[str, ...] = getattr(column, "levels", ())
    levels = [level for level in every if level != GAP]
    if levels:
        shown = [repr(level) if any("," in level for level in levels) else level for level in levels[:MOST_LEVELS]]
        text += ": " + ", ".join(shown) + (", ..." if len(levels) > MOST_LEVELS else "")
    if column.indicator:
        text += "; an input says where values are missing"
    if GAP in every:
        return f"{text}; missing values are a level"
    if column.fill is None or column.complete:
        return text
    if column.kind == "place":
        return f"{text}; missing ones are at the centre"
    return f"{text}; missing: {np.datetime64(int(column.fill), 'D') if column.kind == 'date' else f'{column.fill:.6g}'}"
