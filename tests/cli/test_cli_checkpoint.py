"""`sodalite fit --set checkpoint=...`: broken off, and gone on with by the command that it names."""

import os
import shlex
import signal
import subprocess
import sys

import numpy as np
import pytest

import sodalite
from commands import SODALITE, done, run

# A fit that says when rows are being chosen, and then takes long over a stage.
SLOW = """
import sys, time
from sodalite.selection import checkpoint
from sodalite.cli import main, _progress
checkpoint.SECONDS, checkpoint.SHARE = 0.0, 1e9

def slow(self, stage):
    if stage.t == 40:
        print("begun", flush=True)
        time.sleep(60)

_progress.Display.__call__ = slow
main()
"""
FIT = ["fit", "rows.csv", "-t", "y", "-n", "60", "--set", "hyperparameters=subset", "--posterior", "sod"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0, 9, (2, 150))
    y = np.sin(a) + 0.1 * b + 0.1 * rng.normal(size=150)
    np.savetxt("rows.csv", np.stack([a, b, y], axis=1), delimiter=",", header="a,b,y", comments="")
    return tmp_path


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
def test_ctrl_c_says_how_to_go_on_and_the_end_is_the_same(folder):
    command = [*FIT, "-o", "one.sodalite", "--set", "checkpoint=my fit"]
    child = subprocess.Popen(
        [sys.executable, "-c", SLOW, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "begun\n"
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 130
    words = "Interrupted: one.sodalite was not written. What was found so far is in my fit. To go on: "
    assert errors.strip().startswith(words)
    assert sorted(os.listdir()) == ["my fit", "rows.csv"]
    name, *again = shlex.split(errors.strip().removeprefix(words))
    assert (name, again) == ("sodalite", command)
    assert done(*again, "--json").stderr == ""
    whole = [*SODALITE, *FIT, "-o", "two.sodalite", "-q"]
    subprocess.run(whole, check=True)  # as the first: the threads of another process round differently
    one, two = sodalite.load("one.sodalite"), sodalite.load("two.sodalite")
    assert one.active_indices_.tolist() == two.active_indices_.tolist()
    assert one.kernel_ == two.kernel_


def test_mistakes_are_one_line_and_change_nothing(folder):
    (folder / "text").write_text("a,b\n")
    result = run(*FIT, "--set", "checkpoint=text")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: text is no checkpoint, but text. ")
    assert result.stderr.count("\n") == 1
    assert (folder / "text").read_text() == "a,b\n"
    result = run(*FIT, "--set", "checkpoint=absent/c")
    assert result.stderr == f"Error: absent/c cannot be written: there is no folder {folder / 'absent'}.\n"
    done(*FIT, "--set", "checkpoint=c", "-q")
    before = (folder / "c").read_bytes()
    result = run(*FIT, "--set", "checkpoint=c", "--seed", "1")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: checkpoint c cannot be continued, since it is of another run: ")
    assert (folder / "c").read_bytes() == before
