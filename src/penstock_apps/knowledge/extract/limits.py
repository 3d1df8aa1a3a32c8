"""How much of a file is read before it is refused."""

from __future__ import annotations

from dataclasses import dataclass, fields

MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest file that is read; each number is the last one allowed."""

    bytes: int = 200 * MEGABYTE
    pages: int = 10_000
    inflated: int = 1024 * MEGABYTE
    characters: int = 50_000_000
    # Text shrinks to a tenth, a sheet of zeros to a hundredth, a bomb to a thousandth.
    ratio: int = 400
    # Pages without text that are read by OCR, which takes seconds each.
    scanned: int = 50
    # How many links the parts of an office document may have, to other parts and to web pages.
    references: int = 200_000
    # Attachments of a mail that are read, and how deep mails may stand within mails.
    attachments: int = 20
    nested: int = 2

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value < 0:
                raise ValueError(f"Limits.{field.name} is {value}; it must be 0 or more.")
