"""CSV and its kin."""

from __future__ import annotations

import csv
from pathlib import Path

from penstock_apps.knowledge.extract.detect import decode
from penstock_apps.knowledge.extract.limits import Limits
from penstock_apps.knowledge.extract.tables import records
from penstock_apps.knowledge.text import Extracted, Section

DELIMITERS = ",;\t|"
# A field may be as long as the file.
csv.field_size_limit(2**31 - 1)


def read(path: Path, name: str, limits: Limits, charset: str | None = None) -> Extracted:
    text = decode(path.read_bytes(), charset).replace("\x00", "")
    lines = text.splitlines(keepends=True)
    rows = csv.reader(lines, delimiter=delimiter(lines[:50]))
    return Extracted((Section(records(rows)),), kind="csv")


def delimiter(lines: list[str]) -> str:
    """The one that stands most often in the line where it stands least."""
    filled = [line for line in lines if line.strip()] or [""]
    return max(
        DELIMITERS,
        key=lambda mark: (
            min(line.count(mark) for line in filled),
            sum(line.count(mark) for line in filled),
        ),
    )
