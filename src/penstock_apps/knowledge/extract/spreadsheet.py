"""Workbooks and CSV: a section a sheet, a line a row."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from xml.etree.ElementTree import Element

from penstock_apps.knowledge.extract.archive import Archive, each, properties
from penstock_apps.knowledge.extract.detect import decode
from penstock_apps.knowledge.extract.extract import too_much_text
from penstock_apps.knowledge.extract.limits import Limits
from penstock_apps.knowledge.extract.tables import records
from penstock_apps.knowledge.text import Extracted, Section

# Workbooks: a section a sheet, a line a row.

# Formats of numbers that mean a date or a time, of those that have no text of their own.
DATE_FORMATS = frozenset({*range(14, 23), *range(45, 48)})
QUOTED_FORMAT = re.compile(r'"[^"]*"|\[[^\]]*\]|\\.')
# Excel believes that 1900 was a leap year.
DAY_ZERO = datetime(1899, 12, 30)
DAY_ZERO_1904 = datetime(1904, 1, 1)
MAX_COLUMNS = 16_384
COLUMN = re.compile("[A-Z]{1,3}")


class Workbook:
    """What the cells of all sheets refer to."""

    def __init__(self, archive: Archive, limits: Limits) -> None:
        self.archive = archive
        self.limits = limits
        self.main = archive.part("officeDocument") or "xl/workbook.xml"
        workbook = archive.xml(self.main)
        self.sheets = [*workbook.iter("sheet")]
        settings = workbook.find("workbookPr")
        late = settings is not None and settings.get("date1904") in ("1", "true")
        self.day_zero = DAY_ZERO_1904 if late else DAY_ZERO
        strings = archive.part("sharedStrings", self.main)
        self.strings = [*map(cell_text, each(archive.blocks(strings), "si"))] if strings else []
        styles = archive.part("styles", self.main)
        self.dates = date_styles(archive.xml(styles)) if styles else frozenset[int]()

    def sections(self) -> Iterator[Section]:
        related = self.archive.related(self.main)
        read = set[str]()
        for number, sheet in enumerate(self.sheets, start=1):
            kind, part = related.get(sheet.get(":id", ""), ("", ""))
            if part in read:
                continue
            read.add(part)
            if kind != "worksheet":
                continue
            if said := "\n\n".join(filter(None, [records(self.rows(part)), *self.comments(part)])):
                yield Section(f"# {sheet.get('name', '')}\n\n{said}", page=number)

    def comments(self, part: str) -> Iterator[str]:
        """What was noted beside cells, with the cell's name."""
        for kind, name in (("comments", "comment"), ("threadedComment", "threadedComment")):
            for noted in filter(self.archive.first, self.archive.parts(kind, part)):
                for comment in each(self.archive.blocks(noted), name):
                    inner = comment.find("text")
                    said = "" if inner is None else (inner.text or "").strip() or cell_text(inner)
                    # A copy for programs that know no threads, which tells them to know some.
                    if said and not said.startswith("[Threaded comment]"):
                        yield f"{comment.get('ref', '')}: {said}"

    def rows(self, part: str) -> Iterator[list[str]]:
        """The rows of a sheet, without the columns that are empty in all of them."""
        filled = [cells for cells in self.filled(part) if cells]
        columns = sorted({column for cells in filled for column in cells})
        if len(columns) * len(filled) > self.limits.characters:
            raise too_much_text(self.limits)
        return ([cells.get(column, "") for column in columns] for cells in filled)

    def filled(self, part: str) -> Iterator[dict[int, str]]:
        """Of each row its cells that are not empty, by column: a row may begin far to the right."""
        characters = 0
        for row in each(self.archive.blocks(part), "row"):
            cells: dict[int, str] = {}
            at = -1
            for cell in row.iter("c"):
                named = column_of(cell.get("r"))
                at = at + 1 if named is None else named
                if shown := self.shown(cell):
                    cells[at] = shown
                    characters += len(shown)
            if characters > self.limits.characters:
                raise too_much_text(self.limits)
            yield cells

    def shown(self, cell: Element) -> str:
        kind = cell.get("t", "n")
        if kind == "inlineStr":
            inline = cell.find("is")
            return "" if inline is None else cell_text(inline)
        value = cell.findtext("v") or ""
        if kind == "s" and value:
            return self.strings[int(value)]
        if kind == "b":
            return "true" if value == "1" else "false"
        if kind == "n" and value:
            return self.number(float(value), int(cell.get("s", "0")))
        return value

    def number(self, value: float, style: int) -> str:
        if style in self.dates and 0 <= value < 3_000_000:
            if value < 1:
                return str((self.day_zero + timedelta(days=value)).time().replace(microsecond=0))
            moment = self.day_zero + timedelta(seconds=round(value * 86_400))
            return str(moment.date()) if value == int(value) else str(moment)
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.15g}"


def read_xlsx(path: Path, name: str, limits: Limits) -> Extracted:
    with Archive(path, limits) as archive:
        sections = tuple(Workbook(archive, limits).sections())
        metadata = properties(archive)
    title = metadata.pop("title", None)
    return Extracted(sections, kind="xlsx", title=title, metadata=metadata)


def cell_text(element: Element) -> str:
    """Rich text without its looks, and without how it is pronounced."""
    pieces = [element.findtext("t") or "", *(run.findtext("t") or "" for run in element.iter("r"))]
    return "".join(pieces)


def date_styles(styles: Element) -> frozenset[int]:
    """The styles of cells that show a number as a date."""
    own = {
        entry.get("numFmtId", ""): entry.get("formatCode", "") for entry in styles.iter("numFmt")
    }
    cells = styles.find("cellXfs")
    formats = [entry.get("numFmtId", "0") for entry in cells] if cells is not None else []
    return frozenset(
        style
        for style, of in enumerate(formats)
        if int(of) in DATE_FORMATS
        or re.search("[ymdhs]", QUOTED_FORMAT.sub("", own.get(of, "").lower()))
    )


def column_of(reference: str | None) -> int | None:
    """The number of a column, from 0, by a cell's name: `C7` is in 2."""
    found = COLUMN.match(reference or "")
    if not found:
        return None
    number = 0
    for letter in found[0]:
        number = number * 26 + ord(letter) - ord("A") + 1
    return min(number, MAX_COLUMNS) - 1


# CSV and its kin.

CSV_DELIMITERS = ",;\t|"
# A field may be as long as the file.
csv.field_size_limit(2**31 - 1)


def read_csv(path: Path, name: str, limits: Limits, charset: str | None = None) -> Extracted:
    text = decode(path.read_bytes(), charset).replace("\x00", "")
    lines = text.splitlines(keepends=True)
    rows = csv.reader(lines, delimiter=csv_delimiter(lines[:50]))
    return Extracted((Section(records(rows)),), kind="csv")


def csv_delimiter(lines: list[str]) -> str:
    """The one that stands most often in the line where it stands least."""
    filled = [line for line in lines if line.strip()] or [""]
    return max(
        CSV_DELIMITERS,
        key=lambda mark: (
            min(line.count(mark) for line in filled),
            sum(line.count(mark) for line in filled),
        ),
    )
