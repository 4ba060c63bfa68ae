"""What messages about a table tell the user to do, in the words of the command line or of Python."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Advice:
    """The names that options have for the user who reads the messages."""

    features: str
    na_values: str
    date_format: str
    order: str
    exclude: str | None
    """The option that leaves columns out; None if there is none."""

    @property
    def keep(self) -> str:
        """How a column that was left out is kept."""
        return f"to keep it, name it in {self.features}"

    def leave_out(self, columns: Sequence[str]) -> str:
        """How columns are left out; in a command, names with blanks or commas are quoted for a shell."""
        if self.exclude is None:
            return "leave it out" if len(columns) == 1 else "leave them out"
        return f"use {self.exclude} {shlex.quote(','.join(columns))}"


IN_COMMANDS = Advice("--features", "--na-values", "--date-format", "--order", "--exclude")
IN_PYTHON = Advice("the parameter columns", "na_values", "date_format", "order", None)
