"""`sodalite inspect`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.gaussian_process.kernels import Kernel

from ..core.container import VERSION
from ..core.state import Converter
from ..core.types import Floats
from ..experiments.printing import glued, print_tidily
from ..fitting.means import MeanFunction
from ..kernels import leaves
from ..persistence import ModelFileError, check_file, read_header
from ..persistence.classes import CONVERTER
from ..posteriors.baselines import Baselines
from ..posteriors.calibration import ErrorBars
from ..posteriors.predictive import Standard
from ..posteriors.shape import Width
from ..report.summary import HeldOut, left_out
from ..report.words import KernelWords, baseline_words, coverages_words, distribution_words, mean_words, readable
from ..stopping import in_words
from ..tables import Column, Preprocessing
from ..tables.column import GAP
from ._common import check_model_path, print_json
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
    grid = Table.grid(padding=(0, 2))
    for name, text in (*_origin(content), *_model(content), *_quality(content), *_contents(content)):
        grid.add_row(name, glued(text))
    print_tidily(console, grid)


Lines = Iterator[tuple[str, str]]
"""Lines of the printout: a heading and a text."""


def _origin(content: dict[str, Any]) -> Lines:
    """The file, and the columns that the model was fitted to."""
    about, mapping = content.get("about") or {}, content.get("preprocessing")
    yield "file", f"{content['path']}, {content['bytes'] / 1e6:.2f} MB, format {content['format_version']}"
    yield "written by", f"sodalite {content['library']}"
    if "data" in about:
        yield "fitted to", f"{about['data']}"
    if about.get("notes"):
        yield "noticed", "\n".join(map(str, about["notes"]))
    if mapping:
        if mapping["target"] is not None:
            yield "target", mapping["target"]
        yield "columns", "\n".join(_column(column) for column in Preprocessing.from_json(mapping).columns)
    else:
        names = content["feature_names"]
        yield "inputs", ", ".join(names) if names else f"{_shape(content, 'X_active')[1]}, without names"
    if (q := _shape(content, "y_active")[1]) > 1:
        yield "targets", str(q)


def _loaded(tree: Any, hint: Any) -> Any:
    """A part of the fitted state without arrays of its own."""
    return Converter().load(tree, hint)


def _shape(content: dict[str, Any], name: str) -> list[int]:
    """The shape of an array of the fitted state."""
    tree = content["fitted"][name]
    is_here = isinstance(tree["array"], list)
    shape: list[int] = tree["shape"] if is_here else content["arrays"][tree["array"]]["shape"]
    return shape[::-1] if tree.get("by_columns") else shape


def _model(content: dict[str, Any]) -> Lines:
    """The active rows, the posterior, the kernel and the error bars."""
    fitted = content["fitted"]
    stopped = in_words(str(fitted["selection"]["stop_reason"]))
    yield "rows", f"{_shape(content, 'X_active')[0]} active of {fitted['n_rows']} ({stopped})"
    kind: Any = CONVERTER.classes[fitted["posterior"]["class"]]
    yield "posterior", str(kind.name)
    kernel = CONVERTER.load(fitted["kernel"], Kernel)
    yield "kernel", _formula(kernel)
    yield from _length_scales(kernel, content)
    words = _words(content)
    if words is not None:
        if words.std is not None:
            yield "error bars", words.error_bars()
        yield from _errors(content)
        yield "noise", words.noise()
    yield from _mean(content)


def _formula(kernel: Any) -> str:
    """A kernel in one line, without the length-scales that have a line for each input."""
    return re.sub(r"length_scale=\[[^\]]*\]", "...", str(kernel))


def _length_scales(kernel: Any, content: dict[str, Any]) -> Lines:
    """The length-scales of each input, in its own units, where every input has one; of every component in turn."""
    mapping, names, d = content.get("preprocessing"), content["feature_names"], _shape(content, "X_active")[1]
    if mapping:
        names = Preprocessing.from_json(mapping).names
    scaled = [leaf for leaf in leaves(kernel) if hasattr(leaf, "length_scale")]
    parts = [leaf for leaf in scaled if np.size(leaf.length_scale) == d]
    names = names or (parts and [f"input {place + 1}" for place in range(d)])
    columns = [np.atleast_1d(leaf.length_scale).tolist() for leaf in parts]
    if columns:
        rows = zip(names, zip(*columns, strict=True), strict=True)
        yield "length-scales", "\n".join(f"{name}: {', '.join(f'{value:.3g}' for value in row)}" for name, row in rows)


def _quality(content: dict[str, Any]) -> Lines:
    """How good the model was: on rows held out, else on rows left out, and beside simple models."""
    tests = (content.get("about") or {}).get("test") or []
    for part in tests:
        yield f"test, {part['model']}", _judged(HeldOut(**part))
    if tests:
        return
    bars, std = _bars(content)
    if bars is not None:
        found = left_out(bars, std.tolist())
        if found is not None and found.coverages is not None:
            nlpd = "" if found.nlpd is None else f"NLPD {found.nlpd:.3f}; "
            yield "left out", f"{nlpd}{coverages_words(found.coverages)}, each predicted from the others."
    baselines: Baselines | None = _loaded(content["fitted"]["baselines"], Baselines | None)
    if baselines is not None:
        yield "judged", baseline_words(baselines)


def _bars(content: dict[str, Any]) -> tuple[ErrorBars | None, Floats]:
    """The standard deviations of predictions at the rows of the fit, if there are any, and those of the targets."""
    scale, std = content["fitted"]["posterior"]["scale"] or {}, content["fitted"]["scaling"]["std"]
    # With very many targets, their standard deviations are among the arrays.
    if not isinstance(std["array"], list):
        return None, np.empty(0)
    bars: ErrorBars | None = _loaded(scale.get("bars"), ErrorBars | None)
    return bars, _loaded(std, np.ndarray)


def _judged(part: HeldOut) -> str:
    """What a model's predictions of some rows were like."""
    text = f"RMSE {readable(part.rmse, 4)}"
    if part.nlpd is not None:
        text += f", NLPD {part.nlpd:.3f}"
    if part.coverages is not None:
        return f"{text}; {coverages_words(part.coverages)}"
    return text if part.coverage is None else f"{text}, {part.coverage:.1%} in the 95 % band"


