"""What is released: the distributions, the version, the public surface, and the files around them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from difflib import unified_diff
from pathlib import Path

import pytest
from scripts import check_links

import sodalite
import surface
from test_package import ROOT, SOURCE

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


# Wheel and sdist


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """A folder with the wheel and the sdist of this checkout."""
    if not (ROOT / "src").is_dir():
        pytest.skip("the tests are run from an sdist, with an installed wheel")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def test_the_wheel_works_without_the_checkout(dist, tmp_path):
    """It holds the package as it is here, types and data too, and fits and predicts from where it is unpacked."""
    (wheel,) = dist.glob("*.whl")
    assert wheel.name == f"sodalite-{sodalite.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if name.startswith("sodalite/")}
        archive.extractall(tmp_path)
    here = {path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert names == {f"sodalite/{path.relative_to(SOURCE).as_posix()}" for path in here}
    assert "sodalite/py.typed" in names
    code = (
        "import sys, json; sys.path.insert(0, '.'); import sodalite; from sodalite.datasets import load_mauna_loa\n"
        "from sklearn.gaussian_process.kernels import RBF, WhiteKernel; X, y = (a[:200] for a in load_mauna_loa())\n"
        "gp = sodalite.GreedyGPRegressor(RBF(1.0) + WhiteKernel(0.1), hyperparameters='fixed', n_active=20).fit(X, y)\n"
        "sodalite.save(gp, 'm.sodalite'); same = sodalite.load('m.sodalite').predict(X[:3]) - gp.predict(X[:3])\n"
        "print(json.dumps([sodalite.__file__, sodalite.__version__, abs(same).max()]))"
    )
    ran = subprocess.run([sys.executable, "-I", "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True)
    file, version, difference = json.loads(ran.stdout)
    assert Path(file).resolve() == (tmp_path / "sodalite" / "__init__.py").resolve()
    assert version == sodalite.__version__
    assert difference <= 1e-12  # ppm: v's that are not cached differ in their last bits


def test_the_sdist_has_what_its_tests_need(dist):
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tracked = {"src/sodalite/py.typed", "tests/conftest.py", "docs/method.rst", "docs/conf.py", "benchmarks/common.py"}
    tracked |= {"conftest.py", "README.md", "NOTATION.md", "SECURITY.md", "CITATION.cff", "Makefile"}
    tracked |= {"pyproject.toml", "LICENSE"}
    tracked |= {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("*.py")}
    assert tracked <= names
    assert not [name for name in names if "_build" in name or "__pycache__" in name or name.startswith(".venv")]


@pytest.mark.campaign
def test_the_distributions_pass_their_tests_in_a_clean_environment(dist):
    """Some quick files of the tests; `make dist-test` runs all of them."""
    files = ["test_package.py", "test_release.py", "test_metrics.py", "kernels/test_checks.py", "fitting/test_clock.py"]
    command = [sys.executable, str(ROOT / "scripts" / "dist_test.py"), str(dist)]
    ran = subprocess.run([*command, *(f"tests/{name}" for name in files)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    assert " passed" in ran.stdout


# The public surface


def test_the_public_surface_is_the_one_on_file():
    """Names, signatures, defaults, options: whoever changes one says so by `python tests/surface.py`."""
    kept, now = surface.SURFACE.read_text(encoding="utf-8"), surface.surface()
    changes = "\n".join(unified_diff(kept.splitlines(), now.splitlines(), "surface.txt", "the code", lineterm="", n=0))
    assert not changes, f"If this is meant: python tests/surface.py, and a line in CHANGELOG.md.\n{changes}"


def test_the_surface_has_all_that_is_exported_and_fixed():
    names = set(surface.public_names())
    assert set(sodalite.__all__) - {"__version__"} <= names
    assert len(names) == len(surface.public_names())
    lines = surface.SURFACE.read_text(encoding="utf-8").splitlines()
    commands = {line.split()[2].rstrip(":") for line in lines if line.startswith("$ sodalite ")}
    assert commands == {"fit", "predict", "select", "report", "inspect", "demo", "reproduce"}
    assert any(line.startswith("GreedyGPRegressor(kernel=None, *, ") for line in lines)


def test_a_lost_argument_is_noticed(monkeypatch):
    monkeypatch.setattr(sodalite, "save", lambda model: None)
    assert "save(model)\n" in surface.surface()
    assert surface.surface() != surface.SURFACE.read_text(encoding="utf-8")


# Version, dates, licence, dependencies: each said once, or the same everywhere


def test_the_version_is_said_in_one_place_and_the_citation_and_the_changelog_are_of_it():
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "src/sodalite/core/version.py"
    assert "version" not in PROJECT["project"]
    assert re.search(r"load_file_regex\(load_file=\"../src/sodalite/core/version.py\"", text("conda/meta.yaml"))
    citation = text("CITATION.cff")
    version = re.search(r"^version: (\S+)$", citation, flags=re.MULTILINE)[1]
    date = re.search(r"^date-released: (\d{4}-\d\d-\d\d)$", citation, flags=re.MULTILINE)[1]
    latest = re.search(r"^## (\S+) \((.*)\)$", text("CHANGELOG.md"), flags=re.MULTILINE)
    assert (version, date) == latest.groups()
    assert version == sodalite.__version__


def test_the_conda_recipe_needs_what_the_wheel_needs():
    recipe = text("conda/meta.yaml")
    run = re.search(r"  run:\n((?:    - .*\n)+)", recipe)[1]
    asked = {line.removeprefix("    - ").replace(" ", "") for line in run.splitlines()}
    assert asked == {*PROJECT["project"]["dependencies"], f"python{PROJECT['project']['requires-python']}"}
    assert f"license: {PROJECT['project']['license']}" in recipe
    assert f"sodalite = {PROJECT['project']['scripts']['sodalite']}" in recipe


def test_the_workflows_run_what_there_is():
    """Targets of the Makefile exist, and every Python of the classifiers is in the matrix."""
    flows = [path.read_text(encoding="utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yml")]
    targets = set(re.findall(r"^([\w-]+):", text("Makefile"), flags=re.MULTILINE))
    used = {target for flow in flows for target in re.findall(r"run: make ([\w-]+)", flow)}
    assert used
    assert used <= targets
    matrix = re.search(r"python: \[(.*)\]", text(".github/workflows/tests.yml"))[1]
    offered = [line.rpartition(" ")[2] for line in PROJECT["project"]["classifiers"] if ":: 3." in line]
    assert re.findall(r"3\.\d+", matrix) == offered
    assert PROJECT["project"]["requires-python"] == f">={offered[0]}"


def test_the_security_notes_name_what_exists():
    notes = text("SECURITY.md")
    assert {"sodalite.load", "sodalite.persistence.TRUSTED_TYPES"} <= set(re.findall(r"`([\w.]+)`", notes))
    for path in re.findall(r"`sodalite\.([\w.]+)`", notes):
        surface.resolve(path)


# The documentation's links


def test_broken_links_are_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<a href="b.html#here">b</a><a href="#top"></a><h1 id="top"></h1><img src="c.png">'
    )
    (tmp_path / "b.html").write_text(
        '<p id="there"><a href="https://example.org/none.html">x</a><a href="a.html">a</a></p>'
        '<link rel="stylesheet" href="https://example.org/style.css"><img src="data:image/png;base64,AA==">'
    )
    assert check_links.broken(tmp_path) == [
        "a.html: b.html#here",
        "a.html: c.png",
        "b.html: fetches https://example.org/style.css",
    ]
