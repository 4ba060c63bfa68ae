"""The target: a column of numbers, and what to do about one that holds something else."""

from __future__ import annotations

import numpy as np

from ..core.types import Floats
from ..exceptions import TableError
from .base import listed
from .column import Options
from .numbers import Numbers, read_numbers, sentinel_note
from .values import Values
from .written_dates import read_clocks, read_dates, read_durations

TEXTUAL = 0.5  # share of a target's different texts that are no numbers, above which it is no column of numbers
SHOWN, LONGEST = 3, 30  # texts of a target that a message shows, and the characters of each
NAME_ANOTHER = "Name a column of numbers as the target"
TARGETS = {
    "date": ("dates", "Write how long they are after the first, in days for instance."),
    "clock": ("times", "Write how long they are after the first, in days for instance."),
    "time": ("durations", "Write them in minutes, for instance."),
    "truth": ("true and false", "Write 0 and 1 for them to predict the share of the second."),
}
"""What a target may hold in the place of numbers, and what can be done about it."""


def target_values(values: Values, name: str, source: str, options: Options) -> tuple[Floats, list[str]]:
    """The target column, of shape (n,), NaN where a value is missing, and notes; all but numbers are refused."""
    values = values.blanked(options.na_values)
    column, notes = Numbers(name), list[str]()
    if values.kind == "text":
        numbers, written = read_numbers(values.used_texts, options.decimal, options.thousands, options.prefer)
        if np.isnan(numbers).mean() > TEXTUAL:
            raise TableError(f"{source}: the target {name!r} {_no_numbers(values)}")
        column = Numbers(name, written.form)
        notes = [f"The target {name!r} is read as {written.words}."] if written.words else []
    elif values.kind not in ("number", "empty"):
        raise TableError(f"{source}: the target {name!r} {_no_numbers(values)}")
    try:
        y = column.numbers(values)
    except TableError as error:
        words = str(error).replace("column", "the target", 1)
        drop = " Rows without a target are left out; texts that mean a missing value are named by `na_values`."
        raise TableError(f"{source}: {words}" + (drop if values.kind == "text" else "")) from None
    return y, [*notes, *sentinel_note(f"The target {name!r}", y[~np.isnan(y)])]


def _no_numbers(values: Values) -> str:
    """What a target holds that is no column of numbers, and what can be done about it."""
    texts = values.used_texts if values.kind == "text" else ()
    kind = values.kind
    if kind == "bool" or (texts and {text.lower() for text in texts} <= {"false", "true"}):
        kind = "truth"
    elif texts:
        times = {"clock": read_clocks, "time": read_durations}
        is_time = (kind for kind, read in times.items() if not np.isnan(read(texts)).any())
        kind = "date" if read_dates(texts) else next(is_time, "text")
    what, remedy = TARGETS.get(kind, (values.type_name, f"{NAME_ANOTHER}."))
    if kind not in TARGETS and texts:
        different = f"{len(texts):,} different texts, such as " if len(texts) > SHOWN else ""
        what = f"{different}{listed([text[:LONGEST] for text in texts[:SHOWN]])}"
        if len(texts) == 2:
            what, remedy = " and ".join(map(repr, sorted(texts))), TARGETS["truth"][1]
    return f"holds {what}, but must hold numbers. {remedy}"
