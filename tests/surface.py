"""The public surface: names of docs/api/index.rst with their signatures, and the commands with their options.

A name counts once. Of what the package returns (the template `result` of the page), the attributes are listed; of what
users make, the arguments, which are attributes too. A method that overrides one of a listed class stands there.

`python tests/surface.py` writes it to tests/data/surface.txt. A change of that file is a change of what users call: it
wants a line in CHANGELOG.md and, where something is lost, a deprecation first (docs/stability.rst).
"""

from __future__ import annotations

import inspect
import re
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SURFACE = ROOT / "tests" / "data" / "surface.txt"


def public_names() -> list[str]:
    """The names that the API's page lists, without `sodalite.`."""
    return [name for name, _ in listed()]


def listed() -> list[tuple[str, bool]]:
    """The names that the API's page lists, and whether each is that of a result."""
    text = (ROOT / "docs" / "api" / "index.rst").read_text(encoding="utf-8")
    tables = re.findall(r"^\.\. autosummary::\n((?:   :.*\n)*)\n((?:   [\w.]+\n)+)", text, flags=re.MULTILINE)
    return [(name, "result" in options) for options, table in tables for name in table.split()]


def resolve(path: str) -> Any:
    """What a dotted path, relative to the package, names."""
    thing: Any = import_module("sodalite")
    for part in path.split("."):
        if not hasattr(thing, part):
            import_module(f"{thing.__name__}.{part}")
        thing = getattr(thing, part)
    return thing


def signature(thing: Any) -> str:
    """Names, kinds and defaults of the arguments, without their types."""
    parts, seen = [], set()
    for name, parameter in inspect.signature(thing).parameters.items():
        if name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not seen & {parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL}:
            parts.append("*")
        seen.add(parameter.kind)
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = "" if parameter.default is parameter.empty else f"={plain(parameter.default)}"
        parts.append(f"{stars}{name}{default}")
    return f"({', '.join(parts)})"


def plain(default: Any) -> str:
    """A default as one would write it; objects and factories by the name of their type."""
    if isinstance(default, str | int | float | bool | tuple | type(None)):
        return repr(default)
    return f"<{type(default).__name__}>"


def lines_of(name: str, is_result: bool, others: list[type]) -> list[str]:
    """The lines of one public name: itself, and what is public in it, unless one of some other classes has it too."""
    thing = resolve(name)
    if isinstance(thing, ModuleType):
        return []  # its names are listed
    if not inspect.isclass(thing):
        return [name + (signature(thing) if callable(thing) else "")]
    is_made = not (is_result or issubclass(thing, BaseException) or getattr(thing, "_is_protocol", False))
    members = {field.name: "" for field in fields(thing)} if is_dataclass(thing) else {}
    elsewhere = set(members) if is_made else set()
    elsewhere |= {key for other in others if thing is not other and issubclass(thing, other) for key in vars(other)}
    for base in inspect.getmro(thing):
        if base.__module__.startswith("sodalite"):
            for key, value in vars(base).items():
                function = value.__func__ if isinstance(value, staticmethod | classmethod) else value
                members.setdefault(key, signature(function) if inspect.isfunction(function) else "")
    shown = {key: text for key, text in members.items() if key[0] != "_" and "_request" not in key}
    own = signature(thing) if is_made else ""
    return [name + own, *sorted(f"{name}.{key}{text}" for key, text in shown.items() if key not in elsewhere)]


def commands() -> list[str]:
    """The commands, each with its arguments and options."""
    from sodalite.cli.app import app

    found = []
    for name in sorted(app.commands):
        command = app.commands[name]
        options = sorted(option for part in command.params for option in (*part.opts, *part.secondary_opts))
        found.append(f"$ sodalite {name}: {' '.join([*options, *(f'{name}=' for name in command.settings)])}")
    return found


def surface() -> str:
    """The whole, one line a name."""
    classes = [thing for thing in map(resolve, public_names()) if inspect.isclass(thing)]
    lines = sorted({line for name, is_result in listed() for line in lines_of(name, is_result, classes)})
    return "\n".join([*lines, *commands(), ""])


if __name__ == "__main__":
    SURFACE.write_text(surface(), encoding="utf-8")
    print(SURFACE)
