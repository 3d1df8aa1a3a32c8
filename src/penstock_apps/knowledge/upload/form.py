"""A form of which one part is arriving and others have been given."""

from __future__ import annotations

from pathlib import Path

from penstock_apps.knowledge.upload.errors import UploadRefused
from penstock_apps.knowledge.upload.field_part import FieldPart
from penstock_apps.knowledge.upload.file_part import FilePart
from penstock_apps.knowledge.upload.headers import media_type_of, names_of
from penstock_apps.knowledge.upload.limits import Limits
from penstock_apps.knowledge.upload.parts import Ended, Event, Headers
from penstock_apps.knowledge.upload.received import Field, Oversized, Received

Item = Received | Oversized | Field


class Form:
    """Turns the parts of a form into files and fields, and counts them."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self._folder = folder
        self._limits = limits
        self._part: FilePart | FieldPart | None = None
        self._bytes = 0
        self._files = 0
        self._fields = 0

    def count(self, chunk: bytes) -> None:
        self._bytes += len(chunk)
        if self._bytes > self._limits.request_bytes:
            raise UploadRefused(
                "too_large",
                f"An upload may have {self._limits.request_bytes:,} bytes. "
                "The files before are kept: send the others in further requests.",
            )

    async def handle(self, event: Event) -> Item | None:
        """What is complete with this event, if anything."""
        match event:
            case dict():
                self._part = self._begin(event)
            case bytes() if self._part is not None:
                await self._part.write(event)
            case Ended() if self._part is not None:
                item = await self._part.finish()
                self._part = None
                return item
            case UploadRefused():
                raise event
        return None

    async def abandon(self) -> None:
        """Leave nothing of a part that has not arrived whole."""
        if self._part is not None:
            await self._part.abandon()

    def _begin(self, headers: Headers) -> FilePart | FieldPart:
        field, file = names_of(headers)
        if file is None:
            self._fields += 1
            _check("fields", self._fields, self._limits.fields)
            return FieldPart(field, self._limits.field_bytes)
        self._files += 1
        _check("files", self._files, self._limits.files)
        return FilePart(file, field, media_type_of(headers), self._folder, self._limits.file_bytes)


def _check(what: str, number: int, allowed: int) -> None:
    if number > allowed:
        raise UploadRefused(
            "too_many",
            f"An upload may have {allowed:,} {what}. "
            "Those before are kept: send the others in further requests.",
        )
