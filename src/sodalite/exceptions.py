"""The errors and warnings of the package that a caller may want to catch."""

from __future__ import annotations

from typing import Any


class TableError(ValueError):
    """A table cannot be read, written or used: what is wrong, where, and what to do, in one line for each problem."""


class ModelFileError(ValueError):
    """Raised if a model file cannot be read or written; one line names the file and says what is wrong."""


class CheckpointError(ValueError):
    """A checkpoint that cannot be read, cannot be written, or is of another run: nothing was changed."""


class ChangedError(ValueError):
    """The rows were not the same when they were read again."""


class SelectionInterrupted(KeyboardInterrupt):
    """Ctrl-C during a selection: the rows chosen so far are in the attribute `selection`."""

    def __init__(self, selection: Any) -> None:
        super().__init__(f"Interrupted after {len(selection)} rows; see the attribute `selection` of this exception.")
        self.selection = selection


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written while a selection went on."""


class OutlierWarning(UserWarning):
    """A row is so far from all others that it may be a mistake."""


class JitterWarning(UserWarning):
    """The diagonal of a covariance matrix was raised: it was not positive definite, or alpha was below the floor."""


class NoBetterWarning(UserWarning):
    """A model predicts rows that it has not seen no better than a baseline does."""


INVALID = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""The built-in errors that values which make no sense lead to, such as those of a forged file."""
