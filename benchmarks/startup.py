"""How soon there is a result of a small table: importing the package, and each command in a process of its own.

The floor of every command is importing scikit-learn's Gaussian processes, which takes most of the time. Seconds are the
median of three runs.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from .common import seconds

ROWS = 200


def write_table(path: Path) -> None:
    generator = np.random.default_rng(0)
    X = generator.normal(size=(ROWS, 5))
    y = np.sin(X[:, 0]) + X[:, 1] + 0.2 * generator.normal(size=ROWS)
    np.savetxt(path, np.column_stack([X, y]), delimiter=",", header="a,b,c,d,e,y", comments="")


def main() -> None:
    with TemporaryDirectory() as folder:
        table, model, out = (str(Path(folder, name)) for name in ("t.csv", "m.sodalite", "p.csv"))
        write_table(Path(table))
        command = "from sodalite.cli import main; main()"
        measured = {
            "import sklearn.gaussian_process": ["import sklearn.gaussian_process"],
            "import sodalite": ["import sodalite"],
            "from sodalite import GreedyGPRegressor": ["from sodalite import GreedyGPRegressor"],
            f"sodalite fit, {ROWS} rows": [command, "fit", table, "-t", "y", "-o", model],
            f"sodalite predict, {ROWS} rows": [command, "predict", model, table, "-o", out],
        }
        for name, arguments in measured.items():
            argv = [sys.executable, "-c", *arguments]
            print(f"{name:40} {seconds(lambda argv=argv: subprocess.run(argv, capture_output=True, check=True)):.2f} s")
