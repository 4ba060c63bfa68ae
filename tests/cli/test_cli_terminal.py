"""Every command as it looks in a terminal of 80 columns, in a pipe, and as JSON."""

from __future__ import annotations

import contextlib
import json
import os
import re
import struct
import subprocess

import numpy as np
import pandas as pd
import pytest

from commands import SODALITE
from helpers import campaign

WIDTH = 80
FIT = ["fit", "messy.csv", "-t", "Charges in US dollars", "--set", "hyperparameters=fixed", "-n", "20"]
COMMANDS = {
    "fit": FIT,
    "dry run": [*FIT, "--dry-run"],
    "mistake": ["fit", "messy.csv", "-t", "charges"],
    "predict": ["predict", "model.sodalite", "new.csv", "-o", "out.csv", "--std"],
    "select": ["select", "messy.csv", "-t", "Charges in US dollars", "-n", "4", "-o", "chosen.csv"],
    "report": ["report", "model.sodalite", "new.csv"],
    "inspect": ["inspect", "model.sodalite"],
    "demo": ["demo", "--n-active", "20"],
    "reproduce": ["reproduce", "--draws", "1", "--output", "results"],
}
WITH_JSON = {name: [*COMMANDS[name], "--json"] for name in ("fit", "dry run", "predict", "select", "report", "inspect")}
HELP = {f"{name} --help": [name, "--help"] for name in ("fit", "predict", "select", "report", "inspect", "demo")}
HELP |= {"reproduce --help": ["reproduce", "--help"], "--help": ["--help"]}
LONG = ("demo", "reproduce", *(name for name in HELP if name not in ("fit --help", "--help")))  # or much alike


def messy(n, seed, strange=()):
    """A table with long names, levels, gaps, dates, ids and a place, in an encoding of its own."""
    random = np.random.default_rng(seed)
    diagnosis = random.choice(["fracture of the neck of the femur", "influenza", "appendicitis", *strange], n)
    stay = random.integers(1, 30, n)
    frame = pd.DataFrame(
        {
            "": range(1, n + 1),
            "Name of the covered entity": [f"Hôpital numéro {row}" for row in range(n)],
            "Principal diagnosis at the time of admission to the hospital": diagnosis,
            "Days": np.where(random.uniform(size=n) < 0.1, "", stay.astype(str)),
            "Admitted": pd.date_range("2019-03-01", periods=n, freq="9D").strftime("%d.%m.%Y"),
            "lat": random.uniform(46, 48, n).round(3),
            "lon": random.uniform(6, 10, n).round(3),
            "Ward": random.choice([f"ward {place}, building {place % 3}" for place in range(30)], n),
            "Charges in US dollars": [f"${value:,.2f}" for value in 900 * stay + 4000 * (diagnosis == "influenza")],
        }
    )
    frame.loc[3, "lat"] = 4.6
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("terminal")
    messy(160, 0).to_csv(path / "messy.csv", index=False, sep=";", encoding="cp1252")
    messy(60, 1, ["a broken heart, of which nobody knew"]).to_csv(path / "new.csv", index=False, encoding="cp1252")
    done = subprocess.run([*SODALITE, *FIT, "-q"], cwd=path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return path


def in_terminal(arguments, folder):
    """What a terminal of 80 columns gets, and the exit code."""
    pty = pytest.importorskip("pty")
    fcntl, termios = pytest.importorskip("fcntl"), pytest.importorskip("termios")
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, WIDTH, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | {"TERM": "xterm"}
    child = subprocess.Popen([*SODALITE, *arguments], cwd=folder, stdin=side, stdout=side, stderr=side, env=environment)
    os.close(side)
    text = b""
    with contextlib.suppress(OSError):  # how Linux says that the other side has gone
        while part := os.read(main, 65536):
            text += part
    os.close(main)
    return text.decode(), child.wait()


def lines_of(text):
    """The lines that a terminal shows at the end, and all that were there for a moment."""
    text = text.replace("\r\n", "\n")
    return [re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", part) for line in text.split("\n") for part in line.split("\r")]


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "demo"])  # it takes long, and a pipe gets it too
def test_no_line_is_longer_than_the_terminal(name, folder):
    text, code = in_terminal(COMMANDS[name], folder)
    assert code == (2 if name == "mistake" else 0), text
    lines = lines_of(text)
    assert max(map(len, lines)) <= WIDTH, max(lines, key=len)
    assert "…" not in "".join(line for line in lines if not re.match(r"\d+ s[:,]", line))
    if name == "fit":
        assert "Reading messy.csv ..." in text  # later steps may be over before the display is drawn again
        assert "\x1b[1m" in text  # bold
    for line in lines:  # nothing is written into the line of the display
        assert not re.search(r"\d+ s(, about [^:]*)?: .*(Warning|Error):", line), line


@pytest.mark.parametrize("name", [campaign(name) if name in LONG else name for name in [*COMMANDS, *HELP]])
def test_a_pipe_gets_text_alone(name, folder):
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    arguments = [*SODALITE, *(COMMANDS | HELP)[name]]
    done = subprocess.run(arguments, cwd=folder, capture_output=True, check=False, env=environment)
    assert done.returncode == (2 if name == "mistake" else 0), done.stderr
    out, err = done.stdout.decode(), done.stderr.decode()
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\ue000]", out + err)
    for line in out.splitlines():
        assert len(line) <= WIDTH, line
        assert line == line.rstrip(), line
    for line in err.splitlines():  # each a sentence or two, in one line for programs
        assert re.match(r"(Warning|Error): \S|[A-Z'\w].*[.\w]$", line), line
    if name == "fit":  # warnings are in the words of the table: rows and columns are those of the file
        assert "Warning: Line 5 has 'lat and lon (km)' = " in err
        assert err.count("has 'l") <= 3  # once for each axis, not for each fit
    elif name == "report":  # what is said of missing values is what was done about them
        assert "medians and levels for missing values took their place.\n" in err


@pytest.mark.parametrize("name", [campaign(name) if name in ("dry run", "select") else name for name in WITH_JSON])
def test_json_is_one_document(name, folder):
    done = subprocess.run([*SODALITE, *WITH_JSON[name]], cwd=folder, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert isinstance(content, dict)
    if name in ("fit", "dry run", "predict", "select", "report"):
        assert any("Windows-1252" in note for note in content["notes"])
    assert all(line.startswith("Warning: ") for line in done.stderr.decode().splitlines())
