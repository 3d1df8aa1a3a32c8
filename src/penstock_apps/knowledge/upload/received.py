"""What an upload has brought."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from msgspec import Struct


class Field(Struct, frozen=True):
    """A value of the form."""

    name: str
    value: str


class Received(Struct, frozen=True):
    """A whole file, on the disk of this machine; it belongs to who received it.

    with received:
        await storage.put(tenant, received.path, received.digest)
    """

    name: str
    field: str
    media_type: str
    path: Path
    digest: bytes
    bytes: int

    def __enter__(self) -> Received:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.path.unlink(missing_ok=True)


class Oversized(Struct, frozen=True):
    """A file that is larger than allowed: it was not kept, the others are."""

    name: str
    field: str
    bytes: int
    allowed: int

    @property
    def message(self) -> str:
        return (
            f"{self.name} has {self.bytes:,} bytes, and a file may have {self.allowed:,}. "
            "Split it, or have the limit raised."
        )
