"""`sodalite inspect`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ._common import FILE, check_model_path, debug_option, json_option, plain_errors, print_json

if TYPE_CHECKING:
    from rich.console import Console

    from ..report.words import KernelWords


@click.command("inspect")
@click.argument("model", type=FILE)
@json_option
@debug_option
def command(model: str, as_json: bool, debug: bool) -> None:
    """Say what is in a model file.

    Only the file's header is read, however many rows it holds.

    Example: sodalite inspect houses.sodalite
    """
    with plain_errors(debug):
        content = run(model)
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


def run(path: str) -> dict[str, Any]:
    """What a model file says of itself."""
    from ..persistence import read_header

    check_model_path(path, "MODEL")
    header = read_header(path)
    arrays = {name: {"dtype": dtype, "shape": list(shape)} for name, (dtype, shape) in header.arrays.items()}
    return {"path": path, "bytes": header.n_bytes, "format_version": header.version, **header.content, "arrays": arrays}


def show(content: dict[str, Any], console: Console) -> None:
    """Print it."""
    from rich.table import Table

    from ..persistence.objects import kernel_from_json

    grid = Table.grid(padding=(0, 2))
    about, mapping = content.get("about") or {}, content.get("preprocessing")
    grid.add_row("file", f"{content['path']}, {content['bytes'] / 1e6:.2f} MB, format {content['format_version']}")
    grid.add_row("written by", f"sodalite {content['library']}")
    if "data" in about:
        grid.add_row("fitted to", f"{about['data']}")
    if mapping:
        if mapping["target"] is not None:
            grid.add_row("target", mapping["target"])
        grid.add_row("columns", "\n".join(_column(column) for column in mapping["columns"]))
    else:
        names = content["feature_names"]
        grid.add_row("inputs", ", ".join(names) if names else f"{content['n_features']}, without names")
    if content["n_targets"] > 1:
        grid.add_row("targets", str(content["n_targets"]))
    grid.add_row("rows", f"{content['n_active']} active of {content['n_rows']} ({content['selection']['stop_reason']})")
    grid.add_row("posterior", content["posterior"]["name"])
    grid.add_row("kernel", str(kernel_from_json(content["kernel"])))
    words = _words(content)
    if words is not None:
        if words.std is not None:
            grid.add_row("error bars", words.error_bars())
        grid.add_row("noise", words.noise())
    for part in about.get("test") or []:
        bars = "" if part["nlpd"] is None else f", NLPD {part['nlpd']:.3f}, {part['coverage']:.1%} in the 95 % band"
        grid.add_row(f"test, {part['model']}", f"RMSE {part['rmse']:.4g}{bars}")
    if (found := content.get("baselines")) and not about.get("test"):
        from ..posteriors.baselines import Baselines

        values: dict[str, Any] = {name: float("nan") if value is None else value for name, value in found.items()}
        grid.add_row("judged", Baselines(**values).beside())
    lost = [f"{name}: {part['lost']}" for name, part in content["params"].items() if "lost" in part]
    if lost:
        grid.add_row("not kept", "\n".join(lost))
    sizes = [f"{name} {' x '.join(map(str, part['shape']))}" for name, part in content["arrays"].items()]
    grid.add_row("arrays", ", ".join(sizes))
    console.print(grid)


def _words(content: dict[str, Any]) -> KernelWords | None:
    """What the file says of errors and noise: in words that a fit has left, else in its posterior's numbers."""
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
    text = f"{column['name']} ({column['kind']})"
    if column["levels"]:
        text += ": " + ", ".join(column["levels"][:8]) + (", ..." if len(column["levels"]) > 8 else "")
    return text if column["fill"] is None else f"{text}; missing: {column['fill']}"
