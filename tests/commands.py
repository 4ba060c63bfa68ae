"""What tests of the commands share: how they are run, what a mistake looks like, and a table."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
from click.testing import CliRunner, Result

from sodalite.cli.app import app

QUICK = ["--posterior", "sod", "--set", "hyperparameters=fixed", "--n-active", "30"]
SODALITE = [sys.executable, "-c", "from sodalite.cli import main; main()"]


def run(*arguments: object, **options) -> Result:
    """The result of a command in this process, on a terminal of 80 columns."""
    return CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": "80"}, **options)


def done(*arguments: object, **options) -> Result:
    """The result of a command that succeeds."""
    result = run(*arguments, **options)
    assert result.exit_code == 0, result.output
    return result


def process(*arguments: str, **options) -> subprocess.CompletedProcess:
    """The result of a command in a process of its own."""
    return subprocess.run([*SODALITE, *arguments], capture_output=True, check=False, **options)


def assert_mistake(result: Result, message: str) -> None:
    """One line on standard error, and exit code 2."""
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.splitlines()
    assert re.match(rf"Error: .*(?:{message})", line), line
    assert "Traceback" not in result.output


def houses(n: int = 160, seed: int = 0) -> pd.DataFrame:
    """A table with columns of several kinds; the price depends on some."""
    random = np.random.default_rng(seed)
    area, town = random.uniform(20, 200, n), random.choice(["Bern", "Basel", "Chur"], n)
    built = pd.Timestamp("1950-01-01") + pd.to_timedelta(random.integers(0, 25_000, n), unit="D")
    price = 3 * area + 100 * (town == "Bern") + random.normal(size=n)
    return pd.DataFrame({"area": area, "town": town, "built": built, "price": price})


def told(*arguments: object, **options) -> dict:
    """What a command that succeeds prints as JSON."""
    return json.loads(done(*arguments, "--json", **options).stdout)
