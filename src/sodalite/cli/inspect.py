"""`sodalite inspect`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from ..experiments.printing import glued, print_tidily
from ._common import FILE, check_model_path, debug_option, json_option, plain_errors, print_json

if TYPE_CHECKING:
    from rich.console import Console

    from ..report.build import HeldOut
    from ..report.words import KernelWords


@click.command("inspect")
@click.argument("model", type=FILE)
@click.option("--check", is_flag=True, help="Read the whole file first, and check it for damage.")
@json_option
@debug_option
def command(model: str, check: bool, as_json: bool, debug: bool) -> None:
    """Say what is in a model file.

    Only the file's header is read, however many rows it holds, unless --check is given.

    Example: sodalite inspect houses.sodalite
    """
    with plain_errors(debug):
        content = run(model, check)
        if as_json:
            print_json(content)
        else:
            from rich.console import Console

            from ..persistence import ModelFileError

            try:
                show(content, Console(highlight=False, markup=False, emoji=False))
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                words = "what it says of itself makes no sense. Copy it again, or fit it again."
                raise ModelFileError(f"{model} is no valid model file: {words}") from error


def run(path: str, check: bool = False) -> dict[str, Any]:
    """The header of a model file, and the types and shapes of its arrays; with `check`, all of it is checked first."""
    from ..persistence import check_file, read_header

    check_model_path(path, "MODEL")
    if check:
        check_file(path)
    header = read_header(path)
    content = {**header.content}
    if isinstance(about := content.get("about"), dict) and isinstance(judgement := about.get("judgement"), dict):
        content["about"] = {**about, "judgement": {name: judgement[name] for name in judgement if name != "rows"}}
    arrays = {name: {"dtype": dtype, "shape": list(shape)} for name, (dtype, shape) in header.arrays.items()}
    return {"path": path, "bytes": header.n_bytes, "format_version": header.version, **content, "arrays": arrays}


def show(content: dict[str, Any], console: Console) -> None:
    """Print what a model file says of itself."""
    from rich.table import Table

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
        yield "columns", "\n".join(_column(column) for column in mapping["columns"])
    else:
        names = content["feature_names"]
        yield "inputs", ", ".join(names) if names else f"{content['n_features']}, without names"
    if content["n_targets"] > 1:
        yield "targets", str(content["n_targets"])


def _model(content: dict[str, Any]) -> Lines:
    """The active rows, the posterior, the kernel and the error bars."""
    from ..persistence.objects import kernel_from_json
    from ..stopping import in_words

    stopped = in_words(str(content["selection"]["stop_reason"]))
    yield "rows", f"{content['n_active']} active of {content['n_rows']} ({stopped})"
    yield "posterior", content["posterior"]["name"]
    kernel = kernel_from_json(content["kernel"])
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
    import re

    return re.sub(r"length_scale=\[[^\]]*\]", "...", str(kernel))


def _length_scales(kernel: Any, content: dict[str, Any]) -> Lines:
    """The length-scales of each input, in its own units, where every input has one; of every component in turn."""
    import numpy as np

    from ..kernels import leaves
    from ..tables import Preprocessing

    mapping, names = content.get("preprocessing"), content["feature_names"]
    if mapping:
        names = Preprocessing.from_json(mapping).names
    names = names or [f"input {place + 1}" for place in range(content["n_features"])]
    scaled = [leaf for leaf in leaves(kernel) if hasattr(leaf, "length_scale")]
    parts = [leaf for leaf in scaled if np.size(leaf.length_scale) == len(names)]
    columns = [np.atleast_1d(leaf.length_scale).tolist() for leaf in parts]
    if columns:
        rows = zip(names, zip(*columns, strict=True), strict=True)
        yield "length-scales", "\n".join(f"{name}: {', '.join(f'{value:.3g}' for value in row)}" for name, row in rows)


def _quality(content: dict[str, Any]) -> Lines:
    """How good the model was: on rows held out, else on rows left out, and beside simple models."""
    from ..posteriors.calibration import ErrorBars
    from ..report.build import HeldOut
    from ..report.words import coverages_words

    tests = (content.get("about") or {}).get("test") or []
    for part in tests:
        yield f"test, {part['model']}", _judged(HeldOut(**part))
    if tests:
        return
    scale = content["posterior"].get("scale") or {}
    if scale.get("bars") and "y_std" in content:
        from ._judged import left_out

        found = left_out(ErrorBars(**scale["bars"]), content["y_std"])
        if found is not None and found.coverages is not None:
            nlpd = "" if found.nlpd is None else f"NLPD {found.nlpd:.3f}; "
            yield "left out", f"{nlpd}{coverages_words(found.coverages)}, each predicted from the others."
    if baselines := content.get("baselines"):
        from ..posteriors.baselines import Baselines

        values: dict[str, Any] = {name: float("nan") if value is None else value for name, value in baselines.items()}
        yield "judged", Baselines(**values).beside()


def _judged(part: HeldOut) -> str:
    """What a model's predictions of some rows were like; files of earlier versions know less."""
    from ..report.words import coverages_words, readable

    text = f"RMSE {readable(part.rmse, 4)}"
    if part.nlpd is not None:
        text += f", NLPD {part.nlpd:.3f}"
    if part.coverages is not None:
        return f"{text}; {coverages_words(part.coverages)}"
    return text if part.coverage is None else f"{text}, {part.coverage:.1%} in the 95 % band"


