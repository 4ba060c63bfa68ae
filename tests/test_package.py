"""The package as a whole: its front page runs, it says what it exports, and its imports point one way."""

from __future__ import annotations

import ast
import inspect
import re
from importlib.metadata import entry_points, version
from importlib.resources import files
from pathlib import Path
from textwrap import dedent

import pytest

import sodalite
from sodalite.datasets import load_mauna_loa

ROOT = Path(__file__).resolve().parents[1]
SOURCE = Path(sodalite.__file__).parent


# The front page


def python_blocks(text: str) -> list[tuple[int, str]]:
    """The Python blocks of a Markdown text, each with the number of lines before it."""
    fences = re.finditer(r"^[ \t]*```python[^\n]*\n(.*?)^[ \t]*```[ \t]*$", text, flags=re.DOTALL | re.MULTILINE)
    return [(text.count("\n", 0, fence.start(1)), dedent(fence[1])) for fence in fences]


def test_blocks_are_found_where_they_stand():
    text = "# A\n```python\nx = 1\n```\n```bash\nls\n```\n  ```python\n  if x:\n      y = 2\n  ```\n"
    assert python_blocks(text) == [(2, "x = 1\n"), (8, "if x:\n    y = 2\n")]


def test_the_code_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    blocks = python_blocks((ROOT / "README.md").read_text(encoding="utf-8"))
    assert blocks, "README.md shows no Python"
    namespace = {"__name__": "readme"}
    for lines, code in blocks:
        exec(compile("\n" * lines + code, "README.md", "exec"), namespace)
    assert any(value is sodalite.GreedyGPRegressor for value in namespace.values())


# What is shipped


def test_types_and_data_are_shipped():
    assert (files("sodalite") / "py.typed").is_file()
    X, y = load_mauna_loa()
    assert (X.shape, y.shape) == ((2225, 1), (2225,))


