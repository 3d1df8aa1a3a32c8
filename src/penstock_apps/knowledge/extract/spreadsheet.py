"""Read workbooks and CSV files: a section for each sheet, and a line for each row."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from xml.etree.ElementTree import Element

from penstock_apps.knowledge.extract.archive import Archive, iter_elements, properties
from penstock_apps.knowledge.extract.detect import decode
from penstock_apps.knowledge.extract.extract import too_much_text_error
from penstock_apps.knowledge.extract.limits import ReadLimits
from penstock_apps.knowledge.extract.tables import records
from penstock_apps.knowledge.text import Extracted, Section

# Workbooks

# The built-in number formats that show a date or a time.
DATE_FORMATS = frozenset({*range(14, 23), *range(45, 48)})
QUOTED_FORMAT = re.compile(r'"[^"]*"|\[[^\]]*\]|\\.')
# Excel counts days as if 1900 had been a leap year.
DAY_ZERO = datetime(1899, 12, 30)
DAY_ZERO_1904 = datetime(1904, 1, 1)
MAX_COLUMNS = 16_384
COLUMN = re.compile("[A-Z]{1,3}")


class Workbook:
    """A workbook: its sheets, and the strings and styles that their cells refer to."""

    def __init__(self, archive: Archive, limits: ReadLimits) -> None:
        self.archive = archive
        self.limits = limits
        self.main = archive.part("officeDocument") or "xl/workbook.xml"
        workbook = archive.xml(self.main)
        self.sheets = [*workbook.iter("sheet")]
        settings = workbook.find("workbookPr")
        counts_from_1904 = settings is not None and settings.get("date1904") in ("1", "true")
        self.day_zero = DAY_ZERO_1904 if counts_from_1904 else DAY_ZERO
        strings = archive.part("sharedStrings", self.main)
        self.strings = (
            [*map(cell_text, iter_elements(archive.blocks(strings), "si"))] if strings else []
        )
        styles = archive.part("styles", self.main)
        self.date_styles = date_styles(archive.xml(styles)) if styles else frozenset[int]()

    def sections(self) -> Iterator[Section]:
        related = self.archive.related(self.main)
        read_parts = set[str]()
        for number, sheet in enumerate(self.sheets, start=1):
            kind, part = related.get(sheet.get(":id", ""), ("", ""))
            if part in read_parts:
                continue
            read_parts.add(part)
            if kind != "worksheet":
                continue
            if text := "\n\n".join(filter(None, [records(self.rows(part)), *self.comments(part)])):
                yield Section(f"# {sheet.get('name', '')}\n\n{text}", page=number)

    def comments(self, part: str) -> Iterator[str]:
        """Yield the comments on cells, each with its cell's name."""
        for kind, name in (("comments", "comment"), ("threadedComment", "threadedComment")):
            for comments in filter(self.archive.take_once, self.archive.parts(kind, part)):
                for comment in iter_elements(self.archive.blocks(comments), name):
                    inner = comment.find("text")
                    text = "" if inner is None else (inner.text or "").strip() or cell_text(inner)
                    # This is a copy for programs without threads, and says that they need some.
                    if text and not text.startswith("[Threaded comment]"):
                        yield f"{comment.get('ref', '')}: {text}"

    def rows(self, part: str) -> Iterator[list[str]]:
        """Return the rows of a sheet, without its empty rows and its empty columns."""
        rows = [cells for cells in self.filled_cells(part) if cells]
        columns = sorted({column for cells in rows for column in cells})
        if len(columns) * len(rows) > self.limits.characters:
            raise too_much_text_error(self.limits)
        return ([cells.get(column, "") for column in columns] for cells in rows)

    def filled_cells(self, part: str) -> Iterator[dict[int, str]]:
        """Yield the texts of each row's cells that are not empty, by column number.

        A row is a dict, because it may begin far to the right: a list would need an empty text for
        every cell before.
        """
        characters = 0
        for row in iter_elements(self.archive.blocks(part), "row"):
            cells: dict[int, str] = {}
            at = -1
            for cell in row.iter("c"):
                column = column_of(cell.get("r"))
                at = at + 1 if column is None else column
                if text := self.display(cell):
                    cells[at] = text
                    characters += len(text)
            if characters > self.limits.characters:
                raise too_much_text_error(self.limits)
            yield cells

    def display(self, cell: Element) -> str:
        """Return the text that a cell shows."""
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
            return self.format_number(float(value), int(cell.get("s", "0")))
        return value

    def format_number(self, value: float, style: int) -> str:
        if style in self.date_styles and 0 <= value < 3_000_000:
            if value < 1:
                return str((self.day_zero + timedelta(days=value)).time().replace(microsecond=0))
            moment = self.day_zero + timedelta(seconds=round(value * 86_400))
            return str(moment.date()) if value == int(value) else str(moment)
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.15g}"


def read_xlsx(path: Path, name: str, limits: ReadLimits) -> Extracted:
    with Archive(path, limits) as archive:
        sections = tuple(Workbook(archive, limits).sections())
        metadata = properties(archive)
    title = metadata.pop("title", None)
    return Extracted(sections, kind="xlsx", title=title, metadata=metadata)


def cell_text(element: Element) -> str:
    """Return rich text without its formatting and phonetic guides."""
    pieces = [element.findtext("t") or "", *(run.findtext("t") or "" for run in element.iter("r"))]
    return "".join(pieces)


def date_styles(styles: Element) -> frozenset[int]:
    """Return the indices of the cell styles that show a number as a date or a time."""
    own = {
        entry.get("numFmtId", ""): entry.get("formatCode", "") for entry in styles.iter("numFmt")
    }
    cells = styles.find("cellXfs")
    formats = [entry.get("numFmtId", "0") for entry in cells] if cells is not None else []
    return frozenset(
        style
        for style, format_id in enumerate(formats)
        if int(format_id) in DATE_FORMATS
        or re.search("[ymdhs]", QUOTED_FORMAT.sub("", own.get(format_id, "").lower()))
    )


def column_of(reference: str | None) -> int | None:
    """Return the number of a cell's column, counted from 0. For example, `C7` is in column 2.

    Return None if the cell has no reference.
    """
    letters = COLUMN.match(reference or "")
    if not letters:
        return None
    number = 0
    for letter in letters[0]:
        number = number * 26 + ord(letter) - ord("A") + 1
    return min(number, MAX_COLUMNS) - 1


# CSV, and files with other delimiters

CSV_DELIMITERS = ",;\t|"
# A field may be as long as the file.
csv.field_size_limit(2**31 - 1)


def read_csv(path: Path, name: str, limits: ReadLimits, charset: str | None = None) -> Extracted:
    text = decode(path.read_bytes(), charset).replace("\x00", "")
    lines = text.splitlines(keepends=True)
    rows = csv.reader(lines, delimiter=csv_delimiter(lines[:50]))
    return Extracted((Section(records(rows)),), kind="csv")


def csv_delimiter(lines: list[str]) -> str:
    """Return the delimiter of a CSV file.

    For each delimiter, the line that has the fewest of it counts. The delimiter with the highest
    count wins, and a tie is decided by the counts in all lines.
    """
    filled = [line for line in lines if line.strip()] or [""]
    return max(
        CSV_DELIMITERS,
        key=lambda delimiter: (
            min(line.count(delimiter) for line in filled),
            sum(line.count(delimiter) for line in filled),
        ),
    )