def _mean(content: dict[str, Any]) -> Lines:
    """What is predicted before the Gaussian process; nothing of a constant, and of files of earlier versions."""
    from ..persistence.means import mean_in_header
    from ..report.words import mean_words

    if content.get("mean") is not None and (words := mean_words(mean_in_header(content["mean"]))):
        yield "mean", words


def _errors(content: dict[str, Any]) -> Lines:
    """The distribution of every target's errors; nothing of files of earlier versions, which do not say."""
    import numpy as np

    from ..posteriors.predictive import Standard
    from ..report.words import distribution_words

    shape = (content["posterior"].get("scale") or {}).get("shape")
    if shape is None:
        return
    lines = []
    for part in shape["targets"]:
        standard = None if part is None else Standard(float(part["nu"]), np.array(part["weights"], dtype=np.float64))
        lines.append(distribution_words(standard, part is not None and len(part["coefficients"]) > 1))
    if len(set(lines)) > 1:
        lines = [f"target {number}: {line}" for number, line in enumerate(lines)]
    yield "errors", "\n".join(dict.fromkeys(lines))


def _contents(content: dict[str, Any]) -> Lines:
    """Parameters that a file cannot hold, and its arrays."""
    lost = [f"{name}: {part['lost']}" for name, part in content["params"].items() if "lost" in part]
    if lost:
        yield "not kept", "\n".join(lost)
    sizes = [f"{name} {' x '.join(map(str, part['shape']))}" for name, part in content["arrays"].items()]
    yield "arrays", ", ".join(sizes)


def _words(content: dict[str, Any]) -> KernelWords | None:
    """Error bars and noise in the words that a fit has left in the file, else by the posterior's numbers; or None."""
    from ..posteriors.calibration import ErrorBars
    from ..report.words import KernelWords

    said = (content.get("about") or {}).get("kernel")
    if said:
        return KernelWords.from_dict(said)
    scale = content["posterior"].get("scale") or {}
    if not scale.get("bars") or "y_std" not in content:
        return None
    bars, unit = ErrorBars(**scale["bars"]), float(content["y_std"][0])
    share = min(bars.noise**2 / scale["floor"], 1.0) if scale["floor"] > 0 else 0.0
    return KernelWords("", (), 0.0, share).scaled(bars, unit)


def _column(column: dict[str, Any]) -> str:
    """A column as the printout describes it."""
    from ..tables.columns import GAP

    names = " and ".join(filter(None, [column["name"], column.get("partner")]))
    words = {"means": "levels by their mean target", "ordered": "levels in order", "points": "levels, each for itself"}
    kind = words.get(column["kind"], column["kind"])
    text = f"{names} ({kind}"
    parts = column.get("parts") or []
    text += f": {', '.join(parts)})" if parts else ")"
    levels = [level for level in column["levels"] if level != GAP]
    if levels:
        shown = [repr(level) for level in levels[:8]] if any("," in level for level in levels) else levels[:8]
        text += ": " + ", ".join(shown) + (", ..." if len(levels) > 8 else "")
    if column.get("indicator"):
        text += "; an input says where values are missing"
    return text + _fill(column)


def _fill(column: dict[str, Any]) -> str:
    """What takes the place of missing values, as the end of a sentence; empty if nothing does."""
    import numpy as np

    from ..tables.columns import GAP

    fill = column["fill"]
    if fill == GAP or GAP in column["levels"]:
        return "; missing values are a level"
    if fill is None or column["kind"] == "place":
        return "" if fill is None else "; missing ones are at the centre"
    if column["kind"] == "date":
        return f"; missing: {np.datetime64(int(fill), 'D')}"
    return f"; missing: {fill if isinstance(fill, str) else format(fill, '.6g')}"
