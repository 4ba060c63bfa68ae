"""`python scripts/lines.py [--write]`: how large each room of the package is, and the share of Gaussian processes.

With `--write`, the table replaces the one in CONTRIBUTING.md. Code is what remains without blank lines, comments and
docstrings.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

ROOT = Path(__file__).resolve().parents[1]
GAUSSIAN_PROCESSES = (
    "kernels, selection, posteriors, hyperparameters, fitting, criteria, stopping, metrics, reference, estimator"
)
BEGIN, END = "<!-- lines: begin -->\n", "<!-- lines: end -->\n"
LAYOUT = {
    *(tokenize.ENCODING, tokenize.ENDMARKER, tokenize.COMMENT),
    *(tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
}


@dataclass(frozen=True)
class Size:
    """The size of some Python files."""

    lines: int = 0
    code: int = 0
    functions: int = 0
    classes: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(
            self.lines + other.lines,
            self.code + other.code,
            self.functions + other.functions,
            self.classes + other.classes,
        )


def size_of(source: str) -> Size:
    """The size of a Python file with this text."""
    nodes = list(ast.walk(ast.parse(source)))
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    code = {line for token in tokens if token.type not in LAYOUT for line in range(token.start[0], token.end[0] + 1)}
    for node in nodes:  # docstrings, of attributes too, are strings that nothing is done with
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            code -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return Size(
        lines=len(source.splitlines()),
        code=len(code),
        functions=sum(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in nodes),
        classes=sum(isinstance(node, ast.ClassDef) for node in nodes),
    )


def rooms_of(package: Path) -> dict[str, Size]:
    """The size of each folder and each module of a package, the largest first."""
    rooms: dict[str, Size] = {}
    for file in package.rglob("*.py"):
        room = file.relative_to(package).parts[0].removesuffix(".py")
        rooms[room] = rooms.get(room, Size()) + size_of(file.read_text(encoding="utf-8"))
    return dict(sorted(rooms.items(), key=lambda item: (-item[1].code, item[0])))


def table_of(rooms: dict[str, Size], test_lines: int) -> str:
    """The sizes as a table in Markdown, with the share of Gaussian processes and the lines of the tests under it."""
    total = sum(rooms.values(), Size())
    rows = [("room", "lines", "code", "share", "functions", "classes"), ("---", *["---:"] * 5)]
    for name, size in [*((f"`{name}`", size) for name, size in rooms.items()), ("total", total)]:
        share = f"{size.code / total.code:.1%}"
        rows.append((name, *map(str, (size.lines, size.code, share, size.functions, size.classes))))
    processes = sum(size.code for name, size in rooms.items() if name in GAUSSIAN_PROCESSES.split(", ")) / total.code
    words = f"Gaussian processes ({GAUSSIAN_PROCESSES}): {processes:.0%} of the code. Tests: {test_lines} lines."
    return "".join(f"| {' | '.join(row)} |\n" for row in rows) + f"\n{fill(words, 120)}\n"


def main(write: bool) -> None:
    """Print the table, or write it to CONTRIBUTING.md."""
    tests = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in (ROOT / "tests").rglob("*.py"))
    table = table_of(rooms_of(ROOT / "src" / "sodalite"), tests)
    print(table, end="")
    if write:
        path = ROOT / "CONTRIBUTING.md"
        before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
        path.write_text(f"{before}{BEGIN}{table}{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main("--write" in sys.argv[1:])
