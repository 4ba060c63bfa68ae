"""Bad input to every command: one line that says what, where and what to do, exit code 2, and no file left."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from commands import assert_mistake, done, process, run

ROWS = 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a good table, a good model, and everything that is wrong."""
    path = tmp_path_factory.mktemp("bad")
    random = np.random.default_rng(0)
    good = pd.DataFrame({"area": random.uniform(20, 200, ROWS), "rooms": random.integers(1, 9, ROWS)})
    good["town"], good["price"] = random.choice(["Bern", "Basel"], ROWS), 3 * good["area"] + good["rooms"]
    good.to_csv(path / "good.csv", index=False)
    lines = (path / "good.csv").read_text().splitlines()

    def text(name: str, *changes: tuple[int, str]) -> None:
        """The good table with some lines changed, counted from 1."""
        changed = dict(changes)
        (path / name).write_text("\n".join(changed.get(n + 1, line) for n, line in enumerate(lines)) + "\n")

    (path / "empty.csv").write_text("")
    (path / "empty.parquet").write_bytes(b"")
    (path / "names.csv").write_text(lines[0] + "\n")
    text("ragged.csv", (7, "1,2,Bern"))
    mixed = ("\n".join([*lines, "50,3,Genève,150\n"])).encode() + "50,3,Zürich,150".encode("latin1")
    (path / "mixed.csv").write_bytes(mixed)
    text("words.csv", (5, "large,2,Bern,100"))
    text("target.csv", (6, "70,2,Bern,dear"))
    text("infinite.csv", (9, "inf,2,Bern,100"))
    text("infinite_target.csv", (4, "70,2,Bern,-inf"))
    text("gaps.csv", (3, ",2,Bern,100"), (8, ",,Bern,100"))
    good.drop(columns="rooms").rename(columns={"area": "Area"}).to_csv(path / "absent.csv", index=False)
    (path / "half.csv.gz").write_bytes(gzip.compress((path / "good.csv").read_bytes())[:-30])
    good.to_parquet(path / "whole.parquet")
    (path / "half.parquet").write_bytes((path / "whole.parquet").read_bytes()[:-40])
    (path / "folder.csv").mkdir()

    fit = ["fit", path / "good.csv", "-t", "price", "--posterior", "sod", "--set", "hyperparameters=fixed", "-n", "10"]
    done(*fit, "-o", path / "good.sodalite", "-q")
    done(*fit, "-o", path / "strict.sodalite", "-q", "--set", "missing=error")
    data = (path / "good.sodalite").read_bytes()
    (path / "half.sodalite").write_bytes(data[: len(data) // 2])
    (path / "empty.sodalite").write_bytes(b"")
    flipped = bytearray(data)
    flipped[-50] ^= 8
    (path / "flipped.sodalite").write_bytes(flipped)
    described = bytearray(data)
    described[data.index(b"WhiteKernel") + 2] ^= 1
    (path / "described.sodalite").write_bytes(described)
    with safe_open(path / "good.sodalite", framework="numpy") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        save_file(arrays, path / "newer.sodalite", {**file.metadata(), "version": "99"})
        save_file(arrays, path / "other.sodalite", {"format": "pt"})
    return path


TABLES = {
    "not there": ("nothing.csv", r"nothing\.csv: there is no such file"),
    "a folder": ("folder.csv", r"folder\.csv is a folder, not a file"),
    "empty": ("empty.csv", r"empty\.csv is empty; column names must come first"),
    "empty Parquet": ("empty.parquet", r"empty\.parquet cannot be read as Parquet"),
    "ragged": (
        "ragged.csv",
        r"ragged\.csv: line 7 has 3 cells, but there are 4 columns: '1,2,Bern'\. Correct the line",
    ),
    "encoding": (
        "mixed.csv",
        r"mixed\.csv is not UTF-8: byte 0xfc in line 43\. Say what it is, .*--set encoding=cp1252",
    ),
    "text": ("words.csv", r"words\.csv: column 'area' must hold numbers.*'large' in line 5\. Correct it"),
    "infinite": ("infinite.csv", r"infinite\.csv: column 'area' has 1 infinite value, .*line 9\. Correct it"),
    "missing values": ("gaps.csv", r"gaps\.csv has missing values: 'area' \(2\), 'rooms' \(1\)\."),  # missing=error
    "half a gzip": ("half.csv.gz", r"half\.csv\.gz is damaged: its gzip data cannot be read.*Copy it again"),
    "half a Parquet": ("half.parquet", r"half\.parquet cannot be read as Parquet"),
    "unknown suffix": ("good.docx", r"good\.docx: which format is this\? The suffixes are \.csv"),
}

MODELS = {
    "not there": ("nothing.sodalite", r"nothing\.sodalite: there is no such file"),
    "a folder": ("folder.csv", r"folder\.csv is a folder, not a model file"),
    "empty": ("empty.sodalite", r"empty\.sodalite is truncated, damaged or no model file.*Copy it again, or fit"),
    "truncated": ("half.sodalite", r"half\.sodalite is truncated, damaged or no model file.*Copy it again, or fit"),
    "a table": ("good.csv", r"good\.csv is no model file, but a table of text, such as CSV"),
    "Parquet": ("whole.parquet", r"whole\.parquet is no model file, but a Parquet table"),
    "bit-flipped description": (
        "described.sodalite",
        r"described\.sodalite is damaged: its description.*Copy it again",
    ),
    "newer": ("newer.sodalite", r"newer\.sodalite was written by a later version.*99.*pip install --upgrade sodalite"),
    "another's": ("other.sodalite", r"other\.sodalite is no model file of sodalite's"),
}

OUTPUTS = {
    "no folder": ("no/{}", r"cannot be written: there is no folder .*no\."),
    "a folder": ("folder.csv", r"folder\.csv cannot be written: it is a folder"),
    "below a file": ("good.csv/{}", "cannot be written: there is no folder"),
    "long name": ("n" * 300 + "{}", "cannot be written: [Ff]ile name too long"),
}


def cases():
    """Every case for every command that it applies to: a name, the arguments, the message."""
    for name, (data, message) in TABLES.items():
        refuse = ["--set", "missing=error"] if name == "missing values" else []
        yield f"fit, {name}", ["fit", data, "-t", "price", "-o", "o.sodalite", *refuse], message
        yield f"select, {name}", ["select", data, "-t", "price", "-n", "3", "-o", "o.csv", *refuse], message
        model = "strict.sodalite" if refuse else "good.sodalite"
        yield f"predict, {name}", ["predict", model, data, "-o", "o.csv"], message
        if name != "missing values":  # it leaves out their rows, and says so
            yield f"report, {name}", ["report", "good.sodalite", data, "-o", "o.html"], message
    for command in ("fit", "select"):
        rest = ["-o", "o.csv", "-n", "3"]
        yield f"{command}, no rows", [command, "names.csv", "-t", "price", *rest], r"names\.csv has column names but no"
        yield f"{command}, absent", [command, "good.csv", "-t", "prise", *rest], "no column 'prise'.*mean 'price'\\?"
        message = "'price' must hold numbers.*'dear' in line 6"
        yield f"{command}, text", [command, "target.csv", "-t", "price", *rest], message
        yield f"{command}, inf", [command, "infinite_target.csv", "-t", "price", *rest], "'price' has 1 inf.*line 4"
        message = "the target 'town' holds two levels: 'Basel', 'Bern'"
        yield f"{command}, words", [command, "good.csv", "-t", "town", *rest], message
        yield f"{command}, no target", [command, "good.csv", *rest], "--target is needed: which column of good.csv"
        unknown = [command, "good.csv", "-t", "price", "--exclude", "tonw", *rest]
        yield f"{command}, unknown column", unknown, r"no column 'tonw'.*Did you mean 'town'\?"
        criterion = [command, "good.csv", "-t", "price", "--criterion", "delt", *rest]
        yield f"{command}, criterion", criterion, r"criterion must be one of.*Did you mean 'delta'\?"
    yield "fit, posterior", ["fit", "good.csv", "-t", "price", "--posterior", "sud"], "posterior must be one of"
    no_target = r"absent\.csv has no column 'cost', the target.*"
    yield "report, target", ["report", "good.sodalite", "absent.csv", "-t", "cost", "-o", "o.html"], no_target
    for name, (model, message) in MODELS.items():
        yield f"predict, model {name}", ["predict", model, "good.csv", "-o", "o.csv"], message
        yield f"inspect, model {name}", ["inspect", model], message
        yield f"report, model {name}", ["report", model, "good.csv", "-o", "o.html"], message
    piped = "must be a file: a model cannot be piped"
    yield "fit, model to standard output", ["fit", "good.csv", "-t", "price", "-o", "-"], f"--output {piped}"
    yield "predict, model from standard input", ["predict", "-", "good.csv", "-o", "o.csv"], f"MODEL {piped}"
    yield "inspect, model from standard input", ["inspect", "-"], f"MODEL {piped}"
    yield "report, model from standard input", ["report", "-"], f"MODEL {piped}"
    flipped = r"flipped\.sodalite is damaged: array .*Copy it again"
    yield "predict, bit-flipped arrays", ["predict", "flipped.sodalite", "good.csv", "-o", "o.csv"], flipped
    absent = r"absent\.csv has no column 'area', 'rooms', which the model needs; it has 'Area'.*mean 'Area'\?"
    yield "predict, without a column", ["predict", "good.sodalite", "absent.csv", "-o", "o.csv"], absent
    yield "report, without a column", ["report", "good.sodalite", "absent.csv", "-o", "o.html"], absent
    for name, (output, message) in OUTPUTS.items():
        fit = ["fit", "nothing.csv", "-t", "price", "-o", output.format("m.sodalite")]
        table = output.format("o.csv")
        yield f"fit, output {name}", fit, message
        yield f"select, output {name}", ["select", "nothing.csv", "-t", "price", "-n", "3", "-o", table], message
        yield f"predict, output {name}", ["predict", "nothing.sodalite", "nothing.csv", "-o", table], message
        yield f"report, output {name}", ["report", "nothing.sodalite", "-o", output.format("o.html")], message
    for command in (["select", "good.csv", "-t", "price", "-n", "3"], ["predict", "good.sodalite", "good.csv"]):
        yield f"{command[0]}, output's suffix", [*command, "-o", "o.xyz"], r"o\.xyz: which format is this\?"


CASES = {name: (arguments, message) for name, arguments, message in cases()}


@pytest.mark.parametrize("name", CASES)
def test_one_line_that_says_what_and_where_and_no_file_left(name, folder, monkeypatch):
    arguments, message = CASES[name]
    monkeypatch.chdir(folder)
    before = sorted(os.listdir())
    result = run(*arguments)
    assert_mistake(result, message)
    line = result.stderr.strip()
    assert line.endswith((".", "?")) or "pip install" in line or "?" in line, line
    assert result.stdout == ""
    assert sorted(os.listdir()) == before


def test_a_mistake_in_a_real_shell(folder):
    """Through the entry point, from standard input, with what is not a terminal on all sides."""
    text = (folder / "ragged.csv").read_bytes()
    ended = process("fit", "-", "-t", "price", "-o", "o.sodalite", input=text, cwd=folder)
    assert ended.returncode == 2
    assert ended.stdout == b""
    (line,) = ended.stderr.decode().splitlines()
    assert line.startswith("Error: standard input: line 7 has 3 cells")
    assert not Path(folder, "o.sodalite").exists()
