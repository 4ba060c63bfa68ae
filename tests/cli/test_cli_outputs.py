"""No command writes over what it reads: it is refused before any work, and every file stays as it is."""

from __future__ import annotations

import os
import subprocess

import numpy as np
import pandas as pd
import pytest

from commands import SODALITE, done, run

FIT = ["--posterior", "sod", "--set", "hyperparameters=fixed", "-n", "3", "-q"]

COMMANDS = {
    "fit": ["fit", "{data}", "-t", "y", *FIT, "-o", "{output}"],
    "fit, checkpoint": ["fit", "{data}", "-t", "y", *FIT, "-o", "other.sodalite", "--set", "checkpoint={output}"],
    "select": ["select", "{data}", "-t", "y", "-n", "3", "-o", "{output}"],
    "predict": ["predict", "m.sodalite", "{data}", "-o", "{output}"],
    "report": ["report", "m.sodalite", "{data}", "-o", "{output}"],
}

SPELLINGS = {
    "same": ("h.csv", "h.csv"),
    "another spelling": ("h.csv", "sub/../h.csv"),
    "symbolic link to the input": ("h.csv", "symbolic.csv"),
    "the input is a symbolic link": ("symbolic.csv", "h.csv"),
    "hard link": ("h.csv", "hard.csv"),
    "below a link to the folder": ("h.csv", "sub/up/h.csv"),
    "a file of the folder": ("tables", "tables/a.parquet"),
    "a link to a file of the folder": ("tables", "linked"),
    "one that would be read of the folder": ("tables", "tables/below/new.parquet"),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    good = pd.DataFrame({"x": random.uniform(size=30)}).assign(y=lambda table: table["x"] ** 2)
    good.to_csv("h.csv", index=False)
    os.makedirs("tables/below")
    good.to_parquet("tables/a.parquet")
    os.mkdir("sub")
    os.symlink(tmp_path, "sub/up")
    os.symlink("h.csv", "symbolic.csv")
    os.link("h.csv", "hard.csv")
    os.symlink("tables/a.parquet", "linked")
    (tmp_path / "m.sodalite").write_bytes(b"never read")
    return tmp_path


def contents(folder):
    found = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and "up" not in path.parts}
    assert found
    return found


def assert_refused(arguments, folder, what):
    before = contents(folder)
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.splitlines()
    assert f"would replace {what}, or a part of it: give another path." in line
    assert contents(folder) == before


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_an_output_that_is_the_data(command, spelling, folder):
    data, output = SPELLINGS[spelling]
    assert_refused([part.format(data=data, output=output) for part in COMMANDS[command]], folder, "DATA")


@pytest.mark.parametrize("command", ["predict", "report"])
def test_an_output_that_is_the_model(command, folder):
    arguments = [part.format(data="h.csv", output="sub/../m.sodalite") for part in COMMANDS[command]]
    assert_refused(arguments, folder, "MODEL")


def test_a_model_in_the_place_of_its_checkpoint(folder):
    arguments = ["fit", "h.csv", "-t", "y", *FIT, "-o", "new", "--set", "checkpoint=sub/../new"]
    assert_refused(arguments, folder, "checkpoint")


def test_data_that_the_shell_feeds_in(folder):
    before = contents(folder)
    with open("h.csv", "rb") as stream:
        arguments = [*SODALITE, "select", "-", "-t", "y", "-n", "3", "-o", "h.csv"]
        done = subprocess.run(arguments, stdin=stream, capture_output=True, check=False)
    assert done.returncode == 2
    assert b"would replace DATA" in done.stderr
    assert contents(folder) == before


def test_a_model_may_be_written_into_the_folder_of_its_tables(folder):
    done("fit", "tables", "-t", "y", *FIT, "-o", "tables/m.sodalite")


def test_a_device_is_no_file_to_be_replaced(folder):
    done("select", "h.csv", "-t", "y", "-n", "3", "-o", "/dev/null")
