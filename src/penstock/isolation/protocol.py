"""Messages between a worker and its supervisor, each framed by a mark and its length."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct

from penstock.isolation.death import Death

# Each message begins with it, so that the first bytes of anything else give themselves away, also
# where they could be a length. No text begins like this.
MARK: Final = b"\xf5\x00PS"
_HEAD: Final = struct.Struct("<4sI")
READ: Final = 256 * 1024


def framed(message: bytes) -> bytes:
    """A message as it is sent."""
    return _HEAD.pack(MARK, len(message)) + message


def received(channel: socket.socket) -> bytes | None:
    """What has arrived on a channel that does not wait: None if nothing has, b"" if it is over."""
    try:
        return channel.recv(READ)
    except BlockingIOError:
        return None
    except OSError:
        return b""  # Reset: the other side went and had not read all.


class NotAMessage(Exception):
    """What has arrived is no message, or one that is longer than it may be."""


class Frames:
    """Puts messages together again from what arrives."""

    def __init__(self, longest: int = 2**32) -> None:
        self._rest = bytearray()
        self._longest = longest

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The messages that are whole now."""
        rest = self._rest
        rest += data
        at = 0
        try:
            while len(rest) - at >= _HEAD.size:
                mark, length = _HEAD.unpack_from(rest, at)
                if mark != MARK:
                    raise NotAMessage(f"bytes that no message begins with: {mark!r}")
                if length > self._longest:
                    raise NotAMessage(f"a message of {length} bytes; {self._longest} are allowed")
                end = at + _HEAD.size + length
                if len(rest) < end:
                    return
                at, begin = end, at + _HEAD.size
                yield bytes(memoryview(rest)[begin:end])
            if not MARK.startswith(start := bytes(rest[at : at + len(MARK)])):
                raise NotAMessage(f"bytes that no message begins with: {start!r}")
        finally:
            del rest[:at]


class Plan(Struct, frozen=True):
    """What a child is to be: the modules it imports, the function that is its life and what that
    gets, as plain values."""

    life: str
    given: Any
    modules: list[str] = []
    path: list[str] = []
    # Called before the modules are imported, as "module:function".
    before: list[str] = []
    # How to find what is `__main__` in the worker, by name or by path.
    main: dict[str, str] = {}


class Start(Struct, tag=True):
    """Start a child; its end of the channel comes along."""

    number: int
    row: int


class Kill(Struct, tag=True):
    """Kill a child."""

    number: int


class Died(Struct, tag=True):
    """A child is dead."""

    number: int
    death: Death


class Settled(Struct, tag=True):
    """The supervisor has imported what children need, or could not."""

    forks: bool
    trouble: str | None = None


ToSupervisor = Start | Kill
FromSupervisor = Died | Settled

encode = msgspec.msgpack.Encoder().encode
read_plan = msgspec.msgpack.Decoder(Plan).decode
read_orders = msgspec.msgpack.Decoder(ToSupervisor).decode
read_news = msgspec.msgpack.Decoder(FromSupervisor).decode
