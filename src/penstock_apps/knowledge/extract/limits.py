"""The limits on the files that Penstock reads."""

from __future__ import annotations

from dataclasses import dataclass, fields

MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """The limits on a file and its contents.

    A file that exceeds a limit is refused, with three exceptions. Pages beyond `scanned` are not
    read by OCR, and attachments beyond `attachments` or `nested` are left out.
    """

    bytes: int = 200 * MEGABYTE
    pages: int = 10_000
    inflated: int = 1024 * MEGABYTE
    characters: int = 50_000_000
    # How many times larger a compressed part may become. Text shrinks to a tenth, a sheet of zeros
    # to a hundredth, and a zip bomb to a thousandth.
    ratio: int = 400
    # How many pages without text are read by OCR, which takes seconds for each.
    scanned: int = 50
    # How many references the parts of an office document may have, to other parts and to web pages.
    references: int = 200_000
    # How many attachments of a mail are read, and how deep mails may be nested in mails.
    attachments: int = 20
    nested: int = 2

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value < 0:
                raise ValueError(f"ReadLimits.{field.name} is {value}; it must be 0 or more.")
