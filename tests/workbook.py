"""Excel files as Excel writes them, in the few parts of the format that tables use; no library is needed."""

from __future__ import annotations

import datetime as dt
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

EPOCH = dt.datetime(1899, 12, 30)  # day 0 of Excel's calendar
STYLES = ("0", "14", "22", "9", "21")  # formats of Excel: general, date, date and time, per cent, time of day
HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006"


class Percent(NamedTuple):
    """A share that Excel shows in per cent."""

    share: float


class Error(NamedTuple):
    """A cell whose formula failed, such as #N/A."""

    code: str


def write_workbook(
    path: str | Path, sheets: Mapping[str, Sequence[Sequence[Any]]], merged: Sequence[str] = (), hidden: str = ""
) -> None:
    """Write sheets of rows of cells; `merged` are ranges of the first sheet, `hidden` is the name of a hidden sheet."""
    with zipfile.ZipFile(path, "w") as file:
        names = list(sheets)
        kinds = "".join(
            f'<Override PartName="/xl/worksheets/sheet{at + 1}.xml" '
            'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>'
            for at in range(len(names))
        )
        file.writestr(
            "[Content_Types].xml",
            f'{HEAD}<Types xmlns="{PACKAGE}/content-types"><Default Extension="rels" '
            'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" '
            'ContentType="application/xml"/><Override PartName="/xl/workbook.xml" ContentType="application/'
            f'vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>{kinds}</Types>',
        )
        relation = f'<Relationship Id="rId1" Type="{OFFICE}/relationships/officeDocument" Target="xl/workbook.xml"/>'
        file.writestr("_rels/.rels", f'{HEAD}<Relationships xmlns="{PACKAGE}/relationships">{relation}</Relationships>')
        listed = "".join(
            f'<sheet name="{escape(name)}" sheetId="{at + 1}" r:id="rId{at + 1}"'
            f"{' state=' + chr(34) + 'hidden' + chr(34) if name == hidden else ''}/>"
            for at, name in enumerate(names)
        )
        file.writestr(
            "xl/workbook.xml",
            f'{HEAD}<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}/relationships"><sheets>{listed}</sheets></workbook>',
        )
        kind = f"{OFFICE}/relationships/worksheet"
        parts = "".join(
            f'<Relationship Id="rId{at + 1}" Type="{kind}" Target="worksheets/sheet{at + 1}.xml"/>'
            for at in range(len(names))
        )
        parts += f'<Relationship Id="rId99" Type="{OFFICE}/relationships/styles" Target="styles.xml"/>'
        file.writestr(
            "xl/_rels/workbook.xml.rels",
            f'{HEAD}<Relationships xmlns="{PACKAGE}/relationships">{parts}</Relationships>',
        )
        formats = "".join(f'<xf numFmtId="{number}" applyNumberFormat="1"/>' for number in STYLES)
        file.writestr("xl/styles.xml", f'{HEAD}<styleSheet xmlns="{MAIN}"><cellXfs>{formats}</cellXfs></styleSheet>')
        for at, rows in enumerate(sheets.values()):
            body = "".join(
                f'<row r="{row + 1}">{"".join(_cell(row, place, value) for place, value in enumerate(cells))}</row>'
                for row, cells in enumerate(rows)
            )
            ranges = "".join(f'<mergeCell ref="{part}"/>' for part in merged) if at == 0 else ""
            joined = f"<mergeCells>{ranges}</mergeCells>" if ranges else ""
            file.writestr(
                f"xl/worksheets/sheet{at + 1}.xml",
                f'{HEAD}<worksheet xmlns="{MAIN}"><sheetData>{body}</sheetData>{joined}</worksheet>',
            )


def _cell(row: int, place: int, value: Any) -> str:
    """One cell, or nothing for None."""
    name = f'r="{chr(ord("A") + place)}{row + 1}"'
    if value is None:
        return ""
    if isinstance(value, bool):
        return f'<c {name} t="b"><v>{int(value)}</v></c>'
    if isinstance(value, str):
        return f'<c {name} t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>'
    if isinstance(value, Error):
        return f'<c {name} t="e"><v>{value.code}</v></c>'
    if isinstance(value, Percent):
        return f'<c {name} s="3"><v>{value.share!r}</v></c>'
    if isinstance(value, dt.datetime):
        return f'<c {name} s="2"><v>{(value - EPOCH) / dt.timedelta(days=1)!r}</v></c>'
    if isinstance(value, dt.date):
        return f'<c {name} s="1"><v>{(value - EPOCH.date()).days}</v></c>'
    if isinstance(value, dt.time):
        return f'<c {name} s="4"><v>{(value.hour * 60 + value.minute) / 1440!r}</v></c>'
    return f"<c {name}><v>{value!r}</v></c>"
