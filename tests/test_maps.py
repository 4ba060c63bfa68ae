"""The written maps are true: the letters, the method, the examples for contributors, and what they name in the code."""

from __future__ import annotations

import ast
import doctest
import json
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from numpy.testing import assert_allclose
from safetensors import safe_open
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import sodalite
from sodalite import GreedyGPRegressor
from sodalite.posteriors import Posterior
from test_package import ROOT, SOURCE, python_blocks

METHOD, NOTATION, CONTRIBUTING = (
    (ROOT / name).read_text(encoding="utf-8") for name in ("docs/method.rst", "NOTATION.md", "CONTRIBUTING.md")
)
ROOMS = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}


# docs/method.rst


def test_the_examples_of_the_method_run():
    found = doctest.testfile(str(ROOT / "docs" / "method.rst"), module_relative=False, encoding="utf-8")
    assert found.attempted > 20
    assert not found.failed


EXAMPLES = {
    "file_format": 10,
    "for_users_of/boosted_trees": 8,
    "for_users_of/kriging": 8,
    "for_users_of/scikit_learn": 8,
    "limits": 50,
    "user_guide/intervals": 20,
    "user_guide/mean": 10,
}
"""Pages whose examples run, each with a number that its examples exceed."""


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_the_guide_run(name):
    found = doctest.testfile(str(ROOT / f"docs/{name}.rst"), module_relative=False, encoding="utf-8")
    assert found.attempted > EXAMPLES[name]
    assert not found.failed


def test_every_page_with_examples_is_run():
    found = {page.relative_to(ROOT / "docs") for page in PAGES[1:] if ">>> " in page.read_text(encoding="utf-8")}
    assert {page.with_suffix("").as_posix() for page in found} == {"method", *EXAMPLES}


@pytest.mark.parametrize("posterior", ["local", "sod", "vfe"])
def test_the_file_format_names_all_that_is_in_a_file(posterior, tmp_path):
    """The fields of a model file stand on the page."""
    words = set(re.findall(r"``(\w+)``", (ROOT / "docs/file_format.rst").read_text(encoding="utf-8")))
    X = np.random.default_rng(0).uniform(0, 10, (200, 2))
    gp = GreedyGPRegressor(RBF(1.0) + WhiteKernel(0.1), hyperparameters="fixed", posterior=posterior, n_active=20)
    sodalite.save(gp.fit(X, np.sin(X[:, 0]), alpha=np.full(200, 0.1)), tmp_path / "model.sodalite")
    with safe_open(tmp_path / "model.sodalite", framework="np") as file:
        about = file.metadata()
    text = json.loads(about["text"])
    assert set(about) | set(text) | set(text["content"]) <= words


def resolve(path: str):
    """What a dotted path, relative to the package, names."""
    parts, thing = path.split("."), import_module("sodalite")
    for place, part in enumerate(parts):
        if not hasattr(thing, part):
            try:
                import_module(".".join(["sodalite", *parts[: place + 1]]))
            except ModuleNotFoundError:
                pytest.fail(f"sodalite.{path} does not exist: correct its name on the page")
        thing = getattr(thing, part)
    return thing


def constants() -> list[tuple[str, str]]:
    """The constants that the method names, each with the value in the parentheses behind it, if there is one."""
    found = re.findall(r"``((?:[a-z_]+\.)+(?:\w+\.)?\w+)``(?:\s+\(([-\d.e,\s]+)\))?", METHOD)
    return [(path, value) for path, value in found if path.partition(".")[0] in ROOMS]


@pytest.mark.parametrize(("path", "value"), constants(), ids=lambda part: part)
def test_the_constants_of_the_method_are_those_of_the_code(path, value):
    thing = resolve(path)
    if value:
        assert thing == ast.literal_eval(f"({value})")


def test_most_constants_of_the_method_have_a_value():
    assert sum(bool(value) for _, value in constants()) > 40


