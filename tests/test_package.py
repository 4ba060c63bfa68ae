"""The package as a whole: its front page runs, it says what it exports, and its imports point one way."""

from __future__ import annotations

import ast
import inspect
import os
import re
import tomllib
from importlib.metadata import entry_points, version
from importlib.resources import files
from pathlib import Path
from textwrap import dedent

import pytest
from threadpoolctl import threadpool_info

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


def test_types_and_data_are_shipped_and_nothing_else():
    assert (files("sodalite") / "py.typed").is_file()
    X, y = load_mauna_loa()
    assert (X.shape, y.shape) == ((2225, 1), (2225,))
    shipped = [path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    kinds = {path.name if path.name == "py.typed" else path.suffix for path in shipped}
    assert kinds == {".py", ".csv", ".css", ".html", ".js", ".txt", "py.typed"}


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


# Imports


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


def layers() -> list[set[str]]:
    """The rooms of the package, from the top to the bottom: what `lint-imports` holds them to."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = settings["tool"]["importlinter"]["contracts"]
    return [set(layer.split(" | ")) for layer in contract["layers"]]


def test_the_map_for_contributors_is_that_of_the_imports():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \|", text.partition("## The rooms")[2].partition("\n## ")[0], flags=re.MULTILINE)
    assert [set(re.findall(r"`(\w+)/?`", row)) for row in rows] == layers()[::-1]


def test_every_room_is_on_the_map():
    rooms = {name.partition(".")[0] for name in MODULES if name} - {"__main__"}
    assert rooms == set().union(*layers())
    assert len(rooms - {"exceptions"}) <= 20  # which holds nothing but names


SKLEARN = ("sklearn.callback", "sklearn.gaussian_process.kernels", "sklearn.base", "sklearn.utils")
FREE = {"estimator", "experiments", "cli", "core", "kernels", "exports.sklearn"}  # the last returns its process


EXTRAS = {"click", "rich", "matplotlib", "pandas", "plotly"}


@pytest.mark.parametrize("name", MODULES)
def test_scikit_learn_is_a_vocabulary_and_extras_are_for_the_command_line_alone(name):
    found, room = imports(name), name.partition(".")[0]
    if not {name, room} & FREE:
        used = {module for module in found if module.partition(".")[0] == "sklearn"}
        if "sklearn.gaussian_process.kernels" in used:  # `from sklearn.gaussian_process import kernels` names both
            used.discard("sklearn.gaussian_process")
        allowed = tuple(f"{module}." for module in SKLEARN)
        assert not [module for module in used if not f"{module}.".startswith(allowed)]
    if room not in {"cli", "experiments"}:
        assert not {module.partition(".")[0] for module in found} & EXTRAS


# The tests themselves


def test_workers_side_by_side_keep_to_their_share_of_the_cores():
    """Threads of several workers that wait for one another take twice the time; `conftest.py` sees to it."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    share = max(1, (os.cpu_count() or 1) // workers)
    counts = {library["filepath"]: library["num_threads"] for library in threadpool_info()}
    assert counts
    assert max(counts.values()) <= share
