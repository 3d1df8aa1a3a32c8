"""Messages over a socket, each after its length."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Final

_LENGTH: Final = struct.Struct("<I")
READ: Final = 256 * 1024


def framed(message: bytes) -> bytes:
    """A message as it is sent."""
    return _LENGTH.pack(len(message)) + message


def received(channel: socket.socket) -> bytes | None:
    """What has arrived on a channel that does not wait: None if nothing has, b"" if it is over."""
    try:
        return channel.recv(READ)
    except BlockingIOError:
        return None
    except OSError:
        return b""  # Reset: the other side went and had not read all.


class TooLong(Exception):
    """A message is longer than it may be."""


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
            while len(rest) - at >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(rest, at)
                if length > self._longest:
                    raise TooLong(f"A message of {length} bytes; {self._longest} are allowed.")
                end = at + _LENGTH.size + length
                if len(rest) < end:
                    return
                at, begin = end, at + _LENGTH.size
                yield bytes(memoryview(rest)[begin:end])
        finally:
            del rest[:at]
