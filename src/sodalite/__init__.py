"""Gaussian processes for large data sets, on the few rows that the model itself chooses."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .core.version import __version__

if TYPE_CHECKING:
    from . import reference
    from .estimator import GreedyGPRegressor
    from .fitting.select import select
    from .persistence import load, save
    from .selection.loop import Selection
    from .tables import TableEncoder

__all__ = [
    "GreedyGPRegressor",
    "Selection",
    "TableEncoder",
    "__version__",
    "load",
    "reference",
    "save",
    "select",
]

# The module that defines each exported name.
_HOMES = {
    "GreedyGPRegressor": "estimator",
    "Selection": "selection.loop",
    "TableEncoder": "tables",
    "load": "persistence",
    "save": "persistence",
    "select": "fitting.select",
}


def __getattr__(name: str) -> Any:
    """Import an exported name, or a module of the package, when it is first used.

    Importing scikit-learn takes more than a second, and ``sodalite --help`` does not need it.
    """
    if name in _HOMES:
        found = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    elif name.startswith("_") or find_spec(f".{name}", __name__) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    else:
        found = import_module(f".{name}", __name__)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
