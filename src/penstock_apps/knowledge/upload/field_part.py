"""A value of a form, while it arrives."""

from __future__ import annotations

from penstock_apps.knowledge.upload.errors import UploadRefused
from penstock_apps.knowledge.upload.received import Field


class FieldPart:
    """Kept in memory, so it is short."""

    def __init__(self, name: str, most_bytes: int) -> None:
        self._name = name
        self._most = most_bytes
        self._value = bytearray()

    async def write(self, data: bytes) -> None:
        self._value += data
        if len(self._value) > self._most:
            raise UploadRefused(
                "too_large",
                f"The field {self._name:.60} has more than {self._most:,} bytes. "
                "Send long texts as files.",
            )

    async def finish(self) -> Field:
        return Field(self._name, self._value.decode(errors="replace"))

    async def abandon(self) -> None:
        self._value.clear()