def labels(text: str) -> set[str]:
    """The labels of docs/method.rst that a text cites, as in "(docs/method.rst, `ties` and `blocks`)"."""
    lists = re.findall(r"docs/method\.rst`*,?((?:[\s#,]*(?:and|or)?[\s#]*`+[\w-]+`+)+)", text)
    return set(re.findall(r"`([\w-]+)`", " ".join(lists)))


def test_citations_are_found_where_they_stand():
    text = '# (docs/method.rst,\n    # `ties` and ``blocks``)\n"""See docs/method.rst, `joint`; `other`."""'
    assert labels(text) == {"ties", "blocks", "joint"}


def test_the_sections_that_the_code_cites_exist():
    cited = set().union(*(labels(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")))
    assert cited <= set(re.findall(r"^\.\. _([\w-]+):$", METHOD, flags=re.MULTILINE))


# All pages

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.rst"))]
PAGES += [
    page for room in ("user_guide", "for_users_of", "api") for page in sorted((ROOT / "docs" / room).glob("*.rst"))
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_names_exists(page):
    """Links to names of the package, and imports from it, resolve; the Python blocks are Python."""
    text = page.read_text(encoding="utf-8")
    for path in re.findall(r"(?<!`)`~?sodalite\.([\w.]+)`(?!`)", text):
        resolve(path)
    for module, imported in re.findall(r"from sodalite(?:\.([\w.]+))? import ([\w, ]+)", text):
        for name in imported.split(","):
            resolve(f"{module}.{name.strip()}".lstrip("."))
    blocks = re.findall(r"^\.\. code-block:: python\n\n((?:   .*\n|\n)+)", text, flags=re.MULTILINE)
    for block in blocks:
        ast.parse(dedent(block))


# The gallery, which `make docs` runs


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_an_example_uses_what_exists_and_ends_in_a_figure(path):
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    title, rule, *_ = ast.get_docstring(tree).splitlines()
    assert rule == "=" * len(title)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] == "sodalite":
            for alias in node.names:
                resolve(f"{node.module}.{alias.name}".removeprefix("sodalite."))
    assert "plt.show()" in text
    assert not re.search(r"https?://|urlopen|fetch_", text), "examples download nothing"


# NOTATION.md


@cache
def names(path: Path) -> set[str]:
    """The words of a source file outside its docstrings and comments."""
    code = re.sub(r'""".*?"""|#[^\n]*', "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return set(re.findall(r"[A-Za-z_]\w*", code))


def letters() -> list[tuple[str, str]]:
    """The cells of code in NOTATION.md, each after the title of its table."""
    found = []
    for section in NOTATION.split("\n## ")[1:]:
        title, _, body = section.partition("\n")
        rows = re.findall(r"^\|[^|]*\| ?([^|]*`[^|]*)\|", body, flags=re.MULTILINE)
        found += [(title, cell.strip()) for cell in rows]
    return found


@pytest.mark.parametrize(("title", "cell"), letters(), ids=lambda part: part)
def test_the_letters_are_those_of_the_code(title, cell):
    """The names stand in the files that the cell names, or else in the room of the title, or else anywhere."""
    room = re.search(r"`(\w+)/`", title)
    paths = sorted((SOURCE / room[1] if room else SOURCE).rglob("*.py"))
    code = re.findall(r"`([^`]+)`", cell)
    if modules := {part for part in code if part.endswith(".py")}:
        paths = [path for path in paths if path.name in modules]
        assert {path.name for path in paths} == modules
    known = set().union(*map(names, paths))
    for part in code:
        if part not in modules:
            missing = set(re.findall(r"[A-Za-z_]\w*", part)) - {"len"} - known
            assert not missing, f"NOTATION.md names {missing}, which the code does not have there"


# CONTRIBUTING.md


def test_the_paths_for_contributors_exist():
    paths = set(re.findall(r"`([\w/.]+(?:\.(?:py|rst|md|toml)|/))`", CONTRIBUTING))
    missing = [path for path in paths if not (SOURCE / path).exists() and not (ROOT / path).exists()]
    assert len(paths) > 30
    assert not missing


def test_the_walk_through_one_fit_names_each_file_once():
    section = CONTRIBUTING.partition("goes through these files, in this order:")[2].partition("`docs/method.rst`")[0]
    files = re.findall(r"`([\w/]+\.py)`", section)
    assert len(files) > 30
    assert len(set(files)) == len(files)
    assert all((SOURCE / file).is_file() for file in files)
    table, added = (section.partition(f"### {part}")[0] for part in ("From the command line", "What is added"))
    assert table.count(".py`") <= 25
    assert added.count(".py`") <= 35


def test_the_examples_for_contributors_run():
    generator = np.random.default_rng(0)
    X = generator.uniform(-3, 3, (300, 1))
    y = np.sin(2 * X[:, 0]) + 0.1 * generator.normal(size=300)
    kernel = RBF(1.0) + WhiteKernel(0.01)
    namespace = {"__name__": "contributing", "X": X, "y": y, "kernel": kernel}
    blocks = python_blocks(CONTRIBUTING)
    assert len(blocks) == 5
    for lines, code in blocks:
        assert code.count("\n") < 20
        exec(compile("\n" * lines + code, "CONTRIBUTING.md", "exec", dont_inherit=True), namespace)
    assert_allclose(namespace["largest"], [np.abs(X).max()])
    assert len(namespace["chosen"]) == 50
    assert namespace["ended"].stop_reason == "slow"
    curved = namespace["curved"]
    assert curved.mean_.name == "Parabola"
    assert_allclose(curved.predict([[100.0]]), 1e4, rtol=0.1)  # far from all rows there is the parabola alone
    own = namespace["gp"]
    plain = GreedyGPRegressor(kernel, posterior="sod", hyperparameters="fixed", n_active=50, random_state=0)
    plain.fit(X, y, first=own.active_indices_)
    (mean, std), (same, less) = (model.predict(X[:20], return_std=True) for model in (own, plain))
    assert_allclose(mean, same)
    assert abs(np.log(std / less).mean()) < 0.2  # calibration makes up for twice the variance
    twice, once = (model.posterior_.predict(X[:20]).variance for model in (own, plain))
    assert_allclose(twice, 2 * once)


def test_the_members_of_a_posterior_for_contributors_are_those_of_the_class():
    """What CONTRIBUTING lists is there, and a class with its two methods lacks nothing."""
    section = CONTRIBUTING.partition("**A posterior.**")[2].partition("```")[0]
    named = set(re.findall(r"`([a-z_]+)[`(]", section)) - {"posterior", "evidence", "joint"}
    assert len(named) >= 7
    assert named <= {*vars(Posterior), *Posterior.__annotations__}
    abstract = {name for name, method in vars(Posterior).items() if "NotImplementedError" in _names_in(method)}
    assert abstract == {"condition", "predict"}


def _names_in(method):
    """The global names that a function or a class method uses."""
    return getattr(getattr(method, "__func__", method), "__code__", _names_in.__code__).co_names


def test_the_signatures_for_contributors_are_those_of_the_protocols():
    """What CONTRIBUTING lists of a source of rows is what its protocol asks for."""
    for module, protocol in (("selection.rows", "Rows"),):
        methods = {name for name, kept in vars(getattr(resolve(module), protocol)).items() if kept and name[0] != "_"}
        section = CONTRIBUTING.partition(f"protocol `{protocol}`")[2].partition("\n\n")[0]
        asked = {word for part in re.findall(r"`([^`]+)`", section) for word in re.findall(r"\w+", part)}
        asked |= set(re.findall(r"\w+", section)) & {"X", "y", "alpha"}
        assert methods - {"name"} <= asked
