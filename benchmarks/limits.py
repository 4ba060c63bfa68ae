"""How well `sodalite fit --time-limit` keeps to its limit: the time of the whole command over the limit.

Tables of several sizes, and limits from a few seconds up. The least time is what cannot be cut short: starting Python,
reading, conditioning and writing. A figure above 1.2 is one that the command itself says was exceeded.

    python -m benchmarks limits --rows 800 40000 --limits 5 20
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

MAIN = "from sodalite.cli import main; main()"
ROWS, LIMITS, INPUTS = (800, 6000, 40_000, 150_000), (5, 10, 20, 60), 6


def measure(path: Path, limit: float, *options: str) -> tuple[float, dict[str, object]]:
    """The seconds of the command and what it says."""
    program = [sys.executable, "-c", MAIN, "fit", str(path), "-t", "y", "-o", str(path.with_suffix(".sodalite"))]
    began = perf_counter()
    done = subprocess.run(
        [*program, "--time-limit", f"{limit:g}s", "--json", *options], capture_output=True, text=True, check=True
    )
    return perf_counter() - began, json.loads(done.stdout)


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks limits")
    parser.add_argument("--rows", nargs="*", type=int, default=ROWS, metavar="N")
    parser.add_argument("--limits", nargs="*", type=float, default=LIMITS, metavar="SECONDS")
    parser.add_argument("--options", default="", help="further options of the command, such as '--posterior sod'")
    given = parser.parse_args(arguments)
    print(f"{'rows':>8}{'limit':>8}{'took':>8}{'ratio':>8}{'kept':>7}  of the time limit")
    with TemporaryDirectory() as folder:
        for n in given.rows:
            random, path = np.random.default_rng(0), Path(folder) / f"rows_{n}.csv"
            X = random.normal(size=(n, INPUTS))
            y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] ** 2 + 0.1 * random.normal(size=n)
            names = ",".join([*(f"x{i}" for i in range(INPUTS)), "y"])
            np.savetxt(path, np.column_stack([X, y]), delimiter=",", header=names, comments="", fmt="%.6g")
            for limit in given.limits:
                seconds, found = measure(path, limit, *given.options.split())
                said = found["time_limit"] or "kept"
                print(f"{n:8}{limit:8g}{seconds:8.1f}{seconds / limit:8.2f}{found['n_active']:7}  {said}", flush=True)
