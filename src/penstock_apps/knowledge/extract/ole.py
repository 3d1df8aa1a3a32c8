"""Files of Office before 2007, and newer ones that are locked: both look alike from outside."""

from __future__ import annotations

from pathlib import Path

from penstock_apps.knowledge.errors import Skipped
from penstock_apps.knowledge.extract.archive import locked
from penstock_apps.knowledge.extract.limits import Limits
from penstock_apps.knowledge.text import Extracted

# The name of what a locked document is kept under, as the container writes it.
LOCKED = "EncryptedPackage".encode("utf-16-le")


def read(path: Path, name: str, limits: Limits) -> Extracted:
    if LOCKED in path.read_bytes():
        raise locked()
    raise Skipped(
        "unsupported",
        "Files of Office before 2007 and of Outlook are not read. "
        "Save it as .docx, .xlsx, .pptx, .eml or PDF.",
    )
