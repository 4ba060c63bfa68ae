"""What README and the documentation show of the commands: `sodalite demo`, `fit` and `reproduce`, run as they are."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from tempfile import TemporaryDirectory

from .evidence import record

SUBSETS = (10, 20, 30, 40)  # rows of the random subset whose likelihood gives the hyperparameters


def run(*arguments: str, file: str | None = None) -> tuple[list[str], str]:
    """The lines that a command prints, 80 columns wide, and the content of a file that it writes, if one is named."""
    command = Path(sysconfig.get_path("scripts")) / "sodalite"
    with TemporaryDirectory() as folder:
        done = subprocess.run([command, *arguments], cwd=folder, capture_output=True, text=True, encoding="utf-8")
        if done.returncode:
            sys.exit(done.stderr)
        content = "" if file is None else (Path(folder) / file).read_text(encoding="utf-8")
    return [line.rstrip() for line in done.stdout.strip("\n").splitlines()], content


def reproduce() -> list[str]:
    """Record what `sodalite reproduce` ends its table with, and numbers of its medians and of other subsets."""
    printed, content = run("reproduce", file="reproduce/table.json")
    begin = next(place for place, line in enumerate(printed) if line.startswith("outside the "))
    end = next(place for place, line in enumerate(printed) if line.startswith("selections that end"))
    part = next(part for part in json.loads(content)["table"] if part["function"] == "x sin x")
    full = next(each for each in part["comparisons"] if (each["quantity"], each["way"]) == ("full", "fixed"))
    values: dict[str, float] = {
        "full GP of x sin x, RMSE": full["median"],
        "noise variance of x sin x by likelihood": part["likelihood"]["white"]["median"],
    }
    for rows in SUBSETS:
        some, _ = run("reproduce", "--draws", "60", "--subset", str(rows))
        inside, ended = (
            re.findall(r"\d+(?= of 12| %)", line) for line in some if line.startswith(("inside, ", "selec"))
        )
        values[f"inside, --draws 60 --subset {rows}"] = int(inside[1])
        values[f"% that end with two rows, --draws 60 --subset {rows}"] = int(ended[1])
        values["inside, --draws 60, scripts' kernels"] = int(inside[0])
        values["% that end with two rows, --draws 60, scripts' kernels"] = int(ended[0])
    table = printed[begin : end + 1]
    record("reproduce", "sodalite reproduce", {"shown in user_guide/paper.rst": table}, values)
    return table


def main() -> None:
    demo, _ = run("demo")
    table = demo[next(place for place, line in enumerate(demo) if line.startswith("┏")) :]
    record("demo", "make run", {"shown in README.md": table})
    fit, _ = run("fit")
    begin, end = (
        next(place for place, line in enumerate(fit) if line.startswith(name)) for name in ("time ", "model ")
    )
    fit = fit[:begin] + fit[end:]
    record("fit", "sodalite fit", {"shown in user_guide/commands.rst": fit})
    print("\n".join([*table, "", *fit, "", *reproduce()]))
