"""`make lines`: what it counts as code, and that it runs."""

from __future__ import annotations

import subprocess
import sys

import pytest
from scripts.lines import ROOT, Size, rooms_of, table_of

SOURCE = '''"""A docstring,
of two lines."""

import os  # a comment beside code

# a comment


class A:
    x: int = 1
    """What x is."""

    def f(self) -> str:
        """What f does."""
        return """a text
        of two lines"""


async def g(): ...
'''


def test_code_is_counted_without_blank_lines_comments_and_docstrings(tmp_path):
    for name in ("kernels/a.py", "kernels/below/b.py", "plot.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(SOURCE)
    (tmp_path / "kernels" / "c.js").write_text("// not Python")
    rooms = rooms_of(tmp_path)
    one = Size(lines=19, code=7, functions=2, classes=1)
    assert list(rooms.items()) == [("kernels", one + one), ("plot", one)]
    table = table_of(rooms, 123)
    assert "| `kernels` | 38 | 14 | 66.7% | 4 | 2 |\n" in table
    assert "| total | 57 | 21 | 100.0% | 6 | 3 |\n" in table
    assert "estimator): 67% of the code. Tests: 123 lines." in " ".join(table.split())


@pytest.mark.skipif(not (ROOT / "src").is_dir(), reason="the tests of the sdist run without the source")
def test_it_prints_a_table_of_this_package_which_contributors_have_too():
    command = [sys.executable, str(ROOT / "scripts" / "lines.py")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    begun = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("<!-- lines: begin -->\n")[2]
    assert printed.splitlines()[:2] == begun.splitlines()[:2]
    assert "| `kernels` |" in printed
