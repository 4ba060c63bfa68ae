"""Times of day, as points on a circle, and durations, in days."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .base import TableError
from .calendar import circle
from .column import Coded, Column, Lookup, Options, Reading, numbers_of, used_texts, with_gaps
from .column_names import is_duration
from .values import Values
from .written_dates import read_clocks, read_durations


@dataclass(frozen=True)
class Times(Column):
    """Times of day as points on a circle, or durations as days."""

    kind: ClassVar[str] = "time"
    parts: tuple[str, ...] = ()
    """("hour",) for times of day, and nothing for durations."""

    def inputs(self) -> list[str]:
        return [f"{self.name} hour {axis}" for axis in ("cos", "sin")] if self.parts else [self.name]

    def encode(self, get: Lookup, source: str = "the table") -> Coded:
        days = np.asarray(self.values(get(self.name), source).data, dtype=np.float64)
        whole = self.filled(days)
        return self.coded(circle(whole, "hour") if self.parts else whole[:, None], np.isnan(days))

    def values(self, values: Values, source: str) -> Values:
        """The times, read from texts if need be; all else is refused."""
        if values.kind in ("clock", "time", "empty"):
            return values
        words, shown = ("times", "12:30:00") if self.parts else ("durations", "1:02:33 or 5h 10m")
        message = f"{source}: column {self.name!r} must hold {words}, as {shown} for instance, but it "
        if values.kind != "text":
            raise TableError(f"{message}holds {values.type_name}.")
        found = (read_clocks if self.parts else read_durations)(values.levels)
        days = numbers_of(values, found, lambda shown, more: f"{message}has {shown}.")
        kind = "clock" if self.parts else "time"
        return Values(kind, days, place=values.place)

    @classmethod
    def read(cls, name: str, values: Values, options: Options) -> Reading | None:
        """A column of times or durations, or of texts that all are."""
        if values.kind == "text":
            texts = used_texts(values)
            if not is_duration(name) and not np.isnan(read_clocks(texts)).any():
                column = cls(name, ("hour",))
            elif not np.isnan(read_durations(texts)).any():
                column = cls(name)
            else:
                return None
        elif values.kind in ("clock", "time"):
            column = cls(name, ("hour",) if values.kind == "clock" else ())
        else:
            return None
        days = np.asarray(column.values(values, "").data, dtype=np.float64)
        known = days[~np.isnan(days)]
        if np.ptp(known) == 0:
            return Reading.left_out(name, "all its values are equal")
        words = "times of day" if column.parts else "durations, in days"
        return Reading(name, words, with_gaps(column, days, options), int(np.isnan(days).sum()))