def test_nothing_else_is_shipped():
    strangers = [path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    kinds = {path.name if path.name == "py.typed" else path.suffix for path in strangers}
    assert kinds == {".py", ".csv", ".css", ".js", "py.typed"}


def test_the_version_is_that_of_the_distribution():
    assert version("sodalite") == sodalite.__version__
    (script,) = entry_points(group="console_scripts", name="sodalite")
    assert script.value == "sodalite.cli:main"


@pytest.mark.parametrize("name", sodalite.__all__)
def test_what_is_exported_exists_and_is_documented(name):
    thing = getattr(sodalite, name)
    assert len(thing.__doc__.strip().splitlines()[0]) > 20


@pytest.mark.parametrize("thing", [sodalite.GreedyGPRegressor, sodalite.select], ids=lambda thing: thing.__name__)
def test_every_parameter_is_documented_in_order(thing):
    section = inspect.getdoc(thing).partition("Parameters\n----------\n")[2].partition("\n---")[0]
    documented = [
        name for names in re.findall(r"^(\w[\w, ]*) : ", section, flags=re.MULTILINE) for name in names.split(", ")
    ]
    assert documented == list(inspect.signature(thing).parameters)


def modules() -> dict[str, Path]:
    """Every module of the package by its name in it: `shard`, `kernels.nodes`; the package itself is ''."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


@pytest.mark.parametrize("name", MODULES)
def test_every_module_and_what_is_public_in_it_is_documented(name):
    tree = ast.parse(MODULES[name].read_text(encoding="utf-8"))
    assert ast.get_docstring(tree)
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"{node.name} has no docstring"


# Imports point one way


def imports(name: str) -> set[str]:
    """The modules that a module imports, anywhere in it: its siblings as `sodalite.x`, others by their names."""
    path = MODULES[name]
    package = ["sodalite", *name.split(".")] if name else ["sodalite"]
    if path.name != "__init__.py":
        package = package[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            # `from a import b` imports the module a, and a.b if that is a module.
            found.add(source)
            found |= {f"{source}.{alias.name}" for alias in node.names}
    return found


def imported_parts(name: str) -> set[str]:
    """The top-level modules and packages of sodalite that a module imports."""
    tops = {module.partition(".")[0] for module in MODULES if module}
    names = {module.split(".")[1] for module in imports(name) if module.startswith("sodalite.")}
    return names & tops


def part(name: str) -> list[str]:
    """The modules of a part: one, or those of a package."""
    found = [module for module in MODULES if module == name or module.startswith(f"{name}.")]
    assert found, f"there is no {name}"
    return found


def test_imports_are_found():
    assert {"sodalite.hyperparameters", "sklearn.base", "sodalite.kernels", "numpy"} <= imports("estimator")
    assert {"loop", "kernels", "threads"} <= imported_parts("posteriors.base")
    assert {"estimator", "datasets", "metrics"} <= imported_parts("experiments.demo")
    assert {"_optional"} <= imported_parts("cli")
    assert "experiments" in imported_parts("cli.demo")
    assert imported_parts("kernels.compiled") == {"kernels"}
    assert {"estimator", "loop", "selection", "reference"} <= imported_parts("")


ABOVE = {"shard", "panel", "loop", "selection", "posteriors", "hyperparameters", "estimator", "cli", "experiments"}

FORBIDDEN = {
    **dict.fromkeys(("kernels", "scores", "stopping", "jitter", "threads", "memory"), ABOVE),
    **dict.fromkeys(("neighbours", "calibration"), ABOVE),
    "shard": ABOVE - {"shard"},
    "panel": ABOVE - {"panel", "shard"},
    "loop": ABOVE - {"shard", "panel", "loop"},
    "cluster": ABOVE,
    "executors": ABOVE - {"shard"},
    "selection": {"posteriors", "hyperparameters", "estimator", "cli", "experiments"},
    "posteriors": {"selection", "hyperparameters", "estimator", "cli", "experiments"},
    "hyperparameters": {"shard", "panel", "estimator", "cli", "experiments"},
    "validation": ABOVE,
    "metrics": ABOVE,
    "reference": ABOVE,
    "exports": {"shard", "panel", "hyperparameters", "estimator", "cli", "experiments"},
    "remote": {"estimator", "cli", "experiments"},
    "estimator": {"cli", "experiments"},
    "report": {"estimator", "cli", "experiments"},
    "plot": {"estimator", "cli", "experiments"},
    "experiments": {"cli"},
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_imports_point_one_way(name):
    for module in part(name):
        assert not imported_parts(module) & FORBIDDEN[name], module


def test_there_are_no_circles():
    graph = {name: set() for name in {module.partition(".")[0] for module in MODULES if module}}
    for module in MODULES:
        if module:
            graph[module.partition(".")[0]] |= imported_parts(module) - {module.partition(".")[0]}
    while graph:
        leaves = {name for name, needed in graph.items() if not needed & graph.keys()}
        assert leaves, f"these import one another: {sorted(graph)}"
        graph = {name: needed for name, needed in graph.items() if name not in leaves}


SKLEARN = ("sklearn.gaussian_process.kernels", "sklearn.base", "sklearn.utils")
SEARCH = ("sklearn.neighbors",)  # all distances in blocks, the nearest kept: for `neighbours` alone
FREE = {"estimator", "experiments", "cli", "validation", "kernels"}


@pytest.mark.parametrize("name", [name for name in MODULES if name.partition(".")[0] not in FREE])
def test_scikit_learn_is_a_vocabulary_not_an_engine(name):
    used = {module for module in imports(name) if module.partition(".")[0] == "sklearn"}
    if "sklearn.gaussian_process.kernels" in used:  # `from sklearn.gaussian_process import kernels` names both
        used.discard("sklearn.gaussian_process")
    allowed = tuple(f"{module}." for module in (*SKLEARN, *(SEARCH if name == "neighbours" else ())))
    assert not [module for module in used if not f"{module}.".startswith(allowed)]


@pytest.mark.parametrize("name", [name for name in MODULES if name.partition(".")[0] not in {"cli", "experiments"}])
def test_extras_are_for_the_command_line_alone(name):
    assert not {module.partition(".")[0] for module in imports(name)} & {
        "click",
        "rich",
        "matplotlib",
        "pandas",
        "plotly",
    }