def _mean(content: dict[str, Any]) -> Lines:
    """What is predicted before the Gaussian process; nothing of a constant."""
    mean = _loaded({**content["fitted"]["mean_function"], "models": []}, MeanFunction)
    if words := mean_words(mean):
        yield "mean", words


def _errors(content: dict[str, Any]) -> Lines:
    """The distribution of every target's errors, if it is known."""
    shape = (content["fitted"]["posterior"]["scale"] or {}).get("shape")
    if shape is None:
        return
    targets = _loaded(shape["targets"], tuple[tuple[Width, Standard] | None, ...])
    lines = [distribution_words(part and part[1], part is not None and part[0].by_place) for part in targets]
    if len(set(lines)) > 1:
        lines = [f"target {number}: {line}" for number, line in enumerate(lines)]
    yield "errors", "\n".join(dict.fromkeys(lines))


def _contents(content: dict[str, Any]) -> Lines:
    """Parameters that a file cannot hold, and its arrays."""
    lost = [f"{name}: {text}" for name, text in content["lost"].items()]
    if lost:
        yield "not kept", "\n".join(lost)
    sizes = [f"{name} {' x '.join(map(str, part['shape']))}" for name, part in content["arrays"].items()]
    yield "arrays", ", ".join(sizes)


def _words(content: dict[str, Any]) -> KernelWords | None:
    """Error bars and noise in the words that a fit has left in the file, else by the posterior's numbers; or None."""
    said = (content.get("about") or {}).get("kernel")
    if said:
        return KernelWords.from_dict(said)
    bars, std = _bars(content)
    if bars is None:
        return None
    floor = content["fitted"]["posterior"]["scale"]["floor"]
    share = min(bars.noise**2 / floor, 1.0) if floor > 0 else 0.0
    return KernelWords("", (), 0.0, share).scaled(bars, float(std[0]))


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
