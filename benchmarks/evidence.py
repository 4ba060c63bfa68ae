"""The evidence: one JSON of everything that README and the documentation say about accuracy and speed.

A benchmark ends with `record`, which puts its table, or its numbers, into docs/evidence.json, with the command, the
date, the versions, the cores and the machine. From there the tables of the documentation are written: docs/NAME.txt,
and docs/evidence_runs.rst, the list of all runs. `python -m benchmarks evidence` writes them again.
tests/test_evidence.py compares them, and the numbers in the prose, with the JSON.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from joblib import cpu_count

DOCS = Path(__file__).resolve().parents[1] / "docs"
EVIDENCE, RUNS = DOCS / "evidence.json", DOCS / "evidence_runs.rst"
SHOWN = "shown in "  # begins the name of a table that a page shows among its own words
LIBRARIES = (
    *("sodalite", "numpy", "scipy", "scikit-learn", "lightgbm", "catboost", "mapie", "gpytorch", "torch", "gpboost"),
    *("MuyGPyS", "skrub", "dask"),
)


def read() -> dict[str, Any]:
    """All records, by the name of the benchmark."""
    return json.loads(EVIDENCE.read_text(encoding="utf-8"))


def surroundings() -> dict[str, Any]:
    """Where and with what something is being measured."""
    versions = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    today = datetime.now(UTC).date().isoformat()
    return {"date": today, "cores": cpu_count(), "machine": platform.machine(), "versions": versions}


def record(
    name: str,
    command: str,
    tables: Mapping[str, Sequence[str]] | None = None,
    values: Mapping[str, float] | None = None,
) -> None:
    """Put what a benchmark has measured into the evidence, in place of an earlier run, and write its tables.

    Parameters
    ----------
    name : str
        The benchmark.
    command : str
        The command line that measures it again.
    tables : mapping of file names in docs/ to lines
    values : mapping of names to numbers
        Numbers that the prose has, and no table.
    """
    records = read() if EVIDENCE.exists() else {}
    shown = {file: [line.rstrip() for line in lines] for file, lines in (tables or {}).items()}
    for file, lines in shown.items():
        if file.startswith(SHOWN) and name in records:
            replace_shown(file.removeprefix(SHOWN), records[name]["tables"][file], lines)
    records[name] = {"command": command, **surroundings(), "values": dict(values or {}), "tables": shown}
    text = json.dumps(dict(sorted(records.items())), indent=1, ensure_ascii=False)
    EVIDENCE.write_text(text + "\n", encoding="utf-8")
    write()


def where(shown_in: str) -> Path:
    """The path of a page that shows an output."""
    return DOCS.parent / shown_in if shown_in == "README.md" else DOCS / shown_in


def replace_shown(shown_in: str, before: Sequence[str], after: Sequence[str]) -> None:
    """Put an output in the place of an earlier one on a page, indented as that was."""
    path = where(shown_in)
    lines = path.read_text(encoding="utf-8").split("\n")
    for begin in range(len(lines)):
        old = lines[begin : begin + len(before)]
        if [line.strip() for line in old] == [line.strip() for line in before]:
            indent = " " * (len(old[0]) - len(old[0].lstrip()))
            lines[begin : begin + len(before)] = [(indent + line).rstrip() for line in after]
            path.write_text("\n".join(lines), encoding="utf-8")
            return
    raise ValueError(f"{path} does not show what is on file: {before[0]!r} and so on. Mend the page first.")


def pages(records: Mapping[str, Any]) -> dict[str, str]:
    """The files in docs/ that follow from the records."""
    found = {
        file: "\n".join(lines) + "\n"
        for each in records.values()
        for file, lines in each["tables"].items()
        if not file.startswith(SHOWN)
    }
    return {**found, RUNS.name: runs(records)}


def runs(records: Mapping[str, Any]) -> str:
    """A table of all runs: the command, when, where, and with which versions."""
    lines = [".. list-table::", "   :header-rows: 1", "   :widths: 38 14 10 38", ""]
    for row in (("command", "date", "cores", "versions"), *(_run(each) for each in records.values())):
        lines += [f"   {'* ' if place == 0 else '  '}- {cell}".rstrip() for place, cell in enumerate(row)]
    return "\n".join(lines) + "\n"


def _run(each: Mapping[str, Any]) -> tuple[str, ...]:
    versions = ", ".join(f"{name} {number}" for name, number in each["versions"].items())
    return f"``{each['command']}``", each["date"], f"{each['cores']}, {each['machine']}", versions


def write() -> None:
    """Write the tables of the documentation from the JSON."""
    for file, text in pages(read()).items():
        (DOCS / file).write_text(text, encoding="utf-8")


def numbers(records: Mapping[str, Any], name: str, row: str, section: str = "") -> list[float]:
    """The numbers in a row of a benchmark's tables: the first that begins with `row`, after the line with `section`."""
    lines = [line for table in records[name]["tables"].values() for line in table]
    if section:
        begin = next(place for place, line in enumerate(lines) if section in line)
        lines = lines[begin + 1 :]
    line = next(line for line in lines if line.strip(" │").startswith(row))
    return [float(found) for found in re.findall(r"[-+]?\d+(?:\.\d+)?", line.strip(" │").removeprefix(row))]


def main(arguments: Sequence[str] = ()) -> None:
    write()
    for name, each in read().items():
        print(f"{name:12} {each['date']}  {each['command']}")
    print(f"tables written from {EVIDENCE}")
