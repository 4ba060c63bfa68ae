"""What README and the documentation show of the commands: `sodalite demo` and `sodalite fit`, run as they are."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path
from tempfile import TemporaryDirectory

from .evidence import record


def run(*arguments: str) -> list[str]:
    """The lines that a command prints, 80 columns wide."""
    command = Path(sysconfig.get_path("scripts")) / "sodalite"
    with TemporaryDirectory() as folder:
        done = subprocess.run([command, *arguments], cwd=folder, capture_output=True, text=True, encoding="utf-8")
    if done.returncode:
        sys.exit(done.stderr)
    return [line.rstrip() for line in done.stdout.strip("\n").splitlines()]


def main() -> None:
    demo = run("demo")
    table = demo[next(place for place, line in enumerate(demo) if line.startswith("┏")) :]
    record("demo", "make run", {"shown in README.md": table})
    fit = [line for line in run("fit") if not line.startswith("time ")]
    record("fit", "sodalite fit", {"shown in user_guide/commands.rst": fit})
    print("\n".join([*table, "", *fit]))
