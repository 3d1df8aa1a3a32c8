"""The messages between a worker and its supervisor, each framed by magic bytes and its length."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct

from penstock.isolation.death import Death

# Each message begins with these bytes, so that foreign bytes are recognised at once, even where
# they could be a length. No text begins like this.
MAGIC: Final = b"\xf5\x00PS"
_HEADER: Final = struct.Struct("<4sI")
READ_BYTES: Final = 256 * 1024


def frame_message(message: bytes) -> bytes:
    """Return the message with its header, as it is sent."""
    return _HEADER.pack(MAGIC, len(message)) + message


def receive(channel: socket.socket) -> bytes | None:
    """Read from a non-blocking socket.

    Return None if nothing has arrived, and b"" if the socket was closed.
    """
    try:
        return channel.recv(READ_BYTES)
    except BlockingIOError:
        return None
    except OSError:
        return b""  # Reset: the other side went and had not read all.


class InvalidMessage(Exception):
    """The bytes that arrived are not a message, or the message is too long."""


class Frames:
    """Assembles messages from the bytes that arrive."""

    def __init__(self, max_bytes: int = 2**32) -> None:
        self._rest = bytearray()
        self._max_bytes = max_bytes

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Add bytes, and yield the messages that are complete."""
        rest = self._rest
        rest += data
        at = 0
        try:
            while len(rest) - at >= _HEADER.size:
                magic, length = _HEADER.unpack_from(rest, at)
                if magic != MAGIC:
                    raise InvalidMessage(f"bytes that no message begins with: {magic!r}")
                if length > self._max_bytes:
                    raise InvalidMessage(
                        f"a message of {length} bytes, but only {self._max_bytes} are allowed"
                    )
                end = at + _HEADER.size + length
                if len(rest) < end:
                    return
                at, begin = end, at + _HEADER.size
                yield bytes(memoryview(rest)[begin:end])
            if not MAGIC.startswith(start := bytes(rest[at : at + len(MAGIC)])):
                raise InvalidMessage(f"bytes that no message begins with: {start!r}")
        finally:
            del rest[:at]


class ChildPlan(Struct, frozen=True):
    """What a child imports, which function is its main loop, and the settings of this function.

    Settings are plain values.
    """

    main_loop: str
    settings: Any
    modules: list[str] = []
    path: list[str] = []
    # Functions to call before the modules are imported, as "module:function".
    before: list[str] = []
    # How to import the worker's `__main__`, by name or by path.
    main: dict[str, str] = {}


class Start(Struct, tag=True):
    """Start a child. The child's end of the channel is sent with this message."""

    number: int
    row: int


class Kill(Struct, tag=True):
    """Kill a child."""

    number: int


class DeathReport(Struct, tag=True):
    """A child has died."""

    number: int
    death: Death


class Prepared(Struct, tag=True):
    """The supervisor has imported what children need, or has failed to do so."""

    forks: bool
    trouble: str | None = None


ToSupervisor = Start | Kill
FromSupervisor = DeathReport | Prepared

encode = msgspec.msgpack.Encoder().encode
read_plan = msgspec.msgpack.Decoder(ChildPlan).decode
read_orders = msgspec.msgpack.Decoder(ToSupervisor).decode
read_news = msgspec.msgpack.Decoder(FromSupervisor).decode
