"""Names of files that are not UTF-8, and names of columns that other libraries interpret."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

import sodalite
from helpers import campaign
from sodalite import GreedyGPRegressor
from sodalite.cli.app import app
from sodalite.exceptions import CheckpointError, ModelFileError, TableError
from sodalite.selection.checkpoint import check_checkpoint
from sodalite.tables import open_output, open_parquet, read_table

SODALITE = [sys.executable, "-c", "from sodalite.cli import main; main()"]
FIT = ["--posterior", "sod", "--set", "hyperparameters=fixed", "-n", "5"]
NAMES = ["$a", "a$b$", r"$\frac$", r"\$x_1^", "[bold]a[/]", ":smile:", "<b>&</b>", "{a}", "a\nb"]


def run(*arguments, **options) -> Result:
    return CliRunner().invoke(app, [os.fsdecode(part) for part in arguments], **options)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder where files can have names that are no UTF-8, with such tables."""
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame({"x": np.linspace(0, 1, 20)}).assign(y=lambda table: table["x"] ** 2)
    table.to_csv("a.csv", index=False)
    table.to_parquet("a.parquet")
    try:
        for suffix in ("csv", "parquet"):
            os.rename(f"a.{suffix}", os.fsencode("caf") + b"\xe9." + suffix.encode())
        os.mkdir(b"b\xff")
        os.link(b"caf\xe9.parquet", b"b\xff/\xfe.parquet")
    except OSError:
        pytest.skip("names must be text there")
    return tmp_path


@pytest.mark.parametrize("data", [b"caf\xe9.csv", b"caf\xe9.parquet", b"b\xff"])
def test_file_names_that_are_no_text(data, folder):
    model, page, out = b"m\xe9.sodalite", b"p\xe9.html", b"o\xe9.csv"
    for arguments in (
        ["fit", data, "-t", "y", *FIT, "-o", model],
        ["fit", data, "-t", "y", *FIT, "-o", model, "--json", "--set", b"checkpoint=c\xe9"],
        ["inspect", model],
        ["inspect", model, "--json"],
        ["select", data, "-t", "y", "-n", "2", "-o", out],
        ["select", data, "-t", "y", "-n", "2", "--json"],
        ["predict", model, data if data != b"b\xff" else b"b\xff/\xfe.parquet", "-o", out, "--std"],
        ["report", model, "-o", page],
    ):
        result = run(*arguments)
        assert result.exit_code == 0, (arguments, result.output)
        if "--json" in arguments:
            assert json.loads(result.stdout)
    assert {model, page, out, b"c\xe9"} <= set(os.listdir(os.fsencode(folder)))
    for arguments in (["fit", b"none\xff.csv", "-t", "y"], ["inspect", b"caf\xe9.csv"], ["inspect", b"none\xff"]):
        result = run(*arguments)
        assert result.exit_code == 2
        (line,) = result.stderr.splitlines()
        assert line.startswith("Error: ")


def test_a_file_name_that_is_no_text_in_a_real_shell(folder):
    arguments = ["fit", b"caf\xe9.csv", "-t", "y", *FIT, "-o", b"m\xe9"]
    done = subprocess.run([*SODALITE, *arguments], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert rb"m\udce9" in done.stdout


def test_a_null_character_in_a_path(tmp_path):
    model = GreedyGPRegressor(n_active=2, hyperparameters="fixed").fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    for what, error in (
        (lambda: sodalite.load("a\0b"), ModelFileError),
        (lambda: sodalite.save(model, "a\0b"), ModelFileError),
        (lambda: check_checkpoint("a\0b"), CheckpointError),
        (lambda: read_table("a\0b.csv"), TableError),
        (lambda: open_parquet("a\0b.parquet", "y"), TableError),
        (lambda: open_output("a\0b.csv", ["y"]).__enter__(), TableError),
    ):
        with pytest.raises(error, match="null character"):
            what()


@cache
def named(name, d):
    """A model whose columns and target have a name."""
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(30, d)), columns=[f"{name}{place}$" for place in range(d)])
    y = pd.Series(X.sum(axis=1), name=name)
    return GreedyGPRegressor(n_active=5, hyperparameters="fixed", random_state=0).fit(X, y)


@pytest.mark.parametrize("kind", ["posterior", "learning", "importance", "dependence", "calibration"])
@pytest.mark.parametrize("d", [campaign(1), 2])
def test_column_names_in_pictures_are_no_formulas(kind, d):
    mpl.use("Agg")
    from matplotlib import pyplot

    for name in NAMES[: 4 if d == 1 else 1]:
        shown = sodalite.plot.plot(named(name, d), kind).figure_
        shown.canvas.draw()  # a formula that is none is found here
        for axes in np.ravel(shown.axes):
            labels = [axes.xaxis.label, axes.yaxis.label]
            assert all(part._preprocess_math(part.get_text())[1] is False for part in labels)
        pyplot.close(shown)


def test_column_names_in_a_terminal_are_as_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    pd.DataFrame(random.normal(size=(30, len(NAMES))), columns=NAMES).to_csv("a.csv", index=False)
    result = run("fit", "a.csv", "-t", ":smile:", *FIT, "-o", "m", env={"COLUMNS": "300"})
    assert result.exit_code == 0, result.output
    assert ":smile:" in result.stdout
    result = run("inspect", "m", env={"COLUMNS": "300"})
    for name in NAMES[:-1]:
        assert name in result.stdout
    result = run("report", "m", "-o", "-")
    assert result.exit_code == 0, result.output
    assert "<b>&</b>" not in result.stdout
